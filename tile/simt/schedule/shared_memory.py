"""The shared memory of a program, which the buffers of its loops may take.

Inner loops, and functions that a loop calls, use their shared memory while the loop's own buffers
are live. So it is given to the innermost loops first, which run most often, and to
functions before their callers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from tile.ir.core import Block, Function, Operation
from tile.ir.ops import control, memory
from tile.ir.shared_type import Shared
from tile.simt.hopper.block_stores import BlockStores
from tile.simt.hopper.wgmma_layouts import staged_operands
from tile.simt.memory.allocate_shared import SWIZZLE_ALIGNMENT
from tile.simt.memory.expose_shared import conversion_bytes, exchange_bytes
from tile.simt.ops.layout import butterfly, convert_layout
from tile.simt.ops.shared import local_alloc
from tile.simt.ops.wgmma import wgmma
from tile.simt.schedule.dot_slices import is_loaded_in_slices, is_sliced, sliced_dot_bytes
from tile.simt.target import SimtTarget

ALIGNMENT = 128  # bytes; an upper bound for buffers other than wgmma operands

OperandUse = tuple[Operation, int]  # a wgmma, and the index of its operand
BufferRead = Operation | OperandUse  # a layout conversion, or a wgmma operand


class SharedMemory:
    """The shared memory of a program, and what its loops and functions take so far, in bytes."""

    def __init__(self, target: SimtTarget, block_stores: BlockStores | None = None) -> None:
        self.target = target
        self.block_stores = block_stores
        self.loops: dict[Operation, int] = {}
        self.functions: dict[str, int] = {}

    def remaining(self, loop: Operation, buffer_reads: Collection[BufferRead] = ()) -> int:
        """Return the bytes that the buffers of a loop can take.

        buffer_reads: conversions and operands that become reads of those buffers, so that they
            take no shared memory of their own.
        """
        return self.target.shared_bytes - self._regions(loop.regions, buffer_reads) - _used_by(loop)

    def is_used_in(self, loop: Operation, buffer_reads: Collection[BufferRead] = ()) -> bool:
        """Return True if operations of a loop take shared memory, as for `remaining`."""
        return self._regions(loop.regions, buffer_reads) > 0

    def reserve(
        self, loop: Operation, size: int, buffer_reads: Collection[BufferRead] = ()
    ) -> None:
        """Give `size` bytes to the buffers of a loop."""
        self.loops[loop] = size + self._regions(loop.regions, buffer_reads)

    def finish(self, function: Function) -> None:
        """Record what a function takes, once all of its loops have their buffers."""
        self.functions[function.name] = self._regions([function.body], ())

    def taken_until(
        self,
        function: Function,
        loops: Sequence[Operation],
        buffer_reads: Collection[BufferRead] = (),
    ) -> int:
        """Return the bytes that operations take from the function's start to the end of `loops`.

        loops: loops for which these buffers are; they take no other ones.
        buffer_reads: as for `remaining`.
        """
        reserved = self.loops.copy()
        for loop in loops:
            for outer in (loop, *loop.ancestors()):
                self.reserve(outer, 0, buffer_reads)
        ops = list(function.body)
        outermost = {[loop, *loop.ancestors()][-1] for loop in loops}
        end = 1 + max(index for index, op in enumerate(ops) if op in outermost)
        taken = self._ops(ops[:end], buffer_reads)
        self.loops = reserved
        return taken

    def _regions(self, regions: Iterable[Block], buffer_reads: Collection[BufferRead]) -> int:
        return self._ops((op for region in regions for op in region), buffer_reads)

    def _ops(self, ops: Iterable[Operation], buffer_reads: Collection[BufferRead]) -> int:
        """Return the bytes that operations take.

        Buffers of `local_alloc`, wgmma operands and TMA reductions are live throughout; the scratch
        memory of other operations is live for one operation at a time.
        """
        scratch, buffers = 0, 0
        for op in ops:
            buffers += self._buffers(op, buffer_reads)
            if op not in buffer_reads:
                scratch = max(scratch, self._scratch(op, buffer_reads))
        return scratch + buffers

    def _buffers(self, op: Operation, buffer_reads: Collection[BufferRead]) -> int:
        """Return the bytes of the buffers that an operation has, or will have."""
        if op.defn is local_alloc:
            assert isinstance(op.result.type, Shared)
            return align_up(op.result.type.bytes)
        if op.defn is wgmma:
            operands = ((op, index) for index in staged_operands(op))
            return sum(operand_bytes(each) for each in operands if each not in buffer_reads)
        if op.defn is memory.atomic_rmw and self.block_stores is not None:
            return align_up(self.block_stores.reduced_bytes(op), SWIZZLE_ALIGNMENT)
        return 0

    def _scratch(self, op: Operation, buffer_reads: Collection[BufferRead]) -> int:
        """Return the bytes that an operation takes while it is executed."""
        if op in self.loops:
            return self.loops[op]
        if is_sliced(op, self.target):
            return align_up(sliced_dot_bytes(op, buffer_reads, self.target))
        if op.defn is convert_layout:
            in_slices = is_loaded_in_slices(op, self.target)
            replaced = self.block_stores is not None and self.block_stores.replaces(op)
            return 0 if in_slices or replaced else align_up(conversion_bytes(op, self.target))
        if op.defn is butterfly:
            return align_up(exchange_bytes(op, self.target))
        if op.defn is control.call:
            return self.functions.get(op["callee"], 0)
        return self._regions(op.regions, ()) if op.regions else 0


def _used_by(loop: Operation) -> int:
    """Return the bytes of the buffers that a loop uses and that are defined outside of it."""
    inside = set(loop.walk())
    used = {value: value.type for op in inside for value in op.inputs if value.op not in inside}
    return sum(align_up(ty.bytes) for ty in used.values() if isinstance(ty, Shared))


def operand_bytes(operand: OperandUse) -> int:
    """Return the bytes of the buffer of a wgmma operand."""
    dot, index = operand
    ty = dot.inputs[index].type
    return align_up(ty.element.bytes_of(math.prod(ty.shape)), SWIZZLE_ALIGNMENT)


def align_up(size: int, alignment: int = ALIGNMENT) -> int:
    """Return `size` rounded up to a multiple of `alignment`, in bytes."""
    return -(-size // alignment) * alignment
