"""What a tenant has set for an event type: its texts by language, and the target of users without one of their own."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypedDict

import msgspec

from duly.records.marks import Internal, LookedUp, told
from duly.records.wire.forms import JsonForm, JsonPart

NO_TEXTS = "{}"


class TypeChanges(TypedDict, total=False):
    """The settings of an event type that can be changed; None removes a value."""

    texts: Mapping[str, str | None]
    target: dict[str, Any] | None


class TypeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant has set for an event type."""

    tenant: str
    type: str
    default_text: Annotated[
        LookedUp[str | None], told("Text of the type itself, used where none is set; null if texts cannot be set")
    ] = None
    texts_json: str = NO_TEXTS
    target_json: str | None = None
    via: Internal[str | None] = None  # how its target was put: see decide/targets/origin.py
    follow_at: datetime | None = None  # when the events of users go on to follow the last change; None: they do
    follow_after: Internal[str | None] = None  # the last user whose events have followed it
    recheck: Internal[bool] = False  # whether these are the users who were being added while it was made
    created: datetime | None = None
    updated: datetime | None = None
    warnings: Annotated[LookedUp[tuple[str, ...]], told("Warnings about valid but surprising settings")] = ()

    @property
    def texts(self) -> dict[str, str]:
        """The texts by language; ``default`` is the one for all other languages."""
        return msgspec.json.decode(self.texts_json)  # type: ignore[no-any-return]

    @property
    def target(self) -> dict[str, Any] | None:
        return None if self.target_json is None else msgspec.json.decode(self.target_json)

    @property
    def following(self) -> bool:
        """Whether there may be waiting events that do not follow the last change yet. Workers change them."""
        return self.follow_at is not None and not self.recheck


def _following_read(seen: Any) -> dict[str, datetime | None]:
    return {"follow_at": seen.updated_at if seen.following else None}


FOLLOWING = JsonPart(
    {"following": Annotated[bool, told("Whether waiting events are still being changed in the background")]},
    lambda settings: {"following": settings.following},
    _following_read,
)
TEXTS = JsonPart(
    {"texts": Annotated[dict[str, str], told("Texts by language; `default` is for all other languages")]},
    lambda settings: {"texts": settings.texts},
    lambda seen: {"texts_json": msgspec.json.encode(seen.texts, order="deterministic").decode()},
)
TYPE_SETTINGS_JSON = JsonForm(TypeSettings, parts={"follow_at": FOLLOWING, "texts_json": TEXTS})
