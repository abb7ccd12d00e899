"""Static checks of a THREAD module: missing operations, registers of wgmmas in flight.

*Accumulators* are used only after the wait that completes their wgmma. Waits are data dependences:
an accumulator flows from its wgmma through a `wgmma_wait` to its uses, also across loops and
branches. A forward dataflow analysis therefore finds every use without a wait.

*Operands* in registers are read until the wgmma is complete (PTX ISA, "Register fragments and
shared memory matrices"). A value of the IR has no registers, but it becomes some, and these are
written whenever the operation that computes it is executed, or the iteration ends that carries it.
Neither may happen in the next iteration while a wgmma of this one reads them. Operands of 32 bits
are rounded where the wgmma stands, to registers that are its own.

For each accumulator and operand of a wgmma that may be in flight, the analysis tracks its age: the
fewest wgmmas that may have started since. A wait that leaves more wgmmas pending than that does not
complete it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tile.errors import UnsupportedError, WgmmaInFlightError
from tile.ir.core import Block, Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import control, memory
from tile.ir.shared_type import Shared, shared_of
from tile.ir.types import F32, Element, Fragment, number_of
from tile.simt import ops
from tile.simt.hopper.tma_boxes import TMA_ALIGNMENT, BlockStrips, block_strips
from tile.simt.hopper.wgmma_layouts import MN_MAJOR_BITS, strips_of
from tile.simt.layouts.dims import LANE, WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import MmaShape
from tile.simt.memory.allocate_shared import SWIZZLE_ALIGNMENT
from tile.simt.ops.shared import allocation
from tile.simt.ops.wgmma import WARPGROUP_WARPS
from tile.simt.target import SimtTarget, atomic_vector_width

Check = Callable[[Operation, SimtTarget, int], None]
S = TypeVar("S")


def check_supported(op: Operation, target: SimtTarget, num_warps: int) -> None:
    """Raise `UnsupportedError` for an operation that the target does not have."""
    check = CHECKS.get(op.defn)
    if check is not None:
        check(op, target, num_warps)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UnsupportedError(message)


def _has(feature: str, what: str) -> Check:
    """Return the check of operations that a target has if it has the feature."""
    return lambda op, target, num_warps: _require(
        getattr(target, feature), f"target {target} has no {what}"
    )


def _lanes(op: Operation, target: SimtTarget, num_warps: int) -> None:
    element = number_of(op.inputs[0].type)
    supported = target.has_warp_reduce(op["kind"], element)
    _require(supported, f"target {target} has no warp reduction of {element} by {op['kind']}")


def _vector(op: Operation, target: SimtTarget, num_warps: int) -> None:
    element = memory.pointee(op.name, op["ptr"].type)
    _require_bits(op, target, element, target.vector_bits, "bits at once")


def _shared_vector(op: Operation, target: SimtTarget, num_warps: int) -> None:
    most = target.banks.vector_bits
    _require_bits(op, target, op.inputs[0].type.element, most, "bits of shared memory at once")


def _require_bits(
    op: Operation, target: SimtTarget, element: Element, most: int, what: str
) -> None:
    bits = element.storage_bits * op["vector"]
    fits = op["vector"] == 1 or bits <= most
    _require(fits, f"target {target} accesses up to {most} {what}, not {bits}")


def _atomic_vector(op: Operation, target: SimtTarget, num_warps: int) -> None:
    most = atomic_vector_width(op, target)
    _require(
        op["vector"] <= most,
        f"target {target} has atomics on up to {most} contiguous elements, not {op['vector']}",
    )


def _cp_async(op: Operation, target: SimtTarget, num_warps: int) -> None:
    size = op.inputs[0].type.element.bytes_of(op["vector"])
    sizes = ", ".join(map(str, target.cp_async_bytes)) or "none"
    _require(
        size in target.cp_async_bytes, f"target {target} copies {sizes} bytes at once, not {size}"
    )


def _mma(op: Operation, target: SimtTarget, num_warps: int) -> None:
    shape = MmaShape(*op["shape"])
    _require(shape in target.mma_shapes, f"target {target} has no mma {shape}")
    element = number_of(op.inputs[0].type)
    # Operands of f32 may also be rounded to types of fewer bits (tf32).
    supported = shape.bits < element.bits or target.has_mma(shape, element)
    _require(supported, f"target {target} has no mma {shape} for {element}")


def _wgmma(op: Operation, target: SimtTarget, num_warps: int) -> None:
    shape, (rows, columns) = MmaShape(*op["shape"]), op["warpgroups"]
    _require(shape in target.wgmma_shapes, f"target {target} has no wgmma {shape}")
    element, into = number_of(op.inputs[0].type), number_of(op.inputs[2].type)
    supported = element.bits == shape.bits and target.has_wgmma(element, into)
    _require(supported, f"target {target} has no wgmma {shape} of {element} into {into}")
    warps = WARPGROUP_WARPS * rows * columns
    _require(warps == num_warps, f"{op.name} needs {warps} warps, and there are {num_warps}")
    for mem in op.inputs[:2]:
        if isinstance(mem.type, Shared):
            _wgmma_operand(op, mem)


def _wgmma_operand(op: Operation, mem: Value) -> None:
    strips, bits = _strips(mem, strips_of), mem.type.element.storage_bits
    k_major = strips is not None and strips.along == (1 if mem is op.inputs[0] else 0)
    accepted = strips is not None and (k_major or bits in MN_MAJOR_BITS)
    _require_buffer(op, mem, accepted)


def _strips(mem: Value, strips: Callable[[LinearLayout, int], S | None]) -> S | None:
    ty = shared_of(mem.type)
    assert isinstance(ty.layout, LinearLayout)
    return strips(ty.layout, ty.of.storage_bits)


def _require_buffer(op: Operation, mem: Value, accepted: bool) -> None:
    """Require a buffer whose layout the operation accepts, aligned to its swizzle atom."""
    _require(accepted, f"{op.name} accepts no {mem.type}")
    alloc = allocation(mem)
    if alloc is not None:
        at = alloc["offset"]
        _require(at % SWIZZLE_ALIGNMENT == 0, f"{op.name} accepts no buffer at byte {at}")


_tma = _has("has_tma", "TMA")


def _tma_block(op: Operation, target: SimtTarget, num_warps: int) -> None:
    _tma(op, target, num_warps)
    mem = op.inputs[0]
    strips = _strips(mem, block_strips)
    _require_buffer(op, mem, strips is not None)
    assert strips is not None
    _require_stages_aligned(op, mem, strips)
    if op.defn is ops.cluster.tma_load_multicast:
        split = replace(strips, extents=op["extents"]).split
        _require(split is not None, f"{op.name} divides no {mem.type}")


def _require_stages_aligned(op: Operation, mem: Value, strips: BlockStrips) -> None:
    """Require that TMA boxes, in every stage, begin at addresses that TMA takes."""
    alloc = allocation(mem)
    buffer = mem.type if alloc is None else alloc.result.type
    assert isinstance(buffer, Shared)
    stages = range(buffer.stages)
    first = 0 if alloc is None else alloc["offset"]
    for stage, box in itertools.product(stages, strips.boxes()):
        at = first + stage * buffer.stage_bytes + box.byte
        _require(
            at % TMA_ALIGNMENT == 0,
            f"{op.name} copies a box of stage {stage} of {buffer} at byte {at}, which is no "
            f"multiple of {TMA_ALIGNMENT}",
        )


def _index(op: Operation, target: SimtTarget, num_warps: int) -> None:
    _layout(op["layout"], target, num_warps)


def _print(op: Operation, target: SimtTarget, num_warps: int) -> None:
    fragments = (value for value in op.inputs if isinstance(value.type, Fragment))
    for value, layout in zip(fragments, op["layouts"], strict=True):
        _layout(layout, target, num_warps)
        _require(
            value.type.shape[0] == layout.in_size("register"),
            f"{layout} is not a layout of {value.type}",
        )


def _layout(layout: LinearLayout, target: SimtTarget, num_warps: int) -> None:
    for name, size in ((LANE, target.warp_size), (WARP, num_warps)):
        _require(
            layout.in_size(name) == size,
            f"expected a layout for {size} {name}s, and {layout} has {layout.in_size(name)}",
        )


def _buffer(op: Operation, target: SimtTarget, num_warps: int) -> None:
    buffer = op.result.type
    _require(
        op["offset"] % buffer.element.itemsize == 0,
        f"{buffer} cannot begin at byte {op['offset']}",
    )


CHECKS: dict[OpDef, Check] = {
    ops.shared.local_alloc: _buffer,
    ops.thread.warp_reduce: _lanes,
    memory.load: _vector,
    memory.store: _vector,
    memory.atomic_rmw: _atomic_vector,
    ops.thread.shuffle_idx: _has("shuffles", "shuffles"),
    ops.thread.shuffle_xor: _has("shuffles", "shuffles"),
    ops.thread.shared_load: _shared_vector,
    ops.thread.ldmatrix: _has("has_ldmatrix", "ldmatrix"),
    ops.thread.stmatrix: _has("has_stmatrix", "stmatrix"),
    ops.thread.shared_store: _shared_vector,
    ops.thread.shared_cp_async: _cp_async,
    ops.thread.layout_index: _index,
    ops.thread.thread_print: _print,
    ops.mma.mma: _mma,
    ops.wgmma.wgmma: _wgmma,
    ops.tma.mbarrier_init: _tma,
    ops.warp_specialize.warp_specialize: _tma,
    ops.tma.tma_load: _tma_block,
    ops.tma.tma_load_im2col: _tma_block,
    ops.cluster.cluster_arrive: _tma,
    ops.cluster.cluster_exchange: _tma,
    ops.cluster.mbarrier_arrive_pair: _tma,
    ops.cluster.tma_load_multicast: _tma_block,
    ops.tma.tma_store: _tma_block,
    ops.tma.tma_reduce: _tma_block,
}


# The fewest wgmmas that have started since the one of a value.
Ages = dict[Value, int]


def check_wgmma_registers(module: Module) -> None:
    """Raise `WgmmaInFlightError` for a use or write of registers that a wgmma in flight has."""
    waits = [op["pending"] for op in module.walk() if op.defn is ops.wgmma.wgmma_wait]
    max_pending = max(waits, default=0)
    if any(op.defn is ops.wgmma.wgmma for op in module.walk()):
        for function in module:
            _AgeAnalysis(max_pending).block(function.body, {}, {})


class _AgeAnalysis:
    """The analysis of a function whose waits leave at most `max_pending` wgmmas in flight.

    Both mappings change from operation to operation: `ages` has accumulators, `reads` operands.
    """

    def __init__(self, max_pending: int) -> None:
        self.max_pending = max_pending

    def block(self, block: Block, ages: Ages, reads: Ages) -> None:
        for op in block:
            self.check(op, ages)
            for value in op.results:
                self.check_write(value, reads, op)
            if op.defn is ops.wgmma.wgmma:
                self.start(op, ages, reads)
            elif op.defn is ops.wgmma.wgmma_wait:
                self.complete(op, ages, reads)
            elif op.has_trait(Trait.LOOP):
                self.loop(op, ages, reads)
            elif op.defn is control.if_:
                self.branch(op, ages, reads)

    def check(self, op: Operation, ages: Ages) -> None:
        for index, value in enumerate(op.operands):
            if value is None or value not in ages or self.may_use(op, index):
                continue
            raise WgmmaInFlightError(
                f"`{op.name}` uses a wgmma accumulator before its wgmma_wait",
                loc=op.loc,
                notes=[f"the value is {value}"],
            )

    def may_use(self, op: Operation, index: int) -> bool:
        if op.defn is ops.wgmma.wgmma:
            return index == 2
        passes_on = op.has_trait(Trait.LOOP) or op.defn is control.yield_
        return passes_on or op.defn is ops.wgmma.wgmma_wait

    def check_write(self, value: Value, reads: Ages, op: Operation) -> None:
        if value in reads:
            raise WgmmaInFlightError(
                f"`{op.name}` writes registers that a wgmma reads before its wgmma_wait",
                loc=op.loc,
                notes=[f"the value is {value}"],
            )

    def start(self, op: Operation, ages: Ages, reads: Ages) -> None:
        for each in (ages, reads):
            each.update((value, min(age + 1, self.max_pending)) for value, age in each.items())
        ages[op.result] = 0
        operand = op.inputs[0]
        if isinstance(operand.type, Fragment):
            reads[op.result if operand.type.element is F32 else operand] = 0

    def complete(self, op: Operation, ages: Ages, reads: Ages) -> None:
        value, pending = op.inputs[0], op["pending"]
        if value in ages and ages[value] < pending:
            ages[op.result] = ages[value]
        for operand in [operand for operand, age in reads.items() if age >= pending]:
            del reads[operand]

    def loop(self, op: Operation, ages: Ages, reads: Ages) -> None:
        """Iterate to a fixed point: ages only decrease, and values in flight only get more."""
        skipped = 3 if op.defn is control.for_ else 0
        carried = [ages.get(value) for value in op.inputs[skipped:]]
        while True:
            last_ends: list[
                int | None
            ] = []  # ages at the end of the last region, which is the body
            at_end = dict(reads)
            for region in op.regions:
                inner = dict(ages)
                args = region.args[1:] if op.defn is control.for_ else region.args
                _set(args, carried, inner)
                self.block(region, inner, at_end)
                last_ends = [inner.get(value) for value in region.yielded]
            self.check_carried(region, args, at_end)
            joined, all_reads = _least(carried, last_ends), _joined(reads, at_end)
            if joined == carried and all_reads == reads:
                break
            carried = joined
            reads.update(all_reads)
        _set(op.results, carried, ages)

    def check_carried(self, region: Block, args: Sequence[Value], reads: Ages) -> None:
        """Check the write of what an iteration hands on to the arguments of the next one."""
        for value, arg in zip(region.yielded, args, strict=False):
            if value is not arg:
                self.check_write(arg, reads, region.end)

    def branch(self, op: Operation, ages: Ages, reads: Ages) -> None:
        ends, before = [], dict(reads)
        reads.clear()
        for region in op.regions:
            inner, inner_reads = dict(ages), dict(before)
            self.block(region, inner, inner_reads)
            ends.append([inner.get(value) for value in region.yielded])
            reads.update(_joined(reads, inner_reads))
        _set(op.results, _least(*ends), ages)


def _set(values: Sequence[Value], ages: Sequence[int | None], into: Ages) -> None:
    for value, age in zip(values, ages, strict=False):
        if age is not None:
            into[value] = age


def _joined(first: Ages, second: Ages) -> Ages:
    """Return what is in flight on either of two paths, with the smaller age."""
    return {
        value: min(each[value] for each in (first, second) if value in each)
        for value in {**first, **second}
    }


def _least(first: Sequence[int | None], second: Sequence[int | None]) -> list[int | None]:
    """Return the elementwise minimum; None, for a value not in flight, counts as infinite."""
    both = zip(first, second, strict=False)
    return [min((x for x in pair if x is not None), default=None) for pair in both]
