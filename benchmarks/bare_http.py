"""The baseline of the API benchmarks: Starlette, uvicorn and asyncpg, which store one row for each request."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import asyncpg
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

TABLE = "CREATE TABLE IF NOT EXISTS bare (key text PRIMARY KEY, type text, due timestamptz, payload json)"
INSERT = "INSERT INTO bare VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO UPDATE SET due = excluded.due RETURNING key"


def application(url: str) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.pool = await asyncpg.create_pool(url, min_size=0, max_size=10)
        await app.state.pool.execute(TABLE)
        yield
        await app.state.pool.close()

    async def put(request: Request) -> JSONResponse:
        timer = await request.json()
        key, due = request.path_params["key"], datetime.fromisoformat(timer["due_at"])
        row = await request.app.state.pool.fetchrow(INSERT, key, timer["type"], due, json.dumps(timer["payload"]))
        stored = {"key": row["key"], "type": timer["type"], "due_at": due.isoformat(), "payload": timer["payload"]}
        return JSONResponse(stored, 201)

    return Starlette(routes=[Route("/v1/timers/{key}", put, methods=["PUT"])], lifespan=lifespan)


def main() -> None:
    """Serves the application with uvicorn, configured as in ``duly serve``."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
    config = uvicorn.Config(
        application(sys.argv[1]),
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
    )
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
