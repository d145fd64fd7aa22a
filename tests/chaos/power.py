"""A disk on which the power can be cut: it keeps what was synced, and of the rest whatever luck decides.

    disk = Disk()
    disk.register("power")                       # for SqliteStore(path, vfs="power")
    …                                            # write through it; the log tells what was written and synced
    image = disk.after_a_cut(position, luck)     # what would be there, had the power been cut at that point of the log

What was written to a file and not synced is lost, kept, torn (some of its sectors are there) or garbled (some have
other bytes than were there or should be). A write leaves alone what stands beside it in a sector: SQLite relies on that
on Unix ("powersafe overwrite"). What was created and deleted in the folder and not synced has happened up to some
point. As in SQLite's own code for Unix, the folder is synced with the first sync of a new journal or log.
"""

from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import apsw

SECTOR = 512
"""Bytes that a disk writes at once."""

JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL
"""Those whose first sync also syncs the folder."""

Image = Mapping[str, bytes]


class Luck(Enum):
    """What becomes of that which was not synced."""

    NOTHING_STAYS = "nothing of it stays"
    ALL_STAYS = "all of it stays"
    MIXED = "each write is lost, kept, torn or garbled"


class Write(NamedTuple):
    file: int
    offset: int
    data: bytes


class Truncate(NamedTuple):
    file: int
    size: int


class Sync(NamedTuple):
    file: int


class Create(NamedTuple):
    name: str
    file: int


class Delete(NamedTuple):
    name: str


class SyncFolder(NamedTuple):
    pass


Act = Write | Truncate | Sync | Create | Delete | SyncFolder


class Disk:
    """One folder. Files are numbered, for a name may be deleted and given to another file."""

    def __init__(self, image: Image | None = None) -> None:
        self._before = dict(image or {})
        self.log: list[Act] = []
        self.names = {name: number for number, name in enumerate(self._before)}
        self.files = [bytearray(content) for content in self._before.values()]

    def register(self, name: str) -> "PowerVfs":
        return PowerVfs(name, self)

    def after_a_cut(self, position: int, luck: Random, kind: Luck) -> dict[str, bytes]:
        """What the disk has, had the power been cut when so many acts had been done."""
        files: dict[int, bytearray] = dict(enumerate(map(bytearray, self._before.values())))
        names = {name: number for number, name in enumerate(self._before)}
        written: dict[int, list[Write | Truncate]] = {}
        in_the_folder: list[Create | Delete] = []
        for act in self.log[:position]:
            match act:
                case Write() | Truncate():
                    written.setdefault(act.file, []).append(act)
                case Sync(file):
                    for one in written.pop(file, []):
                        _apply(files.setdefault(file, bytearray()), one)
                case Create() | Delete():
                    in_the_folder.append(act)
                case SyncFolder():
                    for change in in_the_folder:
                        _rename(names, change)
                    in_the_folder.clear()
        for file, acts in written.items():
            for one in acts:
                _apply_by_luck(files.setdefault(file, bytearray()), one, luck, kind)
        stays = {Luck.NOTHING_STAYS: 0, Luck.ALL_STAYS: len(in_the_folder)}
        for change in in_the_folder[: stays.get(kind, luck.randint(0, len(in_the_folder)))]:
            _rename(names, change)
        return {name: bytes(files.get(file, b"")) for name, file in names.items()}


def _rename(names: dict[str, int], change: Create | Delete) -> None:
    match change:
        case Create(name, file):
            names[name] = file
        case Delete(name):
            names.pop(name, None)


def _apply(content: bytearray, act: Write | Truncate) -> None:
    match act:
        case Write(_, offset, data):
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(data)] = data
        case Truncate(_, size):
            del content[size:]
            content.extend(bytes(size - len(content)))


def _apply_by_luck(content: bytearray, act: Write | Truncate, luck: Random, kind: Luck) -> None:
    if kind is Luck.NOTHING_STAYS:
        return None
    if kind is Luck.ALL_STAYS:
        return _apply(content, act)
    fate = luck.choices(("lost", "kept", "torn", "garbled"), (30, 40, 20, 10))[0]
    if fate == "lost":
        return None
    if fate == "kept" or isinstance(act, Truncate):
        return _apply(content, act)
    for start, piece in _sectors(act):
        if luck.random() < 0.5:
            _apply(content, Write(act.file, start, luck.randbytes(len(piece)) if fate == "garbled" else piece))
    return None


def _sectors(write: Write) -> list[tuple[int, bytes]]:
    """A write, cut where the disk's sectors begin."""
    end = write.offset + len(write.data)
    cuts = [write.offset, *range(write.offset - write.offset % SECTOR + SECTOR, end, SECTOR), end]
    return [(a, write.data[a - write.offset : b - write.offset]) for a, b in pairwise(cuts)]


class PowerVfs(apsw.VFS):
    def __init__(self, name: str, disk: Disk) -> None:
        super().__init__(name, base="")
        self._disk = disk

    def xFullPathname(self, name: str) -> str:
        return name

    def xAccess(self, pathname: str, flags: int) -> bool:
        return pathname in self._disk.names

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if self._disk.names.pop(filename, None) is None:
            raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE_NOENT)
        self._disk.log.append(Delete(filename))
        if syncdir:
            self._disk.log.append(SyncFolder())

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> Any:
        flags[1] = flags[0]
        if name is None:
            return Scratch()
        name = name.filename() if isinstance(name, apsw.URIFilename) else name
        disk, new = self._disk, name not in self._disk.names
        if new:
            disk.names[name] = len(disk.files)
            disk.files.append(bytearray())
            disk.log.append(Create(name, disk.names[name]))
        return PowerFile(disk, disk.names[name], syncs_folder=new and bool(flags[0] & JOURNALS))


class Scratch:
    """A file of SQLite's own that nobody needs after it."""

    def __init__(self) -> None:
        self.content = bytearray()

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self.content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        _apply(self.content, Write(0, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        _apply(self.content, Truncate(0, newsize))

    def xSync(self, flags: int) -> None:
        pass

    def xFileSize(self) -> int:
        return len(self.content)

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xLock(self, level: int) -> None:
        """Nobody else is there."""

    def xUnlock(self, level: int) -> None:
        pass

    def xCheckReservedLock(self) -> bool:
        return False

    def xClose(self) -> None:
        pass


class PowerFile(Scratch):
    def __init__(self, disk: Disk, number: int, *, syncs_folder: bool) -> None:
        self.content = disk.files[number]
        self._disk, self._number, self._syncs_folder = disk, number, syncs_folder

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._disk.log.append(Write(self._number, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._disk.log.append(Truncate(self._number, newsize))

    def xSync(self, flags: int) -> None:
        self._disk.log.append(Sync(self._number))
        if self._syncs_folder:
            self._disk.log.append(SyncFolder())
            self._syncs_folder = False
