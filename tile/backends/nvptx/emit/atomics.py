"""Atomic operations on global memory, as lines of PTX: LLVM's own drop order and scope.

Where nobody asks what was there before, `red` does not bring it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tile.backends.nvptx.emit.assembler import assemble, braces
from tile.backends.nvptx.emit.body import Body, Registers, Rule
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
_SAME = {RMWKind.AND: "and", RMWKind.OR: "or", RMWKind.XOR: "xor", RMWKind.XCHG: "exch"}


@dataclass(frozen=True)
class _Step:
    """An atomic operation as its instructions are to be."""

    kind: str  # the instruction: `atom`, or `red`, which gives no result
    order: Order
    scope: Scope

    def name(self, suffix: str) -> str:
        return f"{self.kind}.{self.order}.{self.scope}.global.{suffix}"


@contextmanager
def _ordered(body: Body, op: Operation, steps: int, width: int = 1) -> Iterator[_Step]:
    """Order the accesses around an operation of so many instructions, on vectors of a width.

    One instruction says so itself, several are between fences: each of them would wait otherwise
    for all that came before. `red` knows no acquiring, and vectors know nothing but `red`.
    """
    order, scope = op["order"], op["scope"]
    kind = "atom" if op.result.uses or order.acquires else "red"
    by_itself = steps == 1 and (kind == "red" or width == 1)
    if by_itself or order is Order.RELAXED:
        yield _Step(kind, order, scope)
        return
    fence = f"fence.acq_rel.{scope};"
    if order.releases:
        assemble(body, fence, [], [], memory=True)
    yield _Step("atom" if op.result.uses else "red", Order.RELAXED, scope)
    if order.acquires:
        assemble(body, fence, [], [], memory=True)


def atomic_rmw(body: Body, op: Operation) -> None:
    """One instruction where there is one, else a loop around compare-and-swap."""
    element = number_of(op.result.type)
    pointers, values = body.of(op.inputs[0]), body.of(op.inputs[1])
    masks = _masks(body, op, len(pointers))
    suffix = _suffix(body, op["kind"], element)
    width = 1 if op.result.uses else op["vector"]
    results: Registers = []
    with _ordered(body, op, len(pointers) // width, width) as step:
        for first in range(0, len(pointers), width):
            pointer, mask = pointers[first], masks[first]
            given = values[first : first + width]
            if suffix is None:
                results.append(_by_swapping(body, op, step, pointer, given[0], mask))
            elif width > 1:
                _together(body, step, suffix, element, pointer, given, mask)
            else:
                results.append(_direct(body, op, step, suffix, pointer, given, mask))
    if op.result.uses:
        body.set(op, results)


def atomic_cas(body: Body, op: Operation) -> None:
    """Compare the bits, and swap."""
    element = op.result.type.element
    pointers, expected, values = (body.of(value) for value in op.inputs[:3])
    masks = _masks(body, op, len(pointers))
    suffix = f"cas.b{element.bits}"
    given = zip(pointers, expected, values, masks, strict=True)
    with _ordered(body, op, len(pointers)) as step:
        step = replace(step, kind="atom")
        results = [_direct(body, op, step, suffix, p, [old, new], m) for p, old, new, m in given]
    body.set(op, results)


def _masks(body: Body, op: Operation, count: int) -> Registers:
    mask = op["mask"]
    return ["true"] * count if mask is None else body.of(mask)


def _suffix(body: Body, kind: RMWKind, element: Scalar) -> str | None:
    """The end of the instruction's name; None where there is no such instruction."""
    if kind in _SAME:
        return f"{_SAME[kind]}.b{element.bits}"
    if kind is RMWKind.ADD and element.is_floating():
        if element is BF16 and body.module.arch.capability < 90:
            return None
        return f"add.{_FLOAT_SUM[element]}"
    if element.is_floating():
        return None
    if kind is RMWKind.ADD:
        return f"add.u{element.bits}"
    return f"{kind}.{'s' if is_signed(element) else 'u'}{element.bits}"


def _together(
    body: Body,
    step: _Step,
    suffix: str,
    element: Scalar,
    pointer: str,
    values: Registers,
    mask: str,
) -> None:
    """Neighbours by one instruction: pairs of 16 bits, and up to four words."""
    assert step.kind == "red"
    words = pack(body, element, values)
    *before, number = suffix.split(".")
    pairs = "x2" if element.bits == 16 else ""
    many = [f"v{len(words)}"] if len(words) > 1 else []
    name = ".".join([*before, *many, number + pairs])
    guard = f"@${1 + len(words)} " if mask != "true" else ""
    text = f"{guard}{step.name(name)} [$0], {braces(1, len(words))};"
    operands = [("i64", pointer), *words, *([("i1", mask)] if guard else [])]
    assemble(body, text, [], operands, memory=True)


def _direct(
    body: Body,
    op: Operation,
    step: _Step,
    suffix: str,
    pointer: str,
    values: Registers,
    mask: str,
) -> str:
    ty = llvm_type(op.result.type.element)
    if suffix.rpartition(".")[2][0] == "b" and ty in _INTEGER_OF:  # the bits of a float
        as_bits = _INTEGER_OF[ty]
        values = [body.new(f"bitcast {ty} {value} to {as_bits}") for value in values]
        found = _instruction(body, step, suffix, pointer, as_bits, values, mask)
        return body.new(f"bitcast {as_bits} {found} to {ty}") if found else ""
    used = _REGISTER.get(ty, ty)
    values = [in_register(body, (ty, value)) for value in values]
    found = _instruction(body, step, suffix, pointer, used, values, mask)
    return from_register(body, ty, found) if found else ""


_INTEGER_OF = {"float": "i32", "double": "i64"}


def _instruction(
    body: Body,
    step: _Step,
    suffix: str,
    pointer: str,
    ty: str,
    values: Registers,
    mask: str,
) -> str:
    """What was there before; nothing from a `red`."""
    if step.kind == "red" and suffix.startswith("exch"):  # there is none that exchanges
        step = replace(step, kind="atom")
    results = [ty] if step.kind == "atom" else []
    at = len(results)
    guard = f"@${at + 1 + len(values)} " if mask != "true" else ""
    given = ", ".join([f"${number}" for number in range(at + 1, at + 1 + len(values))])
    into = "$0, " if results else ""
    text = f"{guard}{step.name(suffix)} {into}[${at}], {given};"
    operands = [("i64", pointer), *[(ty, value) for value in values]]
    if guard:
        operands.append(("i1", mask))
    found = assemble(body, text, results, operands, memory=True)
    return found[0] if found else ""


# -- by compare-and-swap


def _by_swapping(
    body: Body, op: Operation, step: _Step, pointer: str, value: str, mask: str
) -> str:
    """Read, combine and swap until nobody else wrote in between.

        br mask, first, done
    first:
        start = load
    again:
        seen = phi start, found
        found = cas seen, combine(seen)
        br found == seen, done, again
    done:
        result = phi 0, found
    """
    element = op.result.type.element
    ty = llvm_type(element)
    bits = f"i{element.bits}"
    before = body.block
    first, again, done = (body.label(name) for name in ("first", "again", "done"))
    body.branch(mask, first, done)
    body.start(first)
    with body.inside():
        address = global_pointer(body, pointer)
        start = body.fresh(
            f"load atomic {bits}, ptr addrspace(1) {address} monotonic, align {element.itemsize}"
        )
        body.jump(again)
        body.start(again)
        found = body.name()
        seen = body.phi(bits, [(start, first), (found, again)])
        number = body.new(f"bitcast {bits} {seen} to {ty}")
        combined = _combined(body, op["kind"], element, number, value)
        new = body.new(f"bitcast {ty} {combined} to {bits}")
        suffix = f"cas.b{element.bits}"
        swap = replace(step, kind="atom")
        swapped = _instruction(body, swap, suffix, pointer, bits, [seen, new], "true")
        body.do(f"{found} = bitcast {bits} {swapped} to {bits}")
        body.branch(body.new(f"icmp eq {bits} {found}, {seen}"), done, again)
    body.start(done)
    result = body.phi(bits, [("0", before), (found, again)])
    return body.new(f"bitcast {bits} {result} to {ty}")


def _combined(body: Body, kind: RMWKind, element: Scalar | Pointer, x: str, y: str) -> str:
    if kind is RMWKind.ADD:
        total = body.new(f"fadd float {wide(body, element, x)}, {wide(body, element, y)}")
        return narrow(body, element, total)
    assert isinstance(element, Scalar)
    ty = llvm_type(element)
    return body.call(f"@llvm.{kind}num.{element.name}", ty, (ty, x), (ty, y))


RULES: dict[OpDef, Rule] = {memory.atomic_rmw: atomic_rmw, memory.atomic_cas: atomic_cas}
