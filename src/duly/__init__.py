"""Duly, the durable scheduler for time-based events: on time, once, even after a crash."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.public import *  # noqa: F403 - which names these are is said there, once

__version__ = "0.1.0"


if not TYPE_CHECKING:  # or type checkers would believe every misspelt name

    def __getattr__(name: str) -> Any:
        """The engine is loaded when one of its names is first asked for: a receiver that imports ``duly.inbox`` does
        without it."""
        if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
            return import_module(f"{__name__}.{name}")
        if not name.startswith("_") or name == "__all__":
            public = import_module(f"{__name__}.public")
            if name in ("__all__", *public.__all__):
                value = globals()[name] = getattr(public, name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({"__all__", *__getattr__("__all__"), *(name for name in globals() if name.startswith("__"))})
