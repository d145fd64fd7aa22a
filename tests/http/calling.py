"""Calls of the API, without a socket in between."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from duly import Duly
from duly.api.app import Api
from tests.http.describing import Description


class Caller:
    """Asks, and checks what holds for every answer."""

    def __init__(self, app: Duly, api: Api, client: httpx.AsyncClient) -> None:
        self.app, self.api, self.client = app, api, client
        self._description = Description(api.openapi())

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Header names are written with underscores: ``if_match='"…"'``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        options: dict[str, Any] = {} if body is None else {"json": body}
        if isinstance(body, bytes):
            options = {"content": body}
        answer = await self.client.request(method, path, headers=named, **options)
        assert answer.headers["x-request-id"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        if answer.is_error:
            problem = answer.json()
            assert answer.headers["content-type"] == "application/problem+json"
            assert problem["status"] == answer.status_code
            assert problem["detail"]
            assert problem["request_id"] == answer.headers["x-request-id"]
        self._description.check(answer)
        return answer

    async def get(self, path: str, **headers: str) -> Any:
        return ok(await self("GET", path, **headers))

    async def put(self, path: str, body: Any, **headers: str) -> Any:
        return ok(await self("PUT", path, body, **headers))

    async def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return ok(await self("POST", path, body, **headers))

    async def patch(self, path: str, body: Any, **headers: str) -> Any:
        return ok(await self("PATCH", path, body, **headers))

    async def delete(self, path: str, **headers: str) -> Any:
        return ok(await self("DELETE", path, **headers))


OpenCaller = Callable[..., Awaitable[Caller]]


def ok(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()


def paths(answer: httpx.Response) -> list[str]:
    """What is wrong with a request."""
    assert answer.status_code == 422, answer.text
    return [error["path"] for error in answer.json()["errors"]]
