"""How pages write instants and spans: in the visitor's time zone, with UTC at hand."""

from datetime import UTC, date, datetime, timedelta

from markupsafe import Markup

from duly.rules.zones import to_wall
from duly.values.durations import format_duration
from duly.values.instants import write_instant

SHORT_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
"""Units of a span as pages write it: seconds in each, and its sign."""


class Times:
    """Writes instants for one visitor, at one moment."""

    def __init__(self, zone: str, now: datetime) -> None:
        self.zone, self.now = zone, now

    def local(self, instant: datetime) -> datetime:
        """The local reading of an instant, without a zone."""
        return to_wall(instant, self.zone)

    def today(self) -> date:
        return self.local(self.now).date()

    def at(self, instant: datetime | None, *, seconds: bool = True) -> Markup:
        """An instant, such as ``today 09:00:00`` or ``Tue 17 Nov 09:00:00``; UTC is its title."""
        return self._marked(instant, "at", lambda: self.words(instant, seconds=seconds) if instant else "")

    def near(self, instant: datetime | None) -> Markup:
        """An instant by its distance, such as ``in 5 min`` or ``3 h ago``. A script counts on while it is near."""
        return self._marked(instant, "near", lambda: self.distance(instant) if instant else "")

    def words(self, instant: datetime, *, seconds: bool = True) -> str:
        local = self.local(instant)
        clock = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
        days = (local.date() - self.today()).days
        if days in _NEAR_DAYS:
            return f"{_NEAR_DAYS[days]} {clock}"
        year = "" if local.year == self.local(self.now).year else f" {local.year}"
        return f"{local:%a} {local.day} {local:%b}{year} {clock}"

    def distance(self, instant: datetime) -> str:
        span = instant - self.now
        if abs(span) < timedelta(seconds=1):
            return "now"
        return f"in {short(span)}" if span > timedelta() else f"{short(-span)} ago"

    def _marked(self, instant: datetime | None, kind: str, words: object) -> Markup:
        if instant is None:
            return Markup('<span class="none">–</span>')
        assert callable(words)
        utc = write_instant(instant.astimezone(UTC))
        title = f"{utc} · {self.words(instant)} {self.zone}"
        return Markup('<time datetime="{}" data-kind="{}" title="{}">{}</time>').format(utc, kind, title, words())


_NEAR_DAYS = {-1: "yesterday", 0: "today", 1: "tomorrow"}


def short(span: timedelta | float) -> str:
    """A span in its two largest units, such as ``1 h 5 min``; below ten seconds, with a digit after the point."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    left, parts = round(seconds), list[str]()
    for unit, sign in SHORT_SPANS:
        many, left = divmod(left, unit)
        if many or parts:
            parts.append(f"{many} {sign}" if many else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)


def exact(span: timedelta) -> str:
    """A span as commands take it, such as ``1h30m``."""
    return format_duration(span)
