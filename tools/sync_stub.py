"""Writes ``src/duly/sync.pyi``, the type stub of ``duly.sync`` and ``Client.sync`` for type checkers and editors.

The signatures are copied from the source of the asynchronous verbs: ``async def`` becomes ``def``, and
``AsyncIterator`` becomes ``Iterator``. `make stubs` runs this tool; a test checks that the file is up to date.
"""

import ast
import builtins
import copy
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import EllipsisType
from typing import NamedTuple

from duly.sync import Sync, SyncClient

SOURCE = Path(__file__).parents[1] / "src"
STUB = SOURCE / "duly/sync.pyi"
HEADER = '"""What ``sync.py`` offers, for type checkers. Written by ``make stubs`` from the asynchronous verbs."""'
DOCSTRING_WIDTH = 108  # characters: the formatter's line length, without the indentation and the quotes
MAKERS = ("__init__", "_bind")  # the functions of Duly and Client that make the groups
KEPT_DECORATORS = {"property", "contextmanager", "overload"}
SPECIAL = {"__init__", "__enter__", "__exit__", "__aenter__", "__aexit__"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Imports = dict[str, str]
"""Names that the stub uses, with the modules they are imported from."""


class Module(NamedTuple):
    """A module of the source: its syntax tree, and the origin of each name in it."""

    name: str
    tree: ast.Module
    origins: dict[str, str]

    def find(self, name: str) -> ast.ClassDef:
        return next(node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name)


@cache
def module(name: str) -> Module:
    tree = ast.parse((SOURCE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
    origins: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            origins |= {one.asname or one.name: str(node.module) for one in node.names}
        elif isinstance(node, ast.Import):
            origins |= {one.name: "" for one in node.names}
        elif isinstance(node, ast.ClassDef):
            origins[node.name] = name
        elif isinstance(node, ast.Assign):
            origins |= {target.id: name for target in node.targets if isinstance(target, ast.Name)}
    return Module(name, tree, origins)


# -- the parts of the stub


def stub() -> str:
    """The formatted text of the stub."""
    imports: Imports = {"TypeVar": "typing"}
    duly, client = module("duly.duly"), module("duly.client.client")
    of_duly = {name: signatures(*found, imports) for name, found in groups(duly, "Duly", Sync.GROUPS)}
    of_client = {name: signatures(*found, imports) for name, found in groups(client, "Client", SyncClient.GROUPS)}
    refused = tuple(name for name in SyncClient.GROUPS if name not in of_client)
    classes = [plain_class("Asynchronous", imports)]
    classes += [class_of(_class_name(name), own) for name, own in of_duly.items()]
    for name, own in of_client.items():
        shared = of_duly.get(name, [])
        if not set(map(_name_of, shared)) <= set(map(_name_of, own)):  # a Client has only some of them
            shared = []
        base = f"({_class_name(name)})" if shared else ""
        classes.append(class_of(f"{_client_class_name(name)}{base}", [one for one in own if one not in shared]))
    properties = [group_property(name, _class_name(name)) for name in of_duly]
    classes.append(plain_class("Sync", imports, properties + verbs(duly, "Duly", Sync.VERBS, imports)))
    properties = [group_property(name, _client_class_name(name)) for name in of_client]
    verbs_of_client = verbs(client, "Client", (*refused, *SyncClient.VERBS), imports)
    classes.append(plain_class("SyncClient", imports, properties + verbs_of_client))
    classes.append(plain_class("SyncTransaction", imports))
    return formatted("\n\n".join([HEADER, _import_lines(imports), 'T = TypeVar("T")', *classes]))


def groups(where: Module, owner: str, names: tuple[str, ...]) -> Iterator[tuple[str, tuple[Module, str]]]:
    """The classes of the groups, by name, read from assignments such as ``self.events = Events(…)``."""
    makers = [one for one in _functions(where.find(owner)) if one.name in MAKERS]
    made = {
        node.targets[0].attr: node.value.func.id
        for maker in makers
        for node in maker.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
    }
    for name in names:
        if name in made:
            yield name, (module(where.origins[made[name]]), made[name])


def signatures(where: Module, group: str, imports: Imports) -> list[str]:
    """The functions of a class, after those of the classes of ours that it is derived from."""
    node = where.find(group)
    inherited = [
        one
        for base in node.bases
        if isinstance(base, ast.Name) and where.origins.get(base.id, "").startswith("duly.")
        for one in _inherited(where.origins[base.id], base.id, imports)
    ]
    public = [one for one in _functions(node) if not one.name.startswith("_")]
    return [*inherited, *(written(one, where, imports) for one in public if not _is_for_doors(one))]


def _inherited(where: str, base: str, imports: Imports) -> list[str]:
    return [] if base == "Group" else signatures(module(where), base, imports)


def _name_of(signature: str) -> str:
    found = re.search(r"def (\w+)", signature)
    assert found is not None
    return found[1]


def _is_for_doors(function: Function) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "for_doors" for one in function.decorator_list)


def class_of(name: str, body: list[str]) -> str:
    return f"class {name}:\n{textwrap.indent(chr(10).join(body), '    ')}"


def group_property(name: str, of: str) -> str:
    return f"@property\ndef {name}(self) -> {of}: ..."


def verbs(where: Module, owner: str, names: tuple[str, ...], imports: Imports) -> list[str]:
    found = {
        function.name: written(function, origin, imports)
        for origin, node in _with_bases(where, owner)
        for function in _functions(node)
        if function.name in names
    }
    return [found[name] for name in names]


def _with_bases(where: Module, owner: str) -> Iterator[tuple[Module, ast.ClassDef]]:
    """A class, after the classes of ours that it is derived from."""
    node = where.find(owner)
    for base in node.bases:
        if isinstance(base, ast.Name) and where.origins.get(base.id, "").startswith("duly."):
            yield from _with_bases(module(where.origins[base.id]), base.id)
    yield where, node


def plain_class(name: str, imports: Imports, more: list[str] | None = None) -> str:
    """The stub of a class of ``sync.py`` itself, with the members in *more* added."""
    where = module("duly.sync")
    node = where.find(name)
    functions = [one for one in _functions(node) if one.name in SPECIAL or not one.name.startswith("_")]
    told = str(ast.get_docstring(node)).replace("\n", "\n    ")
    constants = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    for used in (*node.bases, *(one.annotation for one in constants)):
        _note(used, where, imports)
    body = [f'"""{told}"""', *(f"{ast.unparse(one.target)}: {ast.unparse(one.annotation)}" for one in constants)]
    body += [*(written(one, where, imports) for one in functions), *(more or [])]
    bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
    return class_of(f"{name}{bases}", body)


def written(function: Function, where: Module, imports: Imports) -> str:
    """The stub of a function: its signature, and the first sentence of its docstring."""
    asynchronous = isinstance(function, ast.AsyncFunctionDef) and not function.name.startswith("__a")
    node = copy.deepcopy(function)
    arguments = node.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if one is not None and one.annotation is not None:
            one.annotation = _unquoted(one.annotation)
    arguments.defaults = [_default(one) for one in arguments.defaults]
    arguments.kw_defaults = [one and _default(one) for one in arguments.kw_defaults]
    node.returns = returns = _unquoted(node.returns)
    if asynchronous and isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == "AsyncIterator":
        returns.value = ast.Name("Iterator")
        imports["Iterator"] = "collections.abc"
    node.decorator_list = [one for one in node.decorator_list if ast.unparse(one) in KEPT_DECORATORS]
    node.body = [ast.Expr(ast.Constant(_first_sentence(function)))]
    annotations = [one.annotation for one in ast.walk(node) if isinstance(one, ast.arg)]
    for used in (*node.decorator_list, *annotations, node.returns):
        _note(used, where, imports)
    text = ast.unparse(ast.fix_missing_locations(node))
    return re.sub(r"^async def", "def", text, flags=re.MULTILINE) if asynchronous else text


def formatted(text: str) -> str:
    for command in (("check", "--quiet", "--select", "I", "--fix"), ("format",)):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


# -- helpers


def _class_name(group: str) -> str:
    return f"_{group.title().replace('_', '')}"


def _client_class_name(group: str) -> str:
    return f"_Client{_class_name(group)[1:]}"


def _functions(node: ast.ClassDef) -> list[Function]:
    """The functions of a class; of one with overloads, only these."""
    found = [one for one in node.body if isinstance(one, Function)]
    overloaded = {one.name for one in found if _is_overload(one)}
    return [one for one in found if one.name not in overloaded or _is_overload(one)]


def _is_overload(function: Function) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in function.decorator_list)


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.Subscript):
        annotation.slice = _unquoted(annotation.slice) or annotation.slice
    return annotation


def _default(value: ast.expr) -> ast.expr:
    """A default for the stub: literals are copied, any other expression becomes ``...``."""
    try:
        ast.literal_eval(value)
    except ValueError:
        return ast.Constant(...)
    return value


def _first_sentence(function: Function) -> str | EllipsisType:
    told = ast.get_docstring(function)
    if told is None:
        return ...
    return "\n        ".join(textwrap.wrap(re.split(r"(?<=[.?!])\s", told)[0], DOCSTRING_WIDTH))


def _note(annotation: ast.expr | None, where: Module, imports: Imports) -> None:
    """Adds the origin of each name in an annotation to *imports*."""
    for node in ast.walk(annotation) if annotation is not None else ():
        if not isinstance(node, ast.Name) or (hasattr(builtins, node.id) and node.id not in where.origins):
            continue
        origin = where.origins.get(node.id, imports.get(node.id))
        assert origin is not None, f"{where.name} does not tell where {node.id} comes from"
        if origin != "duly.sync":
            assert imports.setdefault(node.id, origin) == origin, f"{node.id} is of {imports[node.id]} and of {origin}"


def _import_lines(imports: Imports) -> str:
    return "\n".join(f"from {origin} import {name}" if origin else f"import {name}" for name, origin in imports.items())


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
