"""``duly schedules``: what is shown of schedules, and what people do to them."""

import asyncio
import getpass
import json
import re
import shlex
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from duly import Duly, cron
from duly.testing import ManualClock
from tests.cli.conftest import Shell, names, schedules, shown

DAILY = ("--type", "report", "--cron", "0 9 * * *")
BRUSSELS = ("--timezone", "Europe/Brussels")

DECLARING = """
from duly import Duly, Event, every

duly = Duly()


@duly.schedule(every("10m"), name="warm")
async def warm(event: Event) -> None: ...
"""


def long_ago(url: str, act: Callable[[Duly], Awaitable[object]], clock: ManualClock | None = None) -> None:
    """Do something to the database as if it was 2020."""

    async def act_then() -> None:
        async with Duly(url, clock=clock or ManualClock(datetime(2020, 1, 1, tzinfo=UTC))) as duly:
            await act(duly)

    asyncio.run(act_then())


# -- looking


@pytest.mark.parametrize("columns", [80, 130, 160])
def test_the_list_of_schedules_fits_the_terminal_and_shows_what_matters(lite: Shell, columns: int) -> None:
    lite.set(COLUMNS=str(columns))
    schedules(lite, "put", "weekly-report", "--type", "x", "--once", "2035-05-01T09:00", *BRUSSELS)
    schedules(lite, "put", "held-back", *DAILY, "--paused")
    schedules(lite, "put", "canary", *DAILY, "--mode", "shadow", "--tenant", "acme")
    schedules(lite, "put", "over", *DAILY)
    schedules(lite, "put", "over", "--type", "x", "--once", "2020-01-01T00:00:00Z")
    listed = schedules(lite, "list")
    assert all(len(line.rstrip()) <= columns for line in listed.splitlines())
    for told in ("weekly-report", "once 2035-05-01T09:00:00", "Europe/Brussels", "2035-05-01 07:00:00", "in 3"):
        assert told in listed
    for state in ("on", "paused", "shadow", "ended"):
        assert re.search(rf"\b{state}\b", listed)
    assert "acme" in listed
    assert len(listed.splitlines()) == 5 if columns >= 130 else 9


def test_the_list_of_schedules_tells_when_each_last_fired(on: Shell) -> None:
    schedules(on, "put", "greeting", "--type", "greet", "--every", "1h")
    assert shown(on, "greeting")["last_at"] is None
    schedules(on, "trigger", "greeting")
    on("tick", "--app", "shop")
    assert shown(on, "greeting")["last_at"] is not None
    assert shown(on, "greeting")["last_status"] == "COMPLETED"
    for columns in ("160", "80"):
        on.set(COLUMNS=columns)
        assert re.search(r" in \S+( \S+)? +completed (now|\S+ m?s ago)\s*$", schedules(on, "list"))


def test_the_list_of_schedules_tells_which_failed_last_and_which_never_fired(on: Shell) -> None:
    schedules(on, "put", "broken", "--type", "no.such", "--every", "1h", "--webhook", "http://127.0.0.1:1/")
    schedules(on, "put", "new", *DAILY)
    schedules(on, "trigger", "broken")
    on("tick", "--app", "shop")
    for columns in ("160", "80"):
        on.set(COLUMNS=columns)
        told = schedules(on, "list")
        assert re.search(r"(to be retried,|failed) (now|\S+ m?s ago)", told)
        assert "never" in told


def test_a_dry_run_of_a_backfill_lists_what_would_fire(on: Shell) -> None:
    schedules(on, "put", "it", *DAILY, "--timezone", "Europe/Brussels")
    fill = ("backfill", "it", "--from", "2026-01-01", "--to", "2026-01-03", "--label", "again")
    assert schedules(on, *fill, "--dry-run").splitlines() == [
        "would backfill it: 2 events  label again  (a dry run: nothing was done)",
        "  2026-01-01 08:00:00 UTC  Thu 2026-01-01 09:00:00 Europe/Brussels",
        "  2026-01-02 08:00:00 UTC  Fri 2026-01-02 09:00:00 Europe/Brussels",
    ]
    told = json.loads(schedules(on, *fill, "--dry-run", "--json"))
    assert (told["occurrences"], told["events"]) == (["2026-01-01T08:00:00Z", "2026-01-02T08:00:00Z"], [])
    assert schedules(on, *fill).startswith("backfilled it: 2 events made  label again")


def test_pages_of_schedules_follow_one_another_across_tenants(lite: Shell) -> None:
    everything = [("acme/fr", "b"), ("acme/fr", "x/y"), ("default", "a"), ("default", "c/d"), ("default", "e")]
    for tenant, name in everything:
        schedules(lite, "put", name, *DAILY, "--tenant", tenant)
    seen: list[tuple[str, str]] = []
    after: list[str] = []
    while True:
        page = json.loads(schedules(lite, "list", "--limit", 1, *after, "--json"))
        seen += [(one["tenant"], one["name"]) for one in page["schedules"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert seen == everything
    assert names(lite, "--tenant", "default", "--after", "c/d") == ["e"]
    assert lite("schedules", "list", "--limit", 3).err == "for the next page, add --after a\n"
    assert lite("schedules", "list", "--after", "zz").err == "no more schedules\n"


def test_a_list_without_schedules_says_so(on: Shell) -> None:
    result = on("schedules", "list")
    assert (result.code, result.out, result.err) == (0, "", "no schedules\n")
    assert json.loads(schedules(on, "list", "--json")) == {"schedules": [], "next": None}


def test_schedules_that_the_code_of_the_app_no_longer_declares_are_marked(on: Shell) -> None:
    cool = '\n\n@duly.schedule(every("1h"), name="cool")\nasync def cool(event: Event) -> None: ...\n'
    on.write("declaring.py", DECLARING + cool)
    on("tick", "--app", "declaring")
    assert "not in the code" not in schedules(on, "list", "--app", "declaring")
    del sys.modules["declaring"]
    on.write("declaring.py", DECLARING)
    schedules(on, "put", "by-hand", *DAILY)
    listed = schedules(on, "list", "--app", "declaring").splitlines()
    assert ["not in the code" in line for line in listed] == [False, False, True, False]
    assert "not in the code" not in schedules(on, "list")
    assert shown(on, "cool", "--app", "declaring")["undeclared"]
    assert "undeclared" not in shown(on, "cool")
    assert "cool  on, not in the code any more" in schedules(on, "show", "cool", "--app", "declaring")


@pytest.mark.parametrize("columns", [80, 160])
def test_show_tells_all_of_a_schedule(on: Shell, columns: int) -> None:
    on.set(COLUMNS=str(columns))
    schedules(
        on,
        "put",
        "tea",
        "--type",
        "greet",
        "--cron",
        "0 16 * * *",
        *BRUSSELS,
        "--exclude",
        "SAT",
        "--exclude",
        "WED",
        "--jitter",
        "1m",
    )
    event = json.loads(schedules(on, "trigger", "tea", "--payload", '"Ada"', "--json"))["events"][0]["id"]
    on("tick", "--app", "shop")
    schedules(on, "pause", "tea", "--reason", "no biscuits")
    told = schedules(on, "show", "tea")
    assert all(len(line.rstrip()) <= columns for line in told.splitlines())
    assert told.splitlines()[0] == "tea  paused"
    for fact in (
        "cron 0 16 * * *",
        "Europe/Brussels",
        "greet",
        "held while paused",
        "paused         2",
        "gap: right after the gap; overlap: the first time",
        "exclude        SAT, WED",
        "jitter         1m",
        "excluded: ",
        f"{event}  COMPLETED",
        "late · triggered",
        "held: paused",
        f"paused by {getpass.getuser()}: no biscuits",
    ):
        assert fact in told
    whole = shown(on, "tea")
    assert len(whole["occurrences"]) == 5
    assert [entry["act"] for entry in whole["history"]] == ["created", "triggered", "paused"]
    assert {one["status"] for one in whole["events"]} == {"PENDING", "COMPLETED"}


def test_show_tells_of_what_lies_ahead_with_what_people_moved(lite: Shell) -> None:
    schedules(lite, "put", "yearly", "--type", "x", "--yearly", "06-01", "--start", "2034-01-01")
    schedules(lite, "reschedule", "yearly", "2035-02-01T10:00")
    ahead = [(one["due_at"], one["note"]) for one in shown(lite, "yearly")["occurrences"]]
    assert ahead[:2] == [
        ("2035-02-01T10:00:00Z", "moved by hand from 2034-06-01T09:00:00Z"),
        ("2035-06-01T09:00:00Z", None),
    ]


def test_a_schedule_that_somebody_broke_by_hand_is_shown_with_its_error(lite: Shell) -> None:
    schedules(lite, "put", "broken", *DAILY)

    async def break_it(duly: Duly) -> None:
        async with duly.transaction() as tx:
            broken = """rule = '{"cron": "at tea"}', halted = 'Invalid: tea?', halt_kind = 'error'"""
            await tx.execute(f"UPDATE schedules SET {broken}")

    long_ago("sqlite:///duly.db", break_it)
    listed, told = schedules(lite, "list"), schedules(lite, "show", "broken")
    assert re.search(r"broken +error +cron at tea .*Invalid: tea\?", listed)
    assert "but has 2" in told
    lite.set(COLUMNS="80")
    assert "Invalid: tea?" in schedules(lite, "list")
    assert schedules(lite, "put", "broken", *DAILY).startswith("changed broken")


# -- looking ahead


def test_a_rule_can_be_previewed_without_a_database(shell: Shell) -> None:
    told = schedules(
        shell, "preview", "--cron", "30 2 * * *", *BRUSSELS, "--after", "2027-03-27", "--count", 3, "--db", "sqlite://"
    )
    assert [line.split("  ")[:2] for line in told.splitlines()] == [
        ["UTC", ""],
        ["2027-03-27 01:30:00", "Sat 2027-03-27 02:30:00"],
        ["2027-03-28 01:00:00", "Sun 2027-03-28 03:00:00"],
        ["2027-03-29 00:30:00", "Mon 2027-03-29 02:30:00"],
    ]
    assert told.count("2027-03-28 has no 02:30: it fires right after the gap") == 1
    assert not list(shell.folder.glob("*.db"))


@pytest.mark.parametrize("columns", [80, 160])
def test_two_equal_local_times_of_a_preview_are_told_apart(shell: Shell, columns: int) -> None:
    shell.set(COLUMNS=str(columns))
    words = ("--cron", "30 2 * * *", *BRUSSELS, "--after", "2026-10-24T12:00", "--count", 2, "--dst-overlap", "both")
    told = schedules(shell, "preview", *words)
    assert all(len(line.rstrip()) <= columns for line in told.splitlines())
    assert "this is the first time" in " ".join(told.split())
    assert "this is the second time" in " ".join(told.split())
    found = json.loads(schedules(shell, "preview", *words, "--json"))["occurrences"]
    assert [(one["due_at"], one["local_at"]) for one in found] == [
        ("2026-10-25T00:30:00Z", "2026-10-25T02:30:00"),
        ("2026-10-25T01:30:00Z", "2026-10-25T02:30:00"),
    ]


def test_a_schedule_can_be_previewed_by_its_name(on: Shell) -> None:
    schedules(on, "put", "it", *DAILY, *BRUSSELS, "--exclude", "2035-05-02")
    told = schedules(on, "preview", "it", "--after", "2035-05-01T08:00", "--count", 2)
    assert "2035-05-01 07:00:00  Tue 2035-05-01 09:00:00" in told
    assert "excluded: 2035-05-02" in told


def test_a_preview_of_a_schedule_that_never_fires_again_says_so(shell: Shell) -> None:
    result = shell("schedules", "preview", "--once", "2020-01-01T00:00:00Z")
    assert (result.code, result.out, result.err) == (0, "", "it never fires after that\n")


# -- acting


def test_a_pause_ends_by_itself_and_says_so(on: Shell) -> None:
    schedules(on, "put", "it", *DAILY)
    told = schedules(on, "pause", "it", "--until", "2h", "--reason", "migration", "--passed", "FIRE")
    assert re.fullmatch(r"it is paused: no event of it starts until 20[0-9: -]+ UTC\n", told)
    it = shown(on, "it")
    assert (it["pause_reason"], it["pause_passed"]) == ("migration", "fire")
    assert it["paused_until"] is not None
    page = schedules(on, "show", "it")
    for part in ("paused until", "in 2h", "fires by the misfire policy", "migration", "until 20"):
        assert part in page, page
    assert "migration" in schedules(on, "list")
    assert schedules(on, "pause", "it", "--until", "3h").startswith("it was paused already, and now is until 20")
    wrong = on("schedules", "pause", "it", "--until", "yesterday")
    assert wrong.code == 2
    assert "until" in wrong.err


def test_a_pause_holds_the_next_event_and_a_resumption_releases_it(on: Shell) -> None:
    schedules(on, "put", "it", *DAILY)
    assert schedules(on, "pause", "it") == "it is paused: no event of it starts until it is resumed\n"
    assert schedules(on, "pause", "it") == "it was paused already\n"
    assert shown(on, "it")["held"] == "paused"
    assert schedules(on, "resume", "it").startswith("it is resumed: nothing was missed while it was paused; next 20")
    assert schedules(on, "resume", "it").startswith("it was not paused; next 20")


def test_occurrences_that_a_command_passes_over_are_told_with_the_command_that_fires_them(on: Shell) -> None:
    schedules(on, "put", "it", "--type", "x", "--every", "1h")
    told = schedules(on, "reschedule", "it", "+3h30m")
    assert "passed over: 2 occurrences, 20" in told
    assert "to fire the first one, once it is due: duly schedules backfill it --from 20" in told
    assert "passed over" not in schedules(on, "reschedule", "it", "+1h")
    assert "passed over: 1 occurrence, 20" in schedules(on, "skip", "it")
    [skipped] = json.loads(schedules(on, "skip", "it", "--json"))["schedules"]
    assert (skipped["passed_over"]["count"], len(skipped["passed_over"]["first"])) == (1, 1)
    assert "passed over" not in schedules(on, "put", "it", "--type", "x", "--every", "2h")


def fired_beside(on: Shell) -> list[str | None]:
    """For which instants events wait that are not the next ones of their schedules."""
    waiting = on("events", "list", "--status", "PENDING", "--json").json["events"]
    return [event["scheduled_at"] for event in waiting if not event["head"]]


@pytest.mark.parametrize("name", ["it", "-o'clock 日"])
def test_the_command_shown_for_passed_over_occurrences_fires_them_when_it_is_run(
    on: Shell, url: str, name: str
) -> None:
    async def put_and_paused(duly: Duly) -> None:
        await duly.schedules.put(name, cron("0 9 1 1 *"), "x")
        await duly.schedules.pause(name)

    long_ago(url, put_and_paused)
    on.set(COLUMNS="60")
    told = schedules(on, "resume", "--", name)
    assert re.search(r"passed over: \d+ occurrences, 2020-01-01 09:00:00, 2021-01-01 09:00:00, .* … \(UTC\)\n", told)
    [shown] = re.findall("to fire the first one: duly (.*)$", told, re.MULTILINE)
    ran = on(*shlex.split(shown))
    assert (ran.code, ran.err) == (0, "")
    assert fired_beside(on) == ["2020-01-01T09:00:00Z"]


def test_the_command_for_an_occurrence_that_an_edit_puts_into_the_past_fires_it(on: Shell, url: str) -> None:
    shown: list[str] = []

    async def edited(duly: Duly) -> None:
        await duly.schedules.put("it", cron("0 9 * * *", timezone="Asia/Tokyo"), "x")
        over = (await duly.schedules.put("it", cron("0 8 * * *", timezone="Asia/Tokyo"), "x")).passed_over
        shown.append(over.fire_with if over is not None else "")

    at_half_past_eight = ManualClock(datetime(2019, 12, 31, 23, 30, tzinfo=UTC))
    long_ago(url, edited, at_half_past_eight)
    ran = on(*shlex.split(shown[0])[1:])
    assert (ran.code, ran.err) == (0, "")
    assert len(fired_beside(on)) == 1


@pytest.mark.parametrize(
    ("passed", "said"),
    [([], "were skipped; next 20"), (["--passed", "fire"], "fire by its misfire policy; next 2020-01-01 09:00:00")],
)
def test_a_resumption_tells_what_becomes_of_passed_over_occurrences(lite: Shell, passed: list[str], said: str) -> None:
    async def pause_it(duly: Duly) -> None:
        await duly.schedules.put("it", {"cron": "0 9 * * *"}, "report")
        await duly.schedules.pause("it")

    long_ago("sqlite:///duly.db", pause_it)
    told = schedules(lite, "resume", "it", *passed)
    assert re.match(r"it is resumed: [\d,]+ occurrences missed while it was paused ", told)
    assert said in told


def test_a_trigger_fires_now_and_leaves_the_next_event_alone(on: Shell) -> None:
    schedules(on, "put", "it", "--type", "greet", "--every", "1h", "--payload", '"all"')
    before = shown(on, "it")["next_at"]
    told = schedules(on, "trigger", "it", "--payload", '"Ada"', "--correlation-id", "c1")
    [id] = re.findall(r"triggered it: event (\S+)  PENDING, it fires now\n", told)
    on("tick", "--app", "shop")
    assert on.told() == ["hello Ada"]
    event = on.show(id)
    assert (event["status"], event["correlation_id"]) == ("COMPLETED", "c1")
    assert shown(on, "it")["next_at"] == before
    schedules(on, "trigger", "it")
    on("tick", "--app", "shop")
    assert on.told() == ["hello Ada", "hello all"]


def test_a_trigger_of_a_shadow_says_that_nothing_is_delivered(lite: Shell) -> None:
    schedules(lite, "put", "canary", *DAILY, "--mode", "shadow")
    assert "SKIPPED, shadow mode: recorded, not delivered" in schedules(lite, "trigger", "canary")


def test_a_trigger_that_waits_for_the_limit_of_its_schedule_says_so(lite: Shell) -> None:
    schedules(lite, "put", "one", *DAILY, "--overlap", "queue")
    schedules(lite, "trigger", "one")
    assert "it fires now, waits for its turn" in schedules(lite, "trigger", "one")


def test_the_next_event_alone_can_be_moved_or_skipped(on: Shell) -> None:
    put = schedules(on, "put", "it", "--type", "x", "--yearly", "06-01", *BRUSSELS, "--start", "2034-01-01")
    assert put.startswith("created it  yearly 06-01 09:00 in Europe/Brussels  next 2034-06-01 07:00:00 UTC")
    assert "it was moved, this once; next 2034-06-02 08:30:00 UTC" in schedules(
        on, "reschedule", "it", "2034-06-02T10:30"
    )
    assert "it leaves one out; next 2035-06-01 07:00:00 UTC" in schedules(on, "skip", "it", "--reason", "closed")
    assert [entry["act"] for entry in shown(on, "it")["history"]] == ["created", "rescheduled", "skipped"]
    schedules(on, "put", "over", *DAILY)
    schedules(on, "put", "over", "--type", "x", "--once", "2020-01-01T00:00:00Z")
    for act in (["skip", "over"], ["reschedule", "over", "+1h"]):
        result = on("schedules", *act)
        assert (result.code, result.err) == (1, "duly: schedule 'over' has no next event: ended\n")


def test_a_backfill_tells_its_label_and_what_existed(on: Shell) -> None:
    schedules(on, "put", "it", *DAILY)
    fill = ("backfill", "it", "--from", "2026-01-01", "--to", "2026-01-04")
    told = schedules(on, *fill)
    assert told == "backfilled it: 3 events made  label default\n"
    again = "backfilled it: 0 events made; 3 existed already, and fire again with a new --label  label default\n"
    assert schedules(on, *fill) == again
    more = json.loads(schedules(on, *fill[:-1], "2026-01-05", "--label", "again", "--limit", 4, "--json"))
    assert (more["label"], len(more["events"]), more["existing"]) == ("again", 4, 0)


def test_a_deletion_tells_how_many_events_it_cancels(on: Shell) -> None:
    schedules(on, "put", "it", *DAILY)
    schedules(on, "put", "dependent", *DAILY, "--depends-on", "it", "--within", "1h")
    schedules(on, "trigger", "it")
    refused = on("schedules", "delete", "it")
    assert (refused.code, refused.err) == (1, "duly: cannot delete schedule 'it': dependent depends on it\n")
    assert schedules(on, "delete", "dependent", "it") == (
        "deleted dependent: 1 waiting event was cancelled\ndeleted it: 2 waiting events were cancelled\n"
    )
    assert names(on) == []


def test_one_refused_name_of_many_does_not_keep_the_others(on: Shell) -> None:
    for name in ("first", "last"):
        schedules(on, "put", name, "--type", "greet", "--every", "1h")
    for act, of_many in (
        ("pause", "schedules"),
        ("resume", "schedules"),
        ("skip", "schedules"),
        ("trigger", "events"),
        ("delete", "deleted"),
    ):
        result = on("schedules", act, "first", "nobody", "last", "--json")
        assert result.code == 1
        assert "there is no schedule 'nobody'" in result.error["message"]
        assert len(result.json[of_many]) == 2


def test_another_tenants_schedule_does_not_exist(lite: Shell) -> None:
    schedules(lite, "put", "it", *DAILY, "--tenant", "acme")
    assert "in tenant 'other'" in lite("schedules", "pause", "it", "--tenant", "other").err
    assert lite("schedules", "show", "it").code == 1
    schedules(lite, "pause", "it", "--tenant", "acme")
    assert names(lite, "--tenant", "other") == []


# -- newer zone data


def test_replanning_moves_what_older_zone_data_had_planned(lite: Shell) -> None:
    schedules(lite, "put", "it", "--type", "x", "--yearly", "06-01", *BRUSSELS, "--start", "2034-01-01")
    assert schedules(lite, "replan") == "nothing moves\n"

    async def as_planned_by_older_data(duly: Duly) -> None:
        async with duly.transaction() as tx:
            hour = 3_600_000_000
            await tx.execute(f"""UPDATE events SET due = due + {hour}, scheduled = scheduled + {hour},
                                 ready = ready + {hour}, zone_data = '2000a'""")

    long_ago("sqlite:///duly.db", as_planned_by_older_data)
    for words, said in ((["--dry-run"], "1 event would move"), ([], "1 event moved")):
        told = schedules(lite, "replan", *words)
        assert re.search(r"it +Europe/Brussels +2034-06-01 08:00:00 +→ +2034-06-01 07:00:00", told)
        assert said in told
    assert json.loads(schedules(lite, "replan", "--json")) == {"moved": [], "dry_run": False}
    assert shown(lite, "it")["next_at"] == "2034-06-01T07:00:00Z"


# -- for everybody


def test_names_of_schedules_cannot_send_control_sequences_to_the_terminal(lite: Shell) -> None:
    async def break_it(duly: Duly) -> None:
        await duly.schedules.put("it", {"every": "1h"}, "x")
        async with duly.transaction() as tx:
            await tx.execute("UPDATE schedules SET halted = ?, halt_kind = 'error'", "\x1b[2J all is well")

    long_ago("sqlite:///duly.db", break_it)
    assert "\x1b" not in schedules(lite, "list") + schedules(lite, "show", "it")


def test_every_documented_verb_of_schedules_is_there_and_has_help(shell: Shell) -> None:
    verbs = "list show put pause resume trigger reschedule skip preview backfill delete replan import".split()
    assert set(verbs) <= set(shell("schedules", "--help").out.split())
    for verb in verbs:
        told = shell("schedules", verb, "--help")
        assert told.code == 0
        assert told.out.startswith(f"Usage: duly schedules {verb}")


# -- wrong use


WRONG_USE = [
    (["put", "it", "--type", "x"], "--cron"),
    (["put", "it", *DAILY, "--every", "1h"], "--cron and --every"),
    (["put", "it", "--cron", "@daily"], "--type"),
    (["put", *DAILY], "give the name of the schedule"),
    (["put", "it", *DAILY, "--at", "09:00"], "--yearly"),
    (["put", "it", *DAILY, "--anchor", "now"], "--every or --rrule"),
    (["put", "it", *DAILY, "--depends-on", "load"], "--within"),
    (["put", "it", *DAILY, "--depends-on", "load", "--within", "1h"], "create that schedule first"),
    (["put", "it", *DAILY, "--paused", "--enabled"], "--enabled"),
    (["put", "it", *DAILY, "--file", "x.json"], "--file"),
    (["put", "it", *DAILY, "--payload", "{cart: 9}"], "--payload '"),
    (["put", "it", *DAILY, "--timezone", "Mars/Phobos"], "Europe/Brussels"),
    (["put", "it", "--type", "x", "--cron", "61 25 * * *"], "hour '25'"),
    (["put", "it", "--type", "x", "--once", "tomorrow"], "2026-12-01T09:00:00Z"),
    (["put", "it", "--type", "x", "--every", "1h", "--anchor", "soon"], "anchor"),
    (["put", "it", *DAILY, "--limit", "0", "--overlap", "often", "--exclude", "FOO"], "allow, skip, queue"),
    (["pause"], "duly schedules list"),
    (["resume", "it", "--passed", "maybe"], "skip, fire"),
    (["reschedule", "it"], "+30s"),
    (["reschedule", "it", "whenever"], "2026-12-01T09:00:00Z"),
    (["backfill", "it"], "--from"),
    (["backfill", "it", "--from", "2026-02-01", "--to", "2026-01-01"], "to: is not after the start"),
    (["backfill", "it", "--from", "-1d", "--to", "+1d"], "is in the future"),
    (["backfill", "it", "--from", "2020-01-01", "--to", "2026-01-01"], "raise the limit"),
    (["preview"], "--cron"),
    (["preview", "it", "--cron", "@daily"], "'it'"),
    (["preview", "--cron", "0 0 30 2 *"], "never"),
    (["preview", "--cron", "@daily", "--timezone", "Foo", "--start", "2027-01-01"], "Europe/Brussels"),
    (["preview", "--cron", "@daily", "--after", "soon"], "after"),
    (["preview", "--cron", "@daily", "--count", "0"], "--count"),
    (["list", "--limit", "0"], "--limit"),
    (["lst"], "list"),
]


@pytest.mark.parametrize(("words", "help"), WRONG_USE, ids=lambda value: " ".join(value) if type(value) is list else "")
def test_wrong_use_of_schedules_exits_with_2_and_one_line_that_helps(lite: Shell, words: list[str], help: str) -> None:
    schedules(lite, "put", "it", *DAILY)
    result = lite("schedules", *words)
    assert (result.code, result.out) == (2, "")
    [line] = result.err.splitlines()
    assert line.startswith("duly: ")
    assert help in line
    assert names(lite) == ["it"]


@pytest.mark.parametrize("act", ["show", "pause", "resume", "trigger", "skip", "delete", "preview"])
def test_a_missing_schedule_fails_with_the_command_that_lists_them(lite: Shell, act: str) -> None:
    result = lite("schedules", act, "nobody")
    assert (result.code, result.out) == (1, "")
    assert result.err == "duly: there is no schedule 'nobody'; `duly schedules list` shows them\n"


def test_a_zone_that_is_seldom_meant_is_taken_and_warned_of(lite: Shell) -> None:
    told = schedules(lite, "put", "daily", *DAILY, "--timezone", "EST")
    assert "warning: EST is an abbreviation and stands for UTC-5 all year, without summer time" in told
    assert "warning" not in schedules(lite, "put", "daily", *DAILY, "--timezone", "UTC")


# -- by filters


def test_schedules_are_tagged_listed_and_acted_on_by_filters(on: Shell) -> None:
    for name in ("one", "two"):
        schedules(on, "put", name, *DAILY, "--tag", "nightly", "--tag", "etl")
    schedules(on, "put", "other", *DAILY)
    assert shown(on, "one")["tags"] == ["etl", "nightly"]
    assert "etl, nightly" in schedules(on, "show", "one")
    listed = json.loads(schedules(on, "list", "--tag", "nightly", "--json"))["schedules"]
    assert [one["name"] for one in listed] == ["one", "two"]
    told = schedules(on, "pause", "--tag", "nightly", "--dry-run")
    assert told.splitlines()[-1] == "would pause 2 schedules (a dry run: nothing was changed)"
    assert re.search(r"report +enabled +2", told)
    json_told = json.loads(schedules(on, "pause", "--tag", "nightly", "--dry-run", "--json"))
    assert (json_told["dry_run"], json_told["would"]) == (True, {"value": 2, "exact": True})
    refused = on("schedules", "pause", "--tag", "nightly")
    assert (refused.code, "add --yes" in refused.err) == (2, True)
    done = schedules(on, "pause", "--tag", "nightly", "--until", "2h", "--reason", "migration", "--yes")
    assert done.splitlines()[-1] == "paused 2 schedules"
    assert shown(on, "two")["pause_reason"] == "migration"
    assert [one["name"] for one in json.loads(schedules(on, "list", "--paused", "--json"))["schedules"]] == [
        "one",
        "two",
    ]
    assert schedules(on, "resume", "--all", "--yes").splitlines()[-1] == "resumed 2 schedules"
    assert schedules(on, "trigger", "--name-prefix", "o", "--yes").splitlines()[-1] == "triggered 2 schedules"
    for wrong in (
        ("pause",),
        ("pause", "one", "--tag", "nightly"),
        ("trigger", "--tag", "x", "--payload", "1", "--yes"),
    ):
        assert on("schedules", *wrong).code == 2, wrong
    assert "--name-prefix" in schedules(on, "list", "--help")
    cleared = schedules(on, "put", "one", *DAILY, "--no-tags")
    assert cleared.startswith("changed one")
    assert shown(on, "one")["tags"] == []


def test_events_are_cancelled_by_filters(on: Shell) -> None:
    for _ in range(2):
        assert on("at", "+1h", "--type", "letter").code == 0
    assert on("at", "+1h", "--type", "parcel").code == 0
    told = on("events", "cancel", "--type", "letter", "--dry-run")
    assert told.out.splitlines()[-1] == "would cancel 2 events (a dry run: nothing was changed)"
    done = on("events", "cancel", "--type", "letter", "--reason", "a wrong price", "--yes")
    assert (done.code, done.out.splitlines()[-1]) == (0, "cancelled 2 events")
    assert on("events", "cancel").code == 2
    assert on("events", "cancel", "some-key", "--type", "letter").code == 2
    none = on("events", "cancel", "--type", "letter", "--yes")
    assert (none.code, "no events match" in none.err) == (0, True)
    assert on("events", "cancel", "--all", "--yes", "--json").json == {"cancelled": 1, "left_alone": 0}
