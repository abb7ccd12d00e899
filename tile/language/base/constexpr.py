"""`tl.constexpr`, the marker of compile-time values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def unwrapped(x: Any) -> Any:
    """Return the value of a `tl.constexpr`, or `x` itself."""
    return x.value if isinstance(x, constexpr) else x


def _frozen(x: Any) -> Any:
    """Return an array as its number, or as a tuple of elements or tuples; else `x` itself."""
    if not isinstance(x, np.ndarray):
        return x
    return tuple(map(_frozen, x)) if x.ndim else x[()]


def _forward(compute: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], constexpr]:
    return lambda self, other: constexpr(compute(self.value, unwrapped(other)))


def _reverse(compute: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], constexpr]:
    return lambda self, other: constexpr(compute(unwrapped(other), self.value))


class constexpr:  # noqa: N801 - the language's own spelling
    """A compile-time value.

    As an annotation, `BLOCK: tl.constexpr` makes a parameter a compile-time constant, for each
    value of which the kernel is specialized, and `x: tl.constexpr = 3` keeps a local name a plain
    number. As a wrapper, `LIMIT = tl.constexpr(8)` lets kernels read a global. Arithmetic outside
    kernels gives wrapped results. An array of NumPy becomes a tuple of its elements, a table. A
    wrapped function is called at compile time, as with `constexpr_function`.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = _frozen(unwrapped(value))

    __add__, __radd__ = _forward(operator.add), _reverse(operator.add)
    __sub__, __rsub__ = _forward(operator.sub), _reverse(operator.sub)
    __mul__, __rmul__ = _forward(operator.mul), _reverse(operator.mul)
    __truediv__, __rtruediv__ = _forward(operator.truediv), _reverse(operator.truediv)
    __floordiv__, __rfloordiv__ = _forward(operator.floordiv), _reverse(operator.floordiv)
    __mod__, __rmod__ = _forward(operator.mod), _reverse(operator.mod)
    __pow__, __rpow__ = _forward(operator.pow), _reverse(operator.pow)
    __lshift__, __rlshift__ = _forward(operator.lshift), _reverse(operator.lshift)
    __rshift__, __rrshift__ = _forward(operator.rshift), _reverse(operator.rshift)
    __and__, __rand__ = _forward(operator.and_), _reverse(operator.and_)
    __or__, __ror__ = _forward(operator.or_), _reverse(operator.or_)
    __xor__, __rxor__ = _forward(operator.xor), _reverse(operator.xor)
    __lt__, __le__ = _forward(operator.lt), _forward(operator.le)
    __gt__, __ge__ = _forward(operator.gt), _forward(operator.ge)

    def logical_and(self, other: Any) -> constexpr:
        """Return `self and other`."""
        return constexpr(self.value and unwrapped(other))

    def logical_or(self, other: Any) -> constexpr:
        """Return `self or other`."""
        return constexpr(self.value or unwrapped(other))

    def __not__(self) -> constexpr:
        return constexpr(not self.value)

    def __pos__(self) -> constexpr:
        return constexpr(+self.value)

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __invert__(self) -> constexpr:
        return constexpr(~self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == unwrapped(other))

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[unwrapped(index)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    @property
    def type(self) -> constexpr_type:
        """The type of a compile-time value: there is one for each value."""
        return constexpr_type(self.value)

    def __repr__(self) -> str:
        return f"constexpr({self.value!r})"


class constexpr_type:  # noqa: N801 - the language's own spelling
    """The type of a compile-time value, which no other value has."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = unwrapped(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, constexpr_type) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((constexpr_type, self.value))

    def __repr__(self) -> str:
        return f"constexpr_type[{self.value!r}]"

    def mangle(self) -> str:
        """Return the name of the type in mangled names of functions."""
        return f"c{self.value!r}"
