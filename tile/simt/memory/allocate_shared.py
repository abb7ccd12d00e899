"""Allocate shared memory: assign each buffer an offset for its live range.

A live range is from a buffer's first access to its last; `allocate` finds the offsets.

Reusing memory requires a barrier that waits for the threads that still access it. So as long as
that takes no more memory than there is to spare, consecutive buffers lie side by side: each is
placed above the previous one, and at the bottom again when the spare memory ends.

**Offsets.** The greatest sum of sizes that are live at once is a lower bound of the peak; to find
the optimum is NP-hard. First fit is a heuristic: ranges in some order, each at the lowest offset
that is free of those placed before it and live with it. Which order is best depends on the ranges,
so `allocate` tries several. After each attempt the range that ends highest moves to the front, to
get a low offset. The order of first use, a linear scan as in register allocation, comes first; it
reaches the bound for most kernels, and no other is tried then.

This is not the algorithm of Gergov, "Algorithms for Compile-Time Memory Optimization" (SODA 1999),
which the Triton paper (MAPL 2019, section 5.2.3) uses: linear in time, and at most three times the
optimum. Over 4,000 random sets of up to 40 ranges (tests/simt/test_storage.py), the peak is at most
1.23 times the lower bound, .1 % above it on average, and equal to it for 96 % of the sets. The peak
of a linear scan is at most 1.88 times the lower bound, and 9 % above it on average.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tile.analysis.call_graph import CallGraph
from tile.analysis.liveness import Numbers
from tile.errors import OutOfResourcesError, PassError
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import control
from tile.ir.passes import module_pass
from tile.ir.shared_type import Shared, shared_of
from tile.location import Loc
from tile.simt import ops
from tile.simt.target import GENERIC, SimtTarget

ATTEMPTS = 8  # for each order; 16 gain less than .1 % of the peak


@dataclass(frozen=True)
class LiveRange:
    """`size` bytes, at a multiple of `alignment`, from time `start` to `end`, both included."""

    start: int
    end: int
    size: int
    alignment: int

    def overlaps(self, other: LiveRange) -> bool:
        """Return True if both are live at some time."""
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True)
class Allocation:
    """An offset for each live range, as they were given, and the end of the highest, in bytes."""

    offsets: tuple[int, ...]
    peak: int


ORDERS: tuple[Callable[[LiveRange], int], ...] = (
    lambda live: live.start,
    lambda live: -live.size,
    lambda live: -live.size * (live.end - live.start + 1),
)


def allocate(ranges: Sequence[LiveRange], base: int = 0) -> Allocation:
    """Return the allocation from `base` on with the lowest peak of those tried."""
    bound = base + greatest_live_bytes(ranges)
    best: Allocation | None = None
    for order in ORDERS:
        sequence = sorted(range(len(ranges)), key=lambda index: order(ranges[index]))
        for _ in range(ATTEMPTS):
            allocation = first_fit(ranges, sequence, base)
            if best is None or allocation.peak < best.peak:
                best = allocation
            if best.peak <= bound:
                return best
            highest = max(
                sequence, key=lambda index: allocation.offsets[index] + ranges[index].size
            )
            sequence = [highest, *(index for index in sequence if index != highest)]
    assert best is not None
    return best


def greatest_live_bytes(ranges: Iterable[LiveRange]) -> int:
    """Return the greatest sum of the sizes of ranges that are live at once."""
    changes = [(live.start, 0, live.size) for live in ranges]
    changes += [(live.end, 1, -live.size) for live in ranges]
    greatest = current = 0
    for _, _, size in sorted(changes):
        current += size
        greatest = max(greatest, current)
    return greatest


def first_fit(ranges: Sequence[LiveRange], sequence: Iterable[int], base: int = 0) -> Allocation:
    """Place ranges in a sequence of their indices, each at the lowest offset where it fits."""
    offsets: dict[int, int] = {}
    for index in sequence:
        live = ranges[index]
        occupied = sorted(
            (offset, offset + ranges[other].size)
            for other, offset in offsets.items()
            if live.overlaps(ranges[other])
        )
        offsets[index] = lowest_gap(occupied, base, live)
    peak = max((offset + ranges[index].size for index, offset in offsets.items()), default=base)
    return Allocation(tuple(offsets[index] for index in range(len(ranges))), peak)


def lowest_gap(occupied: Iterable[tuple[int, int]], base: int, live: LiveRange) -> int:
    """Return the lowest offset from `base` on that fits between sorted occupied ranges."""
    offset = align(base, live.alignment)
    for begin, end in occupied:
        if offset + live.size <= begin:
            break
        offset = max(offset, align(end, live.alignment))
    return offset


def align(number: int, alignment: int) -> int:
    """Round up to a multiple of `alignment`."""
    return -(-number // alignment) * alignment


# Multi-buffers are aligned like separate arrays: their stages begin at a memory line.
MULTI_BUFFER_ALIGNMENT = 128
ALIGNMENT = 16
# wgmma and TMA, the operations of the async proxy, swizzle by address bits up to this.
SWIZZLE_ALIGNMENT = 1024


@module_pass("allocate-shared", before=Level.LAID_OUT)
def allocate_shared(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Assign each buffer an offset, sharing memory with buffers that are not live at the same time.

    A buffer is live from its first access to its last, throughout a loop that it is older than, and
    until its async copies, and wgmmas that read it, have been waited for; or always, if programs of
    a cluster write to it. Called functions have
    their buffers above those that are live at any call. Raises `OutOfResourcesError` if the target
    has less.

        %m = local_alloc : shared<64x64xf32, #s>     %m = local_alloc {offset = 0} : ...
        %n = local_alloc : shared<64xi8, #t>         %n = local_alloc {offset = 16384} : ...
        local_store %m, %x                           local_store %m, %x
        local_store %n, %y                           local_store %n, %y
        %z = local_load %m : ...                     %z = local_load %m : ...
        %k = local_alloc : shared<64x64xf16, #s>     %k = local_alloc {offset = 0} : ...
    """
    bases: dict[Function, int] = {}
    graph = CallGraph(module)
    for function in reversed(graph.bottom_up()):
        base = bases.get(function, 0)
        buffers, calls = _in_order(function)
        plan = _side_by_side(buffers, base, base + target.spare_shared_bytes)
        if plan.peak > target.shared_bytes:
            _refuse(function, _allocate(buffers, base), base, target)
        for buffer, at in plan.offsets.items():
            buffer.op.attributes["offset"] = at
        for op, end in _top_at(calls, plan, base):
            callee = graph.callee(op)
            if callee is not None:
                bases[callee] = max(bases.get(callee, 0), end)


def shared_bytes(module: Module) -> int:
    """Return the shared memory of a program, in bytes; `PassError` before `allocate-shared`."""
    most = 0
    for op in module.walk():
        if op.defn is ops.shared.local_alloc:
            if op["offset"] < 0:
                raise PassError(
                    "a buffer has no offset before the pass allocate-shared", loc=op.loc
                )
            assert isinstance(op.result.type, Shared)
            most = max(most, op["offset"] + op.result.type.bytes)
    return most


# -- when buffers are in use


@dataclass(frozen=True, eq=False)
class Buffer:
    """A buffer and the numbers, in program order, of its first and last operation."""

    op: Operation
    start: int
    end: int

    @property
    def type(self) -> Shared:
        return shared_of(self.op.result.type)

    @cached_property
    def alignment(self) -> int:
        if any(op.has_trait(Trait.ASYNC_PROXY) for op in _accesses(self.op.result)):
            return SWIZZLE_ALIGNMENT
        return MULTI_BUFFER_ALIGNMENT if self.type.stages > 1 else ALIGNMENT

    def bytes(self, stages: int, halvings: int = 0) -> int:
        """Return the size with at most `stages` stages, and of a tile halved `halvings` times."""
        ty = self.type
        return max(ty.stage_bytes >> halvings, ty.of.itemsize) * min(stages, ty.stages)


# The calls of a function, with their numbers, in program order.
Calls = Sequence[tuple[int, Operation]]


def _in_order(function: Function) -> tuple[list[Buffer], Calls]:
    """Return the buffers of a function in the order of their first use, and its calls."""
    numbers = Numbers(function)
    buffers = [_live(op, numbers) for op in numbers.starts if op.defn is ops.shared.local_alloc]
    buffers.sort(key=lambda buffer: (buffer.start, numbers.starts[buffer.op]))
    calls = [(start, op) for op, start in numbers.starts.items() if op.defn is control.call]
    return buffers, calls


def _live(alloc: Operation, numbers: Numbers) -> Buffer:
    first, last = None, numbers.starts[alloc]
    copy = None
    for op in _accesses(alloc.result):
        start, end = _span(op, alloc, numbers)
        first = start if first is None else min(first, start)
        last = max(last, end)
        if op.defn is ops.shared.local_cp_async and end >= (copy or 0):
            copy = end
        if op.defn is ops.wgmma.wgmma:
            start, end = _until_complete(op, numbers)
            first, last = min(first, start), max(last, end)
        if op.defn is ops.cluster.cluster_exchange:
            first, last = 0, numbers.last  # others may write to it at any time
    start = numbers.starts[alloc] if first is None else first
    if copy is not None:
        start, end = _until_waited(alloc, start, copy, numbers)
        last = max(last, end)
    return Buffer(alloc, start, last)


def _accesses(mem: Value) -> Iterator[Operation]:
    """Yield the operations that use a buffer, or a subview of it."""
    for op in mem.users:
        if op.defn in ops.shared.VIEWS:
            yield from _accesses(op.result)
        elif op.defn.terminator or op.regions:
            raise PassError(f"a buffer cannot be passed on by {op.name}", loc=op.loc)
        else:
            yield op


def _span(op: Operation, alloc: Operation, numbers: Numbers) -> tuple[int, int]:
    """Return the span of an access: the outermost loop around it that the buffer is older than."""
    start, end = numbers.starts[op], numbers.ends[op]
    for outer in op.ancestors():
        if outer is alloc.parent:
            break
        if outer.has_trait(Trait.LOOP):
            start, end = numbers.starts[outer], numbers.ends[outer]
    return start, end


def _until_complete(wgmma: Operation, numbers: Numbers) -> tuple[int, int]:
    """Return the span in which a wgmma reads its operands: to a certain wait that completes it.

    As for copies, that is one of its block or of a block around it. If it is in flight at the end
    of a loop's body, the next iteration begins with it in flight.
    """
    block: Block | None = wgmma.block
    start, issued = numbers.starts[wgmma], numbers.ends[wgmma]
    while block is not None:
        younger = 0
        for op in _behind(block, issued, numbers):
            if op.defn is ops.wgmma.wgmma:
                younger += 1
            elif op.defn is ops.wgmma.wgmma_wait and op["pending"] <= younger:
                return start, numbers.ends[op]
        outer = block.parent
        if outer is None:
            break
        if outer.has_trait(Trait.LOOP):
            start = min(start, numbers.starts[outer])
        issued, block = numbers.ends[outer], outer.block
    return start, numbers.last


def _until_waited(alloc: Operation, start: int, copied: int, numbers: Numbers) -> tuple[int, int]:
    """Extend the range of a buffer, last copied to at `copied`, to a certain wait for that.

    Waits in nested blocks may not execute. If there is none, the wait is that of the enclosing
    block; and if that is a loop's, the next iteration begins with the copy in flight.
    """
    block = alloc.block
    while block is not None:
        wait = _wait_behind(block, copied, numbers)
        if wait is not None:
            return start, numbers.starts[wait]
        outer = block.parent
        if outer is None:
            return start, numbers.last
        if outer.has_trait(Trait.LOOP):
            start = min(start, numbers.starts[outer])
        copied, block = numbers.ends[outer], outer.block
    return start, numbers.last


def _wait_behind(block: Block, copied: int, numbers: Numbers) -> Operation | None:
    """Return the first wait in a block that certainly covers a copy that started at `copied`."""
    behind = _behind(block, copied, numbers)
    before = behind[0].prev if behind else block.last
    groups = _closed(before) if before is not None else 0
    for op in behind:
        if op.defn is ops.shared.cp_async_commit_group:
            groups += 1
        elif op.defn is ops.shared.cp_async_wait_group and groups > op["pending"]:
            return op
    return None


def _behind(block: Block, number: int, numbers: Numbers) -> list[Operation]:
    """Return the operations of a block that start behind a number."""
    op, behind = block.last, list[Operation]()
    while op is not None and numbers.starts[op] > number:
        behind.append(op)
        op = op.prev
    return behind[::-1]


def _closed(op: Operation) -> int:
    """Return 1 if the async copies in a finished operation are in a committed group, else 0.

    A region that ends with copies in an open group leaves them to the next commit, wherever it is.
    """
    if not op.regions:
        return 0
    for region in op.regions:
        for inner in reversed(list(region.walk())):
            if inner.defn is ops.shared.cp_async_commit_group:
                break
            if inner.defn is ops.shared.local_cp_async:
                return 0
    return 1


# -- offsets


@dataclass(frozen=True)
class Plan:
    """Offsets of buffers, in bytes, and the end of the highest buffer."""

    offsets: dict[Buffer, int]
    peak: int


def _allocate(
    buffers: Sequence[Buffer], base: int, stages: int = 1 << 30, halvings: int = 0
) -> Plan:
    """Assign the lowest offsets from `base` on, given a limit of stages and halved tiles."""
    allocation = allocate([_range(buffer, stages, halvings) for buffer in buffers], base)
    return Plan(dict(zip(buffers, allocation.offsets, strict=True)), allocation.peak)


def _range(buffer: Buffer, stages: int = 1 << 30, halvings: int = 0) -> LiveRange:
    size = buffer.bytes(stages, halvings)
    return LiveRange(buffer.start, buffer.end, size, buffer.alignment)


def _side_by_side(buffers: Sequence[Buffer], base: int, spare: int) -> Plan:
    """Assign offsets side by side, up to the peak of `_allocate` or the end of the spare memory."""
    lowest = _allocate(buffers, base)
    most = max(lowest.peak, spare)
    offsets: dict[Buffer, int] = {}
    active: list[tuple[int, int, Buffer]] = []
    cursor = peak = base
    for buffer in buffers:
        active = [item for item in active if item[2].end >= buffer.start]
        live = _range(buffer)
        occupied = [(begin, end) for begin, end, _ in active]
        at = lowest_gap(occupied, cursor, live)
        if at + live.size > most:
            at = lowest_gap(occupied, base, live)
        if at + live.size > most:
            return lowest
        offsets[buffer], cursor = at, at + live.size
        active.append((at, cursor, buffer))
        active.sort(key=lambda item: item[0])
        peak = max(peak, cursor)
    return Plan(offsets, peak)


def _top_at(calls: Calls, plan: Plan, base: int) -> Iterator[tuple[Operation, int]]:
    """Yield, for each call, the end of the highest live buffer; `base` if none is live."""
    waiting = deque(plan.offsets)
    active: list[Buffer] = []
    for number, op in calls:
        while waiting and waiting[0].start <= number:
            active.append(waiting.popleft())
        active = [buffer for buffer in active if buffer.end >= number]
        ends = (plan.offsets[buffer] + buffer.type.bytes for buffer in active)
        yield op, max(ends, default=base)


# -- what does not fit


def _refuse(function: Function, plan: Plan, base: int, target: SimtTarget) -> None:
    """Raise `OutOfResourcesError` for the lowest allocation found."""
    buffers = list(plan.offsets)
    top = max(buffers, key=lambda buffer: plan.offsets[buffer] + buffer.type.bytes)
    live = [b for b in buffers if b.start <= top.start <= b.end]
    notes = [_described(b) for b in sorted(live, key=lambda b: -b.type.bytes)]
    if base:
        notes.append(f"{base} bytes are in use where {function} is called")
    advice = _advice(buffers, base, target.shared_bytes)
    notes.append(advice)
    raise OutOfResourcesError(
        f"{function} needs {plan.peak} bytes of shared memory, and a program has "
        f"{target.shared_bytes} on target {target}; {advice}",
        required=plan.peak,
        limit=target.shared_bytes,
        name="shared memory",
        loc=_loc_of(max(live, key=lambda b: b.type.bytes).op.loc, function),
        notes=notes[:-1],
    )


def _loc_of(loc: Loc | None, function: Function) -> Loc | None:
    return loc if loc is not None else function.loc


def _described(buffer: Buffer) -> str:
    ty = buffer.type
    stages = f" in {ty.stages} stages" if ty.stages > 1 else ""
    shape = "x".join(map(str, ty.dims))
    return f"{ty.bytes} bytes for a tile {shape}x{ty.of}{stages}, at {buffer.op.loc}"


def _advice(buffers: Sequence[Buffer], base: int, limit: int) -> str:
    """Return a hint to a choice that fits: the most stages, or else the largest tiles."""
    most = max(buffer.type.stages for buffer in buffers)
    for stages in range(most - 1, 0, -1):
        needed = _allocate(buffers, base, stages).peak
        if needed <= limit:
            return f"num_stages={stages} would take {needed}"
    also = " with num_stages=1" if most > 1 else ""
    for halvings in range(1, 21):
        needed = _allocate(buffers, base, 1, halvings).peak
        if needed <= limit:
            return f"tiles of 1/{1 << halvings} of their size would take {needed}{also}"
    return "no size of tiles would fit"
