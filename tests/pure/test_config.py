from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Misuse
from duly.config import Settings, read_settings, without_login
from duly.errors import BadSetting

DRIVERS = ("asyncpg", "psycopg", "psycopg2")

BAD = [
    ("DULY_POLL_INTERVAL", "soon", "30s, 1h30m"),
    ("DULY_POLL_INTERVAL", "5", "30s, 1h30m"),
    ("DULY_POLL_INTERVAL", "1ms", "from 10ms to 1h"),
    ("DULY_POLL_INTERVAL", "2h", "from 10ms to 1h"),
    ("DULY_LOOKAHEAD", "501ms", "from 0s to 500ms"),
    ("DULY_LEASE", "0s", "from 1s"),
    ("DULY_LEASE", "2d", "to 1d"),
    ("DULY_LEASE", "-5s", "30s, 1h30m"),
    ("DULY_STORE_TIMEOUT", "soon", "30s, 1h30m"),
    ("DULY_STORE_TIMEOUT", "1ms", "from 50ms to 1d"),
    ("DULY_STORE_TIMEOUT", "30s", "less than the lease, DULY_LEASE=30s"),
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
    ("DULY_API_ROLE", "Duly-API", "the name of a PostgreSQL role, of lower-case letters, digits and _"),
    ("DULY_API_ROLE", "OFF", "or off, which is for one tenant"),
    ("DULY_API_ROLE", 'a"; RESET ROLE', "the name of a PostgreSQL role"),
    ("DULY_API_ROLE", "none", "the name of a PostgreSQL role"),
    ("DULY_API_ROLE", "public", "the name of a PostgreSQL role"),
    ("DULY_API_ROLE", "pg_read_all_data", "the name of a PostgreSQL role"),
    ("DULY_API_ROLE", "a" * 64, "the name of a PostgreSQL role"),
    ("DULY_LOG_FORMAT", "xml", "text or json"),
    ("DULY_WEBHOOK_ALLOW", "localhost", "networks such as 10.0.0.0/8,fd00::/8"),
    ("DULY_WEBHOOK_ALLOW", "10.0.0.1/8", "networks such as 10.0.0.0/8,fd00::/8 (10.0.0.1/8 has host bits set)"),
    ("DULY_WEBHOOK_ALLOW", "10.0.0.0/8;fd00::/8", "networks such as"),
    ("DULY_TRUSTED_PROXIES", "nginx", "networks such as 10.0.0.0/8,fd00::/8"),
    ("DULY_DATABASE_URL", "duly.db", "sqlite:///path/to/file.db or postgresql://"),
    ("DULY_DATABASE_URL", "mysql://localhost/duly", "sqlite:///path/to/file.db or postgresql://"),
    ("DULY_NATS_URL", "localhost:4222", "nats://host:4222"),
    ("DULY_NATS_URL", "http://localhost:4222", "nats://host:4222"),
    ("DULY_NATS_URL", "nats://one:4222,two:4222", "or several separated by commas"),
    ("DULY_NATS_URL", "nats://one:port", "nats://host:4222"),
    ("DULY_NATS_URL", "nats://", "nats://host:4222"),
    ("DULY_REDIS_URL", "localhost", "redis://host:6379/0"),
    ("DULY_REDIS_URL", "redis://:70000", "redis://host:6379/0"),
    ("DULY_REDIS_URL", "redis://one:6379\n", "redis://host:6379/0"),
    ("DULY_RABBITMQ_URL", "rabbitmq://localhost", "amqp://user:password@host:5672/vhost"),
    ("DULY_RABBITMQ_URL", "amqp:///vhost", "amqp://user:password@host:5672/vhost"),
    ("DULY_KAFKA_URL", "localhost:9092", "kafka://host:9092,host:9092"),
    ("DULY_KAFKA_URL", "kafka://one:9092,", "kafka://host:9092,host:9092"),
    ("DULY_KAFKA_URL", "kafka://one:9092,two:x", "kafka://host:9092,host:9092"),
    ("DULY_CELERY_URL", "localhost", "the broker_url of Celery"),
    ("DULY_CELERY_URL", "memory://", "the broker_url of Celery"),
    ("DULY_INSTANCE", "production=red", "such as production=#b42318"),
    ("DULY_INSTANCE", "=#b42318", "1 to 30 printable characters"),
    ("DULY_INSTANCE", "x" * 31, "1 to 30 printable characters"),
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
    options: dict[str, Any] = {variable.removeprefix("DULY_").lower(): value}
    with pytest.raises(BadSetting) as refused:
        Duly(**options)
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


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", *(f"postgresql+{driver}" for driver in DRIVERS)])
def test_a_database_url_of_sqlalchemy_is_read_without_its_driver(scheme: str) -> None:
    written = f"{scheme}://ada:secret+asyncpg://@host:5432/shop?application_name=x"
    plain = "postgresql://ada:secret+asyncpg://@host:5432/shop?application_name=x"
    assert read_settings({"DULY_DATABASE_URL": written}).database_url == plain
    assert read_settings({}, database_url=written).database_url == plain


def test_asyncpgs_word_for_encryption_is_read() -> None:
    for written, plain in (("?ssl=require", "?sslmode=require"), ("?a=1&ssl=prefer", "?a=1&sslmode=prefer")):
        found = read_settings({}, database_url=f"postgresql+asyncpg://host/shop{written}").database_url
        assert found == f"postgresql://host/shop{plain}"


def test_a_database_url_with_another_driver_says_what_is_allowed() -> None:
    for written in ("postgresql+oracle://host/shop", "mysql+asyncmy://host/shop", "postgresql+://host/shop"):
        with pytest.raises(BadSetting, match=r"sqlite:///path/to/file.db or postgresql://"):
            read_settings({"DULY_DATABASE_URL": written})


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


@pytest.mark.parametrize(("lease", "expected"), [("30s", 10.0), ("6s", 2.0), ("1h", 10.0)])
def test_the_store_timeout_is_ten_seconds_or_a_third_of_the_lease(lease: str, expected: float) -> None:
    assert read_settings({"DULY_LEASE": lease}).store_timeout == timedelta(seconds=expected)


def test_a_store_timeout_that_is_not_below_the_lease_is_refused() -> None:
    with pytest.raises(BadSetting, match="DULY_STORE_TIMEOUT='5s' cannot be used: expected less than the lease"):
        read_settings({"DULY_LEASE": "5s", "DULY_STORE_TIMEOUT": "5s"})


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


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DULY_NATS_URL", "nats://localhost:4222"),
        ("DULY_NATS_URL", "tls://ada:secret@one,nats://token@two:4223"),
        ("DULY_REDIS_URL", "redis://localhost"),
        ("DULY_REDIS_URL", "rediss://ada:secret@[::1]:6380/2?ssl_cert_reqs=none"),
        ("DULY_REDIS_URL", "unix:///run/redis.sock?db=1"),
        ("DULY_RABBITMQ_URL", "amqps://ada:secret@one:5671/shop?heartbeat=5"),
        ("DULY_KAFKA_URL", "kafka://one:9092"),
        ("DULY_KAFKA_URL", "kafka+ssl://ada:secret@one:9092,two:9092?mechanism=SCRAM-SHA-512"),
        ("DULY_CELERY_URL", "amqp://ada:secret@one//"),
        ("DULY_CELERY_URL", "redis+socket:///run/redis.sock"),
        ("DULY_CELERY_URL", "sqs://"),
        ("DULY_CELERY_URL", "amqp://one;amqp://two"),
    ],
)
def test_the_url_of_a_broker_is_kept_as_it_is(variable: str, value: str) -> None:
    settings = read_settings({variable: value})
    assert getattr(settings, variable.removeprefix("DULY_").lower()) == value


@pytest.mark.parametrize(
    "value",
    [
        "nats//ada:top5ecret@localhost",
        "redis://:top5ecret@",
        "http://:top5ecret@localhost",
        "http://top5ecret@localhost",
        "ada:top5ecret@localhost:5672",
        "http://ada:top@5ecret@localhost top5ecret@x",
        "http://localhost?password=top5ecret&x=1",
        "nats://one,http://ada:top5ecret@two",
        "http://ada:top/5ecret#@localhost/top5ecret@",
    ],
)
@pytest.mark.parametrize("broker", ["nats", "redis", "rabbitmq", "kafka", "celery"])
def test_the_password_of_a_broker_is_never_shown(broker: str, value: str) -> None:
    refused = ""
    try:
        read_settings({f"DULY_{broker.upper()}_URL": value})
    except BadSetting as error:
        refused = str(error)
    assert bool(refused) or broker == "celery", "which takes what others would not"
    assert "5ecret" not in refused


def test_a_text_is_shown_without_the_logins_in_it() -> None:
    text = "cannot reach nats://token@one:4222,nats://ada:se@cret@two:4222 after 3 tries"
    assert without_login(text) == "cannot reach nats://***@one:4222,nats://***@two:4222 after 3 tries"
    assert without_login("nothing to hide") == "nothing to hide"
    assert without_login("redis://one/0?password=x&db=1") == "redis://one/0?password=***&db=1"


@pytest.mark.parametrize(
    ("written", "role"), [(None, "duly_api"), ("", "duly_api"), ("off", None), ("shop_2", "shop_2"), ("user", "user")]
)
def test_the_role_of_api_requests_is_a_name_or_off(written: str | None, role: str | None) -> None:
    assert read_settings({} if written is None else {"DULY_API_ROLE": written}).api_role == role
    assert read_settings({}, api_role=written or None).api_role == role


@pytest.mark.parametrize("written", ["sqlite+aiosqlite:///shop.db", "sqlite+pysqlite:///shop.db"])
def test_a_url_of_sqlalchemy_for_sqlite_names_the_file(written: str) -> None:
    assert read_settings({}, database_url=written).database_url == "sqlite:///shop.db"


def test_a_refused_url_shows_its_scheme_and_hides_its_login() -> None:
    assert without_login("postgresql+foo://ada:secret@host/shop") == "postgresql+foo://***@host/shop"
