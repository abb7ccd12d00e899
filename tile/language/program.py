"""The position of a program in its grid; compiler hints: assumptions and barriers."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import arith, debug, memory
from tile.ir.ops import program as ops
from tile.language.base.builtin import builtin
from tile.language.base.promotion import Operand, as_number, describe
from tile.language.base.static_args import compile_time_int, compile_time_shape
from tile.language.base.tensor import Tensor
from tile.language.operators import truth


@builtin
def program_id(build: Builder, axis: Any) -> Tensor:
    """The index of this program along `axis` (0, 1 or 2) of the grid: a scalar `tl.int32`."""
    return Tensor(build(ops.program_id, axis=_axis(axis, "tl.program_id")))


@builtin
def num_programs(build: Builder, axis: Any) -> Tensor:
    """The extent of the grid along `axis` (0, 1 or 2): a scalar `tl.int32`."""
    return Tensor(build(ops.num_programs, axis=_axis(axis, "tl.num_programs")))


def _axis(axis: Any, name: str) -> int:
    number = compile_time_int(axis, f"the axis of {name}")
    if not 0 <= number < ops.MAX_AXES:
        raise CompilationError(f"the axis of {name} is 0, 1 or 2, not {number}")
    return number


@builtin
def multiple_of(build: Builder, input: Operand, values: Any) -> Tensor:
    """Tell the compiler that the elements of `input` along axis k are multiples of `values[k]`.

    For contiguous elements, the first of each run is the multiple. `values` is a compile-time int
    or a tuple with one for each axis. If this is false, the behavior is undefined. The
    result is `input`.
    """
    return _hint(build, "tl.multiple_of", input, "divisible", values)


@builtin
def max_contiguous(build: Builder, input: Operand, values: Any) -> Tensor:
    """Tell the compiler that runs of `values[k]` elements of `input` along axis k are contiguous.

    The elements of a run increase by 1; runs start at multiples of their length. `values` is a
    compile-time int or a tuple with one for each axis. If this is false, the behavior is
    undefined. The result is `input`.
    """
    return _hint(build, "tl.max_contiguous", input, "contiguous", values)


@builtin
def max_constancy(build: Builder, input: Operand, values: Any) -> Tensor:
    """Tell the compiler that runs of `values[k]` elements of `input` along axis k are constant.

    Runs start at multiples of their length. `values` is a compile-time int or a tuple with one for
    each axis. If this is false, the behavior is undefined. The result is `input`.
    """
    return _hint(build, "tl.max_constancy", input, "constant", values)


def _hint(build: Builder, name: str, input: Any, attribute: str, values: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise CompilationError(f"{name} takes a tile or scalar, not {describe(input)}")
    numbers = compile_time_shape(values, f"the values of {name}")
    axes = max(1, len(input.shape))
    if len(numbers) != axes:
        raise CompilationError(
            f"{name} takes one value for each of {axes} axes of {input.type}, not {len(numbers)}"
        )
    source = input.value
    attributes: dict[str, Any] = {attribute: numbers}
    outer = source.op
    if outer is not None and outer.defn is arith.hint and not outer[attribute]:
        # Merge hints on one value: divisibility is that of the first element of a contiguous run.
        source, attributes = outer.inputs[0], outer.attributes | attributes
    return Tensor(build(arith.hint, source, **attributes))


@builtin
def assume(build: Builder, cond: Any) -> None:
    """Tell the compiler that a scalar condition holds from this point to the end of the block.

    A comparison, or several joined by `&`, bounds the range of its operands, so that index
    arithmetic on them can be proved nonnegative. A remainder of zero is a divisibility: after
    `tl.assume(n % 8 == 0)`, accesses to rows of length `n` can be vectorized. If the condition is
    false, the behavior is undefined.
    Raises `CompilationError` for a tile, and for a condition that is false at compile time.
    """
    number = as_number(cond)
    if number is not None:
        if not number:
            raise CompilationError("tl.assume was given a condition that is false at compile time")
        return
    condition = truth(build, cond, "tl.assume")
    if condition.shape:
        raise CompilationError(f"tl.assume takes a scalar condition, not {condition.type}")
    build.op(debug.assume, condition.value)


@builtin
def debug_barrier(build: Builder) -> None:
    """Synchronize all threads of this program."""
    build.op(memory.barrier)
