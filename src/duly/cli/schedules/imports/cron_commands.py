"""What cron runs for a line of a crontab, as a command target."""

import os
import pwd
from typing import Any, NamedTuple

from duly.cli.schedules.imports.crontab import Job
from duly.decide.targets.commands import COMMAND, command, spelled_out

ROOT = 0
"""The number of the user who may run commands as any other."""

PATH = "/usr/bin:/bin"
"""The search path that cron gives to a command, unless the crontab sets another."""


SHELL = "/bin/sh"
AS_ANOTHER_USER = ("/sbin/runuser", "-p", "-u")
"""The program with which root runs a command as another user; -p: in the environment that it is given."""


class Account(NamedTuple):
    """The user whose command it is."""

    name: str
    home: str
    is_own: bool  # whether it is the user who imports, as whom the worker will run too


def account_of(user: str | None) -> Account:
    """The account of a user on this machine; without a name, that of this process. Raises ValueError if there is none,
    or if its commands cannot be run from here."""
    own = os.geteuid()
    try:
        found = pwd.getpwuid(own) if user is None else pwd.getpwnam(user)
    except KeyError:
        who = f"user number {own}" if user is None else f"user {user!r:.50}"
        raise ValueError(f"there is no {who} on this machine: import the file where cron has run it") from None
    if found.pw_uid != own and own != ROOT:
        raise ValueError(f"it runs as {user!r:.50}: only root can import it, and run it with a worker of its own")
    return Account(found.pw_name, found.pw_dir, found.pw_uid == own)


def cron_command(job: Job, account: Account, timeout: str | None) -> dict[str, Any]:
    """The target that runs exactly what cron ran: the line in its shell, with its environment, in the home folder.
    *timeout*: its deadline, if not the usual one."""
    own = {"LOGNAME": account.name, "USER": account.name}
    environment = {"PATH": PATH, "HOME": account.home, **job.environment, **own}
    home = environment["HOME"]
    folder = home if home.startswith("/") else account.home
    if account.is_own:
        return command(job.command, stdin=job.stdin, environment=environment, folder=folder, timeout=timeout)
    argv = [*AS_ANOTHER_USER, account.name, "--", environment.get("SHELL") or SHELL, "-c", job.command]
    return command(argv=argv, stdin=job.stdin, environment=environment, folder=folder, timeout=timeout)


class CronWork(NamedTuple):
    """What a line runs, whichever way its schedule was imported."""

    command: str
    stdin: str


def work_of_job(job: Job) -> CronWork:
    return CronWork(job.command, job.stdin or "")


def work_of_schedule(target: Any, payload: Any) -> CronWork | None:
    """The work of a schedule that was imported from a crontab: in its command target, or in the payload for a handler;
    None if it has neither."""
    if isinstance(target, dict) and COMMAND in target:
        said = spelled_out(target[COMMAND])
        line = said["shell"] if "shell" in said else said["argv"][-1]
        return CronWork(line, said.get("stdin") or "")
    if isinstance(payload, dict) and isinstance(payload.get("command"), str):
        return CronWork(payload["command"], payload.get("stdin") or "")
    return None
