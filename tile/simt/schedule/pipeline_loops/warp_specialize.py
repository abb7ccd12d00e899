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

from collections.abc import Container, Iterable, Mapping, Sequence
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
from tile.simt.hopper.wgmma_layouts import staged_operands
from tile.simt.layouts.dims import WARP
from tile.simt.memory.allocate_shared import SWIZZLE_ALIGNMENT
from tile.simt.ops import cluster, order, wgmma
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS, warp_specialize
from tile.simt.schedule.pipeline_loops.buffer_readers import (
    dot_operands,
    last_read,
    nested_operands,
    operand_uses,
    ops_in_body,
    register_operand_dots,
    stage_readers,
)
from tile.simt.schedule.pipeline_loops.channels import TmaChannel, mbarriers_type
from tile.simt.schedule.pipeline_loops.loop_schedule import LoopSchedule, Point, Rank
from tile.simt.schedule.pipeline_loops.multi_buffer import (
    BufferedLoad,
    count_through,
    in_stages,
)
from tile.simt.schedule.pipeline_loops.multicast import Pairing, UnsuitableLoopError
from tile.simt.schedule.pipeline_loops.select_loads import LoopPlan, LoopPlanner
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


@dataclass(frozen=True)
class ChannelLoads:
    """The loads of one iteration of a loop that go through a channel.

    behind: as for `TmaChannel`.
    """

    loads: tuple[BufferedLoad, ...]
    behind: int = 0

    @property
    def signature(self) -> object:
        """A value that is equal for loops which can share a channel."""
        return tuple(each.buffer for each in in_stages(self.loads, 1)), self.behind

    @property
    def bytes(self) -> int:
        """The size of one stage, in bytes."""
        return sum(each.buffer.stage_bytes for each in self.loads) + 2 * mbarriers_type(1).bytes


@dataclass(frozen=True)
class SpecializedLoop:
    """A loop whose TMA loads the producer issues.

    groups: the loads of each channel. Loops share channels with equal keys.
    plan: None for a loop around others, of which it only loads operands.
    """

    loop: Operation
    groups: dict[object, ChannelLoads]
    plan: LoopPlan | None = None
    in_flight: InFlightWgmma | None = None

    @property
    def loads(self) -> list[BufferedLoad]:
        return [load for group in self.groups.values() for load in group.loads]


class Specialization:
    """The plan of a kernel whose TMA loads are issued by producer warps; `build` changes it.

    The producer issues loads of the loops around as well if it can, of tiles that wgmmas of inner
    loops read, into channels of one stage: while the program ends the iteration before, once that
    has left its inner loops.

    stages: of the channels of `plans`.
    repeated: the loads of scalars that the producer does as well as the program.
    stores: the stores in loops that overlap with what follows then, in strips as wide as costs no
        stage.
    warps, bytes: the program's warps, and the bytes of shared memory of all.
    tiles: the registers of a thread for tiles in loops.
    """

    def __init__(
        self,
        planner: LoopPlanner,
        plans: Sequence[LoopPlan],
        stores: Sequence[TmaStore],
        *,
        fewer_stages: bool,
    ) -> None:
        """Plan for all loops of a kernel that have TMA loads.

        fewer_stages: True if channels may have fewer stages than the plans: buffers of the program
            that share memory with those of the loops otherwise are live at the same time now.

        Raises `UnsuitableLoopError` if that cannot be.
        """
        self.function, self.resources, self.plans = planner.function, planner.resources, plans
        loads = [load for plan in plans for load in plan.async_loads]
        dots = [reader.op for load in loads for reader in load.operands]
        if not dots:
            raise UnsuitableLoopError("no wgmma reads what TMA loads", plans[0].loop)
        self.loops = [_specialized(plan, self.resources) for plan in plans]
        self._check_nesting()
        repeatable = planner.repeatable_loads()
        self.repeated = self._check_scalar(loads, repeatable)
        for outer in planner.outer_loads(plans):
            with suppress(UnsuitableLoopError):
                self.repeated |= self._check_scalar([outer], repeatable)
                assert outer.load.parent is not None
                loop, group = outer.load.parent, ChannelLoads((outer,))
                self.loops.append(SpecializedLoop(loop, {outer: group}))
        self.warps = layout_of(dots[0].result).in_size(WARP)
        self.tiles = self._check_registers(self._dead_values(stores))
        groups = dict(chain.from_iterable(x.groups.items() for x in self.loops if x.plan))
        planned = max(plan.stages for plan in plans)
        stage = sum(group.bytes for group in groups.values())
        for columns in STRIP_COLUMNS:
            self.stores = [store.in_strips(columns) for store in stores]
            other = self._other_bytes()
            left = self.resources.target.shared_bytes - other
            self.stages = min(planned, left // stage)
            if self.stages == planned:
                break
        self.bytes = self.stages * stage + other
        if self.stages < (2 if fewer_stages else planned):
            raise UnsuitableLoopError(
                f"its channels would have {self.stages} stages: of {left} bytes of shared memory, "
                f"a stage takes {stage}",
                plans[0].loop,
            )

    def build(self, schedules: Mapping[Operation, LoopSchedule], *, multicast: bool) -> None:
        """Give the TMA loads to producer warps.

        schedules: of the loops, which get what `expand-schedules` moves.
        multicast: True if programs may be in clusters of two.
        """
        body = self.function.body
        build = LayoutBuilder(body, body.first, self.function.loc)
        pairing = self._pairing(build) if multicast else None
        channels: dict[object, TmaChannel] = {}
        for each in self.loops:
            stages, pair = (self.stages, pairing) if each.plan else (1, None)
            for key, group in each.groups.items():
                if key not in channels:
                    loads = in_stages(group.loads, stages)
                    channels[key] = TmaChannel(build, loads, self.warps, group.behind, pair)
        build.op(wgmma.fence_proxy_async)
        ready, start = build.op(memory.barrier), build.constant(0, I32)
        counts: dict[object, dict[Operation, Value]] = {}
        for key in channels:
            users = {each.loop for each in self.loops if key in each.groups}
            counts[key] = count_through(body, users, start)
        issued: list[Operation] = []
        for each in self.loops:
            schedule = schedules.get(each.loop, LoopSchedule(each.loop))
            issued += self._lower(each, channels, counts, schedule)
        after, producer = LayoutBuilder.after(ready), _slice_off(self.function, ready, issued)
        if pairing:
            _synchronize_cluster(after, relaxed=True)  # mbarriers are initialized
        registers = self.resources.program_registers(
            self.warps, self.tiles, _instruction_registers(self.function), self.bytes
        )
        after.op(
            warp_specialize,
            regions=(producer,),
            num_warps=PRODUCER_WARPS,
            registers=(PRODUCER_REGISTERS, registers),
        )
        if pairing:  # no peer arrives on mbarriers after that
            waits = chain.from_iterable(channel.full.users for channel in channels.values())
            last = _after_last(body, waits)
            _synchronize_cluster(last)
        for channel in channels.values():
            channel.end(last if pairing else _after_last(body, channel.full.users))
        ordered_waits = [op for op in body.walk() if op.defn is order.order_wait]
        if ordered_waits:
            after.op(order.order_arrive, only=self.warps // WARPGROUP_WARPS - 1)
            _after_last(body, ordered_waits).op(order.order_wait, only=0)
        lower_loop_stores(self.stores)
        for each in self.loops:
            _publish_operands(each.loop)

    # -- analysis

    def _check_nesting(self) -> None:
        if not self.function.kernel:
            reason = "it is in a function that is not inlined"
            raise UnsuitableLoopError(reason, self.plans[0].loop)
        for each in self.loops:
            for outer in each.loop.ancestors():
                if outer.defn is not control.for_:
                    raise UnsuitableLoopError(f"it is nested in `{outer.name}`", each.loop)

    def _other_bytes(self) -> int:
        """Return the bytes that the kernel takes besides the channels, while these are live."""
        reads: set[BufferRead] = {x.conversion for x in self.stores if x.conversion is not None}
        staging = staging_bytes(store for store in self.stores if store.op.defn is memory.store)
        # Mbarriers and buffers are aligned, which may cost some bytes each.
        padding = staging + SWIZZLE_ALIGNMENT * (len(self.stores) + 1)
        for each in self.loops:
            padding += len(each.groups) * 2 * ALIGNMENT
            if each.plan:
                reads |= each.plan.buffer_reads
                continue
            for load in each.loads:
                padding += align_up(load.bytes)
                reads |= operand_uses(nested_operands(load.load.result))
        inner = [each.loop for each in self.loops if each.plan]
        return self.resources.shared.taken_until(self.function, inner, reads) + padding

    def _check_scalar(
        self, loads: Sequence[BufferedLoad], repeatable: frozenset[Operation]
    ) -> frozenset[Operation]:
        """Raise unless all that the TMA loads need is scalars, which each producer thread computes.

        They need their addresses, and what controls the loops around them. Returns the loads of
        scalars among that, which are `repeatable`.
        """
        blocks = [block_pointers_of(load.load) for load in loads]
        addresses = [value for op in blocks if op is not None for value in op.inputs[1:]]
        ops, values = dependences(addresses, [plan.loop for plan in self.plans])
        for op in self.function.walk():
            if op not in ops or op.defn.terminator:
                continue
            needed = values.intersection((*op.inputs, *op.results))
            if any(isinstance(value.type, Tile) for value in needed):
                raise UnsuitableLoopError("the address of a load needs a tile", op)
            if not (is_pure(op) or op.has_trait(Trait.LOOP) or op in repeatable):
                raise UnsuitableLoopError(
                    f"the address of a load needs a `{op.name}`, which may be done only once", op
                )
        return repeatable.intersection(ops)

    def _dead_values(self, stores: Iterable[TmaStore]) -> set[Value]:
        """Return values that threads do not compute: blocks that wgmmas read, and pointers."""
        loads = [load for each in self.loops for load in each.loads]
        operands = [value for load in loads for value in load.load.inputs]
        operands += [x for store in stores for x in store.op.inputs if x is not store.op["value"]]
        _, dead = dependences(operands, [each.loop for each in self.loops])
        for load in loads:
            dead.add(load.load.result)
            readers = load.operands or nested_operands(load.load.result)
            dead.update(op.result for reader in readers for op in reader.between)
        return dead

    def _check_registers(self, dead: Container[Value]) -> int:
        """Return the registers of a thread for tiles in loops, besides those of `dead` values.

        Raises if a producer leaves threads too few for these, or for a wgmma.
        """
        warps, resources, loop = self.warps, self.resources, self.plans[0].loop
        needed, at_entry = _instruction_registers(self.function), resources.at_entry(warps)
        if needed > at_entry:
            raise UnsuitableLoopError(
                f"a wgmma takes {needed} registers of each thread, and the "
                f"{warps + PRODUCER_WARPS} warps have {at_entry} at entry",
                loop,
            )
        live = liveness(self.function)
        tiles = max(pressure(plan.loop, live, resources.target, dead) for plan in self.plans)
        left = resources.consumer_registers(warps)
        if left < min(tiles, MOST_PROGRAM_REGISTERS) and tiles <= resources.without_producer(warps):
            raise UnsuitableLoopError(
                f"the tiles of a thread take {tiles} registers, and a producer leaves {left} to "
                f"each thread of {warps} warps",
                loop,
            )
        return tiles

    # -- build

    def _pairing(self, top: LayoutBuilder) -> Pairing | None:
        """Pair the programs of clusters in all loops; warn if no load can be multicast."""
        try:
            pairing = Pairing(self.function, [plan.loop for plan in self.plans])
        except UnsuitableLoopError as error:
            warn(f"num_ctas={cluster.PAIR} multicasts no loads of this loop: {error}", error.op.loc)
            return None
        loads = chain.from_iterable(plan.async_loads for plan in self.plans)
        if not any(map(pairing.can_share, loads)):
            return None
        pairing.build(top)
        return pairing

    def _lower(
        self,
        each: SpecializedLoop,
        channels: Mapping[object, TmaChannel],
        counts: Mapping[object, Mapping[Operation, Value]],
        schedule: LoopSchedule,
    ) -> list[Operation]:
        """Make a loop issue loads to its channels, and read these; return what issues loads."""
        in_flight, (body,) = each.in_flight, each.loop.regions
        completed, leading, deferred = None, tuple[Operation, ...](), None
        if in_flight is not None:
            leading, deferred = in_flight.leading, in_flight.deferred
            completed = schedule_in_flight(in_flight, schedule)
        if deferred is not None:
            deferred = deferred.half_way()
            deferred.schedule(schedule)
            if self.resources.target.tuning.ordered_warpgroups and self.warps > WARPGROUP_WARPS:
                LayoutBuilder.before(leading[0]).op(order.order_wait)
                LayoutBuilder.after(deferred.first).op(order.order_arrive)
        last = ops_in_body(body, [load.load for load in each.loads])[-1]
        issue = LayoutBuilder(body, last, each.loop.loc)
        issued: list[Operation] = []
        for key, group in each.groups.items():
            channel, iteration = channels[key], counts[key][each.loop]
            issued.append(channel.wait_until_empty(issue, iteration))
            issued += channel.issue(issue, group.loads, {}, iteration)
            stages = channel.replace_loads(group.loads, iteration)
            in_order = ops_in_body(body, chain.from_iterable(map(stage_readers, stages)))
            readers = {*in_order}
            wait = channel.wait(LayoutBuilder.before(in_order[0]), iteration)
            if in_flight is not None and not readers.isdisjoint(leading[1:]):
                schedule.add(in_flight.point, Rank.LEADING, 0, [wait])
            point = _release_point(body, in_order, group, completed)
            release = channel.release(LayoutBuilder.after(point), iteration)
            if deferred is not None and deferred.dot in in_order:
                if in_order == [deferred.dot]:
                    deferred.begins(schedule, [wait])
                    # Ptxas moves nothing across the loop of a wait. Without this one, whose phase
                    # has completed, it would wait for the dot before what threads compute.
                    again = channel.wait(LayoutBuilder.before(deferred.wait), iteration)
                    deferred.ends(schedule, [again])
                deferred.ends(schedule, [release])
        each.loop.attributes["num_stages"] = 1
        return issued


def _publish_operands(loop: Operation) -> None:
    """Insert a barrier in front of a loop whose wgmmas read what threads stored there.

    That is only if its iterations store operands, too. Then the loop has barriers, of which one at
    its start would do for both; later ones let warpgroups drift apart.
    """
    (body,) = loop.regions
    dots = [op for op in body if op.defn is wgmma.wgmma]
    operands = [dot.inputs[index] for dot in dots for index in staged_operands(dot)]
    if len({value.block is body for value in operands}) == 2:
        LayoutBuilder.before(loop).op(memory.barrier)


def plan_in_flight(plan: LoopPlan, resources: Resources) -> InFlightWgmma | None:
    """Return the wgmmas that stay in flight if a producer issues the loads of a loop."""
    operands = plan.double_buffered
    return find_in_flight(plan.loop, plan.async_loads, resources, operands, producer=True)


def _specialized(plan: LoopPlan, resources: Resources) -> SpecializedLoop:
    for load in plan.async_loads:
        if not load.tma:
            raise UnsuitableLoopError("a load of its loop is no TMA load", load.load)
    if plan.double_buffered:
        raise UnsuitableLoopError("an operand that it computes is double-buffered", plan.loop)
    in_flight = plan_in_flight(plan, resources)
    by_dots: dict[frozenset[Operation], list[BufferedLoad]] = {}
    for load in plan.async_loads:
        dots = frozenset(operand.op for operand in dot_operands(load.load.result))
        dots |= register_operand_dots(load.load.result)
        by_dots.setdefault(dots, []).append(load)
    carried = set() if in_flight is None else {*in_flight.loop_carried}
    groups: dict[object, ChannelLoads] = {}
    for dots, alike in by_dots.items():
        group = ChannelLoads(tuple(alike), int(bool(dots & carried)))
        same = sum(other.signature == group.signature for other in groups.values())
        groups[group.signature, same] = group
    return SpecializedLoop(plan.loop, groups, plan, in_flight)


def _synchronize_cluster(build: LayoutBuilder, *, relaxed: bool = False) -> None:
    build.op(cluster.cluster_arrive, relaxed=relaxed)
    build.op(cluster.cluster_wait)


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
    return LayoutBuilder.after(ops_in_body(block, ops)[-1])


def _release_point(
    body: Block, readers: Sequence[Operation], group: ChannelLoads, completed: Point | None
) -> Operation:
    """Return the operation after which a stage is released.

    That is the one of the previous iteration, if its readers stay in flight until then.
    """
    if group.behind:
        assert completed is not None and completed.op is not None and completed.after
        return completed.op
    return last_read(body, readers)
