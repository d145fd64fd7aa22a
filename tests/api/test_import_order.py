"""``duly.users.import_``: rows that are about the same user, and keys that no user can have."""

from typing import Any

import pytest

from duly import Duly

ADA: dict[str, Any] = {
    "first_name": "Ada",
    "last_name": "Lovelace",
    "date_of_birth": "1815-12-10",
    "timezone": "Europe/London",
}


async def test_a_row_may_change_the_user_whom_an_earlier_row_adds(app: Duly) -> None:
    done = await app.users.import_([ADA | {"key": "ada"}, {"key": "ada", "timezone": "Asia/Tokyo"}])
    assert (done.added, done.changed, done.refused) == (1, 1, 0)
    assert (await app.users.by_key("ada")).timezone == "Asia/Tokyo"


async def test_of_two_imported_rows_about_a_user_the_last_one_counts(app: Duly) -> None:
    await app.users.add(key="ada", **ADA)
    there_and_back = [{"key": "ada", "timezone": "Asia/Tokyo"}, {"key": "ada", "timezone": "Europe/London"}]
    done = await app.users.import_(there_and_back)
    assert (done.changed, done.unchanged) == (2, 0)
    assert (await app.users.by_key("ada")).timezone == "Europe/London"


@pytest.mark.parametrize("key", ["a\0b", "\ud800", [], {}, 7, "", " ada"])
async def test_a_row_whose_key_is_no_key_is_refused_and_the_others_are_kept(app: Duly, key: Any) -> None:
    done = await app.users.import_([ADA | {"key": key}, ADA | {"key": "ada"}])
    assert (done.added, [bad.number for bad in done.problems]) == (1, [1])
    assert done.problems[0].problems[0].path == "key"
