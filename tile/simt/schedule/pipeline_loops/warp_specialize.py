"""Warp specialization: TMA loads are issued by producer warps, several iterations ahead.

Loops are lowered as for one partition (`lower_loads`): they issue loads to channels, wait for them,
and release what they have read. Then the kernel is sliced in two. The producer's slice is a clone
of the kernel in which only the issues are left, with the loops around them and the scalars that
they need. The program keeps the rest, with its layouts.

    %x = load %p                              warp_specialize {..} {
    for .. {                                    for .. iter(%i = ..) {
      %y = load %q                                mbarrier_wait %empty, %i {stage_offset = -3}
      %r = wgmma %x, %y, %a                       tma_load ..
      %s = wgmma_wait %r {pending = 0}          }
      yield %s                                  yield
    }                                         }
                                              %x = load %p
                                              for .. iter(.., %i = %0) {
                                                mbarrier_wait %full, %i
                                                %y = local_subview %m, %i
                                                %r = wgmma %x, %y, %a
                                                %s = wgmma_wait %r {pending = 1}
                                                mbarrier_arrive %empty, %i
                                                yield %s, ..
                                              }

No barrier of the program is left in such a loop, so its warpgroups drift apart as they must. A loop
whose addresses need a tile, or something that only the program can compute, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from tile.analysis.liveness import liveness
from tile.ir.core import Block, Function, Operation, Value, clone
from tile.ir.effects import is_pure
from tile.ir.op_definition import Trait
from tile.ir.ops import control, memory
from tile.ir.ops.descriptor import block_pointers_of
from tile.ir.types import I32, Tile
from tile.simt.hopper.tma_store import STRIP_COLUMNS, TmaStore, lower_loop_stores, staging_bytes
from tile.simt.layouts.dims import WARP
from tile.simt.memory.allocate_shared import SWIZZLE_ALIGNMENT
from tile.simt.ops import cluster, order, shared, wgmma
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS, warp_specialize
from tile.simt.schedule.pipeline_loops.buffer_readers import (
    dot_operands,
    nested_operands,
    operand_uses,
    read_operands,
    register_operand_dots,
)
from tile.simt.schedule.pipeline_loops.channels import Pair, TmaChannel
from tile.simt.schedule.pipeline_loops.loop_schedule import LoopSchedule, Point, Rank
from tile.simt.schedule.pipeline_loops.lower_loads import clone_addresses
from tile.simt.schedule.pipeline_loops.multi_buffer import (
    BufferedLoad,
    count_through,
    in_stages,
    stage,
)
from tile.simt.schedule.pipeline_loops.multicast import CannotMulticastError, LoopPair, Pairing
from tile.simt.schedule.pipeline_loops.select_loads import LoopPlan
from tile.simt.schedule.pipeline_loops.wgmma_overlap import (
    InFlightWgmma,
    find_in_flight,
    schedule_in_flight,
)
from tile.simt.schedule.resources import (
    MOST_PROGRAM_REGISTERS,
    PRODUCER_REGISTERS,
    PRODUCER_WARPS,
    Resources,
    pressure,
)
from tile.simt.schedule.shared_memory import ALIGNMENT, BufferRead, align_up
from tile.tracebacks import warn
from tile.transforms.dce import dependences, retain

MBARRIER_BYTES = 8


class CannotSpecializeError(Exception):
    """A kernel cannot be warp-specialized, for the reason that is the message."""

    def __init__(self, reason: str, op: Operation) -> None:
        super().__init__(reason)
        self.op = op


@dataclass(frozen=True)
class ChannelLoads:
    """The loads of one iteration of a loop that go through a channel.

    behind: as for `TmaChannel`.
    """

    loads: tuple[BufferedLoad, ...]
    behind: int

    @property
    def signature(self) -> object:
        """A value that is equal for loops which can share a channel."""
        return tuple(each.buffer for each in in_stages(self.loads, 1)), self.behind

    @property
    def bytes(self) -> int:
        """The size of one stage, in bytes."""
        return sum(each.buffer.stage_bytes for each in self.loads)


@dataclass(frozen=True)
class SpecializedLoop:
    """A loop whose TMA loads the producer issues.

    groups: the loads of each channel. Loops share channels with equal keys.
    """

    plan: LoopPlan
    in_flight: InFlightWgmma | None
    groups: dict[object, ChannelLoads]

    @property
    def loop(self) -> Operation:
        return self.plan.loop


@dataclass(frozen=True)
class Specialized:
    """The plans of loops whose TMA loads a producer issues, and what decides its registers.

    partition: the producer, None without any.
    repeated: the loads of scalars that it does as well.
    channels: what it writes.
    warps, bytes: the program's warps, and its bytes of shared memory.
    """

    plans: Sequence[LoopPlan] = ()
    partition: Operation | None = None
    repeated: frozenset[Operation] = frozenset()
    channels: Sequence[TmaChannel] = ()
    warps: int = 0
    bytes: int = 0

    def assign_registers(self, resources: Resources) -> None:
        """Give the program the registers that its loops need without what is dead in them.

        Loads that the producer issues, and their pointers, are removed by then. That rebuilds loops
        that carried pointers, so the loops are found by their waits.
        """
        if self.partition is None:
            return
        users = chain.from_iterable(channel.full.users for channel in self.channels)
        enclosing = [list(user.ancestors()) for user in users]
        loops = {ops[0] for ops in enclosing if ops and self.partition not in ops}
        live = liveness(self.partition.function)
        tiles = max(pressure(loop, live, resources.target) for loop in loops)
        instruction = _instruction_registers(self.partition.function)
        registers = resources.program_registers(self.warps, tiles, instruction, self.bytes)
        self.partition.attributes["registers"] = PRODUCER_REGISTERS, registers


def specialize(
    function: Function,
    plans: Sequence[LoopPlan],
    stores: Sequence[TmaStore],
    resources: Resources,
    schedules: Mapping[Operation, LoopSchedule],
    outer_loads: Sequence[BufferedLoad] = (),
    repeatable: frozenset[Operation] = frozenset(),
    *,
    fewer_stages: bool,
    multicast: bool = False,
) -> Specialized:
    """Give the TMA loads of `plans`, all loops of a kernel that have some, to producer warps.

    stores: the stores in loops that overlap with what follows then, in strips as wide as costs no
        stage.
    schedules: of the loops, which get what `expand-schedules` moves.
    outer_loads: loads of the loops around, whose tiles wgmmas of inner loops read. The producer
        issues them as well if it can, into channels of one stage: while the program ends the
        iteration before, once that has left its inner loops.
    repeatable: the loads of scalars that it may do as well.
    fewer_stages: True if channels may have fewer stages than the plans: buffers of the program that
        share memory with those of the loops otherwise are live at the same time now.
    multicast: True if programs may be in clusters of two.

    Raises `CannotSpecializeError`, with nothing changed, if that cannot be. The registers of the
    program are assigned later.
    """
    if not plans:
        return Specialized()
    loops = [_specialized(plan, resources) for plan in plans]
    _check_nesting(function, loops)
    loads = [load for plan in plans for load in plan.async_loads]
    repeated = _check_scalar(function, loads, plans, repeatable)
    computable: list[BufferedLoad] = []
    for each in outer_loads:
        with suppress(CannotSpecializeError):
            repeated |= _check_scalar(function, [each], plans, repeatable)
            computable.append(each)
    outer_loads = computable
    warps = _warps(loops[0])
    _check_registers(function, plans, warps, resources)
    planned, stage = max(plan.stages for plan in plans), _stage_bytes(loops)
    for columns in STRIP_COLUMNS:
        stores = [store.in_strips(columns) for store in stores]
        other = _other_bytes(function, loops, stores, outer_loads, resources)
        left = resources.target.shared_bytes - other
        stages = min(planned, left // stage)
        if stages == planned:
            break
    if stages < (2 if fewer_stages else planned):
        raise CannotSpecializeError(
            f"its channels would have {stages} stages: of {left} bytes of shared memory, a stage "
            f"takes {stage}",
            plans[0].loop,
        )
    top = function.body.first
    assert top is not None
    build = LayoutBuilder(function.body, top, function.loc)
    pairs = _pairs(function, plans, build) if multicast else {}
    programs = cluster.PAIR if pairs else 1
    made = {
        key: TmaChannel(
            build,
            in_stages(group.loads, stages),
            readers=warps,
            behind=group.behind,
            programs=programs,
        )
        for key, group in _groups(loops).items()
    }
    channels = {each.loop: [made[key] for key in each.groups] for each in loops}
    by_outer = {TmaChannel(build, [each], readers=warps): each for each in outer_loads}
    for channel, outer in by_outer.items():
        assert outer.load.parent is not None
        channels.setdefault(outer.load.parent, []).append(channel)
    build.op(wgmma.fence_proxy_async)
    ready = build.op(memory.barrier)
    start = dict.fromkeys(chain(*channels.values()), build.constant(0, I32))
    by_loop = {each.loop: each for each in loops}
    issued: list[Operation] = []

    def visit(loop: Operation, at: dict[TmaChannel, Value]) -> None:
        own = [channel for channel in channels[loop] if channel not in by_outer]
        if loop in by_loop:
            pair, schedule = pairs.get(loop), schedules[loop]
            issued.extend(_lower(by_loop[loop], own, at, schedule, pair, ordered=ordered))
        for channel in channels[loop]:
            if channel in by_outer:
                issued.extend(_lower_outer(by_outer[channel], channel, at[channel]))

    ordered = resources.target.tuning.ordered_warpgroups and warps > WARPGROUP_WARPS
    count_through(function.body, channels, start, visit)
    after, producer = LayoutBuilder.after(ready), _slice_off(function, ready, issued)
    if pairs:
        _synchronize_cluster(after, relaxed=True)  # mbarriers are initialized
    partition = after.op(
        warp_specialize,
        regions=(producer,),
        num_warps=PRODUCER_WARPS,
        registers=(PRODUCER_REGISTERS, MOST_PROGRAM_REGISTERS),
    )
    if pairs:  # no peer arrives on mbarriers after that
        last = _after_last(function.body, chain(*[channel.full.users for channel in start]))
        _synchronize_cluster(last)
    for channel in start:
        channel.end(last if pairs else _after_last(function.body, channel.full.users))
    waits = [op for op in function.walk() if op.defn is order.order_wait]
    if waits:
        after.op(order.order_arrive, only=warps // WARPGROUP_WARPS - 1)
        _after_last(function.body, waits).op(order.order_wait, only=0)
    lower_loop_stores(stores)
    inner = tuple(channel for channel in start if channel not in by_outer)
    return Specialized(plans, partition, repeated, inner, warps, stages * stage + other)


# -- analysis


def plan_in_flight(plan: LoopPlan, resources: Resources) -> InFlightWgmma | None:
    """Return the wgmmas that stay in flight if a producer issues the loads of a loop."""
    operands = plan.double_buffered
    return find_in_flight(plan.loop, plan.async_loads, resources, operands, producer=True)


def _specialized(plan: LoopPlan, resources: Resources) -> SpecializedLoop:
    loads = plan.async_loads
    if not all(load.tma for load in loads):
        other = next(load for load in loads if not load.tma)
        raise CannotSpecializeError("a load of its loop is no TMA load", other.load)
    in_flight = plan_in_flight(plan, resources)
    if plan.double_buffered:
        raise CannotSpecializeError("an operand that it computes is double-buffered", plan.loop)
    by_dots: dict[frozenset[Operation], list[BufferedLoad]] = {}
    for load in loads:
        dots = frozenset(operand.op for operand in dot_operands(load.load.result))
        dots |= register_operand_dots(load.load.result)
        by_dots.setdefault(dots, []).append(load)
    carried = set() if in_flight is None else {*in_flight.loop_carried}
    groups: dict[object, ChannelLoads] = {}
    for dots, alike in by_dots.items():
        group = ChannelLoads(tuple(alike), int(bool(dots & carried)))
        same = sum(other.signature == group.signature for other in groups.values())
        groups[group.signature, same] = group
    return SpecializedLoop(plan, in_flight, groups)


def _check_nesting(function: Function, loops: Sequence[SpecializedLoop]) -> None:
    if not function.kernel:
        raise CannotSpecializeError("it is in a function that is not inlined", loops[0].loop)
    for each in loops:
        for outer in each.loop.ancestors():
            if outer.defn is not control.for_:
                raise CannotSpecializeError(f"it is nested in `{outer.name}`", each.loop)


def _warps(loop: SpecializedLoop) -> int:
    operands = chain.from_iterable(dot_operands(x.load.result) for x in loop.plan.async_loads)
    dot = next(operands).op
    return layout_of(dot.result).in_size(WARP)


def _groups(loops: Sequence[SpecializedLoop]) -> dict[object, ChannelLoads]:
    """Return the loads of each channel, in one of its loops."""
    return dict(chain(*[each.groups.items() for each in loops]))


def _stage_bytes(loops: Sequence[SpecializedLoop]) -> int:
    """Return the bytes of a stage of all channels, with its mbarriers."""
    return sum(group.bytes + 2 * MBARRIER_BYTES for group in _groups(loops).values())


def _other_bytes(
    function: Function,
    loops: Sequence[SpecializedLoop],
    stores: Sequence[TmaStore],
    outer_loads: Sequence[BufferedLoad],
    resources: Resources,
) -> int:
    """Return the bytes that the kernel takes besides the channels of `loops`, while these live."""
    reads: set[BufferRead] = {read for each in loops for read in each.plan.buffer_reads}
    reads.update(*[operand_uses(nested_operands(each.load.result)) for each in outer_loads])
    reads |= {store.conversion for store in stores if store.conversion is not None}
    # Mbarriers and buffers are aligned, which may cost some bytes each.
    padding = sum(len(each.groups) for each in loops) * 2 * ALIGNMENT + SWIZZLE_ALIGNMENT
    staging = staging_bytes(store for store in stores if store.op.defn is memory.store)
    padding += staging + SWIZZLE_ALIGNMENT * len(stores)
    padding += sum(align_up(each.bytes) + 2 * ALIGNMENT for each in outer_loads)
    return resources.shared.taken_until(function, [each.loop for each in loops], reads) + padding


def _check_scalar(
    function: Function,
    loads: Sequence[BufferedLoad],
    plans: Sequence[LoopPlan],
    repeatable: frozenset[Operation],
) -> frozenset[Operation]:
    """Raise unless all that the TMA loads need is scalars, which each producer thread can compute.

    They need their addresses, and what controls the loops around them. Returns the loads of scalars
    among that, which are `repeatable`.
    """
    blocks = [block_pointers_of(load.load) for load in loads]
    addresses = [value for op in blocks if op is not None for value in op.inputs[1:]]
    ops, values = dependences(addresses, [plan.loop for plan in plans])
    for op in function.walk():
        if op not in ops or op.defn.terminator:
            continue
        if any(
            isinstance(value.type, Tile) and value in values for value in (*op.inputs, *op.results)
        ):
            raise CannotSpecializeError("the address of a load needs a tile", op)
        if not (is_pure(op) or op.has_trait(Trait.LOOP) or op in repeatable):
            raise CannotSpecializeError(
                f"the address of a load needs a `{op.name}`, which may be done only once", op
            )
    return repeatable.intersection(ops)


def _check_registers(
    function: Function, plans: Sequence[LoopPlan], warps: int, resources: Resources
) -> None:
    """Raise if a producer leaves threads too few registers for a wgmma, or for their tiles."""
    needed, at_entry = _instruction_registers(function), resources.at_entry(warps)
    if needed > at_entry:
        raise CannotSpecializeError(
            f"a wgmma takes {needed} registers of each thread, and the {warps + PRODUCER_WARPS} "
            f"warps have {at_entry} at entry",
            plans[0].loop,
        )
    tiles, left = _tile_registers(function, plans, resources), resources.consumer_registers(warps)
    if left < min(tiles, MOST_PROGRAM_REGISTERS) and tiles <= resources.without_producer(warps):
        raise CannotSpecializeError(
            f"the tiles of a thread take {tiles} registers, and a producer leaves {left} to each "
            f"thread of {warps} warps",
            plans[0].loop,
        )


def _tile_registers(function: Function, plans: Sequence[LoopPlan], resources: Resources) -> int:
    """Return the registers of a thread for tiles, besides those with which blocks are loaded."""
    loads = [load.load for plan in plans for load in plan.async_loads]
    operands = [value for load in loads for value in load.inputs]
    _, addresses = dependences(operands, [plan.loop for plan in plans])
    without = addresses | {load.result for load in loads}
    live = liveness(function)
    return max(pressure(plan.loop, live, resources.target, without) for plan in plans)


# -- build


def _pairs(
    function: Function, plans: Sequence[LoopPlan], top: LayoutBuilder
) -> dict[Operation, Pair]:
    """Pair the programs of clusters in all loops; warn if none of their loads can be multicast."""
    try:
        pairing = Pairing.of(function, [plan.loop for plan in plans])
    except CannotMulticastError as error:
        warn(f"num_ctas={cluster.PAIR} multicasts no loads of this loop: {error}", error.op.loc)
        return {}
    loads = chain.from_iterable(plan.async_loads for plan in plans)
    if not any(map(pairing.can_share, loads)):
        return {}
    paired = pairing.build(top)
    return {plan.loop: LoopPair(pairing.peers, plan.loop, paired) for plan in plans}


def _synchronize_cluster(build: LayoutBuilder, *, relaxed: bool = False) -> None:
    build.op(cluster.cluster_arrive, relaxed=relaxed)
    build.op(cluster.cluster_wait)


def _lower(
    each: SpecializedLoop,
    channels: Sequence[TmaChannel],
    at: dict[TmaChannel, Value],
    schedule: LoopSchedule,
    pair: Pair | None,
    *,
    ordered: bool,
) -> list[Operation]:
    """Make a loop issue loads to its channels, and read these; return what issues loads.

    ordered: True if warpgroups issue their dots one after the other.
    """
    loop = each.loop
    (body,) = loop.regions
    completed, leading, deferred = None, tuple[Operation, ...](), None
    if each.in_flight is not None:
        leading, deferred = each.in_flight.leading[1:], each.in_flight.deferred
        completed = schedule_in_flight(each.in_flight, schedule)
    if deferred is not None:
        deferred = deferred.half_way()
        deferred.schedule(schedule)
        if ordered:
            assert each.in_flight is not None
            LayoutBuilder.before(each.in_flight.leading[0]).op(order.order_wait)
            LayoutBuilder.after(deferred.first).op(order.order_arrive)
    top, addresses, _ = clone_addresses(loop, each.plan.async_loads)
    issued: list[Operation] = []
    for group, channel in zip(each.groups.values(), channels, strict=True):
        iteration = at[channel]
        issued += channel.issue(top, group.loads, addresses, iteration, pair)
        stages = channel.replace_loads(group.loads, iteration)
        in_order = _in_body(body, chain.from_iterable(map(_readers, stages)))
        readers = {*in_order}
        wait = channel.wait(LayoutBuilder.before(in_order[0]), iteration)
        if each.in_flight is not None and not readers.isdisjoint(leading):
            schedule.add(each.in_flight.point, Rank.LEADING, 0, [wait])
        point = _release_point(body, in_order, group, completed)
        release = channel.release(LayoutBuilder.after(point), iteration, pair)
        if deferred is not None and deferred.dot in in_order:
            if in_order == [deferred.dot]:
                deferred.begins(schedule, [wait])
                # Ptxas moves nothing across the loop of a wait. Without this one, whose phase has
                # completed, it would wait for the dot before what threads compute meanwhile.
                again = channel.wait(LayoutBuilder.before(deferred.wait), iteration)
                deferred.ends(schedule, [again])
            deferred.ends(schedule, [release])
    loop.attributes["num_stages"] = 1
    return issued


# Ptxas compiles a wgmma if each thread has so many registers at entry besides those of its tiles
# (C7602), whatever setmaxnreg adds: 154 in all for 64 x 256, 90 for 64 x 128.
_OTHER_INSTRUCTION_REGISTERS = 26


def _instruction_registers(function: Function) -> int:
    """Return the registers of each thread without which ptxas refuses a wgmma of a function."""
    shapes = [op["shape"] for op in function.walk() if op.defn is wgmma.wgmma]
    tiles = [m * n + m * k * bits // 32 for m, n, k, bits in shapes]
    return max(tiles, default=0) // wgmma.WARPGROUP_THREADS + _OTHER_INSTRUCTION_REGISTERS


def _slice_off(function: Function, ready: Operation, issued: Sequence[Operation]) -> Block:
    """Move what issues loads from a kernel to a producer's code, which is returned.

    That is a clone of the kernel, after `ready`, with nothing else but what these need.
    """
    block, mapping = Block(), dict[Value, Value]()
    clones: dict[Operation, Operation] = {}
    op = ready.next
    while op is not None and not op.defn.terminator:
        new = block.insert(clone(op, mapping), None)
        clones |= zip(op.walk(), new.walk(), strict=True)
        op = op.next
    end = LayoutBuilder(block, None, function.loc).op(control.yield_)
    retain(block, [*[clones[op] for op in issued], end])
    for op in issued:
        op.erase()
    return block


def _after_last(block: Block, ops: Iterable[Operation]) -> LayoutBuilder:
    """Return a builder after the last operation of a block that has one of `ops`."""
    return LayoutBuilder.after(_in_body(block, ops)[-1])


def _lower_outer(load: BufferedLoad, channel: TmaChannel, at: Value) -> list[Operation]:
    """Make wgmmas of inner loops read a channel of the loop around; return what issues the load."""
    body, build = load.load.block, LayoutBuilder.before(load.load)
    assert body is not None
    issued = channel.issue(build, [load], {}, at)
    target = stage(build, channel.buffers[0], at)
    readers = nested_operands(load.load.result)
    read_operands(readers, target)
    in_order = _in_body(body, [reader.op for reader in readers])
    channel.wait(LayoutBuilder.before(in_order[0]), at)
    channel.release(LayoutBuilder.after(in_order[-1]), at)
    return issued


def _in_body(body: Block, ops: Iterable[Operation]) -> list[Operation]:
    """Return the operations of a body that are some, or contain them, in order."""
    within = {op.within(body) for op in ops}
    return [op for op in body if op in within]


def _readers(stage: Value) -> Iterator[Operation]:
    """Yield the operations that read a subview of a buffer, through views of it."""
    for op in stage.users:
        if op.defn in shared.VIEWS:
            yield from _readers(op.result)
        else:
            yield op


def _release_point(
    body: Block, readers: Sequence[Operation], group: ChannelLoads, completed: Point | None
) -> Operation:
    """Return the operation after which a stage is released.

    That is the one of the previous iteration, if its readers stay in flight until then.
    """
    if group.behind:
        assert completed is not None and completed.op is not None and completed.after
        return completed.op
    dots = [op for op in readers if op.defn is wgmma.wgmma]
    waits = chain.from_iterable(dot.result.users for dot in dots)
    return _in_body(body, [*readers, *waits])[-1]
