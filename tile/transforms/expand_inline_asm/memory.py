"""Accesses of global memory by `ld`, `st` and `red` (PTX ISA 8.5, 9.7.9 and 9.7.13)."""

from __future__ import annotations

from typing import Any

from tile.ir.core import Value
from tile.ir.expressions import Expression, unsigned
from tile.ir.ops import arith, memory
from tile.ir.ops.memory import Order, RMWKind, Scope
from tile.ir.types import I32, U8, U64, Pointer, Scalar, with_element
from tile.transforms.expand_inline_asm.registers import RegisterFile
from tile.transforms.expand_inline_asm.rules import Opcode
from tile.transforms.expand_inline_asm.syntax import Address

# Modifiers without a meaning here: caches, and what the accesses are in any case.
_HINTS = frozenset(["global", "weak", "volatile", "ca", "cg", "cs", "lu", "cv", "wb", "wt"])
_ORDERS = frozenset([Order.RELAXED.value, Order.ACQUIRE.value, Order.RELEASE.value])
_SCOPES = frozenset([scope.value for scope in Scope])
_REDUCE_ORDERS = _ORDERS - {Order.ACQUIRE.value}
_ATOMIC = {
    "ld": _SCOPES | _ORDERS - {Order.RELEASE.value},
    "st": _SCOPES | _ORDERS - {Order.ACQUIRE.value},
}


def load(registers: RegisterFile, opcode: Opcode) -> None:
    """Load an element where the guard holds."""
    target, address = registers.user.take(2)
    element = _element(registers, opcode)
    if ordering := _ordering(opcode, Order.ACQUIRE):
        # An atomic load is a bitwise or with zero.
        pointer = _pointer(registers, address, unsigned(element.bits))
        zero = pointer.build.constant(0, with_element(pointer.value.type, unsigned(element.bits)))
        operands = (pointer.value, zero, registers.mask)
        value = pointer.build(memory.atomic_rmw, *operands, kind=RMWKind.OR, **ordering)
        result = Expression(pointer.build, value).view(element)
    else:
        pointer = _pointer(registers, address, element)
        value = pointer.build(memory.load, pointer.value, registers.mask, volatile=True)
        result = Expression(pointer.build, value)
    registers.write(target, result, wider=True)


def store(registers: RegisterFile, opcode: Opcode) -> None:
    """Store an element where the guard holds."""
    address, source = registers.user.take(2)
    element = _element(registers, opcode)
    pointer = _pointer(registers, address, element)
    value: Value = registers.read(source, element, wider=True).value
    if ordering := _ordering(opcode, Order.RELEASE):
        operands = (pointer.value, value, registers.mask)
        pointer.build.op(memory.atomic_rmw, *operands, kind=RMWKind.STORE, **ordering)
    else:
        pointer.build.op(memory.store, pointer.value, value, registers.mask)


# Reductions by which memory is the same however often a thread, or several, executes them.
_REPEATABLE = {kind.value: kind for kind in (RMWKind.AND, RMWKind.OR, RMWKind.MIN, RMWKind.MAX)}
ONCE_A_THREAD = (
    "it is executed once in each thread that holds an element, and how many threads do depends on "
    "the layout; use the functions `tl.atomic_*`"
)


def reduce(registers: RegisterFile, opcode: Opcode) -> None:
    """Combine an element in memory with a value where the guard holds."""
    kinds = [name for name in opcode.modifiers if name in _REPEATABLE]
    others = frozenset(opcode.modifiers).difference(kinds, _SCOPES, _REDUCE_ORDERS, ["global"])
    if others or len(kinds) != 1:
        raise registers.user.unsupported(f": {ONCE_A_THREAD}")
    types = ("b32", "b64") if kinds[0] in ("and", "or") else ("u32", "s32", "u64", "s64")
    if not opcode.has("global") or len(opcode.names) != 1 or opcode.names[0] not in types:
        raise registers.user.unsupported()
    address, source = registers.user.take(2)
    element = opcode.types[0].element
    pointer = _pointer(registers, address, element)
    value = registers.read(source, element).value
    pointer.build.op(
        memory.atomic_rmw,
        *(pointer.value, value, registers.mask),
        kind=_REPEATABLE[kinds[0]],
        order=Order(opcode.one_of(_REDUCE_ORDERS, Order.RELAXED.value)),
        scope=Scope(opcode.one_of(_SCOPES, Scope.DEVICE.value)),
    )


def _ordering(opcode: Opcode, order: Order) -> dict[str, Any]:
    """Return the order and scope of an atomic access, relaxed or `order`; empty for others."""
    named = opcode.one_of((order.value, Order.RELAXED.value))
    if not named:
        return {}
    scope = opcode.one_of([scope.value for scope in Scope])
    return {"order": Order(named), "scope": Scope(scope)}


def _element(registers: RegisterFile, opcode: Opcode) -> Scalar:
    """Return the type of an access of one element of global memory."""
    if len(opcode.names) != 1 or opcode.types[0].lanes != 1:
        raise registers.user.unsupported()
    allowed = _HINTS | _ATOMIC[opcode.base]
    if not opcode.has("global") or not allowed.issuperset(opcode.modifiers):
        raise registers.user.unsupported()
    orders = [name for name in opcode.modifiers if name in _ORDERS]
    scopes = [name for name in opcode.modifiers if name in _SCOPES]
    if len(orders) != len(scopes) or len(orders) > 1:
        raise registers.user.refusal("an atomic access has one order and one scope")
    return opcode.types[0].element


def _pointer(registers: RegisterFile, operand: object, element: Scalar) -> Expression:
    """Return the pointer that an address is."""
    if not isinstance(operand, Address):
        raise registers.user.refusal("it takes an address, such as `[$1]`")
    base = _traced(registers.read(operand.base, U64))
    if operand.offset:
        offset = base.constant(operand.offset, I32)
        base = base.apply(memory.addptr, offset, stride=1)
    return base.view(Pointer(element))


def _traced(address: Expression) -> Expression:
    """Return an address as a pointer to bytes.

    An argument plus a number stays a pointer into the argument's array, by which analyses and
    checks find the array.
    """
    addition = address.value.op
    if addition is not None and addition.defn is arith.add:
        for x, y in (addition.inputs, addition.inputs[::-1]):
            cast = x.op
            sources = [] if cast is None else cast.inputs[:1]
            if any(isinstance(source.type.element, Pointer) for source in sources):
                pointer = Expression(address.build, x).view(Pointer(U8))
                return pointer.apply(memory.addptr, Expression(address.build, y), stride=1)
    return address.view(Pointer(U8))
