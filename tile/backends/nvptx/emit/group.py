"""Products by groups of four warps: wgmma, whose factors the tensor cores read from shared memory.

LLVM has no instruction for it. The accumulators are operands of inline PTX that come in where they
go out, so that they stay where they are from one product to the next, through loops and waits. A
factor in shared memory is given by a descriptor of 64 bits: where it begins, in units of 16 bytes;
how far apart its strips and its groups of 8 rows are; and how the vectors of its rows are
reordered. (PTX ISA 9.7.15, "asynchronous warpgroup level matrix instructions".)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tile.backends.nvptx.emit.assembler import Operand as Given
from tile.backends.nvptx.emit.assembler import assemble, braces
from tile.backends.nvptx.emit.body import Body, Rule
from tile.backends.nvptx.emit.matrix import round_to_tf32
from tile.backends.nvptx.emit.memory import SHARED
from tile.backends.nvptx.emit.registers import of_warp
from tile.backends.nvptx.emit.shared import MEMORY
from tile.backends.nvptx.emit.types import number_of
from tile.backends.nvptx.emit.words import pack, unpack
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.opdef import OpDef
from tile.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, I8, I32, U8, Scalar, Shared
from tile.simt import ops
from tile.simt.layouts.factors import EITHER_WAY, ROWS, Strips, strips_of
from tile.simt.layouts.fragments import MatrixShape, Operand
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops.group import GROUP_THREADS, sizes_of

_PTX = {
    F16: "f16", BF16: "bf16", F32: "tf32", I8: "s8", U8: "u8", F8E4M3: "e4m3", F8E5M2: "e5m2",
}  # fmt: skip
_ACCUMULATOR = {F32: "f32", F16: "f16", I32: "s32"}
_SWIZZLE = {128: 1, 64: 2, 32: 3}
UNIT = 16  # bytes that a descriptor counts in
ADDRESS_BITS = 14


@dataclass(frozen=True)
class _Factor:
    """A factor in shared memory: the descriptor of the group's first piece, and where others are.

    `axis` is that of the rows or columns, of which a group's pieces are `step` bytes apart.
    """

    descriptor: str
    strips: Strips
    axis: int
    depth: int  # k of an instruction
    step: int

    @property
    def transposed(self) -> int:
        """Whether neighbours are not along k."""
        return int(self.strips.along == self.axis)

    def at(self, piece: int, k: int) -> int:
        """How far the descriptor of a piece and a step of k is from the first one."""
        place = [0, 0]
        place[1 - self.axis] = k * self.depth
        return (piece * self.step + self.strips.place(*place)) // UNIT


def _factor(body: Body, op: Operation, mem: Value, operand: Operand) -> _Factor:
    ty = mem.type
    assert isinstance(ty, Shared) and isinstance(ty.layout, LinearLayout)
    shape, (rows, columns) = MatrixShape(*op["shape"]), op["groups"]
    strips = strips_of(ty.layout, 8 * ty.of.itemsize)
    assert strips is not None, f"{ty} is in no order that a product reads"
    left = operand is Operand.LEFT
    axis, count = (0, rows) if left else (1, columns)
    piece = [0, 0]
    piece[axis] = shape.m if left else shape.n
    apart = strips.place(*piece)
    place = body.buffers[mem]
    start = body.new(f"ptrtoint {SHARED} {MEMORY} to i32")
    if place.moving != "0":
        start = body.new(f"add i32 {start}, {place.moving}")
    if count > 1:
        start = body.new(f"add i32 {start}, {_of_group(body, rows, left, count, apart)}")
    units = body.new(f"zext i32 {_units(body, start)} to i64")
    constant = _constant(strips, place.at, strips.along == axis)
    descriptor = body.new(f"add i64 {units}, {constant}")
    return _Factor(descriptor, strips, axis, shape.k, apart * count)


def _units(body: Body, address: str) -> str:
    """An address of shared memory as descriptors count.

    Above the bits that they have for it, addresses have the program's number in its cluster.
    """
    units = body.new(f"lshr i32 {address}, 4")
    if body.module.options.num_ctas == 1:
        return units
    return body.new(f"and i32 {units}, {(1 << ADDRESS_BITS) - 1}")


def _of_group(body: Body, rows: int, left: bool, count: int, apart: int) -> str:
    """How far the first piece of this thread's group is from that of the first group."""
    number = of_warp(body, GROUP_THREADS)
    if left:
        number = body.first(f"and i32 {number}, {count - 1}")
    elif rows > 1:
        number = body.first(f"lshr i32 {number}, {rows.bit_length() - 1}")
    return body.first(f"mul i32 {number}, {apart}")


def _constant(strips: Strips, at: int, transposed: bool) -> int:
    """What is known of a descriptor: all but where shared memory is, and which stage."""
    strip = strips.bytes // UNIT if transposed else 1  # elsewhere it is not looked at
    rows = ROWS * strips.row_bytes // UNIT
    found = at // UNIT | strip << 16 | rows << 32 | _SWIZZLE[strips.row_bytes] << 62
    return found - (found >> 63 << 64)  # as a signed number


def group_dot(body: Body, op: Operation) -> None:
    """A statement for each piece of the accumulator; the last one ends what a wait counts."""
    a, b, acc = op.inputs
    shape, (rows, columns) = MatrixShape(*op["shape"]), op["groups"]
    m, n, k = sizes_of(op)
    right = _factor(body, op, b, Operand.RIGHT)
    left = _factor(body, op, a, Operand.LEFT) if isinstance(a.type, Shared) else None
    words = [] if left is not None else _held(body, a)
    pieces = list(product(range(m // (shape.m * rows)), range(n // (shape.n * columns))))
    depth, sums, zero = k // shape.k, _sums(body, acc), constant_of(acc) == 0
    count, held = len(sums) // len(pieces), len(words) // max(1, m // (shape.m * rows))
    for number, (row, column) in enumerate(pieces):
        own = words[row * held : (row + 1) * held]
        kinds = tuple(number_of(x.type) for x in op.inputs)
        text = _Statement(shape, kinds, count, depth, zero)
        lines = text.lines(left, right, row, column, len(own))
        if number == len(pieces) - 1:
            lines.append("wgmma.commit_group.sync.aligned;")
        given: list[Given] = own if left is None else [("i64", left.descriptor)]
        part = slice(number * count, (number + 1) * count)
        types = [ty for ty, _ in sums[part]]
        found = assemble(
            body,
            "{ " + " ".join(lines) + " }",
            types,
            [*given, ("i64", right.descriptor)],
            initial=[] if zero else [register for _, register in sums[part]],
            memory=True,
            convergent=True,
            apart=zero,
        )
        sums[part] = zip(types, found, strict=True)
    body.set(op, unpack(body, acc.type.element, [register for _, register in sums]))


def _held(body: Body, a: Value) -> list[Given]:
    """A left factor in registers, as words of 32 bits."""
    element, registers = number_of(a.type), body.of(a)
    if element is not F32:
        return pack(body, element, registers)
    rounded = [round_to_tf32(body, x) for x in registers]
    return [("i32", body.new(f"bitcast float {x} to i32")) for x in rounded]


def _sums(body: Body, acc: Value) -> list[Given]:
    """An accumulator: registers of 32 bits, two f16 in each."""
    return pack(body, acc.type.element, body.of(acc))


@dataclass(frozen=True)
class _Statement:
    """The text of one statement: `$0` and so on are the accumulators, then come the factors.

    With `zero`, the first instruction adds to nothing, and what the accumulators were is no matter.
    """

    shape: MatrixShape
    kinds: tuple[Scalar, ...]  # of both factors and the accumulator
    count: int
    depth: int
    zero: bool

    def lines(
        self, left: _Factor | None, right: _Factor, row: int, column: int, words: int
    ) -> list[str]:
        a, b, acc = self.kinds
        m, n, k, bits = self.shape
        kinds = f"{_ACCUMULATOR[acc]}.{_PTX[a]}.{_PTX[b]}"
        name = f"wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{kinds}"
        signs = [1, 1] if a.is_floating() else []
        turned = [factor.transposed for factor in (left, right) if factor is not None]
        flags = "".join(f", {flag}" for flag in (*signs, *(turned if bits in EITHER_WAY else ())))
        each = words // self.depth
        found = [
            ".reg .pred p; .reg .b64 da, db;",
            "setp.eq.b32 p, 0, 0;",
            "wgmma.fence.sync.aligned;",
        ]
        if self.zero:
            found.append(".reg .pred z; setp.ne.b32 z, 0, 0;")
        for step in range(self.depth):
            first = braces(self.count + step * each, each)
            if left is not None:
                found.append(f"add.s64 da, ${self.count}, {left.at(row, step)};")
                first = "da"
            last = self.count + (words or 1)
            found.append(f"add.s64 db, ${last}, {right.at(column, step)};")
            sums = braces(0, self.count)
            adds = "z" if self.zero and not step else "p"
            found.append(f"{name} {sums}, {first}, db, {adds}{flags};")
        return found


def group_wait(body: Body, op: Operation) -> None:
    """The accumulators go through the wait, so that nothing that uses them comes before it."""
    text = f"wgmma.wait_group.sync.aligned {op['pending']};"
    acc = op.inputs[0]
    sums = _sums(body, acc)
    types, initial = [ty for ty, _ in sums], [register for _, register in sums]
    found = assemble(body, text, types, [], initial=initial, memory=True, convergent=True)
    body.set(op, unpack(body, acc.type.element, found))


def group_fence(body: Body, op: Operation) -> None:
    """What threads write is seen by them at once, and by tensor cores behind this."""
    assemble(body, "fence.proxy.async.shared::cta;", [], [], memory=True)


def local_trans(body: Body, op: Operation) -> None:
    """The same place."""
    body.buffers[op.result] = body.buffers[op.inputs[0]]


RULES: dict[OpDef, Rule] = {
    ops.group.group_dot: group_dot,
    ops.group.group_wait: group_wait,
    ops.group.group_fence: group_fence,
    ops.shared.local_trans: local_trans,
}
