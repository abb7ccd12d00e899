"""Packages that backends need, and that may not be installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tile.errors import BackendError


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
