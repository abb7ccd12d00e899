"""The iterators of loops in kernels. They hold bounds and options; the frontend emits the loops."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from tile.errors import CompilationError
from tile.language.known import (
    MOST_ITEMS,
    compile_time,
    compile_time_bool,
    compile_time_int,
    constant_value,
)


class range:  # noqa: N801 - the language's own spelling
    """A loop at run time, `for i in tl.range(start, stop, step)`, with compiler options.

    Bounds and step are integers, at compile time or run time. `num_stages` is the depth of software
    pipelining (None: the launch's), `loop_unroll_factor` the unroll factor. The signatures are
    those of Python's `range`: `tl.range(stop)`, `tl.range(start, stop)`. `flatten`,
    `warp_specialize` and `disallow_acc_multi_buffer` have no effect yet, and no option has an
    effect in a loop that `break` or `return` may leave; a warning says so once. Raises
    `CompilationError` for a step of 0.
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
        warp_specialize: Any = False,
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
                for name in (
                    "flatten",
                    "warp_specialize",
                    "disallow_acc_multi_buffer",
                    "disable_licm",
                )
            },
        }

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
