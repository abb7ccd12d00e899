"""Choosing between values, element by element."""

from __future__ import annotations

import enum
from typing import Any

from tile.brief import brief
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.ir.types import BF16, F32, I1
from tile.language.builtin import builtin, member
from tile.language.known import (
    compile_time,
)
from tile.language.operators import emit
from tile.language.promote import Operand, broadcast_together, convert, to_tensor, unify
from tile.language.tensor import Tensor


class PropagateNan(enum.Enum):
    """What `minimum`, `maximum` and `clamp` give where an operand is NaN."""

    NONE = 0  # the other operand
    ALL = 0xFFFF  # NaN


@builtin
def where(build: Builder, condition: Operand, x: Operand, y: Operand) -> Tensor:
    """`x` where the condition holds, else `y`.

    `x` and `y` are promoted to one type, and all three are broadcast together. A condition that is
    not `tl.int1` counts as true where it is not zero. Both `x` and `y` are computed everywhere:
    what must not be loaded is left out by the mask of the load.
    """
    chosen = convert(build, to_tensor(build, condition, "the condition of tl.where"), I1)
    a, b = unify(build, "tl.where", x, y)
    chosen, a, b = broadcast_together(build, chosen, a, b)
    return Tensor(build(arith.select, chosen.value, a.value, b.value))


@builtin
def minimum(
    build: Builder, x: Operand, y: Operand, propagate_nan: PropagateNan = PropagateNan.NONE
) -> Tensor:
    """The lesser of `x` and `y`; of a number and a NaN the number, unless NaNs propagate.

    Python numbers count as int32 or float32 here, and bfloat16 is computed and given as float32.
    """
    return _extremum(build, arith.min_, x, y, propagate_nan, "tl.minimum")


@builtin
def maximum(
    build: Builder, x: Operand, y: Operand, propagate_nan: PropagateNan = PropagateNan.NONE
) -> Tensor:
    """The greater of `x` and `y`; of a number and a NaN the number, unless NaNs propagate.

    Python numbers count as int32 or float32 here, and bfloat16 is computed and given as float32.
    """
    return _extremum(build, arith.max_, x, y, propagate_nan, "tl.maximum")


@member
def clamp(
    build: Builder,
    x: Operand,
    min: Operand,
    max: Operand,
    propagate_nan: PropagateNan = PropagateNan.NONE,
) -> Tensor:
    """`x` limited to `min` up to `max`, of which `min` must not be the greater.

    A NaN in `x` gives `min`, or NaN with `tl.PropagateNan.ALL`. Types are as in `tl.minimum`.
    """
    low = _extremum(build, arith.max_, x, min, propagate_nan, "tl.clamp")
    return _extremum(build, arith.min_, low, max, propagate_nan, "tl.clamp")


# On truth values the lesser is `and` and the greater is `or`.
_ON_BOOLS = {arith.min_: arith.and_, arith.max_: arith.or_}


def _extremum(
    build: Builder, defn: OpDef, x: Operand, y: Operand, propagate_nan: Any, name: str
) -> Tensor:
    policy = compile_time(propagate_nan, f"the propagate_nan of {name}")
    if not isinstance(policy, PropagateNan):
        raise CompilationError(
            f"the propagate_nan of {name} is tl.PropagateNan.NONE or tl.PropagateNan.ALL, "
            f"not {brief(policy)}"
        )
    a, b = unify(build, name, _widened(build, x, name), _widened(build, y, name))
    if a.dtype.is_bool():
        return emit(build, name, _ON_BOOLS[defn], a, b)
    return emit(build, name, defn, a, b, propagate_nan=policy is PropagateNan.ALL)


def _widened(build: Builder, x: Operand, name: str) -> Tensor:
    """An operand as a runtime value, bfloat16 as float32."""
    tensor = to_tensor(build, x, f"an operand of {name}")
    return convert(build, tensor, F32) if tensor.dtype is BF16 else tensor
