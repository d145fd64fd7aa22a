"""Threads for plain ``def`` handlers. A thread whose handler never returns is abandoned and does not delay other
handlers, until too many threads hang."""

import asyncio
import queue
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeAlias, TypeVar

from duly.decide.exhaustion import Exhausted

T = TypeVar("T")

Inbox: TypeAlias = "queue.SimpleQueue[Callable[[], None] | None]"
"""The queue of a thread's jobs; None ends the thread."""

Watcher: TypeAlias = Callable[[], None]

UNBOUNDED = sys.maxsize

NO_THREAD = "this machine cannot start more threads: raise the limit (ulimit -u, TasksMax=)"


class Threads:
    """A pool of threads that grows as calls need them. The worker bounds the number of concurrent calls. Hung threads
    do not count towards that bound: a pool of fixed size would soon be full of hung calls. They have a bound of their
    own, because each keeps its memory and its resources."""

    def __init__(self, most_hung: Callable[[], int] = lambda: UNBOUNDED) -> None:
        self._most_hung = most_hung
        self._idle: list[Inbox] = []
        self._ended = False
        self.hung = 0  # calls whose caller was cancelled and whose threads still run
        self.watchers: list[Watcher] = []  # called when ``down`` changes

    @property
    def down(self) -> str | None:
        """The reason why no more calls are started, or None."""
        if self.hung < self._most_hung():
            return None
        return (
            f"{self.hung} threads of plain def handlers are still running after their deadlines in this "
            "process, so no more are started: find out what they wait for and give it a time-out, or restart the worker"
        )

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function in a thread. The function must not raise. If the caller is cancelled, the thread continues,
        and is reused once the function has returned."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = copy_context()
        inbox = self._idle.pop() if self._idle else self._start()
        has_ended = is_hung = False

        def job() -> None:
            result = context.run(function, *args)
            try:
                loop.call_soon_threadsafe(done, result)
            except RuntimeError:  # the loop has closed meanwhile, so no caller waits
                inbox.put(None)

        def done(result: T) -> None:
            nonlocal has_ended
            has_ended = True
            if is_hung:
                self._count_hung(-1)
            if self._ended:
                inbox.put(None)
            else:
                self._idle.append(inbox)
            if not future.done():
                future.set_result(result)

        inbox.put(job)
        try:
            return await future
        except asyncio.CancelledError:
            if not has_ended:
                is_hung = True
                self._count_hung(1)
            raise

    def _count_hung(self, change: int) -> None:
        before = self.down is None
        self.hung += change
        if before != (self.down is None):
            for changed in list(self.watchers):
                changed()

    def end(self) -> None:
        """Ends idle threads now, and each busy thread after its current call."""
        self._ended = True
        while self._idle:
            self._idle.pop().put(None)

    def _start(self) -> Inbox:
        inbox: Inbox = queue.SimpleQueue()

        def work() -> None:
            while (job := inbox.get()) is not None:
                job()

        # A daemon thread: a hung handler must not keep the process from exiting.
        thread = threading.Thread(target=work, name="duly-handler", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise Exhausted(NO_THREAD) from error
        return inbox
