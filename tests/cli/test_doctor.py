"""``duly doctor``: each ill is found, named, and has its advice."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec
import pytest

from duly import Duly
from duly.cli.doctor import checks as doctors_checks
from duly.engine.presence.beat import row_of
from duly.records.schedule import Halt, HaltKind
from tests.cli.conftest import KEY, Shell
from tests.cli.test_events import interrupt
from tests.servers import Postgres
from tests.stores.rows import spelled


def checks(shell: Shell, *words: object) -> dict[str, Any]:
    return {check["subject"]: check for check in shell("doctor", *words, "--json").json["checks"]}


def test_a_healthy_database_passes_every_check(shell: Shell) -> None:
    shell("migrate")
    done = shell("doctor")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok"] * len(lines)
    for subject in ("time zones", "database", "SQLite", "durability", "clock", "schema", "overdue", "dead letters"):
        assert any(line.startswith(f"ok    {subject}  ") for line in lines), subject


def test_a_durable_postgres_passes_every_check(shell: Shell) -> None:
    with Postgres(durable=True) as server:
        url = server.create_database("sound")
        shell("migrate", "--db", url)
        found = checks(shell, "--db", url)
        assert {check["level"] for check in found.values()} == {"ok"}
        assert found["durability"]["found"] == "fsync on, synchronous_commit on, full_page_writes on"


def test_a_postgres_that_forgets_after_a_power_cut_fails(shell: Shell, clean_postgres: str) -> None:
    shell("migrate", "--db", clean_postgres)  # the tests' own server is fast, not durable
    done = shell("doctor", "--db", clean_postgres)
    assert done.code == 1
    assert "FAIL  durability" in done.out
    assert "set fsync and full_page_writes to on" in done.out


def test_a_missing_database_fails_and_the_other_checks_are_left_out(shell: Shell) -> None:
    done = shell("doctor", "--db", "postgresql://ada:secret@127.0.0.1:1/x")
    assert done.code == 1
    assert "FAIL  database" in done.out
    assert "check that the database is running" in done.out
    assert "secret" not in done.out + done.err
    assert shell("doctor", "--db", "sqlite:///nowhere.db").code == 1


def test_an_app_that_cannot_be_imported_fails(shell: Shell) -> None:
    done = shell("doctor", "--app", "nowhere")
    assert done.code == 1
    assert "FAIL  app" in done.out


def test_tables_that_are_missing_fail(shell: Shell, empty_url: str) -> None:
    async def only_connect() -> None:
        duly = Duly(empty_url)
        await duly.store.connect()
        await duly.store.close()

    asyncio.run(only_connect())
    found = checks(shell, "--db", empty_url)
    assert found["schema"]["level"] == "fail"
    assert "duly migrate" in found["schema"]["advice"]
    assert shell("doctor", "--db", empty_url).code == 1


def test_due_events_without_a_handler_in_the_app_are_a_warning(on: Shell) -> None:
    on.at("now", "--type", "greet")
    assert checks(on, "--app", "shop")["handlers"]["level"] == "ok"
    on.at("2020-01-01T00:00:00Z", "--type", "lost")
    on.at("+1h", "--type", "later")  # not due: its worker may yet start
    found = checks(on, "--app", "shop")["handlers"]
    assert found["level"] == "warn"
    assert "handler:lost: 1 event" in found["found"]
    assert on("doctor", "--app", "shop").out.count("this app has no handler for it") == 1


def test_overdue_events_are_a_warning_and_dead_letters_fail(on: Shell) -> None:
    on.at("2020-01-01T00:00:00Z", "--type", "greet")
    found = checks(on)
    assert found["overdue"]["level"] == "warn"
    assert "1 event" in found["overdue"]["found"]
    assert "2020-01-01 00:00:00" in found["waiting"]["found"]
    on.at("now", "--type", "reject")
    on("tick", "--app", "shop")
    found = checks(on)
    assert found["overdue"]["level"] == "ok"
    assert (found["dead letters"]["level"], found["dead letters"]["found"]) == ("fail", "1 event")
    assert checks(on, "--warn-only")["dead letters"]["level"] == "warn"


def test_what_is_overdue_in_a_lane_that_nobody_serves_fails_with_what_to_start(on: Shell) -> None:
    assert checks(on)["unserved"]["level"] == "ok"
    on.at("+1h", "--type", "lost")  # its worker may yet start
    on.at("now", "--type", "lost")
    assert checks(on)["unserved"]["level"] == "ok"
    on.set(DULY_LATE_AFTER="1ms")
    found = checks(on)["unserved"]
    assert found["level"] == "fail"
    assert re.fullmatch(
        r"handler:lost: 1 event could have begun, the oldest for .+; no worker ever served it", found["found"]
    )
    assert "`duly worker --app MODULE`" in found["advice"]
    assert checks(on, "--warn-only")["unserved"]["level"] == "warn"
    on.at("now", "--type", "greet")
    on("tick", "--app", "shop")
    on.at("now", "--type", "greet")
    assert [one["found"][:12] for one in every(on, "unserved")] == ["handler:lost"]  # ticks serve the other one


def test_an_interrupted_event_in_a_lane_that_nobody_serves_fails(on: Shell, url: str) -> None:
    on.at("now", "--type", "greet")
    interrupt(url)
    on.set(DULY_LATE_AFTER="1ms")
    found = checks(on)["unserved"]
    assert found["level"] == "fail"
    assert found["found"].startswith("handler:greet: an event that a crash interrupted could begin again, ")


def test_a_schedule_that_an_error_has_halted_fails_with_how_to_resume_it(on: Shell, url: str) -> None:
    assert checks(on)["schedules"]["found"] == "none is halted by an error"
    for name, tenant in (("digest", "default"), ("report", "acme")):
        on("schedules", "put", name, "--every", "1h", "--type", "greet", "--tenant", tenant)
    halt(url)
    [first, second] = every(on, "schedules")
    assert (first["level"], first["found"]) == ("fail", "acme · report is halted: the rule cannot be evaluated")
    assert "`duly schedules resume report --tenant acme`" in first["advice"]
    assert second["found"] == "digest is halted: the rule cannot be evaluated"
    assert checks(on, "--warn-only")["schedules"]["level"] == "warn"


def test_what_people_have_to_act_on_decides_the_exit_code_except_with_warn_only(lite: Shell) -> None:
    assert lite("doctor").code == 0
    lite.at("now", "--type", "reject")
    lite.set(DULY_LATE_AFTER="1ms")
    assert (lite("doctor").code, lite("doctor", "--warn-only").code) == (1, 0)  # unserved
    lite("tick", "--app", "shop")
    assert (lite("doctor").code, lite("doctor", "--warn-only").code) == (1, 0)  # a dead letter
    lite("events", "discard", *(one["id"] for one in lite("events", "list", "--json").json["events"]))
    assert lite("doctor").code == 0
    lite("schedules", "put", "digest", "--every", "1h", "--type", "greet")
    halt("sqlite:///duly.db")
    assert (lite("doctor").code, lite("doctor", "--warn-only").code) == (1, 0)


def halt(url: str) -> None:
    """As a rule that raises would."""

    async def halted() -> None:
        async with Duly(url) as duly, duly.store.begin() as tx:
            found = await duly.schedules.list()
            halt = Halt(HaltKind.ERROR, "the rule cannot be evaluated")
            await tx.halt({schedule.id: halt for schedule in found})

    asyncio.run(halted())


def every(shell: Shell, subject: str) -> list[Any]:
    return [check for check in shell("doctor", "--json").json["checks"] if check["subject"] == subject]


def test_workers_are_counted_and_a_stalled_one_is_a_warning(on: Shell, url: str) -> None:
    assert checks(on)["workers"]["found"] == "0 workers running; `duly workers` lists them"

    async def beat() -> None:
        async with Duly(url) as duly:
            hour = timedelta(hours=1)
            row = row_of("ada", ["webhook"], duly.settings, tick=False)
            await duly.store.beat(row, timedelta(), begins=True)
            hangs = msgspec.structs.replace(row, name="bo", pass_limit=-hour)
            await duly.store.beat(hangs, timedelta(), begins=True)

    asyncio.run(beat())
    stalled, counted = every(on, "workers")
    assert (stalled["level"], stalled["found"][:4]) == ("warn", "bo: ")
    assert counted["found"].startswith("1 worker running")


def test_an_event_that_a_crash_interrupted_counts_as_waiting(on: Shell, url: str) -> None:
    on.at("now", "--type", "greet")
    interrupt(url)
    assert checks(on)["waiting"]["found"].startswith("1 event")


@pytest.mark.parametrize(("ahead", "level"), [(timedelta(), "ok"), (timedelta(seconds=-30), "warn")])
def test_a_host_whose_clock_is_off_is_warned(
    shell: Shell, clean_postgres: str, monkeypatch: pytest.MonkeyPatch, ahead: timedelta, level: str
) -> None:
    class WrongClock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Self:
            return super().now(tz or UTC) + ahead

    shell("migrate", "--db", clean_postgres)
    monkeypatch.setattr(doctors_checks, "datetime", WrongClock)
    found = checks(shell, "--db", clean_postgres)["clock"]
    assert found["level"] == level
    if level == "warn":
        assert found["found"] == "this host's is 30.0 s behind the database's"


@pytest.mark.parametrize("version", ["3.51.2", "3.40.1"])
def test_a_sqlite_that_can_corrupt_the_file_fails(shell: Shell, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    shell("migrate")
    monkeypatch.setattr("apsw.sqlite_lib_version", lambda: version)
    assert checks(shell)["SQLite"]["level"] == "fail"


def test_old_time_zones_are_a_warning(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("migrate")
    monkeypatch.setattr(doctors_checks, "version", lambda _: "2023.3")
    assert checks(shell)["time zones"]["level"] == "warn"


# -- what is sent elsewhere


@pytest.fixture
def keyed(on: Shell) -> Shell:
    """A shell with a target, and the key that its secret is sealed with."""
    on.set(DULY_SECRET_KEY=KEY)
    assert on("targets", "put", "crm", "https://hooks.example/in", "--tenant", "acme").code == 0
    return on


def test_targets_that_are_open_and_can_be_opened_pass(keyed: Shell) -> None:
    found = checks(keyed)
    assert (found["targets"]["level"], found["targets"]["found"]) == ("ok", "none is parked")
    assert (found["secrets"]["level"], found["secrets"]["found"]) == (
        "ok",
        "DULY_SECRET_KEY decrypts the secrets of 1 target",
    )
    assert found["webhooks"]["found"].startswith("aiohttp ")


def test_a_target_that_is_disabled_is_a_warning_with_how_to_open_it(keyed: Shell) -> None:
    keyed("targets", "disable", "crm", "--reason", "it moves", "--tenant", "acme")
    keyed.at("now", "--type", "x", "--target", "crm", "--tenant", "acme")
    keyed("tick")
    found = checks(keyed)["targets"]
    assert found["level"] == "warn"
    assert re.fullmatch(r"acme · crm is disabled for .+: it moves; 1 event waiting", found["found"])
    assert "`duly targets enable crm --tenant acme`" in found["advice"]


def test_of_many_parked_targets_only_some_are_told(keyed: Shell) -> None:
    keyed("targets", "disable", *(f"https://{number}.example" for number in range(12)))
    told = [check for check in keyed("doctor", "--json").json["checks"] if check["subject"] == "targets"]
    assert len(told) == 11
    assert told[-1]["found"] == "and 2 more"


@pytest.mark.parametrize(
    ("key", "said"), [("", "DULY_SECRET_KEY is not set"), (KEY[::-1], "encrypted with another DULY_SECRET_KEY")]
)
def test_a_target_that_cannot_be_opened_fails(keyed: Shell, key: str, said: str) -> None:
    keyed.set(DULY_SECRET_KEY=key)
    found = checks(keyed)["secrets"]
    assert found["level"] == "fail"
    assert said in found["found"]
    assert keyed("doctor").code == 1
    keyed.set(DULY_SECRET_KEY=f"{KEY[::-1]},{KEY}")
    assert checks(keyed)["secrets"]["level"] == "ok"


def test_webhooks_that_this_host_cannot_send_or_sign_are_a_warning(on: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    on.at("now", "--type", "x", "--webhook", "https://hooks.example/in")
    unsigned = checks(on, "--app", "shop")
    assert unsigned["webhooks"]["level"] == "warn"
    assert "cannot be signed" in unsigned["webhooks"]["found"]
    assert unsigned["handlers"]["level"] == "ok"
    monkeypatch.setattr("duly.wiring.find_spec", lambda _: None)
    unsent = checks(on)["webhooks"]
    assert (unsent["level"], unsent["found"]) == ("warn", "1 event to send, but aiohttp is not installed here")
    assert "pip install '.[webhooks]' in a checkout of Duly" in unsent["advice"]


# -- rows that contradict each other


def break_rows(url: str, *statements: str) -> None:
    """As somebody would by hand."""

    async def execute() -> None:
        async with Duly(url) as duly, duly.transaction() as tx:
            for statement in statements:
                await tx.execute(spelled(duly.store, statement))

    asyncio.run(execute())


def test_consistent_rows_pass_and_the_doctor_tells_how_many_were_read(on: Shell, url: str) -> None:
    on.at("+1h", "--type", "greet")
    agree = "agree with each other, with their schedules and their history"
    assert (checks(on)["rows"]["level"], checks(on)["rows"]["found"]) == ("ok", f"1 event {agree}")
    many = "INSERT INTO duly.events (id, tenant, type, lane, due, ready, payload, created) "
    many += "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000) "
    uuid = "'00000000-0000-7000-8000-0000000' || (10000 + n)"
    uuid = uuid if url.startswith("sqlite") else f"({uuid})::uuid"
    break_rows(url, f"{many} SELECT {uuid}, tenant, type, lane, due, ready, payload, created FROM duly.events, n")
    assert checks(on)["rows"]["found"] == f"the newest 10,000 events (--all reads every one) {agree}"
    assert checks(on, "--all")["rows"]["found"] == f"10,001 events {agree}"


@pytest.mark.broken_rows("one of its events could be claimed too early", "columns_agree")
def test_a_row_that_contradicts_itself_fails_with_the_event_and_what_is_wrong(on: Shell, url: str) -> None:
    id = on.at("+1h", "--type", "greet")
    break_rows(url, "UPDATE duly.events SET ready = created")
    found = checks(on)["rows"]
    assert (found["level"], found["found"]) == ("fail", f"event {id} would be claimed before it is due")
    assert "if somebody changed the tables by hand, undo the change" in found["advice"]
    assert on("doctor").code == 1


@pytest.mark.broken_rows("its events could be claimed too early", "columns_agree")
def test_of_many_contradictions_only_some_are_told(on: Shell, url: str) -> None:
    for _ in range(12):
        on.at("+1h", "--type", "greet")
    break_rows(url, "UPDATE duly.events SET ready = created")
    told = [check["found"] for check in on("doctor", "--json").json["checks"] if check["subject"] == "rows"]
    assert (len(told), told[-1]) == (11, "and 2 more that contradict each other")


def test_the_advice_for_a_schedule_without_a_next_event_helps(on: Shell, url: str) -> None:
    on("schedules", "put", "tidy", "--type", "greet", "--every", "1h")
    break_rows(url, "DELETE FROM duly.events")
    found = checks(on)["rows"]
    assert found["level"] == "fail"
    assert "(tidy) has no next event, and does not say why" in found["found"]
    assert "`duly schedules pause NAME`, then `resume NAME`" in found["advice"]
    assert (on("schedules", "pause", "tidy").code, on("schedules", "resume", "tidy").code) == (0, 0)
    assert checks(on)["rows"]["level"] == "ok"


def test_the_advice_for_an_event_held_for_no_reason_helps(on: Shell, url: str) -> None:
    on("schedules", "put", "tidy", "--type", "greet", "--every", "1h", "--paused")
    break_rows(url, "UPDATE duly.schedules SET enabled = true, halted = NULL")
    found = checks(on)["rows"]
    assert found["level"] == "fail"
    assert 'is held as "paused", and its schedule is not' in found["found"]
    assert "run a worker" in found["advice"]
    assert on("tick", "--app", "shop").code == 0
    assert checks(on)["rows"]["level"] == "ok"


def test_the_advice_for_an_event_that_waits_for_a_target_that_is_not_parked_helps(keyed: Shell, url: str) -> None:
    keyed("targets", "disable", "crm", "--tenant", "acme")
    keyed.at("now", "--type", "x", "--target", "crm", "--tenant", "acme")
    keyed("tick")
    break_rows(url, "DELETE FROM duly.destinations")
    found = checks(keyed)["rows"]
    assert 'is held as "target crm is disabled", and that is not parked' in found["found"]
    assert "`duly targets disable NAME`, then `enable NAME`" in found["advice"]
    for act in ("disable", "enable"):
        assert keyed("targets", act, "crm", "--tenant", "acme").code == 0
    assert checks(keyed)["rows"]["level"] == "ok"


def test_the_advice_about_overdue_events_has_the_span_that_counts_as_late(lite: Shell) -> None:
    lite.set(DULY_LATE_AFTER="30m")
    lite.at("2020-01-01T00:00:00Z", "--type", "greet")
    advice = checks(lite)["overdue"]["advice"]
    assert "`duly events list --stuck --late-by 30m`" in advice
