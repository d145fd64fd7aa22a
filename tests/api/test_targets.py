"""``duly.targets``: put, looked at, changed and deleted; who may see what; what is on disk."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from duly import Conflict, Duly, Event, Invalid, Misuse, NotFound, Status, http, webhook
from duly.decide.targets.secrets import written
from duly.signals import GivenBack
from duly.testing import ManualClock
from tests.api.sending import KEY, OLD_KEY, OPTIONS, acts, many_due, one_due, verified
from tests.conftest import OpenDuly
from tests.make import HOUR, MINUTE
from tests.receivers.obedient import Obedient
from tests.stores.rows import ask, write
from tests.worker.running_worker import until, working

URL = "https://hooks.example/in"
TOKEN = "t0ken-that-nobody-may-see"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "X-Plain": "too"}


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    return await duly(**OPTIONS)


# -- put, get, list, delete


async def test_a_target_is_put_and_found(app: Duly, clock: ManualClock) -> None:
    made = await app.targets.put("crm", URL, format="cloudevents", timeout="10s", headers=HEADERS)
    found = await app.targets.get("crm")
    assert made.secret
    assert msgspec.structs.replace(made, secret=None, new=False) == found
    assert (found.name, found.tenant, found.channel, found.url) == ("crm", "default", "webhook", URL)
    names = ["Authorization", "X-Plain"]
    assert found.spec == {"url": URL, "format": "cloudevents", "timeout": "10s", "headers": names}
    assert (found.created, found.updated, found.enabled) == (clock.now(), clock.now(), True)
    assert await app.targets.list() == [found]


async def test_putting_a_target_again_changes_it_and_keeps_its_secret_and_headers(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    first = await app.targets.put("crm", URL, headers=HEADERS, timeout="10s")
    clock.advance(HOUR)
    second = await app.targets.put("crm", receiver.url())
    assert second.secret is None, "it was not made by this call"
    assert (second.id, second.created, second.updated) == (first.id, first.created, clock.now())
    assert second.spec == {"url": receiver.url(), "headers": ["Authorization", "X-Plain"]}
    await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    [request] = receiver.requests
    assert request.header("authorization") == HEADERS["Authorization"]
    assert first.secret
    assert verified(request, first.secret)


async def test_headers_and_secrets_of_a_target_can_be_replaced_and_removed(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    old = await app.targets.put("crm", receiver.url(), headers=HEADERS)
    brought = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    await app.targets.put("crm", receiver.url(), headers={}, secret=brought)
    assert "headers" not in (await app.targets.get("crm")).spec
    await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    [request] = receiver.requests
    assert request.header("authorization") is None
    assert verified(request, brought)
    assert old.secret
    assert not verified(request, old.secret)


async def test_a_target_of_requests_has_no_secret(app: Duly) -> None:
    made = await app.targets.put("billing", URL, channel="http", method="PUT")
    assert made.secret is None
    assert made.spec == {"url": URL, "method": "PUT"}
    with pytest.raises(Conflict, match="'billing' sends HTTP requests without a signature and has no secret to rotate"):
        await app.targets.rotate("billing")


async def test_a_target_may_change_its_channel(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    await app.targets.put("crm", receiver.url(), channel="http")
    made = await app.targets.put("crm", receiver.url())
    assert made.secret, "a webhook has one"
    wrong = await one_due(app, clock, http(target="crm"))
    right = await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    assert (await app.events.get(right.id)).status is Status.COMPLETED
    letter = await app.events.get(wrong.id)
    assert letter.status is Status.FAILED
    assert letter.last_error == "target 'crm' is for webhook, not for http: create a target with another name"


async def test_all_problems_of_a_target_are_told_at_once_and_nothing_is_stored(app: Duly) -> None:
    with pytest.raises(Invalid) as refused:
        await app.targets.put(
            "a b",
            "ftp://x",
            channel="pigeon",
            method="get",
            headers={"Host": "x"},
            format="xml",
            timeout="1h",
            secret="short",
            tenant="",
        )
    paths = [problem.path for problem in refused.value.problems]
    assert sorted(paths) == [
        "channel",
        "format",
        "headers.Host",
        "method",
        "name",
        "secret",
        "tenant",
        "timeout",
        "url",
    ]
    assert await app.targets.list() == []


@pytest.mark.parametrize(
    ("channel", "option"),
    [("webhook", {"method": "PUT"}), ("http", {"format": "cloudevents"}), ("http", {"secret": "whsec_" + "A" * 32})],
)
async def test_an_option_of_another_channel_is_refused(app: Duly, channel: str, option: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        await app.targets.put("crm", URL, channel=channel, **option)
    assert [problem.path for problem in refused.value.problems] == list(option)


async def test_targets_are_listed_in_pages_in_the_order_of_tenants_and_names(app: Duly) -> None:
    for tenant, name in [("b", "x"), ("a", "z"), ("a", "y"), ("a", "B")]:
        await app.targets.put(name, URL, tenant=tenant)
    everything = [(target.tenant, target.name) for target in await app.targets.list()]
    assert everything == [("a", "B"), ("a", "y"), ("a", "z"), ("b", "x")]
    assert [target.name for target in await app.targets.list(tenant="a", after=("a", "B"), limit=1)] == ["y"]
    assert [target.name for target in await app.targets.list(after=("a", "z"))] == ["x"]


async def test_deleting_a_target_releases_the_events_that_waited_for_it(app: Duly, clock: ManualClock) -> None:
    await app.targets.put("crm", URL)
    await app.targets.disable("crm")
    event = await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    assert (await app.events.get(event.id)).held
    with pytest.raises(Conflict, match="target 'crm' is still needed for 1 event"):
        await app.targets.delete("crm")
    assert (await app.events.get(event.id)).held
    assert (await app.targets.delete("crm", force=True)).name == "crm"
    for look in (app.targets.get, app.targets.delete, app.targets.rotate, app.targets.history):
        with pytest.raises(NotFound, match="there is no target 'crm' in tenant 'default'"):
            await look("crm")
    await app.tick()
    letter = await app.events.get(event.id)
    assert letter.status is Status.FAILED
    assert letter.last_error == "there is no target 'crm': create it, then replay this event"
    anew = await app.targets.put("crm", URL)
    assert anew.enabled, "of its name alone nothing is remembered"


async def test_a_dead_letter_of_an_unknown_target_can_be_replayed_once_it_is_put(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    await app.targets.put("crm", receiver.url())
    event = await one_due(app, clock, webhook(target="crm"))
    await app.targets.delete("crm", force=True)
    await app.tick()
    assert await acts(app, event.id) == ["rejected"]
    await app.targets.put("crm", receiver.url())
    await app.events.replay(event.id)
    await app.tick()
    assert receiver.ids == [event.id]


async def test_the_history_of_a_target_tells_every_act_and_no_secret(app: Duly) -> None:
    await app.targets.put("crm", f"{URL}?token={TOKEN}", by="ada")
    await app.targets.put("crm", f"{URL}/2?token={TOKEN}", headers=HEADERS)
    await app.targets.rotate("crm", keep="1h", by="bob")
    await app.targets.limit("crm", concurrency=5, rate="30/m")
    await app.targets.limit("crm")
    await app.targets.disable("crm", reason="it moves")
    await app.targets.enable("crm")
    history = await app.targets.history("crm")
    assert [(entry.act, entry.worker) for entry in history] == [
        ("created", "ada"),
        ("changed", "api"),
        ("rotated", "bob"),
        ("limited", "api"),
        ("limited", "api"),
        ("disabled", "api"),
        ("enabled", "api"),
    ]
    details = [entry.detail or "" for entry in history]
    assert details[:2] == [URL, f"{URL}/2"]
    assert details[2].startswith("the old secret is used as well until ")
    assert details[3:6] == ["5 at once, 30/m", "no limits", "it moves"]
    assert TOKEN not in repr(history)


# -- tenants


async def test_targets_of_the_same_name_in_two_tenants_are_independent(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient
) -> None:
    app = await duly(**OPTIONS)
    mine = await app.targets.put("crm", receiver.url("/acme"), tenant="acme")
    theirs = await app.targets.put("crm", receiver.url("/globex"), tenant="globex")
    await app.targets.put("only-acme", receiver.url("/only"), tenant="acme")
    assert mine.secret != theirs.secret
    await one_due(app, clock, webhook(target="crm"), tenant="acme")
    await one_due(app, clock, webhook(target="crm"), tenant="globex")
    with pytest.raises(Invalid, match="there is no target 'only-acme' in tenant 'globex': create it first"):
        await one_due(app, clock, webhook(target="only-acme"), tenant="globex")
    await app.tick()
    sent = {request.target: request for request in receiver.requests}
    assert set(sent) == {"/acme", "/globex"}
    assert mine.secret
    assert theirs.secret
    assert verified(sent["/acme"], mine.secret)
    assert not verified(sent["/acme"], theirs.secret)


async def test_a_tenant_cannot_touch_anothers_target(app: Duly) -> None:
    await app.targets.put("crm", URL, tenant="acme")
    calls: list[Callable[[], Any]] = [
        lambda: app.targets.get("crm", tenant="globex"),
        lambda: app.targets.rotate("crm", tenant="globex"),
        lambda: app.targets.delete("crm", tenant="globex"),
        lambda: app.targets.history("crm", tenant="globex"),
        lambda: app.targets.disable("crm", tenant="globex"),
        lambda: app.targets.enable("crm", tenant="globex"),
        lambda: app.targets.probe("crm", tenant="globex"),
        lambda: app.targets.limit("crm", concurrency=1, tenant="globex"),
    ]
    for call in calls:
        with pytest.raises(NotFound, match="there is no target 'crm' in tenant 'globex'"):
            await call()
    assert [target.tenant for target in await app.targets.list(tenant="globex")] == []


async def test_a_target_parked_or_limited_for_one_tenant_is_not_so_for_another(app: Duly, clock: ManualClock) -> None:
    for tenant in ("acme", "globex"):
        await app.targets.put("crm", "http://127.0.0.1:9/", tenant=tenant)
    await app.targets.disable("crm", tenant="acme")
    await app.targets.disable("https://hooks.example", tenant="acme")
    await app.targets.limit(concurrency=1, tenant="acme")
    assert (await app.targets.get("crm", tenant="globex")).enabled
    assert await app.targets.destinations(tenant="globex") == []
    held = await one_due(app, clock, webhook(target="crm"), tenant="acme")
    tried = await one_due(app, clock, webhook(target="crm"), tenant="globex")
    await app.tick()
    assert (await app.events.get(held.id)).held
    assert (await app.events.get(tried.id)).attempts == 1


# -- what nobody sees


async def test_a_secret_is_in_the_answer_that_made_it_and_nowhere_else(app: Duly) -> None:
    made = await app.targets.put("crm", URL, headers=HEADERS)
    again = await app.targets.rotate("crm")
    assert made.secret
    assert again.secret
    looked = [
        await app.targets.get("crm"),
        await app.targets.list(),
        await app.targets.history("crm"),
        await app.targets.limit("crm", concurrency=3),
        await app.targets.known("crm"),
        await app.targets.put("crm", URL),
        await app.targets.delete("crm"),
    ]
    told = repr(looked) + str(looked) + msgspec.json.encode(looked).decode()
    for secret in (made.secret, again.secret, TOKEN, made.secret.removeprefix("whsec_")):
        assert secret not in told


async def test_a_new_secret_is_not_in_a_repr(app: Duly) -> None:
    """Which is what ends up in a traceback or a log."""
    made = await app.targets.put("crm", URL)
    assert made.secret
    assert made.secret not in repr(made) + str(made) + f"{[made]}"


@pytest.mark.parametrize("secret", ["whsec_tooshort", "whsec_" + "!" * 40, "x" * 200])
async def test_no_error_tells_a_secret(app: Duly, secret: str) -> None:
    headers = {"Authorization": f"{TOKEN}\n", "Ho st": TOKEN}
    with pytest.raises(Invalid) as refused:
        await app.targets.put("crm", URL, secret=secret, headers=headers)
    assert secret not in str(refused.value)
    assert TOKEN not in str(refused.value)
    await app.targets.put("crm", URL)
    with pytest.raises(Invalid) as refused:
        await app.targets.rotate("crm", secret=secret)
    assert secret not in str(refused.value)


async def test_whoever_reads_the_database_alone_reads_no_secret(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient, url: str
) -> None:
    app = await duly(**OPTIONS)
    made = await app.targets.put("crm", receiver.url(), headers=HEADERS)
    again = await app.targets.rotate("crm")
    await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    assert receiver.requests[0].header("authorization") == HEADERS["Authorization"]
    raw = all_bytes_of(url)
    assert b"crm" in raw
    for secret in (made.secret, again.secret):
        assert secret
        assert secret.encode() not in raw
        assert secret.removeprefix("whsec_").encode() not in raw
    assert TOKEN.encode() not in raw
    assert KEY.encode() not in raw


def all_bytes_of(url: str) -> bytes:
    """The file with what is not written back to it yet, or every row of every table."""
    if url.startswith("sqlite:///"):
        path = Path(url.removeprefix("sqlite:///"))
        return b"".join(part.read_bytes() for part in path.parent.glob(f"{path.name}*"))
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'duly'").fetchall()
        rows = [row for (table,) in tables for row in connection.execute(f"SELECT * FROM duly.{table}").fetchall()]
    return repr(rows).encode()


# -- the key


async def test_one_targets_row_cannot_be_given_anothers_secrets(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    await app.targets.put("crm", receiver.url(), headers=HEADERS)
    await app.targets.put("mine", receiver.url("/mine"))
    await write(
        app.store,
        "UPDATE duly.targets SET sealed = (SELECT sealed FROM duly.targets WHERE name = 'crm') WHERE name = 'mine'",
    )
    event = await one_due(app, clock, webhook(target="mine"))
    await app.tick()
    assert receiver.requests == []
    back = await app.events.get(event.id)
    assert (back.status, back.attempts) == (Status.PENDING, 0)
    wanted = "the stored secrets of target 'mine' were encrypted for another target: create the target again"
    assert wanted in (back.last_error or "")
    await app.targets.put("mine", receiver.url("/mine"), secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    clock.advance(MINUTE)
    await app.tick()
    assert receiver.ids == [event.id]


@pytest.mark.parametrize(
    ("key", "says"), [(OLD_KEY, "encrypted with another DULY_SECRET_KEY"), (None, "which is not set")]
)
@pytest.mark.parametrize("channel", ["webhook", "http"])
async def test_a_worker_without_the_key_gives_events_back_unspent_and_says_so(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient, key: str | None, says: str, channel: str
) -> None:
    app = await duly(**OPTIONS)
    other = await duly(webhook_allow="127.0.0.0/8", secret_key=key)
    told: list[GivenBack] = []
    other.observe(told.append, GivenBack)
    await app.targets.put("crm", receiver.url(), channel=channel, headers=HEADERS)
    event = await one_due(app, clock, {channel: {"target": "crm"}})
    for _ in range(5):
        await other.tick()
        clock.advance(MINUTE)
    back = await app.events.get(event.id)
    assert (back.status, back.attempts, back.interruptions) == (Status.PENDING, 0, 0)
    assert says in (back.last_error or "")
    assert len(told) == 5
    assert says in told[0].reason
    assert receiver.requests == []
    await app.tick()
    assert len(receiver.requests) == 1, "one that has it delivers"


async def test_without_the_key_no_secret_is_encrypted_or_decrypted_and_the_error_says_what_to_do(
    duly: OpenDuly,
) -> None:
    app, keyless, other = await duly(**OPTIONS), await duly(), await duly(secret_key=OLD_KEY)
    make = "DULY_SECRET_KEY, which is not set: make one with: python"
    with pytest.raises(Misuse, match=make):
        await keyless.targets.put("crm", URL)
    with pytest.raises(Misuse, match=make):
        await keyless.targets.put("billing", URL, channel="http", headers=HEADERS)
    with pytest.raises(Misuse, match=make):
        keyless.targets.signing_secret(URL)
    assert await app.targets.list() == []
    assert (await keyless.targets.put("billing", URL, channel="http")).sealed is None, "there is nothing to seal"
    await app.targets.put("crm", URL)
    for act in (other.targets.put("crm", URL), other.targets.rotate("crm")):
        with pytest.raises(Misuse, match=r"target 'crm' was encrypted with another DULY_SECRET_KEY: .* as NEW,OLD"):
            await act


async def test_a_target_whose_key_is_lost_can_be_put_again_with_new_secrets(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient
) -> None:
    app, other = await duly(**OPTIONS), await duly(**OPTIONS | {"secret_key": OLD_KEY})
    await app.targets.put("crm", URL, headers=HEADERS)
    brought = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    with pytest.raises(Misuse, match="was encrypted with another"):
        await other.targets.put("crm", receiver.url(), secret=brought)
    await other.targets.put("crm", receiver.url(), secret=brought, headers={"X-New": "1"})
    await one_due(other, clock, webhook(target="crm"))
    await other.tick()
    [request] = receiver.requests
    assert request.header("x-new") == "1"
    assert request.header("authorization") is None
    assert verified(request, brought)


async def test_the_encryption_key_is_rotated_by_setting_both_and_putting_targets_again(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient
) -> None:
    old = await duly(**OPTIONS | {"secret_key": OLD_KEY})
    secret = (await old.targets.put("crm", receiver.url(), headers=HEADERS)).secret
    both = await duly(**OPTIONS | {"secret_key": f"{KEY},{OLD_KEY}"})
    await one_due(both, clock, webhook(target="crm"))
    await both.tick()
    await both.targets.put("crm", receiver.url())
    new = await duly(**OPTIONS)
    await one_due(new, clock, webhook(target="crm"))
    await new.tick()
    assert len(receiver.requests) == 2
    assert secret
    assert all(verified(request, secret) for request in receiver.requests)


# -- at the same time


async def test_puts_at_the_same_time_make_one_target(duly: OpenDuly) -> None:
    apps = [await duly(**OPTIONS) for _ in range(3)]
    puts = [apps[n % 3].targets.put("crm", f"{URL}/{n}") for n in range(12)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert not [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, Conflict)]
    put = [one for one in outcomes if not isinstance(one, BaseException)]
    assert {one.name for one in put} == {"crm"}
    made = [one.secret for one in put if one.secret]
    assert len(made) == 1, "one call made the secret"
    [target] = await apps[0].targets.list()
    history = await apps[0].targets.history("crm")
    assert [entry.act for entry in history].count("created") == 1
    assert target.url == f"{URL}/{(history[-1].detail or '').rpartition('/')[2]}", "the last one counts"


async def test_rotations_at_the_same_time_lose_no_secret(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient
) -> None:
    apps = [await duly(**OPTIONS) for _ in range(3)]
    first = await apps[0].targets.put("crm", receiver.url())
    rotated = await asyncio.gather(*(app.targets.rotate("crm") for app in apps))
    await one_due(apps[0], clock, webhook(target="crm"))
    await apps[0].tick()
    [request] = receiver.requests
    for secret in (first.secret, *(one.secret for one in rotated)):
        assert secret
        assert verified(request, secret)


async def test_only_so_many_secrets_of_a_target_sign(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    secrets = [(await app.targets.put("crm", receiver.url())).secret]
    secrets += [(await app.targets.rotate("crm")).secret for _ in range(6)]
    await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    [request] = receiver.requests
    assert [verified(request, secret or "") for secret in secrets] == [False] * 2 + [True] * 5


@pytest.mark.parametrize("keep", ["soon", "-1s", "366d", None, 7])
async def test_a_span_of_a_target_that_cannot_be_meant_is_a_problem(app: Duly, keep: Any) -> None:
    await app.targets.put("crm", URL)
    with pytest.raises(Invalid, match="keep: "):
        await app.targets.rotate("crm", keep=keep)


async def test_a_changed_target_reaches_a_running_worker_within_seconds(duly: OpenDuly, receiver: Obedient) -> None:
    """Made by another process, which tells nobody."""
    app, worker = await duly(**OPTIONS, clock=None), await duly(**OPTIONS, clock=None, poll_interval="50ms")
    await app.targets.put("crm", receiver.url("/old"))

    async def send() -> Event:
        return await app.at(await app.store.now(), "cart.abandoned", target=webhook(target="crm"))

    async with working(worker):
        await send()
        await until(lambda: receiver.requests, "the first has arrived")
        await app.targets.put("crm", receiver.url("/new"))
        rotated = await app.targets.rotate("crm", keep="0s")

        async def arrives_changed() -> bool:
            await send()
            last = receiver.requests[-1]
            return last.target == "/new" and verified(last, rotated.secret or "")

        await until(arrives_changed, "the change is seen")


# -- disabling, limits, probes


async def test_disabling_and_enabling_a_target_are_refused_where_they_make_no_sense(app: Duly) -> None:
    await app.targets.put("crm", URL)
    with pytest.raises(Conflict, match="target 'crm' is not parked or disabled: there is nothing to enable"):
        await app.targets.enable("crm")
    with pytest.raises(Conflict, match="is not parked, or was disabled until a person enables it"):
        await app.targets.probe("crm")
    await app.targets.disable("crm")
    await app.targets.disable("crm", reason="still")
    assert (await app.targets.known("crm")).parked == "is disabled: still"
    with pytest.raises(Conflict, match="disabled until a person"):
        await app.targets.probe("crm")
    for wrong in ("nowhere", "a b", ""):
        with pytest.raises(NotFound, match="there is no target"):
            await app.targets.disable(wrong)
    with pytest.raises(Invalid, match=r"destination: .* is not an http or https URL"):
        await app.targets.disable("ftp://x")


async def test_a_disabled_target_gets_nothing_until_it_is_enabled(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    await app.targets.put("crm", receiver.url())
    await app.targets.disable("crm", reason="it moves")
    ids = await many_due(app, clock, webhook(target="crm"), 3)
    for _ in range(3):
        await app.tick()
        clock.advance(HOUR)
    assert receiver.requests == []
    events = [await app.events.get(id) for id in ids]
    assert {event.held for event in events} == {"target crm is disabled: it moves"}
    assert {event.attempts for event in events} == {0}
    assert await app.targets.waiting("crm") == 3
    assert await app.targets.enable("crm", by="ada") == 3
    assert await app.targets.waiting("crm") == 0
    await app.tick()
    assert sorted(map(str, receiver.ids)) == sorted(ids)
    history = await app.events.history(ids[0])
    assert [(entry.act, entry.worker) for entry in history][1:2] == [("released", "ada")]


async def test_limits_of_a_target_are_told_and_removed(app: Duly) -> None:
    known = await app.targets.limit("https://hooks.example/", concurrency=5, rate="30/m")
    assert (known.destination, known.concurrency, known.rate) == ("https://hooks.example", 5, 0.5)
    known = await app.targets.limit(rate=2)
    assert (known.destination, known.concurrency, known.rate) == ("", None, 2)
    assert [known.destination for known in await app.targets.destinations()] == ["", "https://hooks.example"]
    for destination in (None, "https://hooks.example"):
        await app.targets.limit(destination)
    assert await app.targets.destinations() == []


@pytest.mark.parametrize(
    ("wrong", "paths"),
    [
        ({"concurrency": 0}, ["concurrency"]),
        ({"concurrency": True, "rate": "fast"}, ["concurrency", "rate"]),
        ({"concurrency": 10_001}, ["concurrency"]),
        ({"concurrency": 1.5}, ["concurrency"]),
        ({"rate": 0}, ["rate"]),
        ({"rate": -1, "tenant": ""}, ["tenant", "rate"]),
        ({"destination": "https://hooks.example/in", "rate": 1}, ["destination"]),
    ],
)
async def test_a_limit_that_cannot_be_meant_is_a_problem(app: Duly, wrong: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        await app.targets.limit(**wrong)
    assert [problem.path for problem in refused.value.problems] == paths


async def test_enabling_a_target_leaves_no_parked_destination_in_the_table(app: Duly) -> None:
    await app.targets.put("crm", URL)
    await app.targets.disable("crm")
    assert await ask(app.store, "SELECT count(*) FROM duly.destinations WHERE parked IS NOT NULL") == 1
    await app.targets.enable("crm")
    assert await ask(app.store, "SELECT count(*) FROM duly.destinations WHERE since IS NOT NULL") == 0


async def test_rotating_to_the_same_secret_again_changes_nothing(app: Duly) -> None:
    """As who has not heard the answer does: the old secret goes on to sign."""
    await app.targets.put("crm", URL)
    secret = written(bytes(range(32)))
    first = await app.targets.rotate("crm", secret=secret)
    told = await app.targets.history("crm")
    for _ in range(6):
        again = await app.targets.rotate("crm", secret=secret, keep="0s")
        assert (again.secret, again.sealed) == (secret, first.sealed)
    assert await app.targets.history("crm") == told
