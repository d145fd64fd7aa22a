"""That each exception that the fuzzer makes is needed: the schema allows what shows it, and the reader refuses that."""

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.http.calling import Caller
from tests.http.describing import Description
from tests.http.schema_exceptions import SCHEMA_EXCEPTIONS, Query
from tests.make import a_user

SHOWN = [
    pytest.param(one.path, operation, body, id=f"{operation} {one.path}")
    for one in SCHEMA_EXCEPTIONS
    for operation, body in one.requests.items()
]


@pytest.mark.parametrize(("path", "operation", "body"), SHOWN)
async def test_the_example_of_each_exception_is_allowed_by_its_schema_and_refused(
    http: Caller, path: str, operation: str, body: Any
) -> None:
    await http.put("/v1/schedules/load", {"type": "x", "rule": {"cron": "0 8 * * *"}})
    await http.put("/v1/schedules/daily", {"type": "x", "rule": {"cron": "0 9 * * *"}})
    user = await http.app.users.add(**a_user())
    description = Description(http.api.openapi())
    [asked] = [one for one in description.operations if one.said["operationId"] == operation]
    address = asked.path.format(name="new" if operation.startswith("put_") else "daily", key="k", id=user.id)
    if isinstance(body, Query):
        schema = {"properties": {one["name"]: one["schema"] for one in asked.said["parameters"]}}
        content = asked.said["requestBody"]["content"]["application/json"] if "requestBody" in asked.said else {}
        answer = await http(asked.method, f"{address}?{urlencode(body)}", content.get("example"))
    elif "requestBody" in asked.said:
        schema = asked.said["requestBody"]["content"]["application/json"]["schema"]
        answer = await http(asked.method, address, body)
    else:
        schema = {"properties": {one["name"]: one["schema"] for one in asked.said["parameters"]}}
        answer = await http(asked.method, f"{address}?{urlencode(body)}")
    assert [error.message for error in description.validator(schema).iter_errors(body)] == []
    assert answer.status_code == 422, answer.text
    told = [one["path"] for one in answer.json()["errors"]]
    assert told == [path] or (path.endswith("*") and told[0].startswith(path.partition("*")[0]))
