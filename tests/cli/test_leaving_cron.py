"""Leaving cron: a crontab of fifteen lines is imported, run by a worker, edited and pruned."""

from typing import Any

import pytest

from tests.cli.conftest import Shell, Spawn, wait_until

CRONTAB = r"""# The crontab of a small shop
SHELL=/bin/sh
PATH=/usr/bin:/bin
HOME={home}
MAILTO=ops@example.com
GREETING="Hello from the shop"

# name: nightly-report
30 2 * * *      echo "$GREETING, 100\% of $DULY_SCHEDULE" | tee report.txt
0 3 * * *       cat > letter.txt%Dear Ada,%%all is well.%Bo
15 3 * * 0      echo backup-of-all >> backups.txt
*/5 * * * *     echo tidied
@hourly         echo "in $PWD with $PATH"
@daily          echo rotated; echo trouble >&2; exit 3
@reboot         /usr/bin/start-me
# name: new-york
TZ=America/New_York
0 12 * * *      date -d @0 +\%H:\%M
CRON_TZ=Asia/Tokyo
0 9 * * mon-fri echo Tokyo opens
0 18 * * 1-5    echo Tokyo closes
CRON_TZ=
SHELL=/bin/bash
45 4 1,15 * *   [[ $BASH_VERSION ]] && echo "by $SHELL"
# name: slow one
10 5 * * *      sleep 0.1 && echo slept
20 5 * * *      true
20 5 * * *      true
59 23 31 12 *   printf 'the end of the year' > year.txt
61 * * * *      never
"""
"""Fifteen lines of commands, of which one is @reboot; and one that is no line."""

Imported = dict[str, Any]


class Machine:
    """A machine with a crontab, where a person types commands."""

    def __init__(self, shell: Shell) -> None:
        self.shell, self.lines = shell, CRONTAB.replace("{home}", str(shell.folder))

    def imports(self, *words: str) -> Imported:
        self.shell.write("crontab", self.lines)
        imported: Imported = self.shell("schedules", "import", "crontab", *words, "--json").json
        return imported

    def edit(self, old: str, new: str) -> None:
        assert old in self.lines
        self.lines = self.lines.replace(old, new)

    def schedules(self) -> dict[str, Any]:
        return {one["name"]: one for one in self.shell("schedules", "list", "--json").json["schedules"]}

    def run_by(self, fragment: str) -> Any:
        """The schedule that runs a command with this in it."""
        [found] = [one for one in self.schedules().values() if fragment in one["target"]["command"]["shell"]]
        return found

    def outputs(self) -> dict[str, tuple[str, str | None]]:
        """How the latest event of each schedule went, and what it printed."""
        found = {}
        for name in self.schedules():
            for event in reversed(self.shell("schedules", "show", name, "--json").json["events"]):
                attempts = [entry for entry in self.shell.show(event["id"])["history"] if "output" in entry]
                found[name] = event["status"], attempts[-1]["output"] if attempts else None
        return found


@pytest.fixture
def machine(on: Shell) -> Machine:
    return Machine(on)


def changes(told: Imported) -> dict[str, str]:
    return {one["name"]: one["change"] for one in told["schedules"]}


def test_a_crontab_is_imported_run_edited_and_pruned(machine: Machine, spawn: Spawn, url: str) -> None:
    shell = machine.shell
    # The first day: looking, then a shadow beside cron.
    assert len(machine.imports("--dry-run")["schedules"]) == 14
    assert machine.schedules() == {}
    told = machine.imports("--mode", "shadow", "--timezone", "Europe/Brussels")
    assert [(one["line"], one["reason"].split(":")[0]) for one in told["bad"]] == [
        (15, "@reboot is not a time, so there is no schedule for it"), (30, "minute '61'"),
    ]  # fmt: skip
    names = list(changes(told))
    shell("schedules", "trigger", *names)
    assert {status for status, _ in machine.outputs().values()} <= {"SKIPPED", "PENDING"}
    assert not (shell.folder / "report.txt").exists()

    # The second day: live, with a worker that runs commands.
    assert set(changes(machine.imports("--mode", "live", "--timezone", "Europe/Brussels")).values()) == {"changed"}
    shell("schedules", "trigger", *names)
    worker = spawn("worker", "--commands", DULY_DATABASE_URL=url, SECRET="of the worker")
    wait_until(lambda: _ended(machine, names), told=lambda: worker.output)
    assert worker.stop() == 0
    of = {one["target"]["command"]["shell"]: name for name, one in machine.schedules().items()}
    went = machine.outputs()
    assert went["nightly-report"] == ("COMPLETED", "Hello from the shop, 100% of nightly-report\n")
    assert (shell.folder / "report.txt").read_text() == "Hello from the shop, 100% of nightly-report\n"
    assert (shell.folder / "letter.txt").read_text() == "Dear Ada,\n\nall is well.\nBo\n"
    assert went[of['echo "in $PWD with $PATH"']] == ("COMPLETED", f"in {shell.folder} with /usr/bin:/bin\n")
    assert went[of["echo rotated; echo trouble >&2; exit 3"]] == ("FAILED", "rotated\ntrouble\n")
    assert went["new-york"] == ("COMPLETED", "19:00\n")
    assert went[of['[[ $BASH_VERSION ]] && echo "by $SHELL"']] == ("COMPLETED", "by /bin/bash\n")
    assert went["slow one"] == ("COMPLETED", "slept\n")
    assert (shell.folder / "year.txt").read_text() == "the end of the year"
    assert machine.run_by("Tokyo opens")["timezone"] == "Asia/Tokyo"
    assert machine.schedules()["new-york"]["timezone"] == "Europe/Brussels"
    assert f"schedule={of['echo rotated; echo trouble >&2; exit 3']} " in worker.output
    listed = shell("schedules", "list").out
    assert listed.count(" completed ") == 13
    assert listed.count(" failed ") == 1

    # The third day: an operator pauses one, and nothing else changes.
    shell("schedules", "pause", "slow one", "--reason", "the disk is full")
    assert set(changes(machine.imports("--timezone", "Europe/Brussels")).values()) == {"unchanged"}
    assert not machine.schedules()["slow one"]["enabled"]

    # The fourth day: lines get other times and commands, move, get names, and go.
    before = machine.schedules()
    machine.edit("0 3 * * *       cat > letter.txt", "5 3 * * *       cat > letter.txt")
    machine.edit("15 3 * * 0      echo backup-of-all >> backups.txt\n", "")
    machine.edit("*/5 * * * *     echo tidied", "*/5 * * * *     tidy --everything")
    machine.edit("0 18 * * 1-5    echo Tokyo closes\n", "# name: tokyo-closes\n0 18 * * 1-5    echo Tokyo closes\n")
    machine.edit("59 23 31 12 *   printf", "0 6 * * *  echo new\n59 23 31 12 *   printf")
    machine.edit("61 * * * *      never\n", "15 3 * * 0      echo backup-of-all >> backups.txt\n")
    told = machine.imports("--timezone", "Europe/Brussels")
    assert sorted(changes(told).values()) == ["changed"] * 3 + ["created", "renamed"] + ["unchanged"] * 10
    [moved] = [
        one for one in told["schedules"] if one["target"]["command"]["shell"] == "echo backup-of-all >> backups.txt"
    ]
    changed = {one["field"] for one in moved["differences"]}
    assert changed == {"target.command.environment.SHELL", "target.command.environment.TZ"}, "of the lines above it now"
    assert [one["line"] for one in told["bad"]] == [14], "@reboot alone"
    assert told["gone"] == []
    now = machine.schedules()
    assert machine.run_by("tidy --everything")["id"] == next(
        one["id"] for one in before.values() if one["target"]["command"]["shell"] == "echo tidied"
    )
    assert machine.run_by("backup-of-all")["id"] in {one["id"] for one in before.values()}
    assert now["tokyo-closes"]["timezone"] == "Asia/Tokyo"
    assert not now["slow one"]["enabled"]

    # The fifth day: lines are gone, and so are their schedules, but nobody else's.
    shell("schedules", "put", "of-mine", "--type", "x", "--every", "1h", "--webhook", "http://127.0.0.1:1/")
    machine.edit("# name: nightly-report\n", "")
    machine.edit('30 2 * * *      echo "$GREETING, 100\\% of $DULY_SCHEDULE" | tee report.txt\n', "")
    machine.edit("20 5 * * *      true\n20 5 * * *      true\n", "20 5 * * *      true\n")
    told = machine.imports("--timezone", "Europe/Brussels")
    gone = {one["name"] for one in told["gone"]}
    assert "nightly-report" in gone
    assert len(gone) == 2
    assert set(changes(told).values()) == {"unchanged"}
    machine.imports("--timezone", "Europe/Brussels", "--prune", "--dry-run")
    assert len(machine.schedules()) == 16
    told = machine.imports("--timezone", "Europe/Brussels", "--prune")
    assert {one["name"] for one in told["gone"] if one["deleted"]} == gone
    assert set(now) - set(machine.schedules()) == gone
    assert "of-mine" in machine.schedules()
    assert machine.imports("--timezone", "Europe/Brussels", "--prune")["gone"] == []


def _ended(machine: Machine, names: list[str]) -> bool:
    now = machine.schedules()
    return all(now[name]["last_status"] in ("COMPLETED", "FAILED") for name in names)
