from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from duly import to
from duly.config import read_settings
from duly.decide.targets.broker_allow import BrokerAllow, read_broker_allow
from duly.decide.targets.brokers import spelled_out
from duly.errors import BadSetting

EXAMPLE = (
    "nats:orders.{tenant}.>, redis:{tenant}:*, kafka:{tenant}-*, rabbitmq:{tenant}.*, rabbitmq:orders/{tenant}.*, "
    "celery:shop.*, celery:shop.*/{tenant}"
)


def problems(allow: str | BrokerAllow, target: dict[str, Any], tenant: str = "acme") -> list[str]:
    patterns = read_broker_allow(allow) if isinstance(allow, str) else allow
    [(channel, spec)] = target.items()
    return [str(one) for one in patterns.problems(tenant, channel, spelled_out(channel, spec))]


ADDRESSES = [
    to.nats("orders.acme.due"),
    to.nats("orders.acme.due.today"),
    to.redis("acme:orders"),
    to.redis("acme:"),
    to.kafka("acme-orders", key="any"),
    to.rabbitmq("acme.orders"),
    to.rabbitmq("acme.orders", exchange=""),
    to.rabbitmq("acme.orders", exchange="orders"),
    to.celery("shop.remind"),
    to.celery("shop.remind", queue="acme"),
]


@pytest.mark.parametrize("target", ADDRESSES)
def test_every_place_is_closed_until_a_pattern_opens_it_to_a_tenant(target: dict[str, Any]) -> None:
    [closed] = problems("", target)
    assert "tenant 'acme' may not use " in closed
    assert "DULY_BROKER_ALLOW" in closed
    assert problems(EXAMPLE, target) == []


@pytest.mark.parametrize(
    "target",
    [
        to.nats("orders.globex.due"),
        to.nats("orders.acme"),  # > is one token or more
        to.nats("x.orders.acme.due"),
        to.redis("globex:orders"),
        to.redis("xacme:orders"),
        to.redis("acme"),
        to.redis("Acme:orders"),
        to.kafka("acme2-orders"),
        to.rabbitmq("globex.orders"),
        to.rabbitmq("globex.orders", exchange="orders"),
        to.rabbitmq("acme.orders", exchange="payments"),
        to.rabbitmq("orders"),  # an exchange that is open is no queue of that name
        to.celery("bank.pay", queue="acme"),
        to.celery("shop.remind", queue="globex"),
        {"redis": {"stream": ["acme:orders"]}},
        {"redis": 7},
        {"redis": {}},
    ],
)
def test_a_place_that_fits_no_pattern_is_closed(target: dict[str, Any]) -> None:
    assert problems(EXAMPLE, target)


def test_the_problem_names_the_field_and_no_pattern() -> None:
    [closed] = problems("redis:{tenant}:*, redis:globex-private-*", to.redis("globex:orders"))
    assert closed.startswith("target.redis.stream: tenant 'acme' may not use stream 'globex:orders' over HTTP")
    assert "globex-private" not in closed
    [closed] = problems(EXAMPLE, to.rabbitmq("k", exchange="payments"))
    assert "exchange 'payments' and routing_key 'k'" in closed


@pytest.mark.parametrize(
    ("target", "field"),
    [
        (to.redis("s", max_length=1), "target.redis.max_length"),
        (to.nats("s", headers={"Nats-Rollup": "all"}), "target.nats.headers.Nats-Rollup"),
        (to.nats("s", headers={"nats-expected-last-sequence": "1"}), "target.nats.headers.nats-expected-last-sequence"),
        (to.nats("s", headers={"Nats-Schedule-Target": "x"}), "target.nats.headers.Nats-Schedule-Target"),
        (to.rabbitmq("s", headers={"CC": "globex"}), "target.rabbitmq.headers.CC"),
        (to.rabbitmq("s", headers={"bcc": "globex"}), "target.rabbitmq.headers.bcc"),
        (to.celery("celery.map"), "target.celery.task"),
    ],
)
def test_no_pattern_opens_options_that_affect_more_than_the_message(target: dict[str, Any], field: str) -> None:
    [refused] = problems("nats:>, redis:*, rabbitmq:*, celery:*", target)
    assert refused.startswith(f"{field}: ")
    assert "from Python" in refused


def test_ordinary_headers_are_open() -> None:
    headers = {"X-Shop": "7", "Natsy": "x"}
    for target in (to.nats("s", headers=headers), to.redis("s", headers=headers), to.rabbitmq("s", headers=headers)):
        assert problems("nats:>, redis:*, rabbitmq:*", target) == []


@pytest.mark.parametrize("tenant", ["*", "a*", "{tenant}", ".*", "[a-z]+", "a|b", "\\d", ">", "?"])
def test_the_name_of_a_tenant_in_a_pattern_is_taken_literally(tenant: str) -> None:
    allow = "redis:{tenant}:*, kafka:{tenant}, celery:x/{tenant}"
    assert problems(allow, to.redis(f"{tenant}:x"), tenant) == []
    assert problems(allow, to.celery("x", queue=tenant), tenant) == []
    for other in ("acme", "b", "7"):
        assert problems(allow, to.redis(f"{other}:x"), tenant)
        assert problems(allow, to.celery("x", queue=other), tenant)


def test_a_brace_in_a_pattern_is_written_twice() -> None:
    """Redis clusters keep together what has the same name in braces."""
    allow = "redis:{{{tenant}}}:*"
    assert problems(allow, to.redis("{acme}:orders")) == []
    assert problems(allow, to.redis("acme:orders"))


def test_a_star_of_nats_is_one_token() -> None:
    allow = "nats:*.{tenant}.due"
    assert problems(allow, to.nats("orders.acme.due")) == []
    assert problems(allow, to.nats("orders.x.acme.due"))
    assert problems(allow, to.nats("orders.acme.acme.due"))


@pytest.mark.parametrize(
    ("tenant", "allow", "target"),
    [
        ("acme-eu", "kafka:{tenant}-*", to.kafka("acme-eu-orders")),
        ("acme.eu", "nats:orders.{tenant}.>", to.nats("orders.acme.eu.due")),
        ("eu:acme", "redis:*:{tenant}", to.redis("orders:eu:acme")),
    ],
)
def test_no_place_is_open_to_a_tenant_whose_name_has_the_separator(
    tenant: str, allow: str, target: dict[str, Any]
) -> None:
    """It could not be told whose it is: what is acme-eu's would be acme's as well."""
    assert problems(allow, target, tenant)


def test_a_name_that_is_given_whole_needs_no_separator() -> None:
    assert problems("kafka:{tenant}-orders", to.kafka("acme-eu-orders"), "acme-eu") == []
    assert problems("kafka:{tenant}-orders", to.kafka("acme-eu-orders"), "acme")


BAD = {
    "redis": "does not begin with a channel and a colon; channels: nats, redis, kafka, rabbitmq, celery",
    "amqp:x": "does not begin with a channel",
    "redis:": "has no pattern after the colon; for instance redis:{tenant}:*",
    "redis:{tennant}:*": "has a brace that is not part of {tenant}",
    "redis:{tenant": "has a brace",
    "redis:{tenant}*": "has {tenant}*, which would allow tenant acme the addresses of tenant acme2",
    "kafka:*{tenant}": "has *{tenant}, which",
    "redis:*:{tenant}:*": "has a * on both sides of {tenant}",
    "nats:orders.{tenant}*": "has a * beside other characters: in NATS, it stands for a whole token",
    "nats:orders..x": "has an empty token",
    "nats:orders.>.x": "has a > that is not its last token",
    "nats:orders.x>": "has a > that is not its last token",
    "celery:/queue": "has no task name before the slash",
}


@pytest.mark.parametrize(("written", "told"), BAD.items())
def test_a_bad_pattern_is_refused_at_the_start_with_the_reason(written: str, told: str) -> None:
    with pytest.raises(BadSetting) as error:
        read_settings({"DULY_BROKER_ALLOW": f"redis:ok, {written}"})
    assert told in str(error.value)
    assert f"{written!r}"[:-1] in str(error.value)


def test_no_place_is_open_without_the_setting() -> None:
    assert read_settings({}).broker_allow == BrokerAllow()
    assert str(read_settings({"DULY_BROKER_ALLOW": " redis:a:* ,nats:b,"}).broker_allow) == "redis:a:*, nats:b"
    assert read_settings({}, broker_allow="redis:a").broker_allow == read_broker_allow("redis:a")


def words(letters: Sequence[str], most: int) -> list[str]:
    return ["".join(word) for length in range(1, most + 1) for word in product(letters, repeat=length)]


@pytest.mark.parametrize(("channel", "field", "between"), [("redis", "stream", "-"), ("nats", "subject", ".")])
def test_no_pattern_with_a_tenant_opens_an_address_to_two_of_them(channel: str, field: str, between: str) -> None:
    """All short patterns, tenants and addresses that can be made of one letter and one separator."""
    tenants, addresses = words(["a", between], 3), words(["a", between], 5)
    opened = 0
    for pattern in words(["{tenant}", "*", ">", "a", between], 4):
        try:
            allow = read_broker_allow(f"{channel}:{pattern}") if "{tenant}" in pattern else BrokerAllow()
        except ValueError:
            continue
        owners: dict[str, str] = {}
        for tenant, address in product(tenants, addresses) if allow.patterns else ():
            if not any(allow.problems(tenant, channel, {field: address})):
                assert owners.setdefault(address, tenant) == tenant, (pattern, address)
                opened += 1
    assert opened > 100
