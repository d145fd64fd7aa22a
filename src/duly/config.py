"""Settings from the environment. A bad value names the variable, the value and what is allowed."""

import os
import re
from collections.abc import Callable, Mapping
from datetime import time, timedelta
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import msgspec

from duly.decide.calendars.users import read_time
from duly.decide.retention import EXAMPLE as A_RETENTION
from duly.decide.retention import Retention, read_retention
from duly.decide.targets.addresses import Network, read_networks
from duly.decide.targets.broker_allow import BrokerAllow, read_broker_allow
from duly.decide.targets.command_allow import read_folders
from duly.decide.targets.rates import EXAMPLES as RATES
from duly.decide.targets.rates import read_rate
from duly.decide.targets.secrets import MAKE_KEY, SHORTEST_KEY, SecretKeys
from duly.errors import BadSetting, Invalid, Problem
from duly.values.durations import EXAMPLES, format_duration, parse_duration
from duly.values.instance import EXAMPLES as AN_INSTANCE
from duly.values.instance import Instance, read_instance


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. Each is read from the environment variable ``DULY_`` and its name in capitals."""

    database_url: str = "sqlite:///duly.db"
    app: str | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    api_rate: float = 1000.0
    api_role: str | None = "duly_api"  # None: off
    max_connections: int | None = None
    poll_interval: timedelta = timedelta(seconds=5)
    lookahead: timedelta = timedelta()
    batch_size: int = 1000
    concurrency: int = 100
    lease: timedelta = timedelta(seconds=30)
    store_timeout: timedelta = timedelta(seconds=10)
    shutdown_grace: timedelta = timedelta(seconds=25)
    late_after: timedelta = timedelta(minutes=5)
    key_memory: timedelta = timedelta(days=365)
    retention: Retention = Retention()
    delivery_time: time = time(9)
    secret_key: SecretKeys = SecretKeys(None)
    webhook_allow: tuple[Network, ...] = ()
    broker_allow: BrokerAllow = BrokerAllow()
    commands: tuple[str, ...] | None = None  # None: no commands are run
    trusted_proxies: tuple[Network, ...] = ()
    nats_url: str | None = None
    redis_url: str | None = None
    rabbitmq_url: str | None = None
    kafka_url: str | None = None
    celery_url: str | None = None
    log_format: str = "text"
    instance: Instance | None = None


_SPANS = {  # the minimum and the maximum of each
    "poll_interval": (timedelta(milliseconds=10), timedelta(hours=1)),
    "lookahead": (timedelta(), timedelta(milliseconds=500)),
    "lease": (timedelta(seconds=1), timedelta(hours=24)),
    "store_timeout": (timedelta(milliseconds=50), timedelta(hours=24)),
    "shutdown_grace": (timedelta(), timedelta(hours=24)),
    "late_after": (timedelta(), timedelta(days=365)),
    "key_memory": (timedelta(seconds=1), timedelta(days=36_500)),
}
_NUMBERS = {"batch_size": (1, 1000), "concurrency": (1, 10_000), "port": (0, 65_535), "max_connections": (1, 1_000_000)}
_CHOICES = {"log_format": ("text", "json")}
_SCHEMES = ("sqlite://", "postgresql://")
_POSTGRES = re.compile(r"postgres(?:ql)?(?:\+(asyncpg|psycopg|psycopg2|psycopg_async|pg8000))?://")
_BROKERS = {  # the URL schemes of each, and how its URL is written
    "nats_url": ("nats tls", "nats://host:4222, or several separated by commas; tls://… for encryption"),
    "redis_url": ("redis rediss unix", "redis://host:6379/0, or rediss://… for encryption"),
    "rabbitmq_url": ("amqp amqps", "amqp://user:password@host:5672/vhost, or amqps://… for encryption"),
    "kafka_url": ("kafka kafka+ssl", "kafka://host:9092,host:9092, or kafka+ssl://… for encryption"),
    "celery_url": ("", "the broker_url of Celery, such as redis://host:6379/0 or amqp://user:password@host//"),
}


def read_settings(environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """The settings of the environment; an override that is not None takes precedence, and is checked in the same
    way."""
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        variable = f"DULY_{name.upper()}"
        written = overrides.get(name)
        if written is None:
            written = environment.get(variable) or None
        if written is not None:
            values[name] = _parse(name, variable, written)
    settings = Settings(**values)
    if "store_timeout" not in values:
        return msgspec.structs.replace(settings, store_timeout=default_store_timeout(settings.lease))
    if settings.store_timeout >= settings.lease:
        raise BadSetting(
            "DULY_STORE_TIMEOUT",
            format_duration(settings.store_timeout),
            f"less than the lease, DULY_LEASE={format_duration(settings.lease)}: a worker must know that a "
            "renewal failed before the lease ends",
        )
    return settings


def default_store_timeout(lease: timedelta) -> timedelta:
    """A third of the lease, so that a renewal can fail and be retried before the lease ends; at most 10 s."""
    return min(timedelta(seconds=10), lease / 3)


def _parse(name: str, variable: str, written: Any) -> Any:
    if name in _SPANS:
        return _span(variable, written, *_SPANS[name])
    if name in _NUMBERS:
        return _number(variable, written, *_NUMBERS[name])
    if name in _READERS:
        return _READERS[name](variable, written)
    if name in _BROKERS and not (
        isinstance(written, str) and all(_leads_to(name, url) for url in _each(name, written))
    ):
        raise BadSetting(variable, without_login(written), _BROKERS[name][1])
    if name in _CHOICES and written not in _CHOICES[name]:
        raise BadSetting(variable, written, " or ".join(_CHOICES[name]))
    if name == "database_url":
        written = plain_database_url(str(written))
    if name == "database_url" and not written.startswith(_SCHEMES):
        raise BadSetting(
            variable, without_login(written), "sqlite:///path/to/file.db or postgresql://user@host/database"
        )
    return written


def plain_database_url(url: str) -> str:
    """The URL of a database without the name of a driver, which SQLAlchemy puts into it. Other URLs are returned
    unchanged.

    >>> plain_database_url("postgresql+asyncpg://ada@host/shop?ssl=require")
    'postgresql://ada@host/shop?sslmode=require'
    """
    found = _POSTGRES.match(url)
    if found is None:
        return re.sub(r"^sqlite\+(aiosqlite|pysqlite)://", "sqlite://", url)
    plain = f"postgresql://{url[found.end() :]}"
    return re.sub(r"([?&])ssl=", r"\1sslmode=", plain) if found[1] == "asyncpg" else plain


def redacted(url: object) -> str:
    """A database URL without its password, for messages."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(url))


def without_login(text: object) -> str:
    """The text without the logins of URLs, even malformed ones, and without passwords in query strings.

    >>> without_login("cannot reach nats://token@one:4222,nats://ada:se@cret@two")
    'cannot reach nats://***@one:4222,nats://***@two'
    """
    shown = re.sub(r"((?:[\w+]+://)?)(?:(?![,;][\w+]+://)[^\s'\"])*@", r"\1***@", str(text))
    return re.sub(r"(?i)([?&]\w*password=)[^\s&]*", r"\1***", shown)


def _each(name: str, url: str) -> list[str]:
    """The servers that a setting names, as URLs."""
    if name == "kafka_url":
        scheme, between, rest = url.partition("://")
        return [f"{scheme}{between}{server}" for server in re.split(r"[/?]", rest)[0].rpartition("@")[2].split(",")]
    return url.split({"nats_url": ",", "celery_url": ";"}.get(name, "\n"))


def _leads_to(name: str, url: str) -> bool:
    schemes = _BROKERS[name][0].split()
    try:
        parts = urlsplit(url.strip())
        parts.port  # noqa: B018 - asking is what finds a bad one
    except ValueError:
        return False
    if not url.isprintable() or "://" not in url:
        return False
    if not schemes:  # Celery checks its own URLs; but no worker would ever find a task in its in-memory broker
        return parts.scheme not in ("", "memory")
    return parts.scheme in schemes and (bool(parts.hostname) or parts.scheme == "unix")


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


def _keys(variable: str, written: Any) -> SecretKeys:
    keys = written if isinstance(written, SecretKeys) else SecretKeys(str(written))
    if keys.too_short:
        raise BadSetting(variable, "***", f"at least {SHORTEST_KEY} characters in each key; {MAKE_KEY}")
    return keys


def _networks(variable: str, written: Any) -> tuple[Network, ...]:
    try:
        return tuple(read_networks(written) if isinstance(written, str) else map(ip_network, written))
    except (ValueError, TypeError) as error:
        raise BadSetting(variable, written, f"networks such as 10.0.0.0/8,fd00::/8 ({error})") from None


def _patterns(variable: str, written: Any) -> BrokerAllow:
    try:
        return written if isinstance(written, BrokerAllow) else read_broker_allow(str(written))
    except ValueError as error:
        example = "patterns such as redis:{tenant}:*, nats:orders.{tenant}.>"
        raise BadSetting(variable, written, f"{example}; {error}") from None


def _folders(variable: str, written: Any) -> tuple[str, ...] | None:
    try:
        return read_folders(written)
    except ValueError as error:
        example = "on, off, or folders such as /opt/jobs, separated by commas"
        raise BadSetting(variable, written, f"{example}; {error}") from None


def _host(variable: str, written: Any) -> str:
    if not isinstance(written, str) or not re.fullmatch(r"[A-Za-z0-9.:%_-]+|\[[0-9A-Fa-f.:%]+\]", written):
        raise BadSetting(variable, written, "a name or address to listen on, such as 127.0.0.1, ::1 or 0.0.0.0")
    return written.strip("[]")


def _retention(variable: str, written: Any) -> Retention:
    if isinstance(written, Retention):
        return written
    try:
        return read_retention(format_duration(written) if isinstance(written, timedelta) else str(written))
    except ValueError as error:
        raise BadSetting(variable, written, f"{A_RETENTION}, each span from 1s to 36500d ({error})") from None


def _rate(variable: str, written: Any) -> float:
    try:
        return 1 / read_rate(written).total_seconds()
    except Invalid:
        raise BadSetting(variable, written, f"{RATES}, for each API key") from None


def _role(variable: str, written: Any) -> str | None:
    """The name of a database role that needs no quotes unless it is a word of SQL; None for ``off``."""
    if written == "off":
        return None
    if (
        not isinstance(written, str)
        or not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", written)
        or written.startswith("pg_")
        or written in ("public", "none")
    ):
        raise BadSetting(
            variable,
            written,
            "the name of a PostgreSQL role, of lower-case letters, digits and _, such as duly_api; or off, which is "
            "for one tenant",
        )
    return written


def _instance(variable: str, written: Any) -> Instance:
    try:
        return written if isinstance(written, Instance) else read_instance(str(written))
    except ValueError as error:
        raise BadSetting(variable, written, f"{AN_INSTANCE} ({error})") from None


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "host": _host,
    "api_role": _role,
    "api_rate": _rate,
    "retention": _retention,
    "delivery_time": _time_of_day,
    "secret_key": _keys,
    "webhook_allow": _networks,
    "broker_allow": _patterns,
    "commands": _folders,
    "trusted_proxies": _networks,
    "instance": _instance,
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
