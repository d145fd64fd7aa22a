"""What this machine has run out of is told from every other error, however it is wrapped."""

import errno
import os
import socket
from collections.abc import Callable

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from redis.exceptions import ConnectionError as RedisConnectionError

from duly.decide.exhaustion import RESOURCES, Exhausted, exhausted, unreachable

KEY = ConnectionKey("hooks.example", 443, True, True, None, None, None)


def system(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def caused(error: OSError) -> Exception:
    try:
        try:
            raise error
        except OSError as reason:
            raise RedisConnectionError("Error 24 connecting to localhost:6379.") from reason
    except RedisConnectionError as wrapped:
        return wrapped


def met_while_handling(error: OSError) -> Exception:
    try:
        try:
            raise error
        except OSError:
            raise ValueError("no such invoice")  # noqa: B904 - as people write it
    except ValueError as wrapped:
        return wrapped


WRAPPED: list[Callable[[OSError], BaseException]] = [
    lambda error: error,
    lambda error: aiohttp.ClientConnectorError(KEY, error),
    lambda error: aiohttp.ClientConnectorDNSError(KEY, error),
    lambda error: aiohttp.ClientOSError(*error.args),
    caused,
    met_while_handling,
    lambda error: ExceptionGroup("several", [ValueError("x"), error]),
]


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC])
def test_a_shortage_of_resources_is_found_in_whatever_error_wraps_it(
    number: int, wrapped: Callable[[OSError], BaseException]
) -> None:
    error = wrapped(system(number))
    assert exhausted(error) == RESOURCES[number]
    outcome = unreachable(error)
    assert outcome is not None
    assert outcome.reason == RESOURCES[number]
    assert 0 < outcome.retry_after.total_seconds() <= 5


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.ENOENT, errno.EPIPE, errno.EACCES])
def test_an_error_of_another_kind_is_no_shortage_of_resources(
    number: int, wrapped: Callable[[OSError], BaseException]
) -> None:
    assert unreachable(wrapped(system(number))) is None


def test_a_name_that_cannot_be_resolved_is_no_shortage() -> None:
    for number in (socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM):
        assert exhausted(socket.gaierror(number, "unknown")) is None


def test_a_shortage_without_a_number_says_of_what() -> None:
    assert exhausted(Exhausted("no thread is left")) == "no thread is left"


def test_causes_of_an_error_that_form_a_circle_are_followed_once() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert exhausted(one) is None
