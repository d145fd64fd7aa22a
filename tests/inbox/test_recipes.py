"""The receivers on the page, as printed there, each with its own database: the effect happens once."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import httpx
import psycopg
import pytest
from django.db import connections
from django.test import Client
from django.test.utils import override_settings

from duly.inbox import Refused
from tests.api.test_transactions import with_driver
from tests.docs.blocks import ROOT, blocks_of
from tests.docs.test_pages import table
from tests.inbox.callers import Places
from tests.inbox.signing import make_body
from tests.inbox.signing import sign as sign_with

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
URL = "postgresql+asyncpg://postgres@localhost/app"
Post = Callable[..., Awaitable[httpx.Response]]


def sign(body: bytes, **options: Any) -> dict[str, str]:
    return sign_with(body, SECRET, **options)


def recipe(heading: str, places: Places) -> ModuleType:
    [block] = [block for block in blocks_of(ROOT / "docs/receiving.md", "python") if block.heading == heading]
    module = ModuleType("recipe")
    exec(block.text.replace(URL, with_driver(places.postgres, "asyncpg")), vars(module))
    return module


@pytest.fixture(params=["FastAPI", "Django", "Plain ASGI"])
async def post(
    request: pytest.FixtureRequest, greetings: Places, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Post]:
    """Sends a request to one of the receivers."""
    monkeypatch.chdir(greetings.sqlite.parent)
    if request.param == "Django":
        request.getfixturevalue("with_django")
    module = recipe(request.param, greetings)
    if request.param == "Django":
        with override_settings(ROOT_URLCONF=module):
            yield lambda body, headers, method="POST": asyncio.to_thread(to_django, body, headers, method)
    else:
        transport = httpx.ASGITransport(module.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as client:
            yield lambda body, headers, method="POST": client.request(method, "/hooks", content=body, headers=headers)
        if request.param == "FastAPI":
            await module.engine.dispose()


def to_django(body: bytes, headers: dict[str, str], method: str) -> httpx.Response:
    try:
        client = Client(raise_request_exception=False)
        answer = client.generic(method, "/hooks", body, content_type="application/json", headers=headers)
        return httpx.Response(answer.status_code, content=answer.content)
    finally:
        connections.close_all()


@pytest.fixture
def greetings(places: Places) -> Places:
    with psycopg.connect(places.postgres) as postgres, closing(sqlite3.connect(places.sqlite)) as lite, lite:
        for connection in (postgres, lite):
            connection.execute("CREATE TABLE greetings (text text)")
    return places


async def test_ten_deliveries_at_once_have_one_effect(post: Post, greetings: Places) -> None:
    answers = await asyncio.gather(*[post(make_body(), sign(make_body())) for _ in range(10)])
    assert [answer.status_code for answer in answers] == [204] * 10
    assert greetings.count("greetings") == 1
    assert (await post(make_body(), sign(make_body()))).status_code == 204
    assert greetings.count("greetings") == 1


async def test_deliveries_with_different_ids_have_an_effect_each(post: Post, greetings: Places) -> None:
    """An id names the delivery, not what it says."""
    for id in ("one", "two", "one", "three", "two"):
        assert (await post(make_body(), sign(make_body(), id=id))).status_code == 204
    assert greetings.count("greetings") == 3


async def test_an_effect_that_is_not_committed_is_done_by_the_next_delivery(post: Post, greetings: Places) -> None:
    break_commits(greetings)
    for _ in range(2):
        assert (await post(make_body(), sign(make_body()))).status_code == 500
        assert (greetings.count("greetings"), greetings.count("duly_inbox")) == (0, 0)
    mend_commits(greetings)
    for _ in range(2):
        assert (await post(make_body(), sign(make_body()))).status_code == 204
        assert (greetings.count("greetings"), greetings.count("duly_inbox")) == (1, 1)


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        (make_body("Eve"), lambda: sign(make_body()), 401, "no signature matches"),
        (make_body(), dict, 401, "no webhook-id"),
        (make_body(), lambda: sign_with(make_body()), 401, "no signature matches"),
        (b"{}", lambda: sign(b"{}"), 400, "no type"),
        (b" " * (2 * 1024 * 1024 + 1), lambda: sign(make_body()), 413, "more than 2097152"),
    ],
    ids=["another body", "not signed", "another secret", "no event", "too large"],
)
async def test_a_refused_delivery_is_answered_with_the_reason_and_has_no_effect(
    post: Post, greetings: Places, body: bytes, headers: Callable[[], dict[str, str]], status: int, words: str
) -> None:
    answer = await post(body, headers())  # signed now: a signature that was made when tests were collected is stale
    assert (answer.status_code, words in answer.text) == (status, True)
    assert (greetings.count("greetings"), greetings.count("duly_inbox")) == (0, 0)


async def test_a_stale_delivery_may_be_tried_again(post: Post, greetings: Places) -> None:
    answer = await post(make_body(), sign(make_body(), at=datetime.now(UTC) - timedelta(minutes=10)))
    assert (answer.status_code, "check the clocks" in answer.text) == (425, True)
    assert greetings.count("duly_inbox") == 0
    assert (await post(make_body(), sign(make_body()))).status_code == 204
    assert greetings.count("greetings") == 1


async def test_only_a_post_is_a_delivery(post: Post, greetings: Places) -> None:
    assert (await post(make_body(), sign(make_body()), "PUT")).status_code == 405
    assert greetings.count("greetings") == 0


def test_the_table_of_answers_has_each_refusal_with_its_status() -> None:
    written = [(name, int(status)) for name, status, *_ in table("docs/receiving.md", "Status codes to answer with")]
    assert written == [*[(kind.__name__, kind.status) for kind in Refused.__subclasses__()], ("anything else", 500)]


def break_commits(places: Places) -> None:
    """PostgreSQL fails the commit itself; SQLite, which cannot, fails the effect after it was written."""
    with psycopg.connect(places.postgres) as postgres, closing(sqlite3.connect(places.sqlite)) as lite, lite:
        postgres.execute(
            "CREATE OR REPLACE FUNCTION crash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'crash'; END $$"
        )
        postgres.execute(
            "CREATE CONSTRAINT TRIGGER crash AFTER INSERT ON greetings DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION crash()"
        )
        lite.execute("CREATE TRIGGER crash AFTER INSERT ON greetings BEGIN SELECT RAISE(FAIL, 'crash'); END")


def mend_commits(places: Places) -> None:
    with psycopg.connect(places.postgres) as postgres, closing(sqlite3.connect(places.sqlite)) as lite, lite:
        postgres.execute("DROP FUNCTION crash CASCADE")
        lite.execute("DROP TRIGGER crash")
