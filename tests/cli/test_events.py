"""``duly events``: what is found, how it is shown, and what people do to events."""

import asyncio
import getpass
import re
from datetime import UTC, datetime, timedelta

import pytest

from duly import Duly
from tests.cli.conftest import Shell

NOBODY = "01a1e15c-88fe-77cf-98f6-68e11067ac37"


def ids(shell: Shell, *words: object) -> list[str]:
    done = shell("events", "list", *words, "--json")
    assert done.code == 0, done.err
    return [event["id"] for event in done.json["events"]]


def interrupt(url: str, *, times: int = 1) -> None:
    """Claim what is ready and vanish."""

    async def vanish() -> None:
        async with Duly(url) as duly:
            await duly.store.claim("doomed", {"handler:greet": 10}, timedelta())
            for _ in range(times - 1):
                await duly.store.claim_interrupted("doomed", ["handler:greet"], timedelta())

    asyncio.run(vanish())


# -- finding


def test_each_filter_of_events_finds_what_it_says(on: Shell) -> None:
    done = on.at("2020-01-01T00:00:00Z", "--type", "greet", "--key", "k")
    on("tick", "--app", "shop")
    dead = on.at("2021-01-01T00:00:00Z", "--type", "reject", "--tenant", "acme")
    on("tick", "--app", "shop")
    waiting = on.at("2031-01-01T00:00:00Z", "--type", "greet")
    assert ids(on) == [waiting, dead, done]
    assert ids(on, "--status", "failed") == [dead]
    assert ids(on, "--status", "FAILED", "--status", "pending") == [waiting, dead]
    assert ids(on, "--type", "greet") == [waiting, done]
    assert ids(on, "--tenant", "acme") == [dead]
    assert ids(on, "--key", "k") == [done]
    assert ids(on, "--due-from", "2021-01-01T00:00:00Z") == [waiting, dead]
    assert ids(on, "--due-to", "2021-01-01T00:00:00Z") == [done]
    assert ids(on, "--due-from", "-1h") == [waiting]
    assert ids(on, "--due-to", "now") == [dead, done]
    assert ids(on, "--late-by", "300d") == [done]
    assert ids(on, "--late-by", "99999d") == []
    assert ids(on, "--stuck") == [dead]
    assert ids(on, "--stuck", "--late-by", "99999d") == []
    assert ids(on, "--type", "greet", "--status", "completed") == [done]


def test_pages_of_events_follow_one_another_without_gaps_or_repeats(on: Shell) -> None:
    all_ids = [on.at("+1h", "--type", "greet") for _ in range(5)][::-1]
    seen, after = list[list[str]](), list[str]()
    while True:
        page = on("events", "list", "--limit", 2, *after, "--json").json
        seen.append([event["id"] for event in page["events"]])
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert seen == [all_ids[:2], all_ids[2:4], all_ids[4:]]


def test_the_last_page_of_events_does_not_promise_another(on: Shell) -> None:
    two = [on.at("+1h", "--type", "greet") for _ in range(2)][::-1]
    assert on("events", "list", "--limit", 2, "--json").json["next"] is None
    assert on("events", "list", "--limit", 2).err == ""
    assert on("events", "list", "--limit", 1).err == f"for the next page, add --after {two[0]}\n"


def test_a_list_without_events_says_so(on: Shell) -> None:
    done = on("events", "list")
    assert (done.code, done.out, done.err) == (0, "", "no events found\n")
    assert on("events", "list", "--json").json == {"events": [], "next": None}


# -- showing


@pytest.mark.parametrize("columns", [80, 100, 149, 150, 160, 200])
def test_the_list_of_events_fits_the_terminal_and_shows_ids_whole(on: Shell, columns: int) -> None:
    on.set(COLUMNS=str(columns))
    long = "invoices.quarterly.overdue-reminder"
    listed = [
        on.at("2031-01-01T00:00:00Z", "--type", long, "--key", "k" * 100, "--tenant", "t" * 100),
        on.at("now", "--type", "reject"),
    ]
    on("tick", "--app", "shop")
    shown = on("events", "list").out
    assert all(len(line.rstrip()) <= columns for line in shown.splitlines())
    for id in listed:
        assert id in shown
    assert "PENDING" in shown
    assert "FAILED" in shown
    assert "2031-01-01 00:00:00" in shown
    assert "nobody want" in shown


@pytest.mark.parametrize(("columns", "lines"), [(80, 2), (160, 1)])
def test_an_event_takes_two_lines_when_narrow_and_one_when_wide(on: Shell, columns: int, lines: int) -> None:
    on.set(COLUMNS=str(columns))
    for _ in range(3):
        on.at("+1h", "--type", "invoices.overdue")
    shown = on("events", "list").out.splitlines()
    assert len(shown) == 1 + 3 * lines
    assert sum("invoices.overdue" in line for line in shown) == 3


@pytest.mark.parametrize("columns", [80, 200])
def test_an_overdue_event_looks_overdue_in_lists_and_alone(on: Shell, columns: int) -> None:
    late = on.at(f"{datetime.now(UTC) - timedelta(minutes=5, seconds=10):%FT%TZ}", "--type", "greet")
    on.at("2031-01-01T00:00:00Z", "--type", "greet")
    on.set(COLUMNS=str(columns))
    for words in (["events", "list"], ["events", "show", late]):
        told = on(*words).out
        assert len(re.findall(r"overdue 5m \d+s", told)) == told.count("overdue") == 1, told
    on.set(FORCE_COLOR="1", TERM="xterm")
    for words in (["events", "list"], ["events", "show", late]):
        assert re.search(r"\x1b\[1;31m *overdue 5m", on(*words).out), "bold and red"


def test_an_event_that_ended_or_waits_for_a_known_reason_is_not_overdue(on: Shell) -> None:
    on.at("2020-01-01T00:00:00Z", "--type", "greet")
    failed = on.at("2020-01-01T00:00:00Z", "--type", "fail")
    on("tick", "--app", "shop")
    assert on.show(failed)["status"] == "PENDING"
    assert "retry in" in on("events", "list").out
    assert "overdue" not in on("events", "list").out + on("events", "show", failed).out


def test_show_tells_the_whole_story_of_an_event(on: Shell, url: str) -> None:
    id = on.at("now", "--type", "greet", "--payload", '"Ada"')
    interrupt(url)
    on("tick", "--app", "shop")
    event = on.show(id)
    assert (event["status"], event["attempts"], event["interruptions"]) == ("COMPLETED", 1, 1)
    assert [(entry["act"], entry["attempt"]) for entry in event["history"]] == [("interrupted", None), ("delivered", 1)]
    shown = on("events", "show", id).out
    assert shown.splitlines()[0] == f"{id}  COMPLETED"
    story = [line for line in shown.splitlines() if line.startswith("20")]
    acts = [line.split("  ", 1)[1].strip() for line in story]
    assert acts[0] in ("created", "due")
    assert acts[2].startswith("interrupted in doomed, noticed after")
    assert acts[3].startswith("attempt 1 delivered after")
    assert acts[3].endswith(f"by {event['worker']}")
    assert [line[:23] for line in story] == sorted(line[:23] for line in story)


def test_show_tells_each_error_and_when_the_next_try_is(on: Shell) -> None:
    id = on.at("now", "--type", "fail")
    on("tick", "--app", "shop")
    shown = on("events", "show", id).out
    assert "attempt 1 failed" in shown
    assert "ConnectionError: the bank says 503" in shown
    assert "attempt 2 may start" in shown


def test_show_tells_of_an_event_under_way_and_of_one_that_a_crash_interrupted(on: Shell, url: str) -> None:
    id = on.at("now", "--type", "greet")
    interrupt(url)
    shown = on("events", "show", id).out
    assert "attempt 1 started by doomed" in shown
    assert "its lease ended: the next worker delivers it again" in shown
    assert "interrupted" in on("events", "list").out


def test_show_tells_from_when_a_keyed_timer_was_moved(on: Shell) -> None:
    id = on.at("2031-01-01T00:00:00Z", "--type", "greet", "--key", "k")
    on.at("2032-01-01T00:00:00Z", "--type", "greet", "--key", "k")
    assert [entry["act"] for entry in on.show(id)["history"]] == ["moved"]
    shown = on("events", "show", id).out
    assert "2031-01-01" in shown
    story = [line.split("  ")[1].split()[0] for line in shown.splitlines() if line.startswith("20")]
    assert story == ["created", "moved", "due"]  # in the order of time: due lies ahead


# -- acting


def test_cancel_is_recorded_with_who_and_why(on: Shell) -> None:
    id = on.at("+1h", "--type", "greet")
    done = on("events", "cancel", id, "--reason", "paid meanwhile")
    assert done.code == 0
    assert done.out == f"cancelled {id}  greet  CANCELLED\n"
    [entry] = on.show(id)["history"]
    assert (entry["act"], entry["worker"], entry["detail"]) == ("cancelled", getpass.getuser(), "paid meanwhile")


def test_replay_runs_a_dead_letter_again_under_its_id(on: Shell) -> None:
    id = on.at("now", "--type", "reject")
    on("tick", "--app", "shop")
    assert on.show(id)["status"] == "FAILED"
    assert on("events", "replay", id).code == 0
    assert on.show(id)["status"] == "PENDING"
    on("tick", "--app", "shop")
    assert [entry["act"] for entry in on.show(id)["history"]] == ["rejected", "replayed", "rejected"]


def test_discard_puts_a_dead_letter_away(on: Shell) -> None:
    id = on.at("now", "--type", "reject")
    on("tick", "--app", "shop")
    assert on("events", "discard", id, "--reason", "a test").code == 0
    assert on.show(id)["status"] == "CANCELLED"


@pytest.mark.parametrize("when", [["2031-01-01T09:00:00+01:00"], ["in", "2h"]])
def test_reschedule_moves_an_event_that_has_not_started(on: Shell, when: list[str]) -> None:
    id = on.at("+1h", "--type", "greet")
    before = on.show(id)["due_at"]
    done = on("events", "reschedule", id, *when)
    assert done.code == 0
    after = on.show(id)["due_at"]
    assert after > before
    if when[0] != "in":
        assert after == "2031-01-01T08:00:00Z"


def test_an_act_that_the_status_does_not_allow_fails_with_the_reason(on: Shell) -> None:
    id = on.at("now", "--type", "greet")
    on("tick", "--app", "shop")
    for act in (["cancel", id], ["replay", id], ["discard", id], ["reschedule", id, "+1h"]):
        done = on("events", *act)
        assert done.code == 1
        assert f"cannot {act[0]} event {id}: it is COMPLETED" in done.err


def test_duly_cancel_takes_a_key_or_an_id(on: Shell) -> None:
    id = on.at("+1h", "--type", "greet", "--key", "k")
    done = on("cancel", "k", "--reason", "paid meanwhile")
    assert (done.code, done.out) == (0, f"cancelled {id}  greet  CANCELLED\n")
    again = on("cancel", id)
    assert again.code == 1
    assert "does not exist, or was cancelled before" in again.err
    other = on.at("now", "--type", "greet", "--key", "k")
    on("tick", "--app", "shop")
    fired = on("cancel", "k", "--json")
    assert (fired.code, f"cannot cancel event {other}: it is COMPLETED" in fired.err) == (1, True)
    assert on("cancel").code == 2
    assert on("events", "show", "k").code == 0


def test_one_refused_id_of_many_does_not_keep_the_others(on: Shell) -> None:
    first, last = (on.at("+1h", "--type", "greet") for _ in range(2))
    done = on("events", "cancel", first, NOBODY, last)
    assert done.code == 1
    assert done.err.startswith(f"duly: there is no event '{NOBODY}' to cancel")
    assert [on.show(id)["status"] for id in (first, last)] == ["CANCELLED", "CANCELLED"]
    assert len(done.out.splitlines()) == 2


def test_another_tenants_event_does_not_exist(on: Shell) -> None:
    id = on.at("+1h", "--type", "greet", "--tenant", "acme")
    for act in ("show", "cancel"):
        assert on("events", act, id, "--tenant", "other").code == 1
    assert on("events", "cancel", id, "--tenant", "acme").code == 0


# -- the schedule they are of


def test_an_event_names_its_schedule_wherever_it_is_shown(on: Shell) -> None:
    assert on("schedules", "put", "tidy", "--type", "greet", "--every", "1h").code == 0
    timer = on.at("+1h", "--type", "greet")
    [triggered] = on("schedules", "trigger", "tidy", "--json").json["events"]
    assert triggered["schedule"] == "tidy"
    names = {event["id"]: event["schedule"] for event in on("events", "list", "--json").json["events"]}
    assert (len(names), names[timer], names[triggered["id"]]) == (3, None, "tidy")
    [head] = set(names) - {timer, triggered["id"]}
    assert on("events", "show", head, "--json").json["schedule"] == "tidy"
    assert {event["schedule"] for event in on("schedules", "show", "tidy", "--json").json["events"]} == {"tidy"}
    [moved] = on("events", "reschedule", head, "+2h", "--json").json["events"]
    assert moved["schedule"] == "tidy"
    assert re.search(r"^schedule +tidy *$", on("events", "show", head).out, re.MULTILINE)
    assert not re.search(r"^schedule ", on("events", "show", timer).out, re.MULTILINE)


@pytest.mark.parametrize("columns", [80, 160])
def test_the_list_of_events_names_their_schedules(on: Shell, columns: int) -> None:
    on.set(COLUMNS=str(columns))
    on("schedules", "put", "nightly-report", "--type", "greet", "--every", "1h")
    on.at("+1h", "--type", "greet", "--key", "a-key")
    shown = on("events", "list").out
    assert shown.count("nightly-report") == 1
    assert ("SCHEDULE" in shown) is (columns == 160)
    on("schedules", "delete", "nightly-report")
    assert "nightly-report" in on("events", "list").out


def test_events_of_a_deleted_schedule_keep_its_name(on: Shell) -> None:
    on("schedules", "put", "tidy", "--type", "greet", "--every", "1h")
    [event] = on("events", "list", "--json").json["events"]
    assert on("schedules", "delete", "tidy").code == 0
    shown = on("events", "show", event["id"], "--json").json
    assert (shown["series"], shown["schedule"]) == (event["series"], "tidy")
    assert re.search(r"^schedule +tidy", on("events", "show", event["id"]).out, re.MULTILINE)


def test_users_events_have_no_schedule(on: Shell) -> None:
    person = ["--first-name", "Ada", "--last-name", "Lovelace", "--date-of-birth", "1815-12-10"]
    added = on("users", "add", *person, "--timezone", "Europe/London", "--json").json
    shown = on("users", "show", added["id"], "--json").json
    written = [*added["ahead"], *shown["ahead"], *shown["events"]]
    assert len(written) == 3
    assert [event["schedule"] for event in written] == [None] * 3
