import json
from datetime import date, time, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import HaltKind, HoldKind, PassedOver, Schedule, Stale, User
from duly.records.etags import check_tag, schedule_tag, user_tag
from duly.records.event import Status
from duly.records.schedule import Passed
from tests.make import START

SCHEDULE = Schedule(
    id="0197a000-0000-7000-8000-000000000001",
    tenant="default",
    name="weekly",
    type="report",
    rule_json='{"cron":"0 9 * * MON"}',
    created=START,
)
USER = User(
    id="0197a000-0000-7000-8000-000000000002",
    tenant="default",
    first_name="Ada",
    last_name="Lovelace",
    date_of_birth=date(1815, 12, 10),
    timezone="Europe/London",
)

EDITS: list[dict[str, Any]] = [
    {"id": "0197a000-0000-7000-8000-000000000003"},
    {"name": "monthly"},
    {"tenant": "acme"},
    {"type": "summary"},
    {"rule_json": '{"cron":"0 9 * * TUE"}'},
    {"timezone": "Europe/Brussels"},
    {"policies_json": '{"overlap":"skip"}'},
    {"payload_json": "{}"},
    {"target_json": '{"webhook":"https://hooks.example"}'},
    {"retry_json": '{"max_attempts":5}'},
    {"tags_json": '["a"]'},
    {"enabled": False},
]
LOOKS: list[dict[str, Any]] = [
    {"next_at": START},
    {"last_at": START},
    {"last_status": Status.FAILED},
    {"held": "paused"},
    {"hold_kind": HoldKind.PAUSED},
    {"halted": "ended"},
    {"halt_kind": HaltKind.ENDED},
    {"paused_since": START},
    {"paused_until": START},
    {"pause_reason": "a migration"},
    {"pause_passed": Passed.FIRE},
    {"origin": "app:weekly"},
    {"via": "http"},
    {"updated": START + timedelta(days=1)},
    {"earlier_json": "[]"},
    {"imported_from": "crontab /etc/crontab"},
    {"imported_as": "12"},
    {"passed_over": PassedOver(1, (START,), "duly schedules trigger it")},
]


@pytest.mark.parametrize("edit", EDITS)
def test_whatever_people_can_edit_of_a_schedule_changes_its_tag(edit: dict[str, Any]) -> None:
    assert schedule_tag(msgspec.structs.replace(SCHEDULE, **edit)) != SCHEDULE.tag


@pytest.mark.parametrize("look", LOOKS)
def test_what_happens_to_a_schedule_by_itself_does_not_change_its_tag(look: dict[str, Any]) -> None:
    assert schedule_tag(msgspec.structs.replace(SCHEDULE, **look)) == SCHEDULE.tag


def test_every_field_of_a_schedule_is_edited_by_people_or_changes_by_itself() -> None:
    known = {field for change in EDITS + LOOKS for field in change}
    assert known | {"created", "earlier_json", "passed_over", "consequence"} == set(Schedule.__struct_fields__)


@pytest.mark.parametrize(
    "edit",
    [
        {"id": "0197a000-0000-7000-8000-000000000003"},
        {"tenant": "acme"},
        {"first_name": "Augusta"},
        {"last_name": "King"},
        {"date_of_birth": date(1815, 12, 11)},
        {"timezone": "Europe/Paris"},
        {"key": "ada"},
        {"anniversary": date(1835, 7, 8)},
        {"delivery_time": time(9)},
        {"leap": "mar1"},
        {"target_json": '{"webhook":"https://hooks.example"}'},
        {"attributes_json": '{"cat":"Puff"}'},
    ],
)
def test_whatever_people_can_edit_of_a_user_changes_its_tag(edit: dict[str, Any]) -> None:
    assert user_tag(msgspec.structs.replace(USER, **edit)) != USER.tag


def test_what_duly_says_of_a_user_does_not_change_its_tag() -> None:
    looks = {"updated": START, "created": START, "created_by": "api", "usual_time": time(8)}
    assert user_tag(msgspec.structs.replace(USER, **looks)) == USER.tag


def test_values_that_look_alike_have_tags_of_their_own() -> None:
    payloads = ["null", "1", "1.0", "true", '"1"', "[]", "{}", '"null"', "[null]", "{", '"{"']
    tags = {schedule_tag(msgspec.structs.replace(SCHEDULE, payload_json=payload)) for payload in payloads}
    assert len(tags) == len(payloads)
    assert schedule_tag(msgspec.structs.replace(SCHEDULE, target_json="null")) != SCHEDULE.tag


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def _turned(value: Any) -> Any:
    """The same, its fields the other way round."""
    if isinstance(value, dict):
        return {name: _turned(value[name]) for name in reversed(value)}
    return [_turned(item) for item in value] if isinstance(value, list) else value


@given(payload=JSON, other=JSON)
def test_the_order_of_fields_does_not_change_a_tag_and_all_else_does(payload: Any, other: Any) -> None:
    def tag(value: Any, **writing: Any) -> str:
        return msgspec.structs.replace(SCHEDULE, payload_json=json.dumps(value, **writing)).tag

    assert tag(payload) == tag(_turned(payload), indent=1, ensure_ascii=False)
    same = json.dumps(payload, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (tag(payload) == tag(other)) is same


def test_only_an_editor_who_expects_another_tag_is_refused() -> None:
    check_tag("schedule 'weekly'", SCHEDULE.tag, None)
    check_tag("schedule 'weekly'", SCHEDULE.tag, SCHEDULE.tag)
    with pytest.raises(Stale, match=r"schedule 'weekly' has been changed since you read it: read it again"):
        check_tag("schedule 'weekly'", SCHEDULE.tag, "other")
