"""Stored targets over HTTP: where events go, and whether they are enabled."""

from datetime import timedelta
from typing import Any

from duly.api.access.tenancy import MOST_RELEASED
from duly.api.description import examples
from duly.api.description.operations import NOTHING, DescribedResponse, Operations, RequestBody
from duly.api.description.schema_words import REASON, choice, each_maybe, ref, span, taken
from duly.api.description.schemas import PAGING_BY_NAME
from duly.api.description.target_schemas import secret
from duly.api.description.target_schemas import target as target_of_event
from duly.api.protocol.all_problems import together
from duly.api.protocol.fields import Kind, look_at_fields, read_fields
from duly.api.protocol.pages import asked_page, page_of_these
from duly.api.protocol.query_string import BOOLEANS, name_place, read_boolean
from duly.api.protocol.request import IDEMPOTENCY_KEY, ApiRequest, ApiResponse
from duly.errors import Invalid, Problem
from duly.records.results import TargetTest
from duly.records.target import TARGET_JSON, TARGET_PAGE, Target
from duly.records.wire.answers import TARGET_WITH_SECRET, ReleasedEvents
from duly.verbs.targets import LONGEST_KEPT

operations = Operations("targets")

TARGET = DescribedResponse("The target", TARGET_JSON.struct, examples.TARGET)
SECRET = {**examples.TARGET, "secret": "whsec_bWFkZSB1cCBmb3IgdGhlIGV4YW1wbGUgYWJvdmU="}


NOT_TWICE = Problem(
    "Idempotency-Key",
    "cannot be used if the server generates the secret, because the answer is not stored: send your own "
    "secret, and a repeated request changes nothing",
)


def _with_secret(target: Target) -> dict[str, Any]:
    return TARGET_JSON.write(target) | {"secret": target.secret}


@operations.add(
    "PUT",
    "/v1/targets/{name}",
    {
        201: DescribedResponse(
            "The target was created; its secret is shown only once", TARGET_WITH_SECRET, SECRET, located=True
        ),
        200: DescribedResponse("The target was replaced", TARGET_WITH_SECRET, {**SECRET, "secret": None}),
    },
    takes=RequestBody(ref("NewTarget"), {"url": "https://hooks.example/duly"}),
    conflicts=True,
    discloses=True,
)
async def put_target(ask: ApiRequest) -> ApiResponse:
    """Create or replace a target.

    A webhook target has a signing secret, which is generated if none is given. An existing target keeps its secret and
    the values of its headers if no others are given.
    """
    texts = ("url", "channel", "method", "format", "timeout", "secret")
    kinds: dict[str, Kind] = {**dict.fromkeys(texts, str), "headers": dict, "retry_statuses": list}
    read, problems = look_at_fields(ask.body, kinds, "url")
    said = {field: value for field, value in read.items() if value is not None}
    with together(problems):
        url = said.pop("url", "")
        stored = await ask.own.targets.put(ask.named("name"), url, tenant=ask.tenant, by=ask.by, **said)
    if not stored.new:
        return ApiResponse(_with_secret(stored))
    return ApiResponse(_with_secret(stored), 201, {"Location": ask.address})


@operations.add(
    "GET",
    "/v1/targets",
    {
        200: DescribedResponse(
            "A page of targets, ordered by name", TARGET_PAGE.struct, examples.page("targets", examples.TARGET)
        )
    },
    query=PAGING_BY_NAME,
)
async def list_targets(ask: ApiRequest) -> ApiResponse:
    """List stored targets. Secrets and the values of headers are never shown."""
    page = asked_page(ask, name_place)
    found = await ask.own.targets.page(tenant=ask.tenant, limit=page.limit, after=page.after)
    return page_of_these(ask, page, "targets", found, TARGET_JSON.write, lambda one: one.name)


@operations.add("GET", "/v1/targets/{name}", {200: TARGET})
async def get_target(ask: ApiRequest) -> ApiResponse:
    """Read a target."""
    return ApiResponse(TARGET_JSON.write(await ask.own.targets.get(ask.named("name"), tenant=ask.tenant)))


@operations.add(
    "DELETE",
    "/v1/targets/{name}",
    {200: DescribedResponse("The deleted target", TARGET_JSON.struct, examples.TARGET)},
    query={"force": choice(*BOOLEANS)},
    conflicts=True,
)
async def delete_target(ask: ApiRequest) -> ApiResponse:
    """Delete a target. Refused while events wait for the target. With `force=true`, it is deleted, and those events
    become dead letters when they are due.
    """
    force = read_boolean("force", ask.query.get("force", "false"))
    if isinstance(force, Problem):
        raise Invalid([force])
    deleted = await ask.own.targets.delete(ask.named("name"), force=force, tenant=ask.tenant, by=ask.by)
    return ApiResponse(TARGET_JSON.write(deleted))


@operations.add(
    "POST",
    "/v1/targets/{name}/rotate",
    {200: DescribedResponse("The target with its new secret, which is shown only once", TARGET_WITH_SECRET, SECRET)},
    takes=RequestBody(
        taken(each_maybe({"secret": secret, "keep": span(timedelta(), LONGEST_KEPT)})), {"keep": "1d"}, required=False
    ),
    conflicts=True,
    discloses=True,
)
async def rotate_secret(ask: ApiRequest) -> ApiResponse:
    """Rotate the secret of a webhook target. Requests are signed with the old secret as well until `keep` has passed.

    To be able to repeat the request safely, send your own secret: if it is already the newest one, nothing changes.
    Without your own secret, an `Idempotency-Key` is refused, because the answer contains the secret and is not stored.
    """
    read, problems = look_at_fields(ask.body, {"secret": str, "keep": str})
    if ask.body.get("secret") is None and IDEMPOTENCY_KEY in ask.request.headers:
        problems.append(NOT_TWICE)
    said = {field: value for field, value in read.items() if value is not None}
    with together(problems):
        rotated = await ask.own.targets.rotate(ask.named("name"), tenant=ask.tenant, by=ask.by, **said)
    return ApiResponse(_with_secret(rotated))


@operations.add(
    "POST",
    "/v1/targets/{name}/disable",
    {200: TARGET},
    takes=RequestBody(REASON, {"reason": "it moves house"}, required=False),
    conflicts=True,
)
async def disable_target(ask: ApiRequest) -> ApiResponse:
    """Disable a target: its events are held until it is enabled."""
    why = read_fields(ask.body, {"reason": str})["reason"]
    found = await ask.own.targets.get(ask.named("name"), tenant=ask.tenant)
    await ask.own.targets.disable(found.name, tenant=ask.tenant, by=ask.by, reason=why)
    return await get_target(ask)


@operations.add(
    "POST",
    "/v1/targets/{name}/enable",
    {
        200: DescribedResponse(
            "The number of released events", ReleasedEvents, {"name": "shop", "events": 12, "more": False}
        )
    },
    takes=NOTHING,
    conflicts=True,
)
async def enable_target(ask: ApiRequest) -> ApiResponse:
    """Enable a parked or disabled target.

    A request releases about 10,000 of the waiting events. If `more` is true, workers release the rest.
    """
    read_fields(ask.body, {})
    found = await ask.own.targets.get(ask.named("name"), tenant=ask.tenant)
    events = await ask.own.targets.enable(found.name, tenant=ask.tenant, by=ask.by)
    return ApiResponse({"name": found.name, "events": events, "more": events >= MOST_RELEASED})


@operations.add("POST", "/v1/targets/{name}/probe", {200: TARGET}, takes=NOTHING, conflicts=True)
async def probe_target(ask: ApiRequest) -> ApiResponse:
    """Probe a parked target now: the next worker that checks it tries one event."""
    read_fields(ask.body, {})
    found = await ask.own.targets.get(ask.named("name"), tenant=ask.tenant)
    await ask.own.targets.probe(found.name, tenant=ask.tenant, by=ask.by)
    return await get_target(ask)


@operations.add(
    "PUT",
    "/v1/targets/{name}/limits",
    {200: TARGET},
    takes=RequestBody(ref("Limits"), {"concurrency": 5, "rate": "50/s"}),
)
async def limit_target(ask: ApiRequest) -> ApiResponse:
    """Limit how many events a target gets at once, and how many per second. A limit that is not given is removed."""
    said, problems = look_at_fields(ask.body, {"concurrency": int, "rate": str})
    with together(problems):
        found = await ask.own.targets.get(ask.named("name"), tenant=ask.tenant)
        await ask.own.targets.limit(found.name, tenant=ask.tenant, by=ask.by, **said)
    return await get_target(ask)


# -- tests


TESTED = {200: DescribedResponse("What came back, whatever that is", TargetTest, examples.TARGET_TEST)}

NOT_STORED = Problem("Idempotency-Key", "cannot be used: each request sends a test, and its answer is not stored")


async def _send_test(ask: ApiRequest, answer: ApiResponse) -> ApiResponse:
    """Sends the test that the request has planned. Its transaction has ended: a receiver may take long to answer."""
    return ApiResponse(await ask.own.duly.targets.send_test(answer.body, by=ask.by))


def _no_key(ask: ApiRequest) -> list[Problem]:
    return [NOT_STORED] if IDEMPOTENCY_KEY in ask.request.headers else []


@operations.add("POST", "/v1/targets/{name}/test", TESTED, takes=NOTHING, conflicts=True, sends=_send_test)
async def test_target(ask: ApiRequest) -> ApiResponse:
    """Send a test to a target, and tell what came back.

    It is signed like a delivery, and marked as a test by the header `Duly-Test: true` and by `"test": true` in its
    body. It is also sent while the target is parked, and never parks it. 409 if the rate limit of the target leaves no
    room for a test.
    """
    _, problems = look_at_fields(ask.body, {})
    with together([*_no_key(ask), *problems], {}):
        return ApiResponse(await ask.own.targets.plan_test(ask.named("name"), tenant=ask.tenant))


@operations.add(
    "POST",
    "/v1/targets/test",
    TESTED,
    takes=RequestBody(
        taken({"target": target_of_event}, "target"), {"target": {"webhook": "https://hooks.example/duly"}}
    ),
    conflicts=True,
    sends=_send_test,
)
async def test_unsaved_target(ask: ApiRequest) -> ApiResponse:
    """Send a test to a target that is not stored, as an event would have it. No command is tested over HTTP."""
    said, problems = look_at_fields(ask.body, {"target": dict}, "target")
    with together([*_no_key(ask), *problems], {}):
        return ApiResponse(await ask.own.targets.plan_test(said["target"] or {}, tenant=ask.tenant))
