"""Lazy imports: functions and names whose modules are imported on first use.

A process that finds its kernels in the compilation cache needs no frontend, no passes and no code
generator, and importing these takes most of the time of importing everything. A lazy import is
written twice: as usual for readers, type checkers and lint-imports, and by name for Python:

    if TYPE_CHECKING:
        from tile.frontend.python.code_generator import compile_function
    else:
        compile_function = lazy_import(
            "tile.frontend.python.code_generator", "compile_function"
        )

A module re-exports names lazily by its `__getattr__` (PEP 562):

    __getattr__ = LazyNames(__name__, {"autotune": "tile.runtime.autotuning.decorator"})
    __dir__ = __getattr__.names
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def lazy_import(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports `module` on its first call and forwards to `module.name`."""

    @functools.cache
    def imported() -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        return imported()(*args, **kwargs)

    return call


class LazyNames:
    """The `__getattr__` of a module that re-exports names of the modules in `sources`, lazily.

    A name whose source is the submodule of that name (`testing` of `tile`, from `tile.testing`) is
    the module itself.
    """

    def __init__(self, module: str, sources: Mapping[str, str]) -> None:
        self.module = module
        self.sources = sources

    def __call__(self, name: str) -> Any:
        if name not in self.sources:
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}")
        value = self._resolve(name)
        self.namespace()[name] = value
        return value

    def reason(self, name: str) -> str:
        """Return why the module has no such name, for errors of kernels; empty if that is clear."""
        return ""

    def namespace(self) -> dict[str, Any]:
        """Return the names that the module has by itself."""
        return vars(sys.modules[self.module])

    def _resolve(self, name: str) -> Any:
        source = importlib.import_module(self.sources[name])
        return source if self.sources[name] == f"{self.module}.{name}" else getattr(source, name)

    def names(self) -> list[str]:
        """Return the names of the module for `dir` and completion, imported or not."""
        return sorted({*self.namespace(), *self.sources})

    def unchanged(self, name: str) -> bool:
        """Return True if the name is re-exported and nobody has assigned another value to it.

        Imports no further module.
        """
        current = self.namespace().get(name, self)
        return name in self.sources and (current is self or current is self._resolve(name))


def is_lazy_reexport(module: ModuleType, name: str) -> bool:
    """Return True if a module re-exports the name lazily and it was not reassigned."""
    names = vars(module).get("__getattr__")
    return isinstance(names, LazyNames) and names.unchanged(name)
