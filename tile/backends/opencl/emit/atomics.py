"""Atomic operations on global memory.

Those of OpenCL 1.2 order nothing, so that fences stand around them as the operation asks. Floats
are combined by compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.body import Body, Rule
from tile.backends.opencl.emit.types import (
    constant,
    is_bits,
    is_integer,
    natural,
    stored,
    unsigned,
)
from tile.errors import UnsupportedError
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import memory
from tile.ir.ops.memory import RMWKind
from tile.ir.types import BF16, F16, F64

_FLOAT = {RMWKind.ADD: "add", RMWKind.MIN: "min", RMWKind.MAX: "max"}


def atomic_rmw(body: Body, op: Operation) -> None:
    """One after the other, each under its mask."""
    element = op.inputs[1].type.element
    _check(body, element)
    combine = _combine(body, element, op["kind"])
    _each(body, op, element, 2, combine)


def atomic_cas(body: Body, op: Operation) -> None:
    """The same bits are equal."""
    element = op.inputs[1].type.element
    _check(body, element)
    held, bits = body.source.carrier(element), unsigned(element.bits)
    name = _named(element, "cmpxchg")

    def swap(pointer: str, expected: str, value: str) -> str:
        if is_integer(element):
            given = ", ".join(_operand(element, x) for x in (expected, value))
            return f"{name}({_volatile(body, element, pointer)}, {given})"
        word = f"(volatile __global {bits} *){pointer}"
        text = f"{name}({word}, as_{bits}({expected}), as_{bits}({value}))"
        return f"as_{held}({text})"

    _each(body, op, element, 3, swap)


def _each(
    body: Body, op: Operation, element: Element, count: int, combine: Callable[..., str]
) -> None:
    """Statements, or variables if someone wants to know what was there."""
    columns = [body.of(value) for value in op.operands[:count] if value is not None]
    masks = ["true"] * len(columns[0]) if op["mask"] is None else body.of(op["mask"])
    texts = [combine(*registers) for registers in zip(*columns, strict=True)]
    order = op["order"]
    if order.releases:
        _fence(body, "release")
    if op.result.uses:
        zero = constant(0, element, body.source.device.fp16)
        guarded = [
            text if mask == "true" else f"{mask} ? {text} : {zero}"
            for mask, text in zip(masks, texts, strict=True)
        ]
        body.let(op, guarded, pure=False)
    else:
        for mask, text in zip(masks, texts, strict=True):
            body.when(mask, f"{text};")
    if order.acquires:
        _fence(body, "acquire")


def _fence(body: Body, order: str) -> None:
    if body.source.device.fences:
        where = "CLK_GLOBAL_MEM_FENCE"
        body.line(f"atomic_work_item_fence({where}, memory_order_{order}, memory_scope_device);")
    else:
        body.line("mem_fence(CLK_GLOBAL_MEM_FENCE);")


def _combine(body: Body, element: Element, kind: RMWKind) -> Callable[[str, str], str]:
    held, bits = body.source.carrier(element), unsigned(element.bits)
    if is_integer(element):
        name = _named(element, kind.value)
        return lambda p, x: f"{name}({_volatile(body, element, p)}, {_operand(element, x)})"
    if kind is RMWKind.XCHG:
        name = _named(element, "xchg")
        return lambda p, x: f"as_{held}({name}((volatile __global {bits} *){p}, as_{bits}({x})))"
    name = body.use(f"atomic_{_FLOAT[kind]}_{element}")
    if element is F16 and not is_bits(F16, body.source.device.fp16):
        return lambda p, x: f"as_half({name}({p}, as_ushort((half){x})))"
    return lambda p, x: f"{name}({p}, {x})"


def _named(element: Element, what: str) -> str:
    """The 64-bit functions are those of an extension."""
    return f"{'atom' if element.bits == 64 else 'atomic'}_{what}"


def _volatile(body: Body, element: Element, pointer: str) -> str:
    return f"(volatile __global {stored(element, body.source.device.fp16)} *){pointer}"


def _operand(element: Element, x: str) -> str:
    kind = stored(element, True)
    return f"({kind}){x}" if natural(element, x) == x else natural(element, x)


def _check(body: Body, element: Element) -> None:
    if element.bits == 64:
        if not body.source.device.atomics64:
            raise UnsupportedError(
                f"device {body.source.device.name!r} has no atomic operations on 64 bits, which "
                f"those on {element} need"
            )
        body.source.extensions |= {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"}
    if element in (F16, BF16, F64):
        body.source.check(element)


RULES: dict[OpDef, Rule] = {memory.atomic_rmw: atomic_rmw, memory.atomic_cas: atomic_cas}
