"""duly.keys: who may call the API."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from duly import Conflict, Duly, Invalid, NotFound
from duly.errors import Unauthenticated
from duly.ids import new_id
from duly.records.api_key import ApiKey, Scope
from duly.testing import ManualClock
from tests.make import HOUR, START
from tests.stores.rows import ask

A_DAY = timedelta(days=1)


async def test_an_api_key_is_recognised_by_the_secret_that_was_shown_once(app: Duly) -> None:
    made = await app.keys.create("crm", tenant="acme", scope="write", expires=A_DAY, rate="600/m", by="ada")
    key = made.key
    assert await app.keys.recognise(made.secret) == key == await app.keys.get(key.id)
    assert made.secret.startswith(key.hint)
    assert (key.tenant, key.name, key.scope, key.rate) == ("acme", "crm", Scope.WRITE, 10.0)
    assert (key.created, key.created_by, key.expires) == (START, "ada", START + A_DAY)
    assert (key.revoked, key.last_used) == (None, None)


async def test_the_key_itself_is_stored_nowhere(app: Duly) -> None:
    made = await app.keys.create("crm")
    row = "SELECT count(*) FROM duly.api_keys AS k WHERE CAST(k.hash AS text) LIKE $1"
    assert await ask(app.store, row, f"%{made.secret[5:]}%") == 0
    assert made.secret not in repr(await app.keys.list()) + repr(made)


async def test_a_key_without_options_allows_reading_and_never_expires(app: Duly) -> None:
    key = (await app.keys.create("crm")).key
    assert (key.tenant, key.scope, key.expires, key.rate) == ("default", Scope.READ, None, None)


@pytest.mark.parametrize("secret", ["", "secret", "duly_" + "A" * 43, "duly_" + "\x00" * 43, None, 7])
async def test_an_unknown_key_is_not_recognised(app: Duly, secret: Any) -> None:
    await app.keys.create("crm")
    with pytest.raises(Unauthenticated, match="unknown"):
        await app.keys.recognise(secret)


async def test_an_expired_key_is_not_recognised(app: Duly, clock: ManualClock) -> None:
    made = await app.keys.create("crm", expires=HOUR)
    clock.advance(HOUR - timedelta(microseconds=1))
    await app.keys.recognise(made.secret)
    clock.advance(timedelta(microseconds=1))
    with pytest.raises(Unauthenticated, match=rf"{made.key.hint}… expired at 2"):
        await app.keys.recognise(made.secret)


async def test_a_revoked_key_is_not_recognised(app: Duly, clock: ManualClock) -> None:
    made = await app.keys.create("crm", expires=HOUR)
    revoked = await app.keys.revoke(made.key.id, by="ada")
    assert revoked.revoked == START
    clock.advance(2 * HOUR)
    with pytest.raises(Unauthenticated, match=rf"{made.key.hint}… was revoked at 2"):
        await app.keys.recognise(made.secret)
    with pytest.raises(Conflict, match="was already revoked"):
        await app.keys.revoke(made.key.id)
    acts = [(entry.act, entry.worker) for entry in await app.store.history(made.key.id)]
    assert acts == [("created", "api"), ("revoked", "ada")]


async def test_only_the_latest_use_of_a_key_is_known(app: Duly, clock: ManualClock) -> None:
    one, other = [(await app.keys.create(name)).key.id for name in ("one", "other")]
    await app.keys.used([one, other, new_id()])
    clock.advance(HOUR)
    await app.keys.used([other])
    await app.keys.used([])
    assert [(await app.keys.get(id)).last_used for id in (one, other)] == [START, START + HOUR]


async def test_a_tenant_finds_its_own_keys_alone(app: Duly) -> None:
    mine, other = [(await app.keys.create("crm", tenant=tenant)).key for tenant in ("acme", "beta")]
    assert await app.keys.get(mine.id, tenant="acme") == mine
    with pytest.raises(NotFound, match="in tenant 'acme'"):
        await app.keys.get(other.id, tenant="acme")
    with pytest.raises(NotFound):
        await app.keys.revoke(other.id, tenant="acme")
    assert await app.keys.list(tenant="acme") == [mine]
    assert (await app.keys.get(other.id)).revoked is None


async def test_keys_are_listed_by_pages_the_newest_first(app: Duly) -> None:
    made = [(await app.keys.create(f"key {n}")).key for n in range(5)]
    first = await app.keys.list(limit=2)
    rest = await app.keys.list(limit=10, after=first[-1].id)
    assert first + rest == made[::-1]


async def test_a_name_finds_the_key_that_is_still_active(app: Duly, clock: ManualClock) -> None:
    revoked, expired, good = [(await app.keys.create("crm", expires=span)).key for span in (None, HOUR, None)]
    await app.keys.revoke(revoked.id)
    with pytest.raises(Conflict, match=f"several active keys.*{good.id}.*{expired.id}"):
        await app.keys.named("crm")
    clock.advance(HOUR)
    assert await app.keys.named("crm") == good
    with pytest.raises(NotFound):
        await app.keys.named("crm", tenant="acme")
    with pytest.raises(NotFound):
        await app.keys.named("no such key")


async def test_a_revoked_key_still_counts_as_ever_made(app: Duly) -> None:
    assert await app.keys.made_any() is False
    made = await app.keys.create("crm")
    assert await app.keys.made_any() is True
    await app.keys.revoke(made.key.id)
    assert await app.keys.made_any() is True


@pytest.mark.parametrize(
    ("wrong", "paths"),
    [
        ({"name": ""}, ["name"]),
        ({"tenant": "a\nb", "scope": "root", "rate": "often"}, ["tenant", "scope", "rate"]),
        ({"scope": None}, ["scope"]),
        ({"expires": timedelta()}, ["expires"]),
        ({"expires": START}, ["expires"]),
        ({"expires": datetime(2099, 1, 1)}, ["expires"]),  # noqa: DTZ001 - that is what is wrong with it
        ({"expires": "90d"}, ["expires"]),
        ({"expires": timedelta.max}, ["expires"]),
        ({"rate": 0}, ["rate"]),
    ],
)
async def test_all_problems_of_a_key_are_told_at_once_and_nothing_is_stored(
    app: Duly, wrong: dict[str, Any], paths: list[str]
) -> None:
    with pytest.raises(Invalid) as told:
        await app.keys.create(**({"name": "crm"} | wrong))
    assert [problem.path for problem in told.value.problems] == paths
    assert await app.keys.made_any() is False


async def test_text_that_is_no_id_of_a_key_is_invalid(app: Duly) -> None:
    for verb in (app.keys.get, app.keys.revoke):
        with pytest.raises(Invalid, match="a key's id"):
            await verb("crm")
    with pytest.raises(NotFound):
        await app.keys.get(new_id())


def test_synchronous_code_has_every_verb_of_keys(url: str) -> None:
    with Duly(url).sync as sync:
        made = sync.keys.create("crm", tenant="acme")
        key: ApiKey = sync.keys.recognise(made.secret)
        sync.keys.used([key.id])
        assert sync.keys.get(key.id, tenant="acme").last_used is not None
        assert [one.id for one in sync.keys.list()] == [key.id]
        assert sync.keys.named("crm").id == key.id
        assert sync.keys.made_any()
        assert sync.keys.revoke(key.id).revoked is not None
