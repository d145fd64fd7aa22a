"""Templates of schedules over HTTP, and what nobody can reach through one."""

from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Invalid, Status, every, nats
from duly.decide.targets.commands import command
from duly.decide.targets.origin import OVER_HTTP
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller, paths
from tests.http.test_commands import CODES, Server, forbidden, server  # noqa: F401

SETTINGS = {"type": "report", "rule": {"every": "1h"}, "payload": {"format": "pdf"}, "misfire": {"policy": "skip"}}


async def test_a_template_is_put_read_used_and_deleted(http: Caller) -> None:
    made = await http("PUT", "/v1/templates/mine", SETTINGS)
    assert (made.status_code, made.headers["location"][-18:]) == (201, "/v1/templates/mine")
    assert (made.json()["settings"], made.json()["built_in"]) == (SETTINGS, False)
    again = await http("PUT", "/v1/templates/mine", made.json()["settings"])
    assert (again.status_code, again.headers["etag"]) == (200, made.headers["etag"])
    used = await http.put("/v1/schedules/s", {"template": "mine", "payload": {}, "type": None})
    assert (used["type"], used["payload"], used["misfire"]["policy"]) == ("report", {}, "skip")
    assert (await http("DELETE", "/v1/templates/mine")).json() == again.json()
    assert (await http("GET", "/v1/templates/mine")).status_code == 404
    assert (await http("DELETE", "/v1/templates/mine")).status_code == 404
    assert paths(await http("PUT", "/v1/schedules/s", {"template": "mine"})) == ["template"]


async def test_a_list_has_those_that_are_built_in_and_own_ones_in_pages(http: Caller) -> None:
    await http.put("/v1/templates/every-ten", {"rule": {"every": "10m"}})
    everything = (await http.get("/v1/templates"))["templates"]
    names = [one["name"] for one in everything]
    assert names == sorted(names)
    assert [one["name"] for one in everything if not one["built_in"]] == ["every-ten"]
    page, found = await http.get("/v1/templates?limit=3"), []
    while True:
        found += [one["name"] for one in page["templates"]]
        if page["next_cursor"] is None:
            break
        page = await http.get(f"/v1/templates?limit=3&cursor={page['next_cursor']}")
    assert found == names
    rest = await http.get("/v1/templates?after=every-ten")
    assert [one["name"] for one in rest["templates"]] == [name for name in names if name > "every-ten"]


async def test_a_template_that_another_request_has_changed_is_neither_replaced_nor_deleted(http: Caller) -> None:
    tag = (await http("PUT", "/v1/templates/mine", SETTINGS)).headers["etag"]
    anew = (await http("PUT", "/v1/templates/mine", {"type": "x"}, if_match=tag)).headers["etag"]
    for method, body in (("PUT", SETTINGS), ("DELETE", None)):
        assert (await http(method, "/v1/templates/mine", body, if_match=tag)).status_code == 412
    assert (await http("PUT", "/v1/templates/new", SETTINGS, if_match=tag)).status_code == 412
    assert (await http("DELETE", "/v1/templates/mine", if_match=anew)).status_code == 200


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ([], ["settings"]),
        ({"name": "x", "colour": 1, "type": ""}, ["name", "colour", "type"]),
        ({"rule": {"cron": "x"}, "retry": 3, "misfire": "never"}, ["misfire.policy", "rule.cron", "retry"]),
        ({"target": {"webhook": {"target": "nowhere"}}}, ["target.webhook.target"]),
        ({"template": "hourly"}, ["template"]),
    ],
)
async def test_all_problems_are_told_at_once(http: Caller, body: Any, wrong: list[str]) -> None:
    assert sorted(paths(await http("PUT", "/v1/templates/mine", body))) == sorted(wrong)


async def test_built_in_names_are_taken_and_a_change_takes_no_template(http: Caller) -> None:
    assert paths(await http("PUT", "/v1/templates/hourly", SETTINGS)) == ["name"]
    assert paths(await http("DELETE", "/v1/templates/hourly")) == ["name"]
    await http.put("/v1/schedules/s", {"template": "hourly", "type": "x"})
    assert paths(await http("PATCH", "/v1/schedules/s", {"template": "hourly"})) == ["template"]


# -- commands and brokers


@pytest.mark.parametrize("key", ["write", "admin", "write of all", "admin of all"])
async def test_a_template_of_code_that_runs_a_command_is_used_and_changed_by_no_request(
    server: Server,  # noqa: F811
    key: str,
) -> None:
    http, app = await server.by(key), server.app
    await app.templates.put("nightly", type="job", rule=every("1h"), payload={"level": 9}, target=CODES)
    for body in ({"template": "nightly"}, {"template": "nightly", "payload": "$(id)"}):
        answer = await http("PUT", "/v1/schedules/s", body)
        assert any(path.startswith("target.command") for path in paths(answer))
    for settings in (SETTINGS, {"payload": "$(id)", "target": {"webhook": "https://hooks.example"}}):
        forbidden(await http("PUT", "/v1/templates/nightly", settings))
    shown = (await http.get("/v1/templates/nightly"))["settings"]
    assert (await http("PUT", "/v1/templates/nightly", shown)).status_code in (403, 422)
    assert (await app.templates.get("nightly")).settings["payload"] == {"level": 9}
    if not key.startswith("admin"):
        forbidden(await http("DELETE", "/v1/templates/nightly"))
    used = await http.put("/v1/schedules/s", {"template": "nightly", "target": {"webhook": "https://hooks.example"}})
    assert used["target"] == {"webhook": "https://hooks.example"}


@pytest.mark.parametrize("key", ["write", "admin", "write of all"])
async def test_a_lesser_key_puts_no_template_with_a_command(server: Server, key: str) -> None:  # noqa: F811
    http = await server.by(key)
    body = {"target": {"command": {"argv": [server.script()]}}}
    assert paths(await http("PUT", "/v1/templates/t", body)) == ["target.command"]
    assert (await http("GET", "/v1/templates/t")).status_code == 404


async def test_the_command_of_a_template_from_http_stays_one_from_http_when_code_uses_it(
    server: Server,  # noqa: F811
    clock: ManualClock,
) -> None:
    http, app = await server.by("admin of all"), server.app
    target = {"command": {"argv": [server.script()]}}
    await http.put("/v1/templates/t", {"type": "job", "rule": {"every": "1h"}, "target": target})
    assert (await app.schedules.put("s", template="t")).via == OVER_HTTP
    server.opens()  # no folder any more: what came over HTTP must not run
    clock.advance(timedelta(hours=1))
    await app.tick()
    [failed] = [one for one in await app.events.find() if one.status is Status.FAILED]
    assert "DULY_COMMANDS" in (failed.last_error or "")


async def test_a_command_of_code_takes_no_payload_from_a_template_of_http(server: Server) -> None:  # noqa: F811
    http, app = await server.by("write"), server.app
    await http.put("/v1/templates/t", {"type": "job", "rule": {"every": "1h"}, "payload": "; rm -rf /"})
    with pytest.raises(Invalid, match="was put over HTTP: give the command a payload of your own"):
        await app.schedules.put("s", template="t", target=command("cat"))
    assert (await app.schedules.put("s", template="t", target=command("cat"), payload={})).via is None


async def test_a_broker_that_is_closed_to_a_tenant_is_not_reached_through_a_template(
    duly: OpenDuly, calling: OpenCaller
) -> None:
    app: Duly = await duly()
    http = await calling(app)
    await app.templates.put("t", type="x", rule=every("1h"), target=nats("orders.due"))
    assert any(
        path.startswith("target.nats") for path in paths(await http("PUT", "/v1/schedules/s", {"template": "t"}))
    )
    assert (await app.schedules.put("s", template="t")).target == nats("orders.due")
