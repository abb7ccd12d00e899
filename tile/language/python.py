"""Python's built-in functions in kernels."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import tile.language.math as math
from tile.brief import brief
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.language.builtin import builtin
from tile.language.debug import breakpoint_, device_print
from tile.language.iterators import range
from tile.language.known import (
    compile_time,
    failed,
)
from tile.language.promote import as_number, describe
from tile.language.selection import maximum, minimum
from tile.language.tensor import Tensor


@builtin
def min_(build: Builder, *args: Any) -> Any:
    """The least argument: Python's `min` of compile-time values, else `tl.minimum` of all."""
    return _extremum(build, builtins.min, minimum.emit, args)


@builtin
def max_(build: Builder, *args: Any) -> Any:
    """The greatest argument: Python's `max` of compile-time values, else `tl.maximum` of all."""
    return _extremum(build, builtins.max, maximum.emit, args)


def _extremum(
    build: Builder, python: Callable[..., Any], pair: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    values = args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args
    if not any(isinstance(v, Tensor) for v in values):
        try:
            return python(values)
        except Exception as error:
            raise failed(f"{python.__name__} of {brief(tuple(values))}", error) from error
    if len(values) == 1:
        raise CompilationError(
            f"{python.__name__} of one value; along the axes of a tile write "
            f"tl.{python.__name__}(x, axis)"
        )
    result, *others = values
    for other in others:
        result = pair(build, result, other)
    return result


@builtin
def len_(build: Builder, x: Any) -> int:
    """The length of a compile-time sequence, or the extent of a tile's first axis."""
    if isinstance(x, Tensor):
        if not x.shape:
            raise CompilationError(f"len of a scalar of type {x.type}")
        return x.shape[0]
    return len(x)


def _converter(make: type[bool] | type[int] | type[float], dtype: str) -> Any:
    """Return a builtin for `int(x)`, `float(x)` or `bool(x)` of compile-time values."""

    def convert(build: Builder, x: Any = 0) -> Any:
        if as_number(x) is None and isinstance(x, Tensor):
            raise CompilationError(
                f"{make.__name__}(x) is for values known at compile time, and x is of type "
                f"{x.type}; "
                f"write x.to({dtype})"
            )
        try:
            return make(compile_time(x, f"the argument of {make.__name__}"))
        except (TypeError, ValueError, OverflowError) as error:
            raise CompilationError(f"{make.__name__}({describe(x)}): {error}") from None

    convert.__name__ = make.__name__
    return builtin(convert)


@builtin
def print_(build: Builder, *args: Any, hex: bool = False) -> None:
    """Call `tl.device_print`; leading compile-time strings become the prefix."""
    texts = []
    rest = list(args)
    while rest and isinstance(rest[0], str):
        texts.append(rest.pop(0))
    device_print.emit(build, " ".join(texts), *rest, hex=hex)


# Python's function -> its implementation in a kernel: a `Builtin`, or a class to call with the
# unchanged arguments.
PYTHON_BUILTINS: dict[Any, Any] = {
    builtins.abs: math.abs,
    builtins.breakpoint: breakpoint_,
    builtins.bool: _converter(bool, "tl.int1"),
    builtins.float: _converter(float, "tl.float32"),
    builtins.int: _converter(int, "tl.int32"),
    builtins.len: len_,
    builtins.max: max_,
    builtins.min: min_,
    builtins.print: print_,
    builtins.range: range,
}
