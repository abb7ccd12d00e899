"""Async operations: when they are issued, what waits for them, and how they do nothing.

A schedule (`expand-schedules`) names no kind of operation. It asks here which operation waits for
which, and what keeps an operation from having effects in an iteration that does not exist.
After the expansion, waits get the counts of what is in flight in the new order (`IssueOrder`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tile.errors import PassError
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import Effect, OpDef
from tile.ir.ops import arith, memory, shape
from tile.simt.ops import shared, tma, wgmma
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of

# By how many iterations, at most, an operation is issued before its result is read. A multi-buffer
# has as many stages as there is memory for; registers hold a tile for the next iteration.
_ALL_STAGES = 1 << 16
LATENCIES: Mapping[OpDef, int] = MappingProxyType(
    {
        memory.load: 1,
        shared.local_cp_async: _ALL_STAGES,
        tma.tma_load: _ALL_STAGES,
        tma.tma_load_im2col: _ALL_STAGES,
        wgmma.wgmma: 1,
    }
)
# Waits that name how many younger operations may stay in flight (`pending`), and what they count,
# which completes in order. For TMA loads, threads wait on an mbarrier of the iteration.
COUNTED_WAITS: Mapping[OpDef, OpDef] = MappingProxyType(
    {
        shared.cp_async_wait_group: shared.cp_async_commit_group,
        tma.tma_store_wait: tma.tma_store,
        wgmma.wgmma_wait: wgmma.wgmma,
    }
)
# Operations after a loop that end what it began.
ENDS = frozenset({*COUNTED_WAITS, tma.mbarrier_inval})
Position = tuple[int, int]
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


class IssueOrder:
    """The order in which the operations of an expanded loop run.

    A position is by how many iterations an operation is early, and its number in the old body.

    before: definitions and positions of those in front of the loop, in order.
    positions: of those of the old and the new body.
    """

    def __init__(self, body: Iterable[Operation]) -> None:
        self.before: list[tuple[OpDef, Position]] = []
        self.positions = {op: (0, number) for number, op in enumerate(body)}

    def early(self, op: Operation, iterations: int) -> Position:
        """Return the position of an operation of the old body that is done early."""
        return iterations, self.positions[op][1]

    def pending(self, wait: Operation, completes: OpDef, body: Iterable[Operation]) -> int:
        """Return how many younger operations a wait leaves in flight in the new order.

        The wait is complete with the same operations, at least, as before the expansion: then it
        left the last `pending` ones of its own iteration and all earlier ones. How many nested
        operations run is unknown: the wait leaves none of them, and counts none as younger.
        """
        ops = [op for op in body if op is wait or any(x.defn is completes for x in op.walk())]
        nested = {op for op in ops if op is not wait and op.defn is not completes}
        left = 0 if nested else wait["pending"]
        # The position of what was issued, and if it is one operation.
        done = [(*position, True) for defn, position in self.before if defn is completes]
        farthest, _ = max(self.positions.values())
        counts: list[int] = []
        for iteration in range(farthest + 2):
            for op in ops:
                early, number = self.positions[op]
                at = iteration + early, number
                if op is not wait:
                    done.append((*at, op not in nested))
                    continue
                awaited = sorted(other for other in done if other[:2] < at)
                awaited = awaited[: len(awaited) - left]
                if awaited:
                    last = max(map(done.index, awaited))
                    counts.append(sum(counted for *_, counted in done[last + 1 :]))
        return min(counts, default=left)


def count_issued_since(wait: Operation, value: Value, issue: OpDef) -> int:
    """Return how many operations are issued between that of a value and a wait for it.

    The value is the result of an operation of the block of the wait, or a value that its loop
    carries from the iteration before. Any count is right for others, which are complete.
    """
    ops, block = list(wait.block or ()), value.block
    if block is not wait.block:
        return int(wait["pending"])
    source = block.yielded[value.index - 1].op if value.op is None else value.op
    start = ops.index(source) if source in ops else len(ops) - 1
    if value.op is not None:
        start += len(ops)
    since = (ops + ops)[start + 1 : len(ops) + ops.index(wait)]
    return sum(op.defn is issue for op in since)
