"""The forecast over HTTP: each tenant has its own, and it is computed once for many who ask."""

import asyncio
from typing import Any

import pytest

from duly import every
from duly.api.nouns import forecast
from duly.records.figures.forecast import FORECAST_JSON, Forecast
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.make import HOUR, START, a_user


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    return await calling(await duly())


async def key_of(http: Caller, tenant: str) -> str:
    return f"Bearer {(await http.app.keys.create(tenant, tenant=tenant, scope='read')).secret}"


@pytest.fixture
async def acme(http: Caller) -> str:
    """A key of a tenant that has events, beside another one that has some as well."""
    for tenant in ("acme", "globex"):
        await http.app.schedules.put("pulse", every("30m"), f"{tenant}.pulse", tenant=tenant)
        await http.app.users.add(**a_user(tenant=tenant, date_of_birth="1990-01-01", timezone="UTC"))
    await http.app.at(START + HOUR, "reminder", tenant="acme")
    return await key_of(http, "acme")


async def test_it_has_the_steps_of_the_range_and_knows_one_tenant_alone(http: Caller, acme: str) -> None:
    address = "/v1/forecast?from=2026-01-01T00:00:00Z&to=2026-01-01T02:10:00Z&step=1h"
    assert await http.get(address, authorization=acme) == {
        "from": "2026-01-01T00:00:00Z",
        "to": "2026-01-01T02:10:00Z",
        "step": "1h",
        "steps": [
            {"at": "2026-01-01T00:00:00Z", "count": 1, "by_type": {"acme.pulse": 1}},
            {"at": "2026-01-01T01:00:00Z", "count": 3, "by_type": {"acme.pulse": 2, "reminder": 1}},
            {"at": "2026-01-01T02:00:00Z", "count": 1, "by_type": {"acme.pulse": 1}},
        ],
        "complete": True,
        "warnings": [],
    }


async def test_every_parameter_may_be_left_out(http: Caller, acme: str) -> None:
    told = await http.get("/v1/forecast", authorization=acme)
    assert (told["from"], told["to"], told["step"]) == ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "1h")
    assert sum(step["count"] for step in told["steps"]) == 49
    told = await http.get("/v1/forecast?to=2028-01-01T00:00:00Z", authorization=acme)
    assert sum(step["by_type"].get("birthday", 0) for step in told["steps"]) == 2  # the third is due at nine


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("from=yesterday", "from"),
        ("to=2026-01-01", "to"),
        ("to=2025-01-01T00:00:00Z", "to"),
        ("step=hourly", "step"),
        ("step=1ms", "step"),
        ("to=2027-01-01T00:00:00Z&step=1s", "step"),
        ("until=2027-01-01T00:00:00Z", "query.until"),
    ],
)
async def test_a_range_that_cannot_be_used_is_refused_with_what_is_wrong(
    http: Caller, acme: str, query: str, path: str
) -> None:
    answer = await http("GET", f"/v1/forecast?{query}", authorization=acme)
    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == [path]


async def test_many_who_ask_the_same_get_one_computation(
    http: Caller, acme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[Any] = []
    original = FORECAST_JSON.write

    def counted(found: Forecast) -> Any:
        computed.append(found)
        return original(found)

    monkeypatch.setattr(FORECAST_JSON, "write", counted)
    answers = await asyncio.gather(*(http.get("/v1/forecast", authorization=acme) for _ in range(5)))
    assert answers == [answers[0]] * 5
    assert len(computed) == 1
    other = await key_of(http, "globex")
    assert (await http.get("/v1/forecast", authorization=other)) != answers[0]
    assert (await http.get("/v1/forecast?step=2h", authorization=acme)) != answers[0]
    assert len(computed) == 3


async def test_an_answer_is_computed_again_when_it_is_old(
    http: Caller, acme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await http.get("/v1/forecast", authorization=acme)
    await http.app.at(START + HOUR, "reminder", tenant="acme")
    assert await http.get("/v1/forecast", authorization=acme) == before
    monkeypatch.setattr(forecast, "CACHED_FOR_S", 0.0)
    after = await http.get("/v1/forecast", authorization=acme)
    assert after["steps"][1]["count"] == before["steps"][1]["count"] + 1


def test_the_cache_does_not_grow_without_end() -> None:
    cache = forecast.ForecastCache()
    for number in range(forecast.MOST_CACHED + 5):
        cache.put((str(number), None, None, None), None)  # type: ignore[arg-type]
    assert len(cache._answers) == forecast.MOST_CACHED
