"""``duly targets``: put, look, limit, park and open; and events that go to them."""

import asyncio
import getpass
import json
import re
import sys
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from duly import Duly
from tests.cli.conftest import KEY, Shell
from tests.cli.receiving import Receiver

HOOK = "https://hooks.example/in"
GIVEN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def keyed(on: Shell) -> Shell:
    """A shell with a key to seal with."""
    on.set(DULY_SECRET_KEY=KEY)
    return on


def targets(shell: Shell, *words: object) -> str:
    """What a command prints that ends well."""
    result = shell("targets", *words)
    assert result.code == 0, result.err
    return result.out


def put(shell: Shell, *words: object) -> Any:
    return json.loads(targets(shell, "put", *words, "--json"))


def shown(shell: Shell, *words: object) -> Any:
    return json.loads(targets(shell, "show", *words, "--json"))


# -- put, rotate, secret


def test_a_new_webhook_has_a_secret_that_is_shown_once(keyed: Shell) -> None:
    done = keyed("targets", "put", "crm", HOOK)
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first == f"created crm  webhook to {HOOK}"
    assert re.fullmatch(r"secret whsec_[\w+/]+=*", second)
    assert "not shown again" in done.err
    secret = second.removeprefix("secret ")
    again = keyed("targets", "put", "crm", f"{HOOK}/2")
    assert (again.out, again.err) == (f"changed crm  webhook to {HOOK}/2\n", "")
    for words in (["show", "crm"], ["show", "crm", "--json"], ["list", "--json"], ["delete", "crm", "--json"]):
        told = targets(keyed, *words)
        assert secret not in told
        assert "sealed" not in told


def test_a_secret_can_be_given_in_a_file_and_is_not_repeated(keyed: Shell, receiver: Receiver) -> None:
    keyed.write("secret", f"{GIVEN}\n")
    done = keyed("targets", "put", "crm", receiver.url, "--secret-file", "secret")
    assert (done.code, done.err) == (0, "")
    assert "whsec" not in done.out
    assert "secret" not in put(keyed, "erp", receiver.url, "--secret-file", "secret")
    keyed.at("now", "--type", "x", "--payload", '{"n": 1}', "--target", "crm")
    assert keyed("tick").out.startswith("1 completed;")
    [got] = receiver.received
    assert Webhook(GIVEN).verify(got.body, got.headers)["data"] == {"n": 1}


def test_a_rotated_secret_signs_beside_the_old_one(keyed: Shell, receiver: Receiver) -> None:
    old = put(keyed, "crm", receiver.url)["secret"]
    done = keyed("targets", "rotate", "crm", "--keep", "2h")
    assert done.code == 0
    new = done.out.splitlines()[1].removeprefix("secret ")
    assert "requests are signed with the old secret as well for 2h" in done.err
    keyed.at("now", "--type", "x", "--target", "crm")
    keyed("tick")
    [got] = receiver.received
    for secret in (old, new):
        Webhook(secret).verify(got.body, got.headers)
    [created, rotated] = shown(keyed, "crm")["history"]
    assert (created["act"], rotated["act"], rotated["worker"]) == ("created", "rotated", getpass.getuser())


def test_a_webhook_without_a_target_is_signed_with_the_secret_of_its_origin(keyed: Shell, receiver: Receiver) -> None:
    keyed.at("now", "--type", "x", "--webhook", f"{receiver.url}/in?a=1", "--tenant", "acme")
    keyed("tick")
    [got] = receiver.received
    assert got.path == "/in?a=1"
    secret = targets(keyed, "secret", f"{receiver.url}/elsewhere", "--tenant", "acme").strip()
    Webhook(secret).verify(got.body, got.headers)
    told = json.loads(targets(keyed, "secret", receiver.url, "--tenant", "acme", "--json"))
    assert told == {"origin": receiver.url, "tenant": "acme", "secret": secret}
    assert targets(keyed, "secret", receiver.url).strip() != secret


def test_headers_are_sent_and_only_their_names_are_shown(keyed: Shell, receiver: Receiver) -> None:
    keyed.write("headers", "Authorization: Bearer s3cret: x\n\nX-Team:  billing \n")
    words = ("--channel", "http", "--method", "PUT", "--timeout", "10s", "--header-file", "headers")
    told = put(keyed, "legacy", f"{receiver.url}/api", *words, "--header", "X-More: yes")
    assert told["headers"] == ["Authorization", "X-More", "X-Team"]
    assert (told["channel"], told["method"], told["timeout"], told["change"]) == ("http", "PUT", "10s", "created")
    assert "secret" not in told
    keyed.at("now", "--type", "x", "--payload", "[7]", "--target", "legacy")
    assert keyed("tick").out.startswith("1 completed;")
    [got] = receiver.received
    assert (got.method, got.path, got.body) == ("PUT", "/api", b"[7]")
    assert (got.headers["authorization"], got.headers["x-team"]) == ("Bearer s3cret: x", "billing")
    for shows in (["show", "legacy"], ["show", "legacy", "--json"], ["list", "--json"]):
        assert "s3cret" not in targets(keyed, *shows)
    assert "Authorization, X-More, X-Team" in targets(keyed, "show", "legacy")
    assert put(keyed, "legacy", receiver.url, "--channel", "http")["headers"] == told["headers"]
    assert put(keyed, "legacy", receiver.url, "--channel", "http", "--no-headers")["headers"] == []


def test_the_statuses_that_are_retried_are_put_and_shown(keyed: Shell) -> None:
    told = put(keyed, "legacy", HOOK, "--channel", "http", "--retry-statuses", "404, 409")
    assert told["retry_statuses"] == [404, 409]
    assert "404, 409" in targets(keyed, "show", "legacy")
    assert put(keyed, "legacy", HOOK, "--channel", "http")["retry_statuses"] is None
    done = keyed("targets", "put", "legacy", HOOK, "--channel", "http", "--retry-statuses", "404,soon,200")
    assert done.code == 2
    assert "retry_statuses[1]" in done.err
    assert "retry_statuses[2]" in done.err


def test_text_that_is_no_header_is_refused_without_repeating_it(keyed: Shell) -> None:
    keyed.write("headers", "A: 1\nBearer s3cret\n")
    done = keyed("targets", "put", "crm", HOOK, "--header-file", "headers")
    assert done.code == 2
    assert "number 2 is not 'Name: value'" in done.err
    assert "s3cret" not in done.err
    assert keyed("targets", "put", "crm", HOOK, "--header-file", "nowhere").code == 1


def test_without_cryptography_the_advice_is_to_install_it(keyed: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    put(keyed, "crm", HOOK)
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)
    for words in (["put", "erp", HOOK], ["rotate", "crm"]):
        done = keyed("targets", *words)
        assert done.code == 2
        assert done.err.endswith("pip install '.[webhooks]' in a checkout of Duly\n")


def test_a_cloud_event_is_sent_where_the_format_says_so(keyed: Shell, receiver: Receiver) -> None:
    put(keyed, "crm", receiver.url, "--format", "cloudevents")
    keyed.at("now", "--type", "x", "--target", "crm")
    keyed.at("now", "--type", "x", "--webhook", receiver.url, "--format", "cloudevents")
    keyed("tick")
    assert [json.loads(got.body)["specversion"] for got in receiver.received] == ["1.0", "1.0"]
    assert "cloudevents" in targets(keyed, "show", "crm")


# -- where events go


def test_an_event_tells_its_destination_and_is_found_by_it(keyed: Shell) -> None:
    put(keyed, "crm", HOOK)
    put(keyed, "legacy", HOOK, "--channel", "http")
    stored, plain, inline = (
        keyed.at("+1h", "--type", "x", *words)
        for words in (["--target", "crm"], ["--target", "legacy"], ["--webhook", f"{HOOK}?token=1"])
    )
    here = keyed.at("+1h", "--type", "x")
    assert [keyed.show(id)["target"] for id in (stored, plain, inline, here)] == [
        {"webhook": {"target": "crm"}},
        {"http": {"target": "legacy"}},
        {"webhook": f"{HOOK}?token=1"},
        None,
    ]

    def found(destination: str) -> list[str]:
        listed = keyed("events", "list", "--destination", destination, "--json").json["events"]
        return [event["id"] for event in listed]

    assert found("crm") == [stored]
    assert found("https://hooks.example") == found(HOOK) == found("HTTPS://Hooks.Example:443/x") == [inline]
    assert found("nowhere") == []
    assert keyed.show(inline)["destination"] == "https://hooks.example"
    assert "destination  https://hooks.example" in keyed("events", "show", inline).out
    for columns in (80, 200):
        keyed.set(COLUMNS=str(columns))
        assert "https://hooks.example" in keyed("events", "list").out
    assert keyed("at", "+1h", "--type", "x", "--target", "crm").out.endswith("to crm\n")


def test_a_target_that_is_not_there_yet_is_refused(keyed: Shell) -> None:
    done = keyed("at", "+1h", "--type", "x", "--target", "crm", "--tenant", "acme")
    assert (done.code, done.out) == (2, "")
    assert "there is no target 'crm' in tenant 'acme': create it first" in done.err


def test_a_schedule_can_go_to_a_target(keyed: Shell) -> None:
    put(keyed, "crm", HOOK, "--tenant", "acme")
    words = ("schedules", "put", "daily", "--type", "x", "--cron", "@daily")
    done = keyed(*words, "--target", "crm", "--tenant", "acme", "--json")
    assert (done.err, done.json["target"]) == ("", {"webhook": {"target": "crm"}})
    assert keyed(*words, "--webhook", HOOK, "--json").json["target"] == {"webhook": HOOK}
    assert keyed(*words, "--json").json["target"] is None
    assert keyed(*words, "--file", "x", "--webhook", HOOK).code == 2


# -- what is parked


def test_the_events_of_a_disabled_target_wait_until_it_is_enabled(keyed: Shell, receiver: Receiver) -> None:
    put(keyed, "crm", receiver.url)
    assert targets(keyed, "disable", "crm", "--reason", "it moves").startswith("crm is disabled: ")
    id = keyed.at("now", "--type", "x", "--target", "crm")
    assert keyed("tick").out.startswith("1 held; in ")
    assert keyed.show(id)["held"] == "target crm is disabled: it moves"
    told = shown(keyed, "crm")
    assert (told["enabled"], told["parked"], told["probe_at"], told["waiting"]) == (
        False,
        "is disabled: it moves",
        None,
        1,
    )
    for words in (["list"], ["destinations"], ["parked"], ["show", "crm"]):
        for columns in (80, 200):
            keyed.set(COLUMNS=str(columns))
            drawn = targets(keyed, *words)
            assert "disabled" in drawn
            assert "it moves" in drawn
            assert all(len(line.rstrip()) <= columns for line in drawn.splitlines())
    refused = keyed("targets", "probe", "crm")
    assert refused.code == 1
    assert "disabled until a person enables it" in refused.err
    assert targets(keyed, "enable", "crm") == "crm is enabled: 1 event that waited for it may start\n"
    assert keyed("tick").out.startswith("1 completed;")
    assert shown(keyed, "crm")["waiting"] == 0
    acts = [(entry["act"], entry["detail"]) for entry in shown(keyed, "crm")["history"]][1:]
    assert acts == [("disabled", "it moves"), ("enabled", None)]
    again = keyed("targets", "enable", "crm")
    assert (again.code, again.out) == (1, "")
    assert "there is nothing to enable" in again.err


def test_a_url_can_be_disabled_without_a_target(keyed: Shell, receiver: Receiver) -> None:
    url = f"{receiver.url}/in"
    held = keyed.at("now", "--type", "x", "--webhook", f"{url}?token=1")
    keyed.at("now", "--type", "x", "--webhook", f"{receiver.url}/other")
    told = json.loads(targets(keyed, "disable", f"{url}?token=1", "--json"))["destinations"]
    assert [one["destination"] for one in told] == [url]
    assert keyed("tick").out.startswith("1 completed, 1 held;")
    assert "held" in keyed("events", "list").out
    assert shown(keyed, url)["waiting"] == 1
    assert targets(keyed, "show", url).splitlines()[0] == f"{url}  disabled"
    [listed] = json.loads(targets(keyed, "parked", "--json"))["destinations"]
    assert (listed["destination"], listed["waiting"]) == (url, 1)
    released = json.loads(targets(keyed, "enable", url, "--json"))["destinations"]
    assert [one["released"] for one in released] == [1]
    assert keyed("targets", "parked").err == "no destination is parked\n"
    assert keyed("tick").out.startswith("1 completed;")
    assert keyed.show(held)["status"] == "COMPLETED"


def test_a_target_that_answered_410_is_disabled_and_a_parked_one_can_be_probed(
    keyed: Shell, receiver: Receiver, url: str
) -> None:
    put(keyed, "gone", receiver.url)
    receiver.status = 410
    keyed.at("now", "--type", "x", "--target", "gone")
    keyed("tick")
    assert shown(keyed, "gone")["parked"].startswith("is disabled: 410 Gone from 127.0.0.1")
    receiver.status = 200
    put(keyed, "crm", receiver.url)
    park(url, "crm", "is parked: 503 Service Unavailable from hooks.example")
    keyed.at("now", "--type", "x", "--target", "crm")
    keyed("tick")
    assert "NEXT TRY" in targets(keyed, "list")
    assert "503 Service Unavailable" in targets(keyed, "show", "crm")
    assert targets(keyed, "probe", "crm") == "crm is tried by the next worker that checks it\n"
    assert keyed("tick").out.startswith("1 completed;")
    assert shown(keyed, "crm")["parked"] is None


def park(url: str, destination: str, reason: str) -> None:
    """As a worker does that finds it down."""

    async def down() -> None:
        async with Duly(url) as duly:
            await duly.store.park("default", destination, reason, timedelta(minutes=5))

    asyncio.run(down())


def test_one_refused_target_of_several_does_not_keep_the_others(keyed: Shell) -> None:
    put(keyed, "crm", HOOK)
    done = keyed("targets", "disable", "crm", "nowhere", "https://x.example")
    assert done.code == 1
    assert done.err == "duly: there is no target 'nowhere' in tenant 'default'\n"
    assert [line.split(" is ")[0] for line in done.out.splitlines()] == ["crm", "https://x.example"]


# -- limits


def test_limits_of_a_target_are_shown_and_removed(keyed: Shell) -> None:
    put(keyed, "crm", HOOK)
    told = targets(keyed, "limit", "crm", "--concurrency", 5, "--rate", "600/m")
    assert told == "crm may have 5 at once from each worker, 10/s from all workers together\n"
    told = targets(keyed, "limit", "--rate", "2/h", "--tenant", "acme")
    assert told == "all destinations of acme may have 2/h from all workers together\n"
    targets(keyed, "limit", "https://X.example/", "--concurrency", 3)
    listed = json.loads(targets(keyed, "destinations", "--json"))["destinations"]
    assert [(one["tenant"], one["destination"], one["concurrency"], one["rate"]) for one in listed] == [
        ("acme", None, None, "2/h"),
        ("default", "crm", 5, "10/s"),
        ("default", "https://x.example", 3, None),
    ]
    assert (shown(keyed, "crm")["concurrency"], shown(keyed, "crm")["rate"]) == (5, "10/s")
    for columns in (80, 200):
        keyed.set(COLUMNS=str(columns))
        drawn = targets(keyed, "destinations")
        assert "all destinations" in drawn
        assert "5 at once, 10/s" in drawn
    assert targets(keyed, "limit", "crm", "--rate", "1/s") == "crm may have 1/s from all workers together\n"
    assert targets(keyed, "limit", "crm", "--none") == "crm is not limited\n"
    assert shown(keyed, "crm")["concurrency"] is None


# -- lists


def test_pages_of_targets_follow_one_another_without_gaps_or_repeats(keyed: Shell) -> None:
    for name, tenant in (("a", "acme"), ("a", "default"), ("b", "default")):
        put(keyed, name, HOOK, "--tenant", tenant)
        targets(keyed, "limit", name, "--rate", "1/s", "--tenant", tenant)
    targets(keyed, "limit", "--rate", "1/s")
    targets(keyed, "limit", "https://x.example", "--rate", "1/s")
    for command, many in (("list", 3), ("destinations", 5)):
        for of_tenant in ([], ["--tenant", "default"]):
            seen: list[Any] = []
            after: list[str] = []
            while True:
                page = json.loads(targets(keyed, command, "--limit", 1, *of_tenant, *after, "--json"))
                [listed] = [page[name] for name in page if name != "next"]
                seen += [(one["tenant"], one.get("name", one.get("destination"))) for one in listed]
                if page["next"] is None:
                    break
                after = ["--after", page["next"]]
            assert len(seen) == len(set(seen)) == many - len(of_tenant) // 2
    assert "for the next page, add --after" in keyed("targets", "list", "--limit", 1).err
    assert (
        "for the next page, add --after ''" in keyed("targets", "destinations", "--limit", 1, "--tenant", "default").err
    )


def test_a_list_without_targets_says_so(keyed: Shell) -> None:
    assert keyed("targets", "list").err == "no targets\n"
    assert keyed("targets", "list", "--after", "x").err == "no more targets\n"
    assert keyed("targets", "destinations").err == "no limits, and no destination is parked\n"
    missing = keyed("targets", "show", "nowhere")
    assert (missing.code, missing.err) == (1, "duly: there is no target 'nowhere' in tenant 'default'\n")


@pytest.mark.parametrize("columns", [80, 120, 130, 200])
def test_the_list_of_targets_fits_the_terminal_and_shows_names_whole(keyed: Shell, columns: int) -> None:
    keyed.set(COLUMNS=str(columns))
    put(keyed, "customer-relations", f"{HOOK}/{'x' * 300}", "--tenant", "t" * 30)
    targets(keyed, "disable", "customer-relations", "--reason", "it moves " * 20, "--tenant", "t" * 30)
    drawn = targets(keyed, "list")
    assert all(len(line.rstrip()) <= columns for line in drawn.splitlines())
    assert "customer-relations" in drawn


def test_a_deleted_target_is_gone_and_its_events_become_dead_letters(keyed: Shell, receiver: Receiver) -> None:
    put(keyed, "crm", f"{receiver.url}/in")
    id = keyed.at("now", "--type", "x", "--target", "crm")
    refused = keyed("targets", "delete", "crm")
    assert (refused.code, "target 'crm' is still needed for 1 event" in refused.err) == (1, True)
    assert targets(keyed, "delete", "crm", "--force") == f"deleted crm  webhook to {receiver.url}/in\n"
    keyed("tick")
    assert keyed.show(id)["status"] == "FAILED"
    assert "there is no target 'crm'" in keyed.show(id)["last_error"]


# -- what a receiver had to say


def test_a_table_shows_that_a_target_is_parked_and_show_also_the_answer_of_the_receiver(
    keyed: Shell, receiver: Receiver
) -> None:
    receiver.status, receiver.answer = 400, b"the field\x1b[2J 'name' is missing"
    id = keyed.at("now", "--type", "x", "--webhook", receiver.url)
    keyed("tick")
    fact, said = keyed.show(id)["last_error"].split("\n")
    assert fact.startswith("400 Bad Request from 127.0.0.1")
    listed = keyed("events", "list").out
    assert fact in listed
    assert "is missing" not in listed
    whole = keyed("events", "show", id).out
    lines = [line.strip() for line in whole.splitlines()]
    assert lines.count(said) == 2, whole  # beside the last error, and in the history
    assert f"last error   {fact}" in lines
    assert "\x1b" not in whole


# -- a new key


NEWER = "another key of more than thirty-two characters"
THIRD = "a third key of more than thirty-two characters"


def test_resealing_encrypts_all_targets_with_the_new_key_so_that_the_old_one_can_go(keyed: Shell) -> None:
    for name in ("a", "b"):
        put(keyed, name, HOOK)
    put(keyed, "plain", HOOK, "--channel", "http")
    put(keyed, "c", HOOK, "--tenant", "acme")
    keyed.set(DULY_SECRET_KEY=f"{NEWER},{KEY}")
    put(keyed, "d", HOOK)
    assert targets(keyed, "reseal", "--tenant", "acme") == "encrypted 1 target again; 0 used the first key already\n"
    assert targets(keyed, "reseal") == "encrypted 2 targets again; 2 used the first key already\n"
    assert json.loads(targets(keyed, "reseal", "--json")) == {"resealed": 0, "unchanged": 4, "closed": []}
    assert "resealed" in [entry["act"] for entry in shown(keyed, "a")["history"]]
    keyed.set(DULY_SECRET_KEY=NEWER)
    found = json.loads(keyed("doctor", "--json").out)
    assert "DULY_SECRET_KEY decrypts the secrets of 4 targets" in json.dumps(found)
    targets(keyed, "rotate", "a")


def test_a_target_that_no_key_decrypts_is_named_and_the_others_are_encrypted_anew(keyed: Shell) -> None:
    put(keyed, "lost", HOOK)
    keyed.set(DULY_SECRET_KEY=THIRD)
    put(keyed, "found", HOOK)
    keyed.set(DULY_SECRET_KEY=f"{NEWER},{THIRD}")
    done = keyed("targets", "reseal")
    assert done.code == 1
    assert done.out == "encrypted 1 target again; 0 used the first key already\n"
    assert "target lost cannot be decrypted with any key in DULY_SECRET_KEY" in done.err
    keyed.set(DULY_SECRET_KEY=f"{NEWER},{KEY}")
    assert targets(keyed, "reseal") == "encrypted 1 target again; 1 used the first key already\n"
    keyed.set(DULY_SECRET_KEY="")
    refused = keyed("targets", "reseal")
    assert refused.code == 2
    assert "DULY_SECRET_KEY, which is not set" in refused.err


# -- test


def test_a_target_is_tested_and_what_came_back_is_shown(keyed: Shell, receiver: Receiver) -> None:
    keyed.set(DULY_WEBHOOK_ALLOW="127.0.0.0/8")
    put(keyed, "crm", receiver.url)
    done = keyed("targets", "test", "crm")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("delivered, HTTP 200 in 0.")
    [received] = receiver.received
    assert (received.headers["duly-test"], json.loads(received.body)["test"]) == ("true", True)
    receiver.status, receiver.answer = 503, b"moving\nhouse"
    failed = keyed("targets", "test", "crm")
    assert failed.code == 1
    assert "failed, HTTP 503" in failed.out
    assert "\n  moving\n  house" in failed.out
    assert shown(keyed, "crm")["history"][-1]["act"] == "tested"
    told = keyed("targets", "test", "--webhook", receiver.url, "--json").json
    assert (told["outcome"], told["status"], told["target"]) == ("failed", 503, None)


def test_a_test_needs_one_target(keyed: Shell) -> None:
    for words in ([], ["crm", "--webhook", HOOK], ["--webhook", HOOK, "--to", "nats:x"]):
        assert keyed("targets", "test", *words).code == 2
    missing = keyed("targets", "test", "nobody")
    assert (missing.code, "there is no target 'nobody'" in missing.err) == (1, True)


def test_a_command_is_tested_on_this_machine(keyed: Shell) -> None:
    done = keyed("targets", "test", "--command", "echo test is $DULY_TEST")
    assert (done.code, "test is true" in done.out) == (0, True)
