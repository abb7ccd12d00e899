"""Registers of narrow elements packed into words, as vector instructions take them, and back."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.nvptx.emit.body import Body, Registers
from tile.backends.nvptx.emit.types import llvm_type, memory_type
from tile.ir.types import I1, Pointer, Scalar

Element = Scalar | Pointer


def to_memory(body: Body, element: Element, registers: Sequence[str]) -> Registers:
    """Registers as memory holds them: an i1 is a byte of 0 or 1."""
    if element is not I1:
        return list(registers)
    return [body.new(f"zext i1 {register} to i8") for register in registers]


def from_memory(body: Body, element: Element, registers: Sequence[str]) -> Registers:
    """What memory holds as registers: an i1 is true unless its byte is 0."""
    if element is not I1:
        return list(registers)
    return [body.new(f"icmp ne i8 {register}, 0") for register in registers]


def vector(body: Body, ty: str, registers: Sequence[str]) -> tuple[str, str]:
    """Type and name of a vector of LLVM's with these elements; of one element, that itself.

    What was taken apart comes whole, and bytes of words come from these: LLVM, which looks at one
    block at a time, would keep its elements in a register each from one block to another.
    """
    count = len(registers)
    if count == 1:
        return ty, registers[0]
    whole = f"<{count} x {ty}>"
    value = body.whole.get((ty, *registers)) or _of_words(body, ty, registers)
    value = value or _of_bytes(body, registers)
    if value is not None:
        return whole, value
    value = "poison"
    for index, register in enumerate(registers):
        value = body.new(f"insertelement {whole} {value}, {ty} {register}, i32 {index}")
    return whole, value


def _of_words(body: Body, ty: str, registers: Sequence[str]) -> str | None:
    """A vector that was taken apart as several words of 32 bits; None if it was not."""
    together, count = _IN_WORD.get(ty, 0), len(registers)
    if not together or count <= together or count % together:
        return None
    words = []
    for first in range(0, count, together):
        part = body.whole.get((ty, *registers[first : first + together]))
        if part is None:
            return None
        words.append(body.new(f"bitcast <{together} x {ty}> {part} to i32"))
    kind, value = vector(body, "i32", words)
    return body.new(f"bitcast {kind} {value} to <{count} x {ty}>")


def _of_bytes(body: Body, registers: Sequence[str]) -> str | None:
    """A vector of bytes that are in words of 32 bits, in another order; None if they are not."""
    count = len(registers)
    if count % 4 or not all(register in body.bytes for register in registers):
        return None
    taken = [body.bytes[register] for register in registers]
    words = [_permuted(body, taken[first : first + 4]) for first in range(0, count, 4)]
    kind, value = vector(body, "i32", words)
    return body.new(f"bitcast {kind} {value} to <{count} x i8>")


def _permuted(body: Body, taken: Sequence[tuple[str, int]]) -> str:
    """A word of four bytes, each a word and a number in it: two pairs, put together.

    A pair comes with that of the bytes beside it, if these are beside each other too: so four words
    become four others by eight instructions where bytes move as in a transposed matrix.
    """
    (low, first), (high, second) = (_pair(body, *taken[at : at + 2]) for at in (0, 2))
    return _prmt(body, low, high, (first, first + 1, second + 4, second + 5))


def _pair(body: Body, one: tuple[str, int], other: tuple[str, int]) -> tuple[str, int]:
    """A word with two bytes beside each other, and the number of the first there."""
    (x, i), (y, j) = one, other
    if (i - j) % 2:
        return _prmt(body, x, y, (i, j + 4, 0, 0)), 0
    return _prmt(body, x, y, (i & 2, (j & 2) + 4, i | 1, (j | 1) + 4)), 2 * (i % 2)


def _prmt(body: Body, x: str, y: str, chosen: Sequence[int]) -> str:
    """Four bytes of two words, the first of which has the numbers 0 to 3, the second 4 to 7."""
    selector = sum(number << 4 * at for at, number in enumerate(chosen))
    operands = (("i32", x), ("i32", y), ("i32", str(selector)))
    return body.call("@llvm.nvvm.prmt", "i32", *operands)


# How many elements of a type are in a word.
_IN_WORD = {"i8": 4, "i16": 2, "half": 2, "bfloat": 2}


def elements(body: Body, ty: str, value: str, count: int) -> Registers:
    """The elements of a vector."""
    if count == 1:
        return [value]
    whole = f"<{count} x {ty}>"
    found = [body.new(f"extractelement {whole} {value}, i32 {i}") for i in range(count)]
    body.whole[ty, *found] = value
    return found


def pack(
    body: Body, element: Element, registers: Sequence[str], bits: int = 32
) -> list[tuple[str, str]]:
    """Registers in words of `bits` bits, the first in the lowest: types and values.

    Elements that fill a word or more stay as they are. Their number is a multiple of those in a
    word.
    """
    ty = memory_type(element)
    together = bits // (8 * element.itemsize)
    registers = to_memory(body, element, registers)
    if together <= 1:
        return [(ty, register) for register in registers]
    words = []
    for first in range(0, len(registers), together):
        whole, value = vector(body, ty, registers[first : first + together])
        words.append((f"i{bits}", body.new(f"bitcast {whole} {value} to i{bits}")))
    return words


def word_types(element: Element, count: int, bits: int = 32) -> list[str]:
    """The types of the words that `pack` makes of `count` registers."""
    together = bits // (8 * element.itemsize)
    if together <= 1:
        return [memory_type(element)] * count
    return [f"i{bits}"] * (count // together)


def unpack(body: Body, element: Element, words: Sequence[str], bits: int = 32) -> Registers:
    """The registers that are packed in words."""
    ty = memory_type(element)
    together = bits // (8 * element.itemsize)
    if together <= 1:
        return from_memory(body, element, words)
    registers: Registers = []
    for word in words:
        whole = body.new(f"bitcast i{bits} {word} to <{together} x {ty}>")
        found = elements(body, ty, whole, together)
        if (ty, bits) == ("i8", 32):
            body.bytes.update({byte: (word, at) for at, byte in enumerate(found)})
        registers += found
    return from_memory(body, element, registers)


def word_of(element: Element, count: int) -> int:
    """The bits of the words in which `count` elements are moved: 32, or fewer for fewer."""
    return min(32, 8 * element.itemsize * count)


def as_integers(body: Body, element: Element, register: str) -> Registers:
    """One register as integers of 32 bits, the lower half first."""
    ty = llvm_type(element)
    if element.bits == 64:
        pair = body.new(f"bitcast {ty} {register} to <2 x i32>")
        return elements(body, "i32", pair, 2)
    if element.bits == 32:
        return [register if ty == "i32" else body.new(f"bitcast {ty} {register} to i32")]
    if ty in ("half", "bfloat"):
        register, ty = body.new(f"bitcast {ty} {register} to i16"), "i16"
    return [body.new(f"zext {ty} {register} to i32")]


def from_integers(body: Body, element: Element, words: Sequence[str]) -> str:
    """What `as_integers` took apart."""
    ty = llvm_type(element)
    if element.bits == 64:
        _, pair = vector(body, "i32", words)
        return body.new(f"bitcast <2 x i32> {pair} to {ty}")
    (word,) = words
    if element.bits == 32:
        return word if ty == "i32" else body.new(f"bitcast i32 {word} to {ty}")
    if ty in ("half", "bfloat"):
        return body.new(f"bitcast i16 {body.new(f'trunc i32 {word} to i16')} to {ty}")
    return body.new(f"trunc i32 {word} to {ty}")
