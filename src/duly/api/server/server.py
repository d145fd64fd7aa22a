"""The HTTP server of the API; its caller decides when it starts and stops."""

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
    # Accepted connections inherit this option; asyncio would not set it, because it does not see that they are TCP.
    # Without it, the body of a small answer waits up to 40 ms until its head is acknowledged.
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
            self.servers.append(Acceptor(listening, make, self.connections))  # type: ignore[arg-type]  # what uvicorn calls

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the caller handles the signals, for everything in the process

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        api = self.config.app
        assert isinstance(api, Starlette)
        for name in ("waiting", "live"):  # otherwise, the server would wait for long polls, and for open dashboards
            if (going_on := getattr(api.state, name, None)) is not None:  # None if the API is mounted
                going_on.end()
        await super().shutdown(sockets)


def http_server(
    api: Starlette, grace: timedelta, *, most: int | None = None, trusted: Sequence[Network] = ()
) -> Server:
    """The server of an API. *grace* is how long requests under way may take when the server stops; *most* is the number
    of connections that may be open, half of them from one address unless that is one of the *trusted* proxies."""
    return Server(
        uvicorn.Config(
            api,
            http=HttpProtocol,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # uvicorn would trust every header from loopback: see proxies.py
            timeout_keep_alive=30,
            timeout_graceful_shutdown=max(1, int(grace.total_seconds())),
        ),
        Connections(most, trusted),
    )
