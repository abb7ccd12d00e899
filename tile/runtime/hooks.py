"""Functions of the user that tuners call: what they raise is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tile.errors import HookError


@contextmanager
def user_code(name: str) -> Iterator[None]:
    """Raise what a function of the user raises as a `HookError` that says which one it was."""
    try:
        yield
    except Exception as error:
        raise hook_error(name, error) from error


def hook_error(name: str, error: Exception) -> HookError:
    """The error that says which function of the user raised `error`."""
    return HookError(f"{name} raised {type(error).__name__}: {error}")
