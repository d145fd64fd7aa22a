"""``GET /metrics``: of all tenants together, so for those who may see all tenants."""

from datetime import timedelta

import httpx
import pytest

from duly import Unauthenticated
from duly.api import Caller as Who
from duly.api.app import create_api
from duly.observers.metrics.families import FAMILIES, TIMERS, WORKER
from tests.conftest import OpenDuly
from tests.exposition import Exposition
from tests.http.calling import Caller, OpenCaller


async def test_metrics_have_http_requests_and_events_in_one_exposition(http: Caller) -> None:
    await http("PUT", "/v1/timers/a", {"after": "1h", "type": "greet"})
    answer = await http("GET", "/metrics")
    assert answer.status_code == 200
    found = Exposition(answer.text)
    assert found("duly_http_requests_total", method="PUT", route="/v1/timers/{key}", status="201") == 1
    assert found("duly_events_created_total", type="greet", lane="handler:greet") == 1
    assert found("duly_events_pending") == 1
    without_passes = {f"duly_pass_{what}" for what in ("average_lateness_seconds", "greatest_lateness_seconds")}
    of_events = {name for name in found.families if not name.startswith("duly_http_")}
    assert of_events == {*FAMILIES} - {*TIMERS, *WORKER, "duly_pass_age_seconds"} - without_passes


async def test_metrics_of_all_tenants_need_a_key_for_all_tenants(http: Caller) -> None:
    assert (await http("GET", "/metrics")).status_code == 200
    keys = http.app.keys
    own = (await keys.create("own", scope="admin", tenant="acme")).secret
    every = (await keys.create("prometheus", scope="read", all_tenants=True)).secret
    refused = await http("GET", "/metrics")
    assert refused.status_code == 401
    refused = await http("GET", "/metrics", authorization=f"Bearer {own}")
    assert refused.status_code == 403
    assert "duly keys create NAME --scope read --all-tenants" in refused.json()["detail"]
    assert (await http("GET", "/metrics", authorization="Bearer nonsense")).status_code == 401
    answer = await http("GET", "/metrics", authorization=f"Bearer {every}")
    assert answer.status_code == 200
    assert Exposition(answer.text)("duly_store_up") == 1


async def test_without_keys_a_page_of_another_site_reads_no_metrics(http: Caller) -> None:
    assert (await http("GET", "/metrics", host="evil.example")).status_code == 403
    assert (await http("GET", "/metrics", origin="https://evil.example")).status_code == 403


@pytest.mark.parametrize(("all_tenants", "status"), [(True, 200), (False, 403), (1, 403)])
async def test_an_application_that_authenticates_says_who_reads_metrics(
    duly: OpenDuly, all_tenants: bool, status: int
) -> None:
    app = await duly()

    async def authenticate(request: object) -> Who:
        return Who("acme", "read", "ann", all_tenants=all_tenants)  # type: ignore[arg-type]

    assert await status_of(app, create_api(app, authenticate=authenticate)) == status


async def test_whom_an_application_does_not_know_reads_no_metrics(duly: OpenDuly) -> None:
    app = await duly()

    async def authenticate(request: object) -> Who:
        raise Unauthenticated("log in first")

    assert await status_of(app, create_api(app, authenticate=authenticate)) == 401


async def status_of(app: object, api: object) -> int:

    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://127.0.0.1") as client:  # type: ignore[arg-type]
        return (await client.get("/metrics")).status_code


async def test_types_that_callers_invent_fill_a_bounded_number_of_series(calling: OpenCaller, duly: OpenDuly) -> None:
    app = await duly()
    http = await calling(app)
    for number in range(150):
        await app.after(timedelta(hours=1), f"type {number}")
    found = Exposition((await http("GET", "/metrics")).text)
    assert found("duly_events_created_total") == 150
    assert found("duly_events_created_total", type="other", lane="other") == 50
    assert found("duly_events_due", lane="other") == 0
    assert len([1 for name, _ in found.values if name == "duly_lane_served"]) == 101
