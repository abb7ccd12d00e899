"""What the author knows and the compiler may use: promises about values, and barriers."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import arith, debug, memory
from tile.language.builtin import builtin
from tile.language.known import (
    compile_time_shape,
)
from tile.language.operators import truth
from tile.language.promote import Operand, as_number, describe
from tile.language.tensor import Tensor


@builtin
def multiple_of(build: Builder, input: Operand, values: Any) -> Tensor:
    """`input`, with the promise that along axis k it consists of multiples of `values[k]`.

    Of elements that count up, it is the first of each run that is the multiple. `values` is a
    compile-time int or a tuple with one for each axis; of a false promise nothing is defined.
    """
    return _promised(build, "tl.multiple_of", input, "divisible", values)


@builtin
def max_contiguous(build: Builder, input: Operand, values: Any) -> Tensor:
    """`input`, with the promise that along axis k each run of `values[k]` elements counts up by 1.

    Runs start at multiples of that number. `values` is a compile-time int or a tuple with one for
    each axis; of a false promise nothing is defined.
    """
    return _promised(build, "tl.max_contiguous", input, "contiguous", values)


@builtin
def max_constancy(build: Builder, input: Operand, values: Any) -> Tensor:
    """`input`, with the promise that along axis k each run of `values[k]` elements is constant.

    Runs start at multiples of that number. `values` is a compile-time int or a tuple with one for
    each axis; of a false promise nothing is defined.
    """
    return _promised(build, "tl.max_constancy", input, "constant", values)


def _promised(build: Builder, name: str, input: Any, claim: str, values: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise CompilationError(f"{name} takes a tile or scalar, not {describe(input)}")
    numbers = compile_time_shape(values, f"the values of {name}")
    axes = max(1, len(input.shape))
    if len(numbers) != axes:
        raise CompilationError(
            f"{name} takes one value for each of {axes} axes of {input.type}, not {len(numbers)}"
        )
    source = input.value
    claims: dict[str, Any] = {claim: numbers}
    outer = source.op
    if outer is not None and outer.defn is arith.hint and not outer[claim]:
        # Promises about one value belong together: a multiple is that of the first of a run.
        source, claims = outer.inputs[0], outer.attributes | claims
    return Tensor(build(arith.hint, source, **claims))


@builtin
def assume(build: Builder, cond: Any) -> None:
    """Promise that a scalar condition holds from here on, to the end of the block.

    A comparison, or several joined by `&`, tells the range of what it compares, so that index
    arithmetic on it may be known not to be negative; a remainder of zero tells a multiple, so that
    behind `tl.assume(n % 8 == 0)` rows of that length are accessed in wide pieces. If the promise
    is false nothing is defined.
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
    """Let all threads that work on this program wait for each other."""
    build.op(memory.barrier)
