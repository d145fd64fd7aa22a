"""Settings from the environment. A bad value names the variable, the value and what is allowed."""

import os
import re
from collections.abc import Callable, Mapping
from datetime import time, timedelta
from ipaddress import ip_network
from typing import Any

import msgspec

from duly.core.addresses import Network, read_networks
from duly.core.durations import EXAMPLES, format_duration, parse_duration
from duly.core.secrets import MAKE_KEY, SHORTEST_KEY, Keys
from duly.core.users import read_time
from duly.errors import BadSetting, Problem


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Each is read from ``DULY_`` and its name in capitals."""

    database_url: str = "sqlite:///duly.db"
    app: str | None = None
    poll_interval: timedelta = timedelta(seconds=5)
    lookahead: timedelta = timedelta()
    batch_size: int = 1000
    concurrency: int = 100
    lease: timedelta = timedelta(seconds=30)
    shutdown_grace: timedelta = timedelta(seconds=25)
    late_after: timedelta = timedelta(minutes=5)
    delivery_time: time = time(9)
    secret_key: Keys = Keys(None)
    webhook_allow: tuple[Network, ...] = ()
    nats_url: str | None = None
    redis_url: str | None = None
    rabbitmq_url: str | None = None
    kafka_url: str | None = None
    celery_url: str | None = None
    log_format: str = "text"


_SPANS = {  # the least and the most of each
    "poll_interval": (timedelta(milliseconds=10), timedelta(hours=1)),
    "lookahead": (timedelta(), timedelta(milliseconds=500)),
    "lease": (timedelta(seconds=1), timedelta(hours=24)),
    "shutdown_grace": (timedelta(), timedelta(hours=24)),
    "late_after": (timedelta(), timedelta(days=365)),
}
_NUMBERS = {"batch_size": (1, 1000), "concurrency": (1, 10_000)}
_CHOICES = {"log_format": ("text", "json")}
_SCHEMES = ("sqlite://", "postgresql://", "postgres://")


def read_settings(environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """The environment's settings; an override that is not None wins, and is checked in the same way."""
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        variable = f"DULY_{name.upper()}"
        written = overrides.get(name)
        if written is None:
            written = environment.get(variable) or None
        if written is not None:
            values[name] = _parse(name, variable, written)
    return Settings(**values)


def _parse(name: str, variable: str, written: Any) -> Any:
    if name in _SPANS:
        return _span(variable, written, *_SPANS[name])
    if name in _NUMBERS:
        return _number(variable, written, *_NUMBERS[name])
    if name in _READERS:
        return _READERS[name](variable, written)
    if name in _CHOICES and written not in _CHOICES[name]:
        raise BadSetting(variable, written, " or ".join(_CHOICES[name]))
    if name == "database_url" and not str(written).startswith(_SCHEMES):
        raise BadSetting(variable, redacted(written), "sqlite:///path/to/file.db or postgresql://user@host/database")
    return written


def redacted(url: object) -> str:
    """A database URL without its password, for messages."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(url))


def _span(variable: str, written: Any, least: timedelta, most: timedelta) -> timedelta:
    try:
        span = written if isinstance(written, timedelta) else parse_duration(str(written))
    except ValueError:
        raise BadSetting(variable, written, EXAMPLES) from None
    if not least <= span <= most:
        raise BadSetting(variable, written, f"{EXAMPLES}, from {format_duration(least)} to {format_duration(most)}")
    return span


def _time_of_day(variable: str, written: Any) -> time:
    found = read_time(variable, written)
    if isinstance(found, Problem):
        raise BadSetting(variable, written, "a time of day such as 09:00")
    return found


def _keys(variable: str, written: Any) -> Keys:
    keys = written if isinstance(written, Keys) else Keys(str(written))
    if keys.too_short:
        raise BadSetting(variable, "***", f"at least {SHORTEST_KEY} characters in each key; {MAKE_KEY}")
    return keys


def _networks(variable: str, written: Any) -> tuple[Network, ...]:
    try:
        return tuple(read_networks(written) if isinstance(written, str) else map(ip_network, written))
    except (ValueError, TypeError) as error:
        raise BadSetting(variable, written, f"networks such as 10.0.0.0/8,fd00::/8 ({error})") from None


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "delivery_time": _time_of_day,
    "secret_key": _keys,
    "webhook_allow": _networks,
}


def _number(variable: str, written: Any, least: int, most: int) -> int:
    try:
        number = int(written) if isinstance(written, str) else written
        if type(number) is not int:
            raise ValueError(written)
    except ValueError:
        raise BadSetting(variable, written, f"a whole number from {least} to {most}") from None
    if not least <= number <= most:
        raise BadSetting(variable, written, f"a whole number from {least} to {most}")
    return number
