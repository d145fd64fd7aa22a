"""``duly keys``: make, list, revoke."""

import asyncio
import getpass
import json
import re
from typing import Any

import pytest

from duly import Duly
from duly.records.api_key import ApiKey
from tests.cli.conftest import Shell

KEY = r"duly_[\w-]{43}"


def keys(shell: Shell, *words: object) -> str:
    """What a command prints that ends well."""
    result = shell("keys", *words)
    assert result.code == 0, result.err
    return result.out


def created(shell: Shell, *words: object) -> Any:
    return json.loads(keys(shell, "create", *words, "--json"))


def listed(shell: Shell, *words: object) -> Any:
    return json.loads(keys(shell, "list", *words, "--json"))["keys"]


def test_a_new_api_key_is_shown_once_with_how_to_use_it(on: Shell, url: str) -> None:
    done = on("keys", "create", "crm", "--tenant", "acme", "--scope", "write", "--expires", "90d", "--rate", "100/s")
    assert done.code == 0
    first, key = done.out.splitlines()
    assert re.fullmatch(r"created crm  write for acme, until \S+ \S+ UTC, 100/s", first)
    assert re.fullmatch(KEY, key)
    assert "not shown again" in done.err
    assert f'curl -H "Authorization: Bearer {key[:11]}…"' in done.err
    for words in (["list"], ["list", "--json"], ["revoke", "crm", "--json"]):
        assert key not in keys(on, *words)
        assert key[:11] in keys(on, "list")

    async def recognised() -> ApiKey:
        async with Duly(url) as duly:
            return (await duly.keys.list())[0]

    assert asyncio.run(recognised()).created_by == getpass.getuser()


def test_programs_get_the_key_in_json(on: Shell) -> None:
    told = created(on, "crm", "--expires", "2099-01-01T00:00:00Z")
    assert re.fullmatch(KEY, told.pop("key"))
    assert told == listed(on)[0]
    assert (told["tenant"], told["scope"], told["state"], told["rate"]) == ("default", "read", "active", None)
    assert (told["expires_at"], told["last_used_at"]) == ("2099-01-01T00:00:00Z", None)


def test_the_first_key_makes_the_database(shell: Shell) -> None:
    shell.set(DULY_DATABASE_URL="sqlite:///new.db")
    assert created(shell, "first")["name"] == "first"
    assert len(listed(shell)) == 1


def test_the_list_of_keys_shows_scopes_and_states(on: Shell) -> None:
    created(on, "old", "--expires", "+1s")
    created(on, "gone")
    created(on, "new", "--tenant", "acme", "--scope", "admin", "--rate", "5/s")
    keys(on, "revoke", "gone")
    assert [key["all_tenants"] for key in listed(on)] == [False] * 3
    told = keys(on, "list").splitlines()
    assert told[0].split() == "ID NAME KEY TENANT SCOPE STATE RATE CREATED EXPIRES LAST USED".split()
    assert re.search(r"new +duly_\S{6}… +acme +admin +active +5/s .* never +never", told[1])
    assert re.search(r"gone .* revoked ", told[2])
    on.set(COLUMNS="80")
    narrow = keys(on, "list")
    assert max(map(len, narrow.splitlines())) <= 80
    assert "admin for acme · 5/s · made" in narrow


def test_a_key_of_all_tenants_says_so(on: Shell) -> None:
    done = keys(on, "create", "watch", "--tenant", "ops", "--all-tenants")
    assert done.startswith("created watch  read for ops and all tenants\n")
    [key] = listed(on)
    assert (key["scope"], key["tenant"], key["all_tenants"]) == ("read", "ops", True)
    assert re.search(r"watch .* ops and all tenants +read +active ", keys(on, "list"))


def test_the_list_of_keys_has_pages_and_can_be_of_one_tenant(on: Shell) -> None:
    ids = [created(on, f"key {n}", "--tenant", "acme" if n else "beta")["id"] for n in range(3)]
    page = on("keys", "list", "--limit", 1, "--json").json
    assert [key["id"] for key in page["keys"]] == [page["next"]] == [ids[2]]
    assert [key["id"] for key in listed(on, "--after", page["next"])] == [ids[1], ids[0]]
    assert [key["id"] for key in listed(on, "--tenant", "beta")] == [ids[0]]
    assert f"add --after {ids[2]}" in on("keys", "list", "--limit", 1).err
    assert on("keys", "list", "--tenant", "nobody").err == "no keys\n"


def test_keys_are_revoked_by_id_and_by_name(on: Shell) -> None:
    one, _ = created(on, "one"), created(on, "other")
    assert on("keys", "revoke", one["id"]).out == "revoked one  read for default\n"
    assert json.loads(keys(on, "revoke", "other", "--json"))["keys"][0]["state"] == "revoked"
    assert [key["state"] for key in listed(on)] == ["revoked", "revoked"]
    again = on("keys", "revoke", one["id"])
    assert (again.code, "was already revoked" in again.err) == (1, True)
    gone = on("keys", "revoke", "other")
    assert (gone.code, "there is no active key 'other'" in gone.err) == (1, True)


def test_revoking_by_a_name_that_several_keys_have_is_refused(on: Shell) -> None:
    ids = [created(on, "crm")["id"] for _ in range(2)]
    refused = on("keys", "revoke", "crm")
    assert refused.code == 1
    assert all(id in refused.err for id in ids)
    keys(on, "revoke", ids[0])
    keys(on, "revoke", "crm")
    assert {key["state"] for key in listed(on)} == {"revoked"}


def test_a_key_that_cannot_be_revoked_does_not_keep_others_from_being_revoked(on: Shell) -> None:
    created(on, "crm")
    done = on("keys", "revoke", "nobody", "crm", "--json")
    assert done.code == 1
    assert [key["name"] for key in done.json["keys"]] == ["crm"]
    assert done.error["type"] == "NotFound"


def test_the_name_of_a_key_may_look_like_an_id(on: Shell) -> None:
    name = "01900000-0000-7000-8000-000000000000"
    created(on, name)
    keys(on, "revoke", name)
    assert listed(on)[0]["state"] == "revoked"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["create"], "NAME"),
        (["create", "x", "--scope", "root"], "read, write, admin"),
        (["create", "x", "--expires", "soon"], "expires: 'soon' is not a valid time"),
        (["create", "x", "--expires", "-1h"], "not in the future"),
        (["create", "x", "--rate", "often"], "a rate such as"),
        (["create", "x", "--tenant", ""], "tenant"),
        (["list", "--after", "x"], "a key's id"),
        (["list", "--limit", "0"], "limit"),
        (["revoke"], "duly keys list"),
    ],
)
def test_wrong_use_of_keys_says_what_is_right(lite: Shell, words: list[str], told: str) -> None:
    done = lite("keys", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
