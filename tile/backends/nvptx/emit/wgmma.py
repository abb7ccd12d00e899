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

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import Operand as AsmOperand
from tile.backends.nvptx.emit.inline_asm import assemble, braces
from tile.backends.nvptx.emit.memory import SHARED
from tile.backends.nvptx.emit.registers import warp_index
from tile.backends.nvptx.emit.shared import MEMORY
from tile.backends.nvptx.emit.vectors import pack, unpack
from tile.codegen.llvm.function_builder import Rule
from tile.ir.core import Block, Operation, Value
from tile.ir.effects import constant_of, is_pure
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
_MOST_LOOPS = 8  # through which an accumulator in flight is followed
_COMMIT = "wgmma.commit_group.sync.aligned;"


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
    """Emit the wgmma of all tiles of the accumulator as one asm statement, with one fence.

    With a fence for each tile, ptxas makes each a group of its own: waiting until one group is
    pending then waits for all but the last tile of the same op, instead of those of the op before.
    Adjacent ops with one `a` operand are one statement, too, at the place of the last one.
    """
    if _shares_statement(op, _following(op)):
        return
    dots = [op]
    while (previous := _preceding(dots[0])) is not None and _shares_statement(previous, dots[0]):
        dots.insert(0, previous)
    a, rows = op.inputs[0], op["warpgroups"][0]
    rights = [_shared_operand(builder, dot, dot.inputs[1], Operand.RIGHT) for dot in dots]
    left = _shared_operand(builder, op, a, Operand.LEFT) if isinstance(a.type, Shared) else None
    a_registers = [] if left is not None else _register_operand(builder, a)
    a_operands: list[AsmOperand] = a_registers if left is None else [("i64", left.descriptor)]
    m, _, k = wgmma_sizes(op)
    shape, zero = MmaShape(*op["shape"]), _is_zero(op)
    accumulators = [_Accumulator.of(builder, dot.inputs[2], dot) for dot in dots]
    row_tiles = m // (shape.m * rows)
    parts = tuple(
        _Dot(
            shape=MmaShape(*dot["shape"]),
            right=right,
            columns=wgmma_sizes(dot)[1],
            warpgroups=dot["warpgroups"][1],
            registers=len(acc.used),
            width=dot["columns"] or dot["shape"][1],
        )
        for dot, right, acc in zip(dots, rights, accumulators, strict=True)
    )
    text = _Statement(
        kinds=tuple(number_of(x.type) for x in op.inputs),
        left=left,
        dots=parts,
        row_tiles=row_tiles,
        a_operands=len(a_operands),
        a_count=len(a_registers) // max(1, row_tiles),
        depth=k // shape.k,
        steps=-(-(op["depth"] or k) // shape.k),
        zero=zero,
        follows=_waits_itself(op),
    )
    registers = [register for acc in accumulators for register in acc.used]
    results = assemble(
        builder,
        "{ " + " ".join(text.lines()) + " }",
        [ty for ty, _ in registers],
        [*a_operands, *[("i64", right.descriptor) for right in rights]],
        initial=[] if zero else [register for _, register in registers],
        memory=True,
        convergent=True,
        early_clobber=zero,
    )
    for dot, acc in zip(dots, accumulators, strict=True):
        own, results = results[: len(acc.used)], results[len(acc.used) :]
        acc.set(builder, dot, own)


def _shares_statement(op: Operation, following: Operation | None) -> bool:
    """Return True if an op is emitted with the following one.

    Their instructions alternate, so that the tensor cores are busy with wide ones while narrow
    ones, which take as long as `a` takes to read, read it again.
    """
    return (
        following is not None
        and isinstance(op.inputs[0].type, Shared)
        and op.inputs[0] is following.inputs[0]
        and op.result not in following.inputs
        and _is_zero(op) == _is_zero(following)
        and op["warpgroups"][0] == following["warpgroups"][0]
        and op["shape"][0] == following["shape"][0]
        and op["shape"][2:] == following["shape"][2:]
        and op["input_precision"] == following["input_precision"]
        and op["depth"] == following["depth"]
    )


def _following(op: Operation) -> Operation | None:
    """Return the next wgmma, if nothing but addresses is computed before it."""
    following = op.next
    while following is not None and is_pure(following):
        following = following.next
    return following if following is not None and following.defn is ops.wgmma.wgmma else None


def _preceding(op: Operation) -> Operation | None:
    """Return the last wgmma, if nothing but addresses is computed after it."""
    preceding = op.prev
    while preceding is not None and is_pure(preceding):
        preceding = preceding.prev
    return preceding if preceding is not None and preceding.defn is ops.wgmma.wgmma else None


def _is_zero(op: Operation) -> bool:
    return constant_of(op.inputs[2]) == 0


def _register_operand(builder: FunctionBuilder, a: Value) -> list[AsmOperand]:
    """Return an `a` operand in registers as 32-bit registers; f32 is rounded by `_Statement`."""
    element, registers = number_of(a.type), builder.of(a)
    if element is not F32:
        return pack(builder, element, registers)
    return [("i32", builder.new(f"bitcast float {x} to i32")) for x in registers]


@dataclass(frozen=True)
class _Accumulator:
    """An accumulator as 32-bit registers, with two f16 in each.

    Each `tile` registers are of a tile of an instruction, which uses the first `width` of them.
    """

    registers: tuple[AsmOperand, ...]
    tile: int
    width: int

    @classmethod
    def of(cls, builder: FunctionBuilder, acc: Value, dot: Operation | None) -> _Accumulator:
        """Return an accumulator of a wgmma."""
        registers = pack(builder, acc.type.element, builder.of(acc))
        if dot is None or not dot["columns"]:
            return cls(tuple(registers), len(registers), len(registers))
        m, n, *_ = dot["shape"]
        tile = len(registers) // (wgmma_sizes(dot)[0] // (m * dot["warpgroups"][0]))
        return cls(tuple(registers), tile, tile * dot["columns"] // n)

    @property
    def used(self) -> list[AsmOperand]:
        return [each for n, each in enumerate(self.registers) if n % self.tile < self.width]

    def set(self, builder: FunctionBuilder, op: Operation, used: Iterable[str]) -> None:
        """Set the result of an op; registers of columns that are not used are undefined."""
        results = iter(used)
        registers = [
            next(results) if n % self.tile < self.width else "undef"
            for n in range(len(self.registers))
        ]
        builder.set(op, unpack(builder, op.inputs[-1].type.element, registers))


@dataclass(frozen=True)
class _Dot:
    """One op of a statement: `columns` of all warpgroups, and registers of the accumulator."""

    shape: MmaShape
    right: _SharedOperand
    columns: int
    warpgroups: int  # along the columns
    registers: int
    width: int  # columns of an instruction

    @property
    def column_tiles(self) -> int:
        return self.columns // (self.shape.n * self.warpgroups)


@dataclass(frozen=True)
class _Statement:
    """The text of an asm statement: `$0` and so on are the accumulators, then come the operands.

    With `zero`, the first instruction of a tile ignores the accumulators, whatever they hold.
    """

    kinds: tuple[Scalar, ...]  # of `a`, `b` and the accumulator
    left: _SharedOperand | None
    dots: tuple[_Dot, ...]
    row_tiles: int
    a_operands: int  # registers of `a`, or its descriptor
    a_count: int  # registers of `a` for one row of tiles
    depth: int
    steps: int  # along k; operands are zero past these
    zero: bool
    follows: bool  # the wgmma before may be in flight, and reads the same registers of `a`

    @property
    def converts(self) -> bool:
        """True if registers of `a` are f32, which is rounded to tf32."""
        return self.left is None and self.kinds[0] is F32

    @property
    def registers(self) -> int:
        """The number of registers of all accumulators."""
        return sum(dot.registers for dot in self.dots)

    def lines(self) -> list[str]:
        lines = [".reg .pred p; .reg .b64 da, db;", "setp.eq.b32 p, 0, 0;"]
        if self.converts:
            lines.append(f".reg .b32 e, a<{self.a_operands}>;")
        if self.zero:
            lines.append(".reg .pred z; setp.ne.b32 z, 0, 0;")
        return [*lines, *(self._by_steps() if self.follows else self._whole())]

    def _whole(self) -> Iterator[str]:
        """Yield the instructions of all tiles; the group of each op ends with its last one."""
        if self.converts:
            yield from self._rounded(range(self.a_operands))
        yield "wgmma.fence.sync.aligned;"
        last = (self.row_tiles - 1, self.steps - 1)
        for row in range(self.row_tiles):
            for tiles in self._tiles():
                for step in range(self.steps):
                    for number, column in tiles:
                        yield from self._instruction(number, row, column, step)
                        ends = column == self.dots[number].column_tiles - 1
                        if (row, step) == last and ends:
                            yield _COMMIT

    def _by_steps(self) -> Iterator[str]:
        """Yield the instruction of each step along k of one tile, a group of its own.

        It waits for that of the same step of the wgmma before, whose registers it writes. So the
        tensor cores execute the other steps meanwhile.
        """
        each = self.a_count // self.depth
        for step in range(self.steps):
            yield f"wgmma.wait_group.sync.aligned {self.steps - 1};"
            yield from self._rounded(range(step * each, (step + 1) * each))
            yield "wgmma.fence.sync.aligned;"
            yield from self._instruction(0, 0, 0, step)
            yield _COMMIT

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

    def _tiles(self) -> list[list[tuple[int, int]]]:
        """Return the tiles of a row, as dots and columns, in lists whose instructions alternate."""
        tiles = [(i, j) for i, dot in enumerate(self.dots) for j in range(dot.column_tiles)]
        return [[tile] for tile in tiles] if len(self.dots) == 1 else [tiles]

    def _instruction(self, number: int, row: int, column: int, step: int) -> list[str]:
        a, b, acc = self.kinds
        dot = self.dots[number]
        m, _, k, bits = dot.shape
        kinds = f"{_ACCUMULATOR[acc]}.{_PTX[a]}.{_PTX[b]}"
        signs = [1, 1] if a.is_floating() else []
        operands = [operand for operand in (self.left, dot.right) if operand is not None]
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
        descriptor = f"${self.registers + self.a_operands + number}"
        lines.append(f"add.s64 db, {descriptor}, {dot.right.offset(column, step)};")
        scale_d = "z" if self.zero and not step else "p"
        name = f"wgmma.mma_async.sync.aligned.m{m}n{dot.width}k{k}.{kinds}"
        return [
            *lines,
            f"{name} {self._accumulator(number, row, column)}, {first}, db, {scale_d}{flags};",
        ]

    def _accumulator(self, number: int, row: int, column: int) -> str:
        """Return the registers of a tile of an accumulator."""
        before, dot = sum(dot.registers for dot in self.dots[:number]), self.dots[number]
        count = dot.registers // (self.row_tiles * dot.column_tiles)
        return braces(before + (row * dot.column_tiles + column) * count, count)


def _waits_itself(op: Operation) -> bool:
    """Return True for a wgmma that waits, step by step, for that of the previous iteration.

    It has one tile, its `a` is f32 in registers, its accumulator only loop-carried, and the wait is
    just before it.
    """
    (m, n, *_), (rows, columns) = op["shape"], op["warpgroups"]
    if wgmma_sizes(op)[:2] != (m * rows, n * columns):
        return False
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
    acc = _Accumulator.of(builder, op.inputs[0], _dot_of(op.inputs[0]))
    types, initial = [ty for ty, _ in acc.used], [register for _, register in acc.used]
    results = assemble(builder, text, types, [], initial=initial, memory=True, convergent=True)
    acc.set(builder, op, results)


def _dot_of(acc: Value) -> Operation | None:
    """Return the wgmma of an accumulator in flight, maybe of the last iteration of a loop."""
    for _ in range(_MOST_LOOPS):
        op, owner = acc.op, acc.owner
        if op is not None and op.defn is ops.wgmma.wgmma:
            return op
        if op is not None and op.defn is control.for_:
            acc = op.regions[0].yielded[op.results.index(acc)]
        elif isinstance(owner, Block) and acc is not owner.args[0] and owner.parent is not None:
            if owner.parent.defn is not control.for_:
                return None
            acc = owner.yielded[owner.args.index(acc) - 1]
        else:
            return None
    return None


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
