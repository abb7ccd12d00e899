"""The backends, which compile and run kernels, and their registry.

A backend is found by name and loaded on first use. `base` has the interfaces of backends.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager

from tile.backends.base import Backend
from tile.errors import BackendError


@functools.cache
def names() -> tuple[str, ...]:
    """Return the names of all backends, sorted: those of the packages in this folder."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if m.ispkg))


def require(name: str) -> None:
    """Raise `BackendError` if no backend has that name."""
    if name not in names():
        error = BackendError(f"there is no backend {name!r}; this version has {', '.join(names())}")
        if name in ("cuda", "gpu", "nvidia"):
            error.notes.append("NVIDIA's GPUs are nvptx, or with an architecture nvptx:sm_90a")
        raise error


@functools.cache
def get(name: str) -> Backend:
    """Return the backend called `name`, and load it if necessary.

    Raises `BackendError` for an unknown name, and if a package that the backend needs is missing.
    """
    require(name)
    # Imported lazily: a backend may need packages that are not installed.
    with required_packages(name):
        module = importlib.import_module(f"{__name__}.{name}")
    backend: Backend = module.BACKEND
    return backend


@contextmanager
def required_packages(backend: str) -> Iterator[None]:
    """Raise `BackendError` for a package that is missing in the `with` block.

    backend: the name of the backend that needs it, which is that of the extra which brings it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "tile":
            raise
        raise BackendError(
            f"the {backend} backend needs the package {error.name!r}, which is not installed; "
            f"pip install 'tile-compiler[{backend}]' brings it"
        ) from error
