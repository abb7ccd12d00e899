"""Functions of modules that are imported when they are first called.

A process that finds its kernels on disk needs no frontend, no passes and no code generator, which
are most of the time that importing everything takes. Such an import is written twice: for readers,
type checkers and the check of layers as usual, and for Python by name:

    if TYPE_CHECKING:
        from tile.frontend.compile import compile_function
    else:
        compile_function = late("tile.frontend.compile", "compile_function")
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
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
