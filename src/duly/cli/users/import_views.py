"""Output of an import while it runs."""

import sys
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Self, cast

import msgspec
from rich.text import Text

from duly.cli.output import brief, note, print_json, readable, screen
from duly.cli.progress import ProgressLine
from duly.errors import NotFound
from duly.records.results import Imported, RefusedRow


class ImportReport:
    """Prints refused lines as they come, the progress, and in the end the result."""

    def __init__(self, errors: Path | None, *, going_on: bool, json: bool) -> None:
        """Opens the file for *errors*: empties it, unless the import is *going_on*, which keeps the lines that an
        earlier run refused."""
        self.done = Imported()
        self._errors, self._mode, self._json = errors, "ab" if going_on else "wb", json
        self._stack, self._line = ExitStack(), ProgressLine(json=json)
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        if self._errors is not None:
            try:
                self._file = cast("IO[bytes]", self._stack.enter_context(self._errors.open(self._mode)))
            except OSError as error:
                raise NotFound(f"cannot write {self._errors}: {error.strerror}") from None
        self._stack.enter_context(self._line)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # -- during the import

    def refused(self, bad: RefusedRow) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(_as_json(bad)) + b"\n")
        elif self._json:
            print(msgspec.json.encode(_as_json(bad)).decode(), file=sys.stderr)
        else:
            self._line.console.print(Text(_line(bad)))

    def progress(self, done: Imported) -> None:
        self.done = done
        self._line.tell(done.rows, self._so_far())

    def _so_far(self) -> str:
        refused = f", {self.done.refused:,} refused" if self.done.refused else ""
        return f"{self.done.rows:,} rows{refused}, {self._rate():,.0f} users/s, line {self.done.last:,}"

    # -- after the import

    def summary(self, *, dry_run: bool, complete: bool) -> None:
        """Prints the result, after removing the progress line."""
        seconds = self._line.seconds
        self._stack.close()
        done = self.done
        if self._json:
            counts = {"good": done.rows - done.refused} if dry_run else _counts(done)
            counts |= {"refused": done.refused, "last_line": done.last}
            pace = {"seconds": round(seconds, 3), "users_per_second": round(self._rate(), 1)}
            counts |= {"nowhere": done.nowhere, "warnings": list(done.warnings)}
            print_json(counts | pace | {"complete": complete, "dry_run": dry_run})
            return
        took = f"in {brief(timedelta(seconds=seconds))}, {self._rate():,.0f} users/s"
        if dry_run:
            told = f"{done.rows - done.refused:,} good, {done.refused:,} refused (a dry run: nothing was stored) {took}"
        else:
            words = (("added", done.added), ("changed", done.changed), ("unchanged", done.unchanged))
            told = ", ".join(f"{count:,} {word}" for word, count in (*words, ("refused", done.refused))) + f" {took}"
        screen().print(told, style="bold")
        for warning in done.warnings:
            note(f"warning: {warning}")
        if done.refused and self._errors is not None:
            print(f"refused lines are in {self._errors}", file=sys.stderr)

    def _rate(self) -> float:
        good = self.done.rows - self.done.refused
        return good / max(self._line.seconds, 0.001)


def _line(bad: RefusedRow) -> str:
    said = "; ".join(str(problem) if problem.path else problem.message for problem in bad.problems)
    return readable(f"line {bad.number}: {said}")


def _counts(done: Imported) -> dict[str, Any]:
    return {"added": done.added, "changed": done.changed, "unchanged": done.unchanged}


def _as_json(bad: RefusedRow) -> dict[str, Any]:
    return {"line": bad.number, "problems": [problem._asdict() for problem in bad.problems]}
