"""The pages of dead letters: their groups, and a replay or discard of many while it goes on."""

from functools import partial

from starlette.responses import Response

from duly.dashboard.acts.dead_letters import add_acts
from duly.dashboard.dead_letters.batches import Batch, stored_batch, take_step
from duly.dashboard.dead_letters.causes import by_cause, by_destination, by_type, kinds_of
from duly.dashboard.events.words import timing
from duly.dashboard.pages import Pages
from duly.dashboard.visit import Visit, part
from duly.decide.error_text import first_line
from duly.errors import Invalid
from duly.records.event import Status
from duly.records.filters import EventFilter

pages = Pages()
add_acts(pages)

MOST_READ = 1000
"""Dead letters whose errors are read for the groups by cause: the newest ones."""

SHOWN_GROUPS = 12
"""Groups of one list, at most: the largest ones."""

SHOWN_LETTERS = 10
"""Dead letters that the page lists: the newest ones."""

EVERY = EventFilter(status=(Status.FAILED,))


@pages.get("/dead-letters")
async def dead_letters(visit: Visit) -> Response:
    """The dead letters in groups."""
    own = visit.own.events
    count = await own.count(EVERY, tenant=visit.tenant)
    newest = (await own.page(EVERY, tenant=visit.tenant, limit=MOST_READ)).events
    # Counting by kind reads all of them; where they are too many to be counted, the newest ones stand for all.
    kinds = (await own.dead_letters(None, tenant=visit.tenant)).kinds if count.exact else kinds_of(newest)
    whole = count.exact and len(newest) >= count.value
    read = f"of the newest {len(newest):,}"
    groups = [
        ("By cause", by_cause(newest), "" if whole else read),
        ("By destination", by_destination(kinds), "" if count.exact else read),
        ("By type", by_type(kinds), "" if count.exact else read),
    ]
    return visit.page(
        "dead_letters.html",
        here_is="dead",
        count=count,
        groups=[(title, found[:SHOWN_GROUPS], len(found) - SHOWN_GROUPS, of) for title, found, of in groups],
        newest=newest[:SHOWN_LETTERS],
        timing=partial(timing, now=visit.times.now, late_after=visit.settings.late_after),
        first_line=first_line,
    )


@pages.get("/dead-letters/batches/{name}")
async def batch(visit: Visit) -> Response:
    """A replay or discard of many, and how far it has come. The page goes on by itself until all is done."""
    return _shown(visit, await stored_batch(visit.own, visit.named("name")))


@pages.post("/dead-letters/batches/{name}")
async def step(visit: Visit) -> Response:
    """Takes the next step of a replay or discard of many."""
    written = visit.form.get("step", "")
    number = int(written) if written.isascii() and written.isdecimal() and len(written) < 10 else -1
    done = await take_step(visit.own, visit.named("name"), number, stop="stop" in visit.form)
    return _shown(visit, done) if visit.is_fragment else visit.redirect(visit.url(visit.path))


def _shown(visit: Visit, done: Batch) -> Response:
    try:
        listed = visit.url("/events", status=Status.FAILED.value, **done.which.query())
    except Invalid:
        listed = visit.url("/dead-letters")
    return visit.page(
        "parts/batch.html" if visit.is_fragment else "batch.html",
        here_is="dead",
        batch=done,
        participle="replayed" if done.verb == "replay" else "discarded",
        filter=done.which.query(),
        listed=listed,
        action=visit.url(f"/dead-letters/batches/{part(visit.named('name'))}"),
        going=not done.ended and not done.stopped and visit.may_write,
    )
