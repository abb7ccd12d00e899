"""Channels: multi-buffers that async copies fill, and that iterations of a loop read.

A channel has the multi-buffers of some loads, whose copies of one iteration complete together: in a
commit group of cp.async, or on an mbarrier (`full`) of TMA. Copies are issued some iterations ahead
by the threads that read the buffers, or by a producer partition. A producer waits until the program
has released a stage: until all warps have arrived on its second mbarrier, `empty`. So do threads
that issue TMA loads themselves where a barrier in each iteration would keep several warpgroups
together. In a `Pairing`, the warps of both programs arrive, and what both load is multicast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import arith
from tile.ir.ops.descriptor import block_pointers_of
from tile.ir.shared_type import Shared
from tile.ir.types import I1, I64
from tile.simt.layouts.dims import OFFSET, axis_name
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops import cluster, shared, tma
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.buffer_readers import read_from_buffer
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad, stage
from tile.simt.schedule.pipeline_loops.multicast import Pairing
from tile.simt.schedule.shared_memory import align_up

_ONE = LinearLayout(((OFFSET, ()),), ((axis_name(0), 0),))


class Channel:
    """Multi-buffers of some loads, of as many stages each: filled by cp.async in commit groups."""

    def __init__(self, build: LayoutBuilder, loads: Sequence[BufferedLoad]) -> None:
        self.stages = loads[0].stages
        self.buffers = [load.allocate(build) for load in loads]

    def issue(
        self,
        build: LayoutBuilder,
        loads: Sequence[BufferedLoad],
        mapping: Mapping[Value, Value],
        at: Value,
    ) -> list[Operation]:
        """Issue the copies of an iteration.

        loads: of the iteration's loop. mapping: what stands for the values that they use.
        """
        copies = []
        for each, buffer in zip(loads, self.buffers, strict=True):
            load = each.load
            with build.at(load.loc):
                ptr, mask = (mapping.get(load[name], load[name]) for name in ("ptr", "mask"))
                hints = {name: load[name] for name in ("cache", "eviction")}
                target = stage(build, buffer, at)
                copies.append(build.op(shared.local_cp_async, target, ptr, mask, **hints))
        return [*copies, build.op(shared.cp_async_commit_group)]

    def wait(self, build: LayoutBuilder, at: Value) -> Operation:
        """Wait for the copies of an iteration."""
        return build.op(shared.cp_async_wait_group, pending=0)

    def replace_loads(self, loads: Sequence[BufferedLoad], at: Value) -> list[Value]:
        """Make the users of an iteration's loads read their stages, which are returned."""
        stages = []
        for each, buffer in zip(loads, self.buffers, strict=True):
            stages.append(stage(LayoutBuilder.before(each.load), buffer, at))
            read_from_buffer(each.load, stages[-1])
        return stages

    def end(self, build: LayoutBuilder) -> None:
        """Wait for all copies."""
        build.op(shared.cp_async_wait_group, pending=0)


class TmaChannel(Channel):
    """A channel that TMA loads fill. All loads of one iteration complete on one mbarrier.

    readers: the warps of the program that release a stage; 0 if barriers separate its reads from
        the next loads.
    behind: 1 if the program releases the stage only in the next iteration, since a wgmma that reads
        it stays in flight until then; else 0.
    pairing: of the two programs of a cluster, which both release a stage then.
    """

    def __init__(
        self,
        build: LayoutBuilder,
        loads: Sequence[BufferedLoad],
        readers: int = 0,
        behind: int = 0,
        pairing: Pairing | None = None,
    ) -> None:
        super().__init__(build, loads)
        self.bytes = sum(load.strips.bytes for load in loads)
        self.behind, self.pairing = behind, pairing
        warps = readers * (cluster.PAIR if pairing else 1)
        self.full = self._mbarriers(build, "full" if readers else "mbarriers", 1)
        self.empty = self._mbarriers(build, "empty", warps) if readers else None

    def _mbarriers(self, build: LayoutBuilder, name: str, count: int) -> Value:
        mbarriers = build(shared.local_alloc, result=mbarriers_type(self.stages))
        mbarriers.name = name
        build.op(tma.mbarrier_init, mbarriers, count=count)
        return mbarriers

    def issue(
        self,
        build: LayoutBuilder,
        loads: Sequence[BufferedLoad],
        mapping: Mapping[Value, Value],
        at: Value,
    ) -> list[Operation]:
        """Issue the TMA loads of an iteration."""
        active, size = build.constant(True, I1), self.bytes
        ops = [build.op(tma.mbarrier_arrive_expect_tx, self.full, at, active, size=size)]
        for each, buffer in zip(loads, self.buffers, strict=True):
            pointers = block_pointers_of(each.load)
            assert pointers is not None
            with build.at(each.load.loc):
                target = stage(build, buffer, at)
                array = [mapping.get(value, value) for value in pointers.inputs[1:]]
                names = ("lower", "upper", "steps") if each.issue is tma.tma_load_im2col else ()
                options = {name: pointers[name] for name in names}
                if each.extents:
                    options["extents"] = each.extents
                pairing = self.pairing if each.can_halve else None
                same = pairing.same_block(build, array) if pairing else None
                alone = active if same is None else build(arith.xor, same, active)
                ops.append(build.op(each.issue, target, self.full, at, alone, *array, **options))
                if same is not None:
                    operands = target, self.full, at, same, *array
                    ops.append(build.op(cluster.tma_load_multicast, *operands, **options))
        return ops

    def wait(self, build: LayoutBuilder, at: Value) -> Operation:
        """Wait for the loads of an iteration."""
        return build.op(tma.mbarrier_wait, self.full, at)

    def wait_until_empty(self, build: LayoutBuilder, at: Value, ahead: int = 0) -> Operation:
        """Wait until the stage that is filled for an iteration, so many `ahead`, is released.

        The program has arrived then for the iteration that used the stage before.
        """
        released = ahead + self.behind - self.stages
        return build.op(tma.mbarrier_wait, self.empty, at, stage_offset=released)

    def release(self, build: LayoutBuilder, at: Value) -> Operation:
        """Let the stage of an iteration be filled again."""
        assert self.empty is not None
        if self.pairing:
            return build.op(cluster.mbarrier_arrive_pair, self.empty, at, self.pairing.paired)
        return build.op(tma.mbarrier_arrive, self.empty, at)

    def end(self, build: LayoutBuilder) -> None:
        """Invalidate the mbarriers.

        No load is in flight: none is issued for iterations that do not exist, and the program has
        waited for all others.
        """
        for mbarriers in (self.full, self.empty):
            if mbarriers is not None:
                build.op(tma.mbarrier_inval, mbarriers)


def mbarrier_bytes(async_loads: Sequence[BufferedLoad]) -> int:
    """Return the bytes of shared memory that the mbarriers of asynchronous loads take, at most."""
    stages = max([load.stages for load in async_loads if load.tma], default=0)
    return 2 * align_up(mbarriers_type(stages).bytes) if stages else 0


def mbarriers_type(stages: int) -> Shared:
    """Return the type of a multi-buffer of mbarriers."""
    return Shared((1,), I64, _ONE, stages)
