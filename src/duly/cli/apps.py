"""Finds the Duly of ``--app module:duly``, and other objects that options name."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from duly.config import plain_database_url
from duly.duly import Duly
from duly.errors import DulyError, Misuse

ATTRIBUTE = "duly"


def load_app(written: str, db: str | None) -> Duly:
    """Imports the app's Duly, with the current folder on the path. Refuses it if its database is not *db*."""
    module_name, _, attribute = written.partition(":")
    attribute = attribute or ATTRIBUTE
    found = _find(_module("--app", written, module_name, ATTRIBUTE), module_name, attribute)
    if db is not None and found.settings.database_url != plain_database_url(db):
        raise Misuse(
            f"--db is not the database of {module_name}:{attribute}, which names its own database: "
            "remove --db, or write Duly() without a URL in the app"
        )
    return found


def import_attribute(option: str, written: str, usual: str) -> Any:
    """The object of an *option* such as ``module:name``, with the current folder on the path; its *usual* name may be
    left out."""
    module_name, _, attribute = written.partition(":")
    attribute = attribute or usual
    found: Any = _module(option, written, module_name, usual)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise Misuse(f"{option}: {module_name} has no {attribute!r}")
    return found


def _module(option: str, written: str, module_name: str, usual: str) -> ModuleType:
    _check_name(option, written, module_name, usual)
    return _import(option, written, module_name)


def _check_name(option: str, written: str, module_name: str, usual: str) -> None:
    if module_name.endswith(".py") or "/" in module_name:
        suggestion = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise Misuse(
            f"{option} {written!r} is a file name: write the name of the module instead, such as {option} "
            f"{suggestion}:{usual}"
        )
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise Misuse(f"{option} {written!r} cannot be used: expected module:{usual}, such as shop:{usual}")


def _import(option: str, written: str, module_name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except (DulyError, KeyboardInterrupt):
        raise
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise Misuse(
                f"{option} {written!r}: there is no module {error.name!r} in {here} or among the installed packages; "
                "run duly in the folder that contains it"
            ) from error
        raise _broken(option, module_name, error) from error
    except BaseException as error:  # anything that the user's module raises when imported, SystemExit as well
        raise _broken(option, module_name, error) from error


def _broken(option: str, module_name: str, error: BaseException) -> Misuse:
    """The error of an app that failed to import, with the last line of its own code in the traceback."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename
    ]  # the first frame is ours
    if isinstance(error, SyntaxError):
        place = f" ({error.filename}, line {error.lineno})"
    else:
        place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if len(frames) > 1 else ""
    return Misuse(f"{option} cannot import {module_name}: {type(error).__name__}: {error}{place}")


def _find(module: ModuleType, module_name: str, attribute: str) -> Duly:
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Duly):
        return found
    there = [name for name, value in vars(module).items() if isinstance(value, Duly)]
    advice = f"use --app {module_name}:{there[0]}" if there else f"write `{ATTRIBUTE} = Duly()` in it"
    if found is None:
        raise Misuse(f"--app: {module_name} has no {attribute!r}; {advice}")
    raise Misuse(f"--app: {module_name}:{attribute} is a {type(found).__name__}, not a Duly; {advice}")
