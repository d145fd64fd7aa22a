"""What ``duly doctor --fix`` does about findings: only what undoes nothing, waits for nobody and can be done again."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from duly.cli.doctor.check_result import CheckResult
from duly.cli.output import counted
from duly.duly import Duly
from duly.errors import ApiNotReady


async def fix(duly: Duly, findings: Iterable[CheckResult]) -> list[str]:
    """Fixes what can be fixed, and tells what was done."""
    wanted = dict.fromkeys(finding.fix for finding in findings if finding.fix is not None)
    return [await FIXES[name](duly) for name in wanted]


async def _replan(duly: Duly) -> str:
    moved = await duly.schedules.replan(by="doctor")
    return f"planned next events again with this host's zone data; {counted(len(moved), 'event')} moved"


async def _api_role(duly: Duly) -> str:
    try:
        await duly.store.prepare_rls_role()
    except ApiNotReady as error:
        return f"the API role still lacks what only an administrator can give: {error.found}"
    return "prepared the API role, as `duly serve` does when it starts"


async def _analyze(duly: Duly) -> str:
    async with duly.transaction() as tx:
        await tx.execute("ANALYZE duly.events, duly.journal, duly.schedules, duly.users")
    return "analysed events, journal, schedules and users"


async def _indexes(duly: Duly) -> str:
    async with duly.transaction() as tx:
        there = {row[0] for row in await tx.fetch("SELECT name FROM sqlite_schema WHERE type = 'index'")}
        missing = {name: statement for name, statement in duly.store.indexes().items() if name not in there}
        for statement in missing.values():
            await tx.execute(statement)
    return f"created {', '.join(missing)}"


async def _mode(duly: Duly) -> str:
    path = Path(str(getattr(duly.store, "path", "")))
    for file in (path, *path.parent.glob(f"{path.name}-*")):
        file.chmod(file.stat().st_mode & ~0o007)
    return f"took {path} from users other than its owner and group"


FIXES: Mapping[str, Callable[[Duly], Awaitable[str]]] = {
    "replan": _replan,
    "api role": _api_role,
    "analyze": _analyze,
    "indexes": _indexes,
    "mode": _mode,
}
