"""What holds for every command: which database, which app, for people or for programs."""

import getpass
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from duly.cli.apps import load_app
from duly.cli.output import note
from duly.cli.processes.capabilities import INSTALL
from duly.config import read_settings, without_login
from duly.duly import Duly
from duly.errors import BadSetting, Misuse, NotFound
from duly.signals import FileCreated


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The options that work everywhere, and the Duly that they lead to."""

    db: str | None = None
    app: str | None = None
    json: bool = False

    def duly(self) -> Duly:
        """The app's, on its database; without an app, one without handlers. DULY_APP is not asked when --db
        tells all that is needed."""
        self._use_db()
        return self._loaded(self.app or (None if self.db else read_settings().app))

    def duly_that_serves(self) -> Duly:
        """The app's, or one without handlers, which still sends webhooks and HTTP requests."""
        self._use_db()
        app = self.named_app()
        duly = self._loaded(app)
        if not duly.routes():
            lacking = f"{app} has no handlers" if app else "no app is named"
            raise Misuse(
                f"there is nothing to run: {lacking}, and webhooks cannot be sent from here. Name the module with your "
                f"handlers and its Duly, such as --app shop:duly, or set DULY_APP; for webhooks, {INSTALL}"
            )
        return duly

    def duly_with_event_types(self) -> Duly:
        """The app's, whose event types say what users have; without an app, only the types that come with Duly."""
        self._use_db()
        return self._loaded(self.named_app())

    def named_app(self) -> str | None:
        return self.app or read_settings().app

    def duly_for_looking(self) -> Duly:
        """On a database that must exist, and whose tables are not changed by looking at them."""
        duly = Duly(settings=self.duly().settings, migrate=False)
        require_file(duly)
        return duly

    def app_for_looking(self) -> Duly | None:
        """The app's own, with what its code declares; None when no app is named. Its tables are up to date: whoever
        asks has opened ``duly_for_looking`` before."""
        named = self.app or (None if self.db else read_settings().app)
        return self.duly() if named else None

    def _loaded(self, app: str | None) -> Duly:
        duly = load_app(app, self.db) if app else Duly()
        if not self.json:
            duly.observe(_tell_file, FileCreated)
        return duly

    def _use_db(self) -> None:
        """--db decides as if it were the setting, so that an app that leaves it to the setting follows."""
        if self.db is not None:
            self.check_db()
            os.environ["DULY_DATABASE_URL"] = self.db

    def check_db(self) -> None:
        try:
            read_settings(database_url=self.db)
        except BadSetting as error:
            if self.db is None or error.name != "DULY_DATABASE_URL":
                raise
            raise Misuse(f"--db {without_login(self.db)!r} cannot be used: expected {error.allowed}") from None


def _tell_file(created: FileCreated) -> None:
    """Where there is a log, that tells of it."""
    if not logging.getLogger("duly").handlers:
        note(f"there was no database file {created.path}: a new one was made")


Hidden = Annotated[Invocation, Parameter(parse=False)]
"""A command's last parameter: given by ``call``, not typed by anybody."""


def person() -> str:
    """Who did it, for the history."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "command line"


def missing_file(duly: Duly) -> str | None:
    """The database file, if it does not exist."""
    path = duly.database_path
    return None if path is None or path == ":memory:" or Path(path).exists() else path


def require_file(duly: Duly) -> None:
    """Looking at a database that is not there would make an empty one."""
    if (path := missing_file(duly)) is not None:
        raise NotFound(
            f"there is no database file {path}: check --db or DULY_DATABASE_URL, or make it with `duly migrate`"
        )
