from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Misuse
from duly.config import Settings, read_settings
from duly.errors import BadSetting

BAD = [
    ("DULY_POLL_INTERVAL", "soon", "30s, 1h30m"),
    ("DULY_POLL_INTERVAL", "5", "30s, 1h30m"),
    ("DULY_POLL_INTERVAL", "1ms", "from 10ms to 1h"),
    ("DULY_POLL_INTERVAL", "2h", "from 10ms to 1h"),
    ("DULY_LOOKAHEAD", "501ms", "from 0s to 500ms"),
    ("DULY_LEASE", "0s", "from 1s"),
    ("DULY_LEASE", "2d", "to 1d"),
    ("DULY_LEASE", "-5s", "30s, 1h30m"),
    ("DULY_SHUTDOWN_GRACE", "forever", "30s, 1h30m"),
    ("DULY_SHUTDOWN_GRACE", "25h", "to 1d"),
    ("DULY_LATE_AFTER", "late", "30s, 1h30m"),
    ("DULY_LATE_AFTER", "366d", "to 365d"),
    ("DULY_BATCH_SIZE", "0", "a whole number from 1 to 1000"),
    ("DULY_BATCH_SIZE", "1001", "a whole number from 1 to 1000"),
    ("DULY_BATCH_SIZE", "many", "a whole number from 1 to 1000"),
    ("DULY_BATCH_SIZE", "1.5", "a whole number from 1 to 1000"),
    ("DULY_CONCURRENCY", "0", "a whole number from 1 to 10000"),
    ("DULY_CONCURRENCY", "10001", "a whole number from 1 to 10000"),
    ("DULY_CONCURRENCY", "-1", "a whole number from 1 to 10000"),
    ("DULY_LOG_FORMAT", "xml", "text or json"),
    ("DULY_WEBHOOK_ALLOW", "localhost", "networks such as 10.0.0.0/8,fd00::/8"),
    ("DULY_WEBHOOK_ALLOW", "10.0.0.1/8", "networks such as 10.0.0.0/8,fd00::/8 (10.0.0.1/8 has host bits set)"),
    ("DULY_WEBHOOK_ALLOW", "10.0.0.0/8;fd00::/8", "networks such as"),
    ("DULY_DATABASE_URL", "duly.db", "sqlite:///path/to/file.db or postgresql://"),
    ("DULY_DATABASE_URL", "mysql://localhost/duly", "sqlite:///path/to/file.db or postgresql://"),
]


@pytest.mark.parametrize(("variable", "value", "allowed"), BAD)
def test_a_bad_setting_names_the_variable_the_value_and_what_is_allowed(
    variable: str, value: str, allowed: str
) -> None:
    with pytest.raises(BadSetting) as refused:
        read_settings({variable: value})
    assert (refused.value.name, refused.value.value) == (variable, value)
    message = str(refused.value)
    assert message.startswith(f"{variable}={value!r} cannot be used: expected ")
    assert allowed in message


@pytest.mark.parametrize(("variable", "value", "allowed"), BAD)
def test_a_bad_option_is_refused_in_the_same_words(variable: str, value: str, allowed: str) -> None:
    option = variable.removeprefix("DULY_").lower()
    with pytest.raises(BadSetting) as refused:
        Duly(**{option: value})  # type: ignore[arg-type]
    assert str(refused.value).startswith(f"{variable}={value!r}")
    assert allowed in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("webhook_allow", 5),
        ("webhook_allow", [None]),
        ("concurrency", float("inf")),
        ("concurrency", float("nan")),
        ("concurrency", 1.5),
        ("concurrency", []),
        ("batch_size", object()),
        ("lease", 30),
        ("lease", []),
        ("poll_interval", 0.5),
        ("poll_interval", timedelta()),
        ("database_url", 7),
        ("log_format", 7),
        ("log_format", ["text"]),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_and_no_traceback(option: str, value: Any) -> None:
    with pytest.raises(BadSetting, match=f"^DULY_{option.upper()}="):
        read_settings({}, **{option: value})


def test_without_an_environment_everything_has_its_default() -> None:
    assert read_settings({}) == Settings()
    assert Settings().database_url == "sqlite:///duly.db"


def test_each_setting_is_read_from_its_variable() -> None:
    environment = {
        "DULY_DATABASE_URL": "postgresql://db/duly",
        "DULY_APP": "shop:duly",
        "DULY_POLL_INTERVAL": "250ms",
        "DULY_BATCH_SIZE": "1",
        "DULY_CONCURRENCY": "10000",
        "DULY_LEASE": "1m30s",
        "DULY_SHUTDOWN_GRACE": "0s",
        "DULY_LATE_AFTER": "1d",
        "DULY_LOG_FORMAT": "json",
        "DULY_UNKNOWN": "is somebody else's",
    }
    assert read_settings(environment) == Settings(
        database_url="postgresql://db/duly",
        app="shop:duly",
        poll_interval=timedelta(milliseconds=250),
        batch_size=1,
        concurrency=10_000,
        lease=timedelta(seconds=90),
        shutdown_grace=timedelta(),
        late_after=timedelta(days=1),
        log_format="json",
    )


def test_an_empty_variable_is_no_setting() -> None:
    assert read_settings(dict.fromkeys(["DULY_LEASE", "DULY_APP", "DULY_DATABASE_URL"], "")) == Settings()


def test_an_option_wins_over_the_environment() -> None:
    settings = read_settings(
        {"DULY_LEASE": "1m", "DULY_CONCURRENCY": "5"}, lease=timedelta(seconds=2), concurrency=None
    )
    assert (settings.lease, settings.concurrency) == (timedelta(seconds=2), 5)


def test_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_LEASE", "7s")
    assert read_settings().lease == timedelta(seconds=7)


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Misuse, match=r"no option 'leese'; known: .*lease"):
        Duly("sqlite://", leese="1m")
