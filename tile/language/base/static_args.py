"""Compile-time arguments: their values, and the errors if they are runtime values."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, TypeVar

from tile.errors import CompilationError
from tile.ir.effects import constant_of
from tile.language.base.constexpr import constexpr
from tile.language.base.tensor import Tensor
from tile.short_repr import short_repr

T = TypeVar("T")


def constant_value(x: Any) -> Any:
    """Return the compile-time value of `x`, or None if it is a runtime value.

    That of a `tl.constexpr` is its value, that of a `Tensor` defined by a scalar constant the
    number, and that of any other Python object the object.
    """
    if isinstance(x, Tensor):
        return None if x.shape else constant_of(x.value)
    return x.value if isinstance(x, constexpr) else x


# Limits of compile-time values. Types in kernels have up to 64 bits. Python takes long to compute
# and print much larger integers, and does not print integers of 14,000 bits.
MOST_BITS = 4096
MOST_ITEMS = 1 << 16


def bounded(value: Any) -> Any:
    """Return `value`; raise `CompilationError` for an integer of more than `MOST_BITS`."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise too_large(f"this, an integer of {value.bit_length():,} bits,", "bits")
    return value


def too_large(subject: str, unit: str) -> CompilationError:
    """Return the error for a value of more than `MOST_BITS` or `MOST_ITEMS`."""
    most = MOST_BITS if unit == "bits" else MOST_ITEMS
    return CompilationError(
        f"{subject} is too large: a value known when the kernel is compiled has at most {most:,} "
        f"{unit}"
    )


def static_truth(x: Any, subject: str) -> bool:
    """Return the truth value of a compile-time value, whose class may define it in any way."""
    try:
        return bool(x)
    except Exception as error:
        raise failed(f"the truth of {short_repr(x)}, {subject},", error) from error


SELF_EXPLANATORY = (TypeError, ValueError, ZeroDivisionError, OverflowError, IndexError)


def failed(subject: str, error: Exception) -> CompilationError:
    """Return the error for an operation on compile-time values that raised `error`."""
    named = "" if type(error) in SELF_EXPLANATORY else f"{type(error).__name__}: "
    return CompilationError(f"{subject}: {named}{short_repr(error, show=str)}")


def compile_time(x: Any, subject: str) -> Any:
    """Return `constant_value`; raise `CompilationError`, naming `subject`, for a runtime value."""
    value = constant_value(x)
    if value is None and isinstance(x, Tensor):
        raise CompilationError(
            f"{subject} must be known when the kernel is compiled, and this is a value of type "
            f"{x.type} that is known only when it runs; make it a parameter annotated tl.constexpr"
        )
    return value


def compile_time_int(x: Any, subject: str) -> int:
    """Return a compile-time integer; raise `CompilationError` for others, including booleans."""
    value = compile_time(x, subject)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise CompilationError(f"{subject} must be an integer, not {short_repr(value)}")
    return int(bounded(operator.index(value)))


def compile_time_bool(x: Any, subject: str) -> bool:
    """Return the truth value of a compile-time value; raise `CompilationError` for others."""
    return static_truth(compile_time(x, subject), subject)


def choice(x: Any, subject: str, choices: Mapping[str, T], default: Any) -> T:
    """Return the choice that a compile-time text names; None names `default`.

    Raises `CompilationError`, naming `subject` and the choices, for anything else.
    """
    value = compile_time(x, subject)
    text = default if value is None else value
    if not isinstance(text, str) or text not in choices:
        words = ", ".join(f'"{word}"' for word in choices)
        raise CompilationError(f"{subject} is one of {words}, not {short_repr(text)}")
    return choices[text]


def compile_time_shape(shape: Any, subject: str) -> tuple[int, ...]:
    """Return a shape given as a compile-time integer, or a tuple or list of them."""
    value = compile_time(shape, subject)
    extents = value if isinstance(value, tuple | list) else (value,)
    return tuple(compile_time_int(extent, f"an extent in {subject}") for extent in extents)


def compile_time_shape_of(extents: tuple[Any, ...], subject: str) -> tuple[int, ...]:
    """Return a shape given as one tuple or as one argument for each extent."""
    return compile_time_shape(extents[0] if len(extents) == 1 else extents, subject)


def axis_from_right(axis: Any, rank: int, function: str) -> int:
    """Return a compile-time axis, counted from either end, as the negative number the IR uses."""
    number = compile_time_int(axis, f"the axis of {function}")
    if not -rank <= number < rank:
        raise CompilationError(
            f"invalid axis {number} of {function}: a tile of rank {rank} has axes {-rank} to "
            f"{rank - 1}"
        )
    return number if number < 0 else number - rank
