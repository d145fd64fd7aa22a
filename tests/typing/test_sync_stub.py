"""The stub of ``duly.sync``: what type checkers know is what is there."""

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from duly import Duly, Misuse
from duly.client import Client
from duly.sync import Sync, SyncClient
from tools.sync_stub import STUB, stub

TREE = ast.parse(STUB.read_text(encoding="utf-8"))
CLASSES = {node.name: node for node in TREE.body if isinstance(node, ast.ClassDef)}
Stubbed = dict[str, ast.FunctionDef]

OWN = {"GROUPS", "VERBS"}
"""What a proxy says of itself."""


def stubbed(name: str) -> Stubbed:
    """The functions of a class and of those that it is derived from."""
    node = CLASSES[name]
    inherited = stubbed(ast.unparse(node.bases[0])) if node.bases else {}
    own = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")}
    return inherited | own


def holders(sync: Any, name: str) -> Iterator[tuple[Any, Stubbed]]:
    """A proxy and its groups, each with what the stub has of it."""
    functions = stubbed(name)
    groups = {one: ast.unparse(node.returns) for one, node in functions.items() if node.returns and is_property(node)}
    yield sync, {one: node for one, node in functions.items() if one not in groups}
    for group, of in groups.items():
        if of != "NoReturn":
            yield getattr(sync, group), stubbed(of)


def is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one) == "property" for one in node.decorator_list)


def parameters(node: ast.FunctionDef) -> list[str]:
    """As they are written, without types and the values of defaults."""
    space: dict[str, Any] = {"contextmanager": contextmanager, "overload": lambda function: function}
    exec(f"from __future__ import annotations\n{ast.unparse(node)}", space)
    return told(inspect.signature(space[node.name]))[1:]


def told(signature: inspect.Signature) -> list[str]:
    all_of_them = signature.parameters.values()
    return [f"{one.kind.name} {one.name}{'=' if one.default is not one.empty else ''}" for one in all_of_them]


def test_the_stub_of_sync_is_what_make_stubs_writes() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "run `make stubs`"


BOTH = [(Duly("sqlite://").sync, "Sync"), (Client("https://duly.example").sync, "SyncClient")]


@pytest.mark.parametrize(("sync", "name"), BOTH, ids=["Duly", "Client"])
def test_every_stubbed_call_exists_with_the_same_parameters(sync: Sync | SyncClient, name: str) -> None:
    seen = 0
    for holder, functions in holders(sync, name):
        for verb, node in functions.items():
            assert told(inspect.signature(getattr(holder, verb))) == parameters(node), (name, verb)
            seen += 1
    assert seen > 60


@pytest.mark.parametrize(("sync", "name"), BOTH, ids=["Duly", "Client"])
def test_every_synchronous_call_is_stubbed(sync: Sync | SyncClient, name: str) -> None:
    for holder, functions in holders(sync, name):
        there = {one for one in dir(holder) if not one.startswith("_")} - OWN
        if holder is sync:
            there -= {*type(sync).GROUPS}
        assert there == set(functions)
    assert {one for one, node in stubbed(name).items() if is_property(node)} == set(type(sync).GROUPS)


def test_no_stubbed_call_is_awaited() -> None:
    for sync, name in BOTH:
        for holder, functions in holders(sync, name):
            assert not [verb for verb in functions if inspect.iscoroutinefunction(getattr(holder, verb))]
    with pytest.raises(Misuse, match="create keys where the server runs"):
        BOTH[1][0].keys  # noqa: B018 - asking is the test
