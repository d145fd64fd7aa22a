"""What a form prints to do the same elsewhere, really done: the command in a shell, the request to the API."""

import asyncio
import html
import os
import re
import shlex
import sys
from pathlib import Path

import httpx

from tests.dashboard.visiting import Page, Visitor


def offered(page: Page, id: str) -> str:
    """The text that a page offers to copy."""
    found = re.search(rf'<code id="{id}">(.*?)</code>', page.html, re.DOTALL)
    assert found is not None, page.text
    return html.unescape(found[1])


async def in_a_shell(page: Page, url: str) -> str:
    """Runs the offered command, as it stands, in a shell; returns what it has written."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", offered(page, "act-command")),
        env=kept | {"DULY_DATABASE_URL": url, "PATH": programs},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    written, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, written.decode()
    return written.decode()


async def over_http(page: Page, visitor: Visitor, *, status: int | None = None) -> httpx.Response:
    """Sends the offered request, as curl would."""
    curl, x, method, address, *rest = shlex.split(offered(page, "act-curl"))
    assert (curl, x) == ("curl", "-X")
    headers, body = dict[str, str](), None
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        if option == "-H":
            name, _, said = value.partition(": ")
            headers[name] = said
        else:
            assert option == "-d"
            body = value
    async with httpx.AsyncClient(transport=httpx.ASGITransport(visitor.api)) as client:
        answer = await client.request(method, address, headers=headers, content=body)
    assert answer.status_code == status if status else answer.is_success, answer.text
    return answer
