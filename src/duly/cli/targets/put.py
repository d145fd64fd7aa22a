"""``duly targets put``, ``rotate`` and ``secret``: the commands that handle secrets."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.output import note, print_json, screen
from duly.cli.payloads import read_text
from duly.cli.targets.views import done_to
from duly.decide.targets.targets import WEBHOOK, origin_of
from duly.duly import Duly
from duly.errors import Invalid, Misuse, NotFound, Problem
from duly.records.target import TARGET_JSON, Target

Tenant = Annotated[str, Parameter(help="Tenant of the target (default: default)")]
SecretFile = Annotated[
    str | None,
    Parameter(help="File with the secret, whsec_…, instead of a new one; - is standard input", metavar="FILE"),
]


def register(app: App) -> None:
    app.command(put, sort_key=10)
    app.command(rotate, sort_key=11)
    app.command(secret, sort_key=12)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SendingOptions:
    """Options for how events are sent to a target."""

    channel: Annotated[
        str, Parameter(help="webhook (default): signed; http: any request, not signed", metavar="WHICH")
    ] = WEBHOOK
    method: Annotated[str | None, Parameter(help="With --channel http: method (default: POST)")] = None
    format: Annotated[
        str | None, Parameter(help="Format of a webhook: standard (default) or cloudevents", metavar="WHICH")
    ] = None
    timeout: Annotated[
        str | None,
        Parameter(help="Time-out for the answer (default: 30s)", metavar="SPAN", allow_leading_hyphen=True),
    ] = None
    retry_statuses: Annotated[
        str | None,
        Parameter(
            help="With --channel http: the only statuses that are retried, such as 404,409 (default: 401, 403, 404, "
            "408, 425, 429 and 5xx)",
            metavar="LIST",
            allow_leading_hyphen=True,
        ),
    ] = None
    header: Annotated[
        list[str] | None,
        Parameter(help="Header to send, such as 'X-Team: billing'; may be repeated", metavar="'NAME: VALUE'"),
    ] = None
    header_file: Annotated[
        str | None,
        Parameter(help="File with one 'Name: value' per line, for headers that must not be in the shell's "
"history; - is "
                  "standard input", metavar="FILE"),
    ] = None  # fmt: skip
    no_headers: Annotated[bool, Parameter(help="Remove its headers")] = False

    def options(self) -> dict[str, Any]:
        return {
            "channel": self.channel,
            "method": self.method,
            "format": self.format,
            "timeout": self.timeout,
            "retry_statuses": None if self.retry_statuses is None else _read_statuses(self.retry_statuses),
            "headers": self._headers(),
        }

    def _headers(self) -> dict[str, str] | None:
        """The given headers; None to keep the stored ones."""
        if self.no_headers:
            if self.header or self.header_file is not None:
                raise Misuse("--no-headers removes all headers: do not give other headers with it")
            return {}
        lines = [] if self.header_file is None else read_text(self.header_file).splitlines()
        given = [*(self.header or ()), *(line for line in lines if line.strip())]
        return _read_headers(given) if given or self.header_file is not None else None


AS_USUAL = SendingOptions()


def _read_statuses(written: str) -> list[int | str]:
    """The statuses in a list such as 404,409. What is no number stays text, and the check of the target names it."""
    words = [word.strip() for word in written.split(",") if word.strip()]
    return [int(word) if word.isascii() and word.isdigit() else word for word in words]


def _read_headers(lines: Sequence[str]) -> dict[str, str]:
    """The headers in lines of ``Name: value``. A line that cannot be read is not repeated in the error, because it may
    be a secret."""
    headers: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        name, colon, value = line.partition(":")
        if not colon:
            raise Invalid([Problem("headers", f"number {number} is not 'Name: value'")])
        if any(name.strip().lower() == other.lower() for other in headers):
            raise Invalid([Problem("headers", f"{name.strip()!r:.50} is given twice")])
        headers[name.strip()] = value.strip()
    return headers


def put(
    name: str,
    url: Annotated[str, Parameter(help="URL, such as https://hooks.example/in")],
    /,
    *,
    options: SendingOptions = AS_USUAL,
    secret_file: SecretFile = None,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> None:
    """Create or replace a target. A new webhook target gets a secret, which is shown only once.

    Options that are not given get their defaults; only the secret and the headers are kept.

    duly targets put crm https://hooks.example/in
    """
    asyncio.run(_put(name, url, options.options(), secret_file, tenant, invocation))


async def _put(
    name: str, url: str, options: dict[str, Any], secret_file: str | None, tenant: str, invocation: Invocation
) -> None:
    given = _read_secret(secret_file)
    async with invocation.duly() as duly:
        change = "changed" if await _exists(duly, name, tenant) else "created"
        target = await duly.targets.put(name, url, secret=given, tenant=tenant, by=person(), **options)
    _tell(target, change, None if given else target.secret, invocation)


async def _exists(duly: Duly, name: str, tenant: str) -> bool:
    try:
        await duly.targets.get(name, tenant=tenant)
    except NotFound:
        return False
    return True


def rotate(
    name: str,
    /,
    *,
    keep: Annotated[
        str,
        Parameter(
            help="How long the old secret is used as well (default: 1d)", metavar="SPAN", allow_leading_hyphen=True
        ),
    ] = "1d",
    secret_file: SecretFile = None,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> None:
    """Rotate the secret of a webhook target. The new one is shown once; the old one is also used for a while."""
    asyncio.run(_rotate(name, keep, secret_file, tenant, invocation))


async def _rotate(name: str, keep: str, secret_file: str | None, tenant: str, invocation: Invocation) -> None:
    given = _read_secret(secret_file)
    async with invocation.duly_for_looking() as duly:
        target = await duly.targets.rotate(name, secret=given, keep=keep, tenant=tenant, by=person())
    _tell(target, "rotated", None if given else target.secret, invocation)
    if not invocation.json:
        note(f"requests are signed with the old secret as well for {keep}")


def _read_secret(file: str | None) -> str | None:
    return None if file is None else read_text(file).strip()


def _tell(target: Target, change: str, secret: str | None, invocation: Invocation) -> None:
    if invocation.json:
        print_json(TARGET_JSON.write(target) | {"change": change} | ({} if secret is None else {"secret": secret}))
        return
    console = screen()
    console.print(done_to(target, change), soft_wrap=True)
    if secret is not None:
        console.print(f"secret {secret}", soft_wrap=True)
        note("the receiver needs this secret to verify signatures; it is not shown again")


def secret(
    url: Annotated[str, Parameter(help="URL of webhooks without a stored target", metavar="URL")],
    /,
    *,
    tenant: Annotated[str, Parameter(help="Tenant of the webhooks (default: default)")] = "default",
    invocation: Hidden,
) -> None:
    """Print the signing secret of webhooks without a stored target. All URLs of an origin have the same secret.

    It is derived from DULY_SECRET_KEY, the tenant and the origin, and can be shown again.
    """
    found = invocation.duly().targets.signing_secret(url, tenant=tenant)
    if invocation.json:
        print_json({"origin": origin_of(url), "tenant": tenant, "secret": found})
    else:
        screen().print(found, soft_wrap=True)
