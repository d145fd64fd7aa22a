"""Runs one act on several named things: a failure of one does not stop the others."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter
from rich.console import RenderableType
from rich.text import Text

from duly.cli.invocation import Invocation
from duly.cli.output import print_json, screen, tell_error
from duly.duly import Duly
from duly.errors import DulyError, Misuse

Reason = Annotated[str | None, Parameter(help="Reason, stored in the history")]
"""The option of acts that take a reason."""


class ActResult(NamedTuple):
    """The result of an act on one thing, for programs and for people."""

    json: dict[str, Any]
    said: RenderableType


Act = Callable[[Duly, str], Awaitable[ActResult]]


def each(names: tuple[str, ...], act: Act, of_many: str | None, missing: str, invocation: Invocation) -> int:
    """Runs *act* for each name; returns the exit code. The JSON is a list under the name *of_many*, or the single
    result by itself. *missing* is the error if no name is given."""
    if not names:
        raise Misuse(missing)
    return asyncio.run(_each(names, act, of_many, invocation))


async def _each(names: tuple[str, ...], act: Act, of_many: str | None, invocation: Invocation) -> int:
    done: list[ActResult] = []
    async with invocation.duly_for_looking() as duly:
        for name in names:
            try:
                done.append(await act(duly, name))
            except DulyError as error:
                if len(names) == 1:
                    raise
                tell_error(error, json=invocation.json)
    if invocation.json:
        print_json(done[0].json if of_many is None else {of_many: [one.json for one in done]})
    else:
        for one in done:
            screen().print(one.said, soft_wrap=isinstance(one.said, Text))
    return 0 if len(done) == len(names) else 1
