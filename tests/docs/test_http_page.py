"""The sessions with curl in docs/http-api.md are answered as the page says; so are its commands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from duly import Duly
from duly.api.app import create_api
from duly.dashboard.app import PageRoute
from tests.docs.blocks import ROOT, blocks_of
from tests.docs.test_examples import matches

PAGE = ROOT / "docs/http-api.md"
SERVER = "http://127.0.0.1:8080"
OF_THE_DASHBOARD = {"/live", "/sign-in", "/static/{path:path}"}


def sessions() -> list[tuple[str, str]]:
    """What is typed, and what comes back."""
    typed = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
    return [(found[1], found[2]) for block in blocks_of(PAGE, "console") for found in typed.finditer(block.text)]


def read_curl(typed: str) -> tuple[str, str, dict[str, Any]]:
    """The few of its options that the page uses."""
    _, *words = shlex.split(typed)
    method, address, headers, body = "GET", "", {}, None
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = words.pop(0)
        else:
            address = word
    assert address.startswith(SERVER)
    return method, address.removeprefix(SERVER), {"headers": headers, "content": body}


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_each_request_of_the_http_page_is_answered_as_the_page_says(
    store: str, request: pytest.FixtureRequest
) -> None:
    url = "sqlite://" if store == "sqlite" else request.getfixturevalue("own_postgres_url")
    asked = [(typed, said) for typed, said in sessions() if typed.startswith("curl ")]
    assert len(asked) >= 6
    async with Duly(url) as duly:
        transport = httpx.ASGITransport(create_api(duly, keyless=True))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for typed, said in asked:
                method, path, options = read_curl(typed)
                answer = await client.request(method, path, **options)
                assert matches(answer.text, said), f"{typed}\nis answered with\n{answer.text}"


@pytest.mark.parametrize("typed", [typed for typed, _ in sessions() if typed.startswith("duly ")])
def test_each_command_of_the_http_page_works(typed: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", *shlex.split(typed)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "duly_" in done.stdout


def test_the_http_page_tells_of_every_route() -> None:
    told = PAGE.read_text(encoding="utf-8")
    duly = Duly("sqlite://")
    routes = [route for route in create_api(duly).routes if not isinstance(route, PageRoute)]
    paths = [route.path for route in routes]  # type: ignore[attr-defined]
    subjects = {"/".join(path.split("/")[:3]) for path in paths} - OF_THE_DASHBOARD
    assert not [path for path in subjects if path not in told]
