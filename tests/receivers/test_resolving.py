import socket

import pytest
from aiohttp import ClientSession, TCPConnector

from tests.receivers.hostile import Hostile
from tests.receivers.resolving import Names


async def test_a_name_is_bound_anew_from_one_question_to_the_next() -> None:
    names = Names({"hooks.example": ["93.184.216.34", ["127.0.0.1", "::1"]]})
    answers = [await names.resolve("hooks.example", 80) for _ in range(3)]
    assert [[result["host"] for result in answer] for answer in answers] == [
        ["93.184.216.34"],
        ["127.0.0.1", "::1"],
        ["127.0.0.1", "::1"],
    ]
    assert [result["family"] for result in answers[1]] == [socket.AF_INET, socket.AF_INET6]
    assert names.asked == ["hooks.example"] * 3


async def test_a_name_without_answers_does_not_exist() -> None:
    with pytest.raises(socket.gaierror, match=r"nowhere\.example does not exist"):
        await Names({}).resolve("nowhere.example")


async def test_a_client_goes_where_the_name_says(hostile: Hostile) -> None:
    connector = TCPConnector(resolver=Names({"hooks.example": ["127.0.0.1"]}))
    url = hostile.url("/ok", host="hooks.example")
    async with ClientSession(connector=connector) as session, session.get(url) as answer:
        assert await answer.text() == "ok"
    assert hostile.requests()[0].header("host") == f"hooks.example:{hostile.port()}"
