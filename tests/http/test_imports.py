"""Many users over HTTP: while some are stored, others are read, in one transaction."""

from typing import Any

import pytest

from duly.engine.series.put_users import change_users
from tests.http.calling import Caller
from tests.make import a_user

MANY = 4500  # more than are stored at a time


def the_user(number: int, **changes: Any) -> dict[str, Any]:
    return {**a_user(), "key": f"crm-{number}", **changes}


async def test_more_users_than_a_chunk_are_imported_and_the_bad_ones_told(http: Caller) -> None:
    many = [the_user(number) for number in range(MANY)]
    many[7] = the_user(7, timezone="Mars/Olympus")
    many.append(the_user(9, first_name="Grace"))
    done = await http.post("/v1/users/import", {"users": many})
    assert {word: done[word] for word in ("added", "changed", "unchanged", "refused")} == {
        "added": MANY - 1,
        "changed": 1,
        "unchanged": 0,
        "refused": 1,
    }
    [(place, bad)] = [(place, one) for place, one in enumerate(done["results"]) if one["status"] == "refused"]
    assert (place, bad["key"], [error["path"] for error in bad["errors"]]) == (7, "crm-7", ["timezone"])
    ids = [one["id"] for one in done["results"] if one["id"] is not None]
    assert (len(ids), len(set(ids)), done["results"][-1]["id"]) == (MANY, MANY - 1, done["results"][9]["id"])
    assert done["results"][-1]["status"] == "changed"
    [changed] = (await http.get("/v1/users?key=crm-9"))["users"]
    assert changed["first_name"] == "Grace"
    assert (await http.get("/v1/users?key=crm-7"))["users"] == []


async def test_an_import_that_fails_in_the_middle_stores_nothing(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*args: Any) -> Any:
        await change_users(*args)
        raise ZeroDivisionError

    monkeypatch.setattr("duly.verbs.users.bulk_import.change_users", fails)
    many = [the_user(number) for number in range(MANY)] + [the_user(9, first_name="Grace")]
    assert (await http.client.post("/v1/users/import", json={"users": many})).status_code == 500
    assert (await http.get("/v1/users"))["users"] == []
