"""Templates of schedules over HTTP: common rules with names."""

from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.records.wire.answers import Templates
from duly.rules.templates import TEMPLATES

operations = Operations("schedules")


@operations.add("GET", "/v1/templates", {200: DescribedResponse("All templates", Templates, examples.TEMPLATES)})
async def list_templates(_: ApiRequest) -> ApiResponse:
    """List the templates of rules, which a schedule names with `{"rule": {"template": "weekday-mornings"}}`."""
    return ApiResponse({"templates": [{"name": name, **one._asdict()} for name, one in TEMPLATES.items()]})
