"""Workers over HTTP: who is at work, for those who may know it."""

from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.records.wire.answers import AT_WORK
from duly.records.workers.worker import LANE_JSON, WORKER_JSON

operations = Operations("workers")


@operations.add("GET", "/v1/workers", {200: DescribedResponse("Workers and lanes", AT_WORK, examples.AT_WORK)})
async def list_workers(ask: ApiRequest) -> ApiResponse:
    """List workers, and whether the lanes of the tenant's events are served.

    `workers` is null unless the key is for all tenants: it tells names, hosts and lanes of all. `lanes` has the lanes
    of the tenant's own open events, among its newest 10,000 events: for each, whether a living worker serves it, and
    when one was last seen.
    """
    workers = None
    if ask.caller.all_tenants:
        workers = [WORKER_JSON.write(worker) for worker in await ask.own.workers.list()]
    lanes = [LANE_JSON.write(lane) for lane in await ask.own.workers.lanes(tenant=ask.tenant)]
    return ApiResponse({"workers": workers, "lanes": lanes})
