"""Imports many users: rows are checked one by one, and stored some thousand in each transaction. Memory does not grow
with their number."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import msgspec

from duly.decide.calendars.calendar import concerned
from duly.decide.calendars.users import changed_user, changes_of, new_user
from duly.decide.checks import name_problems
from duly.engine.destinations.target_references import Key, key_of, missing
from duly.engine.series.put_users import Calendars, ChangedUser, change_users, first_heads, missing_problems
from duly.errors import Conflict, Invalid, Misuse, Problem
from duly.ids import new_ids
from duly.ports import UserStore
from duly.records.event import NewEvent, user_of
from duly.records.results import Imported, RefusedRow, StoredRow
from duly.records.user import User

ROWS_PER_TRANSACTION = 2000
"""Rows that are checked and stored together."""

ROWS_PER_SLICE = 50
"""Rows that are checked before other tasks of the event loop get their turn."""

MOST_TRIES = 5
"""Attempts to store a chunk, while others add or delete users with the same keys."""

MOST_REMEMBERED = 1000
"""Refused rows that the result of an import lists; all of them are counted."""

MOST_RECENT = 20_000
"""Users that a dry run keeps at most; of earlier users it only knows that they would exist."""


class ImportLine(NamedTuple):
    """A row of an import: its number, and its fields or the problem that made them unreadable."""

    number: int
    fields: Mapping[str, Any] | Problem


Row = Mapping[str, Any] | ImportLine
Lines = Iterable[Row] | AsyncIterable[Row]


def _nobody(_: Any) -> None:
    """Ignores reports."""


class ImportObserver(NamedTuple):
    """Callbacks of an import: for each bad row, for the progress after each transaction, and for each good row once it
    is stored."""

    refused: Callable[[RefusedRow], None] = _nobody
    progress: Callable[[Imported], None] = _nobody
    stored: Callable[[StoredRow], None] = _nobody


async def import_users(
    store: UserStore, rows: Lines, tenant: str, how: Calendars, by: str, telling: ImportObserver
) -> Imported:
    """Imports rows. While one chunk is being stored, the next one is read and checked."""
    work = _Import(store, tenant, how, by, telling)
    under_way: asyncio.Task[None] | None = None
    before: set[str] = set()
    try:
        async for chunk in _chunks(rows):
            keys = {keyed.key for keyed in chunk if keyed.key is not None}
            if under_way is not None and not before.isdisjoint(keys):
                await under_way  # these rows change users who are not stored yet
            checked = await work.check(chunk)
            if under_way is not None:
                await under_way
            under_way, before = asyncio.create_task(work.store(checked)), keys
        if under_way is not None:
            await under_way
    finally:
        if under_way is not None:
            under_way.cancel()
            # The task must not go on in a store that is closed; and if it failed too, the first error is the one to
            # raise.
            await asyncio.gather(under_way, return_exceptions=True)
    return work.done


async def rehearse(
    store: UserStore | None, rows: Lines, tenant: str, how: Calendars, telling: ImportObserver
) -> Imported:
    """The result that an import would have, without storing anything; without a store, that of an import into an empty
    one."""
    work = _Rehearsal(store, tenant, how, telling)
    async for chunk in _chunks(rows):
        await work.store(await work.check(chunk))
    return work.done


class _Keyed(NamedTuple):
    """A row with its key. The key is None if it is missing or invalid; an invalid key is reported as a problem of the
    row."""

    line: ImportLine
    key: str | None


class _Checked(NamedTuple):
    """A chunk of rows that is ready to be stored."""

    rows: Sequence[_Keyed]
    users: list[User]
    heads: list[NewEvent]
    added: dict[str, int]  # row numbers of the new users, by id
    changes: dict[str, _Keyed]  # rows that change existing users, by the users' ids
    unchanged: dict[str, int]
    refused: list[RefusedRow]
    nowhere: Counter[str]  # types of events that have nowhere to go: how many new users have them


class _Import:
    """An import under way."""

    def __init__(self, store: UserStore, tenant: str, how: Calendars, by: str, telling: ImportObserver) -> None:
        self._store, self._tenant, self._how, self._by, self._telling = store, tenant, how, by, telling
        self.done = Imported()

    async def check(self, rows: Sequence[_Keyed]) -> _Checked:
        now, how = await self._now(), await self._as_set()
        keys = sorted({keyed.key for keyed in rows if keyed.key is not None})
        known = await self._known(keys) if keys else {}
        users: list[User] = []
        heads: list[NewEvent] = []
        added: dict[str, int] = {}
        changes: dict[str, _Keyed] = {}
        unchanged: dict[str, int] = {}
        refused: list[RefusedRow] = []
        for count, (keyed, id) in enumerate(zip(rows, new_ids(len(rows)), strict=True)):
            if count % ROWS_PER_SLICE == 0:
                await asyncio.sleep(0)
            try:
                fields = _fields(keyed.line)
                if keyed.key is None or (there := known.get(keyed.key)) is None:
                    user = new_user(fields, id, self._tenant, self._how.channels, now, self._how.at)
                    heads += first_heads(user, how, now)
                    users.append(user)
                    added[id] = keyed.line.number
                elif changes_of(there, changed_user(there, fields, self._how.channels, now)):
                    changes[there.id] = keyed
                else:
                    unchanged[there.id] = keyed.line.number
            except Invalid as error:
                refused.append(RefusedRow(keyed.line.number, error.problems))
        if gone := await self._missing(heads):
            without = [head for head in heads if key_of(head) in gone]
            new = {user.id: user for user in users}
            for id in {user_of(head.series) or "" for head in without}:
                problems = missing_problems(new[id], [head for head in without if user_of(head.series) == id], gone)
                refused.append(RefusedRow(added.pop(id), problems))
            users = [user for user in users if user.id in added]
            heads = [head for head in heads if user_of(head.series) in added]
        users.sort(key=lambda user: user.key or "")  # the same lock order in every import
        nowhere = Counter(type for head in heads for type in how.nowhere([head]))
        return _Checked(rows, users, heads, added, changes, unchanged, refused, nowhere)

    async def _as_set(self) -> Calendars:
        return await self._how.as_set(self._store, [self._tenant])

    async def _now(self) -> datetime:
        return await self._store.now()

    async def _missing(self, heads: Sequence[NewEvent]) -> set[Key]:
        return await missing(self._store, map(key_of, heads))

    async def _known(self, keys: Sequence[str]) -> Mapping[str, User]:
        return {user.key or "": user for user in await self._store.users_by_keys(self._tenant, keys)}

    async def store(self, checked: _Checked) -> None:
        left, refused = checked, list[RefusedRow]()
        for _ in range(MOST_TRIES):
            try:
                told = await self._write(left)
            except Conflict:  # a user with one of these keys was added since the check
                left = await self.check(left.rows)
                continue
            refused += _all_refused(left, told)
            self._count(left, told)
            gone = [keyed for id, keyed in left.changes.items() if id not in told]
            if not gone:
                break
            left = await self.check(gone)  # users deleted since the check, to be added again
        else:
            raise Conflict("users with these keys are being changed by other requests at the moment: import them again")
        self._tell(checked.rows[-1].line.number, sorted(refused))

    def _count(self, stored: _Checked, told: Mapping[str, ChangedUser | Invalid]) -> None:
        found = {id: one.fields for id, one in told.items() if isinstance(one, ChangedUser)}
        changed, done = sum(map(bool, found.values())), self.done
        self.done = msgspec.structs.replace(
            done,
            added=done.added + len(stored.users),
            changed=done.changed + changed,
            unchanged=done.unchanged + len(stored.unchanged) + len(found) - changed,
            nowhere=dict(Counter(done.nowhere) + stored.nowhere),
        )
        for id, number in stored.added.items():
            self._telling.stored(StoredRow(number, id, "added"))
        for id, number in stored.unchanged.items():
            self._telling.stored(StoredRow(number, id, "unchanged"))
        for id, fields in found.items():
            self._telling.stored(StoredRow(stored.changes[id].line.number, id, "changed" if fields else "unchanged"))

    def _tell(self, last: int, refused: Sequence[RefusedRow]) -> None:
        for bad in refused:
            self._telling.refused(bad)
        done = self.done
        problems = (*done.problems, *refused)[:MOST_REMEMBERED]
        self.done = msgspec.structs.replace(done, refused=done.refused + len(refused), last=last, problems=problems)
        self._telling.progress(self.done)

    async def _write(self, checked: _Checked) -> dict[str, ChangedUser | Invalid]:
        async with self._store.begin() as tx:
            users, changes = checked.users, checked.changes
            if users and len(await tx.add_users(users, checked.heads, self._by)) < len(users):
                raise Conflict("another user got this key meanwhile")
            tx.tell_created(checked.heads)
            if not changes:
                return {}
            return await change_users(tx, {id: _fields(row.line) for id, row in changes.items()}, self._how, self._by)


class _Rehearsal(_Import):
    """A dry run: an import that stores nothing."""

    def __init__(self, store: UserStore | None, tenant: str, how: Calendars, telling: ImportObserver) -> None:
        super().__init__(store, tenant, how, "", telling)  # type: ignore[arg-type]
        self._there = store
        self._at = datetime.now(UTC)
        self._recent: dict[str, User] = {}  # users whom earlier rows would have added or changed
        self._before: set[int] = set()  # hashes of the keys of users who were dropped from _recent

    async def _now(self) -> datetime:
        return self._at if self._there is None else await self._there.now()

    async def _as_set(self) -> Calendars:
        return self._how if self._there is None else await super()._as_set()

    async def _missing(self, heads: Sequence[NewEvent]) -> set[Key]:
        return {key for key in map(key_of, heads) if key} if self._there is None else await super()._missing(heads)

    async def _known(self, keys: Sequence[str]) -> Mapping[str, User]:
        stored = {} if self._there is None else dict(await super()._known(keys))
        before = {key: _somebody(key, self._tenant) for key in keys if key not in stored and hash(key) in self._before}
        return before | stored | {key: self._recent[key] for key in keys if key in self._recent}

    async def store(self, checked: _Checked) -> None:
        now, how, told = await self._now(), await self._as_set(), dict[str, ChangedUser | Invalid]()
        known = await self._known([keyed.key for keyed in checked.changes.values() if keyed.key is not None])
        for id, keyed in checked.changes.items():
            try:
                old = known[keyed.key or ""]
                new = changed_user(old, _fields(keyed.line), self._how.channels, now)
                fields = changes_of(old, new)
                how.of(new, concerned(how.types, fields))
                told[id] = ChangedUser(new, fields)
            except Invalid as error:
                told[id] = error
        self._count(checked, told)
        self._tell(checked.rows[-1].line.number, sorted(_all_refused(checked, told)))
        self._remember([*checked.users, *(one.user for one in told.values() if isinstance(one, ChangedUser))])

    def _remember(self, users: Sequence[User]) -> None:
        for user in users:
            if user.key is not None:
                self._recent[user.key] = user
        while len(self._recent) > MOST_RECENT:
            key = next(iter(self._recent))
            self._before.add(hash(key))
            del self._recent[key]


def _somebody(key: str, tenant: str) -> User:
    """A placeholder for a user of whom only the key is known, and that the import would have stored them."""
    born = date(2000, 1, 1)
    return User(id=key, tenant=tenant, first_name="x", last_name="x", date_of_birth=born, timezone="UTC", key=key)


def _all_refused(checked: _Checked, told: Mapping[str, ChangedUser | Invalid]) -> list[RefusedRow]:
    changes = [(checked.changes[id].line.number, bad) for id, bad in told.items() if isinstance(bad, Invalid)]
    return [*checked.refused, *(RefusedRow(number, bad.problems) for number, bad in changes)]


def _fields(line: ImportLine) -> Mapping[str, Any]:
    if isinstance(line.fields, Problem):
        raise Invalid([line.fields])
    return line.fields


async def _chunks(rows: Lines) -> AsyncIterator[list[_Keyed]]:
    """The rows in chunks. A key that appears a second time starts the next chunk, because its row changes the user that
    the first row adds."""
    chunk: list[_Keyed] = []
    keys: set[str] = set()
    async for line in numbered(rows):
        written = None if isinstance(line.fields, Problem) else line.fields.get("key")
        key = None if written is None or name_problems("key", written) else written
        if len(chunk) >= ROWS_PER_TRANSACTION or key in keys:
            yield chunk
            chunk, keys = [], set()
        chunk.append(_Keyed(line, key))
        if key is not None:
            keys.add(key)
    if chunk:
        yield chunk


async def numbered(rows: Lines) -> AsyncIterator[ImportLine]:
    number = 0
    if not isinstance(rows, AsyncIterable | Iterable) or isinstance(rows, str | Mapping):
        raise Misuse(f"expected a list of rows, each an object with a user's fields, not {type(rows).__name__}")
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            number += 1
            yield _line(row, number)
    else:
        for row in rows:
            number += 1
            yield _line(row, number)


def _line(row: Any, number: int) -> ImportLine:
    if isinstance(row, ImportLine):
        return row
    if not isinstance(row, Mapping):
        return ImportLine(number, Problem("", f"expected an object with a user's fields, not {type(row).__name__}"))
    return ImportLine(number, row)
