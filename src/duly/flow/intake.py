"""Takes commands in: read, store in one transaction, and only then acknowledge. What is acknowledged is on disk; what
is not comes again, and changes nothing then."""

import asyncio
import logging
from collections.abc import Collection, Sequence

from duly.core.model import Timer
from duly.core.timer_messages import read_command, write_rejection
from duly.errors import DulyError, Invalid, Problem, StoreUnavailable
from duly.flow.outage import Outage
from duly.flow.schedule import put_timers
from duly.ports import Command, Commands, Store
from duly.signals import CommandRejected, CommandsTaken, Signals

log = logging.getLogger("duly")

Wanted = tuple[Command, Timer]


class Intake:
    def __init__(
        self, commands: Commands, store: Store, channels: Collection[str], signals: Signals, batch_size: int
    ) -> None:
        self._commands, self._store, self._channels = commands, store, channels
        self._signals, self._batch_size = signals, batch_size
        self._outage = Outage(signals)

    async def round(self, within: float) -> int:
        """Take what there is, or wait so many seconds for some; how many there were."""
        taken = await self._commands.take(self._batch_size, within)
        wanted: list[Wanted] = []
        refused: list[tuple[Command, list[Problem]]] = []
        for command in taken:
            read = read_command(command.data)
            if isinstance(read, Timer):
                wanted.append((command, read))
            else:
                refused.append((command, read))
        if wanted:
            refused += await self._put_patiently(wanted)
        unwelcome = {id(command) for command, _ in refused}
        for command, problems in refused:
            await self._commands.reject(command, write_rejection(command.data, problems, await self._store.now()))
            self._signals.emit(CommandRejected(command.place, "; ".join(map(str, problems))))
        for command in taken:
            await command.ack()
        if taken:
            self._signals.emit(CommandsTaken(len(taken), len(unwelcome)))
        return len(taken)

    async def _put_patiently(self, wanted: Sequence[Wanted]) -> list[tuple[Command, list[Problem]]]:
        """Until the store takes them: nothing is acknowledged before that. Those that it will never take come back."""
        while True:
            try:
                refused = await self._put(wanted)
            except StoreUnavailable as error:
                await asyncio.sleep(self._outage.failed(error))
            else:
                self._outage.over()
                return refused

    async def _put(self, wanted: Sequence[Wanted]) -> list[tuple[Command, list[Problem]]]:
        try:
            await put_timers(self._store, [timer for _, timer in wanted], self._channels, self._signals)
        except StoreUnavailable:
            raise
        except DulyError as error:  # one of them must not take its neighbours along
            if len(wanted) > 1:
                return [refused for one in wanted for refused in await self._put([one])]
            problems = list(error.problems) if isinstance(error, Invalid) else [Problem("message", str(error))]
            return [(wanted[0][0], problems)]
        return []
