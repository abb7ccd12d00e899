"""Shared memory of a program: one array whose size the launch gives, and places in it."""

from __future__ import annotations

from dataclasses import replace

from tile.analysis.liveness import LOOPS
from tile.backends.nvptx.emit.assembler import assemble, braces
from tile.backends.nvptx.emit.body import Body, Place, Registers, Rule
from tile.backends.nvptx.emit.memory import (
    SHARED,
    guarded_store,
    plain_load,
    plain_store,
)
from tile.backends.nvptx.emit.turns import stage_of
from tile.backends.nvptx.emit.types import is_literal, llvm_type
from tile.backends.nvptx.emit.words import Element, pack, unpack
from tile.errors import CompilationError
from tile.ir.core import Operation, Value
from tile.ir.effects import effects
from tile.ir.opdef import Effect, OpDef
from tile.ir.ops import arith
from tile.ir.ops.memory import CacheModifier
from tile.ir.types import Shared
from tile.simt import ops

_READING = frozenset({ops.thread.shared_load, ops.thread.shared_matrix_load})

MEMORY = "@tile_shared_memory"
_ALIGNMENT = 1024  # bytes
DECLARATION = f"{MEMORY} = external addrspace(3) global [0 x i8], align {_ALIGNMENT}"


def alloc(body: Body, op: Operation) -> None:
    """A buffer is where planning has put it."""
    if op["at"] < 0:
        raise CompilationError("a buffer has no place in shared memory: plan-shared was not run")
    body.module.declare(MEMORY, DECLARATION)
    body.buffers[op.result] = Place("0", op["at"])


def slot(body: Body, op: Operation) -> None:
    """A stage by number."""
    mem, turn = op.inputs
    held = mem.type
    assert isinstance(held, Shared)
    place, number = body.buffers[mem], body.scalar(turn)
    body.buffers[op.result] = staged(body, place, number, op["shift"], held)


def staged(body: Body, place: Place, number: str, shift: int, held: Shared) -> Place:
    """The place of a stage: a constant moves the place, anything else is added to the address."""
    step = held.bytes // held.stages
    if held.stages == 1:
        return place
    if is_literal(number):
        at = place.at + (int(number) + shift) % held.stages * step
        return replace(place, at=at)
    stage = stage_of(body, number, shift, held.stages)
    moving = body.new(f"mul nuw nsw i32 {stage}, {step}")
    if place.moving != "0":
        moving = body.new(f"add i32 {moving}, {place.moving}")
    return Place(moving, place.at, min(place.unit, step & -step))


class Addresses:
    """The addresses of elements of a buffer, by offsets that count elements.

    With `near`, those that differ from others by XOR are computed from these each time: an address
    for each of the matrices of a tile would take as many registers throughout a loop.
    """

    def __init__(self, body: Body, mem: Value, *, near: bool = False) -> None:
        assert isinstance(mem.type, Shared)
        self.body = body
        self.place = body.buffers[mem]
        self.size = mem.type.of.itemsize
        self._start = MEMORY
        self._near = near
        if self.place.moving != "0":
            self._start = self._moved(MEMORY, self.place.moving)
        self._known: dict[str, str] = {}
        self._words: dict[str, str] = {}

    def of(self, offset: str) -> str:
        """The pointer to an element. What is constant comes last: part of the instruction."""
        return self._constant(*self.parts(offset))

    def parts(self, offset: str) -> tuple[str, int]:
        """The pointer to an element as another one and a number of bytes from there."""
        if is_literal(offset):
            return self._start, self.place.at + int(offset) * self.size
        base, constant = self.body.sums.get(offset, (offset, 0))
        if base not in self._known:
            self._known[base] = self._crossed(base) or self._added(base)
        return self._known[base], self.place.at + constant * self.size

    def _crossed(self, base: str) -> str | None:
        """The pointer to an element by XOR of another's; None if that is not how it is to come.

        The bits that change are those below the alignment of the buffer.
        """
        if not self._near or base not in self.body.crossed:
            return None
        base, by = self.body.crossed[base]
        if by * self.size >= min(self.place.unit, _ALIGNMENT):
            return None
        word = self.body.new(f"xor i32 {self._word(base)}, {by * self.size}")
        return self.body.new(f"inttoptr i32 {word} to {SHARED}")

    def _word(self, base: str) -> str:
        """A pointer as a number that LLVM does not know from the last round of a loop."""
        if base not in self._words:
            if base not in self._known:
                self._known[base] = self._added(base)
            operands = [(SHARED, self._known[base])]
            if self.place.moving == "0":
                (word,) = assemble(self.body, "mov.b32 $0, $1;", ["i32"], operands, memory=True)
            else:
                word = self.body.new(f"ptrtoint {SHARED} {self._known[base]} to i32")
            self._words[base] = word
        return self._words[base]

    def _added(self, base: str) -> str:
        shift = self.size.bit_length() - 1
        moved = self.body.new(f"shl i32 {base}, {shift}") if shift else base
        return self._moved(self._start, moved)

    def _moved(self, pointer: str, by: str) -> str:
        return self.body.new(f"getelementptr i8, {SHARED} {pointer}, i32 {by}")

    def _constant(self, pointer: str, by: int) -> str:
        return self._moved(pointer, str(by)) if by else pointer


def shared_load(body: Body, op: Operation) -> None:
    """Vectors, aligned to their size."""
    mem = op.inputs[0]
    addresses = Addresses(body, mem, near=_is_moved(body, op))
    results: Registers = []
    for offset in body.of(op.inputs[1]):
        pointer = addresses.of(offset)
        results += plain_load(body, mem.type.element, pointer, op["vector"], SHARED)
    body.set(op, results)


def _is_moved(body: Body, op: Operation) -> bool:
    """Whether offsets are a layout's, XORed with what is not known, and by constants then."""
    made = op.inputs[1].op
    moved = made is not None and made.defn is arith.xor
    return moved and any(offset in body.crossed for offset in body.of(op.inputs[1]))


def shared_matrix_load(body: Body, op: Operation) -> None:
    """An instruction for each offset; it gives each lane a word of each matrix.

    Factors are loaded step by step as they are multiplied. The assembler moves loads up, but not
    down: of all at once it would keep other values in memory.
    """
    mem, matrices = op.inputs[0], op["matrices"]
    addresses = Addresses(body, mem, near=any(outer.defn in LOOPS for outer in op.ancestors()))
    flipped = ".trans" if op["transposed"] else ""
    many = braces(0, matrices) if matrices > 1 else "{$0}"
    name = f"ldmatrix.sync.aligned.m8n8.x{matrices}{flipped}.shared.b16"
    later = _is_multiplied(op)
    registers: Registers = []
    for offset in body.of(op.inputs[1]):
        pointer, moved = addresses.parts(offset)
        text = f"{name} {many}, [${matrices}+{moved}];"
        operands = [(SHARED, pointer)]
        before = len(body.lines)
        words = assemble(body, text, ["i32"] * matrices, operands, memory=True, convergent=True)
        loaded = [x for word in words for x in from_word(body, mem.type.element, word)]
        if later:
            body.defer(before, loaded)
        registers += loaded
    body.set(op, registers)


def _is_multiplied(op: Operation) -> bool:
    """Whether all that is loaded goes into products of its block, and memory is the same there."""
    waiting, products = [op.result], set()
    while waiting:
        for user, index in waiting.pop().uses:
            if user.defn is ops.thread.pick:
                waiting.append(user.result)
            elif user.defn is ops.matrix.matrix_multiply and index < 2 and user.block is op.block:
                products.add(user)
            else:
                return False
    following = op.next
    while products and following is not None:
        if following.defn not in _READING and effects(following) & ~Effect.READ:
            return False
        products.discard(following)
        following = following.next
    return not products


def from_word(body: Body, element: Element, word: str) -> Registers:
    """The elements in a word of 32 bits."""
    if element.itemsize == 4:
        ty = llvm_type(element)
        return [word if ty == "i32" else body.new(f"bitcast i32 {word} to {ty}")]
    return unpack(body, element, [word])


def shared_matrix_store(body: Body, op: Operation) -> None:
    """An instruction for each offset, as loads of matrices are."""
    mem, matrices = op.inputs[0], op["matrices"]
    addresses = Addresses(body, mem)
    flipped = ".trans" if op["transposed"] else ""
    many = braces(1, matrices) if matrices > 1 else "{$1}"
    name = f"stmatrix.sync.aligned.m8n8.x{matrices}{flipped}.shared.b16"
    words = to_words(body, mem.type.element, body.of(op.inputs[2]))
    for number, offset in enumerate(body.of(op.inputs[1])):
        pointer, moved = addresses.parts(offset)
        given = words[number * matrices : (number + 1) * matrices]
        operands = [(SHARED, pointer), *[("i32", word) for word in given]]
        text = f"{name} [$0+{moved}], {many};"
        assemble(body, text, [], operands, memory=True, convergent=True)


def to_words(body: Body, element: Element, registers: Registers) -> Registers:
    """Elements in words of 32 bits."""
    words = pack(body, element, registers)
    return [x if ty == "i32" else body.new(f"bitcast {ty} {x} to i32") for ty, x in words]


def shared_store(body: Body, op: Operation) -> None:
    """Vectors, each under its mask."""
    mem, offsets, values, *_ = op.inputs
    addresses = Addresses(body, mem)
    element, step = mem.type.element, op["vector"]
    registers = body.of(values)
    masks = masks_of(body, op, len(body.of(offsets)))
    for number, (offset, mask) in enumerate(zip(body.of(offsets), masks, strict=True)):
        pointer = addresses.of(offset)
        stored = registers[number * step : (number + 1) * step]
        if mask == "true":
            plain_store(body, element, pointer, stored, SHARED)
        else:
            guarded_store(body, element, "st.shared", (SHARED, pointer), stored, mask)


def masks_of(body: Body, op: Operation, count: int) -> Registers:
    """The masks of vectors; all true where there are none."""
    mask = op["mask"]
    return ["true"] * count if mask is None else body.of(mask)


def shared_count(body: Body, op: Operation) -> None:
    """Add 1 in one step."""
    addresses = Addresses(body, op.inputs[0])
    offsets = body.of(op.inputs[1])
    for offset, mask in zip(offsets, masks_of(body, op, len(offsets)), strict=True):
        guard = "" if mask == "true" else "@$1 "
        operands = [(SHARED, addresses.of(offset))] + ([("i1", mask)] if guard else [])
        assemble(body, f"{guard}red.shared.add.u32 [$0], 1;", [], operands, memory=True)


# -- asynchronous copies


def shared_copy(body: Body, op: Operation) -> None:
    """A vector at a time; 16 bytes pass by the first cache, unless `ca` asks for that.

    Fewer bytes cannot, and the other cache modifiers are none that a copy has. Nor is an eviction
    priority given: on sm_90, drivers and assemblers before CUDA 13.4 encode a copy with a hint for
    the second cache wrongly, if a part of its address in shared memory is the same in all threads,
    as a stage's is; it ends as an illegal instruction.
    """
    mem, offsets, pointers, *_ = op.inputs
    addresses = Addresses(body, mem)
    step = op["vector"]
    size = step * addresses.size
    by = "cg" if size == 16 and op["cache"] is not CacheModifier.CA else "ca"
    kind = f"cp.async.{by}.shared.global"
    active = None if op["active"] is None else ("i1", body.scalar(op["active"]))
    sources = body.of(pointers)[::step]
    places = body.of(offsets)
    masks = masks_of(body, op, len(places))
    for offset, source, mask in zip(places, sources, masks, strict=True):
        pointer, moved = addresses.parts(offset)
        operands = [(SHARED, pointer), ("i64", source)]
        taken = f"[$0+{moved}], [$1], {size}"
        if mask != "true":
            taken += f", ${len(operands)}"
            operands.append(("i32", body.new(f"select i1 {mask}, i32 {size}, i32 0")))
        guard = ""
        if active is not None:
            guard = f"@${len(operands)} "
            operands.append(active)
        assemble(body, f"{guard}{kind} {taken};", [], operands, memory=True)


def copy_commit(body: Body, op: Operation) -> None:
    """Close a group."""
    assemble(body, "cp.async.commit_group;", [], [], memory=True)


def copy_wait(body: Body, op: Operation) -> None:
    """Wait for all groups but the last ones."""
    assemble(body, f"cp.async.wait_group {op['pending']};", [], [], memory=True)


RULES: dict[OpDef, Rule] = {
    ops.shared.alloc: alloc,
    ops.shared.slot: slot,
    ops.shared.copy_commit: copy_commit,
    ops.shared.copy_wait: copy_wait,
    ops.thread.shared_load: shared_load,
    ops.thread.shared_matrix_load: shared_matrix_load,
    ops.thread.shared_matrix_store: shared_matrix_store,
    ops.thread.shared_store: shared_store,
    ops.thread.shared_count: shared_count,
    ops.thread.shared_copy: shared_copy,
}
