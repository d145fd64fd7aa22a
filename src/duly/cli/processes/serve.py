"""``duly serve``: the API and a worker in one process."""

import asyncio
import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import App, Parameter

from duly.cli.invocation import Hidden
from duly.cli.output import note
from duly.cli.processes.capabilities import open_brokers, open_programs
from duly.cli.processes.run_to_end import freeze_loaded_objects, run_to_its_end
from duly.cli.processes.worker import AS_IT_IS, WorkerOptions, in_this_manner, tell_what_is_served
from duly.config import Settings, read_settings
from duly.decide.targets.addresses import is_loopback
from duly.duly import Duly
from duly.engine.faults.store_backoff import StoreBackoff
from duly.engine.stopping import signal_handlers
from duly.errors import ApiNotReady, BadSetting, Misuse, StoreUnavailable
from duly.extras import install

if TYPE_CHECKING:
    import uvicorn

INSTALL = install("server")


def register(commands: App) -> None:
    commands.command(serve)


def serve(
    *,
    host: Annotated[str | None, Parameter(help="Address to listen on (default: DULY_HOST, or 127.0.0.1)")] = None,
    port: Annotated[int | None, Parameter(help="Port; 0 for any free port (default: DULY_PORT, or 8080)")] = None,
    worker: Annotated[
        bool, Parameter(help="Also run a worker in this process (default: yes)", negative="--no-worker")
    ] = True,
    options: WorkerOptions = AS_IT_IS,
    invocation: Hidden,
) -> None:
    """Serve the HTTP API and run a worker, in one process.

    On SIGTERM or Ctrl-C, it finishes running events first.
    """
    if not all(find_spec(package) for package in ("starlette", "uvicorn", "httptools", "jinja2")):
        raise Misuse(f"packages that `duly serve` needs are not installed: {INSTALL}")
    duly = in_this_manner(invocation.duly_that_serves() if worker else invocation.duly_with_event_types(), options)
    duly.settings = _listening(duly, host, port)
    if worker:
        tell_what_is_served(duly)
    run_to_its_end(_serve(duly, worker=worker))


def _listening(duly: Duly, host: str | None, port: int | None) -> Settings:
    given: dict[str, Any] = {"host": host, "port": port}
    try:
        read = read_settings(**given)
    except BadSetting as error:
        option = error.name.removeprefix("DULY_").lower()
        if given.get(option) is None:
            raise
        raise Misuse(f"--{option} {error.value} cannot be used: expected {error.allowed}") from None
    chosen = {name: getattr(read, name) for name, value in given.items() if value is not None}
    return msgspec.structs.replace(duly.settings, **chosen)


async def _serve(duly: Duly, *, worker: bool) -> None:
    from duly.api.app import create_api
    from duly.api.server.server import address_of, http_server, listen

    local = is_loopback(duly.settings.host)
    if not local:
        await _require_keys(duly)
    listening = listen(duly.settings.host, duly.settings.port)
    settings = duly.settings
    server = http_server(
        create_api(duly, keyless=local),
        settings.shutdown_grace,
        most=settings.max_connections,
        trusted=settings.trusted_proxies,
    )
    freeze_loaded_objects()
    with _stopped_by_signals(duly, server):
        note(f"Duly serves {address_of(listening)}; its API is described at {address_of(listening)}/docs")
        if (told := open_brokers(duly)) is not None:
            note(f"Over HTTP: {told}")
        if (told := open_programs(duly)) is not None:
            note(f"Over HTTP: {told}")
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        serving.add_done_callback(lambda _: duly.stop())
        try:
            if await _opened(duly, serving):
                await _require_one_tenant(duly)
                if local:
                    await _warn_without_keys(duly)
                await _until_stopped(duly, server, serving, worker=worker)
        finally:
            server.should_exit = True
            await serving


async def _opened(duly: Duly, serving: "asyncio.Task[None]") -> bool:
    """Waits for the database, while requests are answered with 503; returns False if the server stops first."""
    outage, told = StoreBackoff(duly.signals), False
    while True:
        try:
            await duly.__aenter__()
        except StoreUnavailable as error:
            if not told:
                note(f"The database is not available; waiting for it: {error}")
            told = True
            if (await asyncio.wait({serving}, timeout=outage.failed(error)))[0]:
                return False
        else:
            return True


async def _until_stopped(duly: Duly, server: "uvicorn.Server", serving: "asyncio.Task[None]", *, worker: bool) -> None:
    """Runs server and worker until they are stopped. The Duly stays open until the last request is answered, even if
    the worker ends long before."""
    try:
        if worker and not server.should_exit:
            await duly.run(signals=False)
    finally:
        server.should_exit = server.should_exit or worker
        await serving
        await duly.__aexit__()


async def _require_keys(duly: Duly) -> None:
    """Refuses to listen for other machines without any API key: everyone who reaches the port could do everything. If
    the database is unavailable, the server starts, but requests without a key are refused."""
    with contextlib.suppress(StoreUnavailable):
        async with duly:
            if not await duly.keys.made_any():
                raise Misuse(
                    f"DULY_HOST={duly.settings.host} can be reached from other machines, but there is no API key yet: "
                    "create one with `duly keys create NAME --scope write`, or listen on 127.0.0.1"
                )


async def _require_one_tenant(duly: Duly) -> None:
    """Refuses to serve several tenants without row-level security."""
    from duly.api.access.preparation import require_one_tenant

    try:
        await require_one_tenant(duly)
    except ApiNotReady as error:
        await duly.__aexit__()
        raise Misuse(str(error)) from None


async def _warn_without_keys(duly: Duly) -> None:
    with contextlib.suppress(StoreUnavailable):
        if not await duly.keys.made_any():
            note(
                "warning: there is no API key, so every program on this machine can use the API as the "
                "tenant default, and "
                "so can every client of a proxy or tunnel that forwards to it: before you run one here, "
                "create a key with "
                "`duly keys create NAME`"
            )


@contextlib.contextmanager
def _stopped_by_signals(duly: Duly, server: "uvicorn.Server") -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def stop(now: bool) -> None:
        server.should_exit = True
        server.force_exit = server.force_exit or now
        duly.stop(now=now)

    handlers = signal_handlers(stop)
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
