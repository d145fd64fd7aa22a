"""The same as a form does, as its page prints it: on the command line, and over HTTP."""

import asyncio
import html
import os
import re
import shlex
import sys

import httpx

from tests.dashboard.visiting import Page, Visitor


def printed(page: Page, id: str) -> str:
    """The text that the page offers to copy."""
    found = re.search(rf'<code id="{id}">(.*?)</code>', page.html, re.DOTALL)
    assert found is not None, page.text
    return html.unescape(found[1])


async def run_command(page: Page, url: str) -> str:
    """Runs the printed command in a process of its own; returns what it has written."""
    duly, *words = shlex.split(printed(page, "act-command"))
    assert duly == "duly"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "duly", *words),
        env=kept | {"DULY_DATABASE_URL": url},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    written, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, written.decode()
    return written.decode()


async def run_curl(page: Page, visitor: Visitor) -> httpx.Response:
    """Sends the printed request as curl would."""
    words = shlex.split(printed(page, "act-curl"))
    assert words[:2] == ["curl", "-X"]
    method, address, *rest = words[2:]
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
    assert answer.is_success, answer.text
    return answer
