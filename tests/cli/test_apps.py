"""Where the handlers are: ``--app module:duly``, and how it agrees with ``--db``."""

import pytest

from tests.cli.conftest import APP, Shell


@pytest.mark.parametrize("app", ["shop:duly", "shop"])
def test_the_app_is_found_in_the_current_folder(shell: Shell, app: str) -> None:
    shell.at("now", "--type", "greet", "--payload", '"Ada"')
    assert shell("tick", "--app", app).out.startswith("1 completed;")
    assert shell.told() == ["hello Ada"]


def test_the_app_can_be_a_setting(shell: Shell) -> None:
    shell.set(DULY_APP="shop:duly")
    shell.at("now", "--type", "greet", "--payload", '"Ada"')
    assert shell("tick").code == 0
    assert shell.told() == ["hello Ada"]


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("nowhere:duly", "there is no module 'nowhere'"),
        ("shop.inner:duly", "shop"),
        ("shop:scheduler", "shop has no 'scheduler'; use --app shop:duly"),
        ("shop:greet", "shop:greet is a function, not a Duly; use --app shop:duly"),
        ("json", "json has no 'duly'; write `duly = Duly()` in it"),
        ("shop.py", "write the name of the module instead, such as --app shop:duly"),
        ("./folder/shop.py:duly", "--app folder.shop:duly"),
        ("a shop", "expected module:duly"),
        ("broken", "cannot import broken: ZeroDivisionError: division by zero ("),
        ("needy", "cannot import needy: ModuleNotFoundError: No module named 'sandwich' ("),
        ("garbled", "cannot import garbled: SyntaxError"),
        ("leaving", "cannot import leaving: SystemExit"),
        ("misused", "already has a handler"),
    ],
)
def test_an_app_that_cannot_be_used_is_refused_with_the_reason(shell: Shell, app: str, said: str) -> None:
    shell.write("broken.py", "from duly import Duly\nduly = Duly()\n1 / 0\n")
    shell.write("needy.py", "import sandwich\n")
    shell.write("garbled.py", "def\n")
    shell.write("leaving.py", "import sys\nsys.exit('bye')\n")
    shell.write("misused.py", APP + "\n\n@duly.on('greet')\ndef again(event): ...\n")
    done = shell("worker", "--app", app)
    assert done.code == 2
    [line] = done.err.splitlines()
    assert said in line


def test_the_line_that_fails_in_a_broken_app_is_told(shell: Shell) -> None:
    shell.write("broken.py", "import inner\n")
    shell.write("inner.py", "\n\nraise KeyError('price')\n")
    assert f"{shell.folder}/inner.py, line 3" in shell("worker", "--app", "broken").err


def test_db_decides_for_an_app_that_leaves_it_to_the_setting(shell: Shell) -> None:
    shell.set(DULY_DATABASE_URL="sqlite:///other.db")
    id = shell.at("now", "--type", "greet", "--db", "sqlite:///this.db")
    assert shell("tick", "--app", "shop", "--db", "sqlite:///this.db").out.startswith("1 completed;")
    assert shell("events", "show", id, "--db", "sqlite:///this.db", "--json").json["status"] == "COMPLETED"
    assert not (shell.folder / "other.db").exists()


def test_an_app_that_names_its_own_database_is_refused_another(shell: Shell) -> None:
    shell.write("fixed.py", APP.replace("Duly()", "Duly('sqlite:///own.db')"))
    done = shell("tick", "--app", "fixed", "--db", "sqlite:///other.db")
    assert done.code == 2
    assert "remove --db" in done.err
    assert not list(shell.folder.glob("*.db"))
    assert shell("tick", "--app", "fixed", "--db", "sqlite:///own.db").code == 0


def test_commands_that_run_nothing_use_the_apps_database(shell: Shell) -> None:
    shell.write("fixed.py", APP.replace("Duly()", "Duly('sqlite:///own.db')"))
    shell.at("now", "--type", "greet", "--app", "fixed")
    assert (shell.folder / "own.db").exists()
    assert len(shell("events", "list", "--app", "fixed", "--json").json["events"]) == 1


def test_a_setting_for_the_app_does_not_stand_in_the_way_of_db(shell: Shell) -> None:
    shell.write("fixed.py", APP.replace("Duly()", "Duly('sqlite:///own.db')"))
    shell.at("now", "--type", "greet", "--db", "sqlite:///other.db")
    shell.set(DULY_APP="fixed")
    assert len(shell("events", "list", "--json", "--db", "sqlite:///other.db").json["events"]) == 1


def test_the_command_at_warns_when_the_app_has_no_such_handler(shell: Shell) -> None:
    shell("tick", "--app", "shop")
    assert shell("at", "now", "--type", "greet", "--app", "shop").err == ""
    assert "no handler for 'gret'" in shell("at", "now", "--type", "gret", "--app", "shop").err


@pytest.mark.parametrize("words", [[], ["--app", "empty"]])
def test_an_app_without_handlers_still_serves_webhooks_and_requests(shell: Shell, words: list[str]) -> None:
    shell.write("empty.py", "from duly import Duly\nduly = Duly()\n")
    assert shell("tick", *words).out == "nothing is due for webhooks and HTTP requests\n"


@pytest.mark.parametrize(
    ("words", "said"), [([], "no app is given"), (["--app", "empty"], "empty has no handlers")], ids=["no app", "empty"]
)
@pytest.mark.parametrize("command", ["worker", "serve", "tick"])
def test_an_app_without_handlers_and_without_aiohttp_has_nothing_to_run(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: str, words: list[str], said: str
) -> None:
    monkeypatch.setattr("duly.wiring.find_spec", lambda _: None)
    shell.write("empty.py", "from duly import Duly\nduly = Duly()\n")
    done = shell(command, *words)
    assert (done.code, done.out) == (2, "")
    [line] = done.err.splitlines()
    for part in (said, "--app shop:duly", "pip install '.[webhooks]' in a checkout of Duly"):
        assert part in line
    assert shell("tick", "--app", "shop").out == "nothing is due for 4 handlers\n"
