"""Refuse operations that the target does not have: a static check of a THREAD module."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

from tile.errors import UnsupportedError
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import memory
from tile.ir.shared_type import Shared
from tile.ir.types import Element, Fragment, Scalar
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
    element = op.inputs[0].type.element
    assert isinstance(element, Scalar)
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
    element = op.inputs[0].type.element
    assert isinstance(element, Scalar)
    # Operands of f32 may also be rounded to types of fewer bits (tf32).
    supported = shape.bits < element.bits or target.has_mma(shape, element)
    _require(supported, f"target {target} has no mma {shape} for {element}")


def _wgmma(op: Operation, target: SimtTarget, num_warps: int) -> None:
    shape, (rows, columns) = MmaShape(*op["shape"]), op["warpgroups"]
    _require(shape in target.wgmma_shapes, f"target {target} has no wgmma {shape}")
    element, into = op.inputs[0].type.element, op.inputs[2].type.element
    assert isinstance(element, Scalar) and isinstance(into, Scalar)
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
    ty = mem.type
    assert isinstance(ty, Shared) and isinstance(ty.layout, LinearLayout)
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
        _require(strips.split is not None, f"{op.name} divides no {mem.type}")


def _require_stages_aligned(op: Operation, mem: Value, strips: BlockStrips) -> None:
    """Require that TMA boxes, in every stage, begin at addresses that TMA takes."""
    alloc = allocation(mem)
    buffer = mem.type if alloc is None else alloc.result.type
    assert isinstance(buffer, Shared)
    stage_bytes, stages = buffer.bytes // buffer.stages, range(buffer.stages)
    first = 0 if alloc is None else alloc["offset"]
    for stage, box in itertools.product(stages, strips.boxes()):
        at = first + stage * stage_bytes + box.byte
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
    ops.cluster.mbarrier_arrive_pair: _tma,
    ops.cluster.tma_load_multicast: _tma_block,
    ops.tma.tma_store: _tma_block,
    ops.tma.tma_reduce: _tma_block,
}
