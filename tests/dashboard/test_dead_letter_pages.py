"""The pages of dead letters: groups, and replays and discards of many that go on batch by batch."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Event, Rejected, Timer
from duly.dashboard.dead_letters import batches
from duly.dashboard.dead_letters.causes import cause_of
from duly.records.event import Status
from duly.records.filters import EventFilter
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from tests.conftest import OpenDuly
from tests.dashboard.elsewhere import printed, run_command, run_curl
from tests.dashboard.visiting import OpenVisitor, Page, Visitor
from tests.make import HOUR, START

FAILED = EventFilter(status=(Status.FAILED,))


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    """What it delivers is rejected, with the payload as the reason."""
    app = await duly()

    @app.on("a")
    @app.on("b")
    async def reject(event: Event) -> Rejected:
        return Rejected(str(event.payload))

    return app


@pytest.fixture
async def visitor(app: Duly, visiting: OpenVisitor) -> Visitor:
    return await visiting(app)


async def dead(app: Duly, many: int = 1, *, type: str = "a", error: str = "no", tenant: str = "default") -> list[str]:
    await app.add_many([Timer(START, type, error, tenant=tenant) for _ in range(many)])
    await app.tick()
    found = await app.events.find(EventFilter(status=(Status.FAILED,), type=type), tenant=tenant, limit=1000)
    return [event.id for event in found if event.payload == error]


async def left(app: Duly, tenant: str = "default") -> int:
    return (await app.events.dead_letters(tenant=tenant)).events


async def statuses(app: Duly, ids: list[str]) -> set[Status]:
    return {(await app.events.get(id)).status for id in ids}


def batch_of(page: Page) -> str:
    """The address of the batch whose page this is."""
    return str(page.answer.url.path)


# -- groups


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("410 Gone from hooks.example\nbody", "410 Gone from hooks.example"),
        ("ConnectionError: the bank says 503", "ConnectionError: the bank says"),
        ("No such mailbox: person8@example.org", "No such mailbox"),
        ("one two three four five six seven", "one two three four five six"),
        ("KeyError: 'x'", "KeyError"),
        ("x" * 200, "x" * 80),
        ("bell\x07rings", "bell"),
        ("", ""),
        (None, ""),
    ],
)
def test_the_cause_of_an_error_is_how_it_begins(error: str | None, cause: str) -> None:
    assert cause_of(error) == cause
    assert cause in (error or "")


async def test_dead_letters_are_grouped_by_cause_destination_and_type(app: Duly, visitor: Visitor) -> None:
    await dead(app, 3, error="no such mailbox: 1@x")
    await dead(app, 2, error="no such mailbox: 2@x")
    await dead(app, 1, type="b", error="gone")
    page = await visitor.get("/dead-letters")
    assert "6 events have failed for good" in page.text
    for words in ("5 no such mailbox", "1 gone", "5 the handler of a", "1 the handler of b", "5 a", "1 b"):
        assert words in page.text, words
    for link, many in (
        ("/events?status=FAILED&amp;error=no+such+mailbox", 5),
        ("/events?status=FAILED&amp;error=gone", 1),
        ("/events?status=FAILED&amp;type=b", 1),
    ):
        assert link in page.html
        listed = await visitor.get(link.replace("&amp;", "&"))
        assert len(re.findall(r'id="e-', listed.html)) == many


async def test_more_than_ten_thousand_are_grouped_by_the_newest(
    app: Duly, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.dashboard.views.dead_letters.MOST_READ", 20)
    monkeypatch.setattr("duly.stores.finding.counts.MOST_COUNTED", 30)
    monkeypatch.setattr("duly.records.finding.counts.MOST_COUNTED", 30)

    async def unbounded(*_: Any, **__: Any) -> Any:
        raise AssertionError("this would count all of them, one by one")

    await dead(app, 40)
    monkeypatch.setattr(Events, "dead_letters", unbounded)
    page = await visitor.get("/dead-letters")
    assert "about" in page.text
    assert "the number is estimated" in page.text
    assert page.text.count("of the newest 20") == 3


async def test_without_dead_letters_the_page_says_what_they_are(visitor: Visitor) -> None:
    page = await visitor.get("/dead-letters")
    assert "duly events list --dead" in page.text
    assert not [link for link in page.links if "replay" in link]


# -- batches


async def test_the_form_tells_how_many_of_which_kinds_and_how_long_it_takes(app: Duly, visitor: Visitor) -> None:
    await dead(app, 3)
    await dead(app, 2, type="b")
    page = await visitor.before("/dead-letters/replay", rate="30/m")
    for words in ("5 dead letters are replayed:", "3 × a", "2 × b", "One every 2.0 s: the last one 8.0 s after"):
        assert words in page.text, words
    page = await visitor.before("/dead-letters/discard", type="b", limit="1")
    assert "1 dead letter, the oldest of 2, is discarded:" in page.text
    assert "No dead letter matches." in (await visitor.before("/dead-letters/discard", type="none")).text


@pytest.mark.parametrize("verb", ["replay", "discard"])
async def test_a_group_is_replayed_or_discarded_and_nothing_else(verb: str, app: Duly, visitor: Visitor) -> None:
    of_group, others = await dead(app, 3, error="no such mailbox"), await dead(app, 2, error="gone")
    page = await visitor.act(f"/dead-letters/{verb}?error=no+such+mailbox")
    done = "replayed" if verb == "replay" else "discarded"
    assert f"3 of 3 {done}: it has ended" in page.text
    assert f"3 dead letters were {done}." in page.text
    assert await statuses(app, of_group) == {Status.PENDING if verb == "replay" else Status.CANCELLED}
    assert await statuses(app, others) == {Status.FAILED}
    [entry] = [entry for entry in await app.events.history(of_group[0]) if entry.act == done]
    assert entry.worker == "dashboard"


async def test_a_rate_spreads_what_is_replayed(app: Duly, visitor: Visitor) -> None:
    ids = await dead(app, 5)
    page = await visitor.act("/dead-letters/replay", rate="30/m")
    assert "the last one becomes ready" in page.text
    ready = sorted([(await app.events.get(id)).ready or START for id in ids])
    assert [(at - ready[0]).total_seconds() for at in ready] == [0, 2, 4, 6, 8]


async def test_a_batch_goes_on_step_by_step_through_reloads_and_never_runs_twice(
    app: Duly, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LETTERS_PER_STEP", 2)
    await dead(app, 9)
    page = await visitor.act("/dead-letters/replay", limit="7")
    address = batch_of(page)
    assert (await left(app), "2 of 7" in page.text) == (7, True)
    for _ in range(3):  # a reload changes nothing by itself
        assert "2 of 7" in (await visitor.get(address)).text
    assert await left(app) == 7
    first = page.fields
    await visitor.post(address, **first)
    assert await left(app) == 5
    for _ in range(3):  # the form of a step that was taken
        again = await visitor.post(address, **first)
        assert again.answer.headers["location"] == address
    assert await left(app) == 5
    for expected in (3, 2, 2, 2):
        await visitor.post(address, **(await visitor.get(address)).fields | {"csrf": await visitor.token()})
        assert await left(app) == expected
    assert "7 of 7 replayed: it has ended" in (await visitor.get(address)).text


async def test_two_who_take_the_same_step_at_once_take_it_once(
    app: Duly, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LETTERS_PER_STEP", 2)
    await dead(app, 8)
    page = await visitor.act("/dead-letters/discard")
    await asyncio.gather(*(visitor.post(batch_of(page), **page.fields) for _ in range(4)))
    assert await left(app) == 4


async def test_a_form_that_is_sent_twice_begins_one_batch(
    app: Duly, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LETTERS_PER_STEP", 2)
    await dead(app, 6)
    form = await visitor.get("/dead-letters/discard")
    sent = [await visitor.post("/dead-letters/discard", **form.fields) for _ in range(3)]
    assert len({one.answer.headers["location"] for one in sent}) == 1
    assert await left(app) == 4


async def test_letters_that_die_meanwhile_are_left_to_the_next_batch(
    app: Duly, visitor: Visitor, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    monkeypatch.setattr(batches, "LETTERS_PER_STEP", 2)
    await dead(app, 3)
    page = await visitor.act("/dead-letters/replay")
    clock.advance(HOUR)
    await app.tick()  # those that were replayed fail again
    await dead(app, 2)
    await visitor.post(batch_of(page), **page.fields)
    page = await visitor.get(batch_of(page))
    assert "3 of 3 replayed: it has ended" in page.text
    assert await left(app) == 4


async def test_a_batch_can_be_stopped_and_goes_on_later(
    app: Duly, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LETTERS_PER_STEP", 2)
    await dead(app, 5)
    page = await visitor.act("/dead-letters/replay")
    address = batch_of(page)
    assert 'hx-trigger="load' in page.html
    await visitor.post(address, **page.fields, stop="1")
    stopped = await visitor.get(address)
    assert ("it waits" in stopped.text, 'hx-trigger="load' in stopped.html, await left(app)) == (True, False, 3)
    await visitor.post(address, **stopped.fields)
    assert ('hx-trigger="load' in (await visitor.get(address)).html, await left(app)) == (True, 1)


async def test_a_script_gets_the_next_part_of_the_page(
    app: Duly, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LETTERS_PER_STEP", 2)
    await dead(app, 4)
    page = await visitor.act("/dead-letters/replay")
    answer = await visitor.client.post(batch_of(page), data=page.fields, headers={"hx-request": "true"})
    assert (answer.status_code, answer.text.startswith('<div id="batch">')) == (200, True)
    assert "<html" not in answer.text


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"rate": "fast"}, "is not a rate such as 50/s"),
        ({"limit": "0"}, "must be a whole number, at least 1"),
        ({"limit": "1e3"}, "must be a whole number, at least 1"),
        ({"rate": "1/d"}, "would take longer than a year"),
    ],
)
async def test_what_cannot_be_is_refused_at_its_field(
    fields: dict[str, Any], told: str, app: Duly, visitor: Visitor
) -> None:
    await dead(app, 400)
    refused = await visitor.act("/dead-letters/replay", status=422, **fields)
    assert told in refused.text
    assert await left(app) == 400


async def test_a_filter_comes_with_the_address_from_the_list_of_events(
    app: Duly, visitor: Visitor, clock: ManualClock
) -> None:
    early = await dead(app, 2)
    clock.advance(2 * HOUR)
    late = await dead(app, 1)
    late = [id for id in late if id not in early]
    page = await visitor.get("/events?status=FAILED&failed_from=2026-01-01T01:00:00Z")
    [link] = [link for link in page.links if link.startswith("/dead-letters/discard")]
    await visitor.act(link)
    assert (await statuses(app, early), await statuses(app, late)) == ({Status.FAILED}, {Status.CANCELLED})
    plain = await visitor.get("/events?status=FAILED&stuck=true")
    assert not [link for link in plain.links if link.startswith("/dead-letters/")]


@pytest.mark.parametrize("verb", ["replay", "discard"])
async def test_a_batch_is_the_same_by_form_by_command_and_over_http(
    verb: str, app: Duly, visitor: Visitor, url: str
) -> None:
    theirs = await dead(app, 2, tenant="rival")
    fields: dict[str, Any] = {"error": "-no 'such' mailbox", "limit": "3"}
    fields |= {"rate": "2/s"} if verb == "replay" else {"reason": "-x"}
    for way in ("form", "command", "curl"):
        await dead(app, 4, error="-no 'such' mailbox")
        await dead(app, 1, error=way)
        before = await left(app)
        if way == "form":
            await visitor.act(f"/dead-letters/{verb}", **fields)
        elif way == "command":
            await run_command(await visitor.before(f"/dead-letters/{verb}", **fields), url)
        else:
            await run_curl(await visitor.before(f"/dead-letters/{verb}", **fields), visitor)
        assert before - await left(app) == 3, way
        await app.events.discard_all(tenant="default")
    assert await statuses(app, theirs) == {Status.FAILED}


async def test_the_printed_command_acts_in_one_tenant_only(app: Duly, visiting: OpenVisitor) -> None:
    visitor = await visiting(app)
    assert "--tenant default" in printed(await visitor.before("/dead-letters/replay"), "act-command")
    made = await app.keys.create("ada", scope="write", tenant="shop")
    signed = await visiting(app)
    await signed.sign_in(made.secret)
    assert printed(await signed.before("/dead-letters/replay"), "act-command") == (
        "duly events replay --all --yes --tenant shop"
    )


# -- who may


async def test_a_read_key_sees_a_batch_and_cannot_begin_or_go_on_with_one(
    app: Duly, visiting: OpenVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LETTERS_PER_STEP", 2)
    await dead(app, 5)
    writer = await visiting(app)
    page = await writer.act("/dead-letters/replay")
    made = await app.keys.create("reader", scope="read")
    reader = await visiting(app)
    await reader.sign_in(made.secret)
    seen = await reader.get(batch_of(page))
    assert ("2 of 5" in seen.text, '<form method="post" action="/dead' in seen.html) == (True, False)
    await reader.post(batch_of(page), status=403, step="1")
    for verb in ("replay", "discard"):
        assert "this needs write" in (await reader.get(f"/dead-letters/{verb}")).text
        await reader.act(f"/dead-letters/{verb}", status=403)
    assert await left(app) == 3


async def test_another_tenant_s_letters_and_batches_are_not_there(
    app: Duly, visiting: OpenVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LETTERS_PER_STEP", 2)
    await dead(app, 5)
    owner = await visiting(app)
    page = await owner.act("/dead-letters/replay")
    made = await app.keys.create("eve", scope="admin", tenant="rival")
    eve = await visiting(app)
    await eve.sign_in(made.secret)
    assert "No dead letters" in (await eve.get("/dead-letters")).text
    await eve.get(batch_of(page), status=404)
    await eve.post(batch_of(page), status=404, step="1")
    await eve.act("/dead-letters/discard")
    assert await left(app) == 3


@pytest.mark.parametrize("name", ["none", "a" * 24, "%2e%2e", "x" * 500])
async def test_a_batch_that_is_not_there_is_told_as_a_page(name: str, visitor: Visitor) -> None:
    await visitor.get(f"/dead-letters/batches/{name}", status=404)
    await visitor.post(f"/dead-letters/batches/{name}", status=404, step="1")


async def test_a_batch_is_forgotten_after_a_day(
    app: Duly, visitor: Visitor, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LETTERS_PER_STEP", 2)
    await dead(app, 5)
    page = await visitor.act("/dead-letters/replay")
    clock.advance(timedelta(days=1, seconds=1))
    assert "began more than a day ago" in (await visitor.get(batch_of(page), status=404)).text
    await visitor.post(batch_of(page), status=404, step="1")
    assert await left(app) == 3
