"""The retry policy of a record as JSON: always written in full, and stored only if it is not the default."""

from functools import lru_cache
from typing import Annotated, Any

import msgspec

from duly.decide.retry import parse_retry, read_retry, retry_text
from duly.records.wire.forms import AN_OBJECT, JsonPart


def _write(record: Any) -> dict[str, Any]:
    return {"retry": _told(record.retry_json).copy()}


@lru_cache(maxsize=256)
def _told(stored: str | None) -> dict[str, Any]:
    return read_retry(stored).to_json()


def _read(seen: Any) -> dict[str, Any]:
    return {"retry_json": _stored(bytes(seen.retry))}


@lru_cache(maxsize=256)
def _stored(written: bytes) -> str | None:
    return retry_text(parse_retry(msgspec.json.decode(written)))


RETRY = JsonPart({"retry": Annotated[msgspec.Raw, AN_OBJECT]}, _write, _read)
