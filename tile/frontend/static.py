"""Python functions of the user that kernels call while they are compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from tile.by_name import ByName, Reduction
from tile.language.constexpr import constexpr

P = ParamSpec("P")
R = TypeVar("R")


class StaticFunction(ByName, Generic[P, R]):
    """A Python function of values that are known when a kernel is compiled.

    A kernel that calls it gets what it returns, as a value known at compile time; outside kernels
    it is the function that it was. `tl.constexpr` wrappers are taken off its arguments.
    """

    def __init__(self, fn: Callable[P, R]) -> None:
        self.fn = fn
        functools.update_wrapper(self, fn)

    if TYPE_CHECKING:
        __call__: Callable[P, R]
    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            plain = {name: _plain(value) for name, value in kwargs.items()}
            return self.fn(*map(_plain, args), **plain)

    def by_value(self) -> tuple[bool, Reduction]:
        """The function decorated anew, which plain pickle cannot take."""
        return False, (StaticFunction, (self.fn,))

    def __repr__(self) -> str:
        return f"<constexpr function {getattr(self.fn, '__name__', '?')}>"


def constexpr_function(fn: Callable[P, R]) -> StaticFunction[P, R]:
    """Decorator: let kernels call a Python function while they are compiled."""
    return StaticFunction(fn)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, constexpr) else value
