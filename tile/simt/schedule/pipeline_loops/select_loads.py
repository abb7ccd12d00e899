"""Select the loops to pipeline, their loads, and the way in which each load is prefetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product, takewhile

from tile.analysis.alias import Alias, rely_on_disjoint
from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.analysis.dot_tiles import feeds_dot
from tile.analysis.liveness import liveness
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import is_plain_load, is_zero, iterations
from tile.ir.op_definition import Effect, Trait
from tile.ir.ops import control, debug, descriptor, memory
from tile.ir.ops.control import WarpSpecialize
from tile.ir.ops.descriptor import block_pointers_of
from tile.ir.ops.memory import CacheModifier
from tile.ir.types import Tile
from tile.simt.hopper.tma_boxes import TMA_ALIGNMENT, block_layout, block_strips, reason_against
from tile.simt.hopper.wgmma_layouts import contiguous_axis
from tile.simt.layouts.conversion import SharedConversion
from tile.simt.layouts.dims import WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import shared_access
from tile.simt.layouts.shared_layout import shared_layout
from tile.simt.memory.expose_shared import plan_tile_conversion
from tile.simt.ops import shared, tma
from tile.simt.ops.layout_inference import layout_of, tile_type
from tile.simt.schedule.async_ops import buffer_stages
from tile.simt.schedule.backward_slice import backward_slice
from tile.simt.schedule.dot_slices import is_loaded_in_slices, tile_bytes
from tile.simt.schedule.pipeline_loops.buffer_layouts import copy_layout, copy_vector
from tile.simt.schedule.pipeline_loops.buffer_readers import (
    Reader,
    conversions,
    converted_layout,
    dot_operands,
    nested_operands,
    operand_buffer_layout,
    operand_uses,
    read_layouts,
    readable_from,
    register_operand_dots,
    used_extents,
)
from tile.simt.schedule.pipeline_loops.channels import mbarrier_bytes
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad, in_stages
from tile.simt.schedule.pipeline_loops.result_scales import scales_of_results
from tile.simt.schedule.pipeline_loops.wgmma_overlap import (
    completes_in_block,
    double_buffered,
)
from tile.simt.schedule.resources import Resources, pressure, tile_registers
from tile.simt.schedule.shared_memory import (
    BufferRead,
    OperandUse,
    operand_bytes,
)
from tile.simt.schedule.trip_count import TripCount
from tile.tracebacks import warn


@dataclass(frozen=True)
class LoopPlan:
    """The loads of a loop that are prefetched, and their buffers.

    async_loads: async copies to shared memory, all to as many stages.
    shared_loads: loaded by threads, then stored there, all to as many stages.
    register_loads: loop-carried in registers, as scalars are.
    double_buffered: operands that the iteration computes, which are stored to two buffers.
    early_loads: what addresses of cp.async copies may be loaded by, when these are issued.
    reloads: threads read the buffers again where they would hold what they compute from them.
    """

    loop: Operation
    async_loads: tuple[BufferedLoad, ...]
    shared_loads: tuple[BufferedLoad, ...]
    register_loads: tuple[Operation, ...]
    double_buffered: tuple[OperandUse, ...] = ()
    early_loads: frozenset[Operation] = frozenset()
    reloads: bool = False

    @property
    def stages(self) -> int:
        """The stages of the buffers of async copies."""
        return self.async_loads[0].stages

    @property
    def resident(self) -> bool:
        """True if each iteration has a stage of its own: all copies can be issued at once."""
        numbers = iterations(self.loop)
        return numbers is not None and len(numbers) <= self.stages

    @property
    def buffered(self) -> tuple[BufferedLoad, ...]:
        """The loads that go through shared memory."""
        return *self.async_loads, *self.shared_loads

    @property
    def prefetched(self) -> list[Operation]:
        """The loads that are done one iteration ahead, into registers."""
        return [*self.register_loads, *[each.load for each in self.shared_loads]]

    @property
    def bytes(self) -> int:
        """The shared memory that the plan's buffers and mbarriers take, in bytes."""
        operands = 2 * sum(map(operand_bytes, self.double_buffered))
        buffers = sum(each.bytes for each in self.buffered)
        return operands + mbarrier_bytes(self.async_loads) + buffers

    @property
    def buffer_reads(self) -> set[BufferRead]:
        """The conversions and operands that become reads of the plan's buffers."""
        reads: set[BufferRead] = {*self.double_buffered}
        for buffered in self.buffered:
            reads.update(each.op for each in conversions(buffered.load.result))
            reads |= operand_uses(dot_operands(buffered.load.result))
        return reads


class LoopPlanner:
    """The plans of one function's loops.

    aliases: returns the alias analysis of the function's module, which is computed on first use.
    specialized: producers are asked for.
    """

    def __init__(
        self,
        function: Function,
        aliases: Callable[[], Mapping[str, Alias]],
        resources: Resources,
        num_stages: int,
        *,
        specialized: bool = False,
    ) -> None:
        self.function = function
        self.aliases = aliases
        self.resources = resources
        self.target = resources.target
        self.num_stages = num_stages
        self.specialized = specialized

    @cached_property
    def axes(self) -> AxisInfoResult:
        return axis_info(self.function)

    def plans(self) -> list[LoopPlan]:
        """Return the plans of the loops to pipeline, outer loops first."""
        loops = [op for op in self.function.walk() if op.defn is control.for_]
        plans = []
        for loop in reversed(loops):
            plan = self.plan(loop, loop["num_stages"] or self.num_stages)
            if plan is None:
                self.resources.shared.reserve(loop, 0)
            else:
                plans.append(plan)
                self.resources.shared.reserve(loop, plan.bytes, plan.buffer_reads)
        self.resources.shared.finish(self.function)
        return plans[::-1]

    def plan(self, loop: Operation, stages: int) -> LoopPlan | None:
        """Return the plan of a loop with at most `stages` stages; None if it stays as it is."""
        if stages < 2 or not TripCount.is_computable(loop, stages - 1):
            return None
        loads = [op for op in loop.regions[0] if is_plain_load(op)]
        for_dots = {load for load in loads if feeds_dot(load.result)}
        chosen = [op for op in loads if _is_tile(op.result) and not _is_cached(op)]
        chosen = [op for op in chosen if loop["num_stages"] or op in for_dots]
        if not chosen:
            return None
        early = frozenset(self.unaliased(loop, loads))
        movable = [op for op in loads if op in early and backward_slice(loop, op.inputs)]
        scalars = [op for op in movable if op in for_dots and not _is_tile(op.result)]
        scalars += scales_of_results(loop, [op for op in movable if op not in for_dots])
        indirect = [op for op in chosen if op in early and op not in movable]
        indirect = [op for op in indirect if backward_slice(loop, op.inputs, early)]
        chosen = [op for op in chosen if op in movable]
        if not for_dots:
            lacks_registers = self.lacks_registers(loop, chosen)
            if lacks_registers or any(map(self.row_load, chosen)):
                plan = self.plan_copies(loop, stages, chosen, early)
                if plan is not None or lacks_registers:
                    return plan
        copies = _not_none(self.async_load(op) for op in chosen if op in for_dots)
        if any(each.tma for each in copies):
            copies = [each if each.tma else self.tma_copy(each) for each in copies]
            if self.may_specialize(loop):
                indirect = []  # a producer could not issue their copies
        copies += _not_none(map(self.cp_async_load, indirect))
        plans = self.candidates(loop, stages, chosen, scalars, copies, early)
        plan = next(filter(self.fits, plans), None)
        if plan is None:
            return None
        plan = self.keep_occupancy(plan)
        self.rely_on_disjoint(plan)
        operands = double_buffered(loop, plan.async_loads, plan.shared_loads)
        larger = replace(plan, double_buffered=operands)
        return larger if plan.async_loads and self.fits(larger) else plan

    def plan_copies(
        self, loop: Operation, stages: int, loads: Sequence[Operation], early: frozenset[Operation]
    ) -> LoopPlan | None:
        """Return the plan of a loop without dots whose tiles are copied to shared memory.

        As many as fit: others are loaded where they are used. Those that take a thread no more than
        a register are loaded to it one iteration early. TMA copies rows of descriptors.
        """
        held = [load for load in loads if tile_registers(load.result) <= 1]
        wide = [load for load in loads if load not in held]
        copies = _not_none(self.row_load(load) or self.cp_async_load(load) for load in wide)
        for count in range(len(copies), 0, -1):
            plans = self.candidates(loop, stages, (), held, copies[:count], early)
            plan = next(filter(self.fits, plans), None)
            if plan is not None:
                self.rely_on_disjoint(plan)
                return replace(plan, reloads=True)
        return None

    def row_load(self, load: Operation) -> BufferedLoad | None:
        """Return the TMA load of a descriptor block that threads read; None if there is none."""
        tile = tile_type(load.result)
        return self.tma_block(load, block_layout(tuple(tile.shape), tile.of.storage_bits))

    def lacks_registers(self, loop: Operation, loads: Sequence[Operation]) -> bool:
        """Return True if a thread would spill for holding tiles of a loop one iteration early."""
        if not loads:
            return False
        early = sum(tile_registers(load.result) for load in loads)
        tiles = pressure(loop, liveness(self.function), self.target)
        return self.resources.would_spill(tiles + early, layout_of(loads[0].result).in_size(WARP))

    def may_specialize(self, loop: Operation) -> bool:
        """Return True if the TMA loads of a loop may get a producer: on request, or if nested."""
        options = map(specialize_option, (loop, *loop.ancestors()))
        return self.specialized or loop.parent is not None or WarpSpecialize.ON in options

    def candidates(
        self,
        loop: Operation,
        stages: int,
        loads: Sequence[Operation],
        scalars: Sequence[Operation],
        async_loads: Sequence[BufferedLoad],
        early: frozenset[Operation],
    ) -> Iterator[LoopPlan]:
        """Yield plans for some loads, from the largest buffers to the smallest, or none.

        scalars: loads of scalars that operands of dots are computed from, such as scales, and of
            vectors that scale results.
        early: loads that may be done as early as async copies, for their addresses.
        """
        most = max([buffer_stages(each.issue, stages) for each in async_loads], default=0)
        numbers = iterations(loop)
        if numbers is not None and not self.may_specialize(loop):
            most = min(most, max(1, len(numbers)))
        least = 2 if most > 1 else 1
        for async_stages in (*range(most, least - 1, -1), 0):
            copies = in_stages(async_loads, async_stages)
            sources = backward_slice(loop, [x for each in copies for x in each.load.inputs], early)
            assert sources is not None, "a load was chosen that cannot be done early"
            done = {*[each.load for each in copies], *sources.loads}
            prefetched = self.resources.affordable([load for load in loads if load not in done])
            stored = _not_none(map(self.shared_load, prefetched))
            own = buffer_stages(memory.load, stages) if stored else 0
            for shared_stages in range(own, -1, -1):
                shared_loads = in_stages(stored, shared_stages)
                other = done.union(each.load for each in shared_loads)
                registers = tuple(load for load in (*prefetched, *scalars) if load not in other)
                if copies or prefetched:
                    at_once = frozenset(sources.loads)
                    yield LoopPlan(loop, copies, shared_loads, registers, early_loads=at_once)

    def fits(self, plan: LoopPlan) -> bool:
        """Return True if shared memory suffices for the buffers of a plan."""
        return plan.bytes <= self.resources.shared.remaining(plan.loop, plan.buffer_reads)

    def keep_occupancy(self, plan: LoopPlan) -> LoopPlan:
        """Return a plan with a stage less if a second program is co-resident then.

        It hides more latency than the stage. That is for dots that read registers, and for wgmmas
        that copies of vectors feed if each result is used in its iteration, in which the tensor
        cores are idle meanwhile; and not inside loops that may have buffers, too. (H200,
        chunk_fwd_kernel_h of flash-linear-attention, tiles of 64 x 32, 2 warps, 2026-11-29: 93.5 us
        with 4 stages and one program, 53.2 with 3 and two.)
        """
        dots = _dots(plan.loop)
        if not plan.async_loads or plan.stages <= 2 or not dots:
            return plan
        wgmmas = [op for op in dots if op.has_trait(Trait.IN_FLIGHT)]
        waits = all(map(completes_in_block, wgmmas))
        if wgmmas and (not waits or any(each.tma for each in plan.async_loads)):
            return plan
        if any(map(_dots, plan.loop.ancestors())):
            return plan
        less = replace(plan, async_loads=in_stages(plan.async_loads, plan.stages - 1))
        left = self.resources.shared.remaining(plan.loop, plan.buffer_reads)
        others = self.target.shared_bytes - left
        isolated = self.resources.isolates(dots, others + plan.bytes, others + less.bytes)
        return less if isolated else plan

    def rely_on_disjoint(self, plan: LoopPlan) -> None:
        """Record the parameters that a plan takes to be disjoint: of loads and writes they cross.

        Loads move across the writes of the loop. Those by TMA are in addition not ordered with
        writes before the loop, or of an outer loop.
        """
        loads = [*plan.register_loads, *[each.load for each in plan.buffered], *plan.early_loads]
        self.rely_on_unwritten(loads, plan.loop.walk())
        loops = [op for op in (plan.loop, *plan.loop.ancestors()) if op.has_trait(Trait.LOOP)]
        before = takewhile(lambda op: op is not loops[-1], self.function.walk())
        tma_loads = [each.load for each in plan.async_loads if each.tma]
        self.rely_on_unwritten(tma_loads, chain(before, loops[-1].walk()))

    def rely_on_unwritten(self, loads: Iterable[Operation], crossed: Iterable[Operation]) -> None:
        """Record the parameters that must be disjoint for no write to reach what loads read.

        crossed: the operations that may write it.
        """
        writes = [op["ptr"] for op in crossed if _writes(op)]
        for load, written in product(loads, writes):
            alias = self.aliases()[self.function.name]
            rely_on_disjoint(self.aliases(), self.function, alias.assumed(load["ptr"], written))

    def unaliased(self, scope: Operation | Function, loads: Sequence[Operation]) -> list[Operation]:
        """Return the loads that no write or ordering operation in a loop or function affects.

        Assertions order loads of their own loop: what follows may rely on them.
        """
        writers: list[Operation] = []
        in_loop = isinstance(scope, Operation)
        for op in scope.walk():
            if _orders_memory(op) or (in_loop and op.defn is debug.device_assert):
                return []
            if Effect.WRITE in op.defn.effect:
                writers.append(op)
        if not writers:
            return list(loads)
        share = self.aliases()[self.function.name].may_alias
        return [load for load in loads if not any(share(load["ptr"], op["ptr"]) for op in writers)]

    def repeatable_loads(self) -> frozenset[Operation]:
        """Return the loads of scalars that a producer may do as well, at any time.

        Nothing writes what they read, and no assertion in their block may guard them.
        """
        loads = [op for op in self.function.walk() if _is_unguarded(op)]
        return frozenset(self.unaliased(self.function, loads))

    def async_load(self, load: Operation) -> BufferedLoad | None:
        """Return the async copy for a load; None if there can be none."""
        return self.tma_load(load, dot_operands(load.result)) or self.cp_async_load(load)

    def tma_load(self, load: Operation, readers: Sequence[Reader]) -> BufferedLoad | None:
        """Return the TMA load of a descriptor block that wgmmas read; None if there can be none."""
        layout = operand_buffer_layout(readers, major=tile_type(load.result).rank - 1)
        return None if layout is None else self.tma_block(load, layout)

    def outer_loads(self, plans: Sequence[LoopPlan]) -> list[BufferedLoad]:
        """Return the TMA loads of the loops around some, of tiles that wgmmas in these read."""
        around = dict.fromkeys(plan.loop.parent for plan in plans)
        loops = [loop for loop in around if loop is not None and loop.defn is control.for_]
        return _not_none(self.outer_load(op) for loop in loops for op in loop.regions[0])

    def outer_load(self, load: Operation) -> BufferedLoad | None:
        """Return the TMA load of a tile that wgmmas in inner loops read; None if there is none."""
        if not is_plain_load(load) or not _is_tile(load.result):
            return None
        readers = nested_operands(load.result)
        if any(each.op.block is load.block or not completes_in_block(each.op) for each in readers):
            return None
        outer = self.tma_load(load, readers)
        whole = outer is not None and readable_from(readers, outer.layout) == readers
        return outer if whole else None

    def tma_copy(self, copy: BufferedLoad) -> BufferedLoad:
        """Return the TMA load of a block that threads read, if it can be one, for a copy.

        That is a block along one axis, or an operand that wgmmas take from registers. A producer
        can issue it with the TMA loads of its loop.
        """
        extents = copy.tile.dims
        layout = block_layout(extents, copy.tile.element.storage_bits)
        is_vector = sum(extent > 1 for extent in extents) <= 1
        chosen = is_vector or self.reads_operand(copy.load, layout)
        return (self.tma_block(copy.load, layout) if chosen else None) or copy

    def reads_operand(self, load: Operation, layout: LinearLayout) -> bool:
        """Return True if threads read a wgmma operand from a buffer without bank conflicts."""
        bits, banks = load.result.type.element.storage_bits, self.target.banks
        readers = conversions(load.result) if register_operand_dots(load.result) else []
        accesses = [shared_access(converted_layout(x), layout, bits, banks) for x in readers]
        return bool(readers) and not any(each.conflicts(bits, banks) for each in accesses)

    def tma_block(self, load: Operation, layout: LinearLayout) -> BufferedLoad | None:
        """Return the TMA load of a descriptor block to a layout; None if there can be none.

        TMA loads go through the async proxy. Without a proxy fence they are not ordered with
        threads' writes to global memory, nor with writes of other programs that threads have
        observed. So a kernel that may write to the array, or synchronizes, uses no TMA loads. Each
        stage of the buffer, one after the other, begins at an address for TMA.
        """
        pointers, tile = block_pointers_of(load), tile_type(load.result)
        if not self.target.has_tma or pointers is None or not is_zero(load["other"]):
            return None
        strips = block_strips(layout, tile.of.storage_bits)
        if strips is None or tile_bytes(load.result) % TMA_ALIGNMENT:
            return None
        im2col = pointers.defn is descriptor.im2col_pointers
        if (im2col and reason_against(pointers)) or not self.unaliased(self.function, [load]):
            return None
        if im2col:
            return BufferedLoad(load, layout, tma.tma_load_im2col)
        return BufferedLoad(load, layout, tma.tma_load, extents=used_extents(load.result))

    def warn_of_pixels(self, plans: Sequence[LoopPlan]) -> None:
        """Say which loads of pixels TMA cannot do, and why."""
        done = {each.load for plan in plans for each in plan.async_loads if each.tma}
        for load in self.function.walk() if self.target.has_tma else ():
            pointers = block_pointers_of(load) if load.defn is memory.load else None
            if pointers is None or pointers.defn is not descriptor.im2col_pointers or load in done:
                continue
            reason = reason_against(pointers)
            if reason is None and not self.unaliased(self.function, [load]):
                reason = "the kernel may write to the array, or synchronizes"
            if reason is not None:
                warn(f"this load of pixels is not done by TMA: {reason}", load.loc)

    def cp_async_load(self, load: Operation) -> BufferedLoad | None:
        """Return the cp.async copies of vectors for a load; None if there can be none."""
        target, tile, source = self.target, tile_type(load.result), layout_of(load.result)
        if not target.cp_async_bytes or not is_zero(load["other"]):
            return None
        mask = None if load["mask"] is None else self.axes.of(load["mask"])
        pointers, itemsize = self.axes.of(load["ptr"]), tile.of.itemsize
        vectors = copy_vector(source, pointers, mask, itemsize, target.cp_async_bytes)
        if vectors is None:
            return None
        layout = operand_buffer_layout(dot_operands(load.result), vectors[0])
        if layout is None:
            readers = conversions(load.result)
            layouts = read_layouts(readers, target) or (source,)
            sliced = any(is_loaded_in_slices(each.op, target) for each in readers[:1])
            uses_ldmatrix = target.has_ldmatrix and not sliced
            layout = copy_layout(
                source, layouts, itemsize * 8, vectors, target.banks, uses_ldmatrix
            )
        return BufferedLoad(load, layout, shared.local_cp_async)

    def shared_load(self, load: Operation) -> BufferedLoad | None:
        """Return the buffer through which a load's tile goes; None if it needs no shared memory."""
        source, target, readers = layout_of(load.result), self.target, conversions(load.result)
        operands = dot_operands(load.result)
        layout = operand_buffer_layout(operands, contiguous_axis(source)) if operands else None
        if layout is None:
            bits = load.result.type.element.storage_bits
            plans = [
                plan_tile_conversion(source, converted_layout(each), bits, target)
                for each in readers
            ]
            through = [plan.layout for plan in plans if isinstance(plan, SharedConversion)]
            sliced = any(is_loaded_in_slices(each.op, target) for each in readers)
            if not through and not sliced:
                return None
            if sliced or not target.has_ldmatrix:
                layout = shared_layout(source, read_layouts(readers, target), bits, target.banks)
            else:
                layout = through[0]
        return BufferedLoad(load, layout)


def specialize_option(op: Operation) -> WarpSpecialize:
    """Return what a loop's author wants."""
    return op["warp_specialize"] if op.defn is control.for_ else WarpSpecialize.AUTO


def _dots(op: Operation) -> list[Operation]:
    """Return the dots in the regions of an operation, but not in nested ones."""
    return [inner for region in op.regions for inner in region if inner.has_trait(Trait.DOT)]


def _not_none(loads: Iterable[BufferedLoad | None]) -> list[BufferedLoad]:
    return [load for load in loads if load is not None]


def _is_cached(load: Operation) -> bool:
    """Return True if a load asks for the first level of the cache, and lanes use what they load.

    Earlier, it would take registers or shared memory, and it need not wait for long.
    """
    through_shared = conversions(load.result) or dot_operands(load.result)
    return load["cache"] is CacheModifier.CA and not through_shared


def _is_tile(value: Value) -> bool:
    return isinstance(value.type, Tile)


def _is_unguarded(load: Operation) -> bool:
    """Return True if an operation loads a scalar, may be early, and no assertion is before it."""
    if not is_plain_load(load) or _is_tile(load.result):
        return False
    around = (load, *load.ancestors())
    asserts = [op for op in load.function.walk() if op.defn is debug.device_assert]
    return not any(op.block is x.block and op.is_before(x) for op in asserts for x in around)


def _orders_memory(op: Operation) -> bool:
    """Return True if loads after an operation may have to observe what others wrote.

    Those nested in it are not looked at: a walk visits them.
    """
    if op.defn.effect is Effect.NONE or op.defn is memory.load:  # most operations; flags are slow
        return bool(op.attributes.get("volatile"))
    own = Effect.SYNC in op.defn.effect or op.attributes.get("volatile")
    return own or (op.has_trait(Trait.ATOMIC) and op["order"].acquires)


def _writes(op: Operation) -> bool:
    return Effect.WRITE in op.defn.effect and "ptr" in op.defn.positions
