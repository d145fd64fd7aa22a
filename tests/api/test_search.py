"""One search finds events, users, schedules and targets of a tenant, the best match first."""

from typing import Any

import pytest

from duly import Duly, Invalid, every
from duly.records.finding.search import MOST_FOUND, SearchResult
from duly.testing import ManualClock
from tests.api.sending import OPTIONS
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, START, a_user

NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    return await duly(**OPTIONS)


def told(found: list[SearchResult]) -> list[tuple[str, str | None]]:
    return [(one.kind, one.name) for one in found]


async def test_an_event_is_found_by_its_id_however_it_was_pasted(app: Duly) -> None:
    event = await app.at(START + DAY, "invoice.overdue", key="invoice-7")
    only = SearchResult(kind="event", id=event.id, name="invoice-7", title="invoice.overdue", status="PENDING")
    for text in (
        event.id,
        f"  {event.id}\n",
        event.id.upper(),
        event.id.replace("-", ""),
        f'"{event.id}"',
        f"webhook-id: {event.id}",
        f"Webhook-Id:{event.id}\r\n",
        f"Idempotency-Key: '{event.id}',",
        "invoice-7",
        " invoice-7 ",
    ):
        assert await app.search(text) == [only], text
    assert await app.search("invoice") == [], "a key is found whole"
    assert await app.search(NOBODY) == []


async def test_a_key_finds_its_open_event_or_else_its_latest(app: Duly, clock: ManualClock) -> None:
    @app.on("x")
    def handle(_: object) -> None: ...

    first = await app.at(START, "x", key="k", once=False)
    await app.tick()
    assert [(one.id, one.status) for one in await app.search("k")] == [(first.id, "COMPLETED")]
    second = await app.at(START + DAY, "x", key="k", once=False)
    assert [(one.id, one.status) for one in await app.search("k")] == [(second.id, "PENDING")]
    assert [one.name for one in await app.search(first.id)] == ["k"], "also after its key was taken"
    await app.cancel("k")
    assert [(one.id, one.status) for one in await app.search("k")] == [(second.id, "CANCELLED")]


async def test_a_user_is_found_by_id_key_and_the_beginning_of_the_name(app: Duly) -> None:
    ada = await app.users.add(**a_user(first_name="Ada", last_name="Lovelace", key="crm-7"))
    emile = await app.users.add(**a_user(first_name="Émile", last_name="Zola"))
    for text in (ada.id, "crm-7", "ada", "ADA LOVE", "lovelace", "Lovelace  Ada", " love "):
        assert [(one.kind, one.id, one.title) for one in await app.search(text)] == [("user", ada.id, "Ada Lovelace")]
    for text in ("émile", "ÉMILE", "Zola É"):
        assert [one.id for one in await app.search(text)] == [emile.id], text
    assert await app.search("velace") == []


async def test_schedules_and_targets_are_found_by_the_beginning_of_their_names(app: Duly) -> None:
    for name in ("report", "report-weekly", "report-daily", "other"):
        await app.schedules.put(name, every("1h"), f"type.{name}")
    await app.schedules.pause("report-daily")
    await app.targets.put("report-hook", "https://hooks.example/in")
    found = await app.search("report")
    assert told(found) == [
        ("schedule", "report"),
        ("schedule", "report-daily"),
        ("schedule", "report-weekly"),
        ("target", "report-hook"),
    ]
    assert [one.status for one in found] == ["enabled", "paused", "enabled", None]
    assert [one.title for one in found] == ["type.report", "type.report-daily", "type.report-weekly", "webhook"]
    assert told(await app.search("report-hook")) == [("target", "report-hook")]
    assert told(await app.search((await app.schedules.get("other")).id)) == [("schedule", "other")]


async def test_the_best_match_comes_first_and_nothing_comes_twice(app: Duly) -> None:
    user = await app.users.add(**a_user(first_name="Ada", last_name="Ada", key="ada"))
    await app.users.add(**a_user(first_name="Adam", last_name="Smith"))
    await app.schedules.put("adagio", every("1h"), "x")
    await app.schedules.put("ada", every("1h"), "x")
    await app.at(START + HOUR, "x", key="ada")
    found = await app.search("ada")
    assert told(found) == [
        ("event", "ada"),
        ("schedule", "ada"),
        ("user", "ada"),
        ("schedule", "adagio"),
        ("user", None),
    ]
    assert found[2].id == user.id
    assert told(await app.search("ada", limit=2)) == told(found)[:2]


async def test_a_search_sees_one_tenant(app: Duly) -> None:
    event = await app.at(START + HOUR, "x", key="k", tenant="acme")
    user = await app.users.add(**a_user(key="u"), tenant="acme")
    await app.schedules.put("nightly", every("1h"), "x", tenant="acme")
    await app.targets.put("crm", "https://hooks.example/in", tenant="acme")
    texts = [event.id, "k", user.id, "u", "ada", "nightly", "crm"]
    assert [len(await app.search(text)) for text in texts] == [0] * len(texts)
    assert [len(await app.search(text, tenant="acme")) for text in texts] == [1] * len(texts)


@pytest.mark.parametrize("text", ["", "   ", '""', "'", None, 7, "a\x00b", "x" * 600, "webhook-id:"])
async def test_what_cannot_be_searched_for_is_refused(app: Duly, text: Any) -> None:
    with pytest.raises(Invalid) as refused:
        await app.search(text)
    assert [problem.path for problem in refused.value.problems] == ["text"]


@pytest.mark.parametrize("text", ["%", "_", "a' OR '1'='1", "\\", "a%", "😀", "\u0430da", "*", "--"])
async def test_a_text_is_no_pattern_and_no_sql(app: Duly, text: str) -> None:
    await app.users.add(**a_user(first_name="Ada", last_name="Lovelace", key="a"))
    await app.schedules.put("abc", every("1h"), "x")
    assert await app.search(text) == []


async def test_the_number_of_results_is_bounded(app: Duly) -> None:
    for number in range(5):
        await app.users.add(**a_user(key=f"u{number}", last_name=f"Love{number}"))
    assert len(await app.search("ada", limit=3)) == 3
    for limit in (0, -1, MOST_FOUND + 1, True, "3", None):
        with pytest.raises(Invalid, match="limit"):
            await app.search("ada", limit=limit)  # type: ignore[arg-type]


def test_a_search_is_asked_without_a_loop(app_sync: Duly) -> None:
    with app_sync.sync as duly:
        event = duly.at(START + DAY, "x", key="k")
        assert [one.id for one in duly.search("k")] == [event.id]


@pytest.fixture
def app_sync(clock: ManualClock) -> Duly:
    return Duly("sqlite://", clock=clock)
