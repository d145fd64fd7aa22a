"""Acts over HTTP on everything that a filter matches: a request for each portion, until there is no next cursor."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from duly.client.protocol.connection import ServerConnection
from duly.records.finding.acts import ActedOn
from duly.records.wire.answers import ACTED_ON

PORTION = msgspec.json.Decoder(ACTED_ON)


async def act_on_all(
    connection: ServerConnection,
    path: str,
    body: Mapping[str, Any],
    *,
    dry_run: bool,
    tell: Callable[[ActedOn], object] | None,
) -> ActedOn:
    """The result of the act; after each request, *tell* is called with the result so far."""
    done, cursor, asked = ActedOn(), None, f"{path}?dry_run=true" if dry_run else path
    while True:
        more = dict(body) if cursor is None else {**body, "cursor": cursor}
        seen: Any = await connection.ask("POST", asked, more, reads=PORTION, once=True)
        if dry_run:
            return ActedOn(dry_run=True, would=seen.would, kinds=seen.kinds)
        done = done.plus(seen.done, seen.left_alone)
        if tell is not None and (seen.done or seen.left_alone):
            tell(done)
        if (cursor := seen.next_cursor) is None:
            return done
