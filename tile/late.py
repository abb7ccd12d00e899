"""Functions and names whose modules are imported when they are first used.

A process that finds its kernels on disk needs no frontend, no passes and no code generator, which
are most of the time that importing everything takes. Such an import is written twice: for readers,
type checkers and the check of layers as usual, and for Python by name:

    if TYPE_CHECKING:
        from tile.frontend.compile import compile_function
    else:
        compile_function = late("tile.frontend.compile", "compile_function")

and for what a module gives on to others, with the module's `__getattr__` (PEP 562):

    __getattr__ = late_names(__name__, {"autotune": "tile.runtime.autotune"})
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def late(module: str, name: str) -> Callable[..., Any]:
    """A function that is the one of that name in a module, which its first call imports."""

    @functools.cache
    def found() -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        return found()(*args, **kwargs)

    return call


def late_names(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module that gives names of other modules on; `homes` says of which.

    A name that is its home in this package is that module itself.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home = importlib.import_module(homes[name])
        value = home if homes[name] == f"{module}.{name}" else getattr(home, name)
        setattr(sys.modules[module], name, value)
        return value

    return get
