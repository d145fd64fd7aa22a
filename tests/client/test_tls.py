"""Certificates are checked, and who is not to be trusted is not asked."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from duly.client import Client, ServerUnavailable
from tests.client.serving import answering
from tests.receivers.certificates import AUTHORITY, make_certificates


@asynccontextmanager
async def secure(certificate: Path, heard: list[bytes]) -> AsyncIterator[str]:
    """A server that has no events."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answering("200 OK", '{"events": [], "next_cursor": null, "next_after": null}'))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    make_certificates(tmp_path)
    return tmp_path


async def test_a_client_can_trust_an_authority_of_its_own(certificates: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(certificates / AUTHORITY))
    heard: list[bytes] = []
    async with secure(certificates / "trusted.pem", heard) as url, Client(url, key="duly_x", tls=trusting) as client:
        assert await client.events.find() == []
    assert b"Authorization: Bearer duly_x" in heard[0]


@pytest.mark.parametrize("certificate", ["trusted", "self-signed", "expired", "wrong-host"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # asyncio's own, of the connection that was refused
async def test_a_server_with_an_untrusted_certificate_gets_no_request(certificates: Path, certificate: str) -> None:
    trusting = None if certificate == "trusted" else ssl.create_default_context(cafile=str(certificates / AUTHORITY))
    heard: list[bytes] = []
    async with secure(certificates / f"{certificate}.pem", heard) as url, Client(url, tls=trusting) as client:
        with pytest.raises(ServerUnavailable, match=r"its certificate is not trusted.* after 1 attempt"):
            await client.events.find()
    assert heard == []
