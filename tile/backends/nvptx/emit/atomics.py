"""Emit atomic operations on global memory.

They are inline PTX: LLVM's own lose order and scope. Where nobody uses the old value, `red` takes
the place of `atom`. What the architecture has no instruction for is a loop around compare-and-swap
(PTX ISA, `atom`): most operations on fewer than 32 bits. The minima and maxima of wider floats are
those of integers.

A bitwise or with zero is an atomic load and becomes `ld`, and the kind `store` becomes `st`. An
exchange with an unused result remains an exchange, as it extends the release sequence of the store
that it replaces, and `st` starts another one (PTX ISA, "Memory Consistency Model").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce

from tile.backends.nvptx.emit.convert import narrow, wide
from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble, braces
from tile.backends.nvptx.emit.memory import from_register, global_pointer, in_register
from tile.backends.nvptx.emit.vectors import pack
from tile.codegen.llvm.function_builder import Registers, Rule
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Operation
from tile.ir.effects import constant_of
from tile.ir.op_definition import OpDef
from tile.ir.ops import memory
from tile.ir.ops.memory import Order, RMWKind, Scope
from tile.ir.types import BF16, F16, F32, F64, Scalar, number_of

_ATOMIC_REGISTER = {"i8": "i16", "half": "i16", "bfloat": "i16"}
_FLOAT_SUM = {F16: "noftz.f16", BF16: "noftz.bf16", F32: "f32", F64: "f64"}
_BITWISE = {
    RMWKind.AND: "and",
    RMWKind.OR: "or",
    RMWKind.XOR: "xor",
    RMWKind.XCHG: "exch",
    RMWKind.STORE: "exch",
}


@dataclass(frozen=True)
class _Instruction:
    """The form in which the instructions of an atomic operation are emitted."""

    kind: str  # `atom`; `red` and `st`, which have no result; or `ld`
    order: Order
    scope: Scope

    def name(self, suffix: str) -> str:
        return f"{self.kind}.{self.order}.{self.scope}.global.{suffix}"


@contextmanager
def _ordered(
    builder: FunctionBuilder, op: Operation, masks: Sequence[str], width: int = 1
) -> Iterator[_Instruction]:
    """Order the accesses around an operation: an instruction for each mask, on vectors of `width`.

    A single instruction carries the order itself. Several are put between fences, since each of
    them would otherwise wait for all earlier accesses. Only the threads that execute one of them
    execute the fences. `red` cannot acquire, and only `red` takes vectors.
    """
    order, scope = _order(op), op["scope"]
    access, count = _access(op), len(masks)
    kind = "atom" if op.result.uses or order.acquires else "red"
    carries_order = count == 1 and (kind == "red" or width == 1)
    if carries_order or order is Order.RELAXED:
        yield _Instruction(access or kind, order, scope)
        return
    fence, guard = f"fence.acq_rel.{scope};", _any(builder, masks)
    if order.releases:
        assemble(builder, fence, [], [], guard=guard, memory=True)
    relaxed = access or ("atom" if op.result.uses else "red")
    yield _Instruction(relaxed, Order.RELAXED, scope)
    if order.acquires:
        assemble(builder, fence, [], [], guard=guard, memory=True)


def _order(op: Operation) -> Order:
    """Return the memory order, without the acquisition of a tile of values that nobody uses.

    Locks and flags are scalars. Such an operation is a `red`, which has no such order.
    """
    order: Order = op["order"]
    if op.result.uses or isinstance(op.result.type, Scalar):
        return order
    return Order.RELEASE if order.releases else Order.RELAXED


def _any(builder: FunctionBuilder, masks: Sequence[str]) -> str:
    """Return a mask that is true if one of some masks is."""
    if "true" in masks:
        return "true"
    return reduce(lambda x, y: builder.new(f"or i1 {x}, {y}"), dict.fromkeys(masks))


def _access(op: Operation) -> str:
    """Return `ld` or `st` for an atomic load or store whose order it can have, else ""."""
    if op.defn is not memory.atomic_rmw:
        return ""
    order, kind = op["order"], op["kind"]
    if kind is RMWKind.OR and not order.releases and constant_of(op.inputs[1]) == 0:
        return "ld"
    stores = kind is RMWKind.STORE and not order.acquires and not op.result.uses
    return "st" if stores else ""


def atomic_rmw(builder: FunctionBuilder, op: Operation) -> None:
    """Emit one instruction where there is one, else a loop around compare-and-swap."""
    element, kind = number_of(op.result.type), op["kind"]
    pointers, values = builder.of(op.inputs[0]), builder.of(op.inputs[1])
    masks = builder.masks(op, len(pointers))
    suffix = f"b{element.bits}" if _access(op) else _suffix(builder, kind, element)
    width = 1 if op.result.uses else op["vector"]
    results: Registers = []
    with _ordered(builder, op, masks[::width], width) as form:
        for first in range(0, len(pointers), width):
            pointer, mask = pointers[first], masks[first]
            operands = values[first : first + width]
            if suffix is None and kind in _EXTREMES and element in (F32, F64):
                results.append(_extreme(builder, kind, element, form, pointer, operands[0], mask))
            elif suffix is None:
                combine = partial(_combined, builder, kind, element, y=operands[0])
                results.append(compare_and_swap(builder, element, form, pointer, combine, mask))
            elif width > 1:
                _vector(builder, form, suffix, element, pointer, operands, mask)
            else:
                results.append(_scalar(builder, op, form, suffix, pointer, operands, mask))
    if op.result.uses:
        builder.set(op, results)


def atomic_cas(builder: FunctionBuilder, op: Operation) -> None:
    """Compare the bits, and swap: by one instruction, except for elements of 8 bits."""
    element = number_of(op.result.type)
    pointers, expected, values = (builder.of(value) for value in op.inputs[:3])
    masks = builder.masks(op, len(pointers))
    suffix = f"cas.b{element.bits}"
    results: Registers = []
    with _ordered(builder, op, masks) as form:
        form = replace(form, kind="atom")
        for pointer, old, new, mask in zip(pointers, expected, values, masks, strict=True):
            if element.bits == 8:
                combine = partial(_replaced, builder, expected=old, new=new)
                result = compare_and_swap(builder, element, form, pointer, combine, mask)
            else:
                result = _scalar(builder, op, form, suffix, pointer, [old, new], mask)
            results.append(result)
    builder.set(op, results)


def _replaced(builder: FunctionBuilder, x: str, *, expected: str, new: str) -> str:
    """Return what compare-and-swap writes where memory holds `x`, an integer of 8 bits."""
    return builder.new(f"select i1 {builder.new(f'icmp eq i8 {x}, {expected}')}, i8 {new}, i8 {x}")


def _suffix(builder: FunctionBuilder, kind: RMWKind, element: Scalar) -> str | None:
    """Return the end of the instruction's name; None where there is no such instruction."""
    if kind is RMWKind.ADD and element.is_floating():
        if element is BF16 and builder.module.arch.capability < 90:
            return None
        return f"add.{_FLOAT_SUM[element]}"
    if element.bits < 32:
        return None
    if kind in _BITWISE:
        return f"{_BITWISE[kind]}.b{element.bits}"
    if element.is_floating():
        return None
    if kind is RMWKind.ADD:
        return f"add.u{element.bits}"
    return f"{kind}.{'s' if element.is_int_signed() else 'u'}{element.bits}"


# The instructions on the bits of floats that are not negative, and of those that are; and whether
# the sign is set in the bits that change nothing, of which all others are ones.
_EXTREMES = {RMWKind.MAX: ("max.s", "min.u", True), RMWKind.MIN: ("min.s", "max.u", False)}


def _extreme(
    builder: FunctionBuilder,
    kind: RMWKind,
    element: Scalar,
    form: _Instruction,
    pointer: str,
    value: str,
    mask: str,
) -> str:
    """Emit the maximum or minimum of floats as one of integers, and return the old value.

    Signed integers order floats as positive ones are ordered, and unsigned integers order the
    negative ones in reverse, above all others: the value's sign decides which instruction is
    executed. If the value is a NaN, it changes nothing. One in memory, which may win as an integer,
    is replaced by compare-and-swap.
    """
    ty, bits = llvm_type(element), f"i{element.bits}"
    positive, negative, sign = _EXTREMES[kind]
    neutral = -1 if sign else (1 << element.bits - 1) - 1
    is_nan = builder.new(f"fcmp uno {ty} {value}, {value}")
    own = builder.new(f"bitcast {ty} {value} to {bits}")
    number = builder.new(f"select i1 {is_nan}, {bits} {neutral}, {bits} {own}")
    below = builder.new(f"icmp slt {bits} {number}, 0")
    above = _not(builder, below)
    atom = replace(form, kind="atom")
    old = [
        _emit(builder, atom, f"{name}{element.bits}", pointer, bits, [number], guard)
        for name, guard in (
            (positive, _both(builder, mask, above)),
            (negative, _both(builder, mask, below)),
        )
    ]
    read = builder.new(f"select i1 {below}, {bits} {old[1]}, {bits} {old[0]}")
    before = builder.new(f"bitcast {bits} {read} to {ty}")
    was_nan = builder.new(f"fcmp uno {ty} {before}, {before}")
    wins = _both(builder, mask, builder.new(f"and i1 {was_nan}, {_not(builder, is_nan)}"))
    combine = partial(_combined, builder, kind, element, y=value)
    compare_and_swap(builder, element, form, pointer, combine, wins)
    return before


def _not(builder: FunctionBuilder, condition: str) -> str:
    return builder.new(f"xor i1 {condition}, true")


def _both(builder: FunctionBuilder, mask: str, condition: str) -> str:
    return condition if mask == "true" else builder.new(f"and i1 {mask}, {condition}")


def _vector(
    builder: FunctionBuilder,
    form: _Instruction,
    suffix: str,
    element: Scalar,
    pointer: str,
    values: Registers,
    mask: str,
) -> None:
    """Emit one `red` for contiguous elements: pairs of 16 bits, and up to four 32-bit registers."""
    assert form.kind == "red"
    packed = pack(builder, element, values)
    *prefix, ty = suffix.split(".")
    pairs = "x2" if element.bits == 16 else ""
    width = [f"v{len(packed)}"] if len(packed) > 1 else []
    name = ".".join([*prefix, *width, ty + pairs])
    text = f"{form.name(name)} [$0], {braces(1, len(packed))};"
    assemble(builder, text, [], [("i64", pointer), *packed], guard=mask, memory=True)


def _scalar(
    builder: FunctionBuilder,
    op: Operation,
    form: _Instruction,
    suffix: str,
    pointer: str,
    values: Registers,
    mask: str,
) -> str:
    ty = llvm_type(op.result.type.element)
    if form.kind == "ld":
        return _load(builder, form, suffix, pointer, ty, mask)
    if suffix.startswith(("cas", "exch", "b")) and ty in _INTEGER_OF:  # the bits of a float
        as_bits = _INTEGER_OF[ty]
        values = [builder.new(f"bitcast {ty} {value} to {as_bits}") for value in values]
        old = _emit(builder, form, suffix, pointer, as_bits, values, mask)
        return builder.new(f"bitcast {as_bits} {old} to {ty}") if old else ""
    register_type = _ATOMIC_REGISTER.get(ty, ty)
    values = [in_register(builder, (ty, value)) for value in values]
    old = _emit(builder, form, suffix, pointer, register_type, values, mask)
    return from_register(builder, ty, old) if old else ""


def _load(
    builder: FunctionBuilder, form: _Instruction, suffix: str, pointer: str, ty: str, mask: str
) -> str:
    """Emit an atomic load of an integer, and return its value."""
    results = [_ATOMIC_REGISTER.get(ty, ty)]
    text = f"{form.name(suffix)} $0, [$1];"
    (value,) = assemble(builder, text, results, [("i64", pointer)], guard=mask, memory=True)
    return from_register(builder, ty, value)


_INTEGER_OF = {"float": "i32", "double": "i64"}


def _emit(
    builder: FunctionBuilder,
    form: _Instruction,
    suffix: str,
    pointer: str,
    ty: str,
    values: Registers,
    mask: str,
) -> str:
    """Emit one instruction, and return the old value; an empty name for a `red`."""
    if form.kind == "red" and suffix.startswith("exch"):  # no `red` exchanges
        form = replace(form, kind="atom")
    results = [ty] if form.kind == "atom" else []
    at = len(results)
    sources = ", ".join([f"${number}" for number in range(at + 1, at + 1 + len(values))])
    destination = "$0, " if results else ""
    text = f"{form.name(suffix)} {destination}[${at}], {sources};"
    operands = [("i64", pointer), *[(ty, value) for value in values]]
    registers = assemble(builder, text, results, operands, guard=mask, memory=True)
    return registers[0] if registers else ""


# -- by compare-and-swap


@dataclass(frozen=True)
class _Word:
    """The word of memory that is swapped, and the place of an element in it.

    The word is the element itself, or the aligned 32 bits that contain it, for elements of 8 bits:
    no instruction compares and swaps those. `shift` is the element's position there, as an i32.
    """

    ty: str
    pointer: str
    shift: str = ""

    def element(self, builder: FunctionBuilder, word: str) -> str:
        """Return the bits of the element, from those of the word."""
        if not self.shift:
            return word
        return builder.new(f"trunc i32 {builder.new(f'lshr i32 {word}, {self.shift}')} to i8")

    def with_element(self, builder: FunctionBuilder, word: str, bits: str) -> str:
        """Return the word with other bits in the place of the element."""
        if not self.shift:
            return bits
        own = builder.new(f"xor i32 {builder.new(f'shl i32 255, {self.shift}')}, -1")
        rest = builder.new(f"and i32 {word}, {own}")
        moved = builder.new(f"shl i32 {builder.new(f'zext i8 {bits} to i32')}, {self.shift}")
        return builder.new(f"or i32 {rest}, {moved}")


def _word_of(builder: FunctionBuilder, element: Scalar, pointer: str) -> _Word:
    if element.bits > 8:
        return _Word(f"i{element.bits}", pointer)
    byte = builder.new(f"trunc i64 {builder.new(f'and i64 {pointer}, 3')} to i32")
    start = builder.new(f"and i64 {pointer}, -4")
    return _Word("i32", start, builder.new(f"shl i32 {byte}, 3"))


def compare_and_swap(
    builder: FunctionBuilder,
    element: Scalar,
    form: _Instruction,
    pointer: str,
    combine: Callable[[str], str],
    mask: str,
) -> str:
    """Load, combine and compare-and-swap until no other thread wrote in between.

    Return the old value. Elements of 8 bits are swapped with the word that contains them:

      br mask, first, done
    first:
      start = load
    again:
      expected = phi start, old
      old = cas expected, combine(expected)
      br old == expected, done, again
    done:
      result = phi 0, old
    """
    ty, bits = llvm_type(element), f"i{element.bits}"
    word = _word_of(builder, element, pointer)
    before = builder.block
    first, again, done = (builder.label(name) for name in ("first", "again", "done"))
    builder.branch(mask, first, done)
    builder.start_block(first)
    with builder.dominance_scope():
        address, size = global_pointer(builder, word.pointer), int(word.ty[1:]) // 8
        start = builder.new_unique(
            f"load atomic {word.ty}, ptr addrspace(1) {address} monotonic, align {size}"
        )
        builder.jump(again)
        builder.start_block(again)
        old = builder.name()
        expected = builder.phi(word.ty, [(start, first), (old, again)])
        number = _cast_bits(builder, bits, ty, word.element(builder, expected))
        combined = _cast_bits(builder, ty, bits, combine(number))
        new = word.with_element(builder, expected, combined)
        swap = replace(form, kind="atom")
        suffix = f"cas.b{word.ty[1:]}"
        swapped = _emit(builder, swap, suffix, word.pointer, word.ty, [expected, new], "true")
        builder.do(f"{old} = bitcast {word.ty} {swapped} to {word.ty}")
        builder.branch(builder.new(f"icmp eq {word.ty} {old}, {expected}"), done, again)
    builder.start_block(done)
    result = builder.phi(word.ty, [("0", before), (old, again)])
    return _cast_bits(builder, bits, ty, word.element(builder, result))


def _cast_bits(builder: FunctionBuilder, source: str, target: str, x: str) -> str:
    return x if source == target else builder.new(f"bitcast {source} {x} to {target}")


_LLVM_OPS = {RMWKind.ADD: "add", RMWKind.AND: "and", RMWKind.OR: "or", RMWKind.XOR: "xor"}


def _combined(builder: FunctionBuilder, kind: RMWKind, element: Scalar, x: str, *, y: str) -> str:
    if kind.exchanges:
        return y
    ty = llvm_type(element)
    if element.is_int():
        if kind in _LLVM_OPS:
            return builder.new(f"{_LLVM_OPS[kind]} {ty} {x}, {y}")
        name = f"@llvm.{'s' if element.is_int_signed() else 'u'}{kind}.{ty}"
        return builder.call(name, ty, (ty, x), (ty, y))
    wide_ty, name = ("double", "f64") if element is F64 else ("float", "f32")
    numbers = [wide(builder, element, number) for number in (x, y)]
    if kind is RMWKind.ADD:
        result = builder.new(f"fadd {wide_ty} {numbers[0]}, {numbers[1]}")
    else:
        result = builder.call(
            f"@llvm.{kind}num.{name}", wide_ty, *((wide_ty, number) for number in numbers)
        )
    return narrow(builder, element, result)


RULES: dict[OpDef, Rule] = {
    memory.atomic_rmw: atomic_rmw,
    memory.atomic_cas: atomic_cas,
}
