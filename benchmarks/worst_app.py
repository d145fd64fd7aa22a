"""The app that ``duly serve`` runs while one tenant is at its worst: its events do nothing."""

from duly import Duly, Event

duly = Duly()


@duly.on("bench")
async def handle(_event: Event) -> None: ...
