"""duly.sync.targets: the verbs of duly.targets for synchronous code."""

from collections.abc import Iterator

import pytest

from duly import Conflict, Duly, Misuse, NotFound, OfDestination, http, webhook
from duly.sync import Sync
from duly.testing import ManualClock
from tests.make import START

KEY = "a key of at least thirty-two characters"
ELSEWHERE = "https://hooks.example/in"


@pytest.fixture
def app(url: str, clock: ManualClock) -> Duly:
    return Duly(url, clock=clock, secret_key=KEY)


@pytest.fixture
def sync(app: Duly) -> Iterator[Sync]:
    with app.sync as sync:
        yield sync


def test_synchronous_code_has_every_verb_of_targets(sync: Sync) -> None:
    made = sync.targets.put("crm", ELSEWHERE, tenant="acme")
    assert made.secret is not None
    anew = sync.targets.rotate("crm", keep="1h", tenant="acme", by="ada")
    assert anew.secret not in (None, made.secret)
    assert sync.targets.get("crm", tenant="acme").url == ELSEWHERE
    assert [target.name for target in sync.targets.list()] == ["crm"]
    assert sync.targets.limit("crm", concurrency=3, tenant="acme").concurrency == 3
    assert sync.targets.known("crm", tenant="acme").concurrency == 3
    sync.targets.disable("crm", reason="moving", tenant="acme")
    [known] = sync.targets.destinations()
    assert (known.destination, known.parked) == ("crm", "is disabled: moving")
    assert sync.targets.waiting("crm", tenant="acme") == 0
    with pytest.raises(Conflict, match="disabled until a person"):
        sync.targets.probe("crm", tenant="acme")
    assert sync.targets.enable("crm", tenant="acme") == 0
    acts = ["created", "rotated", "limited", "disabled", "enabled"]
    assert [entry.act for entry in sync.targets.history("crm", tenant="acme")] == acts
    assert sync.targets.delete("crm", tenant="acme").name == "crm"
    with pytest.raises(NotFound, match="'crm'"):
        sync.targets.get("crm", tenant="acme")
    assert sync.targets.signing_secret(ELSEWHERE).startswith("whsec_")


def test_events_are_found_by_their_destination(sync: Sync) -> None:
    sync.targets.put("crm", ELSEWHERE)
    stored = sync.at(START, "x", target=webhook(target="crm"))
    inline = sync.at(START, "x", target=http("PUT", f"{ELSEWHERE}?token=1"))
    sync.at(START, "x")
    assert [event.id for event in sync.events.find(OfDestination("crm"))] == [stored.id]
    assert [event.id for event in sync.events.find(OfDestination("https://hooks.example"))] == [inline.id]


def test_a_disabled_target_tells_how_many_wait_for_it(sync: Sync) -> None:
    sync.targets.put("crm", ELSEWHERE)
    sync.at(START, "x", target=webhook(target="crm"))
    for place in ("one", "two", "two"):
        sync.at(START, "x", target=webhook(f"{ELSEWHERE}/{place}"))
    for destination in ("crm", f"{ELSEWHERE}/two"):
        sync.targets.disable(destination)
    sync.targets.disable("https://other.example")
    waiting = {"crm": 1, f"{ELSEWHERE}/two": 2, "https://other.example": 0}
    sync.targets.disable(f"{ELSEWHERE}/one")
    sync.tick()
    assert {destination: sync.targets.waiting(destination) for destination in waiting} == waiting
    assert sync.targets.enable(f"{ELSEWHERE}/two") == 2
    assert sync.targets.waiting(f"{ELSEWHERE}/two") == 0


def test_a_call_beside_an_open_transaction_does_not_wait_for_ever(sync: Sync, app: Duly) -> None:
    with sync.transaction():
        if app.store.dialect == "postgres":
            assert sync.targets.put("crm", ELSEWHERE).name == "crm"
            return
        for forgetful in (
            lambda: sync.targets.put("crm", ELSEWHERE),
            lambda: sync.targets.get("crm"),
            lambda: sync.targets.disable(ELSEWHERE),
        ):
            with pytest.raises(Misuse, match="transaction=tx"):
                forgetful()
