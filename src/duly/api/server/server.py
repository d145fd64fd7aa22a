"""A server for the API, of which others decide when it begins and ends."""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from datetime import timedelta

import uvicorn
from starlette.applications import Starlette

from duly.api.server.acceptor import Acceptor
from duly.api.server.connections import Connections
from duly.api.server.http_protocol import HttpProtocol
from duly.decide.targets.addresses import Network
from duly.errors import Misuse


def listen(host: str, port: int) -> socket.socket:
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        listening = socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or error
        raise Misuse(f"cannot listen on {host}, port {port}: {reason}. Choose another with --host and --port") from None
    # The connections have it from here, for asyncio does not see that they are of TCP. Without it, the body of a small
    # answer waits up to 40 ms until its head is acknowledged.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self.connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])

        def make() -> HttpProtocol:
            return HttpProtocol(self.config, self.server_state, self.lifespan.state, connections=self.connections)

        for listening in sockets or ():
            self.servers.append(Acceptor(listening, make, self.connections))  # type: ignore[arg-type]  # what is called

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # whoever runs it catches them, for all that runs beside it

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        api = self.config.app
        assert isinstance(api, Starlette)
        if (waiting := getattr(api.state, "waiting", None)) is not None:  # it has, unless the API is mounted in it
            waiting.end()  # or the server would wait for those who wait
        await super().shutdown(sockets)


def http_server(
    api: Starlette, grace: timedelta, *, most: int | None = None, trusted: Sequence[Network] = ()
) -> Server:
    """*grace* is how long requests under way may take when it ends; *most* is how many connections may be open, from
    one address half of them unless it is one of the *trusted* proxies."""
    return Server(
        uvicorn.Config(
            api,
            http=HttpProtocol,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # it would believe whatever comes from loopback: see proxies.py
            timeout_keep_alive=30,
            timeout_graceful_shutdown=max(1, int(grace.total_seconds())),
        ),
        Connections(most, trusted),
    )
