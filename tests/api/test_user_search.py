"""Users are found by name, key and time zone: the same ones on both stores."""

from typing import Any

import pytest

from duly import Duly, Invalid
from tests.make import a_user

PEOPLE = {
    "ada": ("Ada", "Lovelace", "Europe/London"),
    "adam": ("adam", "SMITH", "Europe/Brussels"),
    "emile": ("Émile", "Zola", "Europe/Paris"),
    "ase": ("ÅSE", "Østby", "Europe/Oslo"),
    "van": ("Anna Maria", "van der Berg", "Europe/Brussels"),
    "wild": ("100%", "_x_", "UTC"),
}


@pytest.fixture
async def people(app: Duly) -> Duly:
    for key, (first, last, zone) in PEOPLE.items():
        await app.users.add(**a_user(key=key, first_name=first, last_name=last, timezone=zone))
    await app.users.add(**a_user(key="ada", first_name="Ada", last_name="Other"), tenant="theirs")
    return app


async def who(app: Duly, **asked: Any) -> list[str]:
    found = [str(user.key) for user in await app.users.list(tenant="default", **asked)]
    assert (await app.users.count(tenant="default", **asked)).value == len(found)
    return sorted(found)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Ada", ["ada", "adam"]),
        ("ADA", ["ada", "adam"]),
        ("ada lo", ["ada"]),
        ("lovelace", ["ada"]),
        ("Lovelace  Ada ", ["ada"]),
        ("smith", ["adam"]),
        ("émile", ["emile"]),
        ("ÉMILE", ["emile"]),
        ("Émile", ["emile"]),
        ("åse", ["ase"]),
        ("østby", ["ase"]),
        ("ØSTBY ÅSE", ["ase"]),
        ("van der", ["van"]),
        ("Berg", []),
        ("100%", ["wild"]),
        ("%", []),
        ("_x", ["wild"]),
        ("velace", []),
    ],
)
async def test_users_are_found_by_the_beginning_of_their_names(people: Duly, name: str, found: list[str]) -> None:
    assert await who(people, name=name) == found


async def test_users_are_found_by_key_and_time_zone_and_all_that_is_given_must_match(people: Duly) -> None:
    assert await who(people, key="ada") == ["ada"]
    assert await who(people, key="Ada") == []
    assert await who(people, timezone="Europe/Brussels") == ["adam", "van"]
    assert await who(people, timezone="Europe/Brussels", name="anna") == ["van"]
    assert await who(people, timezone="Asia/Tokyo") == []
    assert {user.tenant for user in await people.users.list(key="ada")} == {"default", "theirs"}


async def test_a_renamed_user_is_found_by_the_new_name_alone(people: Duly) -> None:
    [ada] = await people.users.list(tenant="default", key="ada")
    await people.users.update(ada.id, last_name="Byron")
    assert await who(people, name="lovelace") == []
    assert await who(people, name="byron") == ["ada"]


async def test_pages_of_found_users_follow_one_another(people: Duly) -> None:
    first = await people.users.list(tenant="default", name="a", limit=2)
    rest = await people.users.list(tenant="default", name="a", limit=5, after=first[-1].id)
    assert [user.key for user in (*first, *rest)] == ["van", "adam", "ada"]


async def test_every_problem_of_a_search_is_told_at_once(app: Duly) -> None:
    with pytest.raises(Invalid) as refused:
        await app.users.list(name=" ", key="", timezone="Europe/Nowhere", attributes={"a": None})
    assert [problem.path for problem in refused.value.problems] == ["name", "key", "timezone", "attributes.a"]
