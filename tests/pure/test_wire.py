"""Records as JSON: whatever a record has is written, read back and described, from its one list of fields."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Annotated, Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.records.api_key import KEY_JSON, ApiKey, Scope
from duly.records.event import EVENT_JSON, EVENT_PAGE, Event, Status
from duly.records.history import ENTRY_JSON, Entry
from duly.records.marks import Internal, LookedUp, told
from duly.records.schedule import SCHEDULE_JSON, HaltKind, Passed, PassedOver, Schedule
from duly.records.target import KNOWN_JSON, TARGET_JSON, Known, Target
from duly.records.user import USER_JSON, User
from duly.records.wire.forms import JsonForm, schemas

ID = "019a8f2e-6c00-7abc-8def-0123456789ab"
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """A record of every kind of field."""

    id: str
    sent: datetime
    arrived: datetime | None = None
    next_at: datetime | None = None
    weight: Annotated[int, told("In grams")] = 0
    fragile: bool = False
    patience: timedelta | None = None
    content_json: str = "null"
    label_json: str | None = None
    shelf: Internal[str | None] = None
    owner: LookedUp[str | None] = None


PARCEL = JsonForm(Parcel)

instants = st.datetimes(timezones=st.just(UTC))
parcels = st.builds(
    Parcel,
    id=st.text(),
    sent=instants,
    arrived=st.none() | instants,
    next_at=st.none() | instants,
    weight=st.integers(-(2**53), 2**53),
    fragile=st.booleans(),
    patience=st.none() | st.timedeltas(timedelta(), timedelta(days=900)),
    content_json=st.sampled_from(["null", "1.50", '{"a": [1, "é"]}', '"x"', "12345678901234567890123"]),
    label_json=st.none() | st.sampled_from(['{"to": "Ada"}', "[]"]),
    owner=st.none() | st.text(),
)


@given(parcels)
def test_a_record_written_as_json_is_read_back(parcel: Parcel) -> None:
    assert PARCEL.decode(msgspec.json.encode(PARCEL.write(parcel))) == parcel


def test_fields_in_json_are_named_by_the_rules() -> None:
    parcel = Parcel(id="7", sent=NOON, patience=timedelta(minutes=90), content_json='{"a": 1}', shelf="B")
    assert msgspec.json.decode(msgspec.json.encode(PARCEL.write(parcel))) == {
        "id": "7",
        "sent_at": "2026-12-01T12:00:00Z",
        "arrived_at": None,
        "next_at": None,
        "weight": 0,
        "fragile": False,
        "patience": "1h30m",
        "content": {"a": 1},
        "label": None,
        "owner": None,
    }


def test_an_instant_of_another_zone_is_written_in_utc() -> None:
    parcel = Parcel(id="7", sent=NOON.astimezone(timezone(timedelta(hours=5))))
    assert b'"sent_at":"2026-12-01T12:00:00Z"' in msgspec.json.encode(PARCEL.write(parcel))


def test_the_schema_has_every_field_and_no_internal_one() -> None:
    schema = schemas([PARCEL.struct], "#/{name}")["Parcel"]
    assert set(schema["properties"]) == set(schema["required"]) == set(PARCEL.types)
    assert "shelf" not in PARCEL.types
    assert schema["properties"]["weight"] == {"type": "integer", "description": "In grams"}
    assert schema["properties"]["sent_at"]["format"] == "date-time"


def test_a_new_field_of_a_record_is_in_json_and_schema() -> None:
    class Coloured(Parcel, frozen=True, kw_only=True):
        colour: str | None = None

    form = JsonForm(Coloured)
    red = Coloured(id="7", sent=NOON, colour="red")
    assert form.decode(msgspec.json.encode(form.write(red))) == red
    assert "colour" in schemas([form.struct], "#/{name}")["Coloured"]["properties"]


@pytest.mark.parametrize("missing", ["id", "sent_at", "content"])
def test_json_that_lacks_a_field_is_no_record(missing: str) -> None:
    written = msgspec.json.decode(msgspec.json.encode(PARCEL.write(Parcel(id="7", sent=NOON))))
    del written[missing]
    with pytest.raises(msgspec.ValidationError, match=missing):
        PARCEL.decode(msgspec.json.encode(written))


# -- the records themselves


def an_event(**more: Any) -> Event:
    plain: dict[str, Any] = dict.fromkeys(Event.__struct_fields__)
    plain |= {"id": ID, "tenant": "acme", "type": "greet", "lane": "handler:greet", "status": Status.PENDING}
    plain |= {"due": NOON, "version": 1, "attempts": 0, "interruptions": 0, "stands_for": 1, "payload_json": "{}"}
    return Event(**{**plain, "head": False, "gated": False, "is_test": False, "created": NOON, **more})


EVENTS = [
    an_event(),
    an_event(key="k", ready=NOON, timezone="Asia/Tokyo", expires=timedelta(hours=2)),
    an_event(series=f"schedule:{ID}", owner="digest", occurrence="2026-01-01T09:00"),
    an_event(series=f"user:{ID}:birthday", owner="u7", occurrence="2026-01-01"),
    an_event(series=f"user:{ID}:birthday", occurrence="2026-01-01"),
    an_event(target_json='{"webhook": "https://hooks.example"}', lane="webhook", destination="https://hooks.example"),
    an_event(status=Status.COMPLETED, executed=NOON, claimed=NOON, attempts=1, worker="w", version=2),
    an_event(retry_json='{"max_attempts":5,"base":"1s","factor":1.0,"max":"1m"}', last_error="503", attempts=2),
]
SCHEDULES = [
    Schedule(id=ID, name="digest", tenant="acme", type="digest", rule_json='{"cron":"0 9 * * *"}'),
    Schedule(
        id=ID, name="digest", tenant="acme", type="digest", rule_json='{"every":"1h"}', timezone="Asia/Tokyo",
        policies_json='{"overlap":"skip","expires":"2h"}', enabled=False, halted="paused", created=NOON, next_at=NOON,
        halt_kind=HaltKind.PAUSED, paused_since=NOON, paused_until=NOON, pause_reason="a migration",
        pause_passed=Passed.FIRE, imported_from="crontab /etc/crontab", imported_as="12",
        passed_over=PassedOver(1, (NOON,), "duly schedules backfill"),
    ),
]  # fmt: skip
USERS = [
    User(id=ID, tenant="acme", first_name="Ada", last_name="L", date_of_birth=date(1990, 12, 10), timezone="UTC"),
    User(
        id=ID, tenant="acme", first_name="Ada", last_name="L", date_of_birth=date(1990, 2, 28), timezone="UTC", key="k",
        anniversary=date(2020, 1, 1), delivery_time=time(9), leap="mar1", attributes_json='{"a": 1}', created=NOON,
    ),
]  # fmt: skip
TARGETS = [
    Target(
        id=ID, tenant="acme", name="shop", channel="webhook", spec_json='{"url":"https://hooks.example"}',
        known=Known("acme", "shop", 3, 0.5, "is parked: 503", NOON, NOON), created=NOON, updated=NOON,
    ),
    Target(
        id=ID, tenant="acme", name="shop", channel="http", known=Known("acme", "shop"),
        spec_json='{"url":"https://hooks.example","method":"PUT","timeout":"5s","headers":["X-A"]}',
    ),
]  # fmt: skip
KEYS = [ApiKey(id=ID, tenant="acme", name="k", scope=Scope.READ, hint="duly_abc", created=NOON, rate=50.0)]
ENTRIES = [Entry(NOON, "failed", "w", 2, 1, NOON, "503")]

ALL: list[tuple[JsonForm[Any], list[Any]]] = [
    (EVENT_JSON, EVENTS),
    (SCHEDULE_JSON, SCHEDULES),
    (USER_JSON, USERS),
    (TARGET_JSON, TARGETS),
    (KEY_JSON, KEYS),
    (ENTRY_JSON, ENTRIES),
    (KNOWN_JSON, [Known("acme", ""), Known("acme", "shop", 3)]),
]


@pytest.mark.parametrize(("form", "records"), ALL, ids=[form.name for form, _ in ALL])
def test_a_client_reads_the_record_that_the_server_wrote(form: JsonForm[Any], records: list[Any]) -> None:
    [schema] = [schemas([form.struct], "#/$defs/{name}")]
    validator = jsonschema_rs.validator_for({"$ref": f"#/$defs/{form.name}", "$defs": schema})
    for record in records:
        written = msgspec.json.encode(form.write(record))
        assert form.decode(written) == record
        assert [error.message for error in validator.iter_errors(msgspec.json.decode(written))] == []


def test_a_page_is_read_as_records() -> None:
    body = {"events": [EVENT_JSON.write(one) for one in EVENTS], "next_cursor": "c", "next_after": ID}
    page = EVENT_PAGE.decode(msgspec.json.encode(body))
    assert (page.items, page.next_cursor, page.told.next_after) == (EVENTS, "c", ID)


def test_secrets_are_in_no_json() -> None:
    target = msgspec.structs.replace(TARGETS[0], secret="whsec_x", sealed="sealed", via="http")
    written = msgspec.json.encode(TARGET_JSON.write(target))
    assert b"whsec" not in written
    assert b"sealed" not in written
