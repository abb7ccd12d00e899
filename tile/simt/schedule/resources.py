"""The resources of a multiprocessor: what a thread, a program and co-resident programs may take.

Passes estimate the registers of tiles in a loop with dots (`pressure`) and ask here (`Resources`),
instead of comparing numbers of a target themselves. Registers and shared memory count, nothing
else. Indices,
masks and pointers are left out, since they are few or rematerialized; and of a dot operand that an
iteration loads from shared memory only a slice is live at a time.

Estimates are rough. Registers per thread of three variants of attention's backward pass, with
wgmmas in flight across iterations and without: 199 and 162 allocated (184 and 160 estimated here),
140 and 128 (152 and 128), 252 and 242 (248 and 224).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import accumulate, chain

from tile.analysis.liveness import Liveness, liveness
from tile.ir.core import Operation, Value
from tile.ir.ops import arith, shape
from tile.ir.ops.dot import is_multiplied, takes_registers
from tile.ir.types import I1, I32, Fragment, Scalar, Tile
from tile.simt import ops
from tile.simt.hopper.block_stores import BlockStores
from tile.simt.hopper.wgmma_layouts import stays_in_registers
from tile.simt.layouts.dims import WARP
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import layout_of, register_count
from tile.simt.ops.warp_specialize import LEAST_REGISTERS, REGISTER_STEP, WARPGROUP_WARPS
from tile.simt.schedule.dot_slices import K_AXES
from tile.simt.schedule.shared_memory import SharedMemory
from tile.simt.target import SimtTarget

# Operations whose results take no registers, or those of another tile.
_FILLED = frozenset(
    {arith.const, shape.splat, shape.broadcast, ops.thread.frag_splat, ops.thread.frag_shuffle}
)
# Operations that load an operand from shared memory.
_READS = frozenset({convert_layout, ops.thread.ldmatrix})


def pressure(
    loop: Operation, live: Liveness, target: SimtTarget, without: Container[Value] = ()
) -> int:
    """Estimate the peak number of 32-bit registers that a thread needs for tiles in a loop.

    The loop is one of laid-out tiles, before it is pipelined, or of fragments. Values `without`
    which the loop will do take none.
    """
    first, last = live.start(loop), live.end(loop)
    changes = [0] * (last - first + 2)

    def add(start: int, end: int, count: int) -> None:
        start, end = max(start, first), min(end, last)
        if start < end:
            changes[start - first] += count
            changes[end - first] -= count

    for value, span in live.ranges.items():
        if span.start < last and span.end > first and value not in without:
            dots = _read_by(value, loop)
            if not dots:
                add(span.start, _end(value, live), tile_registers(value))
            for dot, index in dots:
                at = live.start(dot)
                add(at, at + 1, _at_once(value, dot, index, target.tuning.live_k_bytes))
    return max(accumulate(changes))


def _end(value: Value, live: Liveness) -> int:
    """Return the last use of a value, including uses of registers picked from it."""
    picked = [user.result for user in value.users if user.defn is ops.thread.frag_shuffle]
    return max([live.of(value).end, *[_end(other, live) for other in picked]])


def tile_registers(value: Value) -> int:
    """Return the 32-bit registers in which a thread holds a tile; 0 for excluded values."""
    ty = value.type
    if not isinstance(ty, Fragment | Tile) or not isinstance(ty.element, Scalar):
        return 0
    if ty.element == I1 or (ty.element == I32 and not _is_sum(value)):
        return 0
    return 0 if value.op is not None and value.op.defn in _FILLED else register_count(value)


def _is_sum(value: Value) -> bool:
    """Return True if a value is the result or the accumulator operand of a dot."""
    if value.op is not None and takes_registers(value.op):
        return True
    return any(takes_registers(user) for user in value.users)


def _read_by(value: Value, loop: Operation) -> list[tuple[Operation, int]]:
    """Return the dots that load this operand from shared memory in each iteration; else none."""
    op = value.op
    if op is None or op.defn not in _READS or op.block is not loop.regions[0]:
        return []
    uses = list(_uses(value))
    only_operand = all(takes_registers(user) and is_multiplied(user, index) for user, index in uses)
    return uses if only_operand else []


def _uses(value: Value) -> Iterator[tuple[Operation, int]]:
    """Yield the uses of a value and of registers picked from it."""
    for user, index in value.uses:
        if user.defn is ops.thread.frag_shuffle:
            yield from _uses(user.result)
        else:
            yield user, index


def _at_once(value: Value, dot: Operation, index: int, live_bytes: int) -> int:
    """Return the registers of the slice of a dot operand that is live at a time.

    live_bytes: the bytes of the slice along k.
    """
    ty = value.type
    if isinstance(ty, Tile):
        extent = ty.shape[K_AXES[index]]
    else:
        extent = dot["shape"][2] * dot["repeats"][2]
    whole = max(ty.element.bytes_of(extent), live_bytes)
    return max(1, tile_registers(value) * live_bytes // whole)


def accumulators_at_once(dots: Sequence[Operation], leading: Container[Operation]) -> int:
    """Return the most registers of a thread for accumulators that are live at once in a loop.

    Those that the loop carries are live throughout. Others are from the dot on, or from the start
    for the dots that an iteration issues first, until threads have computed from them what takes
    fewer registers.

    dots: those of the loop, in program order, each with its own wait.
    """
    body = dots[0].block
    assert body is not None
    numbers = {op: number for number, op in enumerate(body)}
    spans = list[tuple[int, int, int]]()
    for dot in dots:
        (wait,) = dot.result.users
        end = _last_use(wait.result, numbers)
        carried = end == len(numbers) - 1
        start = 0 if carried or dot in leading else numbers[dot]
        spans.append((start, end, register_count(dot.result)))
    at = [numbers[dot] for dot in dots]
    return max(sum(count for start, end, count in spans if start <= now <= end) for now in at)


def _last_use(value: Value, numbers: Mapping[Operation, int]) -> int:
    """Return the last use of a value, or of others as large that are computed from it."""
    block, values = value.block, [value]
    assert block is not None
    last, size = 0, register_count(value)
    for each in values:
        users = {user.within(block) for user in each.users}
        last = max([last, *[numbers[user] for user in users]])
        results = chain.from_iterable(user.results for user in users)
        values += [x for x in results if tile_registers(x) >= size and x not in values]
    return last


PRODUCER_WARPS = WARPGROUP_WARPS  # setmaxnreg changes the registers of a whole warpgroup
PRODUCER_REGISTERS = LEAST_REGISTERS
# ptxas uses at most 255 registers a thread, and the program's are a multiple of 8.
MOST_PROGRAM_REGISTERS = 240


class Resources:
    """The resources of a target's multiprocessor; registers are of 32 bits.

    shared: the shared memory of a program, and what its loops take so far. most: the registers that
    ptxas may give a thread, if the launch limits them.
    """

    def __init__(
        self,
        target: SimtTarget,
        block_stores: BlockStores | None = None,
        most: int | None = None,
    ) -> None:
        self.target = target
        self.most = most
        self.shared = SharedMemory(target, block_stores)

    def would_spill(self, tiles: int, warps: int = 1) -> bool:
        """Return True if a thread that needs `tiles` registers for tiles would spill.

        warps: of its program.
        """
        return tiles + self.target.tuning.least_other_registers > self.without_producer(warps)

    def are_short(self, tiles: int) -> bool:
        """Return True if addresses, masks and counters have few registers besides `tiles`."""
        return tiles + self.target.tuning.other_registers > self.target.registers

    def affordable(self, loads: Sequence[Operation]) -> list[Operation]:
        """Return the first of some loads, for which a thread has registers to spare."""
        most = self.target.registers // self.target.tuning.prefetch_register_share
        taken = accumulate(register_count(load.result) for load in loads)
        return [load for load, count in zip(loads, taken, strict=True) if count <= most]

    def programs(self, shared_bytes: int, registers: int = 0) -> int:
        """Return how many programs are co-resident, up to as many as are of use.

        shared_bytes, registers: of one program, those of all its threads.
        """
        limits = [self.target.tuning.enough_programs]
        limits.append(self.target.shared_bytes // max(1, shared_bytes))
        if registers:
            limits.append(self.target.register_file // registers)
        return min(limits)

    def isolates(self, dots: Sequence[Operation], shared_bytes: int, fewer: int) -> bool:
        """Return True if a loop's program runs alone for taking `shared_bytes`, not `fewer`."""
        if self.programs(shared_bytes) > 1 or self.programs(fewer) == 1:
            return False
        loop = dots[0].parent
        assert loop is not None
        tiles = pressure(loop, liveness(loop.function), self.target)
        registers = tiles + self.target.tuning.other_registers
        threads = self.target.warp_size * _warps(dots)
        return self.programs(fewer, threads * min(registers, self.target.registers)) > 1

    def overlap_is_free(
        self,
        loop: Operation,
        dots: Sequence[Operation],
        leading: Container[Operation],
        *,
        producer: bool,
    ) -> bool:
        """Return True if keeping a loop's wgmmas in flight across iterations costs no programs.

        That takes registers for every accumulator that is live, and for the operand that is being
        computed. If it lowers occupancy, it does not pay: another program would have hidden the
        same latency. If shared memory limits occupancy, the registers are free to use.

        leading: the dots that an iteration issues first.
        """
        waiting, overlapped = self._overlap(dots, leading, producer=producer)
        available = self.consumer_registers if producer else self.without_producer
        most = self.programs(self.shared.loops[loop])
        registers = [available(_warps(dots), programs) for programs in range(1, most + 1)]
        return overlapped <= registers[0] and not any(
            waiting <= each < overlapped for each in registers
        )

    def may_overlap(self, dots: Sequence[Operation], leading: Container[Operation]) -> bool:
        """Return True if the wgmmas of an iteration may be in flight together, without a producer.

        That takes registers for accumulators which threads would otherwise have one after the
        other. A launch that limits the registers has as many co-resident programs in any case.
        """
        return self.most is not None and self._overlap(dots, leading)[0] <= self.most

    def can_defer(self, dots: Sequence[Operation]) -> bool:
        """Return True if the last dot of a loop with a producer may run an iteration later.

        Its operand then takes registers besides all accumulators, which a producer leaves.
        """
        return self._overlap(dots, dots)[1] <= self.consumer_registers(_warps(dots))

    def runs_alone(self, loop: Operation) -> bool:
        """Return True if the buffers of a loop leave no shared memory for a second program."""
        return self.programs(self.shared.loops[loop]) == 1

    def _overlap(
        self, dots: Sequence[Operation], leading: Container[Operation], *, producer: bool = False
    ) -> tuple[int, int]:
        """Return the registers of a thread that waits for each dot, or else for those it needs."""
        tuning = self.target.tuning
        addresses = tuning.consumer_address_registers if producer else tuning.address_registers
        in_registers = [dot.inputs[0] for dot in dots if stays_in_registers(dot)]
        computed = [register_count(value) for value in in_registers if value.block is dots[0].block]
        waiting = accumulators_at_once(dots, leading) + addresses
        return waiting, waiting + max(computed, default=0) + tuning.overlap_registers

    def program_registers(self, warps: int, tiles: int, instruction: int, shared_bytes: int) -> int:
        """Return the registers of a thread of a program whose loads a producer issues.

        That is its part of what the producer leaves, with as many co-resident programs as shared
        memory permits, if their tiles fit, or if fewer programs would leave a thread hardly more.

        tiles: the registers that a thread needs for tiles. instruction: those that it has at entry
            at least. shared_bytes: of one program.
        """
        alone = self.consumer_registers(warps)
        enough = min(tiles + self.target.tuning.other_registers, alone - REGISTER_STEP)
        for programs in range(self.programs(shared_bytes), 1, -1):
            registers = self.consumer_registers(warps, programs)
            if registers >= enough and self.at_entry(warps, programs) >= instruction:
                return registers
        return alone

    def without_producer(self, warps: int, programs: int = 1) -> int:
        """Return the registers of a thread of programs of `warps` warps and no others."""
        each = self.target.register_file // programs // (warps * self.target.warp_size)
        return min(self.target.registers, each)

    def at_entry(self, warps: int, programs: int = 1) -> int:
        """Return the registers of each thread at entry, if so many programs are co-resident.

        A program has `warps` warps and those of the producer.
        """
        threads = (warps + PRODUCER_WARPS) * self.target.warp_size
        return _whole_steps(self.target.register_file // programs // threads)

    def consumer_registers(self, warps: int, programs: int = 1) -> int:
        """Return the registers that a producer leaves to each thread of a program of some warps.

        programs: the co-resident ones.

        setmaxnreg only moves those that a program has at entry, as many for each of its threads; it
        would wait for others forever.
        """
        at_entry = self.at_entry(warps, programs)
        left = (at_entry - PRODUCER_REGISTERS) * PRODUCER_WARPS
        return min(MOST_PROGRAM_REGISTERS, _whole_steps(at_entry + left // warps))


def _warps(dots: Sequence[Operation]) -> int:
    return layout_of(dots[0].result).in_size(WARP)


def _whole_steps(registers: int) -> int:
    return registers // REGISTER_STEP * REGISTER_STEP
