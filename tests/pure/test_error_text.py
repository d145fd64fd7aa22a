import pytest

from duly.decide.error_text import LONGEST, describe, describe_without_paths, storable


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Odd(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such invoice"), "ValueError: no such invoice"),
        (ValueError(), "ValueError"),
        (KeyError("x"), "KeyError: 'x'"),
        (Mute(), "Mute: (its message cannot be shown)"),
        (Odd(), "Odd: (its message cannot be shown)"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError("a\x00b"), "ValueError: a\\0b"),
        (ValueError("a\ud800b"), "ValueError: a\\ud800b"),
        (ExceptionGroup("several", [ValueError("x")]), "ExceptionGroup: several (1 sub-exception)"),
    ],
)
def test_an_error_is_one_line_that_every_store_can_keep(error: BaseException, text: str) -> None:
    assert describe(error) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(2, "No such file", "/etc/duly/ca.pem"), "FileNotFoundError: No such file"),
        (ImportError("no name 'x' (/opt/app/redis/__init__.py)"), "ImportError: no name 'x' (…)"),
        (OSError("connecting to unix:/run/redis/redis.sock"), "OSError: connecting to unix:…"),
        (OSError("connecting to unix:///run/redis.sock."), "OSError: connecting to unix://…"),
        (ConnectionError("not nats://b.example:4222/a/b"), "ConnectionError: not nats://b.example:4222/a/b"),
        (ConnectionError("no vhost '/'"), "ConnectionError: no vhost '/'"),
        (ConnectionRefusedError(111, "Connection refused"), "ConnectionRefusedError: [Errno 111] Connection refused"),
        (Mute(), "Mute: (its message cannot be shown)"),
    ],
)
def test_an_error_is_told_without_paths_of_this_machine(error: BaseException, text: str) -> None:
    assert describe_without_paths(error) == text


def test_an_endless_error_is_cut_short() -> None:
    assert len(describe(ValueError("x" * 10**6))) <= LONGEST
    assert len(storable("\ud800" * 10**6).encode()) <= 10 * LONGEST


def test_an_error_that_is_not_text_is_shown_as_python_shows_it() -> None:
    assert storable({"a": 1}) == "{'a': 1}"
    assert storable(None) == "None"
