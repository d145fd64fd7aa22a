"""Recurrence rules made for tests, and readings of the wall clock to and from times."""

from calendar import timegm
from collections.abc import Iterator
from datetime import UTC, datetime

from hypothesis import strategies as st

from duly.rules.rrule import Recurrence, bind, parse_recurrence
from duly.rules.rrule_text import FREQUENCIES, WEEKDAYS

FOREVER = timegm((9999, 1, 1, 0, 0, 0))
EVER = -FOREVER


def make_rule(text: str, start: str = "1997-09-02T09:00:00") -> Recurrence:
    return bind(parse_recurrence(text), datetime.fromisoformat(start))


def reading(moment: str | datetime) -> int:
    return timegm((datetime.fromisoformat(moment) if isinstance(moment, str) else moment).timetuple())


def moment(reading: int) -> datetime:
    return datetime.fromtimestamp(reading, UTC).replace(tzinfo=None)


def all_of(rule: Recurrence, low: int | None = None) -> Iterator[int]:
    found = rule.first(reading(rule.start) if low is None else low)
    while found is not None:
        yield found
        found = rule.first(found + 1)


# -- any rule


def lists(values: st.SearchStrategy[int | str]) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=5).map(lambda chosen: ",".join(map(str, chosen)))


def signed(most: int) -> st.SearchStrategy[int]:
    return st.integers(1, most) | st.integers(-most, -1)


moments = st.datetimes(datetime.fromisoformat("1000-01-01"), datetime.fromisoformat("9999-12-31")).map(
    lambda moment: f"{moment:%Y%m%dT%H%M%S}"
)
PART_VALUES = {
    "INTERVAL": (st.integers(1, 10) | st.integers(1, 10_000)).map(str),
    "COUNT": (st.integers(1, 10) | st.integers(1, 100_000)).map(str),
    "UNTIL": moments | moments.map("{}Z".format) | moments.map(lambda moment: moment[:8]),
    "BYMONTH": lists(st.integers(1, 12)),
    "BYWEEKNO": lists(signed(53)),
    "BYYEARDAY": lists(signed(366)),
    "BYMONTHDAY": lists(signed(31)),
    "BYDAY": lists(st.sampled_from(WEEKDAYS) | st.builds("{}{}".format, signed(53), st.sampled_from(WEEKDAYS))),
    "BYHOUR": lists(st.integers(0, 23)),
    "BYMINUTE": lists(st.integers(0, 59)),
    "BYSECOND": lists(st.integers(0, 59)),
    "BYSETPOS": lists(signed(366)),
    "WKST": st.sampled_from(WEEKDAYS),
}


@st.composite
def rule_texts(draw: st.DrawFn) -> str:
    """Parts that are each allowed, though perhaps not together."""
    names = draw(st.lists(st.sampled_from(list(PART_VALUES)), unique=True, max_size=6))
    parts = [f"FREQ={draw(st.sampled_from(FREQUENCIES))}", *(f"{name}={draw(PART_VALUES[name])}" for name in names)]
    return ";".join(draw(st.permutations(parts)))
