from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from duly import Duly
from duly.api.app import create_api
from tests.client.serving import serving
from tests.conftest import OpenDuly
from tests.dashboard.browser.chromium import chromium
from tests.dashboard.browser.window import Window

OpenWindow = Callable[..., Awaitable[Window]]


@pytest.fixture(scope="session")
def browser_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("chromium")
    with chromium(folder) as address:
        yield address


@pytest.fixture
async def open_window(browser_address: str, duly: OpenDuly) -> AsyncIterator[OpenWindow]:
    """Windows of a browser on the dashboard of a Duly: ``window = await open_window(app, width=360)``. At the end, each
    must have shown no error and asked no other host."""
    async with AsyncExitStack() as stack:
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.connect_over_cdp(browser_address)
        stack.push_async_callback(browser.close)
        windows: list[Window] = []

        async def open_window(
            app: Duly | None = None, *, keyless: bool = True, width: int = 1440, dark: bool = False
        ) -> Window:
            app = app or await duly()
            base = await stack.enter_async_context(serving(app, create_api(app, keyless=keyless)))
            context = await browser.new_context(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
                base_url=base,
                permissions=["clipboard-read", "clipboard-write"],
            )
            stack.push_async_callback(context.close)
            windows.append(Window(app, base, await context.new_page()))
            return windows[-1]

        yield open_window
        for window in windows:
            window.check()
