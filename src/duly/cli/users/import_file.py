"""``duly users import``: imports a file of users of any size."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

from cyclopts import App, Parameter
from cyclopts.validators import Number

from duly.cli.exit_codes import DONE, FAILED, INTERRUPTED
from duly.cli.invocation import Hidden, missing_file, person
from duly.cli.names import DEFAULT_TENANT
from duly.cli.output import counted, note, tell_error
from duly.cli.progress import stopped_by_signals
from duly.cli.users.files import LineCount, format_of, read_users
from duly.cli.users.import_views import ImportReport
from duly.cli.users.read_ahead import ReadAhead
from duly.decide.checks import name_problems
from duly.duly import Duly
from duly.errors import Conflict, DulyError, Invalid, Misuse, NotFound, StoreError
from duly.records.results import Imported
from duly.verbs.users.bulk_import import ImportObserver, rehearse

STDIN = "-"


def register(app: App) -> None:
    app.command(import_, name="import", sort_key=6)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ImportFileOptions:
    """Options for how a file is read, and what is reported."""

    format: Annotated[str | None, Parameter(help="csv or jsonl (default: by the file's name)", metavar="FORMAT")] = None
    tenant: Annotated[str, Parameter(help="Tenant of the users (default: default)")] = DEFAULT_TENANT
    from_line: Annotated[
        int, Parameter(help="First line to import; earlier lines are ignored", metavar="N",
                       validator=Number(gte=1))
    ] = 1  # fmt: skip
    errors: Annotated[
        Path | None,
        Parameter(
            help="Write refused lines to this file as JSON lines; with --from-line above 1, append to it",
            metavar="FILE",
        ),
    ] = None
    dry_run: Annotated[bool, Parameter(help="Report what would be refused, and store nothing")] = False


USUAL = ImportFileOptions()


def import_(
    file: Annotated[str, Parameter(help="CSV or JSON lines; - is standard input")],
    /,
    *,
    how: ImportFileOptions = USUAL,
    invocation: Hidden,
) -> int:
    """Import users from CSV with a header line, or from JSON lines.

    Columns are first_name, last_name, date_of_birth and timezone; optionally key, anniversary, delivery_time, leap,
    target and attributes (both as JSON), and attributes.NAME for an attribute that is text. Empty cells are ignored.
    Invalid lines are reported with all their problems, the others are imported, and the exit code is 1.

    A row with the key of an existing user changes the fields and attributes that it gives. So a file with keys can
    be imported again at any time. --app names the app with your own event types.

    duly users import people.csv --errors refused.jsonl
    """
    if problems := name_problems("tenant", how.tenant):
        raise Invalid(problems)
    format = format_of(file, how.format)
    with _opened(file) as stream:
        _refuse_same(stream, how.errors)
        length = LineCount()
        reading = ReadAhead(read_users(stream, format, from_line=how.from_line, length=length))
        duly = invocation.duly_with_event_types()
        with ImportReport(how.errors, going_on=how.from_line > 1, json=invocation.json) as report:
            failure = _run(reading, how, report, duly)
            complete = failure is None and not reading.stopped
            report.summary(dry_run=how.dry_run, complete=complete)
    if failure is not None:
        tell_error(failure, json=invocation.json)
    if not complete and not invocation.json:
        note(_where(report.done, how, interrupted=reading.stopped))
    if length.lines is not None and length.lines < how.from_line and not invocation.json:
        note(f"there is nothing from line {how.from_line:,} on: the file has only {counted(length.lines, 'line')}")
    if reading.stopped:
        return INTERRUPTED
    return DONE if complete and not report.done.refused else FAILED


def _run(reading: ReadAhead, how: ImportFileOptions, report: ImportReport, duly: Duly) -> DulyError | None:
    """Runs the import; returns the error that ended it early, if there was one."""
    try:
        failure = asyncio.run(_import(reading, how, report, duly))
    except KeyboardInterrupt:  # the second Ctrl-C; the first one is a signal to stop reading
        reading.stop()
        return None
    if failure is None and reading.error is not None:
        return NotFound(f"cannot read the file after line {report.done.last}: {reading.error.strerror}")
    return failure


async def _import(reading: ReadAhead, how: ImportFileOptions, report: ImportReport, duly: Duly) -> DulyError | None:
    """Imports the lines; returns the error of the store, if there was one. Users stored before it are kept."""
    telling = ImportObserver(report.refused, report.progress)
    with stopped_by_signals(reading.stop):
        if how.dry_run:
            return await _rehearse(reading, how, telling, duly)
        async with duly:
            try:
                await duly.users.import_(reading.rows(), tenant=how.tenant, by=person(), telling=telling)
            except (StoreError, Conflict) as error:
                return error
    return None


async def _rehearse(
    reading: ReadAhead, how: ImportFileOptions, telling: ImportObserver, duly: Duly
) -> DulyError | None:
    """Makes a dry run against the existing users. A database that does not exist has none, and is not created."""
    looking = Duly(settings=duly.settings, migrate=False)
    try:
        if missing_file(looking) is not None:
            await rehearse(None, reading.rows(), how.tenant, duly.calendars, telling)
            return None
        async with looking:
            await looking.users.rehearse_import(reading.rows(), tenant=how.tenant, telling=telling, how=duly.calendars)
    except StoreError as error:
        return error
    return None


@contextlib.contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    """The opened file. Standard input gets a buffer of its own: that of ``sys`` cannot be closed while a thread waits
    for it."""
    try:
        stream = open(sys.stdin.fileno(), "rb", closefd=False) if file == STDIN else Path(file).open("rb")  # noqa: SIM115 - closed by the caller; a descriptor has no path
    except OSError as error:
        raise NotFound(f"cannot read {file}: {error.strerror}") from None
    if file == STDIN:
        yield stream
    else:
        with stream:
            yield stream


def _refuse_same(stream: BinaryIO, errors: Path | None) -> None:
    """Refuses an error file that is the input file: opening it for writing would empty the input."""
    if errors is None or not errors.is_file():
        return
    if os.path.samestat(os.fstat(stream.fileno()), errors.stat()):
        raise Misuse(f"--errors {errors} is the file to import: give another file for the refused lines")


def _where(done: Imported, how: ImportFileOptions, *, interrupted: bool) -> str:
    """How far the import came, and the command to continue it."""
    began = "interrupted: " if interrupted else ""
    if how.dry_run:
        return f"{began}checked up to line {done.last}"
    if not done.last:
        return f"{began}nothing was stored"
    return f"{began}everything up to line {done.last} is stored or refused; continue with --from-line {done.last + 1}"
