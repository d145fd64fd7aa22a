"""Settings of every command: the database, the app, and output for people or for programs."""

import getpass
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from duly.cli.apps import load_app
from duly.cli.output import note, readable
from duly.cli.processes.capabilities import INSTALL
from duly.config import read_settings, without_login
from duly.duly import Duly
from duly.errors import BadSetting, Misuse, NotFound
from duly.signals import FileCreated


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The global options, and the Duly that they select."""

    db: str | None = None
    app: str | None = None
    json: bool = False

    def duly(self) -> Duly:
        """The app's Duly, on its database; without an app, a Duly without handlers. DULY_APP is ignored if --db already
        says which database."""
        self._use_db()
        return self._loaded(self.app or (None if self.db else read_settings().app))

    def duly_that_serves(self) -> Duly:
        """The app's Duly, or one without handlers, which still sends webhooks and HTTP requests."""
        self._use_db()
        app = self.named_app()
        duly = self._loaded(app)
        if not duly.routes():
            lacking = f"{app} has no handlers" if app else "no app is given"
            raise Misuse(
                f"there is nothing to run: {lacking}, and webhooks cannot be sent from here. Give the module with your "
                f"handlers and its Duly, such as --app shop:duly, or set DULY_APP; for webhooks, {INSTALL}; "
                + "; ".join(f"for {channel.name}, {channel.advice}" for channel in duly.absent())
            )
        return duly

    def duly_with_event_types(self) -> Duly:
        """The app's Duly, whose event types decide which events users have; without an app, one with the built-in
        types."""
        self._use_db()
        return self._loaded(self.named_app())

    def named_app(self) -> str | None:
        return self.app or read_settings().app

    def duly_for_looking(self) -> Duly:
        """A Duly on a database that must exist, and whose tables are not migrated."""
        found = self.duly()
        with self._about_db():
            duly = Duly(settings=found.settings, migrate=False)
        require_file(duly)
        return duly

    def app_for_looking(self) -> Duly | None:
        """The app's Duly, with the schedules that its code declares; None if no app is given. Its tables are up to
        date, because the caller has opened ``duly_for_looking`` before."""
        named = self.app or (None if self.db else read_settings().app)
        return self.duly() if named else None

    def _loaded(self, app: str | None) -> Duly:
        with self._about_db():
            duly = load_app(app, self.db) if app else Duly()
        if not self.json:
            duly.observe(_tell_file, FileCreated)
        return duly

    def _use_db(self) -> None:
        """Makes --db the DULY_DATABASE_URL of this process, so that an app that relies on that setting uses it too."""
        if self.db is not None:
            self.check_db()
            os.environ["DULY_DATABASE_URL"] = self.db

    def check_db(self) -> None:
        with self._about_db():
            read_settings(database_url=self.db)

    @contextmanager
    def _about_db(self) -> Iterator[None]:
        """Names --db in an error about the database's URL, if that was given."""
        try:
            yield
        except BadSetting as error:
            if self.db is None or error.name != "DULY_DATABASE_URL":
                raise
            raise Misuse(f"--db {without_login(self.db)!r} cannot be used: expected {error.allowed}") from None


def _tell_file(created: FileCreated) -> None:
    """Reports a new database file, unless the log reports it."""
    if not logging.getLogger("duly").handlers:
        note(f"there was no database file {created.path}: a new one was created")


Hidden = Annotated[Invocation, Parameter(parse=False)]
"""The last parameter of a command: passed by ``call``, never typed by the user."""


def person() -> str:
    """The name of the current user, for the history."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "command line"


def require_terminal(otherwise: str, *, json: bool) -> None:
    """Refuses to ask where nobody can answer. *otherwise* says what would be done, and how without being asked."""
    if json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Misuse(otherwise)


def confirmed(question: str) -> bool:
    """Whether the person at the terminal answers yes."""
    print(f"{readable(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def missing_file(duly: Duly) -> str | None:
    """The path of the database file, if it does not exist."""
    path = duly.database_path
    return None if path is None or path == ":memory:" or Path(path).exists() else path


def require_file(duly: Duly) -> None:
    """Refuses a database file that does not exist: reading from it would create an empty one."""
    if (path := missing_file(duly)) is not None:
        raise NotFound(
            f"there is no database file {path}: check --db or DULY_DATABASE_URL, or create it with `duly migrate`"
        )
