"""The addresses of the dashboard, and the functions that answer them."""

from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from starlette.responses import Response

from duly.dashboard.visit import Visit
from duly.records.api_key import Scope

View = Callable[[Visit], Awaitable[Response]]


class Page(NamedTuple):
    """An address of the dashboard."""

    method: str
    path: str
    view: View
    needs: Scope
    writes: bool
    system: bool  # only for visitors who may see what belongs to no tenant


class Pages:
    """The pages of one subject, which its functions add themselves to."""

    def __init__(self) -> None:
        self._pages: list[Page] = []

    def __iter__(self) -> Iterator[Page]:
        return iter(self._pages)

    def add(self, page: Page) -> None:
        """Adds a page of another group: a subject may be divided into several files."""
        self._pages.append(page)

    def get(self, path: str, *, system: bool = False) -> Callable[[View], View]:
        """Answers GET: a page, which changes nothing."""
        return self._adding("GET", path, Scope.READ, writes=False, system=system)

    def post(self, path: str, *, needs: Scope = Scope.WRITE, writes: bool = True) -> Callable[[View], View]:
        """Answers POST: an act, or with *writes* False a preview of one."""
        return self._adding("POST", path, needs, writes=writes, system=False)

    def _adding(self, method: str, path: str, needs: Scope, *, writes: bool, system: bool) -> Callable[[View], View]:
        def add(view: View) -> View:
            self._pages.append(Page(method, path, view, needs, writes, system))
            return view

        return add
