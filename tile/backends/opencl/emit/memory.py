"""Emit accesses to global memory: loads and stores in vectors, each under its mask, and atomics.

Cache modifiers and eviction priorities are ignored: OpenCL C cannot express them.

Atomics of OpenCL 1.2 are relaxed, so fences before and after them implement the memory order.
Floats are combined by compare-and-swap loops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.function_builder import FunctionBuilder, Rule, each
from tile.backends.opencl.emit.register_arrays import (
    Index,
    bare,
    is_simple,
    stored_array,
)
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
from tile.ir.op_definition import OpDef
from tile.ir.ops import indexing, memory
from tile.ir.ops.memory import RMWKind
from tile.ir.types import BF16, F16, F64, I1, Pointer, count_of
from tile.simt import ops

GLOBAL = "__global"
LOCAL = "__local"
_COMPONENTS = "0123456789abcdef"


def addptr(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a pointer plus an offset, which is extended according to its signedness."""
    ty = op.inputs[1].type.element
    wide = "long" if ty.is_int_signed() else "ulong"

    def add(pointer: str, offset: str) -> str:
        if offset in ("0", "0L", "0UL"):
            return pointer
        return f"{pointer} + ({wide}){natural(ty, offset) if ty.bits < 64 else offset}"

    each(builder, op, add)


def ptradd(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a pointer plus bytes."""
    carrier = builder.carrier(op.result)
    each(builder, op, lambda pointer, offset: f"({carrier})(({GLOBAL} char *){pointer} + {offset})")


def barrier(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a barrier of all threads of the program."""
    builder.barrier()


# -- single elements and vectors


def from_memory(builder: FunctionBuilder, ty: Element, x: str) -> str:
    """Convert an element from its type in memory to its type in a register."""
    if ty is I1:
        return f"{x} != 0"
    if isinstance(ty, Pointer):
        return f"({builder.source.carrier(ty)}){x}"
    return x


def to_memory(builder: FunctionBuilder, ty: Element, x: str) -> str:
    """Convert a register to the type of the element in memory."""
    if ty is I1 or isinstance(ty, Pointer):
        return f"({builder.source.stored(ty)}){x}"
    return x


def read(builder: FunctionBuilder, ty: Element, pointer: str) -> str:
    """Return the load of one element, as an expression."""
    return from_memory(builder, ty, f"*{pointer}")


def read_vector(
    builder: FunctionBuilder,
    ty: Element,
    space: str,
    pointer: str,
    count: int,
    mask: str = "true",
    other: Sequence[str] | None = None,
) -> list[str]:
    """Emit the load of a vector; return its elements as expressions."""
    kind = f"{builder.source.stored(ty)}{count}"
    name = builder.names.new("vector")
    text = f"*(const {space} {kind} *)({pointer})"
    if mask == "true":
        builder.line(f"{kind} {name} = {text};")
    else:
        first = "0" if other is None else ", ".join(to_memory(builder, ty, x) for x in other)
        builder.line(f"{kind} {name} = ({kind})({first});")
        builder.line(f"if ({mask}) {name} = {text};")
    return [from_memory(builder, ty, f"{name}.s{_COMPONENTS[i]}") for i in range(count)]


def vector_of(builder: FunctionBuilder, ty: Element, registers: Sequence[str]) -> str:
    """Return a vector of registers."""
    kind = f"{builder.source.stored(ty)}{len(registers)}"
    return f"({kind})({', '.join(to_memory(builder, ty, x) for x in registers)})"


# -- operations


def load(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a load; where the mask is false, the result is `other`, or 0."""
    result, step = op.result, op["vector"]
    element = result.type.element
    pointers, masks = builder.column(op.inputs[0], result), builder.mask_column(op, result)
    other = None if op["other"] is None else builder.column(op["other"], result)

    def one(index: Index) -> str:
        mask = masks.at(index)
        default = None if other is None else other.at(index)
        return _masked_read(builder, op, element, pointers.at(index), mask, default)

    def several(index: Index) -> list[str]:
        pointer, mask = pointers.at(index), masks.at(index)
        defaults = None if other is None else [other.at(index.plus(i)) for i in range(step)]
        return read_vector(builder, element, GLOBAL, pointer, step, mask, defaults)

    read_all(builder, op, one, several)


def read_all(
    builder: FunctionBuilder,
    op: Operation,
    one: Callable[[Index], str],
    several: Callable[[Index], list[str]],
) -> None:
    """Set a load's result: `one` reads a register, `several` a vector from a register on."""
    result, step = op.result, op["vector"]
    if not builder.is_array(result):
        parts = ([one(i)] if step == 1 else several(i) for i in builder.vectors(result, step))
        builder.let(op, [text for part in parts for text in part])
    elif step == 1:
        builder.compute(op, one, pure=False)
    else:
        name, count = builder.names.new(result.name or "v"), count_of(result.type)
        builder.array(builder.carrier(result), name, count)
        array = stored_array(name, count)
        for index in builder.vectors(result, step):
            values = enumerate(several(index))
            texts = [f"{array.at(index.plus(i))} = {value};" for i, value in values]
            builder.join_parts("", texts, " ", "")
        builder.set(op, array)


def _masked_read(
    builder: FunctionBuilder,
    op: Operation,
    element: Element,
    pointer: str,
    mask: str,
    other: str | None,
) -> str:
    if op["volatile"]:
        pointer = f"(volatile __global {builder.source.stored(element)} *){pointer}"
    text = read(builder, element, pointer)
    if mask == "true":
        return text
    if other is None:
        other = constant(0, element, builder.source.device.fp16)
    if builder.source.carrier(element) == "half":
        text, other = f"(half){text}", f"(half){other}"
    other = builder.hoist_read(builder.source.carrier(element), other)
    return other if mask == "false" else f"{mask} ? {text} : {other}"


def store(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a store, one statement per vector."""
    pointer, value = op.inputs[:2]
    pointers, values = (builder.column(x, value) for x in (pointer, value))
    masks, step = builder.mask_column(op, value), op["vector"]
    for index in builder.vectors(value, step):
        address, mask = pointers.at(index), masks.at(index)
        registers = [values.at(index.plus(i)) for i in range(step)]
        write(builder, value.type.element, GLOBAL, address, registers, mask)


def write(
    builder: FunctionBuilder,
    ty: Element,
    space: str,
    pointer: str,
    registers: Sequence[str],
    mask: str,
) -> None:
    """Emit a store of one element or one vector under a mask."""
    if len(registers) == 1:
        builder.when(mask, f"{dereference(pointer)} = {to_memory(builder, ty, registers[0])};")
        return
    kind = f"{builder.source.stored(ty)}{len(registers)}"
    text = vector_of(builder, ty, registers)
    builder.when(mask, f"*({space} {kind} *)({pointer}) = {text};")


# A sum of a variable and of an expression that is uniform over work-items.
_SUM = re.compile(r"\(((?:\(int\))?\w+) \+ (.+)\)")


def signed(builder: FunctionBuilder, offset: str) -> str:
    """Return an offset in local memory; on vectorizing CPUs, one of type `int`.

    Intel's CPU runtime recognizes contiguous accesses of adjacent work-items if the offset is
    sign-extended, since `int` arithmetic may be assumed not to overflow, but not if it is
    zero-extended.
    """
    if builder.source.simd_width == 1 or offset.isdecimal():
        return offset
    parenthesized = bare(offset) != offset
    parts = _SUM.fullmatch(offset) if parenthesized else None
    if parts is not None:
        return f"((int){parts[1]} + {parts[2]})"
    return f"(int){offset}" if parenthesized or is_simple(offset) else f"(int)({offset})"


def dereference(pointer: str) -> str:
    """Return the element behind a pointer; for a buffer plus an offset, by a subscript.

    The first term of a sum is added to the buffer. Unsigned sums may wrap, so that a compiler
    cannot prove that adjacent work-items access contiguous elements; pointer sums do not wrap.
    """
    base, plus, offset = pointer.partition(" + ")
    if not (plus and base.isidentifier()):
        return f"*{pointer}" if pointer.isidentifier() else f"*({pointer})"
    parts = _SUM.fullmatch(offset)
    if parts is None:
        return f"{base}[{bare(offset)}]"
    return f"({base} + {parts[1]})[{bare(parts[2])}]"


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
    name = _function(element, "cmpxchg")

    def swap(pointer: str, expected: str, value: str) -> str:
        if is_integer(element):
            arguments = ", ".join(_argument(element, x) for x in (expected, value))
            return f"{name}({_volatile(builder, element, pointer)}, {arguments})"
        bits = unsigned(element.bits)
        word = f"(volatile __global {bits} *){pointer}"
        arguments = f"{_bits(builder, element, expected)}, {_bits(builder, element, value)}"
        return _number(builder, element, f"{name}({word}, {arguments})")

    if element.bits < 32:
        swap = _narrow(builder, element, "cmpxchg")
    _each(builder, op, element, 3, swap)


def _narrow(builder: FunctionBuilder, element: Element, kind: str) -> Callable[..., str]:
    """Return the call of a helper that swaps the word around elements of 8 or 16 bits."""
    name = builder.use(f"atomic_{kind}_{element}")

    def call(pointer: str, *values: str) -> str:
        arguments = ", ".join(_bits(builder, element, x) for x in values)
        return _number(builder, element, f"{name}({pointer}, {arguments})")

    return call


def _is_float(builder: FunctionBuilder, element: Element) -> bool:
    """Return True if the carrier of an element is a float."""
    return not is_integer(element) and not is_bits(element, builder.source.device.fp16)


def _bits(builder: FunctionBuilder, element: Element, x: str) -> str:
    """Return an element as an unsigned integer with its bits."""
    if not _is_float(builder, element):
        return x if is_bits(element, builder.source.device.fp16) else _argument(element, x)
    x = f"(half){x}" if element is F16 else x
    return f"as_{unsigned(element.bits)}({x})"


def _number(builder: FunctionBuilder, element: Element, x: str) -> str:
    """Return an element from an unsigned integer with its bits."""
    return f"as_{builder.source.carrier(element)}({x})" if _is_float(builder, element) else x


def _each(
    builder: FunctionBuilder,
    op: Operation,
    element: Element,
    count: int,
    combine: Callable[..., str],
) -> None:
    """Emit statements, or variables if the old values have uses."""
    columns = [builder.of(value) for value in op.operands[:count] if value is not None]
    masks = builder.masks(op, len(columns[0]))
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


def _combine(builder: FunctionBuilder, element: Element, kind: RMWKind) -> Callable[..., str]:
    built_in = RMWKind.XCHG if kind.exchanges else kind
    if element.bits < 32:
        return _narrow(builder, element, built_in.value)
    if is_integer(element):
        name = _function(element, built_in.value)
        return lambda p, x: f"{name}({_volatile(builder, element, p)}, {_argument(element, x)})"
    if kind.exchanges:
        ty, bits = builder.source.carrier(element), unsigned(element.bits)
        name = _function(element, "xchg")
        return lambda p, x: f"as_{ty}({name}((volatile __global {bits} *){p}, as_{bits}({x})))"
    name = builder.use(f"atomic_{_FLOAT[kind]}_{element}")
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


# -- constant tables


def table(builder: FunctionBuilder, op: Operation) -> None:
    """Read entries of an array in `__constant`; the index wraps at the table's size."""
    entries = op["entries"]
    name = builder.source.table(op["of"], entries)
    each(builder, op, lambda index: f"{name}[({index}) & {len(entries) - 1}]")


RULES: dict[OpDef, Rule] = {
    memory.addptr: addptr,
    ops.thread.ptradd: ptradd,
    memory.load: load,
    memory.store: store,
    memory.barrier: barrier,
    memory.atomic_rmw: atomic_rmw,
    memory.atomic_cas: atomic_cas,
    indexing.table: table,
}
