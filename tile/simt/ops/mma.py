"""Matrix multiply-accumulate: mma by a warp, or FMA by each thread."""

from __future__ import annotations

import math

from tile.ir import semantics
from tile.ir.declare import op
from tile.ir.op_definition import LAID_OUT, THREAD, Trait
from tile.ir.ops import dot
from tile.ir.ops.dot import ACCUMULATORS
from tile.ir.types import Precision, Scalar, Type, require
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_fragment
from tile.simt.ops.thread import fragment


def check_elements(name: str, a: Type, b: Type, acc: Type) -> None:
    """Raise for operand elements that cannot be multiplied into those of the accumulator."""
    left, right = a.element, b.element
    require(
        left == right or (left.is_fp8() and right.is_fp8()),
        f"{name} takes operands of one element type, not {left} and {right}",
    )
    assert isinstance(left, Scalar)
    require(
        left in ACCUMULATORS and acc.element in ACCUMULATORS[left],
        f"{name} does not multiply {left} into {acc.element}",
    )


def _counts(name: str, a: Type, b: Type, acc: Type, counts: tuple[int, int, int]) -> None:
    own = tuple(fragment(name, x).count for x in (a, b, acc))
    require(own == counts, f"{name} of these sizes takes {counts} registers, not {own}")


_TINY = MmaShape(8, 8, 4, 64)
_LEFT, _RIGHT, _ACC = (matrix_fragment(_TINY, operand) for operand in Operand)


@op(
    traits={Trait.DOT, Trait.TENSOR_CORE},
    semantics=lambda a, b, acc, *, shape, warps, input_precision: semantics.dot(
        a, b, acc, input_precision
    ),
    levels=LAID_OUT,
    examples=(
        f"%a: tile<8x4xf64, {_LEFT}>, %b: tile<4x8xf64, {_RIGHT}>, %c: tile<8x8xf64, {_ACC}> | "
        "%r = mma_dot %a, %b, %c {shape = (8, 8, 4, 64), warps = (1, 1)} : "
        f"tile<8x8xf64, {_ACC}>",
    ),
)
def mma_dot(
    a: Type,
    b: Type,
    acc: Type,
    *,
    shape: tuple[int, ...],
    warps: tuple[int, ...],
    input_precision: Precision = Precision.IEEE,
) -> Type:
    """Compute a `dot` by mma instructions of a `shape` (m, n, k, bits).

    `warps` are how many warps share the rows and the columns, after the number of matrices if the
    dot is batched: each is multiplied by warps of its own. The operands have the layouts that
    `matrix_layout` gives for these.
    """
    require(len(shape) == 4, f"mma_dot has a shape (m, n, k, bits), not {shape}")
    require(len(warps) == a.rank, f"mma_dot has warps along (batch,) m and n, not {warps}")
    types = dot.dot.infer((a, b, acc), dot.dot.complete({}), ())
    batch = math.prod(a.shape[:-2])
    require(
        batch == math.prod(warps[:-2]),
        f"mma_dot has warps for each of {batch} matrices, not {warps}",
    )
    return types[0]


@op(
    traits={Trait.DOT},
    levels=THREAD,
    examples=(
        "%a: frag<8xf32>, %b: frag<4xf32>, %c: frag<8xf32> | "
        "%r = fma_dot %a, %b, %c {sizes = (1, 4, 2, 2)} : frag<8xf32>",
    ),
)
def fma_dot(
    a: Type,
    b: Type,
    acc: Type,
    *,
    sizes: tuple[int, ...],
    input_precision: Precision = Precision.IEEE,
) -> Type:
    """Compute `a @ b + acc` in each thread by FMA. `sizes` are those of (batch, m, n, k).

    Registers are in row-major order: of (batch, m, k), of (batch, k, n) and of (batch, m, n).
    """
    require(len(sizes) == 4, f"fma_dot has four sizes, not {sizes}")
    batch, m, n, k = sizes
    check_elements("fma_dot", a, b, acc)
    _counts("fma_dot", a, b, acc, (batch * m * k, batch * k * n, batch * m * n))
    return acc


@op(
    traits={Trait.DOT, Trait.TENSOR_CORE},
    levels=THREAD,
    examples=(
        "%a: frag<8xf16>, %b: frag<4xf16>, %c: frag<4xf32> | "
        "%r = mma %a, %b, %c {shape = (16, 8, 16, 16), repeats = (1, 1, 1)} "
        ": frag<4xf32>",
    ),
)
def mma(
    a: Type,
    b: Type,
    acc: Type,
    *,
    shape: tuple[int, ...],
    repeats: tuple[int, ...],
    input_precision: Precision = Precision.IEEE,
) -> Type:
    """Compute `a @ b + acc` by mma instructions; the lanes of a warp hold the matrices together.

    `shape` is a `MmaShape` (m, n, k, bits), whose fragments `tile/simt/layouts/mma_fragments.py`
    has, and each warp does `repeats` of them (along m, n, k). A fragment's registers are those of
    one instruction; then, from the fastest, those of repeats along (k, m) of `a`, (k, n) of `b`,
    and (n, m) of `acc`. All lanes of the warp take part.
    """
    require(len(shape) == 4, f"mma has a shape (m, n, k, bits), not {shape}")
    require(len(repeats) == 3, f"mma repeats along m, n and k, not {repeats}")
    check_elements("mma", a, b, acc)
    for x, (rows, columns) in ((a, (0, 2)), (b, (2, 1)), (acc, (0, 1))):
        count = fragment("mma", x).count
        require(
            count % (repeats[rows] * repeats[columns]) == 0,
            f"{x} is not made of {repeats} repeats of {shape}",
        )
    return acc
