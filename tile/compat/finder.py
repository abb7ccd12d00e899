"""Find and load modules named `triton` and below, from the tables in `tile.compat.modules`."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from tile._lazy import LazyNames
from tile.compat import torch_kernels
from tile.compat.modules import MODULES, View
from tile.compat.reasons import absent_module, absent_name, absent_reason

VERSIONS = ("3.6.0", "3.7.0", "3.8.0", "3.9.0")
ROOT = "triton"


class ViewNames(LazyNames):
    """The `__getattr__` of a view: names of its table, then those of the modules that it shows."""

    def __init__(self, module: ModuleType, view: View, version: str) -> None:
        name = module.__name__
        submodules = {
            child.rpartition(".")[2]: child for child in MODULES if child.rpartition(".")[0] == name
        }
        super().__init__(name, {**submodules, **view.names})
        self._view = view
        self._version = version
        self._namespace = vars(module)  # the module may be uninstalled

    def __call__(self, name: str) -> Any:
        if name not in self.sources and (source := self._source(name)):
            self.sources = {**self.sources, name: source}
        if name not in self.sources:
            raise AttributeError(absent_name(self.module, name, self._version), name=name)
        return super().__call__(name)

    def reason(self, name: str) -> str:
        return absent_reason(self.module, name)

    def namespace(self) -> dict[str, Any]:
        return self._namespace

    def _source(self, name: str) -> str:
        """Return the module among those shown that has a public name, or an empty string."""
        if name.startswith("__"):
            return ""
        return next((one for one in self._view.shows if _has(one, name)), "")

    def _resolve(self, name: str) -> Any:
        module, _, attribute = self.sources[name].partition(":")
        source = importlib.import_module(module)
        if module == f"{self.module}.{name}":
            return source
        return getattr(source, attribute or name)

    def names(self) -> list[str]:
        """Return all names that the module has."""
        shown = {
            name
            for source in self._view.shows
            for name in dir(_imported(source))
            if not name.startswith("_") and _has(source, name)
        }
        return sorted({*super().names(), *shown})


def _imported(module: str) -> ModuleType | None:
    """Return a module of `tile`, or None if this version has no such module."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        return None


def _has(module: str, name: str) -> bool:
    """Return True if a module has a name; what modules of this package import does not count."""
    imported = _imported(module)
    own = module.startswith(f"{__package__}.")
    return hasattr(imported, name) and (not own or name in getattr(imported, "__all__", ()))


class _Distribution(importlib.metadata.Distribution):
    """The metadata by which programs ask for the version of the package `triton`."""

    def __init__(self, version: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {ROOT}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Path:
        return Path(path)


class TritonFinder(Loader):
    """A finder and loader, for `sys.meta_path`, of the modules of one version of Triton."""

    def __init__(self, version: str) -> None:
        self.version = version

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of Triton; None for all other modules.

        Raises `ModuleNotFoundError` with the reason for a module that is absent for one.
        """
        if name in torch_kernels.REPLACEMENTS:
            return torch_kernels.spec_of(name, path, target)
        if name.partition(".")[0] != ROOT:
            return None
        if name in MODULES:
            return ModuleSpec(name, self, origin="tile.compat", is_package=MODULES[name].package)
        if reason := absent_module(name):
            raise ModuleNotFoundError(f"no module named {name!r}: {reason}", name=name)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give a new module its names; they are resolved at their first use."""
        view = MODULES[module.__name__]
        names = ViewNames(module, view, self.version)
        module.__doc__ = f"{view.summary}\n\nA view of `tile`, made by `tile.compat`."
        vars(module).update(__getattr__=names, __dir__=names.names, __version__=self.version)
        # A name that is both a module and an object: importing the module now, before the object is
        # assigned, keeps a later import from assigning the module in place of the object.
        for name in view.names:
            if f"{module.__name__}.{name}" in MODULES:
                importlib.import_module(f"{module.__name__}.{name}")
                delattr(module, name)

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context
    ) -> Iterator[importlib.metadata.Distribution]:
        """Yield the metadata of Triton, if the search is for it or for everything."""
        if context.name in (None, ROOT):
            yield _Distribution(self.version)


def is_view(name: str, module: ModuleType | None) -> bool:
    """Return True for modules that a `TritonFinder` has loaded."""
    spec = getattr(module, "__spec__", None)
    return name.partition(".")[0] == ROOT and isinstance(
        getattr(spec, "loader", None), TritonFinder
    )
