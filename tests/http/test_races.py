"""Many who change the same thing at the same moment: each is answered, and nothing is left half done."""

import asyncio
from typing import Any

import pytest

from duly import Status
from duly.records.specs import InStatus
from duly.verbs.targets import Targets
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.http.tenants import SECRET_KEY
from tests.make import a_user

SCHEDULE = {"type": "report", "rule": {"every": "1h"}}


async def test_requests_that_put_and_delete_one_schedule_at_once_are_all_answered(http: Caller) -> None:
    for turn in range(3):
        asked = [("PUT", {**SCHEDULE, "payload": turn}) if number % 2 else ("DELETE", None) for number in range(20)]
        answers = await asyncio.gather(*(http(method, "/v1/schedules/report", body) for method, body in asked))
        assert {answer.status_code for answer in answers} <= {200, 201, 404, 409}
        there = await http("GET", "/v1/schedules/report")
        waiting = await http.app.events.find(InStatus(Status.PENDING))
        assert len(waiting) == (1 if there.status_code == 200 else 0)


async def test_requests_that_pause_and_resume_one_schedule_at_once_are_all_answered(http: Caller) -> None:
    await http.put("/v1/schedules/report", SCHEDULE)
    acts = ["pause", "resume", "trigger", "skip"] * 5
    answers = await asyncio.gather(*(http("POST", f"/v1/schedules/report/{act}") for act in acts))
    assert {answer.status_code for answer in answers} <= {200, 201, 409}
    schedule = await http.get("/v1/schedules/report")
    heads = [event for event in await http.app.events.find(InStatus(Status.PENDING)) if event.head]
    assert len(heads) == 1
    assert (heads[0].held is None) is schedule["enabled"]


async def test_requests_that_give_one_key_to_several_users_at_once_are_all_answered(http: Caller) -> None:
    for turn in range(3):
        users = [await http.post("/v1/users", a_user()) for _ in range(4)]
        rekeyed = [http("PUT", f"/v1/users/{user['id']}", {"key": f"k{turn}"}) for user in users]
        answers = await asyncio.gather(*rekeyed, http("POST", "/v1/users", a_user(key=f"k{turn}")))
        assert sorted(answer.status_code for answer in answers)[1:] == [409] * 4
        assert all("key" in answer.json()["detail"] for answer in answers if answer.status_code == 409)


async def test_a_put_of_a_target_that_was_overtaken_is_not_answered_as_created(
    duly: OpenDuly, calling: OpenCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = await calling(await duly(secret_key=SECRET_KEY))
    put = Targets.put

    async def overtaken(self: Targets, *said: Any, **more: Any) -> Any:
        await put(self, *said, **more)  # by somebody else, after whatever was asked before
        return await put(self, *said, **more)

    monkeypatch.setattr(Targets, "put", overtaken)
    answer = await http("PUT", "/v1/targets/shop", {"url": "https://hooks.example/duly"})
    assert (answer.status_code, answer.json()["secret"], "location" in answer.headers) == (200, None, False)
