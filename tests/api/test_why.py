"""Why an event has not fired yet, or did not: a kind for programs, and a sentence for people."""

from datetime import timedelta

import pytest

from duly import Duly, Event, NotFound, Retry, every, webhook
from duly.testing import ManualClock
from tests.make import HOUR, START

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
    since = "it could have begun at 2026-01-01T00:00:00Z, but no event of its lane was started within the last hour"
    assert await told(app, greeting) == (
        "waiting",
        f"{since}: check that a worker is running that has a handler for 'greet'",
    )
    assert await told(app, hook) == ("waiting", f"{since}: check that a worker is running that delivers by webhook")


async def test_why_a_due_event_waits_says_which_worker_is_busy(app: Duly) -> None:
    await app.at(START, "greet")
    [first] = await app.store.claim("ada", {"handler:greet": 1}, MINUTE)
    second = await app.at(START, "greet")
    kind, sentence = await told(app, second)
    assert kind == "waiting"
    assert sentence.endswith("worker ada started another one of its lane at 2026-01-01T00:00:00Z")
    assert await told(app, first) == ("running", "worker ada began attempt 1 at 2026-01-01T00:00:00Z")
    assert (await app.events.why(first.id)).next_at == START + MINUTE


async def test_why_an_interrupted_event_waits_says_which_worker_had_it(app: Duly, clock: ManualClock) -> None:
    event = await app.at(START, "greet")
    await app.store.claim("ada", {"handler:greet": 1}, MINUTE)
    clock.advance(HOUR)
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
    await app.every("digest", every("1h", start=START), "digest")
    await app.schedules.pause("digest")
    [head] = [one for one in await app.events.find() if one.head]
    assert await told(app, head) == ("held", "it is held: paused")


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
    await app.at(START, "x", tenant="other")
    [started] = await app.store.claim("ada", {"handler:x": 1}, MINUTE)
    event = await app.at(START, "x", tenant="acme")
    assert "no event of its lane was started" in (await app.events.why(event.id, tenant="acme")).message
    assert f"worker {started.worker} started" in (await app.events.why(event.id)).message
    for id, tenant in ((event.id, "other"), (NOBODY, None)):
        with pytest.raises(NotFound):
            await app.events.why(id, tenant=tenant)
