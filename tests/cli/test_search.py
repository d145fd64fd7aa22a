"""``duly search``."""

from tests.cli.conftest import Shell


def test_events_and_schedules_are_found_from_the_command_line(on: Shell) -> None:
    id = on.at("+1h", "--type", "greet", "--key", "greet-7")
    assert on("schedules", "put", "greetings", "--type", "greet", "--every", "1h").code == 0
    assert on("users", "add", "--first-name", "Ada", "--last-name", "Lovelace", "--date-of-birth", "1990-12-10",
              "--timezone", "UTC").code == 0  # fmt: skip
    [found] = on("search", f"webhook-id: {id}", "--json").json["results"]
    assert (found["kind"], found["id"], found["name"], found["status"]) == ("event", id, "greet-7", "PENDING")
    shown = on("search", "greet")
    assert (shown.code, shown.out.splitlines()[0].split()) == (0, ["KIND", "ID", "KEY", "OR", "NAME", "WHAT", "STATUS"])
    assert "schedule" in shown.out
    assert "greetings" in shown.out
    assert "Ada Lovelace" in on("search", "ada", "love").out


def test_nothing_found_and_nothing_asked_are_told(on: Shell) -> None:
    nothing = on("search", "nobody")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "nothing found in tenant 'default'\n")
    assert on("search", "nobody", "--json").json == {"results": []}
    assert on("search").code == 2
    assert on("search", "x", "--limit", "0").code == 2
