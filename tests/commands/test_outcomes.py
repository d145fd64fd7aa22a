"""What a command is given, and what its end means for its event."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duly import Delivered, Duly, Event, Retry, Status, every
from duly.decide.targets.commands import SET_BY_DULY, command
from duly.records.history import ENTRY_JSON
from duly.testing import ManualClock
from tests.commands.running import ONCE, open_pipes, ran
from tests.conftest import OpenDuly
from tests.make import START


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    return await duly(commands=[])


def script(folder: Path, name: str, text: str, mode: int = 0o755) -> str:
    file = folder / name
    file.write_text(text)
    file.chmod(mode)
    return str(file)


# -- what it is given


def variables(output: str | None) -> dict[str, str]:
    """What ``env`` has printed."""
    return dict(line.split("=", 1) for line in (output or "").splitlines())


async def test_a_command_gets_a_small_environment_and_no_secret(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_DATABASE_URL", "postgresql://ada:secret@db/shop")
    monkeypatch.setenv("DULY_SECRET_KEY", "a key of at least thirty-two characters")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    _, entry = await ran(app, command(argv=["env"], environment={"LEVEL": "9"}), key="k")
    found = variables(entry.output)
    assert "secret" not in str(found)
    assert set(found) <= {
        *SET_BY_DULY, "LEVEL", "PATH", "HOME", "SHELL", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL", "TZ", "TMPDIR"
    } | {name for name in os.environ if name.startswith("LC_")}  # fmt: skip
    assert (found["LEVEL"], found["TZ"], found["PATH"]) == ("9", "Asia/Tokyo", os.environ["PATH"])


async def test_a_command_knows_its_event(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("nightly", every("1h"), "backup", target=command(argv=["env"]), retry=ONCE)
    clock.advance(timedelta(hours=1, minutes=5))
    await app.tick()
    [event] = [one for one in await app.events.find() if one.status is Status.COMPLETED]
    [entry] = await app.events.history(event.id)
    found = variables(entry.output)
    assert {name: value for name, value in found.items() if name.startswith("DULY_")} == {
        "DULY_EVENT_ID": event.id,
        "DULY_EVENT_TYPE": "backup",
        "DULY_TENANT": "default",
        "DULY_SCHEDULED_AT": (START + timedelta(hours=1)).isoformat().replace("+00:00", "Z"),
        "DULY_DUE_AT": (START + timedelta(hours=1)).isoformat().replace("+00:00", "Z"),
        "DULY_ATTEMPT": "1",
        "DULY_SCHEDULE": "nightly",
    }


@pytest.mark.parametrize(
    ("target", "payload", "expected"),
    [
        (command("cat"), None, None),
        (command("cat"), {"who": "Ädä"}, '{"who":"Ädä"}\n'),
        (command("cat"), "text", '"text"\n'),
        (command("cat", stdin="of the target"), {"not": "this"}, "of the target"),
        (command("cat", stdin=""), {"not": "this"}, None),
        (command(argv=["cat"], stdin="€"), None, "€"),
    ],
)
async def test_its_standard_input_is_the_targets_text_or_else_the_payload(
    app: Duly, target: dict[str, Any], payload: Any, expected: str | None
) -> None:
    event, entry = await ran(app, target, payload)
    assert (event.status, entry.output) == (Status.COMPLETED, expected)


async def test_a_large_payload_that_nobody_reads_does_no_harm(app: Duly) -> None:
    event, entry = await ran(app, command("exit 0"), "x" * 1_000_000)
    assert (event.status, entry.output) == (Status.COMPLETED, None)
    event, entry = await ran(app, command("wc -c"), "x" * 1_000_000)
    assert (entry.output or "").strip() == "1000003"


async def test_it_runs_in_the_home_folder_unless_it_says_another(
    app: Duly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home := tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(home))
    _, entry = await ran(app, command("pwd"))
    assert entry.output == f"{home}\n"
    _, entry = await ran(app, command("pwd", folder=str(tmp_path)))
    assert entry.output == f"{tmp_path}\n"
    _, entry = await ran(app, command("pwd", environment={"HOME": str(tmp_path)}))
    assert entry.output == f"{tmp_path}\n"


async def test_a_line_runs_in_the_shell_that_its_environment_names(app: Duly) -> None:
    _, entry = await ran(app, command("echo $0 ${BASH_VERSION:+is bash}"))
    assert entry.output == "/bin/sh\n"
    _, entry = await ran(app, command("echo $0 ${BASH_VERSION:+is bash}", environment={"SHELL": "/bin/bash"}))
    assert entry.output == "/bin/bash is bash\n"


async def test_arguments_are_no_shell(app: Duly) -> None:
    _, entry = await ran(app, command(argv=["echo", "$HOME", "; rm -rf /", "*"]))
    assert entry.output == "$HOME ; rm -rf / *\n"


async def test_a_relative_program_is_looked_up_in_the_path_of_the_command(app: Duly, tmp_path: Path) -> None:
    script(tmp_path, "mine", "#!/bin/sh\necho found\n")
    _, entry = await ran(app, command(argv=["mine"], environment={"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    assert entry.output == "found\n"


# -- what its end means


async def test_exit_code_zero_completes(app: Duly) -> None:
    event, entry = await ran(app, command("echo done"))
    assert (event.status, event.last_error, entry.act, entry.attempt) == (Status.COMPLETED, None, "delivered", 1)
    assert entry.output == "done\n"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("exit 3", "exited with 3"),
        ("echo checking; echo 'no space left' >&2; exit 1", "exited with 1: no space left"),
        ("printf 'one\\n\\n  two  \\n\\n'; exit 255", "exited with 255: two"),
        ("kill -SEGV $$", "was killed by SIGSEGV"),
        ("sh -c 'kill -9 $$' 2>&-; exit $?", "exited with 137: what the shell ran was killed by SIGKILL"),
        ("no-such-command-at-all 2>/dev/null", "exited with 127"),
    ],
)
async def test_everything_else_is_a_failure_that_says_how_it_ended(app: Duly, line: str, error: str) -> None:
    event, entry = await ran(app, command(line))
    assert (event.status, event.last_error, entry.act) == (Status.FAILED, error, "failed")


async def test_a_failure_is_retried_by_the_events_retry_policy(app: Duly, clock: ManualClock, tmp_path: Path) -> None:
    line = "echo attempt $DULY_ATTEMPT; test $DULY_ATTEMPT = 3"
    retry = Retry(max_attempts=3, base=timedelta(seconds=30))
    event = await app.after(0, "job", target=command(line), retry=retry)
    for _ in range(3):
        await app.tick()
        clock.advance(timedelta(hours=1))
    event = await app.events.get(event.id)
    history = [(entry.act, entry.attempt, entry.output) for entry in await app.events.history(event.id)]
    assert event.status is Status.COMPLETED
    assert history == [
        ("failed", 1, "attempt 1\n"),
        ("failed", 2, "attempt 2\n"),
        ("delivered", 3, "attempt 3\n"),
    ]


async def test_what_cannot_be_started_is_rejected_with_a_sentence(app: Duly, tmp_path: Path) -> None:
    plain = script(tmp_path, "plain", "echo no\n", mode=0o644)
    bare = script(tmp_path, "bare", "\x7fnot a program", mode=0o755)
    lost = script(tmp_path, "lost", "#!/no/such/interpreter\n")
    rejected = {
        f"there is no program '{tmp_path}/none' on this worker's machine": command(argv=[f"{tmp_path}/none"]),
        "there is no program 'no-such-program-at-all'": command(argv=["no-such-program-at-all"]),
        f"'{plain}' may not be run: it is not executable (chmod +x)": command(argv=[plain]),
        f"'{tmp_path}' may not be run": command(argv=[str(tmp_path)]),
        f"'{bare}' is no program: a script begins with a line such as #!/bin/sh": command(argv=[bare]),
        f"'{lost}' on this worker's machine, or its interpreter is missing": command(argv=[lost]),
        "there is no folder '/no/such/folder' on this worker's machine": command("true", folder="/no/such/folder"),
        "there is no program '/no/shell'": command("true", environment={"SHELL": "/no/shell"}),
    }
    await ran(app, command("true"))  # which starts the watchdog
    before = open_pipes()
    for told, target in rejected.items():
        event, entry = await ran(app, target, retry=Retry(max_attempts=5))
        assert (event.status, entry.act) == (Status.FAILED, "rejected"), told
        assert told in (event.last_error or "")
    assert open_pipes() == before


async def test_arguments_that_the_system_does_not_take_are_rejected(app: Duly) -> None:
    """Checked sizes stay below Linux's limits; what is inherited counts as well."""
    event, _ = await ran(app, command(argv=["true", *["x" * 99_000] * 10]))
    assert event.status is Status.COMPLETED


async def test_a_python_handler_may_keep_an_output_too(app: Duly) -> None:
    @app.on("report")
    async def report(event: Event) -> Delivered:
        return Delivered(output="x" * 100_000 + "the end\0")

    event = await app.after(0, "report")
    await app.tick()
    [entry] = await app.events.history(event.id)
    assert entry.output is not None
    assert entry.output.endswith("xthe end\ufffd")
    assert len(entry.output) == 64 * 1024


async def test_outputs_of_one_batch_stay_apart(app: Duly) -> None:
    """Some completed, some failed, some without an output: settled together."""
    lines = ["echo one", "true", "echo two; exit 1", "exit 2", "echo three"]
    events = [await app.after(0, "job", target=command(line), retry=ONCE) for line in lines]
    await app.tick()
    outputs = [(await app.events.history(event.id))[-1].output for event in events]
    assert outputs == ["one\n", None, "two\n", None, "three\n"]


async def test_the_output_is_in_the_json_of_the_history(app: Duly) -> None:
    _, entry = await ran(app, command("echo one"))
    assert ENTRY_JSON.write(entry)["output"] == "one\n"
