"""The application that ``duly serve`` runs during the attacks: its handler does nothing."""

from duly import Duly, Event

duly = Duly()


@duly.on("bench")
async def handle(_event: Event) -> None: ...
