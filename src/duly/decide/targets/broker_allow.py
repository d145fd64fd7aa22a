"""The broker addresses that requests over HTTP may name: the patterns of ``DULY_BROKER_ALLOW``, for each tenant."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from duly.decide.targets.brokers import CELERY, KAFKA, NATS, RABBITMQ, REDIS, WORDS
from duly.errors import Problem

SETTING = "DULY_BROKER_ALLOW"

ADDRESS = {  # the fields of a target that form its address; together they must match one pattern
    NATS: ("subject",),
    REDIS: ("stream",),
    KAFKA: ("topic",),
    RABBITMQ: ("exchange", "routing_key"),
    CELERY: ("task", "queue"),
}
EXAMPLES = {
    NATS: "nats:orders.{tenant}.>",
    REDIS: "redis:{tenant}:*",
    KAFKA: "kafka:{tenant}-*",
    RABBITMQ: "rabbitmq:{tenant}.*, or rabbitmq:EXCHANGE/{tenant}.*",
    CELERY: "celery:shop.tasks.*, or celery:shop.tasks.*/{tenant}",
}
PART_SEPARATOR = "/"
"""The separator in addresses of two parts. A single part is a queue of RabbitMQ, or a Celery task for the default
queue."""

MOST_KNOWN = 1000
"""The most tenants whose compiled patterns are cached."""

ANY = "*"  # any text; in NATS, one whole token
REST = ">"  # in NATS, all tokens that follow
TENANT = "{tenant}"  # the name of the tenant

_WORD = re.compile(r"\{\{|\}\}|\{tenant\}|[*>]|[^{}*>]+|.", re.DOTALL)

_BUILTIN_TASKS = "celery."
"""The prefix of Celery's built-in tasks. Some, such as celery.map, run any task that their arguments name."""

_ROUTING_HEADERS = frozenset({"cc", "bcc"})
"""Headers that give RabbitMQ further routing keys."""

_COMMAND_HEADERS = "nats-"
"""The prefix of headers that are commands to the NATS server: to delete earlier messages (Nats-Rollup), or to publish
to another subject (Nats-Schedule-Target)."""


class Part(NamedTuple):
    """One part of an address pattern: literal text and wildcards."""

    words: tuple[tuple[str, bool], ...]  # each with whether it is literal
    separator: str | None  # a tenant's name must not contain it, or two tenants could match the same address

    def matcher(self, tenant: str, channel: str) -> re.Pattern[str] | None:
        """The regular expression for a tenant; None if the tenant's name contains the separator, because the end of the
        name would be ambiguous."""
        if self.separator is not None and self.separator in tenant:
            return None
        meaning = {ANY: r"[^.]+" if channel == NATS else ".*", REST: ".+", TENANT: re.escape(tenant)}
        written = (re.escape(text) if literal else meaning[text] for text, literal in self.words)
        return re.compile("".join(written), re.DOTALL)


class Pattern(NamedTuple):
    """One entry of the setting."""

    written: str
    channel: str
    parts: tuple[Part, ...]


Matchers = tuple[re.Pattern[str], ...]


class BrokerAllow:
    """The broker addresses that are open over HTTP. An address is closed unless a pattern opens it."""

    def __init__(self, patterns: tuple[Pattern, ...] = ()) -> None:
        self.patterns = patterns
        self._of = lru_cache(MOST_KNOWN)(self._matchers)

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BrokerAllow) and self.patterns == other.patterns

    def __hash__(self) -> int:
        return hash(self.patterns)

    def __repr__(self) -> str:
        return f"BrokerAllow({str(self)!r})"

    def __str__(self) -> str:
        return ", ".join(pattern.written for pattern in self.patterns)

    def problems(self, tenant: str, channel: str, said: Any) -> Iterator[Problem]:
        """The parts of a tenant's broker target that are not open to the tenant."""
        path = f"target.{channel}"
        if not isinstance(said, Mapping):
            yield Problem(path, f"is not valid: expected {WORDS[channel].expected}, or an object")
            return
        if not self._fits(tenant, channel, said):
            fields = [field for field in ADDRESS[channel] if said.get(field)]
            named = " and ".join(f"{field} {str(said[field])!r:.80}" for field in fields) or "this target"
            yield Problem(
                f"{path}.{fields[-1] if len(fields) == 1 else WORDS[channel].where}",
                f"tenant {tenant!r} may not use {named} over HTTP: the operator of the server can allow it "
                f"with a pattern in {SETTING}, such as {EXAMPLES[channel]}; from Python, every address may be used",
            )
        yield from _refused_options(path, channel, said)

    def _fits(self, tenant: str, channel: str, said: Mapping[str, Any]) -> bool:
        address = [said.get(field) or "" for field in ADDRESS[channel]]
        if not all(isinstance(part, str) for part in address):
            return False
        return any(
            all(matcher.fullmatch(part) for matcher, part in zip(matchers, address, strict=True))
            for matchers in self._of(tenant).get(channel, ())
        )

    def _matchers(self, tenant: str) -> dict[str, list[Matchers]]:
        found: dict[str, list[Matchers]] = {}
        for pattern in self.patterns:
            matchers = tuple(part.matcher(tenant, pattern.channel) for part in pattern.parts)
            if whole := tuple(matcher for matcher in matchers if matcher is not None):
                found.setdefault(pattern.channel, []).extend([whole] if len(whole) == len(matchers) else [])
        return found


def _refused_options(path: str, channel: str, said: Mapping[str, Any]) -> Iterator[Problem]:
    """Options that would affect more than the message itself. No pattern opens them."""
    headers = said.get("headers")
    names = [str(name) for name in headers] if isinstance(headers, Mapping) else []
    python = "from Python, such a target may be used"
    if channel == CELERY and str(said.get("task")).startswith(_BUILTIN_TASKS):
        yield Problem(
            f"{path}.task",
            f"is a built-in task of Celery that can run any other task, and is refused over HTTP; {python}",
        )
    if channel == REDIS and said.get("max_length") is not None:
        message = f"removes existing entries of the stream, and is refused over HTTP; {python}"
        yield Problem(f"{path}.max_length", message)
    for name in names:
        if channel == NATS and name.lower().startswith(_COMMAND_HEADERS):
            message = f"affects other messages, and is refused over HTTP; {python}"
            yield Problem(f"{path}.headers.{name:.50}", message)
        elif channel == RABBITMQ and name.lower() in _ROUTING_HEADERS:
            message = f"sends the message to further queues, and is refused over HTTP; {python}"
            yield Problem(f"{path}.headers.{name:.50}", message)


# -- reading the setting


def read_broker_allow(written: str) -> BrokerAllow:
    """Reads patterns separated by commas; raises ValueError for the first invalid one."""
    entries = [entry.strip() for entry in written.split(",")]
    return BrokerAllow(tuple(_pattern(entry) for entry in entries if entry))


def _pattern(entry: str) -> Pattern:
    channel, colon, rest = entry.partition(":")
    if channel not in ADDRESS or not colon:
        raise ValueError(f"{entry!r:.100} does not begin with a channel and a colon; channels: {', '.join(ADDRESS)}")
    if not rest or rest != rest.strip() or not rest.isprintable():
        raise ValueError(f"{entry!r:.100} has no pattern after the colon; for instance {EXAMPLES[channel]}")
    try:
        return Pattern(entry, channel, tuple(_part(channel, text) for text in _parts(channel, rest)))
    except ValueError as error:
        raise ValueError(f"{entry!r:.100} {error}") from None


def _parts(channel: str, rest: str) -> tuple[str, ...]:
    if len(ADDRESS[channel]) == 1:
        return (rest,)
    first, between, second = rest.partition(PART_SEPARATOR)
    if channel == RABBITMQ:
        return (first, second) if between else ("", rest)
    if not first:
        raise ValueError("has no task name before the slash")
    return (first, second)


def _part(channel: str, text: str) -> Part:
    words = [_word(found) for found in _WORD.findall(text)]
    if channel != NATS:
        words = [(word, literal or word == REST) for word, literal in words]
        return Part(tuple(words), _separator(words))
    tokens = text.split(".")
    if not all(tokens) or any(c.isspace() for c in text):
        raise ValueError("has an empty token or a space: a subject consists of tokens separated by dots")
    if any(ANY in token and token != ANY for token in tokens):
        raise ValueError("has a * beside other characters: in NATS, it stands for a whole token")
    if any(REST in token and (token != REST or place + 1 < len(tokens)) for place, token in enumerate(tokens)):
        raise ValueError("has a > that is not its last token")
    wild = any(word in (ANY, REST) for word, _ in words)
    return Part(tuple(words), "." if wild and (TENANT, False) in words else None)


def _word(found: str) -> tuple[str, bool]:
    """A word of a pattern, and whether it is literal."""
    if found in (ANY, REST, TENANT):
        return found, False
    if found in ("{{", "}}"):
        return found[0], True
    if found in ("{", "}"):
        raise ValueError(f"has a brace that is not part of {TENANT}: write a literal brace twice")
    return found, True


def _separator(words: list[tuple[str, bool]]) -> str | None:
    """The character between the tenant's name and a wildcard, which keeps tenants apart; None if the pattern does not
    combine them."""
    tenants = [place for place, (word, literal) in enumerate(words) if word == TENANT and not literal]
    stars = [place for place, (word, literal) in enumerate(words) if word == ANY and not literal]
    if not tenants or not stars:
        return None
    if stars[0] < tenants[0] and tenants[-1] < stars[-1]:
        raise ValueError(f"has a * on both sides of {TENANT}, so one address could be allowed for two tenants")
    after = stars[0] > tenants[0]
    run = tenants[0] if after else tenants[-1]
    step = 1 if after else -1
    while words[run] == (TENANT, False):
        run += step
    word, literal = words[run]
    if not literal:
        both = f"{TENANT}*" if after else f"*{TENANT}"
        raise ValueError(
            f"has {both}, which would allow tenant acme the addresses of tenant acme2: put a "
            "character such as : between them"
        )
    return word[0] if after else word[-1]
