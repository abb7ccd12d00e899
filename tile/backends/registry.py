"""The backends that are there, found by name and loaded when first asked for."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from tile import backends
from tile.backends.base import Backend
from tile.errors import BackendError

# The extra of the distribution that installs what a backend needs, where its name is another.
EXTRAS = {"nvptx": "cuda"}


@functools.cache
def names() -> tuple[str, ...]:
    """The backends of this version, in alphabetical order: one to each folder beside this file."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(backends.__path__) if m.ispkg))


def require(name: str) -> None:
    """Raise `BackendError` if no backend has that name."""
    if name not in names():
        raise BackendError(f"there is no backend {name!r}; this version has {', '.join(names())}")


@functools.cache
def get(name: str) -> Backend:
    """The backend called `name`, loaded now if need be.

    Raises `BackendError` for an unknown name, and when a package that the backend needs is missing.
    """
    require(name)
    # The one late import: a backend may need packages that not everyone has installed.
    try:
        module = importlib.import_module(f"{backends.__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "tile":
            raise
        raise BackendError(
            f"the {name} backend needs the package {error.name!r}, which is not installed; "
            f"pip install 'tile-compiler[{EXTRAS.get(name, name)}]' brings it"
        ) from error
    backend: Backend = module.BACKEND
    return backend
