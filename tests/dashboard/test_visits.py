"""Who may visit the dashboard, and what protects visitors: sessions, forms, other sites, other tenants."""

from datetime import timedelta

import pytest

from duly import Duly, every
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.dashboard.visiting import OpenVisitor, Visitor

HOUR = timedelta(hours=1)


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly()
    await app.schedules.put("digest", every("1h"), "digest.send")
    return app


async def test_pages_need_a_session_once_there_is_a_key(app: Duly, visiting: OpenVisitor) -> None:
    visitor = await visiting(app, keyless=True)
    assert "digest" in (await visitor.get("/schedules")).text
    made = await app.keys.create("ada", scope="read")
    asked = await visitor.get("/schedules?after=a", status=303)
    assert asked.answer.headers["location"] == "/sign-in?next=%2Fschedules%3Fafter%3Da"
    assert (await visitor.sign_in("duly_wrong", status=401)).text.count("unknown") == 1
    signed = await visitor.post("/sign-in", token=False, key=made.secret, next="/schedules?after=a")
    assert signed.answer.headers["location"] == "/schedules?after=a"
    cookie = signed.answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "ada" in (await visitor.get("/you")).text


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
async def test_signing_in_leads_to_no_other_site(app: Duly, visiting: OpenVisitor, to: str) -> None:
    made = await app.keys.create("ada")
    visitor = await visiting(app)
    signed = await visitor.post("/sign-in", token=False, key=made.secret, next=to)
    assert signed.answer.headers["location"] == "/"


async def test_a_session_is_worth_what_its_key_is_worth_now(
    app: Duly, visiting: OpenVisitor, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.api.access.auth.KEY_CACHED_FOR_S", -1.0)
    revoked, short = await app.keys.create("a"), await app.keys.create("b", expires=HOUR)
    for made in (revoked, short):
        visitor = await visiting(app)
        await visitor.sign_in(made.secret)
        await visitor.get("/schedules")
        if made is revoked:
            await app.keys.revoke(made.key.id)
        else:
            clock.advance(HOUR)
        await visitor.get("/schedules", status=303)
        assert (await visitor.client.get("/live?page=/schedules")).status_code == 401


async def test_a_session_ends_when_somebody_signs_out_and_after_a_week(
    app: Duly, visiting: OpenVisitor, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.api.access.auth.KEY_CACHED_FOR_S", -1.0)
    made = await app.keys.create("ada")
    visitor, other = await visiting(app), await visiting(app)
    for one in (visitor, other):
        await one.sign_in(made.secret)
    kept = dict(visitor.client.cookies)
    await visitor.post("/sign-in", token=False, out="1")
    visitor.client.cookies.update(kept)
    await visitor.get("/schedules", status=303)
    await other.get("/schedules")
    clock.advance(timedelta(days=7))
    await other.get("/schedules", status=303)


async def test_a_form_without_the_token_of_its_visitor_changes_nothing(app: Duly, visiting: OpenVisitor) -> None:
    visitor, other = await visiting(app), await visiting(app)
    for token in ("", "0" * 64, await other.token()):
        refused = await visitor.post("/schedules/digest/pause", status=403, csrf=token)
        assert "reload the page" in refused.text
    assert (await app.schedules.get("digest")).enabled


@pytest.mark.parametrize("header", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
async def test_a_form_of_another_site_changes_nothing(app: Duly, visiting: OpenVisitor, header: dict[str, str]) -> None:
    visitor = await visiting(app)
    token = await visitor.token()
    answer = await visitor.client.post("/schedules/digest/pause", data={"csrf": token}, headers=header)
    assert (answer.status_code, "another site" in answer.text) == (403, True)
    assert (await app.schedules.get("digest")).enabled


async def test_a_name_that_others_point_here_is_not_served_without_keys(app: Duly, visiting: OpenVisitor) -> None:
    visitor = await visiting(app)
    assert (await visitor.client.get("/schedules", headers={"host": "evil.example"})).status_code == 403


async def test_a_read_key_sees_forms_and_cannot_act(app: Duly, visiting: OpenVisitor) -> None:
    made = await app.keys.create("reader", scope="read")
    visitor = await visiting(app)
    await visitor.sign_in(made.secret)
    assert "this needs write" in (await visitor.get("/schedules/digest/pause")).text
    assert "scope write" in (await visitor.act("/schedules/digest/pause", status=403)).text
    assert (await app.schedules.get("digest")).enabled


async def test_a_visitor_sees_one_tenant(app: Duly, visiting: OpenVisitor) -> None:
    await app.schedules.put("secret", every("1h"), "x", tenant="rival")
    made = await app.keys.create("ada", scope="admin")
    visitor = await visiting(app)
    await visitor.sign_in(made.secret)
    assert "secret" not in (await visitor.get("/schedules")).text
    await visitor.get("/schedules/secret", status=404)
    await visitor.post("/you/tenant", status=403, tenant="rival")
    visitor.client.cookies.set("duly_tenant", "rival")
    assert "secret" not in (await visitor.get("/schedules")).text


async def test_a_key_for_all_tenants_switches_and_says_so(app: Duly, visiting: OpenVisitor) -> None:
    await app.schedules.put("secret", every("1h"), "x", tenant="rival")
    made = await app.keys.create("ops", scope="write", all_tenants=True)
    visitor = await visiting(app)
    await visitor.sign_in(made.secret)
    await visitor.post("/you/tenant", tenant="rival")
    page = await visitor.get("/schedules")
    assert ("secret" in page.text, "digest" in page.text, "rival" in page.text) == (True, False, True)


async def test_what_is_written_by_others_is_text_on_every_page(app: Duly, visiting: OpenVisitor) -> None:
    wicked = "<img src=x onerror=alert(1)>'\"&{{7*7}}"
    await app.schedules.put(wicked, every("1h"), wicked)
    visitor = await visiting(app)
    assert wicked in (await visitor.get("/schedules")).text
    link = next(one for one in (await visitor.get("/schedules")).links if "onerror" in one)
    done = await visitor.act(f"{link}/pause", reason=wicked)
    assert wicked in done.text
    assert "<img" not in done.html.replace('<img src="/static/icon.svg', "")


async def test_a_page_that_is_not_there_and_an_unknown_schedule_are_told_as_pages(visitor: Visitor) -> None:
    page = await visitor.get("/schedules/none", status=404)
    assert "there is no schedule 'none'" in page.text
    assert page.answer.headers["content-type"].startswith("text/html")


async def test_static_files_are_kept_for_ever_under_the_address_of_their_content(visitor: Visitor) -> None:
    page = await visitor.get("/schedules")
    [sheet] = [line for line in page.html.split('"') if line.startswith("/static/duly.css")]
    answer = await visitor.client.get(sheet)
    assert (answer.headers["content-type"], "immutable" in answer.headers["cache-control"]) == (
        "text/css; charset=utf-8",
        True,
    )
    for outside in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/nothing.css", "/static/"):
        assert (await visitor.client.get(outside)).status_code == 404
