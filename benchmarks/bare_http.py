"""What the API is measured against: FastAPI, uvicorn and asyncpg, and no more than a row stored for each request."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

TABLE = "CREATE TABLE IF NOT EXISTS bare (key text PRIMARY KEY, type text, due timestamptz, payload json)"
INSERT = "INSERT INTO bare VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO UPDATE SET due = excluded.due RETURNING key"


class Timer(BaseModel):
    type: str
    due_at: datetime
    payload: Any = None


def application(url: str) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.pool = await asyncpg.create_pool(url, min_size=0, max_size=10)
        await app.state.pool.execute(TABLE)
        yield
        await app.state.pool.close()

    app = FastAPI(lifespan=lifespan)

    @app.put("/v1/timers/{key}", status_code=201)
    async def put(key: str, timer: Timer) -> dict[str, Any]:
        row = await app.state.pool.fetchrow(INSERT, key, timer.type, timer.due_at, json.dumps(timer.payload))
        return {"key": row["key"], "type": timer.type, "due_at": timer.due_at, "payload": timer.payload}

    return app


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as ``duly serve`` does
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
    config = uvicorn.Config(application(sys.argv[1]), log_config=None, access_log=False)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
