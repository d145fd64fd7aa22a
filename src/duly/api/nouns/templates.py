"""Templates of schedules over HTTP: common rules with names, and a tenant's own settings of schedules."""

from duly.api.description import examples
from duly.api.description.operations import DescribedResponse, Operations, RequestBody
from duly.api.description.schema_words import ref
from duly.api.description.schemas import PAGING_BY_NAME
from duly.api.protocol.etags import etag, expected
from duly.api.protocol.pages import asked_page, page_of_these
from duly.api.protocol.query_string import name_place
from duly.api.protocol.request import ApiRequest, ApiResponse
from duly.errors import NotFound
from duly.records.template import TEMPLATE_JSON, TEMPLATE_PAGE, Template
from duly.records.wire.schedule_reader import read_settings

operations = Operations("templates")

TEMPLATE = DescribedResponse("The template", TEMPLATE_JSON.struct, examples.TEMPLATE, tagged=True)


def _shown(template: Template, status: int = 200, **headers: str) -> ApiResponse:
    return ApiResponse(TEMPLATE_JSON.write(template), status, {**etag(template.tag), **headers})


@operations.add(
    "PUT",
    "/v1/templates/{name}",
    {
        201: DescribedResponse(
            "The template was created", TEMPLATE_JSON.struct, examples.TEMPLATE, tagged=True, located=True
        ),
        200: DescribedResponse("The template was replaced", TEMPLATE_JSON.struct, examples.TEMPLATE, tagged=True),
    },
    takes=RequestBody(ref("NewTemplate"), examples.TEMPLATE["settings"]),
    guarded=True,
)
async def put_template(ask: ApiRequest) -> ApiResponse:
    """Create or replace a template of your own: any part of a schedule.

    A schedule that is put with `"template": NAME` copies what its own body does not give. Later changes of the template
    change no schedule.
    """
    name = ask.named("name")
    try:
        there: Template | None = await ask.own.templates.get(name, tenant=ask.tenant)
    except NotFound:
        there = None
    settings = read_settings(ask.body, ask.own.channels)
    tag = expected(ask, None if there is None else there.tag)
    stored = await ask.own.templates.put(name, tenant=ask.tenant, expected=tag, **settings)
    return _shown(stored, 201, Location=ask.address) if stored.new else _shown(stored)


@operations.add(
    "GET",
    "/v1/templates",
    {
        200: DescribedResponse(
            "A page of templates, ordered by name", TEMPLATE_PAGE.struct, examples.page("templates", examples.TEMPLATE)
        )
    },
    query=PAGING_BY_NAME,
)
async def list_templates(ask: ApiRequest) -> ApiResponse:
    """List templates of schedules: those that are built in, which are common rules, and your own."""
    page = asked_page(ask, name_place)
    found = await ask.own.templates.page(tenant=ask.tenant, limit=page.limit, after=page.after)
    return page_of_these(ask, page, "templates", found, TEMPLATE_JSON.write, lambda one: one.name)


@operations.add("GET", "/v1/templates/{name}", {200: TEMPLATE})
async def get_template(ask: ApiRequest) -> ApiResponse:
    """Read a template. Its `settings` can be sent back unchanged."""
    return _shown(await ask.own.templates.get(ask.named("name"), tenant=ask.tenant))


@operations.add(
    "DELETE",
    "/v1/templates/{name}",
    {200: DescribedResponse("The deleted template", TEMPLATE_JSON.struct, examples.TEMPLATE)},
    guarded=True,
)
async def delete_template(ask: ApiRequest) -> ApiResponse:
    """Delete a template of your own. Schedules that were made from it stay as they are."""
    there = await ask.own.templates.get(ask.named("name"), tenant=ask.tenant)
    tag = expected(ask, there.tag)
    deleted = await ask.own.templates.delete(there.name, tenant=ask.tenant, expected=tag)
    return ApiResponse(TEMPLATE_JSON.write(deleted))
