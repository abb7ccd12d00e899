"""How values known when the kernel is compiled are found and demanded."""

from __future__ import annotations

import operator
from typing import Any

from tile.brief import brief
from tile.errors import CompilationError
from tile.ir.effects import constant_of
from tile.language.constexpr import constexpr
from tile.language.tensor import Tensor


def constant_value(x: Any) -> Any:
    """What is known of `x` at compile time.

    A Python object is itself, a `tl.constexpr` its value, a `Tensor` defined by a scalar constant
    that number; of any other `Tensor` nothing is known and the answer is None.
    """
    if isinstance(x, Tensor):
        return None if x.shape else constant_of(x.value)
    return x.value if isinstance(x, constexpr) else x


# Of values known when a kernel is compiled. Types of kernels have 64 bits; Python takes time to
# compute and print what is much larger, and refuses to print integers of 14,000 bits.
MOST_BITS = 4096
MOST_ITEMS = 1 << 16


def bounded(value: Any) -> Any:
    """`value`, unless it is an integer of more than `MOST_BITS`."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise too_large(f"this, an integer of {value.bit_length():,} bits,", "bits")
    return value


def too_large(what: str, unit: str) -> CompilationError:
    """The error for a value of more than `MOST_BITS` or `MOST_ITEMS`."""
    most = MOST_BITS if unit == "bits" else MOST_ITEMS
    return CompilationError(
        f"{what} is too large: a value known when the kernel is compiled has at most {most:,} "
        f"{unit}"
    )


def static_truth(x: Any, what: str) -> bool:
    """The truth of a value known at compile time, whose class may define it in any way."""
    try:
        return bool(x)
    except Exception as error:
        raise failed(f"the truth of {brief(x)}, {what},", error) from error


SELF_EXPLANATORY = (TypeError, ValueError, ZeroDivisionError, OverflowError, IndexError)


def failed(what: str, error: Exception) -> CompilationError:
    """The error for an operation on compile-time values that raised `error`."""
    named = "" if type(error) in SELF_EXPLANATORY else f"{type(error).__name__}: "
    return CompilationError(f"{what}: {named}{brief(error, show=str)}")


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
        raise CompilationError(f"{what} must be an integer, not {brief(value)}")
    return int(bounded(operator.index(value)))


def compile_time_bool(x: Any, what: str) -> bool:
    """A truth value that must be known at compile time."""
    return static_truth(compile_time(x, what), what)


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
