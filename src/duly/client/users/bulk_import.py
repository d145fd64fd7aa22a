"""Imports many users, some thousand in each request. Memory does not grow with their number."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence

import msgspec

from duly.client.protocol.answers import problems_of
from duly.client.protocol.connection import LARGEST_BULK_BYTES, ServerConnection, place
from duly.decide.checks import write_json
from duly.errors import Problem
from duly.records.results import Imported, RefusedRow, StoredRow
from duly.records.wire.answers import UserResults
from duly.verbs.users.bulk_import import MOST_REMEMBERED, ImportLine, ImportObserver, Lines, numbered

USERS_PER_REQUEST = 2000
"""Users in one request; the server takes five times as many."""


IMPORTED = msgspec.json.Decoder(UserResults)
Chunk = Sequence[tuple[int, "str | Problem"]]
"""The numbers of rows, each with its user as JSON, or the problem that prevents that."""


async def import_users(connection: ServerConnection, rows: Lines, telling: ImportObserver) -> Imported:
    done = Imported()
    async for chunk in _chunks(rows):
        written = [(number, row) for number, row in chunk if isinstance(row, str)]
        refused = [RefusedRow(number, [row]) for number, row in chunk if isinstance(row, Problem)]
        if written:
            body = {"users": [msgspec.Raw(row.encode()) for _, row in written]}
            seen = await connection.ask("POST", place("users", "import"), body, reads=IMPORTED, once=True)
            for (number, _), result in zip(written, seen.results, strict=True):
                if result.id is None:
                    refused.append(RefusedRow(number, tuple(problems_of(result.errors))))
                else:
                    telling.stored(StoredRow(number, result.id, result.status))
            done = msgspec.structs.replace(
                done,
                added=done.added + seen.added,
                changed=done.changed + seen.changed,
                unchanged=done.unchanged + seen.unchanged,
                nowhere=dict(Counter(done.nowhere) + Counter(seen.nowhere)),
            )
        done = _told(done, chunk[-1][0], sorted(refused), telling)
    return done


def _told(done: Imported, last: int, refused: Sequence[RefusedRow], telling: ImportObserver) -> Imported:
    for bad in refused:
        telling.refused(bad)
    problems = (*done.problems, *refused)[:MOST_REMEMBERED]
    done = msgspec.structs.replace(done, refused=done.refused + len(refused), last=last, problems=problems)
    telling.progress(done)
    return done


async def _chunks(rows: Lines) -> AsyncIterator[Chunk]:
    chunk: list[tuple[int, str | Problem]] = []
    size = 0
    async for line in numbered(rows):
        row = _row(line)
        length = len(row.encode()) if isinstance(row, str) else 0
        if chunk and (len(chunk) >= USERS_PER_REQUEST or size + length > LARGEST_BULK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append((line.number, row))
        size += length
    if chunk:
        yield chunk


def _row(line: ImportLine) -> str | Problem:
    return line.fields if isinstance(line.fields, Problem) else write_json(dict(line.fields), "")
