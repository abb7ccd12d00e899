"""Assertions and prints, at compile time and at run time, and breakpoints."""

from __future__ import annotations

import sys
from typing import Any

from tile.errors import CompilationError, StaticAssertionError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.ops import debug as ops
from tile.ir.types import EMULATED_FP8, F32, Scalar
from tile.language.base.builtin import builtin
from tile.language.base.promotion import (
    Operand,
    broadcast_together,
    common_shape,
    convert,
    to_tensor,
)
from tile.language.base.static_args import compile_time, compile_time_bool, constant_value
from tile.language.base.tensor import Tensor
from tile.language.operators import truth
from tile.short_repr import short_repr


@builtin
def static_assert(build: Builder, cond: Any, msg: Any = "") -> None:
    """Raise `StaticAssertionError` with `msg` if `cond` is false at compile time."""
    if not compile_time(cond, "the condition of tl.static_assert"):
        text = compile_time(msg, "the message of tl.static_assert")
        raise StaticAssertionError(f"static assertion failed{f': {text}' if text else ''}")


@builtin
def static_print(
    build: Builder,
    *values: Any,
    sep: str = " ",
    end: str = "\n",
    file: Any = None,
    flush: bool = False,
) -> None:
    """Print when the kernel is compiled; a runtime value is printed as its type."""
    stream = file if file is not None else sys.stdout
    printed = (v if constant_value(v) is None else constant_value(v) for v in values)
    stream.write(sep.join(v.name if isinstance(v, Scalar) else str(v) for v in printed) + end)
    if flush:
        stream.flush()


@builtin
def expect_zero(build: Builder, x: Operand, mask: Operand) -> Tensor:
    """Return `x`, of which the program expects that it is zero where `mask` is true.

    This is a note to readers and other compilers; it has no effect.
    """
    expected = truth(build, mask, "the mask of tl.expect_zero")
    value = to_tensor(build, x, "the input of tl.expect_zero")
    common_shape(value.shape, expected.shape)
    return value


@builtin
def device_print(build: Builder, prefix: Any, *args: Any, hex: bool = False) -> None:
    """Print a compile-time string and values from every program, integers in base 16 if `hex`."""
    text = compile_time(prefix, "the prefix of tl.device_print")
    if not isinstance(text, str):
        raise CompilationError(f"the prefix of tl.device_print is a text, not {short_repr(text)}")
    values = [_printed(build, arg) for arg in args]
    base = compile_time_bool(hex, "the hex of tl.device_print")
    build.op(ops.device_print, *values, prefix=text, hex=base)


def _printed(build: Builder, x: Operand) -> Value:
    """Return a value as it is printed: an emulated float as the f32 that equals it."""
    printed = to_tensor(build, x, "an argument of tl.device_print")
    return (convert(build, printed, F32) if printed.dtype in EMULATED_FP8 else printed).value


@builtin
def device_assert(build: Builder, cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Stop the launch with `DeviceAssertionError` where `cond` is false and `mask` is true.

    `cond` and `mask` are scalars or tiles, broadcast together; nonzero is true.
    """
    text = str(compile_time(msg, "the message of tl.device_assert"))
    if not isinstance(cond, Tensor) and compile_time(cond, "") and mask is None:
        return
    condition = truth(build, cond, "tl.device_assert")
    if mask is None:
        build.op(ops.device_assert, condition.value, message=text)
        return
    guard = truth(build, mask, "the mask of tl.device_assert")
    condition, guard = broadcast_together(build, condition, guard)
    build.op(ops.device_assert, condition.value, guard.value, message=text)


@builtin
def breakpoint_(build: Builder) -> None:
    """Open the debugger if the interpreter runs the kernel; other backends ignore it.

    See `tile debug --help`.
    """
    build.op(ops.breakpoint_)
