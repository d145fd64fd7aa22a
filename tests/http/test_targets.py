"""Stored targets over HTTP: secrets are shown once, the values of headers never."""

from pathlib import Path
from typing import Any

import pytest

from duly.testing import ManualClock
from tests.api.sending import OPTIONS, verified
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller, ok, paths
from tests.make import HOUR
from tests.receivers.obedient import Answer, Obedient

URL = "https://hooks.example/in"
TO_SHOP = {"type": "sale", "after": "1h", "target": {"webhook": {"target": "shop"}}}
TOKEN = "t0ken-that-nobody-may-see"
BROUGHT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
async def shop(duly: OpenDuly, calling: OpenCaller) -> Caller:
    """An API that can keep secrets and may reach loopback."""
    return await calling(await duly(**OPTIONS))


async def send(http: Caller, clock: ManualClock, key: str = "a") -> dict[str, Any]:
    """An event that is due now, to the target `shop`."""
    due = f"{clock.now():%FT%TZ}"
    target = {"webhook": {"target": "shop"}}
    timer = await http.put(f"/v1/timers/{key}", {"due_at": due, "type": "sale", "target": target})
    await http.app.tick()
    event: dict[str, Any] = await http.get(f"/v1/events/{timer['id']}")
    return event


async def test_a_secret_is_shown_once_and_signs(shop: Caller, clock: ManualClock, receiver: Obedient) -> None:
    created = await shop("PUT", "/v1/targets/shop", {"url": receiver.url(), "headers": {"X-Token": TOKEN}})
    assert (created.status_code, created.headers["location"]) == (201, "/v1/targets/shop")
    secret = created.json()["secret"]
    assert secret.startswith("whsec_")
    answers = [
        await shop("GET", "/v1/targets/shop"),
        await shop("GET", "/v1/targets"),
        await shop("PUT", "/v1/targets/shop", {"url": receiver.url()}),
        await shop("PUT", "/v1/targets/shop/limits", {"concurrency": 5}),
        await shop("POST", "/v1/targets/shop/disable", {"reason": "it moves house"}),
        await shop("POST", "/v1/targets/shop/enable"),
    ]
    assert all(answer.status_code == 200 for answer in answers)
    assert not [answer for answer in answers if secret in answer.text]
    assert not [answer for answer in [created, *answers] if TOKEN in answer.text]
    assert (answers[2].json()["secret"], answers[0].json()["headers"]) == (None, ["X-Token"])
    assert "secret" not in answers[0].json()
    assert (await send(shop, clock))["status"] == "COMPLETED"
    [request] = receiver.requests
    assert verified(request, secret)
    assert request.header("x-token") == TOKEN, "what was put before stays"
    assert TOKEN not in (await shop("DELETE", "/v1/targets/shop")).text


async def test_a_secret_can_be_brought_and_rotated(shop: Caller, clock: ManualClock, receiver: Obedient) -> None:
    await shop.put("/v1/targets/shop", {"url": receiver.url(), "secret": BROUGHT})
    rotated = await shop.post("/v1/targets/shop/rotate", {"keep": "1h"})
    assert rotated["secret"] != BROUGHT
    await send(shop, clock)
    [request] = receiver.requests
    assert verified(request, BROUGHT)
    assert verified(request, rotated["secret"]), "both sign for an hour"
    again = await shop.post("/v1/targets/shop/rotate", {"secret": BROUGHT, "keep": "0s"})
    assert again["secret"] == BROUGHT
    for bad, wanted in (
        ({"secret": "short"}, ["secret"]),
        ({"secret": ""}, ["secret"]),
        ({"keep": "long"}, ["keep"]),
        ({"keep": ""}, ["keep"]),
        ({"keep": 5}, ["keep"]),
        ({"seal": "x"}, ["seal"]),
    ):
        assert paths(await shop("POST", "/v1/targets/shop/rotate", bad)) == wanted, bad
    await shop.put("/v1/targets/plain", {"url": URL, "channel": "http", "method": "PUT"})
    refused = await shop("POST", "/v1/targets/plain/rotate")
    assert (refused.status_code, "has no secret to rotate" in refused.json()["detail"]) == (409, True)


async def test_without_an_encryption_key_the_error_says_what_to_do(http: Caller) -> None:
    for body in ({"url": URL}, {"url": URL, "channel": "http", "headers": {"X-Token": TOKEN}}):
        refused = await http("PUT", "/v1/targets/shop", body)
        assert (refused.status_code, "DULY_SECRET_KEY" in refused.json()["detail"]) == (409, True)
    assert (await http("GET", "/v1/targets/shop")).status_code == 404
    plain = await http("PUT", "/v1/targets/shop", {"url": URL, "channel": "http"})
    assert (plain.status_code, plain.json()["secret"]) == (201, None)


async def test_all_problems_of_a_target_are_told_at_once(shop: Caller) -> None:
    bad = {
        "url": "ftp://x", "channel": "pigeon", "method": "get", "headers": {"Host": "x", "X-A": 5}, "format": "xml",
        "timeout": "1h", "secret": "short",
    }  # fmt: skip
    found = paths(await shop("PUT", "/v1/targets/shop", bad))
    assert {path.partition(".")[0] for path in found} == set(bad)
    assert {"headers.Host", "headers.X-A"} <= set(found)
    assert paths(await shop("PUT", "/v1/targets/shop", {"headers": [], "timeout": 5, "colour": 1})) == [
        "colour", "url", "timeout", "headers",
    ]  # fmt: skip
    assert paths(await shop("PUT", "/v1/targets/a%20b", {"url": URL})) == ["name"]
    assert (await shop.get("/v1/targets"))["targets"] == []


async def test_a_target_says_which_statuses_are_retried(shop: Caller) -> None:
    body = {"url": URL, "channel": "http", "method": "PUT", "retry_statuses": [404.0, 409]}
    assert (await shop.put("/v1/targets/shop", body))["retry_statuses"] == [404, 409]
    assert (await shop.get("/v1/targets/shop"))["retry_statuses"] == [404, 409]
    assert (await shop.put("/v1/targets/shop", {"url": URL, "channel": "http"}))["retry_statuses"] is None
    assert "retry_statuses" not in await shop.put("/v1/targets/signed", {"url": URL})
    for channel, statuses, wrong in (
        ("http", [404, 600, 200], ["retry_statuses[1]", "retry_statuses[2]"]),
        ("http", 404, ["retry_statuses"]),
        ("webhook", [404], ["retry_statuses"]),
    ):
        bad = {"url": URL, "channel": channel, "retry_statuses": statuses}
        assert paths(await shop("PUT", "/v1/targets/shop", bad)) == wrong
    timer = {"after": "1h", "type": "sale", "target": {"http": {"url": URL, "retry_statuses": [404, 200, "x"]}}}
    assert paths(await shop("PUT", "/v1/timers/a", timer)) == [
        "target.http.retry_statuses[1]", "target.http.retry_statuses[2]",
    ]  # fmt: skip
    timer["target"] = {"http": {"url": URL, "retry_statuses": [404.0, 409]}}
    assert (await shop("PUT", "/v1/timers/a", timer)).status_code == 201


async def test_a_disabled_target_holds_its_events(shop: Caller, clock: ManualClock, receiver: Obedient) -> None:
    await shop.put("/v1/targets/shop", {"url": receiver.url()})
    disabled = await shop.post("/v1/targets/shop/disable", {"reason": "it moves house"})
    assert (disabled["enabled"], disabled["parked"]) == (False, "is disabled: it moves house")
    held = await send(shop, clock)
    assert (held["status"], receiver.requests) == ("PENDING", [])
    assert (held["hold_kind"], held["held_for"], held["held"]) == (
        "target", "shop", "target shop is disabled: it moves house",
    )  # fmt: skip
    assert (await shop("POST", "/v1/targets/shop/probe")).status_code == 409, "until a person enables it"
    assert await shop.post("/v1/targets/shop/enable") == {"name": "shop", "events": 1, "more": False}
    await shop.app.tick()
    assert receiver.ids == [held["id"]]
    assert (await shop.get("/v1/targets/shop"))["parked"] is None
    assert (await shop("POST", "/v1/targets/shop/enable")).status_code == 409, "there is nothing to enable"


async def test_a_target_that_answers_410_waits_for_a_person(
    shop: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    await shop.put("/v1/targets/shop", {"url": receiver.url()})
    receiver.answer = Answer(410)
    assert (await send(shop, clock))["status"] == "FAILED"
    gone = await shop.get("/v1/targets/shop")
    assert (gone["enabled"], "410" in gone["parked"]) == (False, True)
    receiver.answer = Answer()
    waits = await send(shop, clock, "b")
    assert waits["status"] == "PENDING"
    assert (await shop.post("/v1/targets/shop/enable"))["events"] == 1
    await shop.app.tick()
    assert (await shop.get(f"/v1/events/{waits['id']}"))["status"] == "COMPLETED"


async def test_limits_of_a_target_are_put_and_removed(shop: Caller) -> None:
    await shop.put("/v1/targets/shop", {"url": URL})
    limited = await shop.put("/v1/targets/shop/limits", {"concurrency": 5, "rate": "50/s"})
    assert (limited["concurrency"], limited["rate"]) == (5, "50/s")
    assert await shop.get("/v1/targets/shop") == limited
    fewer = await shop.put("/v1/targets/shop/limits", {"rate": "1/m"})
    assert (fewer["concurrency"], fewer["rate"]) == (None, "1/m")
    none = await shop.put("/v1/targets/shop/limits", {})
    assert (none["concurrency"], none["rate"]) == (None, None)
    bad: dict[str, Any] = {"concurrency": 0, "rate": "fast"}
    assert paths(await shop("PUT", "/v1/targets/shop/limits", bad)) == ["concurrency", "rate"]
    bad = {"concurrency": "5", "rate": 5}
    assert paths(await shop("PUT", "/v1/targets/shop/limits", bad)) == ["concurrency", "rate"]


async def test_a_missing_target_is_not_found(shop: Caller) -> None:
    for name in ("nobody", "a%20b", "x" * 200, "%00", "https%3A%2F%2Fhooks.example"):
        for method, path, body in (
            ("GET", "", None), ("DELETE", "", None), ("POST", "/rotate", None), ("POST", "/disable", None),
            ("POST", "/enable", None), ("POST", "/probe", None), ("PUT", "/limits", {}),
        ):  # fmt: skip
            assert (await shop(method, f"/v1/targets/{name}{path}", body)).status_code == 404, (name, path)


async def test_an_event_that_names_a_deleted_target_becomes_a_dead_letter(shop: Caller, clock: ManualClock) -> None:
    await shop.put("/v1/targets/shop", {"url": URL})
    await shop.post("/v1/timers", {"timers": [TO_SHOP | {"key": "one"}, {"type": "x", "after": "1h"}]})
    assert (await shop("DELETE", "/v1/targets/shop?force=perhaps")).status_code == 422
    refused = await shop("DELETE", "/v1/targets/shop")
    assert (refused.status_code, "is still needed for 1 event" in refused.json()["detail"]) == (409, True)
    gone = await shop.delete("/v1/targets/shop?force=true")
    assert (gone["name"], gone["url"]) == ("shop", URL)
    clock.advance(2 * HOUR)
    await shop.app.tick()
    dead = await shop.get("/v1/timers/one")
    assert (dead["status"], "shop" in dead["last_error"]) == ("FAILED", True)


async def test_a_timer_that_names_a_target_which_is_not_there_is_refused_alone(shop: Caller) -> None:
    told = {
        "path": "target.webhook.target",
        "message": "there is no target 'shop' in tenant 'default': create it first",
    }
    refused = await shop("PUT", "/v1/timers/one", TO_SHOP)
    assert (refused.status_code, refused.json()["errors"]) == (422, [told])
    many = await shop.post("/v1/timers", {"timers": [TO_SHOP, {"type": "x", "after": "1h"}, TO_SHOP | {"key": "two"}]})
    assert [one["status"] for one in many["results"]] == ["refused", "created", "refused"]
    assert many["results"][0]["errors"] == many["results"][2]["errors"] == [told]


async def test_targets_are_listed_by_name_in_pages(shop: Caller) -> None:
    names = [f"t{n}" for n in range(5)]
    for name in names[::-1]:
        ok(await shop("PUT", f"/v1/targets/{name}", {"url": URL}))
    page = await shop("GET", "/v1/targets?limit=2")
    found = [target["name"] for target in page.json()["targets"]]
    await shop.put("/v1/targets/a", {"url": URL})
    while page.json()["next_cursor"]:
        page = await shop("GET", page.links["next"]["url"])
        found += [target["name"] for target in page.json()["targets"]]
    assert found == names


async def test_an_unreachable_target_is_parked_and_can_be_probed(
    shop: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    await shop.put("/v1/targets/shop", {"url": receiver.url()})
    receiver.answer = Answer(503)
    one = {"due_at": f"{clock.now():%FT%TZ}", "type": "sale", "target": {"webhook": {"target": "shop"}}}
    await shop.post("/v1/timers", {"timers": [one] * 10})
    await shop.app.tick()
    parked = await shop.get("/v1/targets/shop")
    assert "503" in parked["parked"]
    assert parked["enabled"], "nobody has disabled it"
    clock.advance(HOUR)
    await shop.app.tick()
    receiver.answer = Answer()
    probed = await shop.post("/v1/targets/shop/probe")
    assert probed["probe_at"] == "2026-01-01T01:00:00Z"
    await shop.app.tick()
    assert (await shop.get("/v1/targets/shop"))["parked"] is None


# -- tests


async def test_a_stored_target_is_tested_over_http(shop: Caller, receiver: Obedient) -> None:
    made = await shop.put("/v1/targets/shop", {"url": receiver.url()})
    receiver.answer = Answer(429, {"Retry-After": "7"}, b"slowly")
    told = await shop.post("/v1/targets/shop/test")
    assert (told["outcome"], told["status"], told["headers"]) == ("failed", 429, {"Retry-After": "7"})
    assert (told["body"], told["target"], told["acknowledged"]) == ("slowly", "shop", None)
    [request] = receiver.requests
    assert verified(request, made["secret"])
    assert request.header("duly-test") == "true"
    await shop.post("/v1/targets/shop/disable", {})
    told = await shop.post("/v1/targets/shop/test", {})
    assert (told["parked"], len(receiver.requests)) == ("is disabled", 2)
    assert [entry.act for entry in await shop.app.targets.history("shop")].count("tested") == 2


async def test_a_target_that_is_not_stored_is_tested_over_http(shop: Caller, receiver: Obedient) -> None:
    told = await shop.post("/v1/targets/test", {"target": {"webhook": receiver.url()}})
    assert (told["outcome"], told["status"], told["target"]) == ("delivered", 200, None)
    told = await shop.post("/v1/targets/test", {"target": {"http": {"method": "PUT", "url": receiver.url("/x")}}})
    assert (told["channel"], receiver.requests[-1].method) == ("http", "PUT")
    assert paths(await shop("POST", "/v1/targets/test", {"target": {"webhook": "ftp://x"}})) == ["target.webhook"]
    assert paths(await shop("POST", "/v1/targets/test", {"target": {}, "x": 1})) == ["x", "target"]
    for bad in ({}, {"target": None}, {"target": "shop"}):
        assert "target" in paths(await shop("POST", "/v1/targets/test", bad))
    assert (await shop("POST", "/v1/targets/nobody/test")).status_code == 404
    named = {"target": {"webhook": {"target": "nobody"}}}
    assert paths(await shop("POST", "/v1/targets/test", named)) == ["target.webhook.target"]
    assert paths(await shop("POST", "/v1/targets/test", {"target": {"nats": "orders.due"}})) == ["target.nats.subject"]


async def test_a_test_takes_a_key_that_writes_and_no_idempotency_key(
    shop: Caller, calling: OpenCaller, receiver: Obedient
) -> None:
    await shop.put("/v1/targets/shop", {"url": receiver.url()})
    for path, body in (
        ("/v1/targets/shop/test", {}),
        ("/v1/targets/test", {"target": {"webhook": receiver.url()}}),
    ):
        assert paths(await shop("POST", path, body, idempotency_key="once")) == ["Idempotency-Key"]
    reader = await shop.app.keys.create("reader", scope="read")
    theirs = await shop.app.keys.create("theirs", scope="write", tenant="acme")
    for key, status in ((reader, 403), (theirs, 404)):
        other = await calling(shop.app, authorization=f"Bearer {key.secret}")
        assert (await other("POST", "/v1/targets/shop/test")).status_code == status
    assert receiver.requests == []


async def test_no_key_tests_a_command_over_http(duly: OpenDuly, calling: OpenCaller, tmp_path: Path) -> None:
    app = await duly(commands=[str(tmp_path)])
    made = await app.keys.create("all", scope="admin", all_tenants=True)
    http = await calling(app, authorization=f"Bearer {made.secret}")
    for target in ({"command": {"argv": [f"{tmp_path}/job"]}}, {"command": "true"}):
        refused = await http("POST", "/v1/targets/test", {"target": target})
        assert paths(refused) == ["target.command"]
        assert "is not tested over HTTP" in refused.json()["errors"][0]["message"]


async def test_a_receiver_that_takes_long_holds_no_transaction(
    shop: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    """On SQLite, an open transaction would keep everybody else from writing."""
    written = []

    async def meanwhile() -> None:
        written.append(await shop.put("/v1/timers/meanwhile", {"type": "sale", "after": "1h"}))

    receiver.pause = meanwhile
    told = await shop.post("/v1/targets/test", {"target": {"webhook": receiver.url()}})
    assert (told["outcome"], len(written)) == ("delivered", 1)


async def test_a_rate_limit_that_is_used_up_is_a_conflict(shop: Caller, receiver: Obedient) -> None:
    await shop.put("/v1/targets/shop", {"url": receiver.url()})
    await shop.put("/v1/targets/shop/limits", {"rate": "1/h"})
    assert (await shop("POST", "/v1/targets/shop/test")).status_code == 200
    refused = await shop("POST", "/v1/targets/shop/test")
    assert (refused.status_code, "is used up" in refused.json()["detail"]) == (409, True)
