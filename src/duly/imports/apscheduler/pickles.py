"""Reads a pickle as a tree of what it says, and makes nothing of it.

Python's own unpickler calls whatever a pickle names. This one imports nothing, calls nothing and sets no attribute: a
class stays a name, a call stays a note that it was written, and whoever reads the tree knows the few names that matter.
So a malicious pickle is only an odd tree.
"""

import pickletools
from collections.abc import Callable
from typing import Any, NamedTuple

MOST_BYTES = 1_000_000
"""Bytes of a pickle, at most; a job has some 700."""

MOST_STEPS = 100_000
"""Opcodes of a pickle, at most; a job has some 150. So many take a tenth of a second."""


class BadPickle(ValueError):
    """The reason why a pickle is not read."""


class Global(NamedTuple):
    """A class or function, by its name."""

    module: str
    name: str

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def told(self) -> str:
        return f"{self.full_name:.100} itself"


class Made:
    """An object that a call would make: of what, with which arguments, and with which state after it."""

    def __init__(self, maker: Any, args: Any) -> None:
        self.maker, self.args, self.state = maker, args, None

    @property
    def full_name(self) -> str:
        """The name of what makes it."""
        return self.maker.full_name if isinstance(self.maker, Global) else "something that a call returns"

    @property
    def told(self) -> str:
        return f"made by {self.full_name:.100}"


class Other(NamedTuple):
    """A value of a kind that no job has in its times, such as a set."""

    told: str


_MARK = object()

VALUES = set(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING BINBYTES "
    "SHORT_BINBYTES BINBYTES8 UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8".split()
)
"""Opcodes whose argument is the value."""

CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": lambda: Other("a set"),
    "BYTEARRAY8": lambda: Other("a bytearray"),
    "MARK": lambda: _MARK,
}

REFUSED = {
    "PERSID": "a persistent id",
    "BINPERSID": "a persistent id",
    "EXT1": "a code of the extension registry",
    "EXT2": "a code of the extension registry",
    "EXT4": "a code of the extension registry",
    "NEXT_BUFFER": "a buffer outside of it",
    "READONLY_BUFFER": "a buffer outside of it",
    "INST": "an instance as Python 1 and 2 wrote it",
    "OBJ": "an instance as Python 1 and 2 wrote it",
}
"""Opcodes that only another program could give a meaning."""


def read_pickle(data: bytes) -> Any:
    """The tree that a pickle describes: plain values, lists, tuples and dictionaries, and `Global`, `Made` and `Other`
    in place of everything else. Raises BadPickle with the reason."""
    if len(data) > MOST_BYTES:
        raise BadPickle(f"its state has {len(data):,} bytes; at most {MOST_BYTES:,} are read")
    machine = _Machine()
    try:
        for steps, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if steps >= MOST_STEPS:
                raise BadPickle(f"its state is a pickle of more than {MOST_STEPS:,} steps")
            if opcode.name == "STOP":
                return machine.result()
            machine.step(opcode.name, argument)
    except BadPickle:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise BadPickle(f"its state is no valid pickle: {error}") from None
    raise BadPickle("its state is no valid pickle: it does not end")


class _Machine:
    """The stack and the memo of a pickle, without the power to do anything."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def result(self) -> Any:
        if len(self._stack) != 1 or self._stack[0] is _MARK:
            raise BadPickle("its state is no valid pickle: it does not leave one value")
        return self._stack[0]

    def step(self, name: str, argument: Any) -> None:
        if name in VALUES:
            self._stack.append(argument)
        elif name in CONSTANTS:
            self._stack.append(CONSTANTS[name]())
        elif name in REFUSED:
            raise BadPickle(f"its state has {REFUSED[name]} ({name}), which is not read")
        elif name not in ("PROTO", "FRAME"):
            if (method := _METHODS.get(name)) is None:
                raise BadPickle(f"its state has the opcode {name}, which is not read")
            method(self, argument)

    # -- the stack and the memo

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise BadPickle("its state is no valid pickle: a mark is where a value should be")
        return value

    def _top(self) -> Any:
        value = self._stack[-1]
        if value is _MARK:
            raise BadPickle("its state is no valid pickle: a mark is where a value should be")
        return value

    def _since_mark(self) -> list[Any]:
        values: list[Any] = []
        while (value := self._stack.pop()) is not _MARK:
            values.append(value)
        values.reverse()
        return values

    def _discard(self, _: Any) -> None:
        self._stack.pop()

    def _discard_since_mark(self, _: Any) -> None:
        self._since_mark()

    def _frozen_set(self, _: Any) -> None:
        self._since_mark()
        self._stack.append(Other("a frozenset"))

    def _repeat(self, _: Any) -> None:
        self._stack.append(self._top())

    def _remember(self, place: Any) -> None:
        self._memo[len(self._memo) if place is None else int(place)] = self._top()

    def _recall(self, place: Any) -> None:
        self._stack.append(self._memo[int(place)])

    # -- lists, tuples and dictionaries

    def _tuple(self, size: int) -> None:
        values = [self._pop() for _ in range(size)]
        self._stack.append(tuple(reversed(values)))

    def _extend(self, values: list[Any]) -> None:
        if isinstance(target := self._top(), list):
            target.extend(values)
        elif not isinstance(target, Other):  # a set, whose items nobody asks for
            raise BadPickle("its state is no valid pickle: it appends to something that is no list")

    def _append(self, _: Any) -> None:
        value = self._pop()
        self._extend([value])

    def _set_items(self, values: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, dict) or len(values) % 2:
            raise BadPickle("its state is no valid pickle: it sets an item of something that is no dictionary")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if type(key) is not str:
                raise BadPickle(f"its state has a dictionary with a key that is no text, of type {type(key).__name__}")
            target[key] = value

    def _set_item(self, _: Any) -> None:
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _dict(self, _: Any) -> None:
        values = self._since_mark()
        self._stack.append({})
        self._set_items(values)

    # -- what would import, call or change something

    def _global(self, written: str) -> None:
        module, _, name = written.partition(" ")
        self._stack.append(Global(module, name))

    def _stack_global(self, _: Any) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise BadPickle("its state is no valid pickle: a class has a name that is no text")
        self._stack.append(Global(module, name))

    def _make(self, _: Any) -> None:
        args, maker = self._pop(), self._pop()
        self._stack.append(Made(maker, args))

    def _make_with_names(self, _: Any) -> None:
        kwargs, args, maker = self._pop(), self._pop(), self._pop()
        if kwargs:
            raise BadPickle(f"its state calls {getattr(maker, 'full_name', 'something')} with keyword arguments")
        self._stack.append(Made(maker, args))

    def _build(self, _: Any) -> None:
        state, made = self._pop(), self._top()
        if not isinstance(made, Made):
            told = getattr(made, "told", f"a value of type {type(made).__name__}")
            raise BadPickle(f"its state changes {told}, which is no object of its own")
        if made.state is not None:
            raise BadPickle(f"its state changes an object {made.told} twice")
        made.state = state


_METHODS: dict[str, Callable[[_Machine, Any], None]] = {
    "POP": _Machine._discard,
    "POP_MARK": _Machine._discard_since_mark,
    "DUP": _Machine._repeat,
    "PUT": _Machine._remember,
    "BINPUT": _Machine._remember,
    "LONG_BINPUT": _Machine._remember,
    "MEMOIZE": _Machine._remember,
    "GET": _Machine._recall,
    "BINGET": _Machine._recall,
    "LONG_BINGET": _Machine._recall,
    "TUPLE": lambda machine, _: machine._stack.append(tuple(machine._since_mark())),
    "TUPLE1": lambda machine, _: machine._tuple(1),
    "TUPLE2": lambda machine, _: machine._tuple(2),
    "TUPLE3": lambda machine, _: machine._tuple(3),
    "LIST": lambda machine, _: machine._stack.append(machine._since_mark()),
    "APPEND": _Machine._append,
    "APPENDS": lambda machine, _: machine._extend(machine._since_mark()),
    "ADDITEMS": lambda machine, _: machine._extend(machine._since_mark()),
    "FROZENSET": _Machine._frozen_set,
    "DICT": _Machine._dict,
    "SETITEM": _Machine._set_item,
    "SETITEMS": lambda machine, _: machine._set_items(machine._since_mark()),
    "GLOBAL": _Machine._global,
    "STACK_GLOBAL": _Machine._stack_global,
    "REDUCE": _Machine._make,
    "NEWOBJ": _Machine._make,
    "NEWOBJ_EX": _Machine._make_with_names,
    "BUILD": _Machine._build,
}
