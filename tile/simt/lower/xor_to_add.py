"""Known bits of integers: an XOR of operands without a common bit becomes a sum."""

from __future__ import annotations

from dataclasses import dataclass, field

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level, OpDef
from tile.ir.ops import arith
from tile.ir.passes import module_pass
from tile.ir.types import I32, U32
from tile.simt import ops
from tile.simt.layouts.f2 import union


@module_pass("xor-to-add", before=Level.THREAD)
def xor_to_add(module: Module, *, simd_width: int = 1) -> None:
    """Add operands of an XOR that have no bit in common, where lanes are those of SIMD vectors.

    A compiler that vectorizes across lanes recognizes contiguous accesses of adjacent lanes in a
    sum, but not in an XOR. Offsets in shared memory are XORs of linear maps, which mostly have
    disjoint bits.

        %j = and %n, %7 : i32                      %j = and %n, %7 : i32
        %k = shl %j, %3 : i32                      %k = shl %j, %3 : i32
        %i = layout_index {layout = #low} : i32    %i = layout_index {layout = #low} : i32
        %x = xor %i, %k : i32                      %x = add %i, %k : i32
    """
    if simd_width == 1:
        return
    bits = KnownBits()
    for op in [op for op in module.walk() if op.defn is arith.xor and bits.disjoint(op)]:
        op.replace_by([Builder.before(op)(arith.add, *op.inputs)])


ANY = (1 << 32) - 1
# Operations whose result has no bits but those of their operands.
_UNIONS: frozenset[OpDef] = frozenset(
    {ops.thread.frag_splat, ops.thread.frag_shuffle, arith.xor, arith.or_}
)


_DEPTH = 8  # of expressions that are analyzed


@dataclass
class KnownBits:
    """The bits that 32-bit integers can have; all bits for other and unknown values."""

    _bits: dict[Value, int] = field(default_factory=dict)

    def disjoint(self, op: Operation) -> bool:
        """Return True if no bit can be set in both operands."""
        x, y = op.inputs
        return not self.of(x) & self.of(y)

    def of(self, value: Value, depth: int = _DEPTH) -> int:
        """Return the bits that a value can have, in any register of any thread."""
        if value not in self._bits:
            analyzable = depth and value.op is not None and value.type.element in (I32, U32)
            self._bits[value] = self._of(value.op, depth - 1) if analyzable and value.op else ANY
        return self._bits[value]

    def _of(self, op: Operation, depth: int) -> int:
        if op.defn is arith.const:
            return int(op.attributes.get("value", 0)) & ANY
        if op.defn is ops.thread.layout_index:
            return union([image for _, images in op["layout"].ins for image in images])
        if op.defn in _UNIONS:
            return union([self.of(value, depth) for value in op.inputs])
        if op.defn is arith.and_:
            return self.of(op.inputs[0], depth) & self.of(op.inputs[1], depth)
        if op.defn is arith.shl:
            return self._shifted(op, depth)
        return ANY

    def _shifted(self, op: Operation, depth: int) -> int:
        x, by = op.inputs
        if by.op is None or by.op.defn is not arith.const:
            return ANY
        return self.of(x, depth) << min(int(by.op["value"]) & ANY, 32) & ANY
