"""Checks that users add for their own event types: they tell all problems at once, and nothing is stored."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Invalid, Misuse, OfType, Problem, Timer, every
from tests.make import a_user

TYPE = "invoice.overdue"


def has_an_invoice(timer: Timer) -> Iterator[Problem | str]:
    if not isinstance(timer.payload, dict) or "invoice" not in timer.payload:
        yield "has no invoice: give its number"
    if timer.key is None:
        yield Problem("key", "is missing: give the invoice's, so that a second reminder moves the first")


async def refused(app: Duly, payload: Any, type: str = TYPE, **options: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as error:
        await app.after("1h", type, payload, **options)
    assert await app.events.find(OfType(TYPE)) == []
    return {problem.path: problem.message for problem in error.value.problems}


async def test_a_check_tells_all_problems_of_its_type_and_nothing_is_stored(app: Duly) -> None:
    assert app.check(TYPE)(has_an_invoice) is has_an_invoice, "the function can still be called"
    assert await refused(app, {}) == {
        "payload": "has no invoice: give its number",
        "key": "is missing: give the invoice's, so that a second reminder moves the first",
    }
    assert (await app.after("1h", TYPE, {"invoice": 7}, key="7")).payload == {"invoice": 7}
    assert (await app.after("1h", "other", {})).payload == {}, "other types are not its business"


async def test_several_checks_of_a_type_all_speak_beside_dulys_own(app: Duly) -> None:
    app.check(TYPE)(has_an_invoice)

    @app.check(TYPE)
    def is_small(timer: Timer) -> list[str]:
        return ["is not worth a reminder"] if timer.payload["amount"] < 1 else []

    assert set(await refused(app, {"amount": 0}, tenant="\n")) == {"tenant", "payload", "key"}
    with pytest.raises(Invalid) as error:
        await app.after("1h", TYPE, {"amount": 0}, key="7")
    assert [problem.message for problem in error.value.problems] == [
        "has no invoice: give its number", "is not worth a reminder",
    ]  # fmt: skip


@pytest.mark.parametrize("nothing", [None, [], (), iter(())])
async def test_a_check_may_find_nothing_in_any_way(app: Duly, nothing: Any) -> None:
    app.check(TYPE)(lambda timer: nothing)
    assert await app.after("1h", TYPE)


async def test_a_check_that_returns_one_text_tells_one_problem(app: Duly) -> None:
    app.check(TYPE)(lambda timer: "no")
    assert await refused(app, {}) == {"payload": "no"}


async def test_a_check_that_raises_is_named_with_what_to_do(app: Duly) -> None:
    @app.check(TYPE)
    def broken(timer: Timer) -> Iterator[str]:
        yield f"is {timer.payload['amount']}"

    told = await refused(app, {})
    assert list(told) == ["type"]
    name = f"{test_a_check_that_raises_is_named_with_what_to_do.__qualname__}.<locals>.broken"
    assert told["type"] == (
        f"the check {name} of 'invoice.overdue' raised KeyError: 'amount': correct the check, or send what it expects"
    )


async def test_a_check_that_raises_over_other_problems_leaves_them_to_speak(app: Duly) -> None:
    @app.check(TYPE)
    def compares(timer: Timer) -> Iterator[str]:
        if timer.payload["due"] > 5:
            yield "is too late"

    assert set(await refused(app, {}, correlation_id="")) == {"correlation_id"}


async def test_a_check_that_yields_something_else_is_named(app: Duly) -> None:
    app.check(TYPE)(lambda timer: [5])  # type: ignore[list-item]
    assert "yielded int instead of a Problem or text" in (await refused(app, {}))["type"]


async def test_timers_in_bulk_are_checked_each_by_its_place(app: Duly) -> None:
    app.check(TYPE)(has_an_invoice)
    good, bad = Timer(timedelta(), TYPE, {"invoice": 1}, "1"), Timer(timedelta(), TYPE, {}, "2")
    with pytest.raises(Invalid) as error:
        await app.add_many([good, bad, good, bad])
    assert [problem.path for problem in error.value.problems] == ["[1].payload", "[3].payload"]
    assert await app.events.find(OfType(TYPE)) == []


async def test_a_schedule_is_checked_as_its_events_will_be(app: Duly) -> None:
    seen: list[Timer] = []
    app.check(TYPE)(has_an_invoice)
    app.check(TYPE)(seen.append)
    with pytest.raises(Invalid) as error:
        await app.schedules.put("weekly", every("1h"), TYPE, {"customer": 9})
    assert [(problem.path, problem.message) for problem in error.value.problems] == [
        ("payload", "has no invoice: give its number")
    ]
    assert await app.schedules.list() == []
    await app.schedules.put("weekly", every("1h"), TYPE, {"invoice": 7}, expires="2h")
    assert seen[-1] == Timer(None, TYPE, {"invoice": 7}, key="weekly", expires="2h")
    with pytest.raises(Invalid, match="has no invoice"):
        await app.schedules.put("weekly", every("1h"), TYPE, {})
    assert (await app.schedules.get("weekly")).payload == {"invoice": 7}, "a refused edit changes nothing"


def short_names(timer: Timer) -> Iterator[str]:
    if "Bartholomew" in timer.payload["message"]:
        yield "has a name that does not fit on a card"


async def test_a_user_is_checked_as_the_events_will_be_when_added_changed_and_imported(app: Duly) -> None:
    app.check("birthday")(short_names)
    with pytest.raises(Invalid, match="has a name that does not fit on a card"):
        await app.users.add(**a_user(first_name="Bartholomew"))
    ada = await app.users.add(**a_user(key="ada"))
    with pytest.raises(Invalid, match="does not fit on a card"):
        await app.users.update(ada.id, first_name="Bartholomew")
    assert (await app.users.get(ada.id)).first_name == "Ada"

    done = await app.users.import_([a_user(key="a"), a_user(key="b", first_name="Bartholomew"), a_user(key="c")])
    assert (done.added, done.refused) == (2, 1)
    [row] = done.problems
    assert [problem.path for problem in row.problems] == ["birthday.payload"]


def test_a_check_in_synchronous_code_is_the_same() -> None:
    app = Duly("sqlite://")
    app.check(TYPE)(has_an_invoice)
    with app.sync as sync, pytest.raises(Invalid, match="has no invoice"):
        sync.after("1h", TYPE)


def test_a_check_must_be_a_plain_function_of_a_type_that_can_exist() -> None:
    app = Duly("sqlite://")

    async def awaits(timer: Timer) -> None: ...

    with pytest.raises(Misuse, match="write `def`"):
        app.check(TYPE)(awaits)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="must decorate a function"):
        app.check(TYPE)("soon")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="type: must have 1 to 200 characters"):
        app.check("")(has_an_invoice)
