"""Checks that users add hold for requests too: a bad timer is a 422 with all problems, never a 500."""

from collections.abc import Iterator

from duly import Problem, Timer
from tests.http.calling import Caller, paths
from tests.make import a_user


def has_an_invoice(timer: Timer) -> Iterator[Problem | str]:
    if "invoice" not in timer.payload:
        yield "has no invoice: give its number"
    if timer.correlation_id is None:
        yield Problem("correlation_id", "is missing")


def body(**payload: int) -> dict[str, object]:
    return {"after": "1h", "type": "invoice.overdue", "payload": payload}


async def test_a_timer_that_a_check_refuses_is_invalid(http: Caller) -> None:
    http.app.check("invoice.overdue")(has_an_invoice)
    refused = await http("PUT", "/v1/timers/a", body())
    assert (refused.status_code, paths(refused)) == (422, ["payload", "correlation_id"])
    refused = await http("PUT", "/v1/timers/a", {**body(), "after": "soon", "colour": "red"})
    assert sorted(paths(refused)) == ["after", "colour", "correlation_id", "payload"]
    assert (await http("GET", "/v1/timers/a")).status_code == 404
    good = {**body(invoice=7), "correlation_id": "c"}
    assert (await http("PUT", "/v1/timers/a", good)).status_code == 201


async def test_one_timer_in_bulk_that_a_check_refuses_does_not_harm_the_others(http: Caller) -> None:
    http.app.check("invoice.overdue")(has_an_invoice)
    good = {**body(invoice=7), "correlation_id": "c"}
    done = await http.post("/v1/timers", {"timers": [good, body(), good]})
    assert [one["status"] for one in done["results"]] == ["created", "refused", "created"]
    assert [error["path"] for error in done["results"][1]["errors"]] == ["payload", "correlation_id"]


async def test_a_check_that_raises_is_explained(http: Caller) -> None:
    @http.app.check("invoice.overdue")
    def broken(timer: Timer) -> Iterator[str]:
        yield timer.payload["amount"]

    refused = await http("PUT", "/v1/timers/a", body())
    [error] = refused.json()["errors"]
    assert (refused.status_code, error["path"]) == (422, "type")
    assert "broken of 'invoice.overdue' raised KeyError: 'amount'" in error["message"]


async def test_schedules_and_users_are_checked_in_requests_too(http: Caller) -> None:
    http.app.check("invoice.overdue")(has_an_invoice)
    http.app.check("birthday")(lambda timer: None if "Ada" in timer.payload["message"] else "is not for Ada")
    schedule = {"type": "invoice.overdue", "rule": {"every": "1h"}, "payload": {}}
    refused = await http("PUT", "/v1/schedules/weekly", schedule)
    assert (refused.status_code, paths(refused)) == (422, ["payload", "correlation_id"])
    refused = await http("POST", "/v1/users", a_user(first_name="Grace"))
    assert refused.json()["errors"] == [{"path": "birthday.payload", "message": "is not for Ada"}]
    done = await http.post("/v1/users/import", {"users": [a_user(), a_user(first_name="Grace")]})
    assert (done["added"], done["refused"]) == (1, 1)
