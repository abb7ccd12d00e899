"""Async operations: when they are issued, what waits for them, and how they do nothing.

A schedule (`expand-schedules`) names no kind of operation. It asks here which operation waits for
which, and what keeps an operation from having effects in an iteration that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tile.errors import PassError
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import Effect, OpDef
from tile.ir.ops import arith, memory, shape
from tile.simt.ops import shared, tma, wgmma
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of


@dataclass(frozen=True)
class AsyncKind:
    """A kind of operations that complete some time after they are issued.

    issue: begins one.
    latency: by how many iterations it is issued before its result is read, at most.
    completes: what waits count, in the order in which it is issued: commits of groups, or `issue`.
    wait: waits for them; None if threads wait where they read the result.
    """

    issue: OpDef
    latency: int
    completes: OpDef | None = None
    wait: OpDef | None = None


_ALL_STAGES = 1 << 16  # as many iterations as a buffer has stages for
_ONE = 1  # registers hold a tile for each iteration
KINDS = (
    AsyncKind(memory.load, _ONE),
    AsyncKind(
        shared.local_cp_async,
        _ALL_STAGES,
        shared.cp_async_commit_group,
        shared.cp_async_wait_group,
    ),
    AsyncKind(tma.tma_load, _ALL_STAGES, tma.mbarrier_arrive_expect_tx, tma.mbarrier_wait),
    AsyncKind(tma.tma_load_im2col, _ALL_STAGES, tma.mbarrier_arrive_expect_tx, tma.mbarrier_wait),
    AsyncKind(tma.tma_store, _ONE, tma.tma_store, tma.tma_store_wait),
    AsyncKind(wgmma.wgmma, _ONE, wgmma.wgmma, wgmma.wgmma_wait),
)
LATENCIES: Mapping[OpDef, int] = MappingProxyType({kind.issue: kind.latency for kind in KINDS})
# Waits that name how many younger operations may stay in flight (`pending`), and what they count.
COUNTED_WAITS: Mapping[OpDef, OpDef] = MappingProxyType(
    {
        kind.wait: kind.completes
        for kind in KINDS
        if kind.wait is not None
        and kind.completes is not None
        and "pending" in kind.wait.attributes
    }
)
# Operations after a loop that end what it began.
ENDS = frozenset({*COUNTED_WAITS, tma.mbarrier_inval})
_LASTING = Effect.WRITE | Effect.SYNC | Effect.OUTPUT


def buffer_stages(issue: OpDef, most: int) -> int:
    """Return how many stages, `most` at most, a buffer has that an operation fills."""
    return min(LATENCIES[issue] + 1, most)


def issue_stage(issue: OpDef, stages: int, free: int) -> int:
    """Return the stage, of a schedule, in which an operation fills a buffer of some stages.

    free: when what the buffer holds for an iteration has been read, at the point of the body where
        the operation is issued: in so many iterations, 0 for this one.
    """
    return -min(LATENCIES[issue], stages - free)


def check_early(op: Operation) -> None:
    """Raise unless an operation can be done for an iteration that may not exist."""
    guarded = {"mask", "active"} & op.defn.positions.keys()
    if (
        # It blocks until somebody arrives, which nobody does for an iteration that does not exist.
        op.defn is tma.mbarrier_wait
        or op.regions
        or op.defn.effect & _LASTING
        or (Effect.READ in op.defn.effect and not guarded)
    ):
        raise PassError(f"{op.name} cannot be done for an iteration that may not exist", loc=op.loc)


def guard(op: Operation, exists: Value | None, build: LayoutBuilder) -> None:
    """Let an operation do nothing unless `exists`, an i1; None stands for true.

    An operation without memory accesses to suppress stays as it is: nothing uses its result then.
    """
    if exists is None:
        return
    if "active" in op.defn.positions:
        name, condition = "active", exists
    elif "mask" in op.defn.positions:
        ptr = op["ptr"]
        name, condition = "mask", exists
        if ptr.type.shape:
            condition = build(shape.splat, exists, shape=ptr.type.shape, layout=layout_of(ptr))
    else:
        return
    own = op[name]
    if own is not None and constant_of(own) is not True:
        condition = build(arith.and_, own, condition)
    op.set_operand(op.defn.positions[name], condition)
