"""The page of the system: workers, lanes, versions and settings, for those who may see what belongs to no tenant."""

import platform
from importlib.metadata import version

from starlette.responses import Response

from duly.config import redacted
from duly.dashboard.pages import Pages
from duly.dashboard.visit import Visit
from duly.rules.zones import VERSION as ZONE_DATA

pages = Pages()

MOST_COUNTED = 1000
"""Events of a lane that are counted: more is shown as more."""


@pages.get("/system", system=True)
async def system(visit: Visit) -> Response:
    """Who is at work, how much waits in each lane, and what runs here."""
    duly = visit.own.duly
    return visit.live_page(
        "system.html",
        "system_live.html",
        here_is="system",
        workers=await duly.workers.list(),
        lanes=await duly.workers.lanes(),
        loads={one.lane: one for one in await duly.workers.loads(MOST_COUNTED)},
        most=MOST_COUNTED,
        versions={
            "Duly": version("duly"),
            "Python": platform.python_version(),
            "time zone data": ZONE_DATA,
            "database": redacted(duly.settings.database_url),
        },
    )
