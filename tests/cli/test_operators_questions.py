"""What an operator asks, answered by the command line and by HTTP alone, as docs/operators-questions.md says."""

import asyncio
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from duly import Duly, Event, Retry, cron
from duly.testing import ManualClock
from tests.cli.conftest import Shell, Spawn
from tests.cli.test_serve import ask, ready
from tests.docs.test_pages import table

PAGE = "docs/operators-questions.md"
NOW = datetime.now(UTC).replace(microsecond=0)

ANSWERS: Mapping[str, tuple[str, str]] = {  # what the command must print, and the answer over HTTP have
    "Which jobs failed last night?": ("import", '"key":"import-7"'),
    "Why did this one fail?": ("the file is empty", "the file is empty"),
    "What was tried, when, and by which worker?": ("the file is empty", '"history":[{'),
    "When does hourly run next?": ("hourly", '"next_at":"'),
    "What would skipping hourly's next run do?": ("1 occurrence is skipped", '"consequence":{'),
    "Why does nightly not run?": ("Resume the schedule 'nightly'", "Resume the schedule 'nightly'"),
    "Why did nightly not run last night?": ("paused: the schedule was paused by grace", '"by":"grace"'),
    "Who paused nightly, and why?": ("the bank is closed", "the bank is closed"),
    "When does the pause of weekly end?": ("paused until", '"paused_until":"2'),
    "Which nightly jobs are paused?": ("nightly", '"name":"nightly"'),
    "What would a pause of the nightly jobs stop?": ("would pause 1 schedule (", '"count":{"value":1,"exact":true}'),
    "Why did Ada not get her greeting?": ("the mailbox is full", "the mailbox is full"),
    "What is this webhook-id that a receiver has logged?": ("import-7", '"name":"import-7"'),
    "Who is called Ada?": ("Lovelace", '"last_name":"Lovelace"'),
    "How many users live in Brussels' zone?": ("2", '"count":{"value":2,"exact":true}'),
    "How many events are overdue?": ("2\n", '"count":{"value":2,"exact":true}'),  # one is held
    "What is stuck?": ("sync", '"type":"sync"'),
    "What comes next?": ("sync", '"type":"sync"'),
    "What goes out tomorrow?": ("reminder", '"type":"reminder"'),
    "Was the reminder of invoice 7 cancelled?": ("paid at the counter", "paid at the counter"),
    "How many dead letters are there?": ("2", '"dead_letters":2'),
    "As what was the reminder of invoice 6 replayed?": ("replayed as", '"replayed_as":"'),
    "Would crm take what we send?": ("blocked: 127.0.0.1:9", '"outcome":"rejected"'),
    "Who is at work?": ("serve", '"lane":"'),
    "Is anything wrong?": ("sync", '"ready"'),
    "Does an event with this key exist?": ("there is no event", "there is no event"),
}


async def prepare(url: str) -> dict[str, str]:
    """Two days of a small shop, and what the placeholders of the page stand for."""
    global NOW
    NOW = datetime.now(UTC).replace(microsecond=0)  # not when the tests were collected, half an hour ago perhaps
    clock = ManualClock(NOW - timedelta(days=2))
    app = Duly(url, clock=clock)
    retry = Retry(max_attempts=1)

    @app.on("import")
    def read(_: Event) -> None:
        raise ValueError("the file is empty")

    @app.on("birthday")
    def greet(_: Event) -> None:
        raise OSError("the mailbox is full")

    async with app:
        born = (NOW - timedelta(days=1)).date().replace(year=2000)
        person: dict[str, Any] = {"last_name": "Lovelace", "date_of_birth": born, "timezone": "Europe/Brussels"}
        ada = await app.users.add(key="ada", first_name="Ada", **person)
        await app.users.add(
            key="bob", first_name="Bob", **person | {"last_name": "King", "date_of_birth": "1990-07-01"}
        )
        await app.schedules.put("hourly", cron("0 * * * *"), "report")
        await app.schedules.put("nightly", cron("0 2 * * *"), "booking", tags=["nightly"])
        nightly = await app.schedules.pause("nightly", by="grace", reason="the bank is closed")
        await app.schedules.put("weekly", cron("0 3 * * MON"), "report")
        await app.schedules.pause("weekly", until="30d", by="grace", reason="a migration")
        await app.at(NOW + timedelta(days=1), "reminder", key="invoice-8")
        await app.at(NOW + timedelta(days=1), "reminder", key="invoice-7")
        await app.cancel("invoice-7", by="grace", reason="paid at the counter")
        await app.at(NOW - timedelta(hours=3), "import", key="import-7", retry=retry)
        await app.at(NOW - timedelta(hours=2), "sync")
        for hours in range(0, 48, 4):
            clock.set(NOW - timedelta(days=2) + timedelta(hours=hours))
            for _ in range(3):
                await app.tick()
                clock.advance(timedelta(minutes=30))
        await app.schedules.delete("hourly")
        clock.set(NOW)
        await app.schedules.put("hourly", cron("0 * * * *"), "report", tags=["batch"])
        await app.at(NOW + timedelta(days=1), "reminder", {"invoice": "six"}, key="invoice-6")
        await app.cancel("invoice-6")
        await app.events.replay("invoice-6", payload={"invoice": 6})
        logged = await app.events.get("import-7")
        await app.targets.put("crm", "http://127.0.0.1:9/in", channel="http")
        [greeting] = [one for one in await app.users.events(ada.id) if not one.head]
        assert greeting.status == "FAILED", greeting
        assert nightly.name == "nightly"
        head = next(one for one in await app.events.find() if one.head and one.type == "booking")
    midnight = NOW.replace(hour=0, minute=0, second=0)
    return {
        "12 hours ago": _written(NOW - timedelta(hours=12)),
        "5 minutes ago": _written(NOW - timedelta(minutes=5)),
        "tomorrow": _written(midnight + timedelta(days=1)),
        "the day after": _written(midnight + timedelta(days=2)),
        "Ada's id": ada.id,
        "nightly's next event": head.id,
        "a webhook-id": logged.id,
        "last night at two": _written(NOW.replace(hour=2, minute=0, second=0) - timedelta(days=NOW.hour < 2)),
    }


def _written(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def filled(text: str, placeholders: Mapping[str, str], *, quoted: bool) -> str:
    for name, value in placeholders.items():
        text = text.replace(f"<{name}>", quote(value, safe="") if quoted else value)
    assert "<" not in text, text
    return text.strip("`")


def test_every_question_is_answered_by_one_command_and_by_one_request(shell: Shell, spawn: Spawn) -> None:
    url = f"sqlite:///{shell.folder}/duly.db"
    placeholders = asyncio.run(prepare(url))
    base = ready(spawn("serve", "--app", "shop", "--port", "0", DULY_DATABASE_URL=url))
    shell.set(DULY_DATABASE_URL=url)
    asked = table(PAGE, "The questions")
    assert [row[0] for row in asked] == list(ANSWERS)
    for question, command, code, request in asked:
        printed, answered = ANSWERS[question]
        done = shell(*shlex.split(filled(command, placeholders, quoted=False))[1:])
        assert done.code == int(code.split()[0]), (question, done)
        assert printed in done.out + done.err, (question, done)
        method, path = filled(request, placeholders, quoted=True).split(" ", 1)
        answer = ask(method, base + path)
        assert answer.status_code == (404 if question.startswith("Does") else 200), (question, answer.text)
        assert answered in answer.text, (question, answer.text)


def test_the_occurrences_of_rules_are_told_below_what_goes_out_tomorrow(shell: Shell) -> None:
    url = f"sqlite:///{shell.folder}/duly.db"
    asyncio.run(prepare(url))
    done = shell("events", "list", "--due", "tomorrow", "--db", url)
    assert "  24 of hourly, from" in done.err or "  23 of hourly, from" in done.err, done.err


pytestmark = pytest.mark.timeout(180)
