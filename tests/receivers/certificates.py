"""Certificates for the doors that speak TLS, and the authority that a client would have to trust."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AUTHORITY = "authority.pem"
HERE = [x509.DNSName("localhost"), x509.DNSName("hooks.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
ELSEWHERE = [x509.DNSName("elsewhere.example")]
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a certificate, and can sign others."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey


def make_certificates(folder: Path) -> None:
    """``authority.pem`` to trust, and for each door a file with its certificate and key."""
    authority, own = _new("Hostile Authority"), _new("localhost")
    _write(folder / AUTHORITY, _certificate(authority, authority, is_authority=True))
    _write(folder / "trusted.pem", _certificate(own, authority, names=HERE), own.key)
    _write(folder / "self-signed.pem", _certificate(own, own, names=HERE), own.key)
    _write(folder / "expired.pem", _certificate(own, authority, names=HERE, ends=-DAY), own.key)
    _write(folder / "wrong-host.pem", _certificate(own, authority, names=ELSEWHERE), own.key)


def _new(name: str) -> Holder:
    return Holder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), ec.generate_private_key(ec.SECP256R1()))


def _certificate(
    holder: Holder,
    issuer: Holder,
    *,
    names: Sequence[x509.GeneralName] = (),
    ends: timedelta = DAY,
    is_authority: bool = False,
) -> x509.Certificate:
    now, public = datetime.now(UTC), holder.key.public_key()
    builder = (
        x509.CertificateBuilder(issuer.name, holder.name, public, x509.random_serial_number())
        .not_valid_before(now - 10 * DAY)
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer.key, hashes.SHA256())


def _write(path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey | None = None) -> None:
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    own = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) if key else b""
    path.write_bytes(certificate.public_bytes(pem) + own)
