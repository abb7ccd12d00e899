"""Which stores and atomic operations through descriptors TMA executes.

A store does where its tile would go through shared memory anyway, to be converted to a coalesced
layout, and has 16-bit elements in 8 rows or more: accumulator layouts of wider elements have bank
conflicts in the row order of descriptor blocks. With the option `tma=stores` any elements and shape
do.

With `tma=reduce`, atomic operations whose results are not used become TMA reductions, from any
layout, if the range analysis proves that no index of the block's first element is negative. TMA
loads and stores leave out what lies before an array, but a reduction that begins there is an
illegal instruction (measured on an H200; the PTX ISA does not say so).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tile.analysis.ranges import ranges
from tile.ir.core import Function, Operation, Value
from tile.ir.ops import descriptor, memory
from tile.ir.ops.memory import CacheModifier, Eviction, Order, Scope
from tile.ir.shared_type import Shared
from tile.ir.types import Scalar, Tile
from tile.simt import ops
from tile.simt.hopper.tma_boxes import BlockStrips, block_layout, block_strips
from tile.simt.hopper.wgmma_layouts import ROWS
from tile.simt.ops.tma import MAX_RANK
from tile.simt.tma_uses import NO_USES, TmaUses
from tile.tracebacks import warn

ELEMENT_BITS = 16  # of the elements that TMA stores are used for by default


@dataclass(frozen=True)
class BlockStores:
    """The stores of descriptor blocks that become TMA stores.

    through: True for a conversion that goes through shared memory as a whole.
    """

    through: Callable[[Operation], bool]
    tma: TmaUses = NO_USES

    def __contains__(self, op: Operation) -> bool:
        """Return True if a store can become a TMA store, or an atomic operation a reduction."""
        if op.defn is memory.store:
            conversion = conversion_of(op)
            return conversion is not None and self.through(conversion) and self.is_block(op)
        return self.is_reduction(op)

    def is_block(self, op: Operation) -> bool:
        """Return True if an operation is a store of a block that TMA can write, and converts it."""
        return (
            op.defn is memory.store
            and is_described(op)
            and op["cache"] is CacheModifier.NONE
            and op["eviction"] is Eviction.NONE
            and conversion_of(op) is not None
            and self.has_block(op["value"].type)
        )

    def is_reduction(self, op: Operation) -> bool:
        """Return True if an atomic operation can become a TMA reduction."""
        return (
            self.tma.reduce
            and op.defn is memory.atomic_rmw
            and not op.result.uses
            and is_described(op)
            and op["order"] is Order.RELAXED
            and op["scope"] is Scope.DEVICE
            and op["value"].type.element in ops.tma.REDUCE_ELEMENTS.get(op["kind"], ())
            and strips_of_block(op["value"].type) is not None
            and _negative_axis(op) is None
        )

    def replaces(self, conversion: Operation) -> bool:
        """Return True if the buffer of a reduction takes the place of a conversion."""
        users = list(conversion.result.users)
        return len(users) == 1 and self.is_reduction(users[0])

    def reduced_bytes(self, op: Operation) -> int:
        """Return the bytes of the buffer of a TMA reduction; 0 if an operation becomes none."""
        return buffer_of_block(op, op["value"].type.shape).bytes if self.is_reduction(op) else 0

    def has_block(self, ty: Tile) -> bool:
        """Return True if tiles of a type are stored by TMA."""
        strips = strips_of_block(ty)
        if strips is None or self.tma.stores:
            return strips is not None
        bits, rows = strips.element_bits, math.prod(ty.shape[:-1])
        return bits == ELEMENT_BITS and rows >= ROWS and strips.swizzle > 0


def is_described(op: Operation) -> bool:
    """Return True if an operation accesses a descriptor block."""
    pointers = op["ptr"].op
    return pointers is not None and pointers.defn is descriptor.descriptor_pointers


def _negative_axis(op: Operation) -> int | None:
    """Return the first axis along which a block may begin at a negative index, if there is one."""
    pointers, rank = op["ptr"].op, op["value"].type.rank
    bounds = ranges(op.function, wraps=False)
    first = len(pointers.operands) - rank
    for axis in range(rank):
        interval = bounds.operand(pointers, first + axis)
        if interval is None or interval.low < 0:
            return axis
    return None


def conversion_of(op: Operation) -> Operation | None:
    """Return the conversion of the tile that an operation writes, if nothing else uses it."""
    value: Value = op["value"]
    converted = value.op is not None and value.op.defn is ops.layout.convert_layout
    return value.op if converted and len(value.uses) == 1 else None


def strips_of_block(ty: Tile) -> BlockStrips | None:
    """Return a block as TMA copies it; None if it copies none of this type."""
    if not isinstance(ty.element, Scalar) or ty.element.packing > 1 or ty.rank > MAX_RANK:
        return None
    bits = ty.element.storage_bits
    return block_strips(block_layout(ty.shape, bits), bits)


def warn_of_atomics(function: Function, stores: BlockStores) -> None:
    """Say which atomic operations on blocks are not TMA reductions, and why, if asked for."""
    if not stores.tma.reduce:
        return
    for op in function.walk():
        relaxed = op.defn is memory.atomic_rmw and op["order"] is Order.RELAXED
        if relaxed and is_described(op) and not op.result.uses:
            kind, element = op["kind"], op["value"].type.element
            if element not in ops.tma.REDUCE_ELEMENTS.get(kind, ()):
                reason = f"TMA has no {kind} of {element}"
            elif (axis := _negative_axis(op)) is not None:
                reason = (
                    f"its index along axis {axis} may be negative, where TMA does not reduce; "
                    "if it never is, say so by tl.assume(index >= 0)"
                )
            else:
                reason = "other operations may access the array, and the kernel orders accesses"
            warn(f"this atomic operation is not a TMA reduction: {reason}", op.loc)


def buffer_of_block(op: Operation, dims: Sequence[int]) -> Shared:
    """Return the type of a buffer of these dimensions, for a part of the block that is stored."""
    element = op["value"].type.element
    return Shared(tuple(dims), element, block_layout(tuple(dims), element.storage_bits))
