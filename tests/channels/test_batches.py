"""What goes out together: nobody waits for an answer that cannot come."""

import asyncio
from collections.abc import Sequence

import pytest

from duly.channels.brokers.batches import Batches
from duly.channels.brokers.channel import BrokerDown, MessageDeferred


class Library:
    """Sends what it is given, and does what it is told to on the way."""

    def __init__(self) -> None:
        self.fails: BaseException | None = None
        self.forgets = False
        self.sent: list[str] = []
        self.lost: list[str] = []
        self.batches = Batches(self.send, self.lost.append, most=10, large=1000)

    async def send(self, items: list[str]) -> Sequence[Exception | None]:
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        self.sent += items
        return [None] * (len(items) - self.forgets)

    async def add(self, *items: str) -> list[BaseException | None]:
        async with asyncio.timeout(30):
            return await asyncio.gather(*(self.batches.add(item, 1) for item in items), return_exceptions=True)


async def test_a_bug_while_sending_a_batch_is_told_to_each_message_and_the_next_batch_goes_out() -> None:
    library = Library()
    library.fails = ValueError("a bug in the library")
    answers = await library.add("one", "two")
    assert [type(answer) for answer in answers] == [MessageDeferred, MessageDeferred]
    assert str(answers[0]) == "not sent: ValueError: a bug in the library"
    library.fails = None
    assert await library.add("three") == [None]
    assert library.sent == ["three"]
    assert not library.lost


async def test_a_batch_with_too_few_answers_acknowledges_no_message() -> None:
    library = Library()
    library.forgets = True
    answers = await library.add("one", "two")
    assert {str(answer) for answer in answers} == {"2 messages were sent together, but 1 answers came"}
    library.forgets = False
    assert await library.add("three") == [None]


async def test_a_broker_that_goes_down_ends_the_batches_for_all() -> None:
    library = Library()
    library.fails = BrokerDown("gone")
    assert [type(answer) for answer in await library.add("one", "two")] == [BrokerDown, BrokerDown]
    assert library.lost == ["gone"]
    with pytest.raises(BrokerDown, match="gone"):
        await library.batches.add("three", 1)
