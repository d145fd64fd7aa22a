"""Takes commands in: reads a batch, stores it in one transaction, and only then acknowledges it. An acknowledged
command is on disk. A command that is not acknowledged is delivered again, and storing it twice changes nothing."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from duly.decide.error_text import describe
from duly.engine.faults.store_backoff import StoreBackoff
from duly.engine.schedule import OrderedTimer, put_ordered_timers, takes_timers
from duly.errors import Conflict, Invalid, Problem, StoreError, StoreUnavailable
from duly.ports import Command, Commands, TimerStore
from duly.records.event import Timer
from duly.signals import CommandRejected, CommandsTaken, CommandStuck, Signals
from duly.timer_service.messages import LARGEST_COMMAND, SHORT_EXCERPT, read_command, write_rejection

DELIVERIES_BEFORE_REJECTION = 5
"""Deliveries after which a command that was never stored is rejected, if the store accepts other timers."""


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
        """Takes and stores one batch of commands, waiting up to *within* seconds for the first. Returns the number of
        commands taken."""
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
        for one in refused:  # last, so that good commands do not wait for the rejections
            await self._reject(one)
        self._signals.emit(CommandsTaken(len(taken), len(refused)))

    async def _reject(self, refused: RejectedCommand) -> None:
        command, problems = refused
        reason, now = "; ".join(map(str, problems)), datetime.now(UTC)
        rejections = [write_rejection(command.data, problems, now, most) for most in (LARGEST_COMMAND, SHORT_EXCERPT)]
        if (stuck := await self._commands.reject(command, *rejections)) is None:
            self._signals.emit(CommandRejected(command.place, reason))
            await command.ack()
        else:
            self._signals.emit(CommandStuck(command.place, f"{stuck}; it was refused because of {reason}"))

    async def _put_patiently(self, wanted: Sequence[OrderedCommand]) -> list[RejectedCommand]:
        """Retries until the store accepts the commands, because none may be acknowledged before that. Returns the
        commands that the store will never accept."""
        while True:
            try:
                refused = await self._put(wanted)
            except StoreUnavailable as error:
                await asyncio.sleep(self._store_backoff.failed(error))
            else:
                self._store_backoff.over()
                return refused

    async def _put(self, wanted: Sequence[OrderedCommand]) -> list[RejectedCommand]:
        """Stores commands and returns the rejected ones. A bad command must not fail the others of its batch, so each
        is then stored alone. An error of all commands is the store's, and is raised."""
        error = await self._try_to_put(wanted)
        if error is None:
            return []
        failed = [(wanted[0], error)] if len(wanted) == 1 else await self._each_alone(wanted)
        if len(failed) == len(wanted) and not await self._are_at_fault(failed):
            raise error
        again = await self._each_alone([one for one, _ in failed])  # a temporary error may have hit the first ones
        return [RejectedCommand(one.command, _problems(error)) for one, error in again]

    async def _are_at_fault(self, failed: Sequence[tuple[OrderedCommand, Exception]]) -> bool:
        """Whether the commands are at fault and not the store: either they are invalid, or their keys belong to events
        of other types, or they were delivered often and the store accepts another timer."""
        if all(isinstance(error, Invalid | Conflict) for _, error in failed):
            return True
        if any(
            one.command.deliveries < DELIVERIES_BEFORE_REJECTION or isinstance(error, StoreError)
            for one, error in failed
        ):
            return False
        return await takes_timers(self._store, failed[0][0].timer, self._channels)

    async def _each_alone(self, wanted: Sequence[OrderedCommand]) -> list[tuple[OrderedCommand, Exception]]:
        """Stores each command in a transaction of its own. Returns the failed commands with their errors."""
        tried = [(one, await self._try_to_put([one])) for one in wanted]
        return [(one, error) for one, error in tried if error is not None]

    async def _try_to_put(self, wanted: Sequence[OrderedCommand]) -> Exception | None:
        """Stores all commands in one transaction. Returns the error if that fails."""
        ordered = [OrderedTimer(one.command.order, one.timer) for one in wanted]
        try:
            await put_ordered_timers(self._store, ordered, self._channels)
        except StoreUnavailable:
            raise
        except Exception as error:
            return error
        return None


def _problems(error: Exception) -> Sequence[Problem]:
    return error.problems if isinstance(error, Invalid) else [Problem("message", describe(error))]
