"""Sends tasks to Celery workers, as a Celery application would. The library does not support event loops, so a thread
owns the connection."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from amqp.exceptions import AccessRefused, MessageNacked, NotAllowed, NotFound, PreconditionFailed
from celery import Celery as Application
from kombu import Connection, Producer
from kombu.exceptions import OperationalError

from duly.channels.brokers.batches import Batches
from duly.channels.brokers.channel import BrokerBusy, BrokerDown, BrokerMessage, MessageDeferred, MessageRefused
from duly.channels.python.threads import Threads
from duly.decide.error_text import describe_without_paths
from duly.errors import Misuse

for library in ("amqp", "kombu", "celery"):  # errors that matter are raised by the calls
    logging.getLogger(library).addHandler(logging.NullHandler())

MOST_PER_BATCH = 50
"""Tasks that the thread gets at a time."""

LARGE_BYTES = 256 * 1024
"""Bytes of a batch, at which it ends: a task of this size is sent alone."""

SILENCE = 8
"""Seconds for which a broker may be silent: less than the 10 seconds in which a message must be acknowledged."""

TRANSPORT_OPTIONS = {
    "amqp": {"confirm_publish": True, "read_timeout": SILENCE, "write_timeout": SILENCE},
    "redis": {"socket_timeout": SILENCE, "socket_connect_timeout": SILENCE},
}
"""Options of each transport. AMQP brokers must confirm each message: an unconfirmed message is not delivered."""

NO_ROUTE = 312
"""AMQP's reply code for a message that no queue takes."""

PERMANENT_ERRORS = (AccessRefused, NotAllowed, NotFound, PreconditionFailed)
"""Channel errors after which a retry of the same task is useless."""


class Task(NamedTuple):
    where: Mapping[str, Any]
    message: BrokerMessage


class Celery:
    """One connection to Celery's broker, and the one thread that owns the connection."""

    lost: Callable[[str], None]

    def __init__(self, url: str) -> None:
        self._application = Application("duly", set_as_current=False, broker=url)
        self._application.conf.update(task_publish_retry=False, task_ignore_result=True)
        self._connection = Connection(url, connect_timeout=5, transport_options={})
        self._connection.transport_options.update(TRANSPORT_OPTIONS.get(self._connection.transport.driver_type, {}))
        self._producer: Producer
        self._threads = Threads()
        self._batches = Batches(self._send, lambda reason: self.lost(reason), MOST_PER_BATCH, LARGE_BYTES)

    async def open(self) -> None:
        await self._in_thread(self._open)

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        await self._batches.add(Task(where, message), len(message.body))

    async def ping(self) -> None:
        """Pings over a second connection: the thread may be waiting for an answer on the first."""
        await self._in_thread(self._connect_once)

    async def close(self) -> None:
        self._batches.end(BrokerDown("Celery: the connection is closed"))
        try:
            await self._in_thread(self._connection.close)
        finally:
            self._threads.end()

    async def _in_thread(self, function: Callable[[], None]) -> None:
        def called() -> Exception | None:
            try:
                function()
            except Exception as error:
                return error
            return None

        if (error := await self._threads.call(called)) is not None:
            raise error

    async def _send(self, tasks: list[Task]) -> list[Exception | None]:
        return await self._threads.call(self._send_all, tasks)

    # -- in the thread

    def _open(self) -> None:
        try:
            _connect(self._connection)
            self._producer = self._application.amqp.Producer(self._connection, auto_declare=False)
        except (AccessRefused, NotAllowed) as error:
            raise Misuse(f"Celery's broker refuses the credentials in its URL: {error}") from error
        except Exception as error:
            if type(error).__name__ == "AuthenticationError":  # of Redis, which need not be installed
                raise Misuse(f"Celery's broker refuses the credentials in its URL: {error}") from error
            raise

    def _connect_once(self) -> None:
        with self._connection.clone() as connection:
            _connect(connection)

    def _send_all(self, tasks: list[Task]) -> list[Exception | None]:
        answers: list[Exception | None] = []
        for task in tasks:
            answers.append(self._send_one(task))
            if isinstance(answers[-1], BrokerDown):
                break
        return answers + answers[-1:] * (len(tasks) - len(answers))

    def _send_one(self, task: Task) -> Exception | None:
        try:
            try:
                self._publish(task, declare=[], mandatory=True)
            except self._connection.channel_errors as error:
                if getattr(error, "reply_code", None) != NO_ROUTE:
                    raise
                # The queue does not exist yet: it is declared, as any Celery application does. This takes a new
                # channel, because the current one still awaits the confirmation of the returned message.
                self._renew()
                self._publish(task)
        except Exception as error:
            return self._meaning(error)
        return None

    def _publish(self, task: Task, **options: Any) -> None:
        args, kwargs = arguments_of(msgspec.json.decode(task.message.body))
        self._application.send_task(
            task.where["task"],
            args,
            kwargs,
            task_id=task.message.id,
            queue=task.where.get("queue"),
            producer=self._producer,
            headers=dict(task.message.headers),
            retry=False,
            add_to_parent=False,
            **options,
        )

    def _renew(self) -> None:
        self._producer.revive(self._connection.channel())

    def _meaning(self, error: Exception) -> Exception:
        told = f"Celery: {describe_without_paths(error)}"
        if isinstance(error, MessageNacked):
            return MessageDeferred("Celery: the queue did not accept the task: check whether it is full")
        if isinstance(error, self._connection.channel_errors):
            try:
                self._renew()
            except Exception:
                return BrokerDown(told)
            return MessageRefused(told) if isinstance(error, PERMANENT_ERRORS) else MessageDeferred(told)
        if isinstance(error, TimeoutError):
            return BrokerBusy(told)
        gone = (*self._connection.connection_errors, OperationalError, OSError, AttributeError)
        return (
            BrokerDown(told) if isinstance(error, gone) else MessageDeferred(told)
        )  # AttributeError: raised by a connection while it closes


def _connect(connection: Connection) -> None:
    connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, reraise_as_library_errors=False)


def arguments_of(payload: Any) -> tuple[list[Any], dict[str, Any]]:
    """The positional and keyword arguments with which a task is called for a payload.

    >>> arguments_of({"user": 7}), arguments_of([1, 2]), arguments_of("x"), arguments_of(None)
    (([], {'user': 7}), ([1, 2], {}), (['x'], {}), ([], {}))
    """
    if payload is None:
        return [], {}
    if isinstance(payload, dict):
        return [], payload
    return (payload if isinstance(payload, list) else [payload]), {}
