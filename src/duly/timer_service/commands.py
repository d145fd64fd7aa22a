"""Takes commands in: read, store in one transaction, and only then acknowledge. What is acknowledged is on disk; what
is not comes again, and changes nothing then."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from duly.decide.error_text import describe
from duly.engine.schedule import OrderedTimer, put_ordered_timers, takes_timers
from duly.engine.store_backoff import StoreBackoff
from duly.errors import Invalid, NotFound, Problem, StoreError, StoreUnavailable
from duly.ports import Command, Commands, TimerStore
from duly.records.event import Timer
from duly.signals import CommandRejected, CommandsTaken, CommandStuck, Signals
from duly.timer_service.messages import BRIEF, LARGEST, read_command, write_rejection

RACES = 3
"""How often somebody may cancel a timer in the very moment in which it is put."""

OFTEN = 5
"""Deliveries after which a command that could never be stored is itself at fault, if the store takes others."""


class OrderedCommand(NamedTuple):
    command: Command
    timer: Timer


class RejectedCommand(NamedTuple):
    command: Command
    problems: Sequence[Problem]


class TimerCommands:
    def __init__(
        self, commands: Commands, store: TimerStore, channels: Collection[str], signals: Signals, batch_size: int
    ) -> None:
        self._commands, self._store, self._channels = commands, store, channels
        self._signals, self._batch_size = signals, batch_size
        self._store_backoff = StoreBackoff(signals)

    async def round(self, within: float) -> int:
        """Take what there is, or wait so many seconds for some; how many there were."""
        taken = await self._commands.take(self._batch_size, within)
        if taken:
            await self._carry_out(taken)
        return len(taken)

    async def _carry_out(self, taken: Sequence[Command]) -> None:
        wanted: list[OrderedCommand] = []
        refused: list[RejectedCommand] = []
        for command in taken:
            read = read_command(command.data)
            if isinstance(read, Timer):
                wanted.append(OrderedCommand(command, read))
            else:
                refused.append(RejectedCommand(command, read))
        if wanted:
            refused += await self._put_patiently(wanted)
        unwelcome = {id(command) for command, _ in refused}
        for command in taken:
            if id(command) not in unwelcome:
                await command.ack()
        for one in refused:  # after the others, which need not wait for it
            await self._reject(one)
        self._signals.emit(CommandsTaken(len(taken), len(refused)))

    async def _reject(self, refused: RejectedCommand) -> None:
        command, problems = refused
        reason, now = "; ".join(map(str, problems)), datetime.now(UTC)
        rejections = [write_rejection(command.data, problems, now, most) for most in (LARGEST, BRIEF)]
        if (stuck := await self._commands.reject(command, *rejections)) is None:
            self._signals.emit(CommandRejected(command.place, reason))
            await command.ack()
        else:
            self._signals.emit(CommandStuck(command.place, f"{stuck}; it was refused because of {reason}"))

    async def _put_patiently(self, wanted: Sequence[OrderedCommand]) -> list[RejectedCommand]:
        """Until the store takes them: nothing is acknowledged before that. Those that it will never take come back."""
        while True:
            try:
                refused = await self._put(wanted)
            except StoreUnavailable as error:
                await asyncio.sleep(self._store_backoff.failed(error))
            else:
                self._store_backoff.over()
                return refused

    async def _put(self, wanted: Sequence[OrderedCommand]) -> list[RejectedCommand]:
        """One that cannot be stored must not take its neighbours along. But what befalls all of them is not theirs."""
        error = await self._try_to_put(wanted)
        if error is None:
            return []
        failed = [(wanted[0], error)] if len(wanted) == 1 else await self._each_alone(wanted)
        if len(failed) == len(wanted) and not await self._are_at_fault(failed):
            raise error
        again = await self._each_alone([one for one, _ in failed])  # it may have befallen the first ones, and be over
        return [RejectedCommand(one.command, _problems(error)) for one, error in again]

    async def _are_at_fault(self, failed: Sequence[tuple[OrderedCommand, Exception]]) -> bool:
        """Whether it is these, and not the store: what is wrong with them is known, or they have come often, and the
        store would take another."""
        if all(isinstance(error, Invalid) for _, error in failed):
            return True
        if any(one.command.deliveries < OFTEN or isinstance(error, StoreError) for one, error in failed):
            return False
        return await takes_timers(self._store, failed[0][0].timer, self._channels)

    async def _each_alone(self, wanted: Sequence[OrderedCommand]) -> list[tuple[OrderedCommand, Exception]]:
        """Those that fail, and why."""
        tried = [(one, await self._try_to_put([one])) for one in wanted]
        return [(one, error) for one, error in tried if error is not None]

    async def _try_to_put(self, wanted: Sequence[OrderedCommand]) -> Exception | None:
        """Why that is not possible."""
        ordered = [OrderedTimer(one.command.order, one.timer) for one in wanted]
        failed: Exception | None = None
        for _ in range(RACES):
            try:
                await put_ordered_timers(self._store, ordered, self._channels)
            except StoreUnavailable:
                raise
            except NotFound as error:
                failed = error
            except Exception as error:
                return error
            else:
                return None
        return failed


def _problems(error: Exception) -> Sequence[Problem]:
    return error.problems if isinstance(error, Invalid) else [Problem("message", describe(error))]
