"""``Created``, told of what requests have stored."""

from duly.signals import Created
from tests.http.calling import Caller
from tests.make import HOUR, START


async def test_observers_are_told_of_timers_created_over_http(http: Caller) -> None:
    heard = list[Created]()
    http.app.observe(heard.append, Created)
    due = (START + HOUR).isoformat().replace("+00:00", "Z")
    await http("PUT", "/v1/timers/invoice-7", {"type": "greet", "due_at": due})
    assert [(one.type, one.tenant, len(one.ids)) for one in heard] == [("greet", "default", 1)]
    await http("PUT", "/v1/schedules/daily", {"type": "report", "rule": {"cron": "0 9 * * *"}})
    assert [(one.type, one.tenant, len(one.ids)) for one in heard[1:]] == [("report", "default", 1)]
    refused = await http("PUT", "/v1/timers/invoice-8", {"type": "greet", "due_at": "never"})
    assert refused.status_code == 422
    assert len(heard) == 2
