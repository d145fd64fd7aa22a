"""A person who visits the dashboard, without a browser: opens pages, fills in forms, and follows what they lead to."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from html.parser import HTMLParser
from typing import Any

import httpx

from duly import Duly
from duly.api.app import Api, create_api
from tests.client.serving import serving


class Page(HTMLParser):
    """A page: its text as a person reads it, its links, and the fields of its forms."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.answer, self.html = answer, answer.text
        self.links: list[str] = []
        self.fields: dict[str, Any] = {}
        self.names: set[str] = set()  # of all fields, also of boxes that are not checked
        self.attributes: set[str] = set()
        self._words: list[str] = []
        self._hidden = 0
        self._written = self._select = ""  # the text area or the select that is being read
        self.feed(answer.text)
        self.text = re.sub(r"\s+", " ", " ".join(self._words)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        self.attributes |= said.keys()
        if tag in ("script", "style"):
            self._hidden += 1
        if tag == "a" and said.get("href"):
            self.links.append(str(said["href"]))
        if tag == "textarea":
            self._written = str(said.get("name"))
            self.fields[self._written] = ""
        if tag == "select":
            self._select = str(said.get("name"))
        if tag == "option" and self._select and ("selected" in said or self._select not in self.fields):
            self.fields[self._select] = said.get("value") or ""
        if tag == "input" and said.get("name"):
            self.names.add(str(said["name"]))
        chosen = said.get("type") not in ("radio", "checkbox") or "checked" in said
        if tag == "input" and said.get("name") and chosen:
            self.fields[str(said["name"])] = said.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._hidden -= 1
        if tag == "textarea":
            self._written = ""
        if tag == "select":
            self._select = ""

    def handle_data(self, data: str) -> None:
        if self._written:
            self.fields[self._written] += data
        if not self._hidden:
            self._words.append(data)

    @property
    def status(self) -> int:
        return self.answer.status_code


class Visitor:
    """A person with a browser of their own: cookies are kept from page to page."""

    def __init__(self, app: Duly, api: Api, client: httpx.AsyncClient, *, keyless: bool) -> None:
        self.app, self.api, self.client, self._keyless = app, api, client, keyless

    async def get(self, path: str, *, status: int = 200, **headers: str) -> Page:
        """Opens a page, which must be answered with this status."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        page = Page(await self.client.get(path, headers=named))
        assert page.status == status, f"{path}: {page.status}: {page.text[:500]}"
        _check_safety(page)
        return page

    async def post(self, path: str, *, status: int = 303, token: bool = True, **fields: Any) -> Page:
        """Sends a form to an address, with the token of the first page."""
        if token and "csrf" not in fields:
            fields["csrf"] = await self.token()
        page = Page(await self.client.post(path, data={name: str(value) for name, value in fields.items()}))
        assert page.status == status, f"{path}: {page.status}: {page.text[:500]}"
        return page

    async def act(self, path: str, *, status: int = 303, **fields: Any) -> Page:
        """Opens the form of an act, fills it in and sends it; returns the page that it leads to, or that refuses it."""
        form = await self.get(path)
        sent = await self.post(path, status=status, **{**form.fields, **fields})
        return sent if status != 303 else await self.get(sent.answer.headers["location"])

    async def before(self, path: str, **fields: Any) -> Page:
        """What an act would change, and how to do the same elsewhere, as its form shows it."""
        form = await self.get(path)
        return await self.post(f"{path}?before=1", status=200, **{**form.fields, **fields})

    async def live(self, path: str) -> str:
        """The first live fragment of a page."""
        async with aclosing(self.fragments(path)) as fragments:
            return await anext(fragments)

    async def fragments(self, path: str) -> AsyncGenerator[str]:
        """The live fragments of a page, from a server of its own: the client in this process would wait for the end."""
        async with (
            serving(self.app, create_api(self.app, keyless=self._keyless)) as base,
            httpx.AsyncClient(base_url=base, cookies=self.client.cookies, timeout=20) as client,
            client.stream("GET", "/live", params={"page": path}) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            lines: list[str] = []
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    lines.append(line.removeprefix("data: "))
                elif lines:
                    yield "\n".join(lines)
                    lines = []

    async def sign_in(self, secret: str, *, status: int = 303) -> Page:
        return await self.post("/sign-in", status=status, token=False, key=secret)

    async def token(self) -> str:
        """The token that this visitor's forms carry."""
        found = re.search(r'"X-Duly-Csrf": "([0-9a-f]{64})"', (await self.client.get("/you")).text)
        assert found is not None
        return found[1]


OpenVisitor = Callable[..., Awaitable[Visitor]]


def _check_safety(page: Page) -> None:
    """What holds for each page: its policy names the scripts of its own, and nothing stands in it as a script."""
    policy = page.answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert not [name for name in page.attributes if name.startswith("on")], "an attribute that runs a script"
    assert "style" not in page.attributes, "an inline style, which the policy refuses"
    for address in re.findall(r'(?:src|action|href)="([^"]+)"', page.html):
        assert not address.startswith(("http:", "https:", "//")) or address.startswith("http://127.0.0.1"), address
