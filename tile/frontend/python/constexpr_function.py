"""`constexpr_function`: Python functions of the user that kernels call at compile time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from tile.language.base.constexpr import constexpr, unwrapped
from tile.pickling import PickledByName, Reduction

P = ParamSpec("P")
R = TypeVar("R")


class StaticFunction(PickledByName, Generic[P, R]):
    """A Python function of compile-time values.

    A call in a kernel evaluates it when the kernel is compiled and gives a compile-time value.
    Outside kernels it behaves like the plain function. `tl.constexpr` wrappers are removed from its
    arguments.
    """

    def __init__(self, fn: Callable[P, R]) -> None:
        self.fn = fn
        functools.update_wrapper(self, fn)

    if TYPE_CHECKING:
        __call__: Callable[P, R]
    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if not kwargs and constexpr not in map(type, args):
                return self.fn(*args)  # as hosts compute most grids
            plain = {name: unwrapped(value) for name, value in kwargs.items()}
            return self.fn(*map(unwrapped, args), **plain)

    def by_value(self) -> tuple[bool, Reduction]:
        """Return the recipe to decorate the function again, which plain pickle cannot store."""
        return False, (StaticFunction, (self.fn,))

    def __repr__(self) -> str:
        return f"<constexpr function {getattr(self.fn, '__name__', '?')}>"


def constexpr_function(fn: Callable[P, R]) -> StaticFunction[P, R]:
    """Let kernels call a Python function at compile time. Use it as a decorator."""
    return StaticFunction(fn)
