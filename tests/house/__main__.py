"""``make house``: how src/duly is built, in figures, each beside its target. It informs, and always exits with 0.

What a new field or a new verb costs, in files, is not among them: no program can tell.
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.house import source
from tests.house.journey import END, LIFE, ROOT, SET_UP, Part, trace
from tests.house.source import Package, Place

FOLDER = ROOT / "src/duly"
PORTS = "ports"
ENGINE = "engine"
WORKER = "engine/worker.py"
CLAIM_PATH = ("engine/claim.py", "engine/deliver.py", "engine/settle.py", WORKER)
CLAIM_PORT = "ClaimPath"
COUNTERPARTS = ("client", "inbox")
"""Folders whose classes may be named as others are: a client has counterparts of records and verbs, and the inbox is a
package of its own."""

FILES_IN_FOLDER = 15
CALLS_OF_PORT = 20
WORKER_LINES = 299
WORKER_CLASSES = ("Worker", "Loop")
WORKER_ATTRIBUTES = 15
FILE_LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 12
FILES_ENTERED = 40
LONGEST_SHOWN = 10  # files
SAME_NAME_SHOWN = 4  # folders: a module name in so many of them, or more, is shown


class Figure(NamedTuple):
    """A count, what it should be at most where there is a target, and what was counted."""

    what: str
    value: int
    most: int | None = None
    details: Sequence[str] = ()

    def __str__(self) -> str:
        target = "" if self.most is None else f"   (target: {f'at most {self.most}' if self.most else 'none'})"
        mark = "    " if self.most is None else "ok  " if self.value <= self.most else "over"
        return "\n".join([f"{mark}  {self.value:>5}  {self.what}{target}", *(f"{'':13}{one}" for one in self.details)])


def main() -> None:
    package = source.read_package(FOLDER)
    for title, figures in (
        ("Files and folders", of_folders(package)),
        ("Ports", of_ports(package)),
        ("Names and constants", of_names(package)),
        ("Sizes", of_sizes(package)),
        ("One webhook timer, from the call of after until it is COMPLETED", of_journey()),
    ):
        print(title, *figures, "", sep="\n")


def of_folders(package: Package) -> Iterator[Figure]:
    counts = sorted(package.folders.items(), key=lambda item: (-item[1], item[0]))
    yield Figure("files in the fullest folder", counts[0][1], FILES_IN_FOLDER)
    yield Figure(f"folders over {FILES_IN_FOLDER} files", sum(files > FILES_IN_FOLDER for _, files in counts), 0)
    yield Figure("folders", len(counts), details=[_folder(name, files) for name, files in counts])
    yield Figure("modules", len(package.modules))
    names = sorted(source.module_names(package).items(), key=lambda item: (-len(item[1]), item[0]))
    often = [f"{name}: {', '.join(sorted(folders))}" for name, folders in names if len(folders) >= SAME_NAME_SHOWN]
    yield Figure(f"module names; in {SAME_NAME_SHOWN} folders or more:", len(names), details=often)


def _folder(name: str, files: int) -> str:
    return f"{files:>3}  {name}{f'   over {FILES_IN_FOLDER}' if files > FILES_IN_FOLDER else ''}"


def of_ports(package: Package) -> Iterator[Figure]:
    ports = source.protocols(package, PORTS)
    files = source.with_imports(package, CLAIM_PATH, ENGINE)
    yield Figure(f"calls in {CLAIM_PORT}, the store as the claim path sees it", len(ports[CLAIM_PORT]), CALLS_OF_PORT)
    uses = source.uses_of_ports(package, files, ports)
    told = [f"{port}: {len(use.calls)} of its calls used, taken in {use.files}" for port, use in uses.items()]
    yield Figure(
        f"ports that the engine takes on the claim path and beside it ({len(files)} files)", len(uses), None, told
    )
    sizes = sorted(ports.items(), key=lambda item: (-len(item[1]), item[0]))
    yield Figure("Protocols; calls, with inherited ones:", len(ports), details=[f"{len(c):>3}  {n}" for n, c in sizes])


def of_names(package: Package) -> Iterator[Figure]:
    repeated, counterparts = source.repeated_classes(package, COUNTERPARTS)
    yield Figure("class names with more than one class", len(repeated), 0, _classes(repeated))
    beside = f"more only by a class of {' or '.join(f'{folder}/' for folder in COUNTERPARTS)}"
    yield Figure(beside, len(counterparts), details=_classes(counterparts))
    pairs = source.paired_constants(package)
    yield Figure("lines with more than one constant", len(pairs), 0, [str(place) for place in pairs])


def _classes(named: Mapping[str, Sequence[Place]]) -> list[str]:
    return [f"{name}: {', '.join(place.path for place in places)}" for name, places in named.items()]


def of_sizes(package: Package) -> Iterator[Figure]:
    worker = package.modules[WORKER]
    yield Figure(f"lines of {WORKER}", worker.lines, WORKER_LINES)
    for name in WORKER_CLASSES:
        attributes, methods = source.class_size(worker, name)
        yield Figure(f"attributes of {name}", len(attributes), WORKER_ATTRIBUTES)
        yield Figure(f"methods of {name}", len(methods))
    longest = [f"{module.lines:>4}  {module.path}" for module in source.longest_files(package, LONGEST_SHOWN)]
    over = sum(module.lines > FILE_LINES for module in package.modules.values())
    yield Figure(f"files over {FILE_LINES} lines; the longest {LONGEST_SHOWN}:", over, 0, longest)
    long = source.long_functions(package, FUNCTION_LINES)
    yield Figure(f"functions over {FUNCTION_LINES} lines", len(long), 0, _with_sizes(long))
    wide = source.wide_functions(package, PARAMETERS)
    yield Figure(f"functions with more than {PARAMETERS} parameters", len(wide), 0, _with_sizes(wide))


def _with_sizes(places: Sequence[Place]) -> list[str]:
    return [f"{place.size:>4}  {place}" for place in places]


def of_journey() -> Iterator[Figure | str]:
    try:
        parts = trace()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        yield f"    could not be traced: {error}"
        return
    yield from of_parts(parts)


def of_parts(parts: Mapping[str, Part]) -> Iterator[Figure]:
    files, changes = parts[LIFE]
    first = [f"{number:>3}  {path} ({function})" for number, (path, function) in enumerate(files.items(), 1)]
    yield Figure("files entered, in the order of first entry:", len(files), FILES_ENTERED, first)
    yield Figure("changes of direction: a file calls into another that was entered before", len(changes))
    yield Figure("files entered by set-up, until the worker waits for work", len(parts[SET_UP].files))
    yield Figure("files entered by stopping and closing", len(parts[END].files))


if __name__ == "__main__":
    main()
