"""Timers asked for over HTTP are the ones that Python's own verbs give."""

from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Invalid, Misuse, Retry, Timer, every, webhook
from duly.client import Client
from duly.client.protocol import answers
from tests.client.serving import without_via
from tests.make import DAY, HOUR, MINUTE, START

URL = "https://hooks.example/duly"


async def test_a_timer_is_what_python_has_on_the_same_database(app: Duly, client: Client) -> None:
    event = await client.at(
        START + HOUR,
        "invoice.overdue",
        {"invoice": 7, "text": "ä ✓"},
        key="invoice-7",
        target=webhook(URL),
        retry=Retry(max_attempts=5, base=timedelta(seconds=2)),
        correlation_id="c1",
    )
    assert event == without_via(await app.events.get(event.id)) == without_via(await app.events.by_key("invoice-7"))
    assert (event.payload, event.target, event.retry.max_attempts) == (
        {"invoice": 7, "text": "ä ✓"}, {"webhook": URL}, 5,
    )  # fmt: skip
    assert event == await client.events.get(event.id) == await client.events.by_key("invoice-7")


async def test_timers_without_keys_and_with_delays_are_what_python_has(app: Duly, client: Client) -> None:
    plain = await client.at(START + DAY, "x")
    later = await client.after(30 * MINUTE, "cart.abandoned", [1, None])
    keyed = await client.after("1h", "x", key="k")
    counted = await client.after(90, "x")
    assert (later.due, keyed.due, counted.due) == (START + 30 * MINUTE, START + HOUR, START + 1.5 * MINUTE)
    for event in (plain, later, keyed, counted):
        assert event == without_via(await app.events.get(event.id))


async def test_a_delay_that_cannot_be_read_is_told_before_anything_is_sent(client: Client) -> None:
    with pytest.raises(Invalid, match="expected a timedelta, a number of seconds or a duration such as 30s"):
        await client.after("soon", "x")


async def test_putting_a_timer_tells_whether_it_was_created_moved_or_unchanged(app: Duly, client: Client) -> None:
    told = [await client.put(due, "x", key="k") for due in (START + HOUR, START + HOUR, START + DAY)]
    assert [one.change for one in told] == ["created", "unchanged", "moved"]
    assert len({one.event.id for one in told}) == 1
    assert (await client.at(START + 2 * DAY, "x", key="k")).due == START + 2 * DAY


async def test_many_timers_are_added_in_their_order_by_several_requests(
    app: Duly, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.client.client.TIMERS_PER_REQUEST", 7)
    await client.at(START, "x", "old", key="5")
    ids = await client.add_many(Timer(START + DAY, "x", n, key=str(n) if n % 5 == 0 else None) for n in range(20))
    assert [(await app.events.get(id)).payload for id in ids] == list(range(20))
    assert ids[5] == (await app.events.by_key("5")).id
    assert await client.add_many([]) == []


async def test_when_one_of_many_timers_is_invalid_none_is_sent(app: Duly, client: Client) -> None:
    with pytest.raises(Invalid) as here:
        await client.add_many([Timer(START, "x"), Timer(START, ""), Timer("soon", "x")])
    with pytest.raises(Invalid) as there:
        await app.add_many([Timer(START, "x"), Timer(START, ""), Timer("soon", "x")])
    assert here.value.problems == there.value.problems
    assert await app.events.find() == []


async def test_a_problem_that_only_the_server_knows_is_told_with_its_path(app: Duly, client: Client) -> None:
    with pytest.raises(Invalid) as refused:
        await client.add_many([Timer(START, "x"), Timer(START, "x", target={"pigeon": "coop"})])
    assert [problem.path for problem in refused.value.problems] == ["[1].target"]
    assert len(await app.events.find()) == 1
    with pytest.raises(Invalid, match=r"target: unknown channel 'pigeon'"):
        await client.at(START, "x", key="k", target={"pigeon": "coop"})
    with pytest.raises(Invalid, match=r"target: unknown channel 'pigeon'"):
        await client.after(HOUR, "x", target={"pigeon": "coop"})


async def test_large_payloads_go_in_several_requests(
    app: Duly, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.client.client.LARGEST_BULK_BYTES", 2500)
    ids = await client.add_many(Timer(START, "x", "a" * 1000) for _ in range(5))
    assert {event.id for event in await app.events.find()} == set(ids)


async def test_problems_of_timers_are_the_same_in_the_client_as_in_python(app: Duly, client: Client) -> None:
    bad: list[tuple[Any, ...]] = [
        (START.replace(tzinfo=None), "x"),
        (START, ""),
        (START, "x", float("nan")),
        (START, "x", {1, 2}),
        ("tomorrow", "x"),
        (timedelta(days=-1_000_000), "x"),
    ]
    for arguments in bad:
        with pytest.raises(Invalid) as here:
            await client.at(*arguments)
        with pytest.raises(Invalid) as there:
            await app.at(*arguments)
        assert here.value.problems == there.value.problems
    with pytest.raises(Invalid) as none:
        await client.after(-HOUR, "x", key="k")
    assert [problem.path for problem in none.value.problems] == ["due"]


async def test_the_call_every_of_a_client_puts_a_schedule(app: Duly, client: Client) -> None:
    schedule = await client.every("hourly", every("1h"), "digest")
    assert schedule == without_via(await app.schedules.get("hourly"))


async def test_verbs_of_timers_that_http_does_not_have_say_what_to_do_instead(client: Client) -> None:
    with pytest.raises(Misuse, match="after your commit"):
        await client.at(START, "x", transaction=object())
    with pytest.raises(Misuse, match="after your commit"):
        await client.add_many([], transaction=object())
    for act in (client.run, client.tick, client.stop, client.transaction):
        with pytest.raises(Misuse, match="is not available over HTTP"):
            act()
    with pytest.raises(Misuse, match="duly keys create"):
        client.keys  # noqa: B018 - asking is the test
    with pytest.raises(Misuse, match="duly serve --app"):
        client.on("x")


async def test_what_the_server_warns_of_is_logged_once(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_logged", set())
    await client.at(START + DAY, "unheard-of-timer", key="k")
    await client.at(START + DAY, "unheard-of-timer")
    await client.every("digest", every("1h"), "unheard-of-schedule")
    warned = [record.getMessage() for record in caplog.records if record.name == "duly.client"]
    assert [type for message in warned for type in message.split() if "unheard" in type] == [
        "'unheard-of-timer'",
        "'unheard-of-schedule'",
    ]
