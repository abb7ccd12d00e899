"""User functions that tuners call: their exceptions become a `HookError` with their name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tile.errors import HookError


@contextmanager
def user_code(name: str) -> Iterator[None]:
    """Raise exceptions inside the `with` block as a `HookError` that names the user function."""
    try:
        yield
    except Exception as error:
        raise hook_error(name, error) from error


def hook_error(name: str, error: Exception) -> HookError:
    """Return the error that names the user function that raised `error`."""
    return HookError(f"{name} raised {type(error).__name__}: {error}")
