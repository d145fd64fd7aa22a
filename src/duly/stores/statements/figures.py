"""The statement that monitoring asks."""

from collections import defaultdict
from datetime import timedelta
from typing import Any

from duly.ports import LaneDepth, StoreFigures
from duly.stores.columns.readers import EPOCH
from duly.stores.query_base import QueryBase


class FigureQueries(QueryBase):
    most_counted: int  # rows of one figure, unless another number is given

    async def figures(self, limit: int, most: int | None = None) -> StoreFigures:
        most = most or self.most_counted
        found: dict[str, list[tuple[str, int, int | None]]] = defaultdict(list)
        for figure, of, many, other in await self.ask("figures", limit=limit, most=most):
            found[figure].append((of, many, other))
        lanes = [LaneDepth(lane, due, self._instant_of(oldest)) for lane, due, oldest in found["lane"]]
        due = sum(lane.due for lane in lanes)
        return StoreFigures(
            now=self._instant_of(found["now"][0][1]),
            lanes=lanes,
            pending=_estimated(*found["pending"][0][1:], most=most, others=due),  # of the same index
            dead_letters=_estimated(*found["dead"][0][1:], most=most),
            held={kind: many for kind, many, _ in found["held"]},
            parked=found["parked"][0][1],
            halted={kind: many for kind, many, _ in found["halted"]},
        )

    @staticmethod
    def _instant_of(micros: int | None) -> Any:
        return None if micros is None else EPOCH + timedelta(microseconds=micros)


def _estimated(counted: int, known: int | None, *, most: int, others: int = 0) -> int:
    """A number of rows that was counted up to *most*; if there are more, what the planner knows of the size of their
    index, which has *others* as well."""
    return counted if counted < most or known is None else max(counted, known - others)
