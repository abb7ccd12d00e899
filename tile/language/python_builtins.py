"""Python's built-in functions in kernels, and the iterators of loops.

An iterator holds bounds and options; the frontend emits the loop.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import tile.language.math as math
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops.control import WarpSpecialize
from tile.language.base.builtin import builtin
from tile.language.base.promotion import as_number, describe
from tile.language.base.static_args import (
    MOST_ITEMS,
    compile_time,
    compile_time_bool,
    compile_time_int,
    constant_value,
    failed,
)
from tile.language.base.tensor import Tensor
from tile.language.debug import breakpoint_, device_print
from tile.language.selection import maximum, minimum
from tile.short_repr import short_repr


class range:  # noqa: N801 - the language's own spelling
    """A loop at run time, `for i in tl.range(start, stop, step)`, with compiler options.

    Bounds and step are integers, at compile time or run time. `num_stages` is the depth of software
    pipelining (None: the launch's), `loop_unroll_factor` the unroll factor. The signatures are
    those of Python's `range`: `tl.range(stop)`, `tl.range(start, stop)`. `warp_specialize`
    gives the TMA loads of the loop, and of loops inside, to warps of their own: where possible
    (True), nowhere (False), or where that pays (None). `flatten` and `disallow_acc_multi_buffer`
    have no effect yet, and no option has an effect in a loop that `break` or `return` may leave; a
    warning says so once. Raises `CompilationError` for a step of 0.
    """

    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: Any = None,
        loop_unroll_factor: Any = None,
        disallow_acc_multi_buffer: Any = False,
        flatten: Any = False,
        warp_specialize: Any = None,
        disable_licm: Any = False,
    ) -> None:
        self.start = 0 if arg2 is None else arg1
        self.stop = arg1 if arg2 is None else arg2
        self.step = 1 if step is None else step
        if constant_value(self.step) == 0:
            raise CompilationError("the step of tl.range is 0; it must lead from start to stop")
        self.num_stages = num_stages
        self.loop_unroll_factor = loop_unroll_factor
        self.disallow_acc_multi_buffer = disallow_acc_multi_buffer
        self.flatten = flatten
        self.warp_specialize = warp_specialize
        self.disable_licm = disable_licm

    def attributes(self) -> dict[str, Any]:
        """Return the options as attributes of the IR's `for`, or raise `CompilationError`."""
        return {
            "num_stages": _count(self.num_stages, "num_stages", 0),
            "unroll": _count(self.loop_unroll_factor, "loop_unroll_factor", 1),
            **{
                name: compile_time_bool(getattr(self, name), f"the {name} of tl.range")
                for name in ("flatten", "disallow_acc_multi_buffer", "disable_licm")
            },
            "warp_specialize": self._warp_specialize(),
        }

    def _warp_specialize(self) -> WarpSpecialize:
        option = compile_time(self.warp_specialize, "the warp_specialize of tl.range")
        if option is None:
            return WarpSpecialize.AUTO
        chosen = compile_time_bool(option, "the warp_specialize of tl.range")
        return WarpSpecialize.ON if chosen else WarpSpecialize.OFF

    def __iter__(self) -> Iterator[Any]:
        raise CompilationError("tl.range can only be used inside a kernel (a @tile.jit function)")


def _count(value: Any, name: str, default: int) -> int:
    constant = compile_time(value, f"the {name} of tl.range")
    if constant is None:
        return default
    number = compile_time_int(constant, f"the {name} of tl.range")
    if number < default:
        raise CompilationError(f"the {name} of tl.range is at least {default}, not {number}")
    return number


class static_range:  # noqa: N801 - the language's own spelling
    """A loop unrolled at compile time, `for i in tl.static_range(start, stop, step)`.

    Bounds and step must be compile-time integers, and `i` is a plain integer. Raises
    `CompilationError` otherwise.
    """

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None:
        first = compile_time_int(arg1, "a bound of tl.static_range")
        second = None if arg2 is None else compile_time_int(arg2, "a bound of tl.static_range")
        self.start = 0 if second is None else first
        self.stop = first if second is None else second
        self.step = 1 if step is None else compile_time_int(step, "the step of tl.static_range")
        if self.step == 0:
            raise CompilationError(
                "the step of tl.static_range is 0; it must lead from start to stop"
            )
        count = max(0, -((self.start - self.stop) // self.step))
        if count > MOST_ITEMS:
            raise CompilationError(
                f"tl.static_range would unroll {count:,} iterations, and {MOST_ITEMS:,} are the "
                "most; count them in the kernel, with range"
            )

    @property
    def values(self) -> builtins.range:
        """The integers over which the loop iterates."""
        return builtins.range(self.start, self.stop, self.step)

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)


class condition:  # noqa: N801 - the language's own spelling
    """The condition of a loop with an option, `while tl.condition(c)`.

    `disable_licm` has no effect on such a loop; a warning says so once.
    """

    def __init__(self, arg1: Any, disable_licm: Any = False) -> None:
        self.condition = arg1
        self.disable_licm = disable_licm


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
            raise failed(f"{python.__name__} of {short_repr(tuple(values))}", error) from error
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
                f"{x.type}; write x.to({dtype})"
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
