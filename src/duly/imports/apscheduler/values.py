"""Instants, spans and time zones in the tree of a pickle."""

from datetime import UTC, datetime, timedelta
from datetime import timezone as fixed_offset
from typing import Any, NamedTuple

from duly.imports.apscheduler.pickles import Global, Made
from duly.imports.found import Unfit
from duly.imports.zones import zone_name
from duly.rules.recurrence import Dst, OnceLocal
from duly.rules.timetable import LONG_AGO

DATETIME_BYTES = 10
"""Bytes of a pickled datetime."""

FOLD = 0x80
"""The bit of the month's byte that marks the second of two equal local times."""


class Call(NamedTuple):
    """An object of the tree: what makes it, with which arguments, and the state that it is given."""

    name: str
    args: tuple[Any, ...]
    state: Any


def call_of(node: Any, what: str) -> Call:
    """The call that makes an object; raises Unfit for a plain value and for makers that are no names."""
    if not isinstance(node, Made) or not isinstance(node.args, tuple):
        raise Unfit(f"{what} is {told(node)}")
    maker, args = node.maker, node.args
    if isinstance(maker, Global):
        if maker.full_name in ("copyreg._reconstructor", "copy_reg._reconstructor") and len(args) == 3:
            base = args[1]
            if isinstance(args[0], Global) and isinstance(base, Global) and base.name == "object" and args[2] is None:
                return Call(args[0].full_name, (), node.state)
        if maker.full_name in ("copyreg.__newobj__", "copy_reg.__newobj__") and args and isinstance(args[0], Global):
            return Call(args[0].full_name, args[1:], node.state)
        return Call(maker.full_name, args, node.state)
    if isinstance(maker, Made) and (method := _method(maker)) is not None:
        return Call(method, args, node.state)
    raise Unfit(f"{what} is {node.told}")


def _method(maker: Made) -> str | None:
    """The name of a method that is looked up by getattr, which is how a zone is pickled."""
    if maker.full_name in ("builtins.getattr", "__builtin__.getattr") and maker.state is None:
        match maker.args:
            case (Global() as owner, str() as name):
                return f"{owner.full_name}.{name}"
    return None


def told(node: Any) -> str:
    return str(getattr(node, "told", None) or f"of type {type(node).__name__}")


def moment(node: Any, what: str) -> datetime | None:
    """The instant of a pickled datetime; None for None."""
    if node is None:
        return None
    call = call_of(node, what)
    if call.name != "datetime.datetime" or call.state is not None or not 1 <= len(call.args) <= 2:
        raise Unfit(f"{what} is made by {call.name:.100}, not a datetime")
    wall, fold = _wall(_bytes(call.args[0], what), what)
    if len(call.args) == 1:
        raise Unfit(f"{what} has no time zone")
    return _instant(wall, fold, call.args[1], what)


def _bytes(node: Any, what: str) -> bytes:
    if isinstance(node, Made):  # as protocols 0 to 2 write bytes
        call = call_of(node, what)
        if call.name == "_codecs.encode" and len(call.args) == 2 and call.args[1] == "latin1":
            node = str(call.args[0]).encode("latin1", "replace")
    if isinstance(node, str):
        node = node.encode("latin1", "replace")
    if not isinstance(node, bytes) or len(node) != DATETIME_BYTES:
        raise Unfit(f"{what} is no valid datetime")
    return node


def _wall(data: bytes, what: str) -> tuple[datetime, bool]:
    year, month, day, hour, minute, second = data[0] << 8 | data[1], data[2] & ~FOLD, *data[3:7]
    try:
        wall = datetime(year, month, day, hour, minute, second, int.from_bytes(data[7:10]))  # noqa: DTZ001 - on the wall
    except ValueError as error:
        raise Unfit(f"{what} is no valid datetime: {error}") from None
    return wall, bool(data[2] & FOLD)


def _instant(wall: datetime, fold: bool, zone: Any, what: str) -> datetime:
    if (offset := _offset(zone, what)) is not None:
        try:
            return wall.replace(tzinfo=UTC) - offset
        except OverflowError:
            raise Unfit(f"{what} is out of range") from None
    whole = OnceLocal(
        wall.replace(microsecond=0),
        timezone=timezone(zone, what),
        dst=Dst(gap="shift", overlap="second" if fold else "first"),
    ).after(LONG_AGO)
    if whole is None:
        raise Unfit(f"{what} is out of range")
    return whole.at + timedelta(microseconds=wall.microsecond)


def span(node: Any, what: str) -> timedelta:
    call = call_of(node, what)
    if call.name != "datetime.timedelta" or call.state is not None or len(call.args) != 3:
        raise Unfit(f"{what} is made by {call.name:.100}, not a timedelta")
    if not all(type(part) is int for part in call.args):
        raise Unfit(f"{what} is no valid timedelta")
    try:
        return timedelta(*call.args)
    except OverflowError:
        raise Unfit(f"{what} is out of range") from None


def timezone(node: Any, what: str) -> str:
    """The IANA name of a pickled zone."""
    call = call_of(node, f"the time zone of {what}")
    if call.state is not None:
        raise Unfit(f"the time zone of {what} is {told(node)} with a state of its own")
    match call.name, call.args:
        case ("zoneinfo.ZoneInfo._unpickle", (str() as name, *_)) | ("zoneinfo.ZoneInfo", (str() as name,)):
            return zone_name(name)
        case ("pytz._p", (str() as name, *_)):
            return zone_name(name)
        case ("pytz._UTC", ()) | ("pytz.UTC", ()):
            return zone_name("UTC")
    if (offset := _offset(node, what)) is not None:
        return zone_name(fixed_offset(offset))
    raise Unfit(f"the time zone of {what} is made by {call.name:.100}, which is not read")


LONGEST_OFFSET = timedelta(days=1)


def _offset(node: Any, what: str) -> timedelta | None:
    """The offset that a zone object stands for by itself; None for a zone with changes of clocks. A zone of pytz has
    one object for each of its offsets."""
    call = call_of(node, f"the time zone of {what}")
    match call.name, call.args:
        case "datetime.timezone", (of, *_):
            offset = span(of, f"the time zone of {what}")
        case "pytz._FixedOffset", (int() as minutes,):
            offset = timedelta(minutes=max(-1440, min(minutes, 1440)))
        case "pytz._p", (str(), int() as seconds, *_):
            offset = timedelta(seconds=max(-86400, min(seconds, 86400)))
        case (("pytz._UTC" | "pytz.UTC"), ()):
            offset = timedelta()
        case _:
            return None
    if not -LONGEST_OFFSET < offset < LONGEST_OFFSET:
        raise Unfit(f"the time zone of {what} is a day or more from UTC")
    return offset
