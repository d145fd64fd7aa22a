"""Why an event has not fired yet, or did not: a kind for programs, and a sentence for people."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly import Duly, Event, NotFound, Retry, every, webhook
from duly.engine.presence.beat import row_of
from duly.testing import ManualClock
from tests.make import HOUR, START, held

MINUTE = timedelta(minutes=1)
NOBODY = "00000000-0000-7000-8000-000000000000"


async def told(app: Duly, event: Event) -> tuple[str, str]:
    found = await app.events.why(event.id)
    assert (found.id, found.status) == (event.id, (await app.events.get(event.id)).status)
    return found.kind, found.message


async def test_why_an_event_waits_that_is_due_later_says_when(app: Duly) -> None:
    event = await app.at(START + HOUR, "x")
    assert await told(app, event) == ("scheduled", "it is due at 2026-01-01T01:00:00Z")
    assert (await app.events.why(event.id)).next_at == START + HOUR


async def test_why_an_event_waits_that_nobody_serves_says_what_to_start(app: Duly, clock: ManualClock) -> None:
    greeting = await app.at(START, "greet")
    hook = await app.at(START, "x", target=webhook("https://hooks.example/duly"))
    could = "it could have begun at 2026-01-01T00:00:00Z, but no worker has"
    assert await told(app, greeting) == (
        "unserved",
        f"{could} ever served its lane, handler:greet: start a worker that has a handler for 'greet'",
    )
    await at_work(app, "ada", "webhook")
    clock.advance(HOUR)
    assert await told(app, hook) == (
        "unserved",
        f"{could} served its lane, webhook, since 2026-01-01T00:00:00Z: start a worker that delivers by webhook",
    )


async def at_work(app: Duly, name: str, *lanes: str, **more: Any) -> None:
    """As if a worker had just beaten."""
    row = msgspec.structs.replace(row_of(name, lanes, app.settings, tick=False), **more)
    await app.store.beat(row, timedelta(), begins=True)


async def test_why_a_due_event_waits_says_behind_how_many_others(app: Duly) -> None:
    await at_work(app, "ada", "handler:greet")
    first = await app.at(START, "greet")
    second = await app.at(START, "greet")
    third = await app.at(START, "greet")
    could = "it could have begun at 2026-01-01T00:00:00Z: it"
    next_one = f"{could} is the next of its lane, of which 0 run; a worker takes it as soon as it has a place"
    assert await told(app, first) == ("waiting", next_one)
    [claimed] = await app.store.claim("ada", {"handler:greet": 1}, MINUTE)
    assert claimed.id == first.id
    behind = f"{could} waits its turn behind 1 other event of its lane, of which 1 run"
    assert await told(app, third) == ("waiting", behind)
    assert (await told(app, second))[1].startswith(f"{could} is the next of its lane, of which 1 run")
    leased = "worker ada began attempt 1 at 2026-01-01T00:00:00Z; it is leased until 2026-01-01T00:01:00Z"
    assert await told(app, first) == ("running", leased)
    assert (await app.events.why(first.id)).next_at == START + MINUTE


async def test_why_an_event_waits_that_ticks_alone_serve_says_when_the_last_one_was(
    app: Duly, clock: ManualClock
) -> None:
    app.on("greet")(lambda _: None)
    await app.tick()
    clock.advance(MINUTE)
    event = await app.at(START, "greet")
    kind, sentence = await told(app, event)
    ticked = "no worker is at work on its lane; the last `duly tick` ended at 2026-01-01T00:00:00Z"
    assert (kind, sentence) == (
        "waiting",
        f"it could have begun at 2026-01-01T00:00:00Z: {ticked}, and the next one takes it, or a worker",
    )
    await at_work(app, "ada", "handler:greet")
    assert "a worker takes it as soon as it has a place" in (await told(app, event))[1]


async def test_why_an_event_waits_whose_broker_is_down_says_why(app: Duly) -> None:
    event = await app.at(START, "x", target={"nats": "orders"})
    await at_work(app, "ada", "nats", closed_json='{"nats":"no route to host"}')
    kind, sentence = await told(app, event)
    assert kind == "down"
    assert sentence.endswith("but what its lane needs is down at the moment: no route to host")
    await at_work(app, "bo", "nats")  # who reaches it
    assert (await told(app, event))[0] == "waiting"


async def test_why_a_limit_keeps_an_event_waiting_says_which(app: Duly, clock: ManualClock) -> None:
    hook = webhook("https://hooks.example/duly")
    await at_work(app, "ada", "webhook")
    await app.targets.limit("https://hooks.example", concurrency=1)
    await app.at(START, "x", target=hook)
    event = await app.at(START, "x", target=hook)
    assert (await told(app, event))[0] == "waiting"
    await app.store.claim("ada", {"webhook": 1}, MINUTE)
    could = "it could have begun at 2026-01-01T00:00:00Z, but"
    many = "as many events of its destination https://hooks.example run as may run at once: 1 in each worker"
    assert await told(app, event) == ("limit", f"{could} {many}")
    await app.targets.limit("https://hooks.example", rate="1/m")
    assert (await told(app, event))[0] == "waiting"
    await app.store.allow([("default", "https://hooks.example", 1)])
    kind, sentence = await told(app, event)
    assert (kind, sentence[: len(could)]) == ("limit", could)
    assert "its destination https://hooks.example gets no more than" in sentence
    clock.advance(MINUTE)
    assert (await told(app, event))[0] != "limit"


async def test_why_an_event_waits_for_a_parked_target_says_so(app: Duly) -> None:
    hook = webhook("https://hooks.example/duly")
    await at_work(app, "ada", "webhook")
    event = await app.at(START, "x", target=hook)
    await app.targets.disable("https://hooks.example", reason="it moves")
    assert (await told(app, event))[0] == "parked"


async def test_why_an_event_is_held_by_a_parked_target_says_when_it_is_tried_again(app: Duly) -> None:
    event = await app.at(START, "x", target=webhook("https://hooks.example/duly"))
    [claimed] = await app.store.claim("ada", {"webhook": 1}, MINUTE)
    await app.store.park("default", "https://hooks.example", "is parked: 503", MINUTE)
    await app.store.settle([held(claimed)], "ada")
    why = await app.events.why(event.id)
    assert (why.kind, why.next_at) == ("parked", START + MINUTE)


async def test_why_tells_a_tenant_no_host_no_worker_and_no_numbers(app: Duly, clock: ManualClock) -> None:
    await at_work(app, "secret-host:1:abc", "handler:greet")
    for _ in range(3):
        await app.at(START, "greet", tenant="other")
    event = await app.at(START, "greet", tenant="acme")

    async def discreet() -> str:
        return (await app.events.why_told(event.id, tenant="acme", discreet=True)).message

    assert await discreet() == "it could have begun at 2026-01-01T00:00:00Z: it waits its turn"
    assert "behind 3 other events" in (await app.events.why(event.id)).message
    await app.store.claim("secret-host:1:abc", {"handler:greet": 9}, MINUTE)
    leased = "a worker began attempt 1 at 2026-01-01T00:00:00Z; it is leased until 2026-01-01T00:01:00Z"
    assert await discreet() == leased
    clock.advance(HOUR)
    await at_work(app, "secret-host:1:abc", "handler:greet")
    assert "secret" not in await discreet()


async def test_why_an_interrupted_event_waits_says_which_worker_had_it(app: Duly, clock: ManualClock) -> None:
    event = await app.at(START, "greet")
    await app.store.claim("ada", {"handler:greet": 1}, MINUTE)
    clock.advance(HOUR)
    assert (await told(app, event))[0] == "unserved"
    await at_work(app, "bo", "handler:greet")
    kind, sentence = await told(app, event)
    assert kind == "interrupted"
    assert sentence.startswith("worker ada began attempt 1 at 2026-01-01T00:00:00Z and stopped without a trace: ")


async def test_why_a_retry_or_dead_letter_waits_says_what_failed(app: Duly, clock: ManualClock) -> None:
    @app.on("greet")
    def fail(_: Event) -> None:
        raise RuntimeError("the shop is closed")

    event = await app.at(START, "greet", retry=Retry(max_attempts=2, base=HOUR))
    await app.tick()
    kind, sentence = await told(app, event)
    assert kind == "retrying"
    assert sentence.startswith("attempt 1 of 2 failed: RuntimeError: the shop is closed")
    assert (await app.events.why(event.id)).next_at == (await app.events.get(event.id)).ready
    clock.advance(2 * HOUR)
    await app.tick()
    kind, sentence = await told(app, event)
    assert kind == "failed"
    assert sentence.startswith("it failed after 2 of 2 attempts: RuntimeError: the shop is closed")


async def test_why_a_stopped_event_waits_says_who_stopped_it_and_the_reason(app: Duly) -> None:
    event = await app.at(START + HOUR, "x")
    await app.events.cancel(event.id, by="ada", reason="the invoice was paid")
    kind, sentence = await told(app, event)
    assert (kind, sentence) == (
        "cancelled",
        "it was cancelled by ada at 2026-01-01T00:00:00Z: the invoice was paid",
    )
    assert "by ada" in (await app.events.why_told(event.id, tenant="default", discreet=True)).message
    await app.every("digest", every("1h", start=START), "digest")
    await app.schedules.pause("digest")
    [head] = [one for one in await app.events.find() if one.head]
    kind, sentence = await told(app, head)
    assert (kind, sentence) == (
        "held",
        "it is held: paused. Resume the schedule 'digest': `duly schedules resume digest`, or /resume over HTTP",
    )


async def test_why_says_of_a_skipped_or_fired_event_what_became_of_it(app: Duly, clock: ManualClock) -> None:
    @app.on("greet")
    def greet(_: Event) -> None:
        pass

    late = await app.at(START, "greet", expires=MINUTE)
    fired = await app.at(START, "greet")
    clock.advance(HOUR)
    await app.tick()
    kind, sentence = await told(app, late)
    assert kind == "skipped"
    assert sentence.endswith("expired: no attempt may begin after 2026-01-01T00:01:00Z")
    assert await told(app, fired) == ("completed", "it fired at 2026-01-01T01:00:00Z, 1h after it was due")


async def test_why_tells_a_tenant_of_its_own_events_only(app: Duly) -> None:
    event = await app.at(START, "x", tenant="acme")
    for id, tenant in ((event.id, "other"), (NOBODY, None)):
        with pytest.raises(NotFound):
            await app.events.why(id, tenant=tenant)
