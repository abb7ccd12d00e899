"""Values known when the kernel is compiled: the marker, and how they are found and demanded."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tile.errors import CompilationError
from tile.ir.effects import constant_of
from tile.language.tensor import Tensor


def _unwrapped(x: Any) -> Any:
    return x.value if isinstance(x, constexpr) else x


def _forward(compute: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], constexpr]:
    return lambda self, other: constexpr(compute(self.value, _unwrapped(other)))


def _reverse(compute: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], constexpr]:
    return lambda self, other: constexpr(compute(_unwrapped(other), self.value))


class constexpr:  # noqa: N801 - the language's own spelling
    """A value known when the kernel is compiled.

    As an annotation, `BLOCK: tl.constexpr` makes a parameter one that the kernel is compiled for,
    and `x: tl.constexpr = 3` keeps a local name a plain number. As a wrapper, `LIMIT =
    tl.constexpr(8)` lets kernels read a global. Arithmetic outside kernels gives wrapped results.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = _unwrapped(value)

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

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __invert__(self) -> constexpr:
        return constexpr(~self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == _unwrapped(other))

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __repr__(self) -> str:
        return f"constexpr({self.value!r})"


def constant_value(x: Any) -> Any:
    """What is known of `x` at compile time.

    A Python object is itself, a `tl.constexpr` its value, a `Tensor` defined by a scalar constant
    that number; of any other `Tensor` nothing is known and the answer is None.
    """
    if isinstance(x, Tensor):
        return None if x.shape else constant_of(x.value)
    return _unwrapped(x)


def compile_time(x: Any, what: str) -> Any:
    """`constant_value`, or a `CompilationError` saying that `what` is demanded at compile time."""
    value = constant_value(x)
    if value is None and isinstance(x, Tensor):
        raise CompilationError(
            f"{what} must be known when the kernel is compiled, and this is a value of "
            f"type {x.type} "
            f"that is known only when it runs; make it a parameter annotated tl.constexpr"
        )
    return value


def compile_time_int(x: Any, what: str) -> int:
    """An integer that must be known at compile time; anything else, booleans too, is refused."""
    value = compile_time(x, what)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise CompilationError(f"{what} must be an integer, not {value!r}")
    return operator.index(value)


def compile_time_bool(x: Any, what: str) -> bool:
    """A truth value that must be known at compile time."""
    return bool(compile_time(x, what))


def compile_time_shape(shape: Any, what: str) -> tuple[int, ...]:
    """A shape: a compile-time integer, or a tuple or list of them."""
    known = compile_time(shape, what)
    extents = known if isinstance(known, tuple | list) else (known,)
    return tuple(compile_time_int(extent, f"an extent in {what}") for extent in extents)


def compile_time_shape_of(extents: tuple[Any, ...], what: str) -> tuple[int, ...]:
    """A shape given as one tuple or as one argument for each extent."""
    return compile_time_shape(extents[0] if len(extents) == 1 else extents, what)


def axis_from_right(axis: Any, rank: int, what: str) -> int:
    """A compile-time axis, counted from either end, as the negative number the IR wants."""
    number = compile_time_int(axis, f"the axis of {what}")
    if not -rank <= number < rank:
        raise CompilationError(
            f"the axis of {what} is {number}; a tile of rank {rank} has axes {-rank} to {rank - 1}"
        )
    return number if number < 0 else number - rank
