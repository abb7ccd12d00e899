"""Atomic operations on global memory, in inline PTX: LLVM's own lose order and scope.

Where nobody uses the old value, `red` takes the place of `atom`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tile.backends.nvptx.emit.assembler import assemble, braces
from tile.backends.nvptx.emit.body import FunctionBuilder, Registers, Rule
from tile.backends.nvptx.emit.memory import from_register, global_pointer, in_register
from tile.backends.nvptx.emit.narrow import narrow, wide
from tile.backends.nvptx.emit.types import is_signed, llvm_type, number_of
from tile.backends.nvptx.emit.words import pack
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import memory
from tile.ir.ops.memory import Order, RMWKind, Scope
from tile.ir.types import BF16, F16, F32, F64, Pointer, Scalar

Combine = Callable[[str], str]

_REGISTER = {"half": "i16", "bfloat": "i16"}
_FLOAT_SUM = {F16: "noftz.f16", BF16: "noftz.bf16", F32: "f32", F64: "f64"}
_BITWISE = {RMWKind.AND: "and", RMWKind.OR: "or", RMWKind.XOR: "xor", RMWKind.XCHG: "exch"}


@dataclass(frozen=True)
class _Instruction:
    """The form in which the instructions of an atomic operation are emitted."""

    kind: str  # `atom`, or `red`, which has no result
    order: Order
    scope: Scope

    def name(self, suffix: str) -> str:
        return f"{self.kind}.{self.order}.{self.scope}.global.{suffix}"


@contextmanager
def _ordered(
    builder: FunctionBuilder, op: Operation, count: int, width: int = 1
) -> Iterator[_Instruction]:
    """Order the accesses around an operation of `count` instructions on vectors of `width`.

    A single instruction carries the order itself. Several are put between fences, since each of
    them would otherwise wait for all earlier accesses. `red` cannot acquire, and only `red` takes
    vectors.
    """
    order, scope = op["order"], op["scope"]
    kind = "atom" if op.result.uses or order.acquires else "red"
    carries_order = count == 1 and (kind == "red" or width == 1)
    if carries_order or order is Order.RELAXED:
        yield _Instruction(kind, order, scope)
        return
    fence = f"fence.acq_rel.{scope};"
    if order.releases:
        assemble(builder, fence, [], [], memory=True)
    yield _Instruction("atom" if op.result.uses else "red", Order.RELAXED, scope)
    if order.acquires:
        assemble(builder, fence, [], [], memory=True)


def atomic_rmw(builder: FunctionBuilder, op: Operation) -> None:
    """Emit one instruction where there is one, else a loop around compare-and-swap."""
    element = number_of(op.result.type)
    pointers, values = builder.of(op.inputs[0]), builder.of(op.inputs[1])
    masks = _masks(builder, op, len(pointers))
    suffix = _suffix(builder, op["kind"], element)
    width = 1 if op.result.uses else op["vector"]
    results: Registers = []
    with _ordered(builder, op, len(pointers) // width, width) as form:
        for first in range(0, len(pointers), width):
            pointer, mask = pointers[first], masks[first]
            operands = values[first : first + width]
            if suffix is None:
                results.append(_by_swapping(builder, op, form, pointer, operands[0], mask))
            elif width > 1:
                _vector(builder, form, suffix, element, pointer, operands, mask)
            else:
                results.append(_scalar(builder, op, form, suffix, pointer, operands, mask))
    if op.result.uses:
        builder.set(op, results)


def atomic_cas(builder: FunctionBuilder, op: Operation) -> None:
    """Compare the bits, and swap."""
    element = op.result.type.element
    pointers, expected, values = (builder.of(value) for value in op.inputs[:3])
    masks = _masks(builder, op, len(pointers))
    suffix = f"cas.b{element.bits}"
    operands = zip(pointers, expected, values, masks, strict=True)
    with _ordered(builder, op, len(pointers)) as form:
        form = replace(form, kind="atom")
        results = [
            _scalar(builder, op, form, suffix, p, [old, new], m) for p, old, new, m in operands
        ]
    builder.set(op, results)


def _masks(builder: FunctionBuilder, op: Operation, count: int) -> Registers:
    mask = op["mask"]
    return ["true"] * count if mask is None else builder.of(mask)


def _suffix(builder: FunctionBuilder, kind: RMWKind, element: Scalar) -> str | None:
    """Return the end of the instruction's name; None where there is no such instruction."""
    if kind in _BITWISE:
        return f"{_BITWISE[kind]}.b{element.bits}"
    if kind is RMWKind.ADD and element.is_floating():
        if element is BF16 and builder.module.arch.capability < 90:
            return None
        return f"add.{_FLOAT_SUM[element]}"
    if element.is_floating():
        return None
    if kind is RMWKind.ADD:
        return f"add.u{element.bits}"
    return f"{kind}.{'s' if is_signed(element) else 'u'}{element.bits}"


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
    guard = f"@${1 + len(packed)} " if mask != "true" else ""
    text = f"{guard}{form.name(name)} [$0], {braces(1, len(packed))};"
    operands = [("i64", pointer), *packed, *([("i1", mask)] if guard else [])]
    assemble(builder, text, [], operands, memory=True)


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
    if suffix.rpartition(".")[2][0] == "b" and ty in _INTEGER_OF:  # the bits of a float
        as_bits = _INTEGER_OF[ty]
        values = [builder.new(f"bitcast {ty} {value} to {as_bits}") for value in values]
        old = _emit(builder, form, suffix, pointer, as_bits, values, mask)
        return builder.new(f"bitcast {as_bits} {old} to {ty}") if old else ""
    register_type = _REGISTER.get(ty, ty)
    values = [in_register(builder, (ty, value)) for value in values]
    old = _emit(builder, form, suffix, pointer, register_type, values, mask)
    return from_register(builder, ty, old) if old else ""


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
    guard = f"@${at + 1 + len(values)} " if mask != "true" else ""
    sources = ", ".join([f"${number}" for number in range(at + 1, at + 1 + len(values))])
    destination = "$0, " if results else ""
    text = f"{guard}{form.name(suffix)} {destination}[${at}], {sources};"
    operands = [("i64", pointer), *[(ty, value) for value in values]]
    if guard:
        operands.append(("i1", mask))
    registers = assemble(builder, text, results, operands, memory=True)
    return registers[0] if registers else ""


# -- by compare-and-swap


def _by_swapping(
    builder: FunctionBuilder, op: Operation, form: _Instruction, pointer: str, value: str, mask: str
) -> str:
    """Load, combine and compare-and-swap until no other thread wrote in between.

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
    element = op.result.type.element
    ty = llvm_type(element)
    bits = f"i{element.bits}"
    before = builder.block
    first, again, done = (builder.label(name) for name in ("first", "again", "done"))
    builder.branch(mask, first, done)
    builder.start_block(first)
    with builder.dominance_scope():
        address = global_pointer(builder, pointer)
        start = builder.new_unique(
            f"load atomic {bits}, ptr addrspace(1) {address} monotonic, align {element.itemsize}"
        )
        builder.jump(again)
        builder.start_block(again)
        old = builder.name()
        expected = builder.phi(bits, [(start, first), (old, again)])
        number = builder.new(f"bitcast {bits} {expected} to {ty}")
        combined = _combined(builder, op["kind"], element, number, value)
        new = builder.new(f"bitcast {ty} {combined} to {bits}")
        suffix = f"cas.b{element.bits}"
        swap = replace(form, kind="atom")
        swapped = _emit(builder, swap, suffix, pointer, bits, [expected, new], "true")
        builder.do(f"{old} = bitcast {bits} {swapped} to {bits}")
        builder.branch(builder.new(f"icmp eq {bits} {old}, {expected}"), done, again)
    builder.start_block(done)
    result = builder.phi(bits, [("0", before), (old, again)])
    return builder.new(f"bitcast {bits} {result} to {ty}")


def _combined(
    builder: FunctionBuilder, kind: RMWKind, element: Scalar | Pointer, x: str, y: str
) -> str:
    if kind is RMWKind.ADD:
        total = builder.new(f"fadd float {wide(builder, element, x)}, {wide(builder, element, y)}")
        return narrow(builder, element, total)
    assert isinstance(element, Scalar)
    ty = llvm_type(element)
    return builder.call(f"@llvm.{kind}num.{element.name}", ty, (ty, x), (ty, y))


RULES: dict[OpDef, Rule] = {memory.atomic_rmw: atomic_rmw, memory.atomic_cas: atomic_cas}
