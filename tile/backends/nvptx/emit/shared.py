"""Shared memory of a program: one array whose size the launch gives, and addresses in it.

*Stage counters* count the stages of a multi-buffer from 0 to the last and around again. The
iteration modulo a number of stages that is not a power of two would be a multiplication in every
iteration, and HGMMA competes with those for register-file ports (see `strength-reduce-pointers`).
So a loop with wgmma carries a counter in addition to the iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tile.backends.nvptx.emit.function_builder import FunctionBuilder, SharedAddress
from tile.backends.nvptx.emit.inline_asm import assemble, braces
from tile.backends.nvptx.emit.memory import (
    SHARED,
    guarded_store,
    plain_load,
    plain_store,
)
from tile.backends.nvptx.emit.registers import special
from tile.backends.nvptx.emit.vectors import pack, unpack
from tile.codegen.emitter import is_operand_load
from tile.codegen.llvm.function_builder import Registers, Rule
from tile.codegen.llvm.memory import Element
from tile.codegen.llvm.types import is_literal, llvm_type
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import arith
from tile.ir.ops.memory import CacheModifier
from tile.ir.shared_type import Shared, shared_of
from tile.ir.types import I32
from tile.simt import ops


@dataclass(frozen=True)
class StageCounter:
    """A loop-carried value that each iteration adds 1 to, modulo a number of stages.

    Or modulo twice as many, where that gives the phase of an mbarrier.
    """

    value: Value
    init: Value
    stages: int

    def first(self, builder: FunctionBuilder) -> str:
        """Return the stage in the first iteration."""
        number = constant_of(self.init)
        if isinstance(number, int):
            return str(number % self.stages)
        return builder.new(f"urem i32 {builder.scalar(self.init)}, {self.stages}")

    def next(self, builder: FunctionBuilder, stage: str) -> str:
        """Return the stage in the next iteration."""
        following = builder.new(f"add i32 {stage}, 1")
        last = builder.new(f"icmp eq i32 {following}, {self.stages}")
        return builder.new(f"select i1 {last}, i32 0, i32 {following}")


def has_wgmma(loop: Operation) -> bool:
    """Return True if the body of a `for` has a wgmma."""
    return any(op.has_trait(Trait.IN_FLIGHT) for op in loop.regions[0])


def stage_counters(loop: Operation) -> list[StageCounter]:
    """Return the counters of a `for` with wgmma: one for each counted value and modulus."""
    if not has_wgmma(loop):
        return []
    (region,) = loop.regions
    carried = zip(region.args[1:], loop.inputs[3:], region.yielded, strict=True)
    return [
        StageCounter(value, init, stages)
        for value, init, following in carried
        if value.type == I32
        if _is_next(following, value)
        for stages in _moduli(value)
    ]


# Operations that take an iteration modulo the stages of their buffer (1), or modulo twice that (2).
_MODULUS_IN_STAGES = {
    ops.shared.local_subview: 1,
    ops.tma.mbarrier_arrive: 1,
    ops.cluster.mbarrier_arrive_pair: 1,
    ops.tma.mbarrier_wait: 2,
}


def _is_next(following: Value, value: Value) -> bool:
    op = following.op
    return (
        op is not None
        and op.defn is arith.add
        and op.inputs[0] is value
        and constant_of(op.inputs[1]) == 1
    )


def _moduli(iteration: Value) -> list[int]:
    """Return the moduli of an iteration's users that are not powers of two, each once."""
    moduli = (_modulus(op) for op in iteration.users)
    return [number for number in dict.fromkeys(moduli) if number & (number - 1)]


def _modulus(user: Operation) -> int:
    """Return the modulus by which an operation takes an iteration; 0 if it takes it otherwise."""
    times = _MODULUS_IN_STAGES.get(user.defn, 0)
    buffer = user.inputs[0].type
    return times * buffer.stages if times and isinstance(buffer, Shared) else 0


def stage_of(builder: FunctionBuilder, iteration: str, shift: int, stages: int) -> str:
    """Return the stage: `(iteration + shift) mod stages`."""
    stage, shift = builder.stage_counters.get((iteration, stages)), shift % stages
    if stage is None:
        number = builder.new(f"add i32 {iteration}, {shift}") if shift else iteration
        return builder.new(f"urem i32 {number}, {stages}")
    if not shift:
        return stage
    later = builder.new(f"add i32 {stage}, {shift}")
    inside = builder.new(f"icmp ult i32 {later}, {stages}")
    around = builder.new(f"sub i32 {later}, {stages}")
    return builder.new(f"select i1 {inside}, i32 {later}, i32 {around}")


def parity_of(builder: FunctionBuilder, iteration: str, shift: int, stages: int) -> str:
    """Return the parity of the phase, `(iteration + shift) / stages`: 0 or 1, an i32."""
    shift %= 2 * stages
    if (iteration, 2 * stages) in builder.stage_counters:
        stage = stage_of(builder, iteration, shift, 2 * stages)
        odd = builder.new(f"icmp uge i32 {stage}, {stages}")
        return builder.new(f"zext i1 {odd} to i32")
    number = builder.new(f"add i32 {iteration}, {shift}") if shift else iteration
    phase = builder.new(f"udiv i32 {number}, {stages}")
    return builder.new(f"and i32 {phase}, 1")


MEMORY = "@tile_shared_memory"
_ALIGNMENT = 1024  # bytes
DECLARATION = f"{MEMORY} = external addrspace(3) global [0 x i8], align {_ALIGNMENT}"


def local_alloc(builder: FunctionBuilder, op: Operation) -> None:
    """A buffer is at the offset that `allocate-shared` chose."""
    builder.module.declare(MEMORY, DECLARATION)
    builder.buffers[op.result] = SharedAddress("0", op["offset"])


def local_subview(builder: FunctionBuilder, op: Operation) -> None:
    """A subview is the stage of a multi-buffer that belongs to an iteration."""
    mem, iteration = op.inputs
    ty = shared_of(mem.type)
    address, number = builder.buffers[mem], builder.scalar(iteration)
    builder.buffers[op.result] = stage_address(builder, address, number, op["stage_offset"], ty)


def stage_address(
    builder: FunctionBuilder, address: SharedAddress, iteration: str, shift: int, buffer: Shared
) -> SharedAddress:
    """Return the address of the stage of an iteration.

    A constant iteration changes the offset; any other is added to the base.
    """
    step = buffer.stage_bytes
    if buffer.stages == 1:
        return address
    if is_literal(iteration):
        stage_offset = (int(iteration) + shift) % buffer.stages * step
        return replace(address, offset=address.offset + stage_offset)
    stage = stage_of(builder, iteration, shift, buffer.stages)
    return _at_index(builder, address, stage, step)


def _at_index(
    builder: FunctionBuilder, address: SharedAddress, index: str, step: int
) -> SharedAddress:
    base = builder.new(f"mul nuw nsw i32 {index}, {step}")
    if address.base != "0":
        base = builder.new(f"add i32 {base}, {address.base}")
    return SharedAddress(base, address.offset, min(address.alignment, step & -step))


class Addresses:
    """The addresses of elements of a buffer, by offsets that count elements.

    With `recompute_xors`, addresses that differ from others by an XOR are computed from these at
    each use: an address for each 8x8 matrix of a tile would occupy as many registers throughout a
    loop.
    """

    def __init__(
        self, builder: FunctionBuilder, mem: Value, *, recompute_xors: bool = False
    ) -> None:
        assert isinstance(mem.type, Shared)
        self.builder = builder
        self.address = builder.buffers[mem]
        self.size = mem.type.of.itemsize
        self._start = MEMORY
        self._recompute_xors = recompute_xors
        if self.address.base != "0":
            self._start = self._plus(MEMORY, self.address.base)
        self._pointers: dict[str, str] = {}
        self._integers: dict[str, str] = {}

    def of(self, offset: str) -> str:
        """Return the pointer to an element; its constant offset comes last, for the instruction."""
        return self._plus_constant(*self.parts(offset))

    def parts(self, offset: str) -> tuple[str, int]:
        """Return the pointer to an element as a pointer and a constant offset in bytes."""
        if is_literal(offset):
            return self._start, self.address.offset + int(offset) * self.size
        base, constant = self.builder.constant_offsets.get(offset, (offset, 0))
        if base not in self._pointers:
            self._pointers[base] = self._by_xor(base) or self._by_addition(base)
        return self._pointers[base], self.address.offset + constant * self.size

    def _by_xor(self, base: str) -> str | None:
        """Return the pointer to an element as another XORed with a constant, or None if it is not.

        The bits that change are below the alignment of the buffer.
        """
        if not self._recompute_xors or base not in self.builder.constant_xors:
            return None
        base, constant = self.builder.constant_xors[base]
        if constant * self.size >= min(self.address.alignment, _ALIGNMENT):
            return None
        integer = self.builder.new(f"xor i32 {self._as_integer(base)}, {constant * self.size}")
        return self.builder.new(f"inttoptr i32 {integer} to {SHARED}")

    def _as_integer(self, base: str) -> str:
        """Return a pointer as an integer that LLVM does not hoist out of a loop."""
        if base not in self._integers:
            if base not in self._pointers:
                self._pointers[base] = self._by_addition(base)
            operands = [(SHARED, self._pointers[base])]
            if self.address.base == "0":
                text = "mov.b32 $0, $1;"
                (integer,) = assemble(self.builder, text, ["i32"], operands, memory=True)
            else:
                integer = self.builder.new(f"ptrtoint {SHARED} {self._pointers[base]} to i32")
            self._integers[base] = integer
        return self._integers[base]

    def _by_addition(self, base: str) -> str:
        shift = self.size.bit_length() - 1
        scaled = self.builder.new(f"shl i32 {base}, {shift}") if shift else base
        return self._plus(self._start, scaled)

    def _plus(self, pointer: str, offset: str) -> str:
        return self.builder.new(f"getelementptr i8, {SHARED} {pointer}, i32 {offset}")

    def _plus_constant(self, pointer: str, offset: int) -> str:
        return self._plus(pointer, str(offset)) if offset else pointer


def shared_load(builder: FunctionBuilder, op: Operation) -> None:
    """Load vectors that are aligned to their size."""
    mem = op.inputs[0]
    addresses = Addresses(builder, mem, recompute_xors=_differ_by_xor(builder, op))
    results: Registers = []
    for offset in builder.of(op.inputs[1]):
        pointer = addresses.of(offset)
        results += plain_load(builder, mem.type.element, pointer, op["vector"], SHARED)
    builder.set(op, results)


def _differ_by_xor(builder: FunctionBuilder, op: Operation) -> bool:
    """Return True if the offsets are those of a layout, XORed with an unknown value.

    They then differ by XORs with constants.
    """
    definition = op.inputs[1].op
    return (
        definition is not None
        and definition.defn is arith.xor
        and any(offset in builder.constant_xors for offset in builder.of(op.inputs[1]))
    )


def ldmatrix(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an instruction for each offset; it gives every lane a 32-bit register of each matrix.

    Operands of mma are loaded just before the step that multiplies them. ptxas moves loads up, but
    not down: if all were loaded at once, it would spill.
    """
    mem, matrices = op.inputs[0], op["matrices"]
    addresses = Addresses(builder, mem, recompute_xors=op.in_loop)
    trans = ".trans" if op["transposed"] else ""
    destination = braces(0, matrices) if matrices > 1 else "{$0}"
    name = f"ldmatrix.sync.aligned.m8n8.x{matrices}{trans}.shared.b16"
    deferred = is_operand_load(op, ops.mma.mma)
    registers: Registers = []
    for offset in builder.of(op.inputs[1]):
        pointer, constant = addresses.parts(offset)
        text = f"{name} {destination}, [${matrices}+{constant}];"
        operands = [(SHARED, pointer)]
        before = len(builder.lines)
        packed = assemble(builder, text, ["i32"] * matrices, operands, memory=True, convergent=True)
        loaded = [x for register in packed for x in unpack_i32(builder, mem.type.element, register)]
        if deferred:
            builder.defer(before, loaded)
        registers += loaded
    builder.set(op, registers)


def unpack_i32(builder: FunctionBuilder, element: Element, register: str) -> Registers:
    """Return the elements in a 32-bit register."""
    if element.storage_bits == 32:
        ty = llvm_type(element)
        return [register if ty == "i32" else builder.new(f"bitcast i32 {register} to {ty}")]
    return unpack(builder, element, [register])


def stmatrix(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an instruction for each offset; every lane gives it a 32-bit register of each matrix."""
    mem, matrices = op.inputs[0], op["matrices"]
    addresses = Addresses(builder, mem)
    trans = ".trans" if op["transposed"] else ""
    source = braces(1, matrices) if matrices > 1 else "{$1}"
    name = f"stmatrix.sync.aligned.m8n8.x{matrices}{trans}.shared.b16"
    packed = pack_i32(builder, mem.type.element, builder.of(op.inputs[2]))
    for number, offset in enumerate(builder.of(op.inputs[1])):
        pointer, constant = addresses.parts(offset)
        stored = packed[number * matrices : (number + 1) * matrices]
        operands = [(SHARED, pointer), *[("i32", register) for register in stored]]
        text = f"{name} [$0+{constant}], {source};"
        assemble(builder, text, [], operands, memory=True, convergent=True)


def pack_i32(builder: FunctionBuilder, element: Element, registers: Registers) -> Registers:
    """Return elements in 32-bit registers."""
    packed = pack(builder, element, registers)
    return [x if ty == "i32" else builder.new(f"bitcast {ty} {x} to i32") for ty, x in packed]


def shared_store(builder: FunctionBuilder, op: Operation) -> None:
    """Store vectors, each under its mask."""
    mem, offsets, values, *_ = op.inputs
    addresses = Addresses(builder, mem)
    element, step = mem.type.element, op["vector"]
    registers = builder.of(values)
    masks = builder.masks(op, len(builder.of(offsets)))
    for number, (offset, mask) in enumerate(zip(builder.of(offsets), masks, strict=True)):
        pointer = addresses.of(offset)
        stored = registers[number * step : (number + 1) * step]
        if mask == "true":
            plain_store(builder, element, pointer, stored, SHARED)
        else:
            guarded_store(builder, element, "st.shared", (SHARED, pointer), stored, mask)


def shared_atomic_inc(builder: FunctionBuilder, op: Operation) -> None:
    """Add 1 atomically."""
    addresses = Addresses(builder, op.inputs[0])
    offsets = builder.of(op.inputs[1])
    for offset, mask in zip(offsets, builder.masks(op, len(offsets)), strict=True):
        operands = [(SHARED, addresses.of(offset))]
        assemble(builder, "red.shared.add.u32 [$0], 1;", [], operands, guard=mask, memory=True)


def shared_ordered_inc(builder: FunctionBuilder, op: Operation) -> None:
    """Find the lanes of each position by a ballot for each bit; their first one adds their number.

    `match.any` is an instruction for that, which takes a step for each different position.
    """
    addresses = Addresses(builder, op.inputs[0])
    matches = "".join([_MATCH.format(bit=1 << bit) for bit in range(op["bits"])])
    text = _ORDERED_INC.format(matches=matches)
    before = special(builder, "lanemask.lt")
    results = []
    for offset in builder.of(op.inputs[1]):
        operands = [(SHARED, addresses.of(offset)), ("i32", offset), ("i32", before)]
        results += assemble(builder, text, ["i32"], operands, memory=True, convergent=True)
    builder.set(op, results)


_MATCH = (
    "and.b32 b, $2, {bit}; setp.ne.u32 p, b, 0; vote.sync.ballot.b32 b, p, -1; "
    "@!p not.b32 b, b; and.b32 peers, peers, b; "
)
_ORDERED_INC = (
    "{{ .reg .pred p; .reg .b32 b, peers, old; mov.b32 peers, -1; {matches}"
    "and.b32 b, peers, $3; popc.b32 b, b; popc.b32 peers, peers; setp.eq.u32 p, b, 0; "
    "ld.shared.b32 old, [$1]; bar.warp.sync -1; add.u32 $0, old, b; add.u32 peers, old, peers; "
    "@p st.shared.b32 [$1], peers; bar.warp.sync -1; }}"
)


# -- asynchronous copies


def shared_cp_async(builder: FunctionBuilder, op: Operation) -> None:
    """Copy a vector at a time; copies of 16 bytes bypass L1, unless `ca` asks for it.

    Smaller ones cannot bypass it, and cp.async has no other cache modifiers. No eviction priority
    is given: on sm_90, drivers and ptxas before CUDA 13.4 encode a cp.async with an L2 cache hint
    wrongly if a part of its shared address is uniform, as that of a stage is; it fails as an
    illegal instruction.
    """
    mem, offsets, pointers, *_ = op.inputs
    addresses = Addresses(builder, mem)
    width = op["vector"]
    size = width * addresses.size
    cache = "cg" if size == 16 and op["cache"] is not CacheModifier.CA else "ca"
    name = f"cp.async.{cache}.shared.global"
    active = "true" if op["active"] is None else builder.scalar(op["active"])
    sources = builder.of(pointers)[::width]
    destinations = builder.of(offsets)
    masks = builder.masks(op, len(destinations))
    for offset, source, mask in zip(destinations, sources, masks, strict=True):
        pointer, constant = addresses.parts(offset)
        operands = [(SHARED, pointer), ("i64", source)]
        arguments = f"[$0+{constant}], [$1], {size}"
        if mask != "true":
            # A predicate: LLVM makes a size of 0 a chain of selects, one for each term of the mask.
            arguments += f", ${len(operands)}"
            operands.append(("i1", builder.new(f"xor i1 {mask}, true")))
        assemble(builder, f"{name} {arguments};", [], operands, guard=active, memory=True)


def cp_async_commit_group(builder: FunctionBuilder, op: Operation) -> None:
    """Close a group of copies."""
    assemble(builder, "cp.async.commit_group;", [], [], memory=True)


def cp_async_wait_group(builder: FunctionBuilder, op: Operation) -> None:
    """Wait for all groups of copies except the last ones."""
    assemble(builder, f"cp.async.wait_group {op['pending']};", [], [], memory=True)


RULES: dict[OpDef, Rule] = {
    ops.shared.local_alloc: local_alloc,
    ops.shared.local_subview: local_subview,
    ops.shared.cp_async_commit_group: cp_async_commit_group,
    ops.shared.cp_async_wait_group: cp_async_wait_group,
    ops.thread.shared_load: shared_load,
    ops.thread.ldmatrix: ldmatrix,
    ops.thread.stmatrix: stmatrix,
    ops.thread.shared_store: shared_store,
    ops.thread.shared_atomic_inc: shared_atomic_inc,
    ops.thread.shared_ordered_inc: shared_ordered_inc,
    ops.thread.shared_cp_async: shared_cp_async,
}
