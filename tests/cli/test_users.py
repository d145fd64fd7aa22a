"""``duly users``: add, look, change, delete and refresh."""

import getpass
import json
import re
from typing import Any

import pytest

from tests.cli.conftest import Shell

ADA = ("--first-name", "Ada", "--last-name", "Lovelace", "--date-of-birth", "1990-12-10", "--timezone", "Europe/London")
NOBODY = "01a1e15c-88fe-77cf-98f6-68e11067ac37"

NAMEDAY = """
from duly import Duly, yearly

duly = Duly()


@duly.event_types.register
class Nameday:
    name = "nameday"
    depends_on = ("first_name",)

    def rule(self, user, at):
        return yearly("11-25", at=at)

    def message(self, user):
        return f"{user.first_name} has a nameday"

    def target(self, user):
        return None
"""
"""An app with an event type of its own."""

ODD = NAMEDAY.replace('return yearly("11-25", at=at)', 'raise ValueError("no such saint")')


def users(shell: Shell, *words: object) -> str:
    """What a command prints that ends well."""
    result = shell("users", *words)
    told = [line for line in result.err.splitlines() if "have nowhere to go" not in line]
    assert (result.code, told) == (0, [])
    return result.out


def added(shell: Shell, *words: object) -> Any:
    return json.loads(users(shell, "add", *ADA, *words, "--json"))


def shown(shell: Shell, name: str, *words: object) -> Any:
    return json.loads(users(shell, "show", name, *words, "--json"))


# -- adding


def test_text_that_is_no_json_is_told_with_an_example_and_with_all_else_that_is_wrong(lite: Shell) -> None:
    result = lite("users", "add", *ADA[:-1], "Mars", "--target", "{webhook}", "--attributes", "plan=gold", "--json")
    assert result.code == 2
    said = {problem["path"]: problem["message"] for problem in result.error["problems"]}
    assert set(said) == {"timezone", "target", "attributes"}
    assert said["target"].startswith("is not valid JSON: ")
    assert said["target"].endswith("""as in --target '{"webhook": "https://…"}'""")
    assert said["attributes"].endswith("""as in --attributes '{"plan": "gold"}'""")


@pytest.mark.parametrize("option", ["target", "attributes"])
def test_an_update_with_text_that_is_no_json_changes_nothing(lite: Shell, option: str) -> None:
    added(lite, "--key", "ada")
    result = lite("users", "update", "ada", f"--{option}", "plan=gold", "--leap", "never", "--json")
    assert result.code == 2
    assert {problem["path"] for problem in result.error["problems"]} == {option, "leap"}
    assert "is not valid JSON" in result.err
    assert shown(lite, "ada")[option] in (None, {})


def test_the_help_tells_what_is_required_of_a_new_user_only(shell: Shell) -> None:
    add, update = (re.sub(r"\s+", " ", shell("users", verb, "--help").out) for verb in ("add", "update"))
    assert [add.count(word) for word in ("Required", "null")] == [4, 0]
    assert [update.count(word) for word in ("Required", "null")] == [0, 1]


def test_users_add_tells_the_user_and_the_planned_events_in_the_users_local_time(on: Shell) -> None:
    told = users(on, "add", *ADA, "--anniversary", "2015-06-20", "--key", "ada")
    first, header, *planned = told.splitlines()
    assert re.fullmatch(r"added \S{36}  Ada Lovelace", first)
    assert header.split() == ["PLANNED", "Europe/London", "UTC"]
    ahead = {line.split()[0]: line for line in planned}
    assert re.search(r"\w{3} 20\d\d-12-10 09:00:00  20\d\d-12-10 09:00:00  in \d", ahead["birthday"])
    assert re.search(r"\w{3} 20\d\d-06-20 09:00:00  20\d\d-06-20 08:00:00  in \d", ahead["anniversary"])


def test_users_erase_tells_what_it_scrubbed(on: Shell) -> None:
    user = added(on, "--key", "ada", "--anniversary", "2015-06-20")
    refused = on("users", "erase", "ada")
    assert (refused.code, f"this would erase user {user['id']} for ever: add --yes" in refused.err) == (2, True)
    told = users(on, "erase", "ada", "--yes")
    assert told == (
        f"user {user['id']} deleted and erased: 2 events scrubbed (2 cancelled, 0 dead letters discarded), "
        "3 history entries\n"
    )
    again = on("users", "erase", user["id"], "--json", "--yes")
    assert (again.code, again.json["deleted"], again.json["events"]) == (0, False, 2)
    assert on("users", "erase", "ada", "--yes").code == 1


def test_users_add_tells_programs_every_field(on: Shell) -> None:
    user = added(
        on,
        *("--key", "ada", "--anniversary", "2015-06-20", "--delivery-time", "08:30", "--leap", "mar1"),
        *("--attributes", '{"cat": "Felix"}', "--tenant", "acme"),
    )
    assert user["created_at"].endswith("Z")
    assert user["updated_at"].endswith("Z")
    assert [event["type"] for event in user.pop("ahead")] != []
    [warning] = user.pop("warnings")
    assert warning.startswith("events of anniversary and birthday have nowhere to go")
    del user["id"], user["created_at"], user["updated_at"]
    assert user == {
        "tenant": "acme",
        "key": "ada",
        "first_name": "Ada",
        "last_name": "Lovelace",
        "date_of_birth": "1990-12-10",
        "timezone": "Europe/London",
        "anniversary": "2015-06-20",
        "delivery_time": "08:30:00",
        "leap": "mar1",
        "target": None,
        "attributes": {"cat": "Felix"},
        "change": "added",
        "unregistered": [],
    }


def test_every_problem_of_a_user_is_told_at_once_and_nothing_is_stored(on: Shell) -> None:
    result = on("users", "add", "--first-name", "Ada", "--date-of-birth", "1990-02-30", "--timezone", "Mars", "--json")
    assert result.code == 2
    assert {problem["path"] for problem in result.error["problems"]} == {"last_name", "date_of_birth", "timezone"}
    assert on("users", "list").err == "no users\n"


def test_json_that_cannot_be_read_names_its_option(lite: Shell) -> None:
    result = lite("users", "add", *ADA, "--attributes", "{cat: 1}")
    assert result.code == 2
    assert "as in --attributes '" in result.err


def test_a_key_that_is_taken_fails_and_says_what_to_do(on: Shell) -> None:
    added(on, "--key", "ada")
    result = on("users", "add", *ADA, "--key", "ada")
    assert result.code == 1
    assert "update that one, or choose another key" in result.err


def test_adding_a_user_makes_the_database(shell: Shell) -> None:
    assert shell("users", "add", *ADA, "--db", "sqlite:///new.db").code == 0


@pytest.mark.parametrize(("columns", "in_utc", "how_far"), [(80, True, True), (60, False, True), (40, False, False)])
def test_on_a_narrow_terminal_columns_are_left_out_and_no_time_is_cut(
    lite: Shell, columns: int, in_utc: bool, how_far: bool
) -> None:
    users(lite, "add", *ADA[:-1], "America/Argentina/ComodRivadavia", "--key", "ada", "--anniversary", "2015-06-20")
    lite.set(COLUMNS=str(columns))
    for told in (users(lite, "show", "ada"), users(lite, "update", "ada", "--first-name", "Augusta")):
        table = told[told.index("PLANNED") :].partition("\n\n")[0]
        [line] = [line for line in table.splitlines() if line.startswith("anniversary")]
        assert len(line) <= columns
        assert re.search(r" \w{3} \d{4}-06-20 09:00:00( |$)", line)
        assert bool(re.search(r"  \d{4}-06-20 12:00:00( |$)", line)) is in_utc
        assert bool(re.search(r"  in \S", line)) is how_far


@pytest.mark.parametrize("columns", [80, 69, 68, 40])
def test_the_times_of_the_latest_events_are_never_cut(lite: Shell, columns: int) -> None:
    added(lite, "--key", "ada")
    lite.set(COLUMNS=str(columns))
    latest = users(lite, "show", "ada").partition("latest events")[2]
    assert re.search(r"PENDING +\d{4}-12-10 09:00:00", latest)
    assert all(len(line) <= columns for line in latest.splitlines())


# -- naming


def test_a_user_is_named_by_its_id_or_by_its_key(on: Shell) -> None:
    id = added(on, "--key", "ada")["id"]
    assert shown(on, id)["id"] == shown(on, "ada")["id"] == id


def test_a_key_that_looks_like_an_id_is_found_all_the_same(on: Shell) -> None:
    id = added(on, "--key", NOBODY)["id"]
    assert shown(on, NOBODY)["id"] == id


def test_a_key_belongs_to_a_tenant(on: Shell) -> None:
    ours, theirs = added(on, "--key", "ada")["id"], added(on, "--key", "ada", "--tenant", "acme")["id"]
    assert shown(on, "ada")["id"] == ours
    assert shown(on, "ada", "--tenant", "acme")["id"] == theirs
    result = on("users", "show", ours, "--tenant", "acme")
    assert (result.code, result.err) == (1, f"duly: there is no user {ours} in tenant 'acme'\n")


@pytest.mark.parametrize("verb", [["show"], ["update", "--leap", "skip"], ["delete"]])
@pytest.mark.parametrize("name", [NOBODY, "nobody"])
def test_a_user_who_is_not_there_fails_with_one_line(lite: Shell, verb: list[str], name: str) -> None:
    result = lite("users", verb[0], name, *verb[1:])
    assert (result.code, result.out) == (1, "")
    assert "there is no user " in result.err
    assert len(result.err.splitlines()) == 1


# -- looking


@pytest.mark.parametrize("columns", [80, 120, 150, 200])
def test_the_list_of_users_fits_the_terminal_and_shows_what_matters(lite: Shell, columns: int) -> None:
    lite.set(COLUMNS=str(columns))
    id = added(lite, "--key", "ada", "--anniversary", "2015-06-20")["id"]
    other = added(lite, "--tenant", "t" * 100, "--key", "k" * 400)["id"]
    listed = users(lite, "list")
    assert all(len(line.rstrip()) <= columns for line in listed.splitlines())
    for told in (id, other, "Ada Lovelace", "1990-12-10", "Europe/London", "09:00:00"):
        assert told in listed
    assert re.search(r"birthday|anniversary", listed)


def test_the_list_of_users_tells_the_soonest_event_of_each(on: Shell) -> None:
    added(on, "--anniversary", "2015-06-20")
    [user] = json.loads(users(on, "list", "--json"))["users"]
    ahead = shown(on, user["id"])["ahead"]
    assert len(ahead) == 2
    assert user["next_event"]["id"] == ahead[0]["id"]
    assert ahead[0]["due_at"] < ahead[1]["due_at"]


def test_pages_of_users_follow_one_another_the_newest_first(on: Shell) -> None:
    everybody = [added(on)["id"] for _ in range(5)][::-1]
    seen: list[str] = []
    after: list[str] = []
    while True:
        page = json.loads(users(on, "list", "--limit", 2, *after, "--json"))
        seen += [user["id"] for user in page["users"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert seen == everybody
    assert on("users", "list", "--limit", 2).err == f"for the next page, add --after {everybody[1]}\n"
    assert on("users", "list", "--after", everybody[-1]).err == "no more users\n"


def test_a_list_without_users_says_so(on: Shell) -> None:
    result = on("users", "list")
    assert (result.code, result.out, result.err) == (0, "", "no users\n")
    assert json.loads(users(on, "list", "--json")) == {"users": [], "next": None}


@pytest.mark.parametrize("columns", [80, 160])
def test_show_tells_all_of_a_user(on: Shell, columns: int) -> None:
    on.set(COLUMNS=str(columns))
    id = added(on, "--key", "ada", "--attributes", '{"cat": "Felix"}')["id"]
    users(on, "update", "ada", "--anniversary", "2015-06-20")
    told = users(on, "show", "ada")
    assert all(len(line.rstrip()) <= columns for line in told.splitlines())
    assert told.splitlines()[0] == f"{id}  Ada Lovelace"
    for fact in ("1990-12-10", '{"cat":"Felix"}', "ahead", "latest events", "PENDING", "history"):
        assert fact in told
    assert f"created by {getpass.getuser()}" in told
    assert f"changed by {getpass.getuser()}: anniversary" in told


def test_reading_users_makes_no_database(shell: Shell) -> None:
    for words in (["list"], ["show", "ada"], ["update", "ada", "--leap", "skip"], ["delete", "ada"], ["refresh"]):
        assert shell("users", *words, "--db", "sqlite:///typo.db").code == 1
    assert not (shell.folder / "typo.db").exists()


def test_fields_of_users_cannot_send_control_sequences_to_the_terminal(on: Shell, url: str) -> None:
    added(on, "--key", "ada", "--attributes", '{"cat": "\\u001b[2J"}')
    assert "\x1b" not in users(on, "show", "ada") + users(on, "list")


# -- changing


def test_users_update_tells_what_has_changed_and_what_is_planned_now(on: Shell) -> None:
    added(on, "--key", "ada", "--anniversary", "2015-06-20")
    told = users(on, "update", "ada", "--timezone", "Asia/Tokyo", "--clear", "anniversary")
    first, header, *planned = told.splitlines()
    assert first.endswith("Ada Lovelace: anniversary, timezone")
    assert first.startswith("changed ")
    assert "Asia/Tokyo" in header
    [birthday] = planned
    assert re.search(r"12-10 09:00:00  20\d\d-12-10 00:00:00", birthday)


def test_an_update_to_the_same_values_says_unchanged(on: Shell) -> None:
    id = added(on, "--key", "ada")["id"]
    assert users(on, "update", "ada", "--first-name", "Ada").splitlines()[0] == f"unchanged {id}  Ada Lovelace"
    assert [entry["act"] for entry in shown(on, "ada")["history"]] == ["created"]
    assert json.loads(users(on, "update", "ada", "--first-name", "Ada", "--json"))["change"] == "unchanged"


def test_every_optional_field_of_a_user_can_be_removed(on: Shell) -> None:
    options = ("--anniversary", "2015-06-20", "--delivery-time", "08:30", "--leap", "skip", "--attributes", '{"a": 1}')
    id = added(on, "--key", "ada", *options)["id"]
    fields = ("key", "anniversary", "delivery-time", "leap", "target", "attributes")
    users(on, "update", id, *(word for field in fields for word in ("--clear", field)))
    left = shown(on, id)
    assert [left[field.replace("-", "_")] for field in fields] == [None, None, None, None, None, {}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["update", "ada"], "nothing to change"),
        (["update", "ada", "--clear", "timezone"], "only these can be removed: key, anniversary"),
        (["update", "ada", "--clear", "leap", "--leap", "skip"], "cannot be used together"),
        (["update", "ada", "--timezone", "Mars"], "timezone: "),
        (["update"], "update --help"),
        (["list", "--after", "ada"], "after: 'ada' is not a user's id"),
        (["list", "--limit", "0"], "--limit"),
        (["add", *ADA, "--target", '{"pigeon": 1}'], "target"),
    ],
)
def test_wrong_use_of_users_exits_with_2_and_one_line_that_helps(lite: Shell, words: list[str], said: str) -> None:
    added(lite, "--key", "ada")
    result = lite("users", *words)
    assert (result.code, result.out) == (2, "")
    [line] = result.err.splitlines()
    assert said in line


def test_events_of_types_that_are_not_registered_here_are_named(on: Shell) -> None:
    on.write("nameday.py", NAMEDAY)
    user = added(on, "--key", "ada", "--app", "nameday")
    assert {event["type"] for event in user["ahead"]} == {"birthday", "nameday"}
    result = on("users", "update", "ada", "--first-name", "Augusta")
    assert result.code == 0
    assert "\nnot registered here as event types: nameday. " in result.err
    assert "`duly users refresh --app …`" in result.err
    assert on("users", "update", "ada", "--first-name", "Augusta").err.count("not registered here") == 0
    assert json.loads(users(on, "update", "ada", "--first-name", "Ada", "--json"))["unregistered"] == ["nameday"]
    assert (
        on("users", "update", "ada", "--first-name", "Byron", "--app", "nameday").err.count("not registered here") == 0
    )


# -- deleting


def test_users_delete_tells_how_many_events_were_cancelled(on: Shell) -> None:
    id = added(on, "--key", "ada", "--anniversary", "2015-06-20")["id"]
    told = users(on, "delete", "ada", "--reason", "she asked for it")
    assert told == f"deleted {id}  Ada Lovelace: 2 waiting events were cancelled\n"
    assert on("users", "show", id).code == 1
    left = on("events", "list", "--user", id, "--json").json["events"]
    assert {event["status"] for event in left} == {"CANCELLED"}
    assert "she asked for it" in on("events", "show", left[0]["id"]).out


def test_users_delete_tells_programs_which_user_was_deleted(on: Shell) -> None:
    id = added(on, "--key", "ada")["id"]
    told = json.loads(users(on, "delete", id, "--json"))
    assert told == {"id": id, "tenant": "default", "key": "ada", "cancelled": 1}


# -- events of users


def test_events_are_found_by_their_user_and_by_their_schedule(on: Shell) -> None:
    ada, bob = added(on, "--key", "ada")["id"], added(on)["id"]
    on("schedules", "put", "weekly", "--type", "report", "--every", "7d")

    def found(*words: str) -> list[Any]:
        result = on("events", "list", *words, "--json")
        assert result.code == 0
        return [(event["type"], event["user_id"]) for event in result.json["events"]]

    assert found("--user", ada) == found("--user", "ada") == [("birthday", ada)]
    assert found("--user", bob) == [("birthday", bob)]
    assert found("--schedule", "weekly") == [("report", None)]
    assert found("--user", "ada", "--schedule", "weekly") == []
    assert on("events", "list", "--user", "nobody").code == 1
    missing = on("events", "list", "--schedule", "nothing")
    assert (missing.code, missing.err) == (2, "duly: schedule: there is no schedule 'nothing'\n")


@pytest.mark.parametrize("columns", [80, 160])
def test_events_name_their_user(on: Shell, columns: int) -> None:
    on.set(COLUMNS=str(columns))
    id = added(on)["id"]
    listed = on("events", "list").out
    assert id in listed
    assert all(len(line.rstrip()) <= columns for line in listed.splitlines())
    [event] = on("events", "list", "--json").json["events"]
    assert re.search(rf"user +{id}", on("events", "show", event["id"]).out)


# -- refreshing


def test_refresh_lets_everybody_have_the_events_of_a_new_type(on: Shell) -> None:
    for _ in range(3):
        added(on)
    on.write("nameday.py", NAMEDAY)
    assert users(on, "refresh", "--app", "nameday") == "3 users checked, 3 events changed\n"
    assert users(on, "refresh", "--app", "nameday") == "3 users checked, 0 events changed\n"


def test_without_an_app_refresh_says_which_types_it_knows(on: Shell) -> None:
    added(on)
    result = on("users", "refresh")
    assert (result.code, result.out) == (0, "1 user checked, 0 events changed\n")
    assert "without --app, only Duly's own event types were applied: anniversary, birthday" in result.err


def test_a_user_whom_a_type_cannot_use_is_told_of_and_the_exit_code_is_1(on: Shell) -> None:
    id = added(on)["id"]
    on.write("odd.py", ODD)
    result = on("users", "refresh", "--app", "odd")
    assert (result.code, result.out) == (1, "1 user checked, 0 events changed\n")
    assert f"user {id}: nameday: its event type cannot use this user: ValueError: no such saint" in result.err
    told = on("users", "refresh", "--app", "odd", "--json").json
    assert told["users"] == 1
    assert [problem["path"] for problem in told["refused"][id]] == ["nameday"]


def test_the_app_of_the_environment_counts_also_beside_db(on: Shell, url: str) -> None:
    on.write("nameday.py", NAMEDAY)
    on.set(DULY_APP="nameday")
    user = added(on, "--db", url)
    assert {event["type"] for event in user["ahead"]} == {"birthday", "nameday"}


# -- what is logged


def test_no_name_of_a_user_reaches_the_log(on: Shell, url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="duly")
    added(on, "--key", "ada")
    users(on, "update", "ada", "--last-name", "Byron")
    users(on, "delete", "ada")
    assert not [said for said in ("Ada", "Lovelace", "Byron", "1990-12-10") if said in caplog.text]


# -- attributes, texts and default targets


def test_users_are_listed_by_their_attributes(shell: Shell) -> None:
    added(shell, "--key", "a", "--attributes", '{"plan": "pro", "n": 42}')
    added(shell, "--key", "b", "--attributes", '{"plan": "free", "n": "42"}')

    def who(*words: str) -> list[str]:
        options = [one for word in words for one in ("--attribute", word)]
        return [user["key"] for user in json.loads(users(shell, "list", *options, "--json"))["users"]]

    assert (who("plan=pro"), who("n=42"), who('n="42"'), who("n=42", "plan=free")) == (["a"], ["b", "a"], ["b"], ["b"])
    refused = shell("users", "list", "--attribute", "plan")
    assert refused.code == 2
    assert "expected NAME=VALUE" in refused.err


def test_a_text_and_a_target_of_an_event_type_are_set_and_shown(shell: Shell) -> None:
    warned = shell("users", "add", *ADA, "--attributes", '{"language": "de"}')
    assert "warning: events of birthday have nowhere to go" in warned.err
    done = shell("event-types", "update", "birthday", "--language", "de", "--text", "Alles Gute, {first_name}!")
    assert (done.code, done.err) == (0, "")
    done = shell("event-types", "update", "birthday", "--webhook", "https://crm.example")
    assert (done.code, done.err) == (0, "")
    shown = json.loads(shell("event-types", "show", "birthday", "--json").out)
    assert (shown["texts"], shown["target"]) == (
        {"de": "Alles Gute, {first_name}!"},
        {"webhook": "https://crm.example"},
    )
    events = json.loads(shell("events", "list", "--json").out)["events"]
    assert [event["payload"] for event in events] == [{"message": "Alles Gute, Ada!"}]
    assert "https://crm.example" in shell("event-types", "list").out
    cleared = shell("event-types", "update", "birthday", "--language", "de", "--clear-text", "--clear-target")
    assert cleared.code == 0
    shown = json.loads(shell("event-types", "show", "birthday", "--json").out)
    assert (shown["texts"], shown["target"]) == ({}, None)


def test_a_change_of_an_event_type_that_changes_nothing_is_refused(shell: Shell) -> None:
    for words, said in (
        ((), "nothing to change"),
        (("--language", "de"), "--language needs"),
        (("--text", "a", "--clear-text"), "cannot be used together"),
        (("--webhook", "https://a.example", "--clear-target"), "cannot be used with another target"),
        (("--text", "{x}"), "known fields: {first_name}"),
    ):
        result = shell("event-types", "update", "birthday", *words)
        assert (result.code, said in result.err) == (2, True), (words, result.err)
