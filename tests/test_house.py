"""Whether `make house` counts right: on a small package whose figures are known, and once on the real one."""

import asyncio
import importlib
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.house import source
from tests.house.__main__ import FOLDER, Figure
from tests.house.journey import END, LIFE, ROOT, SET_UP, Profiler
from tests.house.source import ClassSize, Package, PortUse

FILES = {
    "__init__.py": "",
    "shop.py": """
        from till.engine.claim import take, waits

        class Shop:
            OPEN, CLOSED = "open", "closed"

            def sell(self):
                return take(None)

        def sold():
            return Shop().sell()

        def called_back():
            return 1
        """,
    "ports/__init__.py": "",
    "ports/store.py": """
        from typing import Protocol

        class Clock(Protocol):
            def now(self): ...

        class Record: ...

        class Store(Clock, Protocol):
            async def claim(self, room): ...
            async def settle(self, ids): ...
            def begin(self): ...
        """,
    "engine/__init__.py": "",
    "engine/claim.py": """
        import till.shop
        from till.engine.deep.pool import Pool
        from till.ports.store import Store

        FEW, MANY = 1, 2
        first, rest = 1, 2

        def take(store: Store | None, a=1, *b, c=2, **d):
            Pool()
            return till.shop.called_back()

        async def waits(store: Store):
            await once(store)
            async with store.begin() as tx:
                return await tx.settle([])

        async def once(store): ...
        """,
    "engine/unused.py": "",
    "engine/deep/__init__.py": "",
    "engine/deep/pool.py": """
        class Pool:
            def __init__(self):
                self.load, self._free = 0, 1
                self.load = 2

            @property
            def free(self):
                return self._free

        made_on_import = Pool().free
        """,
    "engine/deep/claim.sql": "SELECT 1;",
    "client/shop.py": "class Shop: ...",
    "other.py": """
        class Record: ...

        async def wait_for(event):
            await event.wait()
        """,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        file = tmp_path / "till" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip())
    return tmp_path / "till"


@pytest.fixture
def package(root: Path) -> Package:
    return source.read_package(root)


def test_files_are_counted_by_folder_and_modules_by_name(package: Package) -> None:
    assert package.folders == {".": 3, "ports": 2, "engine": 3, "engine/deep": 3, "client": 1}
    assert len(package.modules) == 11
    names = source.module_names(package)
    assert sorted(names) == ["claim", "other", "pool", "shop", "store", "unused"]
    assert sorted(names["shop"]) == [".", "client"]


def test_a_class_name_may_return_in_a_client(package: Package) -> None:
    repeated, counterparts = source.repeated_classes(package, apart=["client"])
    assert {name: [place.path for place in places] for name, places in repeated.items()} == {
        "Record": ["other.py", "ports/store.py"]
    }
    assert list(counterparts) == ["Shop"]


def test_uses_of_an_attribute_are_found(package: Package) -> None:
    assert [str(place) for place in source.uses_of_attribute(package, "load", ["engine", "client"])] == [
        "engine/deep/pool.py:3 load",
        "engine/deep/pool.py:4 load",
    ]
    assert source.uses_of_attribute(package, "load", ["client"]) == []


def test_constants_in_pairs_are_found_in_modules_and_classes(package: Package) -> None:
    assert [str(place) for place in source.paired_constants(package)] == [
        "engine/claim.py:5 FEW, MANY",
        "shop.py:4 OPEN, CLOSED",
    ]


def test_files_and_functions_are_measured(package: Package) -> None:
    assert [module.path for module in source.longest_files(package, 2)] == ["engine/claim.py", "shop.py"]
    assert [(place.name, place.size) for place in source.long_functions(package, over=3)] == [("waits", 4)]
    assert [(place.name, place.size) for place in source.wide_functions(package, over=1)] == [("take", 5)]
    pool = package.modules["engine/deep/pool.py"]
    assert source.class_size(pool, "Pool") == ClassSize(["load", "_free"], ["__init__", "free"])


def test_a_port_has_the_calls_that_it_inherits_and_its_users_make_some_of_them(package: Package) -> None:
    ports = source.protocols(package, "ports")
    assert {name: len(calls) for name, calls in ports.items()} == {"Clock": 1, "Store": 4}
    paths = source.with_imports(package, ["engine/claim.py"], "engine")
    assert paths == ["engine/claim.py", "engine/deep/pool.py"]
    assert source.uses_of_ports(package, paths, ports) == {"Store": PortUse(1, {"begin", "settle"})}


async def test_files_are_traced_in_the_order_of_entry_without_imports_and_what_only_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root.parent))
    profiler, event = Profiler(root), asyncio.Event()
    profiler.start()
    try:
        shop = importlib.import_module("till.shop")
        waiting = asyncio.create_task(importlib.import_module("till.other").wait_for(event))
        await asyncio.sleep(0)
        profiler.enter(LIFE)
        event.set()
        await waiting
        shop.sold()
        profiler.enter(END)
    finally:
        profiler.stop()
        for name in [name for name in sys.modules if name.split(".")[0] == "till"]:
            del sys.modules[name]
    assert profiler.parts[SET_UP].files == {"other.py": "wait_for"}
    assert profiler.parts[LIFE].files == {
        "shop.py": "sold",
        "engine/claim.py": "take",
        "engine/deep/pool.py": "Pool.__init__",
    }
    assert profiler.parts[LIFE].changes == [("engine/claim.py", "shop.py")]


@pytest.mark.parametrize(
    ("figure", "line"),
    [
        (Figure("files", 16, 15), "over     16  files   (target: at most 15)"),
        (Figure("files", 15, 15), "ok       15  files   (target: at most 15)"),
        (Figure("pairs", 0, 0), "ok        0  pairs   (target: none)"),
        (Figure("files", 3), "          3  files"),
    ],
)
def test_a_figure_stands_beside_its_target(figure: Figure, line: str) -> None:
    assert str(figure) == line


MAY_USE_THE_STORE = {
    "api/access/preparation.py": "prepares the database for requests",
    "api/access/tenancy.py": "makes the verbs of one request, on a store that sees one tenant",
    "api/nouns/system.py": "tells whether the database answers and can be written",
    "cli/migrate.py": "is about the database itself",
    "cli/doctor/checks.py": "is about the database itself",
    "cli/doctor/fixes.py": "is about the database itself",
    "cli/doctor/storage_checks.py": "is about the database itself",
    "cli/doctor/row_checks.py": "is about the database itself",
}


def test_http_and_the_command_line_call_verbs_and_not_the_store() -> None:
    uses = source.uses_of_attribute(source.read_package(FOLDER), "store", ["api", "cli"])
    assert [str(place) for place in uses if place.path not in MAY_USE_THE_STORE] == []
    assert {place.path for place in uses} == MAY_USE_THE_STORE.keys(), "an exception that nobody needs"


def test_make_house_tells_all_figures_of_the_real_package() -> None:
    command = [sys.executable, "-m", "tests.house"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "could not be traced" not in done.stdout
    for told in ("files in the fullest folder", "calls in ClaimPath", "lines of engine/worker.py"):
        assert told in done.stdout
    traced = done.stdout.partition("files entered, in the order of first entry")[2]
    steps = ["engine/schedule.py", "engine/claim.py", "engine/deliver.py", "channels/http/webhook.py"]
    assert sorted(steps, key=traced.index) == steps
    assert "engine/settle.py" in traced
