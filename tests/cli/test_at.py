"""``duly at``, and how instants and delays are written."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.cli.instants import parse_when
from duly.cli.output import away, brief, without_password
from duly.errors import Invalid
from tests.cli.conftest import Shell, warned_of


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-12-01T09:00:00Z", datetime(2026, 12, 1, 9, tzinfo=UTC)),
        ("2026-12-01 09:00:00Z", datetime(2026, 12, 1, 9, tzinfo=UTC)),
        ("2026-12-01T09:00:00+02:00", datetime(2026, 12, 1, 7, tzinfo=UTC)),
        ("2026-12-01T09:00:00.123456-05:30", datetime(2026, 12, 1, 14, 30, 0, 123456, tzinfo=UTC)),
        ("+30s", timedelta(seconds=30)),
        ("30s", timedelta(seconds=30)),
        ("in 5m", timedelta(minutes=5)),
        ("In 1h 30m", timedelta(minutes=90)),
        ("-1h", timedelta(hours=-1)),
        ("now", timedelta()),
        (" NOW ", timedelta()),
    ],
)
def test_instants_and_delays_are_read_as_they_are_meant(written: str, meant: datetime | timedelta) -> None:
    assert parse_when(written) == meant


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("2026-12-01T09:00:00", "write 2026-12-01T09:00:00Z for UTC, or an offset as in 2026-12-01T09:00:00+02:00"),
        ("2026-12-01", "write 2026-12-01T00:00:00Z for UTC"),
        ("2026-02-30T09:00:00Z", "2026-02 has 28 days"),
        ("tomorrow", "an instant such as 2026-12-01T09:00:00Z"),
        ("5 minutes", "a delay such as +30s"),
        ("0001-01-01T00:00:00+14:00", "out of range: the year in UTC must be 2 to 9998"),
        ("+99999999999w", "is not a valid time"),
        ("", "is not a valid time"),
    ],
)
def test_text_that_is_no_instant_is_refused_with_how_to_write_one(written: str, said: str) -> None:
    with pytest.raises(Invalid, match=r"^when: ") as refused:
        parse_when(written)
    assert said in str(refused.value)


@given(st.text(max_size=40))
def test_any_text_is_read_as_an_instant_or_refused(written: str) -> None:
    try:
        when = parse_when(written)
    except Invalid:
        return
    assert isinstance(when, timedelta) or when.tzinfo is UTC


def test_the_command_at_stores_the_event_and_tells_its_id_type_due_and_distance(on: Shell) -> None:
    done = on("at", "in", "2h", "--type", "greet", "--payload", '{"name": "Ada"}', "--key", "k", "--tenant", "acme",
              "--correlation-id", "c-1")  # fmt: skip
    assert (done.code, done.err) == (0, warned_of("greet"))
    id, type, due = done.out.split("  ")
    shown = on.show(id)
    assert (shown["type"], shown["payload"], shown["key"]) == ("greet", {"name": "Ada"}, "k")
    assert (shown["tenant"], shown["correlation_id"], shown["status"]) == ("acme", "c-1", "PENDING")
    assert type == "greet"
    assert due == f"due {shown['due_at'][:19].replace('T', ' ')} UTC, in 2h\n"


def test_a_timer_and_a_schedule_can_expire(on: Shell) -> None:
    id = on.at("2031-12-01T09:00:00Z", "--type", "greet", "--expires", "90m")
    assert on.show(id)["expires"] == "1h30m"
    assert "expires" in on("events", "show", id).out
    assert "2031-12-01 10:30:00.000 UTC" in on("events", "show", id).out
    put = on("schedules", "put", "digest", "--type", "digest", "--cron", "@daily", "--expires", "2h", "--json")
    assert put.json["expires"] == "2h"
    refused = on("at", "now", "--type", "greet", "--expires", "0s")
    assert (refused.code, "expires: must be 1s to 366d, not 0s" in refused.err) == (2, True)


def test_an_event_tells_why_it_waits(on: Shell) -> None:
    id = on.at("2031-12-01T09:00:00Z", "--type", "greet")
    assert on("events", "why", id).out == "PENDING, scheduled: it is due at 2031-12-01T09:00:00Z\n"
    assert on("events", "why", id, "--json").json["next_at"] == "2031-12-01T09:00:00Z"
    nobody = on("events", "why", "00000000-0000-7000-8000-000000000000")
    assert (nobody.code, "there is no event" in nobody.err) == (1, True)


def test_an_instant_is_stored_to_the_microsecond(on: Shell) -> None:
    assert on.show(on.at("2031-12-01T09:00:00.123456+02:00", "--type", "x"))["due_at"] == "2031-12-01T07:00:00.123456Z"


def test_a_delay_counts_from_the_stores_now(on: Shell) -> None:
    shown = on.show(on.at("+90s", "--type", "greet"))
    gap = datetime.fromisoformat(shown["due_at"]) - datetime.fromisoformat(shown["created_at"])
    assert gap == timedelta(seconds=90)


def test_a_key_is_told_to_have_moved_or_to_be_as_it_was(on: Shell) -> None:
    words = ("--type", "greet", "--key", "k")
    first = on("at", "2031-12-01T09:00:00Z", *words, "--json").json
    moved = on("at", "2031-12-02T09:00:00Z", *words, "--json").json
    assert (first["change"], moved["change"]) == ("created", "moved")
    assert moved["id"] == first["id"]
    assert "nothing changed" in on("at", "2031-12-02T09:00:00Z", *words).out


def test_any_json_can_be_a_payload(on: Shell) -> None:
    for payload, meant in (("-5", -5), ('"x"', "x"), ("[1, null]", [1, None]), ("null", None), ("{}", {})):
        assert on.show(on.at("+1h", "--type", "greet", "--payload", payload))["payload"] == meant
    assert on.show(on.at("+1h", "--type", "greet"))["payload"] is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (59.9, "59.9 s"), (59.97, "1m"), (61, "1m 1s"),
     (3599.4, "59m 59s"), (3599.6, "1h"), (3600, "1h"), (3661, "1h 1m"), (86340, "23h 59m"), (86399, "1d"),
     (86400 * 3 + 4 * 3600, "3d 4h")],
)  # fmt: skip
def test_spans_are_told_by_their_two_largest_units(seconds: float, said: str) -> None:
    assert brief(timedelta(seconds=seconds)) == said


def test_distances_have_a_direction() -> None:
    assert away(timedelta(minutes=5)) == "in 5m"
    assert away(timedelta(minutes=-5)) == "5m ago"
    assert away(timedelta(milliseconds=-20)) == "now"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@host/db", "postgresql://ada:…@host/db"),
        ("postgresql://ada@host/db", "postgresql://ada@host/db"),
        ("sqlite:///duly.db", "sqlite:///duly.db"),
        ("postgresql://[broken:secret@host/db", "postgresql://…"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_a_key_that_has_fired_is_told_and_once_more_takes_an_option(on: Shell) -> None:
    id = on.at("2020-12-01T09:00:00Z", "--type", "greet", "--key", "k")
    on("tick", "--app", "shop")
    assert on.show(id)["status"] == "COMPLETED"
    repeat = on("at", "2020-12-01T09:00:00Z", "--type", "greet", "--key", "k", "--json")
    assert (repeat.code, repeat.json["id"], repeat.json["change"]) == (0, id, "unchanged")
    refused = on("at", "+1h", "--type", "greet", "--key", "k")
    assert (refused.code, id in refused.out, "has fired already" in refused.out) == (1, True, True)
    assert "nothing was scheduled: this key has fired already; --no-once lets it fire again" in refused.err
    assert on("at", "+1h", "--type", "greet", "--key", "k", "--once").code == 1
    told = on("at", "+1h", "--type", "greet", "--key", "k", "--json")
    assert (told.code, told.json["change"]) == (1, "already_fired")
    again = on("at", "+1h", "--type", "greet", "--key", "k", "--no-once", "--json")
    assert (again.code, again.json["change"], again.json["id"] != id) == (0, "created", True)
    other = on("at", "+1h", "--type", "bill", "--key", "k")
    assert (other.code, "a timer of type 'bill' needs another key" in other.err) == (1, True)


def test_a_timer_may_be_debounced(on: Shell) -> None:
    first = on("at", "--type", "greet", "--key", "doc-7", "--quiet", "24h", "--max-wait", "7d", "--json")
    assert (first.code, first.json["change"], first.json["quiet"], first.json["max_wait"]) == (0, "created", "1d", "7d")
    again = on("at", "--type", "greet", "--key", "doc-7", "--quiet", "24h", "--max-wait", "7d")
    assert (again.code, "an event with this key existed and was moved" in again.out) == (0, True)
    assert on.show(first.json["id"])["first_asked_at"] == first.json["first_asked_at"]
    both = on("at", "+1h", "--type", "greet", "--key", "doc-7", "--quiet", "24h")
    assert (both.code, "quiet: stands in place of the due time: give one of them" in both.err) == (2, True)
    keyless = on("at", "--type", "greet", "--quiet", "24h")
    assert (keyless.code, "key: is missing: with quiet" in keyless.err) == (2, True)
    assert on("at", "--type", "greet").code == 2
