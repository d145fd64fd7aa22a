"""Threads for plain ``def`` handlers. One that never returns is left behind; the others are not held up by it."""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeAlias, TypeVar

from duly.core.exhaustion import Exhausted

T = TypeVar("T")

Inbox: TypeAlias = "queue.SimpleQueue[Callable[[], None] | None]"
"""What a thread is to do, one after another; None is the end of it."""

NO_THREAD = "this machine starts no more threads: raise their limit (ulimit -u, TasksMax=)"


class Threads:
    """Grows as calls need it. The worker bounds how many there are, and a thread that hangs is not counted:
    an executor of fixed size would be full of hung calls in the end."""

    def __init__(self) -> None:
        self._idle: list[Inbox] = []
        self._ended = False

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """The function must not raise. If the caller is cancelled, its thread goes on and is used again later."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = copy_context()
        inbox = self._idle.pop() if self._idle else self._start()

        def job() -> None:
            result = context.run(function, *args)
            try:
                loop.call_soon_threadsafe(done, result)
            except RuntimeError:  # the loop has closed meanwhile: nobody waits for this any more
                inbox.put(None)

        def done(result: T) -> None:
            if self._ended:
                inbox.put(None)
            else:
                self._idle.append(inbox)
            if not future.done():
                future.set_result(result)

        inbox.put(job)
        return await future

    def end(self) -> None:
        """Let each thread end when it has done what it is at."""
        self._ended = True
        while self._idle:
            self._idle.pop().put(None)

    def _start(self) -> Inbox:
        inbox: Inbox = queue.SimpleQueue()

        def work() -> None:
            while (job := inbox.get()) is not None:
                job()

        # Daemons: a hung handler must not keep the process from ending.
        thread = threading.Thread(target=work, name="duly-handler", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise Exhausted(NO_THREAD) from error
        return inbox
