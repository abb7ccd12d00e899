"""wgmma: dots of a warpgroup of four warps, with operands in shared memory.

LLVM has no instruction for it. The accumulators are tied operands of inline PTX, so that they stay
in the same registers from one wgmma to the next, through loops and waits. The tensor cores read an
operand in shared memory by a 64-bit matrix descriptor: its start address, in units of 16 bytes; the
byte offsets between its strips and between its groups of 8 rows; and its swizzle mode. (PTX ISA
9.7.15, "Asynchronous Warpgroup Level Matrix Instructions".)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import Operand as AsmOperand
from tile.backends.nvptx.emit.inline_asm import assemble, braces
from tile.backends.nvptx.emit.memory import SHARED
from tile.backends.nvptx.emit.registers import warp_index
from tile.backends.nvptx.emit.shared import MEMORY
from tile.backends.nvptx.emit.vectors import pack, unpack
from tile.codegen.llvm.function_builder import Rule
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import OpDef
from tile.ir.ops import control
from tile.ir.shared_type import Shared, shared_of
from tile.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, I8, I32, U8, Fragment, Scalar, number_of
from tile.simt import ops
from tile.simt.hopper.wgmma_layouts import MN_MAJOR_BITS, ROWS, OperandStrips, strips_of
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import MmaShape, Operand
from tile.simt.ops.wgmma import WARPGROUP_THREADS, wgmma_sizes

_PTX = {
    F16: "f16", BF16: "bf16", F32: "tf32", I8: "s8", U8: "u8", F8E4M3: "e4m3", F8E5M2: "e5m2",
}  # fmt: skip
_ACCUMULATOR = {F32: "f32", F16: "f16", I32: "s32"}
_SWIZZLE = {128: 1, 64: 2, 32: 3}
UNIT = 16  # bytes: the unit of addresses and offsets in a descriptor
ADDRESS_BITS = 14


@dataclass(frozen=True)
class _SharedOperand:
    """An operand in shared memory: the descriptor of the warpgroup's first tile, and strides.

    `axis` is that of the rows of `a` or columns of `b`; along it, the warpgroup's instruction tiles
    are `step` bytes apart.
    """

    descriptor: str
    strips: OperandStrips
    axis: int
    depth: int  # k of one instruction
    step: int

    @property
    def transposed(self) -> int:
        """1 if the operand is MN-major, 0 if it is K-major."""
        return int(self.strips.along == self.axis)

    def offset(self, tile: int, k: int) -> int:
        """Return the offset of a tile's descriptor at a step of k from that of the first."""
        element = [0, 0]
        element[1 - self.axis] = k * self.depth
        return (tile * self.step + self.strips.offset_of(*element)) // UNIT


def _shared_operand(
    builder: FunctionBuilder, op: Operation, mem: Value, operand: Operand
) -> _SharedOperand:
    ty = shared_of(mem.type)
    assert isinstance(ty.layout, LinearLayout)
    shape, (rows, columns) = MmaShape(*op["shape"]), op["warpgroups"]
    strips = strips_of(ty.layout, ty.of.storage_bits)
    assert strips is not None, f"{ty} has a layout that wgmma does not read"
    left = operand is Operand.LEFT
    axis, count = (0, rows) if left else (1, columns)
    second_tile = [0, 0]
    second_tile[axis] = shape.m if left else shape.n
    tile_bytes = strips.offset_of(*second_tile)
    address = builder.buffers[mem]
    first_tile = "0"
    if count > 1:
        first_tile = _warpgroup_offset(builder, rows, left, count, tile_bytes)
    units = builder.new(f"zext i32 {_in_units(builder, address.base, first_tile)} to i64")
    constant = _descriptor_constant(strips, address.offset, strips.along == axis)
    descriptor = builder.new(f"add i64 {units}, {constant}")
    return _SharedOperand(descriptor, strips, axis, shape.k, tile_bytes * count)


def _in_units(builder: FunctionBuilder, base: str, first_tile: str) -> str:
    """Return the shared address of a warpgroup's first tile in the unit of descriptors.

    The bits of the address above those of the descriptor's field hold the CTA's rank in its
    cluster; they are removed once, and not from the address of each stage.
    """
    if builder.module.options.num_ctas == 1:
        start = builder.new(f"ptrtoint {SHARED} {MEMORY} to i32")
        for more in (base, first_tile):
            if more != "0":
                start = builder.new(f"add i32 {start}, {more}")
        return builder.new(f"lshr i32 {start}, 4")
    start = builder.in_prologue(f"ptrtoint {SHARED} {MEMORY} to i32")
    if first_tile != "0":
        start = builder.in_prologue(f"add i32 {start}, {first_tile}")
    units = builder.in_prologue(f"lshr i32 {start}, 4")
    units = builder.in_prologue(f"and i32 {units}, {(1 << ADDRESS_BITS) - 1}")
    if base == "0":
        return units
    stage = builder.new(f"lshr i32 {base}, 4")
    return builder.new(f"add i32 {units}, {stage}")


def _warpgroup_offset(
    builder: FunctionBuilder, rows: int, left: bool, count: int, tile_bytes: int
) -> str:
    """Return the bytes from the first warpgroup's first tile to that of this thread's warpgroup."""
    number = warp_index(builder, WARPGROUP_THREADS)
    if left:
        number = builder.in_prologue(f"and i32 {number}, {count - 1}")
    elif rows > 1:
        number = builder.in_prologue(f"lshr i32 {number}, {rows.bit_length() - 1}")
    return builder.in_prologue(f"mul i32 {number}, {tile_bytes}")


def _descriptor_constant(strips: OperandStrips, offset: int, transposed: bool) -> int:
    """Return the constant part of a descriptor: all but the base of shared memory and the stage."""
    leading = strips.bytes // UNIT if transposed else 1  # ignored for K-major operands
    stride = ROWS * strips.row_bytes // UNIT
    descriptor = offset // UNIT | leading << 16 | stride << 32 | _SWIZZLE[strips.row_bytes] << 62
    return descriptor - (descriptor >> 63 << 64)  # as a signed number


def wgmma(builder: FunctionBuilder, op: Operation) -> None:
    """Emit the wgmma of all tiles of the accumulator as one asm statement, one fence and one group.

    With a fence for each tile, ptxas makes each a group of its own: waiting until one group is
    pending then waits for all but the last tile of the same op, instead of those of the op before.
    """
    a, b, acc = op.inputs
    shape, (rows, columns) = MmaShape(*op["shape"]), op["warpgroups"]
    m, n, k = wgmma_sizes(op)
    right = _shared_operand(builder, op, b, Operand.RIGHT)
    left = _shared_operand(builder, op, a, Operand.LEFT) if isinstance(a.type, Shared) else None
    a_registers = [] if left is not None else _register_operand(builder, a)
    row_tiles = m // (shape.m * rows)
    tiles = list(product(range(row_tiles), range(n // (shape.n * columns))))
    acc_registers, zero = _accumulator(builder, acc), constant_of(acc) == 0
    a_operands: list[AsmOperand] = a_registers if left is None else [("i64", left.descriptor)]
    text = _Statement(
        shape=shape,
        kinds=tuple(number_of(x.type) for x in op.inputs),
        left=left,
        right=right,
        registers=len(acc_registers),
        count=len(acc_registers) // len(tiles),
        a_operands=len(a_operands),
        a_count=len(a_registers) // max(1, row_tiles),
        depth=k // shape.k,
        zero=zero,
        follows=len(tiles) == 1 and _waits_itself(op),
    )
    results = assemble(
        builder,
        "{ " + " ".join(text.lines(tiles)) + " }",
        [ty for ty, _ in acc_registers],
        [*a_operands, ("i64", right.descriptor)],
        initial=[] if zero else [register for _, register in acc_registers],
        memory=True,
        convergent=True,
        early_clobber=zero,
    )
    builder.set(op, unpack(builder, acc.type.element, results))


def _register_operand(builder: FunctionBuilder, a: Value) -> list[AsmOperand]:
    """Return an `a` operand in registers as 32-bit registers; f32 is rounded by `_Statement`."""
    element, registers = number_of(a.type), builder.of(a)
    if element is not F32:
        return pack(builder, element, registers)
    return [("i32", builder.new(f"bitcast float {x} to i32")) for x in registers]


def _accumulator(builder: FunctionBuilder, acc: Value) -> list[AsmOperand]:
    """Return an accumulator as 32-bit registers, with two f16 in each."""
    return pack(builder, acc.type.element, builder.of(acc))


@dataclass(frozen=True)
class _Statement:
    """The text of an asm statement: `$0` and so on are the accumulators, then come the operands.

    With `zero`, the first instruction of a tile ignores the accumulators, whatever they hold.
    """

    shape: MmaShape
    kinds: tuple[Scalar, ...]  # of `a`, `b` and the accumulator
    left: _SharedOperand | None
    right: _SharedOperand
    registers: int  # of the accumulators of all tiles
    count: int  # of those of one tile
    a_operands: int  # registers of `a`, or its descriptor
    a_count: int  # registers of `a` for one row of tiles
    depth: int
    zero: bool
    follows: bool  # the wgmma before may be in flight, and reads the same registers of `a`

    @property
    def converts(self) -> bool:
        """True if registers of `a` are f32, which is rounded to tf32."""
        return self.left is None and self.kinds[0] is F32

    def lines(self, tiles: list[tuple[int, int]]) -> list[str]:
        lines = [".reg .pred p; .reg .b64 da, db;", "setp.eq.b32 p, 0, 0;"]
        if self.converts:
            lines.append(f".reg .b32 e, a<{self.a_operands}>;")
        if self.zero:
            lines.append(".reg .pred z; setp.ne.b32 z, 0, 0;")
        groups = self._by_steps() if self.follows else [self._whole(tiles)]
        for group in groups:
            lines += [*group, "wgmma.commit_group.sync.aligned;"]
        return lines

    def _whole(self, tiles: list[tuple[int, int]]) -> list[str]:
        """Return the instructions of all tiles, of one group."""
        lines = self._rounded(range(self.a_operands)) if self.converts else []
        lines.append("wgmma.fence.sync.aligned;")
        for number, (row, column) in enumerate(tiles):
            accumulators = braces(number * self.count, self.count)
            for step in range(self.depth):
                lines += self._instruction(accumulators, row, column, step)
        return lines

    def _by_steps(self) -> Iterator[list[str]]:
        """Yield the instruction of each step along k of one tile, a group of its own.

        It waits for that of the same step of the wgmma before, whose registers it writes. So the
        tensor cores execute the other steps meanwhile.
        """
        each = self.a_count // self.depth
        for step in range(self.depth):
            yield [
                f"wgmma.wait_group.sync.aligned {self.depth - 1};",
                *self._rounded(range(step * each, (step + 1) * each)),
                "wgmma.fence.sync.aligned;",
                *self._instruction(braces(0, self.count), 0, 0, step),
            ]

    def _rounded(self, numbers: Iterable[int]) -> list[str]:
        """Convert registers of `a` to the nearest tf32; subnormal numbers are truncated.

        This adds half a unit of the last place, 2 ** -11 of the power of two below a number: the
        instruction ignores the bits after that. `cvt.rna` takes three instructions.
        """
        return [
            f"and.b32 e, ${self.registers + n}, 0xff800000; "
            f"fma.rn.f32 a{n}, e, 0f3a000000, ${self.registers + n};"
            for n in numbers
        ]

    def _instruction(self, accumulators: str, row: int, column: int, step: int) -> list[str]:
        a, b, acc = self.kinds
        m, n, k, bits = self.shape
        kinds = f"{_ACCUMULATOR[acc]}.{_PTX[a]}.{_PTX[b]}"
        signs = [1, 1] if a.is_floating() else []
        operands = [operand for operand in (self.left, self.right) if operand is not None]
        majors = [operand.transposed for operand in operands] if bits in MN_MAJOR_BITS else []
        flags = "".join(f", {flag}" for flag in (*signs, *majors))
        each = self.a_count // self.depth
        at = row * self.a_count + step * each
        first = braces(self.registers + at, each)
        lines = []
        if self.converts:
            first = "{" + ", ".join(f"a{n}" for n in range(at, at + each)) + "}"
        if self.left is not None:
            lines.append(f"add.s64 da, ${self.registers}, {self.left.offset(row, step)};")
            first = "da"
        descriptor = f"${self.registers + self.a_operands}"
        lines.append(f"add.s64 db, {descriptor}, {self.right.offset(column, step)};")
        scale_d = "z" if self.zero and not step else "p"
        name = f"wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{kinds}"
        return [*lines, f"{name} {accumulators}, {first}, db, {scale_d}{flags};"]


def _waits_itself(op: Operation) -> bool:
    """Return True for a wgmma that waits, step by step, for that of the previous iteration.

    Its `a` is f32 in registers, its accumulator only loop-carried, and the wait is just before it.
    """
    a, _, acc = op.inputs
    wait, users = acc.op, [*op.result.users]
    if wait is None or wait is not op.prev or wait.defn is not ops.wgmma.wgmma_wait:
        return False
    (in_flight,) = wait.inputs
    carried = in_flight.op is None and [user.defn for user in users] == [control.yield_]
    f32 = isinstance(a.type, Fragment) and number_of(a.type) is F32
    return f32 and carried and wait["pending"] == 0 and len(acc.uses) == 1


def wgmma_wait(builder: FunctionBuilder, op: Operation) -> None:
    """Wait; the accumulators pass through the statement, so that no use of them moves above it."""
    users = [*op.result.users]
    if len(users) == 1 and users[0].defn is ops.wgmma.wgmma and _waits_itself(users[0]):
        builder.set(op, builder.of(op.inputs[0]))
        return
    text = f"wgmma.wait_group.sync.aligned {op['pending']};"
    acc = op.inputs[0]
    registers = _accumulator(builder, acc)
    types, initial = [ty for ty, _ in registers], [register for _, register in registers]
    results = assemble(builder, text, types, [], initial=initial, memory=True, convergent=True)
    builder.set(op, unpack(builder, acc.type.element, results))


def fence_proxy_async(builder: FunctionBuilder, op: Operation) -> None:
    """Make earlier writes of this thread to shared memory visible to the async proxy."""
    assemble(builder, "fence.proxy.async.shared::cta;", [], [], memory=True)


def local_view(builder: FunctionBuilder, op: Operation) -> None:
    """A transposed or reshaped view has the same address."""
    builder.buffers[op.result] = builder.buffers[op.inputs[0]]


def local_part(builder: FunctionBuilder, op: Operation) -> None:
    """A part of a buffer begins some bytes after it."""
    address, part = builder.buffers[op.inputs[0]], shared_of(op.result.type)
    shift = op["number"] * part.of.bytes_of(part.numel)
    builder.buffers[op.result] = replace(address, offset=address.offset + shift)


RULES: dict[OpDef, Rule] = {
    ops.wgmma.wgmma: wgmma,
    ops.wgmma.wgmma_wait: wgmma_wait,
    ops.wgmma.fence_proxy_async: fence_proxy_async,
    ops.shared.local_trans: local_view,
    ops.shared.local_reshape: local_view,
    ops.shared.local_part: local_part,
}
