"""Output for API keys."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from duly.cli.events.views import beneath, empty_table, in_columns
from duly.cli.output import away, readable, utc
from duly.decide.targets.rates import show_rate
from duly.records.api_key import ApiKey

ONE_LINE_EACH = 160
"""The width, in columns, from which on a key fits on one line."""

STATES = {"active": "green", "expired": "yellow", "revoked": "dim"}


def table(keys: Sequence[ApiKey], now: datetime, width: int) -> Table:
    return (_wide if width >= ONE_LINE_EACH else _narrow)(keys, now, width)


def _wide(keys: Sequence[ApiKey], now: datetime, width: int) -> Table:
    columns: dict[str, Sequence[str | Text]] = {
        "ID": [key.id for key in keys],
        "NAME": [readable(key.name) for key in keys],
        "KEY": [f"{key.hint}…" for key in keys],
        "TENANT": [_tenants(key) for key in keys],
        "SCOPE": [key.scope.value for key in keys],
        "STATE": [_state(key, now) for key in keys],
        "RATE": ["" if key.rate is None else show_rate(key.rate) for key in keys],
        "CREATED": [utc(key.created)[:10] for key in keys],
        "EXPIRES": ["never" if key.expires is None else away(key.expires - now) for key in keys],
        "LAST USED": ["never" if key.last_used is None else away(key.last_used - now) for key in keys],
    }
    return in_columns(columns, ("NAME", "TENANT"), width)


def _narrow(keys: Sequence[ApiKey], now: datetime, width: int) -> Table:
    drawn = empty_table()
    drawn.add_column("KEY", width=max(40, width - 10), overflow="fold")
    drawn.add_column("STATE", no_wrap=True, width=7)
    for key in keys:
        drawn.add_row(Text.assemble((readable(key.name), "bold"), f"  {key.hint}…"), _state(key, now))
        drawn.add_row(beneath(key.id, "dim"))
        drawn.add_row(beneath(" · ".join(_facts(key, now)), "dim"))
    return drawn


def _facts(key: ApiKey, now: datetime) -> Iterator[str]:
    yield f"{key.scope.value} for {_tenants(key)}"
    if key.rate is not None:
        yield show_rate(key.rate)
    yield f"made {utc(key.created)[:10]}"
    if key.expires is not None:
        yield f"{'expires' if key.expires > now else 'expired'} {away(key.expires - now)}"
    yield "never used" if key.last_used is None else f"used {away(key.last_used - now)}"


def _tenants(key: ApiKey) -> str:
    return f"{readable(key.tenant)} and all tenants" if key.all_tenants else readable(key.tenant)


def _state(key: ApiKey, now: datetime) -> Text:
    state = key.state(now)
    return Text(state, STATES[state])


def done_to(key: ApiKey, word: str) -> Text:
    """A line about a key that was created or revoked: its scope, tenants, expiry and rate."""
    ends = "" if key.expires is None else f", until {utc(key.expires)} UTC"
    often = "" if key.rate is None else f", {show_rate(key.rate)}"
    return Text.assemble(
        f"{word} ", (readable(key.name), "bold"), f"  {key.scope.value} for {_tenants(key)}{ends}{often}"
    )
