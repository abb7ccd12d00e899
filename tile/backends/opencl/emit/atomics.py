"""Emit atomic operations on global memory.

Atomics of OpenCL 1.2 are relaxed, so fences before and after them implement the memory order.
Floats are combined by compare-and-swap loops.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.body import FunctionBuilder, Rule
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


def atomic_rmw(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a read-modify-write, one register after the other, each under its mask."""
    element = op.inputs[1].type.element
    _check(builder, element)
    combine = _combine(builder, element, op["kind"])
    _each(builder, op, element, 2, combine)


def atomic_cas(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a compare-and-swap, which compares bits."""
    element = op.inputs[1].type.element
    _check(builder, element)
    ty, bits = builder.source.carrier(element), unsigned(element.bits)
    name = _function(element, "cmpxchg")

    def swap(pointer: str, expected: str, value: str) -> str:
        if is_integer(element):
            arguments = ", ".join(_argument(element, x) for x in (expected, value))
            return f"{name}({_volatile(builder, element, pointer)}, {arguments})"
        word = f"(volatile __global {bits} *){pointer}"
        text = f"{name}({word}, as_{bits}({expected}), as_{bits}({value}))"
        return f"as_{ty}({text})"

    _each(builder, op, element, 3, swap)


def _each(
    builder: FunctionBuilder,
    op: Operation,
    element: Element,
    count: int,
    combine: Callable[..., str],
) -> None:
    """Emit statements, or variables if the old values have uses."""
    columns = [builder.of(value) for value in op.operands[:count] if value is not None]
    masks = ["true"] * len(columns[0]) if op["mask"] is None else builder.of(op["mask"])
    texts = [combine(*registers) for registers in zip(*columns, strict=True)]
    order = op["order"]
    if order.releases:
        _fence(builder, "release")
    if op.result.uses:
        zero = constant(0, element, builder.source.device.fp16)
        old_values = [
            text if mask == "true" else f"{mask} ? {text} : {zero}"
            for mask, text in zip(masks, texts, strict=True)
        ]
        builder.let(op, old_values, pure=False)
    else:
        for mask, text in zip(masks, texts, strict=True):
            builder.when(mask, f"{text};")
    if order.acquires:
        _fence(builder, "acquire")


def _fence(builder: FunctionBuilder, order: str) -> None:
    if builder.source.device.fences:
        where = "CLK_GLOBAL_MEM_FENCE"
        builder.line(f"atomic_work_item_fence({where}, memory_order_{order}, memory_scope_device);")
    else:
        builder.line("mem_fence(CLK_GLOBAL_MEM_FENCE);")


def _combine(
    builder: FunctionBuilder, element: Element, kind: RMWKind
) -> Callable[[str, str], str]:
    ty, bits = builder.source.carrier(element), unsigned(element.bits)
    if is_integer(element):
        name = _function(element, kind.value)
        return lambda p, x: f"{name}({_volatile(builder, element, p)}, {_argument(element, x)})"
    if kind is RMWKind.XCHG:
        name = _function(element, "xchg")
        return lambda p, x: f"as_{ty}({name}((volatile __global {bits} *){p}, as_{bits}({x})))"
    name = builder.use(f"atomic_{_FLOAT[kind]}_{element}")
    if element is F16 and not is_bits(F16, builder.source.device.fp16):
        return lambda p, x: f"as_half({name}({p}, as_ushort((half){x})))"
    return lambda p, x: f"{name}({p}, {x})"


def _function(element: Element, name: str) -> str:
    """Return the built-in function's name; 64-bit ones are an extension's and begin with `atom`."""
    return f"{'atom' if element.bits == 64 else 'atomic'}_{name}"


def _volatile(builder: FunctionBuilder, element: Element, pointer: str) -> str:
    return f"(volatile __global {stored(element, builder.source.device.fp16)} *){pointer}"


def _argument(element: Element, x: str) -> str:
    kind = stored(element, True)
    return f"({kind}){x}" if natural(element, x) == x else natural(element, x)


def _check(builder: FunctionBuilder, element: Element) -> None:
    if element.bits == 64:
        if not builder.source.device.atomics64:
            raise UnsupportedError(
                f"device {builder.source.device.name!r} has no atomic operations on 64 bits, which "
                f"those on {element} need"
            )
        builder.source.extensions |= {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"}
    if element in (F16, BF16, F64):
        builder.source.check(element)


RULES: dict[OpDef, Rule] = {memory.atomic_rmw: atomic_rmw, memory.atomic_cas: atomic_cas}
