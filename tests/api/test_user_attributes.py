"""Users are found by their attributes: in Python and over HTTP, and the same ones on both stores."""

import json
from collections.abc import Mapping
from typing import Any

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly import Duly, Invalid
from duly.decide.calendars.attribute_filters import read_attribute, write_attribute
from tests.conftest import OpenDuly
from tests.make import a_user

PEOPLE: Mapping[str, Any] = {
    "ada": {"plan": "pro", "age": 42, "vip": True, "address": {"city": "Graz", "zip": "8010"}},
    "bob": {"plan": "free", "age": "42", "vip": "true", "address": {"city": "Wien"}},
    "cid": {"plan": ["pro"], "age": 42.5, "vip": 1, "address": "Graz", "nul": "a\x00b", "back": "\\u0000"},
    "dot": {"address.city": "Graz", 'quo"te': "x", "plan": "Pro", "age": 42.0, "vip": False},
    "eve": None,
}


@pytest.fixture
async def people(app: Duly) -> Duly:
    for key, attributes in PEOPLE.items():
        await app.users.add(**a_user(key=key, attributes=attributes))
    await app.users.add(**a_user(key="them", attributes={"plan": "pro"}), tenant="theirs")
    return app


async def who(app: Duly, **attributes: Any) -> set[str]:
    found = await app.users.list(tenant="default", attributes=attributes)
    return {str(user.key) for user in found}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, set(PEOPLE)),
        ({"plan": "pro"}, {"ada"}),
        ({"plan": "nobody's"}, set()),
        ({"age": 42}, {"ada", "bob", "dot"}),
        ({"age": "42"}, {"bob"}),
        ({"age": 42.5}, {"cid"}),
        ({"vip": True}, {"ada", "bob"}),
        ({"vip": 1}, {"cid"}),
        ({"vip": False}, {"dot"}),
        ({"address.city": "Graz"}, {"ada"}),
        ({"address.zip": 8010}, {"ada"}),
        ({"address": "Graz"}, {"cid"}),
        ({"plan": "pro", "address.city": "Graz"}, {"ada"}),
        ({"plan": "free", "address.city": "Graz"}, set()),
        ({"back": "\\u0000"}, {"cid"}),
    ],
)
async def test_users_are_found_by_their_attributes(people: Duly, asked: Any, found: set[str]) -> None:
    assert await who(people, **asked) == found


async def test_a_page_after_another_has_the_same_attributes(app: Duly) -> None:
    for n in range(6):
        await app.users.add(**a_user(key=f"u{n}", attributes={"plan": "pro" if n % 2 else "free"}))
    first = await app.users.list(attributes={"plan": "pro"}, limit=2)
    second = await app.users.list(attributes={"plan": "pro"}, limit=2, after=first[-1].id)
    assert [user.key for user in [*first, *second]] == ["u5", "u3", "u1"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({'quo"te': "x"}, "cannot be asked for"),
        ({"": "x"}, "cannot be asked for"),
        ({"a..b": "x"}, "cannot be asked for"),
        ({"a.b.c.d.e.f": "x"}, "more than 5 names"),
        ({"plan": None}, "expected text, a number or a boolean, and nothing was given"),
        ({"plan": ["pro"]}, "expected text, a number or a boolean"),
        ({"plan": "\x00"}, "without U"),
        ({"plan": "\ud800"}, "without U"),
        ({"age": 2**60}, "must be a number from"),
        ({"age": float("nan")}, "must be a number from"),
        ({f"a{n}": "x" for n in range(11)}, "11 are asked for; at most 10"),
        (["plan"], "expected an object"),
    ],
)
async def test_attributes_that_cannot_be_asked_for_are_refused(app: Duly, asked: Any, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        await app.users.list(attributes=asked)


VALUES = st.one_of(
    st.sampled_from(["pro", "1", "true", "1.0", "", "é'\"\\"]), st.sampled_from([0, 1, 1.0, 1.5, -7]), st.booleans()
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from("ab"), VALUES | st.dictionaries(st.sampled_from("ab"), VALUES) | st.just([1])
)


def matches(attributes: Any, path: str, value: Any) -> bool:
    for name in path.split("."):
        if not isinstance(attributes, dict) or name not in attributes:
            return False
        attributes = attributes[name]
    if isinstance(value, str) or isinstance(attributes, str):
        text = value if isinstance(value, str) else json.dumps(value)
        return isinstance(attributes, str) and attributes == text
    return isinstance(attributes, bool) == isinstance(value, bool) and attributes == value


async def test_both_stores_find_whom_the_definition_finds(app: Duly) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(ATTRIBUTES, min_size=1, max_size=4), st.sampled_from(["a", "b", "a.a", "a.b", "b.a"]), VALUES)
    def check(people: list[Any], path: str, value: Any) -> None:
        expected = {str(nth) for nth, one in enumerate(people) if matches(one, path, value)}
        asked.append((people, path, value, expected))

    asked: list[Any] = []
    check()
    for nth, (people, path, value, expected) in enumerate(asked):
        rows = [a_user(key=str(key), attributes=one) for key, one in enumerate(people)]
        await app.users.import_(rows, tenant=f"t{nth}")
        found = await app.users.list(tenant=f"t{nth}", attributes={path: value})
        assert {user.key for user in found} == expected, (people, path, value)


@given(st.one_of(VALUES, st.text(), st.floats(allow_nan=False, allow_infinity=False), st.integers()))
def test_a_value_that_is_written_as_a_parameter_is_read_as_the_same_or_as_its_text(value: Any) -> None:
    read = read_attribute(write_attribute(value))
    assert read == value or read == json.dumps(value) or (isinstance(value, float) and float(str(read)) == value)
    assert isinstance(read, str) or type(read) is type(value)


async def test_postgresql_looks_attributes_up_in_their_index(url: str, duly: OpenDuly) -> None:
    app = await duly()
    await app.users.import_([a_user(attributes={"n": n}) for n in range(3000)])
    if app.one_writer:
        assert len(await app.users.list(attributes={"n": 7})) == 1
        return
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("ANALYZE duly.users")
        plan = await connection.fetch(
            "EXPLAIN SELECT id FROM duly.users AS u WHERE attributes IS NOT NULL "
            """AND (duly.searchable(u.attributes) @> '{"n": 7}' OR duly.searchable(u.attributes) @> '{"n": "7"}') """
            "ORDER BY id DESC LIMIT 100"
        )
    finally:
        await connection.close()
    assert "users_attributes" in "\n".join(row[0] for row in plan)
