"""wgmma: asynchronous matrix multiply-accumulate by warpgroups, from shared memory.

A `wgmma` (wgmma) only begins: the warpgroup goes on, and may issue others, until a
`wgmma_wait`. Until then the wgmma reads its buffers, and no operation but the next wgmma of the
same accumulator, or a wait, may use its result. Waits are data dependences: the wait takes the
accumulator and returns the completed value, which every use takes:

    %r = wgmma %a, %b, %acc {...}       issued; complete, for its threads, after
    %s = wgmma_wait %r {pending = 1}        all wgmmas but the last one are complete
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.declare import lowered_op
from tile.ir.op_definition import Trait
from tile.ir.shared_type import Shared
from tile.ir.types import Fragment, Precision, Tile, Type, require
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_fragment
from tile.simt.layouts.swizzle import byte_swizzled
from tile.simt.ops.mma import check_elements
from tile.simt.ops.shared import buffer

WARPGROUP_WARPS = 4
WARPGROUP_THREADS = 32 * WARPGROUP_WARPS

_SHAPE = MmaShape(64, 8, 16, 16)
_LEFT, _ACC = (matrix_fragment(_SHAPE, o) for o in (Operand.LEFT, Operand.ACCUMULATOR))
_RIGHT = byte_swizzled([16, 8], 16, 32, (0, 1))
_SIZES = "{shape = (64, 8, 16, 16), warpgroups = (1, 1)}"


def _check_sizes(a: Type, b: Type, acc: Type, warpgroups: Sequence[int]) -> None:
    """Raise for operands and accumulators of sizes that do not fit together."""
    k, n = b.shape
    threads = WARPGROUP_THREADS * warpgroups[0] * warpgroups[1]
    m = a.shape[0]
    if isinstance(a, Fragment):
        require(isinstance(acc, Fragment), f"wgmma adds to a fragment, not to {acc}")
        m = acc.shape[0] * threads // n
        held = m * k // (WARPGROUP_THREADS * warpgroups[0])
        require(a.count == held, f"wgmma takes {held} registers of its `a` operand, not {a}")
    else:
        require(a.shape[1] == k, f"wgmma multiplies no {a} by {b}")
    shape = (m * n // threads,) if isinstance(acc, Fragment) else (m, n)
    require(tuple(acc.shape) == shape, f"wgmma of {a} by {b} adds to no {acc}")


@lowered_op(
    traits={Trait.DOT, Trait.TENSOR_CORE, Trait.IN_FLIGHT, Trait.ASYNC_PROXY},
    semantics=lambda a, b, acc, *, input_precision, **_: semantics.dot(a, b, acc, input_precision),
    examples=(
        f"%a: tile<64x16xf16, {_LEFT}>, %b: shared<16x8xf16, {_RIGHT}>, "
        f"%c: tile<64x8xf32, {_ACC}> | %r = wgmma %a, %b, %c {_SIZES} : tile<64x8xf32, {_ACC}>",
        f"%a: frag<8xf16>, %b: shared<16x8xf16, {_RIGHT}>, %c: frag<4xf32> | "
        f"%r = wgmma %a, %b, %c {_SIZES} : frag<4xf32>",
    ),
)
def wgmma(
    a: Type,
    b: Type,
    acc: Type,
    *,
    shape: tuple[int, ...],
    warpgroups: tuple[int, ...],
    input_precision: Precision = Precision.IEEE,
    columns: int = 0,
    depth: int = 0,
) -> Type:
    """Issue `a @ b + acc` by wgmma instructions of a `shape` (m, n, k, bits), each of a warpgroup.

    `warpgroups` are how many warpgroups share the rows and the columns; the accumulator has the
    layout that `matrix_layout` gives for these. `b` is a buffer with a `byte_swizzled` layout, in
    either major order for elements of 16 bits and K-major for others, and so is `a`, or it is a
    tile in the layout of `matrix_layout`. An `a` that is a tile of any other layout, and a `b` that
    is a tile, become buffers in `expose-shared`.

    `columns`, unless 0, is the number of the first columns of the accumulator that are used.
    Instructions may be narrower than `shape` says then; other columns of the result are undefined.

    `depth`, unless 0, is the number of the first elements along k past which both operands are
    zero: no instructions multiply these.

    All warps of a warpgroup take part. The result is complete after a `wgmma_wait`, and buffers are
    read until then. Writes of threads to these are made visible to wgmma by a `fence_proxy_async`.
    """
    require(len(shape) == 4, f"wgmma has a shape (m, n, k, bits), not {shape}")
    require(0 <= columns <= b.shape[-1], f"wgmma by {b} has no {columns} columns")
    require(0 <= depth <= b.shape[0], f"wgmma by {b} has no depth of {depth}")
    require(len(warpgroups) == 2, f"wgmma has warpgroups along m and n, not {warpgroups}")
    require(isinstance(b, Shared | Tile), f"wgmma takes its `b` operand from memory, not {b}")
    for x in (a, b, acc):
        if isinstance(x, Shared):
            buffer("wgmma", x)
        if not isinstance(x, Fragment):
            require(len(x.shape) == 2, f"wgmma takes tiles of rank 2, not {x}")
    require(isinstance(acc, Tile | Fragment), f"wgmma adds to a tile or fragment, not to {acc}")
    check_elements("wgmma", a, b, acc)
    _check_sizes(a, b, acc, warpgroups)
    return acc


def wgmma_sizes(op: Operation) -> tuple[int, int, int]:
    """Return the (m, n, k) of a whole `wgmma` at the THREAD level."""
    _, b, acc = (value.type for value in op.inputs)
    k, n = b.shape
    rows, columns = op["warpgroups"]
    return acc.shape[0] * WARPGROUP_THREADS * rows * columns // n, n, k


@lowered_op(
    semantics=lambda acc, *, pending: acc,
    examples=("%c: frag<4xf32> | %r = wgmma_wait %c {pending = 1} : frag<4xf32>",),
)
def wgmma_wait(acc: Type, *, pending: int) -> Type:
    """Wait until at most `pending` wgmmas of this warpgroup are in flight; return `acc` complete.

    If the last wgmma of this accumulator is among those pending, it is still in flight.
    """
    require(isinstance(acc, Tile | Fragment), f"wgmma_wait takes an accumulator, not {acc}")
    require(pending >= 0, f"wgmma_wait leaves 0 or more wgmmas pending, not {pending}")
    return acc


@lowered_op(examples=("fence_proxy_async",))
def fence_proxy_async() -> None:
    """Make this thread's writes to shared memory visible to later wgmma and TMA (a proxy fence).

    Async copies count as written when they have been waited for. Operations issued by other threads
    see the writes after a barrier that follows the fence.
    """
