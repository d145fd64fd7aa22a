"""Every page in a real browser: no error, no other host, nothing that axe-core finds, nothing wider than the window."""

from datetime import timedelta

import pytest

from duly import Duly, every, webhook
from tests.conftest import OpenDuly
from tests.dashboard.browser.conftest import OpenWindow

PAGES = (
    "/",
    "/schedules",
    "/schedules/digest",
    "/schedules/digest/pause",
    "/schedules/digest/calendar",
    "/schedules/digest/edit",
    "/schedules/digest/backfill",
    "/schedules/digest/reschedule",
    "/schedules/digest/trigger",
    "/schedules/digest/why-not?at=2026-01-01T09:00",
    "/new-schedule",
    "/events",
    "/dead-letters",
    "/users",
    "/targets",
    "/targets/shop",
    "/system",
    "/you",
)


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    """A Duly with something of everything."""
    app = await duly(secret_key="a key of at least thirty-two characters")
    await app.schedules.put("digest", every("1h"), "digest.send", {"n": 1})
    await app.schedules.put("paused", every("1h"), "other")
    await app.schedules.pause("paused", reason="it moves")
    await app.targets.put("shop", "https://shop.example/hooks")
    await app.targets.disable("shop", reason="it moves")
    await app.after(timedelta(hours=3), "cart.abandoned", {"cart": 9}, key="cart-9")
    await app.after(timedelta(hours=4), "order.paid", target=webhook("https://shop.example/x"))
    return app


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)  # no look depends on the store
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 768, 1440])
async def test_each_page_is_sound_at_each_width(app: Duly, open_window: OpenWindow, width: int, dark: bool) -> None:
    window = await open_window(app, width=width, dark=dark)
    for path in PAGES:
        await window.open(path)
        assert await window.violations() == [], path
        assert await window.overflow() <= 0, path


async def test_a_schedule_is_paused_and_resumed_by_its_dialogs(app: Duly, open_window: OpenWindow) -> None:
    window = await open_window(app)
    await window.open("/schedules/digest")
    await window.act("Pause", "Pause", reason="it's <b>moving</b>")
    await window.page.get_by_text("digest is paused.").wait_for()
    assert not (await app.schedules.get("digest")).enabled
    await window.act("Undo", "Resume")
    await window.page.get_by_text("digest is resumed.").wait_for()
    assert (await app.schedules.get("digest")).enabled


async def test_live_updates_come_and_can_be_paused(app: Duly, open_window: OpenWindow) -> None:
    window = await open_window(app)
    await window.open("/schedules")
    button = window.page.locator("#live-button")
    await window.page.locator('#live-button[data-state="live"]').wait_for()
    await app.schedules.put("new", every("1h"), "x")
    await window.page.get_by_role("link", name="new", exact=True).wait_for()
    await button.click()
    await window.page.locator('#live-button[data-state="paused"]').wait_for()
    await app.schedules.put("newer", every("1h"), "x")
    await window.page.reload()  # still paused, and up to date
    await window.page.locator('#live-button[data-state="paused"]').wait_for()
    await window.page.get_by_role("link", name="newer", exact=True).wait_for()


async def test_keys_reach_everything(app: Duly, open_window: OpenWindow) -> None:
    window = await open_window(app)
    await window.open("/schedules")
    await window.page.keyboard.press("Tab")
    assert await window.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    await window.page.keyboard.press("/")
    assert await window.page.evaluate("document.activeElement.id") == "palette-input"
    await window.page.keyboard.press("Escape")
    assert not await window.page.locator("dialog#palette").is_visible()


async def test_what_an_act_would_run_elsewhere_follows_the_form(app: Duly, open_window: OpenWindow) -> None:
    window = await open_window(app)
    await window.open("/schedules/digest")
    await window.page.get_by_role("link", name="Pause", exact=True).click()
    await window.page.locator("#act-reason").fill("it moves")
    await window.page.locator("summary").click()
    await window.page.get_by_text("duly schedules pause digest --reason 'it moves'").wait_for()
    await window.page.get_by_label("Copy the command").click()
    await window.page.locator("[data-done=copied]").wait_for()


async def test_the_theme_is_kept(app: Duly, open_window: OpenWindow) -> None:
    window = await open_window(app)
    await window.open("/schedules")
    await window.page.locator("[data-theme-button]").click()
    await window.page.reload()
    assert await window.page.locator("html").get_attribute("data-theme") == "dark"
