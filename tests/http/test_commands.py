"""Every door by which somebody over HTTP could make a worker run what they like, tried by each kind of key."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from duly import Duly, Retry, Status, every
from duly.channels.command.process import ProcessGroup, Program, start
from duly.decide.targets.commands import command
from duly.decide.targets.origin import OVER_HTTP
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller, paths
from tests.make import START, a_user

DUE = "2030-01-01T00:00:00Z"
KEYS = {
    "read": {"scope": "read"},
    "write": {"scope": "write"},
    "admin": {"scope": "admin"},
    "write of all": {"scope": "write", "all_tenants": True},
    "admin of all": {"scope": "admin", "all_tenants": True},
}
POWERLESS = ("write", "admin", "write of all")
"""The keys that write, and may name no command."""

CODES = command("cat > $OUT", environment={"OUT": "/tmp/nowhere"})


class Server:
    """A Duly whose workers run commands, with callers of its API by the names of their keys."""

    def __init__(self, app: Duly, folder: Path, calling: OpenCaller) -> None:
        self.app, self.folder, self._calling = app, folder, calling

    async def by(self, key: str) -> Caller:
        made = await self.app.keys.create(key, **KEYS[key])  # type: ignore[arg-type]
        return await self._calling(self.app, authorization=f"Bearer {made.secret}")

    def script(self, name: str = "job", text: str = "#!/bin/sh\necho ran $0 $*\ncat\n") -> str:
        file = self.folder / name
        file.write_text(text)
        file.chmod(0o755)
        return str(file)

    def opens(self, *folders: object) -> None:
        """As the operator would, and start the server again."""
        self.app.serve_commands([str(folder) for folder in folders])


@pytest.fixture
async def server(duly: OpenDuly, calling: OpenCaller, tmp_path: Path) -> Server:
    (folder := tmp_path / "jobs").mkdir()
    return Server(await duly(commands=[str(folder)]), folder, calling)


def forbidden(answer: httpx.Response) -> None:
    assert answer.status_code == 403, answer.text


def timer(target: Any, **more: Any) -> dict[str, Any]:
    return {"type": "job", "due_at": DUE, "target": target, **more}


def schedule(target: Any, **more: Any) -> dict[str, Any]:
    return {"type": "job", "rule": {"every": "1h"}, "target": target, **more}


async def nothing_runs(app: Duly) -> None:
    assert [one for one in await app.events.find(limit=1000) if one.lane == "command"] == []


# -- who may name a command, by each door


@pytest.mark.parametrize("key", POWERLESS)
async def test_a_lesser_key_names_no_command_by_any_door(server: Server, key: str) -> None:
    http, app = await server.by(key), server.app
    target = {"command": {"argv": [server.script()]}}
    assert paths(await http("PUT", "/v1/timers/k", timer(target))) == ["target.command"]
    answer = await http.post("/v1/timers", {"timers": [timer(target), timer(target, key="k")]})
    assert [one["errors"][0]["path"] for one in answer["results"]] == ["target.command"] * 2
    assert paths(await http("PUT", "/v1/schedules/s", schedule(target))) == ["target.command"]
    await http.put("/v1/schedules/s", schedule(None))
    assert paths(await http("PATCH", "/v1/schedules/s", {"target": target})) == ["target.command"]
    await nothing_runs(app)


@pytest.mark.parametrize("key", ["write", "admin of all"])
async def test_users_event_types_and_stored_targets_take_no_command_from_anybody(server: Server, key: str) -> None:
    http, target = await server.by(key), {"command": {"argv": [server.script()]}}
    assert "target" in paths(await http("POST", "/v1/users", a_user(target=target)))
    user = await http.post("/v1/users", a_user(key="ada"))
    assert "target" in paths(await http("PUT", f"/v1/users/{user['id']}", {"target": target}))
    rows = [a_user(key="ada", target=target), a_user(key="bob", target=target)]
    answer = await http.post("/v1/users/import", {"users": rows})
    assert [one["status"] for one in answer["results"]] == ["refused", "refused"]
    assert "target" in paths(await http("PUT", "/v1/event-types/birthday", {"target": target}))
    for body in ({"url": "https://x.example", "channel": "command"}, {"command": "x"}, target):
        assert (await http("PUT", "/v1/targets/t", body)).status_code == 422
    for spec in ({"target": "t"}, {"argv": [server.script()], "target": "t"}):
        assert (await http("PUT", "/v1/timers/k", timer({"command": spec}))).status_code == 422
    await nothing_runs(server.app)


async def test_without_keys_nobody_on_the_machine_names_a_command(server: Server) -> None:
    http = await server._calling(server.app)
    target = {"command": {"argv": [server.script()]}}
    assert paths(await http("PUT", "/v1/timers/k", timer(target))) == ["target.command"]


async def test_an_admin_of_all_tenants_runs_programs_in_the_open_folders(server: Server, clock: ManualClock) -> None:
    http, program = await server.by("admin of all"), server.script()
    target = {"command": {"argv": [program, "a b", "$HOME"], "stdin": "text", "timeout": "1m"}}
    for tenant in ("default", "acme"):
        await http.put(
            "/v1/timers/k", timer(target, payload={"x": 1}, due_at="2020-01-01T00:00:00Z"), duly_tenant=tenant
        )
    await http.put("/v1/schedules/s", schedule(target))
    clock.advance(timedelta(hours=1))
    await server.app.tick()
    done = [one for one in await server.app.events.find() if one.status is Status.COMPLETED]
    assert [one.via for one in done] == [OVER_HTTP] * 3
    for one in done:
        [entry] = await server.app.events.history(one.id)
        assert entry.output == f"ran {program} a b $HOME\ntext"
    shown = await http.get(f"/v1/events/{next(one.id for one in done if one.tenant == 'default')}")
    assert shown["history"][0]["output"] == f"ran {program} a b $HOME\ntext"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("id", "target.command.shell"),
        ({"shell": "id"}, "target.command.shell"),
        ({"argv": ["/bin/sh", "-c", "id"]}, "target.command.argv[0]"),
        ({"argv": ["sh", "-c", "id"]}, "target.command.argv[0]"),
        ({"argv": ["{folder}/../../../../../../bin/sh"]}, "target.command.argv[0]"),
        ({"argv": ["{folder}"]}, "target.command.argv[0]"),
        ({"argv": ["{folder}x/job"]}, "target.command.argv[0]"),
        ({"argv": ["{folder}/job"], "environment": {"LD_PRELOAD": "/tmp/x.so"}}, "target.command.environment"),
        ({"argv": ["{folder}/job"], "environment": {}}, "target.command.environment"),
        ({"argv": ["{folder}/job"], "folder": "/tmp"}, "target.command.folder"),
        ({"argv": ["{folder}/job\0"]}, "target.command.argv[0]"),
    ],
)
async def test_even_that_key_says_only_program_arguments_input_and_deadline(
    server: Server, spec: Any, path: str
) -> None:
    server.script()
    http = await server.by("admin of all")
    written = msgspec.json.decode(msgspec.json.encode(spec).replace(b"{folder}", str(server.folder).encode()))
    assert path in paths(await http("PUT", "/v1/timers/k", timer({"command": written})))
    assert path in paths(await http("PUT", "/v1/schedules/s", schedule({"command": written})))
    await nothing_runs(server.app)


# -- the worker asks again


async def run_over_http(server: Server, argv: list[str]) -> Any:
    """What becomes of a timer over HTTP that the server has accepted."""
    http = await server.by("admin of all")
    await http.put("/v1/timers/k", timer({"command": {"argv": argv}}, due_at="2020-01-01T00:00:00Z"))
    return http


async def test_a_link_out_of_the_folder_is_not_followed(server: Server) -> None:
    link, inner = server.folder / "link", server.folder / "sub"
    link.symlink_to("/bin/echo")
    inner.symlink_to("/bin")
    for number, program in enumerate((link, inner / "echo")):
        http = await server.by("admin of all")
        body = timer({"command": {"argv": [str(program), "x"]}}, due_at="2020-01-01T00:00:00Z")
        await http.put(f"/v1/timers/k{number}", body)
        await server.app.tick()
        event = await server.app.events.by_key(f"k{number}")
        assert event.status is Status.FAILED
        assert "is a link to a program outside of the folders" in (event.last_error or "")


async def test_a_folder_that_is_a_link_is_open_as_what_it_leads_to(server: Server, tmp_path: Path) -> None:
    (tmp_path / "open").symlink_to(server.folder)
    server.script()
    server.opens(tmp_path / "open")
    await run_over_http(server, [str(tmp_path / "open" / "job")])
    await server.app.tick()
    assert (await server.app.events.by_key("k")).status is Status.COMPLETED


async def test_a_worker_with_other_folders_does_not_run_it(server: Server, tmp_path: Path) -> None:
    await run_over_http(server, [server.script()])
    server.opens(tmp_path)
    server.opens(tmp_path / "other")
    await server.app.tick()
    event = await server.app.events.by_key("k")
    assert event.status is Status.FAILED
    assert "the worker's own DULY_COMMANDS decides" in (event.last_error or "")


async def test_rows_that_were_made_over_http_by_an_older_server_are_not_run(server: Server) -> None:
    """Whatever is in the row: the worker trusts nothing that came over HTTP."""
    targets: list[dict[str, Any]] = [{"command": "echo"}, {"command": {"argv": [server.script()], "folder": "/"}}]
    for number, target in enumerate(targets):
        event = await server.app.at(START, "job", key=f"k{number}", target=target)
        async with server.app.store.lend() as tx:
            postgres = server.app.settings.database_url.startswith("postgresql")
            table, place = ("duly.events", "$1::uuid") if postgres else ("events", "?")
            await tx.execute(f"UPDATE {table} SET via = 'http' WHERE id = {place}", event.id)
        await server.app.tick()
        event = await server.app.events.get(event.id)
        assert event.status is Status.FAILED
        assert "may not be given over HTTP" in (event.last_error or "")


async def test_without_folders_a_worker_runs_what_code_made_and_nothing_else(server: Server) -> None:
    await run_over_http(server, [server.script()])
    server.opens()
    await server.app.after(0, "job", key="codes", target=command("true"))
    await server.app.tick()
    assert (await server.app.events.by_key("k")).status is Status.FAILED
    assert (await server.app.events.by_key("codes")).status is Status.COMPLETED


# -- what code made: nothing of it changes


@pytest.mark.parametrize("key", ["write", "admin", "admin of all"])
async def test_a_schedule_of_code_is_not_edited_over_http(server: Server, key: str) -> None:
    app, http = server.app, await server.by(key)
    await app.schedules.put("nightly", every("1h"), "job", {"level": 9}, target=CODES)
    before = await app.schedules.get("nightly")
    shown = await http.get("/v1/schedules/nightly")
    for body in (
        schedule(None),
        schedule({"webhook": "https://hooks.example/in"}),
        schedule({"command": {"argv": [server.script()]}}),
        shown,
        {**shown, "payload": "; rm -rf /"},
    ):
        answer = await http("PUT", "/v1/schedules/nightly", body)
        assert answer.status_code in (403, 422), answer.text
    for changes in (
        {"payload": {"level": "$(id)"}},
        {"target": None},
        {"target": {"webhook": "https://hooks.example/in"}},
        {"rule": {"every": "1s"}},
        {"type": "other"},
        {"enabled": False},
        {"retry": {"max_attempts": 1000}},
        {"timezone": "Asia/Tokyo"},
        {},
    ):
        answer = await http("PATCH", "/v1/schedules/nightly", changes)
        assert answer.status_code in (403, 422), answer.text
    assert await app.schedules.get("nightly") == before
    assert (before.via, before.payload) == (None, {"level": 9})


@pytest.mark.parametrize("key", ["write", "admin", "admin of all"])
async def test_a_command_of_code_is_triggered_with_its_own_payload_alone(server: Server, key: str) -> None:
    app, http = server.app, await server.by(key)
    await app.schedules.put(
        "nightly", every("1h"), "job", {"level": 9}, target=command("cat"), retry=Retry(max_attempts=1)
    )
    payloads: list[Any] = [{"level": "$(id)"}, None, "", [], {"level": 9.5}]
    for payload in payloads:
        forbidden(await http("POST", "/v1/schedules/nightly/trigger", {"payload": payload}))
    for body in ({}, {"payload": {"level": 9}}):
        answer = await http("POST", "/v1/schedules/nightly/trigger", body)
        if key == "write":
            forbidden(answer)
        else:
            assert answer.status_code == 201
            assert (await app.events.get(answer.json()["id"])).payload == {"level": 9}


@pytest.mark.parametrize("key", ["write", "admin"])
async def test_only_an_admin_starts_a_command_at_another_time(server: Server, clock: ManualClock, key: str) -> None:
    app, http = server.app, await server.by(key)
    await app.schedules.put("nightly", every("1h"), "job", target=command("exit 1"), retry=Retry(max_attempts=1))
    one = await app.at(START + timedelta(days=1), "job", key="k", target=command("true"))
    clock.advance(timedelta(hours=3))
    await app.tick()
    [failed] = [event for event in await app.events.find() if event.status is Status.FAILED]
    past = {"from": (START + timedelta(hours=1)).isoformat(), "to": (START + timedelta(hours=3)).isoformat()}
    later = {"due_at": (START + timedelta(hours=4)).isoformat()}
    acts: list[tuple[str, Any]] = [
        ("/v1/schedules/nightly/trigger", None),
        ("/v1/schedules/nightly/backfill", past),
        ("/v1/schedules/nightly/reschedule", later),
        (f"/v1/events/{one.id}/reschedule", later),
        ("/v1/events/k/reschedule", later),
        (f"/v1/events/{failed.id}/replay", None),
    ]
    for path, body in acts[: len(acts) if key == "write" else None]:
        answer = await http("POST", path, body)
        assert answer.status_code == 403 if key == "write" else answer.is_success, (path, answer.text)
    await app.schedules.pause("nightly")
    answer = await http("POST", "/v1/schedules/nightly/resume", {"passed": "fire"})
    assert answer.status_code == (403 if key == "write" else 200)


@pytest.mark.parametrize("key", ["write", "admin", "admin of all"])
async def test_a_command_of_code_is_replayed_with_its_own_payload_alone(
    server: Server, clock: ManualClock, key: str
) -> None:
    app, http = server.app, await server.by(key)
    made = await app.after(0, "job", {"level": 9}, target=command("true"))
    await app.cancel(made.id)
    path = f"/v1/events/{made.id}/replay"
    answer = await http("POST", path, {"payload": {"level": 10}})
    assert answer.status_code == 403, answer.text
    assert (await app.events.get(made.id)).replayed_as is None
    answer = await http("POST", path, {"payload": {"level": 9}})
    assert answer.status_code == (403 if key == "write" else 201), answer.text
    new = await app.events.replay(made.id, payload={"level": 10})
    assert (new.payload, new.via) == ({"level": 10}, None), "code may do that"


async def test_a_command_that_came_over_http_is_replayed_with_another_payload_by_whom_it_is_open_to(
    server: Server, clock: ManualClock
) -> None:
    app, all_of = server.app, await server.by("admin of all")
    target = {"command": {"argv": [server.script()]}}
    await all_of.put("/v1/timers/k", timer(target, payload={"level": 9}))
    await all_of.delete("/v1/timers/k")
    path = "/v1/events/k/replay"
    assert (await (await server.by("write"))("POST", path, {"payload": {"level": 10}})).status_code == 403
    assert paths(await (await server.by("admin"))("POST", path, {"payload": {"level": 10}})) == ["target.command"]
    new = await all_of.post(path, {"payload": {"level": 10}})
    assert (await app.events.get(new["id"])).via == "http"


async def test_a_bulk_replay_leaves_commands_alone_that_its_key_may_not_start(
    server: Server, clock: ManualClock
) -> None:
    app = server.app

    @app.on("other")
    async def other(_event: object) -> None:
        raise ValueError("no")

    once = Retry(max_attempts=1)
    await app.after(0, "job", key="codes", target=command("exit 1"), retry=once)
    await app.after(0, "other", key="handlers", retry=once)
    await run_over_http(server, [server.script(text="#!/bin/sh\nexit 1\n")])
    await app.tick()
    dead = {event.key for event in await app.events.find() if event.status is Status.FAILED}
    assert dead >= {"codes", "handlers"}
    answer = await (await server.by("write")).post("/v1/events/replay", {"filter": {}})
    assert (answer["replayed"], answer["left_alone"]) == (1, len(dead) - 1)
    assert (await app.events.by_key("codes")).status is Status.FAILED
    answer = await (await server.by("admin")).post("/v1/events/replay", {"filter": {"type": "job"}})
    assert answer["replayed"] == 1  # that of code: what came over HTTP needs a key for all tenants
    assert (await app.events.by_key("codes")).status is Status.PENDING


@pytest.mark.parametrize("key", ["write", "admin", "admin of all"])
@pytest.mark.parametrize("state", ["waiting", "running"])
async def test_a_timer_of_code_is_not_replaced_under_its_key(server: Server, key: str, state: str) -> None:
    app, http = server.app, await server.by(key)
    await app.at(START + timedelta(days=1), "job", {"level": 9}, key="k", target=command("true"))
    if state == "running":
        await app.events.reschedule("k", START)
        claimed = await app.store.claim("w", {"command": 1}, timedelta(minutes=5))
        assert [event.key for event in claimed] == ["k"]
    before, acts = await app.events.by_key("k"), [entry.act for entry in await app.events.history("k")]
    bodies = [
        timer(None),
        timer({"webhook": "https://hooks.example/in"}),
        timer({"command": {"argv": [server.script()]}}),
        timer(command("true"), payload={"level": 9}),
        {"type": "job", "quiet": "1s", "payload": "other"},
        {**timer(None), "once": False},
    ]
    for body in bodies:
        answer = await http("PUT", "/v1/timers/k", body)
        assert answer.status_code in (200, 409, 422), answer.text
        assert answer.status_code != 200 or answer.json()["change"] == "unchanged"
    answer = await http.post("/v1/timers", {"timers": [{**one, "key": "k"} for one in bodies[:1]]})
    assert answer["changed"] + answer["created"] == 0
    assert await app.events.by_key("k") == before
    assert [entry.act for entry in await app.events.history(before.id)] == acts
    assert len(await app.events.find()) == 1


async def test_a_timer_of_code_is_moved_by_code_as_before(server: Server) -> None:
    app = server.app
    await app.at(START + timedelta(days=1), "job", key="k", target=command("true"))
    moved = await app.put(START + timedelta(days=2), "job", {"now": 1}, key="k", target=command("false"))
    assert (moved.change, moved.event.target) == ("moved", command("false"))


@pytest.mark.parametrize("key", ["write", "admin"])
async def test_what_stops_a_command_needs_no_more_than_for_others(server: Server, key: str) -> None:
    app, http = server.app, await server.by(key)
    await app.schedules.put("nightly", every("1h"), "job", target=CODES)
    await app.at(START + timedelta(days=1), "job", key="k", target=CODES)
    for act in ("pause", "resume", "skip"):
        await http.post(f"/v1/schedules/nightly/{act}")
    await http.delete("/v1/timers/k")
    answer = await http("DELETE", "/v1/schedules/nightly")
    assert answer.status_code == (403 if key == "write" else 200)


async def test_a_command_over_http_is_no_way_for_a_lesser_key(server: Server, clock: ManualClock) -> None:
    """An admin of all tenants has made it; a key of the tenant can neither change it, nor give it another payload."""
    app, powerful = server.app, await server.by("admin of all")
    target = {"command": {"argv": [server.script()]}}
    await powerful.put("/v1/schedules/s", schedule(target, payload={"level": 9}))
    clock.advance(timedelta(hours=2))
    for key in ("write", "admin"):
        http = await server.by(key)
        for changes in ({"payload": "x"}, {"rule": {"every": "1s"}}, {"target": {"command": {"argv": ["/bin/sh"]}}}):
            assert paths(await http("PATCH", "/v1/schedules/s", changes))
        for body in ({"payload": "x"}, {}):
            assert (await http("POST", "/v1/schedules/s/trigger", body)).status_code in (403, 422)
    assert (await app.schedules.get("s")).payload == {"level": 9}
    await powerful.patch("/v1/schedules/s", {"payload": {"level": 1}})
    await powerful.post("/v1/schedules/s/trigger", {"payload": "x"})


async def test_a_reader_sees_what_a_command_has_written(server: Server) -> None:
    app = server.app
    event = await app.after(0, "job", target=command("echo done"))
    await app.tick()
    http = await server.by("read")
    history = await http.get(f"/v1/events/{event.id}/history")
    assert [entry["output"] for entry in history["history"]] == ["done\n"]


async def test_a_program_named_over_http_is_run_as_what_was_checked(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link within the folder is followed, and leads elsewhere a moment later: what it led to is run."""
    program, link = server.script("real"), server.folder / "job"
    link.symlink_to(program)

    async def swapped(to_run: Program) -> ProcessGroup:
        link.unlink()
        link.symlink_to("/bin/echo")
        return await start(to_run)

    monkeypatch.setattr("duly.channels.command.channel.start", swapped)
    await run_over_http(server, [str(link), "x"])
    await server.app.tick()
    event = await server.app.events.by_key("k")
    assert event.status is Status.COMPLETED
    [entry] = await server.app.events.history(event.id)
    assert entry.output == f"ran {program} x\n"
