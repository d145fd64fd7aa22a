from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import Invalid, Timer, to
from duly.decide.checks import target_problems
from duly.decide.planning import plan
from duly.decide.targets.brokers import LONGEST, WORDS, broker_problems, spelled_out
from duly.ids import new_ids
from tests.make import START

GOOD = {"nats": "orders.due", "redis": "orders", "rabbitmq": "orders", "kafka": "orders", "celery": "shop.remind"}


def problems(target: Any) -> dict[str, str]:
    return {problem.path: problem.message for problem in target_problems(target, WORDS)}


# -- what is said


@pytest.mark.parametrize("channel", WORDS)
def test_a_broker_target_is_its_place_unless_it_has_options(channel: str) -> None:
    assert getattr(to, channel)(GOOD[channel]) == {channel: GOOD[channel]}


def test_a_broker_target_with_options_is_an_object() -> None:
    headers = {"X-Region": "eu"}
    assert to.nats("a.b", format="cloudevents") == {"nats": {"subject": "a.b", "format": "cloudevents"}}
    assert to.redis("s", max_length=10, headers=headers) == {
        "redis": {"stream": "s", "max_length": 10, "headers": headers}
    }
    assert to.rabbitmq("k", exchange="e") == {"rabbitmq": {"routing_key": "k", "exchange": "e"}}
    assert to.kafka("t", key="") == {"kafka": {"topic": "t", "key": ""}}
    assert to.celery("shop.remind", queue="slow") == {"celery": {"task": "shop.remind", "queue": "slow"}}


def test_all_constructors_of_targets_are_in_one_module() -> None:
    assert set(to.__all__) == {*WORDS, "webhook", "http", "command"}


@pytest.mark.parametrize(
    "target",
    [
        to.nats("orders"),
        to.nats("orders.*.due".replace("*", "eu"), headers={"Nats-Expected-Stream": "ORDERS"}),
        to.nats("a" * LONGEST),
        to.nats("bücher.due", format="standard"),
        to.redis("user:7:due soon"),
        to.redis("s", max_length=1),
        to.rabbitmq("orders.due"),
        to.rabbitmq("", exchange="fan"),
        to.rabbitmq("k", exchange=""),
        to.rabbitmq("k", headers={"id": "7"}),
        to.kafka("orders.due_2-x", key="täg"),
        to.kafka("...", key=""),
        to.celery("shop.tasks.remind", queue="slow"),
        {"celery": {"task": "t"}},
    ],
)
def test_a_valid_broker_target_has_no_problems(target: Any) -> None:
    assert problems(target) == {}


# -- what is wrong


@pytest.mark.parametrize("channel", WORDS)
@pytest.mark.parametrize("spec", [None, 7, True, [], ["orders"]])
def test_a_broker_target_is_text_or_an_object(channel: str, spec: Any) -> None:
    [(path, message)] = problems({channel: spec}).items()
    assert path == f"target.{channel}"
    assert message == f"expected {WORDS[channel].expected}, or an object, not {type(spec).__name__}"


@pytest.mark.parametrize("channel", WORDS)
def test_an_object_without_a_place_needs_one(channel: str) -> None:
    assert problems({channel: {}}) == {f"target.{channel}": f"needs {WORDS[channel].where}: {WORDS[channel].expected}"}


@pytest.mark.parametrize(
    ("channel", "place"),
    [
        ("nats", ""),
        ("nats", "orders."),
        ("nats", ".orders"),
        ("nats", "orders..due"),
        ("nats", "orders.*"),
        ("nats", "orders.>"),
        ("nats", "orders due"),
        ("nats", "$JS.API.STREAM.DELETE.ORDERS"),
        ("nats", "$SYS.REQ.SERVER.PING"),
        ("nats", "_INBOX.abc"),
        ("redis", ""),
        ("rabbitmq", ""),
        ("kafka", ""),
        ("kafka", "."),
        ("kafka", ".."),
        ("kafka", "orders/due"),
        ("kafka", "täg"),
        ("kafka", "x" * 250),
        ("celery", ""),
        ("celery", "shop remind"),
        *((channel, bad) for channel in WORDS for bad in ("a\nb", "\x00", "\ud800", "é" * 128)),
    ],
)
def test_a_place_that_cannot_be_is_refused(channel: str, place: str) -> None:
    [path] = problems({channel: place})
    assert path == f"target.{channel}.{WORDS[channel].where}"


@pytest.mark.parametrize(
    ("target", "path", "message"),
    [
        (to.nats("a", format="xml"), "nats.format", "expected one of standard, cloudevents, not 'xml'"),
        ({"nats": {"subject": "a", "queue": "q"}}, "nats.queue", "is not known; known: subject, format, headers"),
        ({"celery": {"task": "t", "headers": {}}}, "celery.headers", "is not known; known: task, queue"),
        (to.redis("s", max_length=0), "redis.max_length", "expected a whole number from 1 to 1,000,000,000, not 0"),
        ({"redis": {"stream": "s", "max_length": True}}, "redis.max_length", "not True"),
        ({"redis": {"stream": "s", "max_length": "9"}}, "redis.max_length", "not '9'"),
        ({"rabbitmq": {"routing_key": "k", "exchange": 7}}, "rabbitmq.exchange", "expected the name of an exchange"),
        ({"kafka": {"topic": "t", "key": 7}}, "kafka.key", "expected text"),
        (to.celery("t", queue=""), "celery.queue", "expected the name of a queue"),
        ({"nats": {"subject": "a", "headers": []}}, "nats.headers", "expected an object with names and values"),
        (to.nats("a", headers={"a b": "x"}), "nats.headers", "is not a valid header name"),
        (to.nats("a", headers={"x": "é"}), "nats.headers.x", "printable ASCII"),
        (to.nats("a", headers={"NATS-Msg-Id": "7"}), "nats.headers.NATS-Msg-Id", "is set by Duly in every message"),
        (to.nats("a", headers={"content-type": "x"}), "nats.headers.content-type", "is set by Duly in every message"),
        (to.redis("s", headers={"id": "7"}), "redis.headers.id", "is set by Duly in every message"),
        (to.redis("s", headers={"Body": "7"}), "redis.headers.Body", "is set by Duly in every message"),
        (to.kafka("t", headers={"idempotency-key": "7"}), "kafka.headers.idempotency-key", "is set by Duly in every"),
        (
            to.rabbitmq("k", headers={f"x-{n}": "x" * 1000 for n in range(40)}),
            "rabbitmq.headers",
            "have more than 32,768 characters in all",
        ),
    ],
)
def test_a_wrong_option_of_a_broker_target_is_named(target: Any, path: str, message: str) -> None:
    [(found, told)] = problems(target).items()
    assert found == f"target.{path}"
    assert message in told


def test_all_problems_of_a_broker_target_are_told_at_once() -> None:
    target = {"redis": {"stream": "", "max_length": -1, "format": 7, "headers": {"id": "x"}, "colour": "red"}}
    assert set(problems(target)) == {
        f"target.redis.{name}" for name in ("stream", "max_length", "format", "headers.id", "colour")
    }
    with pytest.raises(Invalid) as refused:
        plan((Timer(START, "greet", target=target),), WORDS, new_ids)
    assert len(refused.value.problems) == 5


@given(st.sampled_from(sorted(WORDS)), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=3))
def test_any_value_as_a_place_is_checked_without_a_traceback(channel: str, spec: Any) -> None:
    found = list(broker_problems(channel, spec))
    if isinstance(spec, str):
        assert spelled_out(channel, spec) == {WORDS[channel].where: spec}
        assert list(broker_problems(channel, {WORDS[channel].where: spec})) == found
    else:
        assert found


@given(
    st.sampled_from(sorted(WORDS)),
    st.dictionaries(
        st.sampled_from(["subject", "stream", "routing_key", "topic", "task", "exchange", "key", "queue", "format"])
        | st.sampled_from(["headers", "max_length"])
        | st.text(max_size=5),
        st.none() | st.integers() | st.text(max_size=20) | st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
        max_size=4,
    ),
)
def test_every_broker_target_that_is_accepted_can_be_read(channel: str, spec: dict[str, Any]) -> None:
    if not list(broker_problems(channel, spec)):
        said = spelled_out(channel, spec)
        assert said[WORDS[channel].where].isprintable()
        assert set(said) <= {WORDS[channel].where, *WORDS[channel].more}
