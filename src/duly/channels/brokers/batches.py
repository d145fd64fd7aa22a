"""Sends waiting messages in batches, in the order of their arrival: one at a time, each message would wait for the
acknowledgements of all messages before it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from duly.channels.brokers.channel import BrokerDown, MessageDeferred
from duly.decide.error_text import describe_without_paths
from duly.decide.exhaustion import exhausted

T = TypeVar("T")

Send = Callable[[list[T]], Awaitable[Sequence[Exception | None]]]
"""Sends a batch and returns, for each item, its error or None. `BrokerDown`, returned or raised, ends all batches."""


class WaitingMessage(NamedTuple, Generic[T]):
    item: T
    size: int
    sent: "asyncio.Future[None]"


class Batches(Generic[T]):
    def __init__(self, send: Send[T], lost: Callable[[str], None], most: int, large: int) -> None:
        self._send, self._lost = send, lost
        self._most, self._large = most, large  # messages of a batch, and bytes at which it ends
        self._waiting: deque[WaitingMessage[T]] = deque()
        self._under_way: list[WaitingMessage[T]] = []
        self._sending: asyncio.Task[None] | None = None
        self._ended: BrokerDown | None = None

    async def add(self, item: T, size: int) -> None:
        """Returns when the item is sent; raises the error that kept the item from being sent."""
        if self._ended is not None:
            raise self._ended
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(WaitingMessage(item, size, sent))
        if self._sending is None:
            self._sending = asyncio.create_task(self._work())
        await sent

    def end(self, reason: BrokerDown) -> None:
        self._ended = self._ended or reason
        for one in [*self._under_way, *self._waiting]:
            _settle(one.sent, reason)
        self._waiting.clear()
        if self._sending is not None:
            self._sending.cancel()

    async def _work(self) -> None:
        while batch := self._next():
            self._under_way = batch
            answers = await self._answers(batch)
            for one, answer in zip(batch, answers, strict=True):
                _settle(one.sent, answer)
            for answer in answers:
                if isinstance(answer, BrokerDown):
                    self._sending = None
                    self.end(answer)
                    self._lost(str(answer))
                    return
        self._under_way, self._sending = [], None

    async def _answers(self, batch: Sequence[WaitingMessage[T]]) -> Sequence[Exception | None]:
        """One answer for each message of the batch, also when sending raises: the next batch must still be sent."""
        try:
            answers = await self._send([one.item for one in batch])
        except BrokerDown as error:
            return [error] * len(batch)
        except Exception as error:  # a bug of the library: the senders of these messages report the error
            if (lack := exhausted(error)) is not None:
                return [BrokerDown(lack)] * len(batch)
            return [MessageDeferred(f"not sent: {describe_without_paths(error)}")] * len(batch)
        if len(answers) != len(batch):
            return [
                MessageDeferred(f"{len(batch)} messages were sent together, but {len(answers)} answers came")
            ] * len(batch)
        return answers

    def _next(self) -> list[WaitingMessage[T]]:
        batch: list[WaitingMessage[T]] = []
        size = 0
        while self._waiting and len(batch) < self._most:
            size += self._waiting[0].size
            if batch and size >= self._large:
                break
            batch.append(self._waiting.popleft())
        return batch


def _settle(sent: "asyncio.Future[None]", answer: Exception | None) -> None:
    if sent.done():  # its caller was cancelled and no longer waits
        return
    if answer is None:
        sent.set_result(None)
    else:
        sent.set_exception(answer)
