"""Software pipelining of loops: loads are issued iterations before their values are used.

select_loads      the loops to pipeline, their loads, and the way in which each is prefetched
lower_loads       loads as async operations and reads of shared memory, with a schedule
loop_schedule     insertion points of a loop, from which its schedule is made
channels          multi-buffers that async copies fill: how these are issued, awaited, released
multi_buffer      multi-buffers in shared memory, by iteration
buffer_layouts    their layouts
buffer_readers    conversions and wgmmas that read the tiles of loads from their buffers
result_scales    loads of vectors that scale the results of wgmmas
recompute_operands  operands that are computed in the layout of their dots
reload_tiles      tiles that threads read from their buffers again behind reductions
slice_mma         dots of mma instructions, whose last k-slice runs an iteration later
wgmma_overlap     wgmmas in flight across iterations, and dots that run an iteration later
warp_specialize   TMA loads in producer warps
multicast         blocks that both programs of a cluster load
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from tile.analysis.alias import module_aliases
from tile.analysis.call_graph import CallGraph
from tile.analysis.liveness import liveness
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith, program
from tile.ir.ops.control import WarpSpecialize
from tile.ir.passes import module_pass
from tile.simt.hopper.block_stores import BlockStores
from tile.simt.hopper.tma_store import plan_loop_stores
from tile.simt.layouts.dims import WARP
from tile.simt.memory.expose_shared import is_whole
from tile.simt.ops import cluster, wgmma
from tile.simt.ops.layout_inference import layout_of
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS
from tile.simt.schedule.pipeline_loops.loop_schedule import LoopSchedule, Point
from tile.simt.schedule.pipeline_loops.lower_loads import lower_async_loads, lower_shared_loads
from tile.simt.schedule.pipeline_loops.multicast import UnsuitableLoopError
from tile.simt.schedule.pipeline_loops.recompute_operands import recompute_operands
from tile.simt.schedule.pipeline_loops.reload_tiles import reload_tiles
from tile.simt.schedule.pipeline_loops.select_loads import LoopPlan, LoopPlanner, specialize_option
from tile.simt.schedule.pipeline_loops.warp_specialize import (
    Specialization,
    plan_in_flight,
)
from tile.simt.schedule.resources import Resources, pressure, tile_registers
from tile.simt.target import GENERIC, SimtTarget
from tile.simt.tma_uses import NO_USES, TmaUses
from tile.tracebacks import warn
from tile.transforms.dce import remove_dead

__all__ = ["pipeline_loops"]


@module_pass("pipeline-loops", before=Level.LAID_OUT)
def pipeline_loops(
    module: Module,
    *,
    target: SimtTarget = GENERIC,
    num_stages: int = 3,
    warp_specialize: bool | None = None,
    tma: TmaUses = NO_USES,
    num_ctas: int = 1,
    maxnreg: int | None = None,
) -> None:
    """Lower loads of loops to async operations with a schedule, so that dots need not wait.

    Loads that feed a dot become async copies to a multi-buffer of `num_stages` stages in shared
    memory, which `expand-schedules` issues `num_stages` - 1 iterations early. If the target has no
    async copies, or none that suit a load, the load is done one iteration early, registers
    permitting, and so are scalars that operands are computed from. A loop with a `num_stages` of
    its own has that many stages, and its other loads are done one iteration early, too. If it has
    no dots, and no registers for these, they become copies, and threads read their buffers again
    behind a reduction instead of holding tiles throughout it (`reload_tiles`). There is a stage
    less if a second program is then co-resident and dots read registers. A loop of at most
    `num_stages` iterations, if their number is constant, has a stage for each and issues all copies
    before the first wait; `expand-schedules` unrolls it.

        for %i = %a to %n step %c {               %m = local_alloc : shared<.., stages = 3>
          %x = load %p                            for %i = %a to %n step %c iter(%k = %0) {
          %y = convert_layout %x                    %s = local_subview %m, %k
          ..                                        local_cp_async %s, %p {schedule = (-2, 0)}
          yield                                     cp_async_commit_group {schedule = (-2, 0)}
        }                                           cp_async_wait_group {pending = 0,
                                                                         schedule = (0, -1)}
                                                    %next = add %k, 1
                                                    %now = local_subview %m, %k
                                                    %y = local_load %now
                                                    ..
                                                    yield %next
                                                  }
                                                  cp_async_wait_group {pending = 0}

    Descriptor blocks that wgmmas read become TMA loads, if the target has these and the kernel
    does not write to the array: `mbarrier_init` before the loop, `mbarrier_arrive_expect_tx` and
    `tma_load` in place of a commit group, `mbarrier_wait` in place of `cp_async_wait_group`, and a
    `mbarrier_inval` after the loop. Several warpgroups that exchange nothing else, and leave no
    wgmma in flight, release stages by `mbarrier_arrive`, and wait for that before these are filled
    again. Others need a barrier there. Blocks that threads read in a loop without dots become TMA
    loads, too, if the loop has a `num_stages` of its own; they are issued behind the barrier of its
    first reduction.

    A tile that is loaded one iteration early is stored to a multi-buffer at the end of the body,
    or stays in registers if no conversion of its layout needs shared memory:

        for %i = %a to %n step %c {               for %i = %a to %n step %c iter(%k = %0) {
          %x = load %p                              %x = load %p {schedule = (-1, 0)}
          %z = load %q                              %t = load %q {schedule = (-1, 1)}
          %y = convert_layout %z                    local_store %s, %t {schedule = (-1, 2)}
          ..                                        %y = local_load %s
          yield                                     ..
        }                                         }

    A buffer can be read in any layout. So an operand that is computed from its tile, such as a
    scaled one, is computed in the layout of its dot, where that costs less than a conversion.

    If a loop has several dots and a thread lacks the registers to hold these tiles during them,
    the tiles are loaded just before the last dot.

    wgmmas read the multi-buffer itself. Registers permitting, wgmmas that need nothing else of the
    iteration are issued first, and each is waited for where its result is used. A wgmma whose
    accumulator is only loop-carried stays in flight into the next iteration. The operands that the
    iteration computes for it are then stored to two alternating buffers:

        %y = exp2 %x                              %stage = local_subview %m, %k
        %r = wgmma %a, %y, %acc                   local_store %stage, %y
        %s = wgmma_wait %r {pending = 0}          %r = wgmma %a, %stage, %acc
                                                  %s = wgmma_wait %r {pending = 1}

    Instructions of a warp, mma, take operands from registers. A dot by these is done one k-slice
    after the other, registers permitting, and the last slice in the next iteration, while the
    operands of the first one are loaded (`slice_mma`):

        %a = local_load %s                        %d = mma_dot %a0, %b0, %c
        %b = local_load %t                        %e = mma_dot %a1, %b1, %d {schedule = (1, 1)}
        %e = mma_dot %a, %b, %c                   yield %e

    With `maxnreg`, the registers that a thread has at most, wgmmas whose accumulators fit there
    overlap within an iteration, at least.

    `warp_specialize` decides for the loops that do not say whether producer warps issue their TMA
    loads; None stands for what is likely to be faster. With 2 `num_ctas`, these multicast blocks
    that both programs of a cluster load. `tma` names uses of TMA that kernels do not
    have by default.

    A load stays where it is if the loop may write the memory that it reads, or has a barrier, an
    acquiring atomic or an assertion, or if its address or mask depends on a dot of the loop.
    Where it depends on a load that may be done as early, both are, if they are not TMA loads, and
    the loop's TMA loads get no producer.
    Parameters of the kernel are taken to be disjoint unless they are `aliased`; those of a
    load and a write that it crosses are recorded (`disjoint`).
    """
    # Computed once, on first use. The loops that have been changed by then are in other functions,
    # and the arguments of their calls have not changed.
    aliases = cache(lambda: module_aliases(module))
    block_stores = BlockStores(lambda op: is_whole(op, target), tma)
    resources = Resources(target, block_stores if target.has_tma else None, maxnreg)
    for function in CallGraph(module).bottom_up():
        planner = LoopPlanner(
            function, aliases, resources, num_stages, specialized=warp_specialize is True
        )
        plans = planner.plans()
        recomputed = [recompute_operands(plan, target) for plan in plans]
        if any(recomputed):
            remove_dead(function)
            plans = planner.plans()
        planner.warn_of_pixels(plans)
        schedules = {plan.loop: LoopSchedule(plan.loop) for plan in plans}
        for plan in plans:
            if plan.prefetched:
                lower_shared_loads(plan, schedules[plan.loop], _insertion_point(plan, target))
        default, multicast = _OPTIONS[warp_specialize], num_ctas == cluster.PAIR
        specialized = _specialize(planner, plans, schedules, block_stores, default, multicast)
        for plan in plans:
            if plan.async_loads and plan not in specialized:
                lower_async_loads(plan, schedules[plan.loop], resources)
            if plan.reloads:
                reload_tiles(plan.loop.regions[0], target)
        for schedule in schedules.values():
            schedule.assign()
        if plans:
            remove_dead(function)


def _specialize(
    planner: LoopPlanner,
    plans: Sequence[LoopPlan],
    schedules: Mapping[Operation, LoopSchedule],
    block_stores: BlockStores,
    default: WarpSpecialize,
    multicast: bool,
) -> Sequence[LoopPlan]:
    """Give the TMA loads of a kernel's loops to producer warps; return the loops that get some.

    `default` is the option of loops with TMA loads that have none.

    That is done for all loops with TMA loads or for none: if one of them asks for it, or if one
    gains and no stage is lost.
    """
    function, resources = planner.function, planner.resources
    chosen = [plan for plan in plans if any(load.tma for load in plan.async_loads)]
    around = [op for plan in chosen for op in (plan.loop, *plan.loop.ancestors())]
    for plan in chosen:
        options = {specialize_option(op) for op in (plan.loop, *plan.loop.ancestors())}
        if options == {WarpSpecialize.AUTO}:
            plan.loop.attributes["warp_specialize"] = default
    asked = [op for op in function.walk() if specialize_option(op) is WarpSpecialize.ON]
    for loop in asked if resources.target.has_tma else ():
        if loop not in around:
            warn(f"{_UNCHANGED}: no TMA load feeds a dot there", loop.loc)
    off = any(specialize_option(op) is WarpSpecialize.OFF for op in around)
    wanted = asked or (not off and any(_gains(plan, resources) for plan in chosen))
    if not chosen or not wanted:
        return ()
    if any(op.defn is program.cluster_gather for op in function.walk()):
        for loop in asked:
            warn(f"{_UNCHANGED}: producer warps do not come to cluster_gather", loop.loc)
        return ()
    try:
        stores = plan_loop_stores(function, planner.aliases, block_stores)
        specialization = Specialization(planner, chosen, stores, fewer_stages=bool(asked))
        planner.rely_on_unwritten(specialization.repeated, function.walk())
        specialization.build(schedules, multicast=multicast)
    except UnsuitableLoopError as error:
        where = "" if error.op.loc is None else f", at {error.op.loc}"
        for loop in asked:
            warn(f"{_UNCHANGED}: {error}{where}", loop.loc)
        return ()
    return chosen


def _gains(plan: LoopPlan, resources: Resources) -> bool:
    """Return True if a loop is likely to be faster with a producer.

    Inside another loop, the producer runs on into its next iteration while the program ends the one
    before (H200, f16 by tiles of 128 x 256 x 64, 2026-11-23, of cuBLAS: .81 to .98 for 8192 x 8192
    x 512, 1.01 to 1.025 for 8192 cubed). A second dot that waits for threads can be deferred, which
    gains if no other program computes meanwhile (docs/notes/scheduling.md). Where threads add up
    all dots, no wgmma is in flight meanwhile; without a barrier in the loop, one warpgroup adds
    while the other's wgmmas run (H200, fp8 promoted every 128, tiles of 128 x 128 x 128 by 8 warps,
    4096 cubed, 2026-11-26: 1236 TFLOP/s, 1086 without a producer).
    """
    if plan.loop.parent is not None:
        return True
    in_flight = plan_in_flight(plan, resources)
    if in_flight is None:
        return _is_added_up(plan.loop)
    return in_flight.deferred is not None and resources.runs_alone(plan.loop)


def _is_added_up(loop: Operation) -> bool:
    """Return True if several warpgroups compute the dots of a loop, and add them up themselves."""
    dots = [op for op in loop.regions[0] if op.defn is wgmma.wgmma]
    waits = [wait for dot in dots for wait in dot.result.users]
    users = [user.defn for wait in waits for user in wait.result.users]
    alone = any(layout_of(dot.result).in_size(WARP) <= WARPGROUP_WARPS for dot in dots)
    return bool(dots) and not alone and {*users} <= {arith.add, arith.fma}


_UNCHANGED = "this loop is not warp-specialized"
_OPTIONS = {None: WarpSpecialize.AUTO, True: WarpSpecialize.ON, False: WarpSpecialize.OFF}


def _insertion_point(plan: LoopPlan, target: SimtTarget) -> Point:
    """Return the point at which threads load for the next iteration.

    That is just before the last dot if there are several, and a thread has no registers for the
    loaded tiles any earlier.
    """
    dots = [op for op in plan.loop.regions[0] if op.has_trait(Trait.DOT)]
    prefetched = sum([tile_registers(load.result) for load in plan.prefetched])
    if len(dots) < 2 or not prefetched:
        return Point()
    live = liveness(plan.loop.function)
    needed = pressure(plan.loop, live, target) + prefetched
    return Point(dots[-1]) if Resources(target).would_spill(needed) else Point()
