"""The search over HTTP, confined to the tenant of the key."""

from duly import Duly, every
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller, paths
from tests.make import START, a_user


async def fill(app: Duly, tenant: str) -> str:
    await app.users.add(**a_user(key="crm-7"), tenant=tenant)
    await app.schedules.put("nightly", every("1h"), "report", tenant=tenant)
    return (await app.at(START, "x", key="k", tenant=tenant)).id


async def test_one_request_finds_by_whatever_was_pasted(http: Caller) -> None:
    id = await fill(http.app, "default")
    event = {"kind": "event", "id": id, "name": "k", "title": "x", "status": "PENDING"}
    for text in (id, "k", f"%20{id}%0A", f"webhook-id:%20{id}"):
        assert (await http.get(f"/v1/search?q={text}"))["results"] == [event]
    [user] = (await http.get("/v1/search?q=ada+love"))["results"]
    assert (user["kind"], user["name"], user["title"], user["status"]) == ("user", "crm-7", "Ada Lovelace", None)
    [schedule] = (await http.get("/v1/search?q=night&limit=1"))["results"]
    assert (schedule["kind"], schedule["status"]) == ("schedule", "enabled")


async def test_a_key_searches_its_own_tenant_and_one_for_all_names_another(duly: OpenDuly, calling: OpenCaller) -> None:
    app = await duly()
    mine, theirs = await fill(app, "mine"), await fill(app, "theirs")
    own = await app.keys.create("own", scope="read", tenant="mine")
    all_of = await app.keys.create("all", scope="read", tenant="mine", all_tenants=True)
    for key in (own, all_of):
        http = await calling(app, authorization=f"Bearer {key.secret}")
        assert [one["id"] for one in (await http.get("/v1/search?q=k"))["results"]] == [mine]
        assert (await http.get(f"/v1/search?q={theirs}"))["results"] == []
        assert len((await http.get("/v1/search?q=ada"))["results"]) == 1
    named = await http.get("/v1/search?q=k", duly_tenant="theirs")
    assert [one["id"] for one in named["results"]] == [theirs]


async def test_a_bad_search_is_refused_with_all_its_problems(http: Caller) -> None:
    assert paths(await http("GET", "/v1/search")) == ["q"]
    assert sorted(paths(await http("GET", "/v1/search?q=%20&limit=0"))) == ["limit", "q"]
    for limit in ("101", "x", "-1", "1.5", "99999999999999", ""):
        assert paths(await http("GET", f"/v1/search?q=a&limit={limit}")) == ["limit"]
    for text in ("%00", "a%01b", "x" * 600):
        assert paths(await http("GET", f"/v1/search?q={text}")) == ["q"]
    assert paths(await http("GET", "/v1/search?q=a&kind=event")) == ["query.kind"]
