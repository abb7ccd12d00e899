"""Run code right after another library's module is imported, without importing that library.

    call_after_import("torch._dynamo", "tile.torch.dynamo", "register")

Python has no hook for it, so a finder on `sys.meta_path` returns the module's own spec with a
loader that calls the function once the module has run.
"""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class FollowedLoader(Loader):
    """A loader that loads a module as another one does, and calls `done(module)` after it."""

    def __init__(self, loader: Any, done: Callable[[ModuleType], object]) -> None:
        self.loader = loader
        self.done = done

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.done(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)  # get_source and the like, for tracebacks


def followed_spec(
    name: str, path: Any, target: ModuleType | None, done: Callable[[ModuleType], object]
) -> ModuleSpec | None:
    """Return the spec of a module found on `path`, whose import ends with `done(module)`."""
    spec = PathFinder.find_spec(name, path, target)
    if spec is not None and spec.loader is not None:
        spec.loader = FollowedLoader(spec.loader, done)
    return spec


class _Finder:
    """A finder of one module for `sys.meta_path`, which removes itself once it has found it."""

    def __init__(self, name: str, done: Callable[[ModuleType], object]) -> None:
        self.name = name
        self.done = done

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        return followed_spec(name, path, target, self._loaded)

    def _loaded(self, module: ModuleType) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self.done(module)


class _Waiter:
    """A finder of nothing that waits, at each import, for the end of an import under way."""

    def __init__(self, module: ModuleType, done: Callable[[ModuleType], object]) -> None:
        self.module = module
        self.done = done

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if self in sys.meta_path and not _is_initializing(self.module):
            sys.meta_path.remove(self)
            self.done(self.module)
        return None


def _is_initializing(module: ModuleType) -> bool:
    """Return True while a module is being imported."""
    return bool(getattr(module.__spec__, "_initializing", False))


def call_after_import(name: str, module: str, function: str) -> None:
    """Call `module.function()` once the module `name` is imported; at once if it is already.

    If its import is under way, as it may import Triton, the call comes with the next import.

    Costs a process that never imports it a comparison of names at each import. An `ImportError` or
    `AttributeError`, as for another version of the library, becomes a warning.
    """
    done = functools.partial(_call, module, function)
    imported = sys.modules.get(name)
    if imported is None:
        sys.meta_path.insert(0, _Finder(name, done))
    elif _is_initializing(imported):
        sys.meta_path.insert(0, _Waiter(imported, done))
    else:
        done(imported)


def _call(module: str, function: str, imported: ModuleType) -> None:
    try:
        getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError) as error:
        text = f"{module} does not work with this {imported.__name__}: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
