"""Records as JSON: written, read, and described as JSON Schema, all from the record's own list of fields.

A field is written under its own name, with these rules: an instant ends in ``_at`` (``due`` is ``due_at``), a span of
time is written as ``1h30m``, a text of JSON loses its ``_json`` and is written as the value that it contains, and an
internal field is left out. Where these rules are not enough, a record's form has a part for the field; a value that no
field has is a computed part.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from duly.records.marks import Instant, Mark
from duly.values.durations import format_duration, parse_duration

R = TypeVar("R", bound=msgspec.Struct)

NULL = b"null"
ANYTHING = msgspec.Meta(description="Any JSON, at most 1 MB and 100 levels deep")
AN_OBJECT = msgspec.Meta(extra_json_schema={"type": "object"})
MAYBE_AN_OBJECT = msgspec.Meta(extra_json_schema={"type": ["object", "null"]})
CURSOR = Annotated[str | None, msgspec.Meta(description="Cursor of the next page; null on the last page")]

Told = Mapping[str, Any]


class OneField(NamedTuple):
    """One field of the record that is one field of the JSON; None is always null."""

    field: str
    name: str
    type: Any
    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None

    @property
    def types(self) -> Mapping[str, Any]:
        return {self.name: self.type}


class JsonPart(NamedTuple):
    """Several fields of the JSON: their types by name, how they are written, and which fields of the record are read
    from them. A computed part is not read back."""

    types: Mapping[str, Any]
    write: Callable[[Any], Told]
    read: Callable[[Any], Told] | None = None


class JsonForm(Generic[R]):
    """How a record is written as JSON and read back. *parts* replace the fields of the same name; *computed* parts are
    added."""

    def __init__(
        self,
        record: type[R],
        *,
        name: str = "",
        parts: Mapping[str, OneField | JsonPart] | None = None,
        computed: Sequence[JsonPart] = (),
    ) -> None:
        self.record = record
        self.name = name or record.__name__
        instead = parts or {}
        hints = get_type_hints(record, include_extras=True)
        own = [
            instead[field] if field in instead else plain_field(field, hints[field])
            for field in record.__struct_fields__
            if field in instead or Mark.INTERNAL not in getattr(hints[field], "__metadata__", ())
        ]
        self._parts: list[OneField | JsonPart] = [*own, *computed]
        self.types: dict[str, Any] = {}
        for part in self._parts:
            self.types |= part.types
        self.struct = _struct(self.name, self.types)
        self._decoder = msgspec.json.Decoder(self.struct)

    def write(self, record: R) -> dict[str, Any]:
        """The record as values that msgspec writes as JSON."""
        told: dict[str, Any] = {}
        for part in self._parts:
            if part.__class__ is OneField:
                field, name, _, write, _ = part
                value = getattr(record, field)
                told[name] = value if write is None or value is None else write(value)
            else:
                told.update(part.write(record))  # type: ignore[misc]
        return told

    def decode(self, written: bytes | str) -> R:
        """Reads the record from a JSON text; raises ValueError if it does not match."""
        return self.read(self._decoder.decode(written))

    def read(self, seen: Any) -> R:
        """The record, from a decoded struct of this form."""
        fields: dict[str, Any] = {}
        for part in self._parts:
            if part.__class__ is OneField:
                field, name, _, _, read = part
                value = getattr(seen, name)
                fields[field] = value if read is None else read(value)
            elif part.read is not None:
                fields.update(part.read(seen))
        return self.record(**fields)

    def page(self, name: str, items: str, **more: Any) -> "PageForm[R]":
        """The form of a page of a list of these records."""
        return PageForm(self, _struct(name, {items: list[self.struct], "next_cursor": CURSOR, **more}), items)  # type: ignore[name-defined]


class RecordPage(NamedTuple, Generic[R]):
    """A page of a list, as a server has returned it."""

    items: list[R]
    next_cursor: str | None
    told: Any  # the whole decoded page, with its other fields


class PageForm(Generic[R]):
    """How a page of a list is read: an object with the items under their name, and ``next_cursor``."""

    def __init__(self, form: JsonForm[R], struct: type[msgspec.Struct], items: str) -> None:
        self.struct = struct
        self._form, self._items = form, items
        self._decoder = msgspec.json.Decoder(struct)

    def decode(self, written: bytes | str) -> RecordPage[R]:
        told: Any = self._decoder.decode(written)
        return RecordPage([self._form.read(one) for one in getattr(told, self._items)], told.next_cursor, told)


def struct_with(name: str, first: type[msgspec.Struct], **more: Any) -> type[msgspec.Struct]:
    """The struct of a response that has all fields of another struct, and more. All fields are required."""
    return _struct(name, {field.encode_name: field.type for field in msgspec.structs.fields(first)} | more)


def plain_field(field: str, hint: Any) -> OneField:
    """The form of one field of a record, by the general rules."""
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    metas = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, msgspec.Meta)]
    empty = NoneType in get_args(bare)
    if field.endswith("_json"):
        metas = metas or ([MAYBE_AN_OBJECT] if empty else [ANYTHING])
        read = _maybe_text if empty else _text
        return OneField(field, field.removesuffix("_json"), _described(msgspec.Raw, metas), as_raw, read)
    if bare in (datetime, datetime | None):
        name = field if field == "at" or field.endswith("_at") else f"{field}_at"
        return OneField(field, name, Instant | None if empty else Instant, as_utc)
    if bare in (timedelta, timedelta | None):
        return OneField(field, field, str | None if empty else str, format_duration, _maybe_span)
    return OneField(field, field, _described(bare, metas))


def computed(type: Any, name: str, compute: Callable[[Any], Any]) -> JsonPart:
    """A value in the JSON that no field of the record has."""
    return JsonPart({name: type}, lambda record: {name: compute(record)})


def schemas(structs: Sequence[Any], ref_template: str) -> dict[str, Any]:
    """The JSON Schemas of these structs and of all structs that they refer to, by name."""
    found = msgspec.json.schema_components(structs, ref_template=ref_template)[1]
    for schema in found.values():
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
    return found


def as_raw(text: str) -> msgspec.Raw:
    """A text of JSON, to be written as the value that it contains."""
    return msgspec.Raw(text.encode())


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode()


def _maybe_text(raw: msgspec.Raw) -> str | None:
    text = bytes(raw)
    return None if text == NULL else text.decode()


def _maybe_span(written: str | None) -> timedelta | None:
    return None if written is None else parse_duration(written)


def as_utc(instant: datetime) -> datetime:
    """Drivers of a caller's own connection may return instants in the time zone of their session."""
    return instant if instant.tzinfo is UTC else instant.astimezone(UTC)


def _described(type: Any, metas: Sequence[msgspec.Meta]) -> Any:
    for meta in metas:
        type = Annotated[type, meta]
    return type


def _struct(name: str, types: Mapping[str, Any]) -> type[msgspec.Struct]:
    """A struct in which all fields are required, except those that may be unset."""
    fields: list[Any] = []
    for field, hint in types.items():
        fields.append((field, hint, msgspec.UNSET) if _may_be_unset(hint) else (field, hint))
    return msgspec.defstruct(name, fields, kw_only=True, frozen=True)


def _may_be_unset(hint: Any) -> bool:
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return get_origin(bare) in (Union, UnionType) and msgspec.UnsetType in get_args(bare)
