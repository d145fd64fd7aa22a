"""The counters of a package's source. Each reads syntax trees; nothing of the package is imported or run."""

import ast
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

SOURCES = (".py", ".pyi", ".sql")
"""Suffixes of the files that count."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """A Python file of the package, by its path below the package's folder."""

    path: str
    tree: ast.Module
    lines: int

    @property
    def folder(self) -> str:
        return str(PurePosixPath(self.path).parent)


class Package(NamedTuple):
    """All modules of a package, and how many source files each of its folders holds."""

    name: str
    modules: Mapping[str, Module]
    folders: Mapping[str, int]


class Place(NamedTuple):
    """A class, function or constant, where it stands, and a size of it: its lines or its parameters."""

    path: str
    line: int
    name: str
    size: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.name}"


def read_package(root: Path) -> Package:
    files = sorted(path for path in root.rglob("*") if path.suffix in SOURCES)
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in files if path.suffix == ".py"}
    modules = {path: Module(path, ast.parse(text), len(text.splitlines())) for path, text in texts.items()}
    return Package(root.name, modules, Counter(path.parent.relative_to(root).as_posix() for path in files))


# -- attributes


def uses_of_attribute(package: Package, name: str, folders: Collection[str]) -> list[Place]:
    """Where something in these folders is asked for an attribute of this name."""
    return sorted(
        Place(path, node.lineno, name)
        for path, module in package.modules.items()
        if PurePosixPath(path).parts[0] in folders
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == name
    )


# -- names


def module_names(package: Package) -> dict[str, list[str]]:
    """Folders by the module name that they hold. ``__init__`` and ``__main__`` are no names."""
    folders = defaultdict(list)
    for module in package.modules.values():
        name = PurePosixPath(module.path).stem
        if not name.startswith("__"):
            folders[name].append(module.folder)
    return dict(folders)


def repeated_classes(package: Package, apart: Collection[str]) -> tuple[dict[str, list[Place]], dict[str, list[Place]]]:
    """Class names with more than one class. Second, those of which at most one is outside the folders *apart*, where a
    class may be the counterpart of another one."""
    places = defaultdict(list)
    for path, node in _nodes(package.modules.values()):
        if isinstance(node, ast.ClassDef):
            places[node.name].append(Place(path, node.lineno, node.name))
    repeated: dict[str, list[Place]] = {}
    counterparts: dict[str, list[Place]] = {}
    for name, found in sorted(places.items()):
        if len(found) > 1:
            outside = [place for place in found if place.path.split("/")[0] not in apart]
            (repeated if len(outside) > 1 else counterparts)[name] = found
    return repeated, counterparts


def paired_constants(package: Package) -> list[Place]:
    """Assignments such as ``A, B = 1, 2``, at the level of a module or a class."""
    found = []
    for module in package.modules.values():
        blocks = [node for node in ast.walk(module.tree) if isinstance(node, ast.Module | ast.ClassDef)]
        for statement in (one for block in blocks for one in block.body):
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if names := _constants(target):
                        found.append(Place(module.path, statement.lineno, ", ".join(names), len(names)))
    return found


def _constants(target: ast.expr) -> list[str]:
    if not isinstance(target, ast.Tuple | ast.List):
        return []
    names = [element.id for element in target.elts if isinstance(element, ast.Name) and element.id.isupper()]
    return names if len(names) == len(target.elts) > 1 else []


# -- sizes


def longest_files(package: Package, most: int) -> list[Module]:
    return sorted(package.modules.values(), key=lambda module: -module.lines)[:most]


def long_functions(package: Package, over: int) -> list[Place]:
    """Functions of more lines, decorators not counted; the longest first."""
    sizes = [Place(path, node.lineno, node.name, _lines(node)) for path, node in _functions(package)]
    return sorted((place for place in sizes if place.size > over), key=lambda place: -place.size)


def wide_functions(package: Package, over: int) -> list[Place]:
    """Functions with more parameters, ``self`` and ``cls`` not counted; the widest first."""
    sizes = [Place(path, node.lineno, node.name, _width(node.args)) for path, node in _functions(package)]
    return sorted((place for place in sizes if place.size > over), key=lambda place: -place.size)


def _lines(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _width(arguments: ast.arguments) -> int:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    own = named[1:] if named and named[0].arg in ("self", "cls") else named
    return len(own) + (arguments.vararg is not None) + (arguments.kwarg is not None)


class ClassSize(NamedTuple):
    """What a class holds: the attributes that its methods set on ``self``, and its methods, properties among them."""

    attributes: list[str]
    methods: list[str]


def class_size(module: Module, name: str) -> ClassSize:
    [found] = [node for node in module.tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    methods = [node.name for node in found.body if isinstance(node, Function)]
    fields = [
        node.target.id for node in found.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    set_on_self = [node.attr for node in ast.walk(found) if isinstance(node, ast.Attribute) and _is_set_on_self(node)]
    attributes = [*fields, *set_on_self]
    return ClassSize(list(dict.fromkeys(attributes)), methods)


def _is_set_on_self(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


# -- ports


def protocols(package: Package, folder: str) -> dict[str, set[str]]:
    """The calls of each Protocol of a folder, those of the Protocols it inherits among them."""
    classes = {
        node.name: node
        for path, node in _nodes(package.modules.values())
        if isinstance(node, ast.ClassDef) and path.startswith(f"{folder}/")
    }
    bases = {name: [_last_name(base) for base in node.bases] for name, node in classes.items()}

    def calls(name: str) -> set[str]:
        own = {node.name for node in classes[name].body if isinstance(node, Function)}
        return own.union(*(calls(base) for base in bases[name] if base in classes))

    return {name: calls(name) for name in classes if "Protocol" in bases[name]}


class PortUse(NamedTuple):
    """What some files take of a port: how many have a parameter of it, and which of its calls they make, be it of this
    port or of another one that has the same call."""

    files: int
    calls: set[str]


def uses_of_ports(package: Package, paths: Iterable[str], ports: Mapping[str, set[str]]) -> dict[str, PortUse]:
    """The ports that functions of these files have as parameters. A call counts where it is asked of a name that is
    such a parameter in the same file, of the attribute that keeps it (``self._store``), or of what an ``async with``
    gives (``as tx``)."""
    takers: dict[str, set[str]] = defaultdict(set)
    asked: set[str] = set()
    for path in paths:
        nodes = list(ast.walk(package.modules[path].tree))
        parameters = [(node.arg, port) for node in nodes if isinstance(node, ast.arg) for port in _ports(node, ports)]
        given = [item.optional_vars for node in nodes if isinstance(node, ast.AsyncWith) for item in node.items]
        receivers = {name for name, _ in parameters} | {one.id for one in given if isinstance(one, ast.Name)}
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        asked |= {node.attr for node in attributes if _last_name(node.value).lstrip("_") in receivers}
        for _, port in parameters:
            takers[port].add(path)
    largest_first = sorted(takers, key=lambda port: (-len(ports[port]), port))
    return {port: PortUse(len(takers[port]), asked & ports[port]) for port in largest_first}


def _ports(parameter: ast.arg, ports: Collection[str]) -> list[str]:
    """The ports that a parameter's annotation names."""
    return [name for node in ast.walk(parameter) if (name := _last_name(node)) in ports]


def with_imports(package: Package, paths: Sequence[str], folder: str) -> list[str]:
    """These files, and all that they import of a folder, directly or not."""
    found, waiting = [], list(paths)
    while waiting:
        path = waiting.pop(0)
        if path not in found:
            found.append(path)
            waiting += [one for one in _imports(package, path) if one.startswith(f"{folder}/")]
    return found


def _imports(package: Package, path: str) -> Iterator[str]:
    """The files of the package that a file imports, packages aside."""
    for node in ast.walk(package.modules[path].tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == package.name and f"{rest.replace('.', '/')}.py" in package.modules:
                yield f"{rest.replace('.', '/')}.py"


# -- syntax trees


def _nodes(modules: Iterable[Module]) -> Iterator[tuple[str, ast.AST]]:
    for module in modules:
        for node in ast.walk(module.tree):
            yield module.path, node


def _functions(package: Package) -> Iterator[tuple[str, Function]]:
    for path, node in _nodes(package.modules.values()):
        if isinstance(node, Function):
            yield path, node


def _last_name(node: ast.AST) -> str:
    """``Store`` for ``Store``, ``ports.Store`` and ``"Store"``; nothing for what has no name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
        case ast.Subscript(value=value):
            return _last_name(value)
    return ""
