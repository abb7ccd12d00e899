"""Elementwise selection: `tl.where`, `tl.minimum`, `tl.maximum` and `tl.clamp`."""

from __future__ import annotations

import enum
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.types import BF16, F32, I1
from tile.language.base.builtin import builtin, member
from tile.language.base.promotion import Operand, broadcast_together, convert, to_tensor, unify
from tile.language.base.static_args import compile_time
from tile.language.base.tensor import Tensor
from tile.language.operators import emit
from tile.short_repr import short_repr


class PropagateNan(enum.Enum):
    """The result of `minimum`, `maximum` and `clamp` if an operand is NaN."""

    NONE = 0  # the other operand
    ALL = 0xFFFF  # NaN


@builtin
def where(build: Builder, condition: Operand, x: Operand, y: Operand) -> Tensor:
    """Select `x` where the condition is true, else `y`, elementwise.

    `x` and `y` are promoted to one type, and all three are broadcast together. A condition that is
    not `tl.int1` is true where it is nonzero. Both `x` and `y` are computed everywhere, so loads in
    them need a mask of their own.
    """
    chosen = convert(build, to_tensor(build, condition, "the condition of tl.where"), I1)
    a, b = unify(build, "tl.where", x, y)
    chosen, a, b = broadcast_together(build, chosen, a, b)
    return Tensor(build(arith.select, chosen.value, a.value, b.value))


@builtin
def minimum(
    build: Builder, x: Operand, y: Operand, propagate_nan: PropagateNan = PropagateNan.NONE
) -> Tensor:
    """The lesser of `x` and `y`; if one is NaN, the other one, unless NaNs propagate.

    Python numbers are int32 or float32, and bfloat16 is computed and returned as float32.
    """
    return _extremum(build, arith.min_, x, y, propagate_nan, "tl.minimum")


@builtin
def maximum(
    build: Builder, x: Operand, y: Operand, propagate_nan: PropagateNan = PropagateNan.NONE
) -> Tensor:
    """The greater of `x` and `y`; if one is NaN, the other one, unless NaNs propagate.

    Python numbers are int32 or float32, and bfloat16 is computed and returned as float32.
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
    """Clamp `x` to the range from `min` to `max`, where `min <= max`.

    NaN in `x` gives `min`, or NaN with `tl.PropagateNan.ALL`. Types are as in `tl.minimum`.
    """
    low = _extremum(build, arith.max_, x, min, propagate_nan, "tl.clamp")
    return _extremum(build, arith.min_, low, max, propagate_nan, "tl.clamp")


# On booleans, the minimum is `and` and the maximum is `or`.
_ON_BOOLS = {arith.min_: arith.and_, arith.max_: arith.or_}


def _extremum(
    build: Builder, defn: OpDef, x: Operand, y: Operand, propagate_nan: Any, name: str
) -> Tensor:
    policy = compile_time(propagate_nan, f"the propagate_nan of {name}")
    if not isinstance(policy, PropagateNan):
        raise CompilationError(
            f"the propagate_nan of {name} is tl.PropagateNan.NONE or tl.PropagateNan.ALL, "
            f"not {short_repr(policy)}"
        )
    a, b = unify(build, name, _widened(build, x, name), _widened(build, y, name))
    if a.dtype.is_bool():
        return emit(build, name, _ON_BOOLS[defn], a, b)
    return emit(build, name, defn, a, b, propagate_nan=policy is PropagateNan.ALL)


def _widened(build: Builder, x: Operand, name: str) -> Tensor:
    """Return an operand as a runtime value, with bfloat16 cast to float32."""
    tensor = to_tensor(build, x, f"an operand of {name}")
    return convert(build, tensor, F32) if tensor.dtype is BF16 else tensor
