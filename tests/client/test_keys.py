"""Who asks: keys, tenants, and what is never shown."""

import logging

import pytest
from fastapi import FastAPI

from duly import Duly, Invalid, Misuse, NotFound, OfTenant, Timer
from duly.api.app import create_api
from duly.client import Client, Forbidden, Unauthenticated
from tests.client.serving import serving
from tests.make import HOUR, START


async def test_a_key_acts_for_its_tenant_and_one_of_all_tenants_for_any(app: Duly) -> None:
    acme = (await app.keys.create("acme", tenant="äcme", scope="write")).secret
    admin = (await app.keys.create("boss", scope="admin", all_tenants=True)).secret
    of_one = (await app.keys.create("boss of one", scope="admin")).secret
    reader = (await app.keys.create("reader", scope="read")).secret
    async with serving(app, keyless=False) as url:
        async with Client(url, key=acme) as own, Client(url, key=acme, tenant="äcme") as named:
            event = await own.at(START + HOUR, "x")
            assert event.tenant == "äcme"
            assert await named.events.get(event.id, tenant="äcme") == event
            assert await named.events.find(OfTenant("äcme")) == [event]
            assert await named.add_many([Timer(START, "x", tenant="äcme")])
            for act in (
                own.events.get(event.id, tenant="äcme"),
                own.at(START, "x", tenant="default"),
                named.at(START, "x", tenant="other"),
                named.add_many([Timer(START, "x", tenant="other")]),
            ):
                with pytest.raises(Misuse, match=r"create one with Client\(…, tenant="):
                    await act
        async with Client(url, key=admin, tenant="äcme") as other, Client(url, key=admin) as boss:
            assert await other.events.get(event.id) == event
            with pytest.raises(NotFound):
                await boss.events.get(event.id)
        for key in (acme, of_one):
            async with Client(url, key=key, tenant="other") as stranger:
                with pytest.raises(Forbidden, match="only a key for all tenants"):
                    await stranger.events.find()
        async with Client(url, key=reader) as weak:
            assert await weak.events.find() == []
            with pytest.raises(Forbidden, match="needs the scope write"):
                await weak.at(START, "x")
        for unknown in (None, "duly_" + "x" * 43):
            async with Client(url, key=unknown) as nobody:
                with pytest.raises(Unauthenticated):
                    await nobody.events.find()


async def test_the_key_of_a_client_is_never_shown(server: str, app: Duly, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = "duly_" + "s" * 43
    client = Client(server, key=key, timeout=20)
    async with client:
        with pytest.raises(Unauthenticated) as refused:
            await client.events.find()
    assert key not in repr(client) + repr(refused.value) + str(refused.value) + caplog.text
    context: BaseException | None = refused.value
    while context is not None:
        assert key not in repr(context) + repr(vars(context))
        context = context.__context__


@pytest.mark.parametrize(
    "url",
    ["duly.example", "ftp://duly.example", "https://", "https://user:secret@duly.example", "https://x/?key=y", None],
)
def test_text_that_is_no_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(Misuse, match="needs the address of a server") as refused:
        Client(url)
    assert "secret" not in str(refused.value)


def test_text_that_is_no_key_or_tenant_is_refused_without_repeating_it() -> None:
    with pytest.raises(Misuse, match="is not an API key") as refused:
        Client("https://duly.example", key="duly_\nX-Evil: 1")
    assert "Evil" not in str(refused.value)
    with pytest.raises(Invalid, match="tenant"):
        Client("https://duly.example", tenant="a\n")
    with pytest.raises(Misuse, match="timeout"):
        Client("https://duly.example", timeout=0)


async def test_a_client_that_is_not_open_says_so(server: str) -> None:
    client = Client(server)
    with pytest.raises(Misuse, match="is not open"):
        await client.events.find()
    async with client, client:
        assert await client.events.find() == []
    with pytest.raises(Misuse, match="is not open"):
        await client.events.find()


async def test_the_api_may_be_mounted_in_another_application(app: Duly) -> None:
    outer = FastAPI()
    outer.mount("/du ly", create_api(app, keyless=True))
    async with serving(app, outer) as url, Client(f"{url}/du%20ly/") as client:
        event = await client.at(START, "x", key="a/b")
        assert await client.events.by_key("a/b") == event
    assert repr(client) == f"Client('{url}/du%20ly')"
