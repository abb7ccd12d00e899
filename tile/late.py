"""Functions and names whose modules are imported when they are first used.

A process that finds its kernels on disk needs no frontend, no passes and no code generator, which
are most of the time that importing everything takes. Such an import is written twice: for readers,
type checkers and the check of layers as usual, and for Python by name:

    if TYPE_CHECKING:
        from tile.frontend.compile import compile_function
    else:
        compile_function = late("tile.frontend.compile", "compile_function")

and for what a module gives on to others, with the module's `__getattr__` (PEP 562):

    __getattr__ = LateNames(__name__, {"autotune": "tile.runtime.autotune"})
    __dir__ = __getattr__.names
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
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


class LateNames:
    """The `__getattr__` of a module that gives names of other modules on; `homes` says of which.

    A name that is its home in this package is that module itself.
    """

    def __init__(self, module: str, homes: Mapping[str, str]) -> None:
        self.module = module
        self.homes = homes

    def __call__(self, name: str) -> Any:
        if name not in self.homes:
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}")
        value = self._at_home(name)
        setattr(sys.modules[self.module], name, value)
        return value

    def _at_home(self, name: str) -> Any:
        home = importlib.import_module(self.homes[name])
        return home if self.homes[name] == f"{self.module}.{name}" else getattr(home, name)

    def names(self) -> list[str]:
        """The names of the module, for `dir` and completion, those not imported yet included."""
        return sorted({*vars(sys.modules[self.module]), *self.homes})

    def unchanged(self, name: str) -> bool:
        """Whether a name is given on, used already or not, and nobody has put another value there.

        Imports nothing.
        """
        held = vars(sys.modules[self.module]).get(name, self)
        return name in self.homes and (held is self or held is self._at_home(name))


def is_given_on(module: ModuleType, name: str) -> bool:
    """Whether a module gives a name of another one on, as it was written to; imports nothing."""
    names = vars(module).get("__getattr__")
    return isinstance(names, LateNames) and names.unchanged(name)
