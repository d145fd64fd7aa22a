"""What is written of a log at once, and what may wait for more."""

import asyncio
import io
import logging
import sys

import pytest

from duly.observers.log_handler import KEPT_S, MOST_KEPT, LogHandler


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    return written


@pytest.fixture
def handler(written: io.StringIO) -> LogHandler:
    return LogHandler()


def record(message: str, name: str = "duly.http", level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 0, message, (), None)


async def test_lines_of_requests_are_written_together(handler: LogHandler, written: io.StringIO) -> None:
    handler.handle(record("first"))
    handler.handle(record("second"))
    assert written.getvalue() == ""
    await asyncio.sleep(2 * KEPT_S)
    assert written.getvalue() == "first\nsecond\n"
    handler.handle(record("third"))
    await asyncio.sleep(2 * KEPT_S)
    assert written.getvalue() == "first\nsecond\nthird\n"


@pytest.mark.parametrize(("name", "level"), [("duly.http", logging.WARNING), ("duly", logging.INFO)])
async def test_lines_of_all_else_are_written_at_once_and_in_order(
    handler: LogHandler, written: io.StringIO, name: str, level: int
) -> None:
    handler.handle(record("a request"))
    handler.handle(record("something else", name, level))
    assert written.getvalue() == "a request\nsomething else\n"


async def test_no_more_than_so_many_log_lines_are_buffered(handler: LogHandler, written: io.StringIO) -> None:
    for number in range(MOST_KEPT):
        handler.handle(record(str(number)))
    assert written.getvalue().splitlines() == [str(number) for number in range(MOST_KEPT)]


async def test_the_end_of_the_process_writes_buffered_log_lines(handler: LogHandler, written: io.StringIO) -> None:
    handler.handle(record("last words"))
    logging.shutdown([lambda: handler])
    assert written.getvalue() == "last words\n"


def test_without_an_event_loop_no_log_line_is_buffered(handler: LogHandler, written: io.StringIO) -> None:
    handler.handle(record("at once"))
    assert written.getvalue() == "at once\n"
