"""The pages of targets: whether they take events, and the acts on them."""

import pytest

from duly import Duly
from tests.conftest import OpenDuly
from tests.dashboard.visiting import OpenVisitor, Visitor

SECRET_KEY = "a key of at least thirty-two characters"


@pytest.fixture
async def visitor(duly: OpenDuly, visiting: OpenVisitor) -> Visitor:
    app = await duly(secret_key=SECRET_KEY)
    await app.targets.put("shop", "https://shop.example/hooks")
    return await visiting(app)


async def test_the_list_tells_what_is_parked_and_what_waits(visitor: Visitor) -> None:
    await visitor.app.targets.disable("shop", reason="it <b>moves</b>")
    await visitor.app.targets.limit("https://other.example", concurrency=5, rate="10/s")
    page = await visitor.get("/targets")
    for words in ("shop", "disabled", "it <b>moves</b>", "https://other.example", "5 at once from each worker, 10/s"):
        assert words in page.text
    assert "shop" in await visitor.live("/targets")


async def test_an_empty_list_teaches_how_to_make_the_first(visiting: OpenVisitor) -> None:
    assert "duly targets put shop" in (await (await visiting()).get("/targets")).text


async def test_a_target_is_disabled_and_enabled_again(visitor: Visitor) -> None:
    page = await visitor.act("/targets/shop/disable", reason="it moves house")
    assert "shop is disabled: its events wait." in page.text
    assert "it moves house" in page.text
    assert "/targets/shop/enable" in page.links
    assert (await visitor.act("/targets/shop/enable")).text.count("0 events that waited are released") == 1
    assert (await visitor.act("/targets/shop/enable", status=409)).text.count("there is nothing to enable") == 1


async def test_limits_are_set_and_removed(visitor: Visitor) -> None:
    await visitor.act("/targets/shop/limit", concurrency="5", rate="600/m")
    known = await visitor.app.targets.known("shop")
    assert (known.concurrency, known.rate) == (5, 10)
    assert (await visitor.get("/targets/shop/limit")).fields["rate"] == "10/s"
    for wrong in ({"concurrency": "-1"}, {"concurrency": "x"}, {"rate": "often"}):
        await visitor.act("/targets/shop/limit", status=422, **wrong)
    await visitor.act("/targets/shop/limit", concurrency="", rate="")
    known = await visitor.app.targets.known("shop")
    assert (known.concurrency, known.rate) == (None, None)


async def test_before_an_act_its_command_and_request_are_shown(visitor: Visitor) -> None:
    told = await visitor.before("/targets/shop/limit", concurrency="5", rate="10/s")
    assert "duly targets limit shop --concurrency 5 --rate 10/s" in told.text
    assert "curl -X PUT http://127.0.0.1/v1/targets/shop/limits" in told.text
    assert '{"concurrency":5,"rate":"10/s"}' in told.text


async def test_what_belongs_to_no_tenant_is_for_keys_of_all_tenants(duly: OpenDuly, visiting: OpenVisitor) -> None:
    app: Duly = await duly()
    assert "This server" in (await (await visiting(app)).get("/system")).text
    for all_tenants in (True, False):
        made = await app.keys.create("ops", scope="read", all_tenants=all_tenants)
        one = await visiting(app)
        await one.sign_in(made.secret)
        page = await one.get("/system", status=200 if all_tenants else 403)
        assert ("No worker is at work" in page.text) is all_tenants
        assert ("/system" in (await one.get("/you")).links) is all_tenants


@pytest.mark.parametrize("told", ["production", "production=#b42318", " staging = #00FF00 "])
async def test_the_name_of_the_instance_is_on_each_page(duly: OpenDuly, visiting: OpenVisitor, told: str) -> None:
    visitor = await visiting(await duly(instance=told))
    name, _, colour = told.partition("=")
    for path in ("/targets", "/sign-in"):
        page = await visitor.get(path)
        assert name.strip() in page.text
        assert f"--instance: {colour.strip().lower() or '#8a5200'}" in page.html


async def test_a_proxy_that_is_trusted_names_who_acts(duly: OpenDuly, visiting: OpenVisitor) -> None:
    app = await duly(secret_key=SECRET_KEY, trusted_proxies="127.0.0.0/8")
    await app.targets.put("shop", "https://shop.example/hooks")
    made = await app.keys.create("ops", scope="write")
    trusted = await visiting(app, **{"x-forwarded-user": "ada@example.com"})
    await trusted.sign_in(made.secret)
    await trusted.act("/targets/shop/disable")
    app.settings = type(app.settings)()
    other = await visiting(app, **{"x-forwarded-user": "eve"})
    await other.sign_in(made.secret)
    await other.act("/targets/shop/enable")
    acts = {entry.act: entry.worker for entry in await app.targets.history("shop")}
    assert (acts["disabled"], acts["enabled"]) == ("ada@example.com (key ops)", "key ops")
