"""Narrow elements packed into 32-bit registers, as vector instructions take them."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.codegen.llvm.function_builder import Registers
from tile.codegen.llvm.memory import Element, from_memory, to_memory
from tile.codegen.llvm.types import llvm_type, memory_type


def vector(builder: FunctionBuilder, ty: str, registers: Sequence[str]) -> tuple[str, str]:
    """Return type and name of an LLVM vector of these elements; a single element stays a scalar.

    Elements that came from one vector give that vector back, and bytes that came from 32-bit
    registers are permuted from these: LLVM optimizes one block at a time, and would carry every
    element in a register of its own from one block to another.
    """
    count = len(registers)
    if count == 1:
        return ty, registers[0]
    vector_type = f"<{count} x {ty}>"
    value = builder.vectors.get((ty, *registers)) or _from_registers(builder, ty, registers)
    value = value or _from_bytes(builder, registers)
    if value is not None:
        return vector_type, value
    value = "poison"
    for index, register in enumerate(registers):
        value = builder.new(f"insertelement {vector_type} {value}, {ty} {register}, i32 {index}")
    return vector_type, value


def _from_registers(builder: FunctionBuilder, ty: str, registers: Sequence[str]) -> str | None:
    """Return a vector whose elements came from several 32-bit vectors; None if they did not."""
    per_register, count = _PER_REGISTER.get(ty, 0), len(registers)
    if not per_register or count <= per_register or count % per_register:
        return None
    packed = words_of(builder, ty, registers)
    if packed is None:
        return None
    vector_type, value = vector(builder, "i32", packed)
    return builder.new(f"bitcast {vector_type} {value} to <{count} x {ty}>")


def words_of(builder: FunctionBuilder, ty: str, registers: Sequence[str]) -> Registers | None:
    """Return the 32-bit registers that hold elements; None unless all of them came from some.

    They may have come from one vector, or from several ones of equal size.
    """
    per_register, count = _PER_REGISTER[ty], len(registers)
    sizes = [count >> halvings for halvings in range(count.bit_length())]
    for size in dict.fromkeys([*sizes, per_register]):
        if size % per_register or count % size:
            continue
        groups = [registers[first : first + size] for first in range(0, count, size)]
        vectors = [builder.vectors.get((ty, *group)) for group in groups]
        if None not in vectors:
            return [word for value in vectors for word in _words(builder, ty, size, value)]
    return None


def _words(builder: FunctionBuilder, ty: str, count: int, value: str | None) -> Registers:
    """Return the 32-bit registers of a vector of `count` elements."""
    words = count // _PER_REGISTER[ty]
    if words == 1:
        return [builder.new(f"bitcast <{count} x {ty}> {value} to i32")]
    whole = builder.new(f"bitcast <{count} x {ty}> {value} to <{words} x i32>")
    return elements(builder, "i32", whole, words)


def _from_bytes(builder: FunctionBuilder, registers: Sequence[str]) -> str | None:
    """Return a vector of bytes that came from 32-bit registers; None if they did not."""
    count = len(registers)
    if count % 4 or not all(register in builder.byte_sources for register in registers):
        return None
    sources = [builder.byte_sources[register] for register in registers]
    packed = [_gather_bytes(builder, sources[first : first + 4]) for first in range(0, count, 4)]
    vector_type, value = vector(builder, "i32", packed)
    return builder.new(f"bitcast {vector_type} {value} to <{count} x i8>")


def _gather_bytes(builder: FunctionBuilder, sources: Sequence[tuple[str, int]]) -> str:
    """Return a 32-bit register of four bytes, each given as (register, number), from two pairs.

    A pair is computed together with the pair of adjacent bytes where those are adjacent at their
    destination too: eight instructions then turn four registers into four others where bytes move
    as in a transposed matrix.
    """
    (low, first), (high, second) = (_pair(builder, *sources[at : at + 2]) for at in (0, 2))
    return _prmt(builder, low, high, (first, first + 1, second + 4, second + 5))


def _pair(
    builder: FunctionBuilder, one: tuple[str, int], other: tuple[str, int]
) -> tuple[str, int]:
    """Return a register with two bytes side by side, and the number of the first in it."""
    (x, i), (y, j) = one, other
    if (i - j) % 2:
        return _prmt(builder, x, y, (i, j + 4, 0, 0)), 0
    return _prmt(builder, x, y, (i & 2, (j & 2) + 4, i | 1, (j | 1) + 4)), 2 * (i % 2)


def _prmt(builder: FunctionBuilder, x: str, y: str, selection: Sequence[int]) -> str:
    """Select four bytes of two registers: numbers 0 to 3 are of the first, 4 to 7 of the second."""
    selector = sum(number << 4 * at for at, number in enumerate(selection))
    operands = (("i32", x), ("i32", y), ("i32", str(selector)))
    return builder.call("@llvm.nvvm.prmt", "i32", *operands)


# Elements of a type in 32 bits.
_PER_REGISTER = {"i8": 4, "i16": 2, "half": 2, "bfloat": 2}


def elements(builder: FunctionBuilder, ty: str, value: str, count: int) -> Registers:
    """Return the elements of a vector."""
    if count == 1:
        return [value]
    vector_type = f"<{count} x {ty}>"
    results = [builder.new(f"extractelement {vector_type} {value}, i32 {i}") for i in range(count)]
    builder.vectors[ty, *results] = value
    return results


def pack(
    builder: FunctionBuilder, element: Element, registers: Sequence[str], bits: int = 32
) -> list[tuple[str, str]]:
    """Pack elements into registers of `bits` bits, the first in the lowest: types and values.

    Elements of `bits` bits or more stay as they are. The number of elements is a multiple of those
    in a register.
    """
    ty = memory_type(element)
    per_register = bits // element.storage_bits
    registers = to_memory(builder, element, registers)
    if per_register <= 1:
        return [(ty, register) for register in registers]
    packed = []
    for first in range(0, len(registers), per_register):
        vector_type, value = vector(builder, ty, registers[first : first + per_register])
        packed.append((f"i{bits}", builder.new(f"bitcast {vector_type} {value} to i{bits}")))
    return packed


def packed_types(element: Element, count: int, bits: int = 32) -> list[str]:
    """Return the types of the registers into which `pack` packs `count` elements."""
    per_register = bits // element.storage_bits
    if per_register <= 1:
        return [memory_type(element)] * count
    return [f"i{bits}"] * (count // per_register)


def unpack(
    builder: FunctionBuilder, element: Element, packed: Sequence[str], bits: int = 32
) -> Registers:
    """Return the elements that are packed in registers."""
    ty = memory_type(element)
    per_register = bits // element.storage_bits
    if per_register <= 1:
        return from_memory(builder, element, packed)
    registers: Registers = []
    for register in packed:
        value = builder.new(f"bitcast i{bits} {register} to <{per_register} x {ty}>")
        unpacked = elements(builder, ty, value, per_register)
        if (ty, bits) == ("i8", 32):
            builder.byte_sources.update({byte: (register, at) for at, byte in enumerate(unpacked)})
        registers += unpacked
    return from_memory(builder, element, registers)


def packed_bits(element: Element, count: int) -> int:
    """Return the width of the registers in which `count` elements move: 32 bits, or fewer."""
    return min(32, element.storage_bits * count)


def as_integers(builder: FunctionBuilder, element: Element, register: str) -> Registers:
    """Return one register as 32-bit integers, the low half first."""
    ty = llvm_type(element)
    if element.bits == 64:
        pair = builder.new(f"bitcast {ty} {register} to <2 x i32>")
        return elements(builder, "i32", pair, 2)
    if element.bits == 32:
        return [register if ty == "i32" else builder.new(f"bitcast {ty} {register} to i32")]
    if ty in ("half", "bfloat"):
        register, ty = builder.new(f"bitcast {ty} {register} to i16"), "i16"
    return [builder.new(f"zext {ty} {register} to i32")]


def from_integers(builder: FunctionBuilder, element: Element, integers: Sequence[str]) -> str:
    """Reverse `as_integers`."""
    ty = llvm_type(element)
    if element.bits == 64:
        _, pair = vector(builder, "i32", integers)
        return builder.new(f"bitcast <2 x i32> {pair} to {ty}")
    (integer,) = integers
    if element.bits == 32:
        return integer if ty == "i32" else builder.new(f"bitcast i32 {integer} to {ty}")
    if ty in ("half", "bfloat"):
        return builder.new(f"bitcast i16 {builder.new(f'trunc i32 {integer} to i16')} to {ty}")
    return builder.new(f"trunc i32 {integer} to {ty}")
