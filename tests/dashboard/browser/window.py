"""A window of a browser, and what must hold for whatever is done in it."""

from functools import cache
from importlib.resources import files
from typing import Any

from playwright.async_api import ConsoleMessage, Page, Request, expect

from duly import Duly
from tests.dashboard.browser.chromium import ZONE

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
"""What axe-core looks for."""


class Window:
    """A page in a browser; errors and requests to other hosts are written down."""

    def __init__(self, app: Duly, base: str, page: Page) -> None:
        self.app, self.base, self.page = app, base, page
        self.expected: list[str] = []  # parts of console errors that the test causes on purpose
        self._errors: list[str] = []
        self._foreign: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self._errors.append(str(error)))
        page.on("request", self._asked)

    async def open(self, path: str) -> None:
        """Opens a page, in the time zone of the browser."""
        await self.page.goto(path)
        await expect(self.page.locator("html")).to_have_attribute("data-zone", ZONE)

    async def act(self, button: str, verb: str, **fields: str) -> None:
        """Opens the form of an act by its button, fills it in, and sends it."""
        await self.page.get_by_role("link", name=button, exact=True).click()
        dialog = self.page.locator("dialog#dialog")
        await expect(dialog).to_be_visible()
        for name, value in fields.items():
            field = dialog.locator(f"[name={name}]")
            if await field.evaluate("one => one.tagName") == "SELECT":
                await field.select_option(value)
            else:
                await field.fill(value)
        await dialog.get_by_role("button", name=verb, exact=True).click()
        await expect(dialog).to_be_hidden()

    async def violations(self) -> list[str]:
        """What axe-core finds against the page."""
        await self.page.evaluate(axe())
        found: dict[str, Any] = await self.page.evaluate(
            "rules => axe.run(document, {runOnly: {type: 'tag', values: rules}})", list(RULES)
        )
        return [
            f"{one['id']}: {one['help']}: {'; '.join(node['html'][:200] for node in one['nodes'][:3])}"
            for one in found["violations"]
        ]

    async def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(await self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def check(self) -> None:
        """What must hold at the end."""
        unexpected = [error for error in self._errors if not any(part in error for part in self.expected)]
        assert not unexpected, unexpected
        assert not self._foreign, self._foreign

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._errors.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.base, "data:", "about:")):
            self._foreign.append(request.url)


@cache
def axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
