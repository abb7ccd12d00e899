"""Async operations: how they are issued, awaited and released, and issued for no iteration.

A schedule (`expand-schedules`) names no kind of operation. It asks here which operation waits for
which, and what keeps an operation from having effects in an iteration that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tile.errors import PassError
from tile.ir.core import Effect, OpDef, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith, memory, shape
from tile.simt.ops import shared, tma, wgmma
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of


@dataclass(frozen=True)
class AsyncKind:
    """A kind of operations that complete some time after they are issued.

    issue: begins one.
    completes: what waits count, in the order in which it is issued: commits of groups, or `issue`.
    wait: waits for them.
    counted: True if the wait names how many younger ones may stay in flight (`pending`); else it
        waits for an mbarrier.
    release: lets the buffer that one reads or writes be used again; None if that is a barrier.
    """

    name: str
    issue: OpDef
    completes: OpDef
    wait: OpDef
    counted: bool
    release: OpDef | None = None


KINDS = (
    AsyncKind(
        "cp.async",
        shared.local_cp_async,
        shared.cp_async_commit_group,
        shared.cp_async_wait_group,
        counted=True,
    ),
    AsyncKind(
        "TMA load",
        tma.tma_load,
        tma.mbarrier_arrive_expect_tx,
        tma.mbarrier_wait,
        counted=False,
        release=tma.mbarrier_arrive,
    ),
    AsyncKind(
        "TMA load in im2col mode",
        tma.tma_load_im2col,
        tma.mbarrier_arrive_expect_tx,
        tma.mbarrier_wait,
        counted=False,
        release=tma.mbarrier_arrive,
    ),
    AsyncKind("TMA store", tma.tma_store, tma.tma_store, tma.tma_store_wait, counted=True),
    AsyncKind("wgmma", wgmma.wgmma, wgmma.wgmma, wgmma.wgmma_wait, counted=True),
)

_MOST = 1 << 16
# Iterations by which operations are issued before their results are read. A load to registers takes
# more of them for each; copies take as many iterations as their buffers have stages for.
LATENCIES: Mapping[OpDef, int] = MappingProxyType(
    {
        memory.load: 1,
        shared.local_cp_async: _MOST,
        tma.tma_load: _MOST,
        tma.tma_load_im2col: _MOST,
    }
)

# Kinds whose waits count what was issued before them, in program order.
COUNTED_WAITS = {kind.wait: kind for kind in KINDS if kind.counted}
# Waits that block until somebody arrives, which nobody does for an iteration that does not exist.
_BLOCKING = frozenset({tma.mbarrier_wait, tma.mbarrier_wait_parity})
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
        op.defn in _BLOCKING
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
