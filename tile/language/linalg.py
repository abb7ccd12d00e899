"""The matrix product."""

from __future__ import annotations

from typing import Any

from tile.brief import brief
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import linalg as ops
from tile.ir.ops.linalg import ACCUMULATORS, Precision
from tile.ir.types import F32, Scalar, Tile, with_shape
from tile.language.builtin import builtin
from tile.language.creation import element_type
from tile.language.dtypes import spelled
from tile.language.known import (
    compile_time,
    compile_time_bool,
    compile_time_int,
)
from tile.language.promote import constant, describe
from tile.language.tensor import Tensor


@builtin
def dot(
    build: Builder,
    input: Tensor,
    other: Tensor,
    acc: Tensor | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: Any = F32,
) -> Tensor:
    """The matrix product `input @ other`, added to `acc` if that is given.

    `input` has shape MxK and `other` KxN, or with a third axis in front, a batch, BxMxK and BxKxN.
    Both have one element type: float16, bfloat16, float32, float64, int8, uint8 or an 8-bit float
    (of which two different ones may meet). The result has the type of `acc`; without it, it starts
    from zero and is int32 for integers, float64 for float64 and else `out_dtype`: float32, for
    float16 and 8-bit floats also float16.

    `input_precision` says how float32 factors are rounded: "ieee" (the default: not at all),
    "tf32", "tf32x3", "bf16x3" or "bf16x6". `allow_tf32=True` is the older way to say "tf32", which
    keeps 10 bits of mantissa: each factor is off by less than 2^-10 of itself, as some machines cut
    off what is behind them instead of rounding.

    A sum is off by at most K units in the last place, of the type of `acc`, of the sum of all
    products' magnitudes. Of 8-bit floats, some machines (sm_90a) add up products twice as fast if
    13 bits of mantissa will do for sums of them. `max_num_imprecise_acc` says of how many: from K
    on, a product is computed so and then added to `acc` in float32; from 2^30 on, so is the sum of
    all products in a loop. Without it, or with 0, no sum is.

    Raises `CompilationError` or `TypeRuleError` where types or shapes do not fit.
    """
    factors: tuple[tuple[str, Any], ...] = (("input", input), ("other", other))
    for what, x in factors:
        if not isinstance(x, Tensor) or not x.shape:
            raise CompilationError(f"the {what} of tl.dot is a tile, not {describe(x)}")
    precision = _precision(input_precision, allow_tf32)
    start = acc if acc is not None else _zero(build, input, other, out_dtype)
    if not isinstance(start, Tensor):
        raise CompilationError(f"the acc of tl.dot is a tile, not {describe(start)}")
    imprecise = 0
    if max_num_imprecise_acc is not None:
        imprecise = compile_time_int(max_num_imprecise_acc, "the max_num_imprecise_acc of tl.dot")
    result = build(
        ops.dot,
        input.value,
        other.value,
        start.value,
        input_precision=precision,
        max_num_imprecise_acc=imprecise,
    )
    return Tensor(result)


def _zero(build: Builder, a: Tensor, b: Tensor, out_dtype: Any) -> Tensor:
    """The accumulator of a product that starts from nothing."""
    wanted = element_type(out_dtype, "tl.dot")
    element = a.dtype
    allowed = ACCUMULATORS.get(element, ()) if isinstance(element, Scalar) else ()
    if allowed and wanted not in allowed and wanted is not F32:
        choices = " or ".join(spelled(ty) for ty in allowed)
        raise CompilationError(
            f"tl.dot of {spelled(element)} gives {choices}, not {spelled(wanted)}; cast "
            "the result, as in "
            f"tl.dot(a, b).to({spelled(wanted)})"
        )
    if not allowed:
        # The operation's own rule says which types it takes.
        return constant(build, 0, Tile((1,), F32))
    shape = (*a.shape[:-1], b.shape[-1])
    return constant(build, 0, with_shape(shape, wanted if wanted in allowed else allowed[0]))


def _precision(input_precision: Any, allow_tf32: Any) -> Precision:
    name = compile_time(input_precision, "the input_precision of tl.dot")
    tf32 = compile_time(allow_tf32, "the allow_tf32 of tl.dot")
    if name is not None and tf32 is not None:
        raise CompilationError("tl.dot takes input_precision or allow_tf32, not both")
    if name is None:
        asked = tf32 is not None and compile_time_bool(tf32, "the allow_tf32 of tl.dot")
        return Precision.TF32 if asked else Precision.IEEE
    if not isinstance(name, str) or name.lower() not in list(Precision):
        choices = ", ".join(f'"{known.value}"' for known in Precision)
        raise CompilationError(
            f"the input_precision of tl.dot is one of {choices}, not {brief(name)}"
        )
    return Precision(name.lower())
