"""`tl.dot`, the matrix multiplication of tiles."""

from __future__ import annotations

import math
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import dot as ops
from tile.ir.ops.dot import ACCUMULATORS, UNLIMITED
from tile.ir.types import EMULATED_FP8, F16, F32, Precision, Scalar, Tile, with_shape
from tile.language.base import compile_options
from tile.language.base.builtin import builtin
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import constant, convert, describe
from tile.language.base.static_args import choice, compile_time, compile_time_bool, compile_time_int
from tile.language.base.tensor import Tensor
from tile.language.creation import element_type
from tile.language.shape import reshape

PRECISIONS = {precision.value: precision for precision in Precision}


@builtin
def dot(
    build: Builder,
    input: Tensor,
    other: Tensor,
    acc: Tensor | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """The matrix product `input @ other`, accumulated onto `acc` if given.

    `input` has shape MxK and `other` KxN, or both have equal batch axes in front: BxMxK and BxKxN,
    or more. Both have one element type: float16, bfloat16, float32, float64, int8, uint8 or an
    8-bit float (two different 8-bit floats may be mixed). Of 8-bit floats, float8e4nv and float8e5
    are multiplied as they are; the others become float16 first, which is exact. The result has the
    type of `acc`. Without `acc`, it starts from zero, in int32 for integers, float64 for float64
    and otherwise `out_dtype`, which is float32 (the default), or for float16 and 8-bit floats also
    float16.

    `input_precision` is the precision to which float32 operands are rounded: "ieee" (no rounding),
    "tf32", "tf32x3", "bf16x3" or "bf16x6". The default is the launch option
    `default_dot_input_precision`, which is "ieee" unless a launch passes another one; under
    Triton's names it is "tf32". `allow_tf32=True` is the older spelling of "tf32", and
    `allow_tf32=False` that of "ieee". "tf32" keeps 10 bits of mantissa: the relative error of each
    operand is below 2^-10, as some machines truncate instead of rounding. The others are sums of
    three or six products of numbers of that type: the relative error of a product is below 2^-21
    for "tf32x3", 2^-15 for "bf16x3" and 2^-22 for "bf16x6".

    The error of an element is at most K units in the last place (of the type of `acc`) of the sum
    of the magnitudes of all its products. For 8-bit floats, partial sums may have only 13 bits of
    mantissa, with which some machines (sm_90a) are three times as fast. `max_num_imprecise_acc` is
    the number of products that may be accumulated so: from 2^30 on (the default, as Triton's on
    these machines), all dots of a loop accumulate so; from K on, one dot does, and its result is
    added to `acc` in float32; with 0, none does: all sums are in float32.

    Raises `CompilationError` or `TypeRuleError` if types or shapes do not match.
    """
    operands: tuple[tuple[str, Any], ...] = (("input", input), ("other", other))
    for operand, x in operands:
        if not isinstance(x, Tensor) or not x.shape:
            raise CompilationError(f"the {operand} of tl.dot is a tile, not {describe(x)}")
    input, other = _multiplied(build, input, other)
    batch = input.shape[:-2]
    if len(batch) > 1 and (other.shape[:-2] != batch or other.shape[-2] != input.shape[-1]):
        raise CompilationError(
            "tl.dot takes a ...xMxK and a ...xKxN tile with the same axes in front; "
            f"{list(input.shape)} and {list(other.shape)} do not fit"
        )
    precision = _precision(input, input_precision, allow_tf32)
    start = acc if acc is not None else _zero(build, input, other, out_dtype)
    if not isinstance(start, Tensor):
        raise CompilationError(f"the acc of tl.dot is a tile, not {describe(start)}")
    imprecise = UNLIMITED if input.dtype.is_fp8() and other.dtype.is_fp8() else 0
    if max_num_imprecise_acc is not None:
        imprecise = compile_time_int(max_num_imprecise_acc, "the max_num_imprecise_acc of tl.dot")
    tiles = [input, other, start]
    if len(batch) > 1:
        if acc is not None and start.shape != (*input.shape[:-1], other.shape[-1]):
            raise CompilationError(
                f"the acc of tl.dot has shape {[*input.shape[:-1], other.shape[-1]]}, not "
                f"{list(start.shape)}"
            )
        # The operation has one batch axis.
        tiles = [_one_batch_axis(build, x) for x in tiles]
    result = Tensor(
        build(
            ops.dot,
            *(x.value for x in tiles),
            input_precision=precision,
            max_num_imprecise_acc=imprecise,
        )
    )
    return result if result.shape == start.shape else reshape.emit(build, result, start.shape)


def _one_batch_axis(build: Builder, x: Tensor) -> Tensor:
    *batch, rows, columns = (1, 1, *x.shape)
    return reshape.emit(build, x, (math.prod(batch), rows, columns))


def _multiplied(build: Builder, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the operands in types that machines multiply: emulated floats as f16."""
    both = (a, b)
    if not any(x.dtype in EMULATED_FP8 for x in both):
        return both
    x, y = (convert(build, x, F16) if x.dtype.is_fp8() else x for x in both)
    return x, y


def _zero(build: Builder, a: Tensor, b: Tensor, out_dtype: Any) -> Tensor:
    """Return the zero accumulator of a dot without `acc`."""
    dtype = F32 if out_dtype is None else element_type(out_dtype, "tl.dot")
    element = a.dtype
    allowed = ACCUMULATORS.get(element, ()) if isinstance(element, Scalar) else ()
    if element.is_int():
        dtype = F32  # integers accumulate in int32, whatever the type of the result
    if allowed and dtype not in allowed and dtype is not F32:
        choices = " or ".join(spelled(ty) for ty in allowed)
        raise CompilationError(
            f"tl.dot of {spelled(element)} gives {choices}, not {spelled(dtype)}; cast the result, "
            f"as in tl.dot(a, b).to({spelled(dtype)})"
        )
    if not allowed:
        # The verifier of the operation reports the unsupported type.
        return constant(build, 0, Tile((1,), F32))
    shape = (*a.shape[:-1], b.shape[-1])
    return constant(build, 0, with_shape(shape, dtype if dtype in allowed else allowed[0]))


def _precision(input: Tensor, input_precision: Any, allow_tf32: Any) -> Precision:
    """Return the precision that arguments name; without them, the option's for float32 operands."""
    name = compile_time(input_precision, "the input_precision of tl.dot")
    tf32 = compile_time(allow_tf32, "the allow_tf32 of tl.dot")
    if name is not None and tf32 is not None:
        raise CompilationError("tl.dot takes input_precision or allow_tf32, not both")
    if name is None and tf32 is None:
        default = compile_options.default_dot_input_precision()
        return PRECISIONS[default] if input.dtype is F32 else Precision.IEEE
    if name is None:
        enabled = compile_time_bool(tf32, "the allow_tf32 of tl.dot")
        return Precision.TF32 if enabled else Precision.IEEE
    if isinstance(name, str):
        name = name.lower()
    return choice(name, "the input_precision of tl.dot", PRECISIONS, "ieee")
