"""Stored targets over HTTP."""

from datetime import timedelta

import msgspec
import pytest

from duly import Conflict, Duly, Invalid, Misuse, NotFound, Target, webhook
from duly.client import Client
from duly.records.target import Known
from tests.make import HOUR, START

URL = "https://hooks.example/duly"


def seen(target: Target) -> Target:
    """Without what is not told over HTTP."""
    known = target.known or Known(target.tenant, target.name)
    known = msgspec.structs.replace(known, target=None, within=False)
    return msgspec.structs.replace(target, sealed=None, via=None, known=known)


async def test_a_target_is_what_python_has_on_the_same_database(app: Duly, client: Client) -> None:
    put = await client.targets.put("shop", URL, headers={"X-Api": "secret"}, timeout=timedelta(seconds=5))
    assert put.secret is not None
    assert put.secret not in repr(put)
    there = await app.targets.get("shop")
    assert await client.targets.get("shop") == seen(there) == msgspec.structs.replace(put, secret=None)
    assert (await client.targets.put("shop", URL + "/2", format="cloudevents")).secret is None
    plain = await client.targets.put("plain", URL, channel="http", method="DELETE", retry_statuses={404, 409})
    assert plain == seen(await app.targets.get("plain"))
    rotated = await client.targets.rotate("shop", keep="2h")
    assert rotated.secret not in (None, put.secret)
    assert await client.targets.list() == [seen(one) for one in await app.targets.list(tenant="default")]
    assert [one.name async for one in client.targets.all()] == ["plain", "shop"]
    [first] = await client.targets.list(limit=1)
    assert [one.name for one in await client.targets.list(after=(first.tenant, first.name))] == ["shop"]
    assert (await client.targets.delete("plain")).name == "plain"
    with pytest.raises(NotFound):
        await client.targets.get("plain")


async def test_a_client_can_disable_enable_probe_and_limit_a_target(app: Duly, client: Client) -> None:
    await client.targets.put("shop", URL)
    limited = await client.targets.limit("shop", concurrency=5, rate=0.5)
    assert limited == await client.targets.known("shop")
    [stored] = await app.store.destinations([("default", "shop")])
    assert (limited.concurrency, limited.rate) == (stored.concurrency, stored.rate) == (5, 0.5)
    await client.at(START + HOUR, "x", target=webhook(target="shop"))
    await client.targets.disable("shop", reason="it moves house")
    assert (await client.targets.get("shop")).enabled is False
    with pytest.raises(Conflict, match="was disabled until a person enables it"):
        await client.targets.probe("shop")
    assert await client.targets.enable("shop") == 0
    assert (await client.targets.get("shop")).enabled is True
    with pytest.raises(Conflict, match="is not parked"):
        await client.targets.enable("shop")


async def test_verbs_of_targets_that_http_does_not_have_say_what_to_do_instead(client: Client) -> None:
    for act in (client.targets.disable, client.targets.enable, client.targets.probe, client.targets.limit):
        with pytest.raises(Misuse, match="duly targets"):
            await act(URL)
    with pytest.raises(Misuse, match="duly targets"):
        await client.targets.limit(concurrency=5)
    with pytest.raises(Misuse, match="which only the server has"):
        client.targets.signing_secret(URL)
    with pytest.raises(Invalid, match="url"):
        await client.targets.put("shop", "ftp://x")
    with pytest.raises(NotFound):
        await client.targets.rotate("shop")


async def test_a_target_is_tested_by_the_server(app: Duly, client: Client) -> None:
    await client.targets.put("crm", "http://127.0.0.1:9/in")
    told = await client.targets.test("crm")
    assert (told.outcome, told.status, told.target) == ("rejected", None, "crm")
    assert (told.error or "").startswith("blocked: 127.0.0.1:9"), "the server's own guard"
    told = await client.targets.test(webhook("http://127.0.0.1:9/in"))
    assert (told.outcome, told.target) == ("rejected", None)
    with pytest.raises(NotFound):
        await client.targets.test("nobody")
    with pytest.raises(Invalid):
        await client.targets.test({"pigeon": "x"})
