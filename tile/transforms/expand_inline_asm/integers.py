"""Integer instructions and instructions on bits (PTX ISA 8.5, 9.7.1 and 9.7.8)."""

from __future__ import annotations

from tile.ir.expressions import Expression, signed, total, unsigned
from tile.ir.ops import arith
from tile.ir.types import I32, U32, U64
from tile.transforms.expand_inline_asm.rules import Opcode, plain, rules

INTEGERS = "u16 s16 u32 s32 u64 s64"
WORDS = "u32 s32 u64 s64"
NARROW = "u16 s16 u32 s32"
BITS = "b16 b32 b64"
PACKED = "u16x2 s16x2"


def saturated(op: Opcode, x: Expression, y: Expression) -> Expression:
    """Add or subtract in twice the width, and clamp to the width."""
    x, y = x.cast(signed(64)), y.cast(signed(64))
    return clamp(x + y if op.base == "add" else x - y, I32.min_value, I32.max_value).cast(I32)


def clamp(x: Expression, low: int, high: int) -> Expression:
    """Return the nearest number between two bounds."""
    return x.maximum(low).minimum(high)


def mul_high(x: Expression, y: Expression) -> Expression:
    """Return the upper half of `x * y`."""
    if x.bits >= 32:
        return x.apply(arith.mulhi, y)
    return (multiply_wide(x, y) >> x.bits).cast(x.element)


def multiply_wide(x: Expression, y: Expression) -> Expression:
    """Multiply in twice the width, without overflow."""
    to = (signed if x.is_signed else unsigned)(2 * x.bits)
    return x.cast(to) * y.cast(to)


def mad_wide(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    """Multiply in twice the width, and add."""
    return multiply_wide(x, y).unsigned() + z.unsigned()


def low_24(x: Expression) -> Expression:
    """Return the lower 24 bits as a number of the signedness of `x`."""
    return (x.unsigned() << 8).view(x.element) >> 8


def mul24_low(x: Expression, y: Expression) -> Expression:
    """Multiply the lower 24 bits, modulo 2 to the width."""
    return low_24(x).unsigned() * low_24(y).unsigned()


def distance(x: Expression, y: Expression) -> Expression:
    """Return |x - y| as an unsigned integer."""
    return x.maximum(y).unsigned() - x.minimum(y).unsigned()


def absolute(x: Expression) -> Expression:
    """Return the absolute value; the least integer is its own."""
    return (x < 0).select(x.constant(0).unsigned() - x.unsigned(), x.unsigned())


def relu(op: Opcode, x: Expression) -> Expression:
    """Replace negative numbers by zero if the opcode says so."""
    return x.maximum(0) if op.has("relu") else x


# -- bits


def count(x: Expression, function: str) -> Expression:
    """Return a function of libdevice that counts bits, as u32."""
    return bits_function(x, function).view(U32)


def bits_function(x: Expression, function: str) -> Expression:
    """Return a function of libdevice of the bits of 32 or 64, signed."""
    return x.signed().call(function + ("ll" if x.bits == 64 else ""))


def bfind(op: Opcode, x: Expression) -> Expression:
    """Return the position of the highest bit that differs from the sign, or all ones.

    `shiftamt`: the shift to the left that moves the bit to the top.
    """
    if x.is_signed:
        x = (x < 0).select(~x, x)
    zeros = count(x, "clz")
    if op.has("shiftamt"):
        return zeros.equals(x.bits).select(zeros.constant(-1), zeros)
    return zeros.constant(x.bits - 1) - zeros


def fns(op: Opcode, mask: Expression, base: Expression, offset: Expression) -> Expression:
    """Return the position of the set bit that is `offset` set bits from `base` on, or all ones.

    A negative offset counts downwards. With 0 it is the bit at `base` itself, if that is set.
    """
    upwards, alone = offset > 0, offset.equals(0)
    below, above = low_ones(base + 1, mask), ~low_ones(base, mask)
    some = mask & alone.select(below & above, upwards.select(above, below))
    ones = count(some, "popc")
    before = alone.select(
        ones.constant(0), upwards.select(offset - 1, ones.signed() + offset).unsigned()
    )
    return (ones > before).select(position_of_one(some, before), ones.constant(-1))


def position_of_one(mask: Expression, before: Expression) -> Expression:
    """Return the position of a set bit of 32 that has `before` set bits below it."""
    position = mask.constant(0)
    for width in (16, 8, 4, 2, 1):
        ones = count(mask & ((1 << width) - 1), "popc")
        is_above = before >= ones
        before = is_above.select(before - ones, before)
        position = position + is_above.select(mask.constant(width), 0)
        mask = is_above.select(mask >> width, mask)
    return position


def bfe(op: Opcode, x: Expression, position: Expression, length: Expression) -> Expression:
    """Extract a field; a signed one repeats its highest bit, or that of `x` beyond its end."""
    bits, ty = x.bits, x.element
    first, size = position & 0xFF, length & 0xFF
    if not x.is_signed:
        return shifted_right(x, first) & low_ones(size, x)
    field = shifted_right(x, first).unsigned()
    spare = widened(size.constant(bits) - size.minimum(bits), field)
    inside = (field << spare).view(ty) >> spare.view(ty)
    return size.equals(0).select(x.constant(0), inside)


def bfi(
    op: Opcode, x: Expression, y: Expression, position: Expression, length: Expression
) -> Expression:
    """Insert the low bits of `x` into a field of `y`."""
    first = widened(position & 0xFF, y)
    mask = low_ones(length & 0xFF, y) << first
    return (y & ~mask) | ((x << first) & mask)


def bmsk(op: Opcode, position: Expression, length: Expression) -> Expression:
    """Return a mask of `length` bits from a position on."""
    if op.has("wrap"):
        position, length = position & 31, length & 31
    return low_ones(length, position) << position


def low_ones(size: Expression, like: Expression) -> Expression:
    """Return a mask of `size` low bits in the type of `like`; all bits for a larger size."""
    return (like.constant(1) << widened(size, like)) - 1


def widened(amount: Expression, like: Expression) -> Expression:
    """Return a shift count in the type of `like`; the width stands for all larger ones."""
    return amount.minimum(like.bits).cast(like.element)


def shifted_right(x: Expression, amount: Expression) -> Expression:
    """Shift right; a count from the width on gives copies of the sign, or zero."""
    most = x.bits - 1 if x.is_signed else x.bits
    return x >> amount.minimum(most).cast(x.element)


def shf(op: Opcode, low: Expression, high: Expression, amount: Expression) -> Expression:
    """Shift two registers as one; the result is the higher one (`l`) or the lower one (`r`)."""
    amount = amount & 31 if op.has("wrap") else amount.minimum(32)
    both = low.cast(U64) | (high.cast(U64) << 32)
    if op.has("l"):
        return ((both << amount.cast(U64)) >> 32).cast(U32)
    return (both >> amount.cast(U64)).cast(U32)


def dp4a(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    """Multiply four bytes, each signed or unsigned by its type, and add all to `z`."""
    terms = [
        byte_of(x, at, is_signed=op.names[0] == "s32")
        * byte_of(y, at, is_signed=op.names[1] == "s32")
        for at in range(4)
    ]
    return total([z, *terms])


def dp2a(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    """Multiply both 16-bit parts of `x` by two bytes of `y`, `lo` or `hi`, and add both to `z`."""
    first = 2 if op.has("hi") else 0
    terms = [
        field_of(x, 16 * at, 16, is_signed=op.names[0] == "s32")
        * byte_of(y, first + at, is_signed=op.names[1] == "s32")
        for at in range(2)
    ]
    return total([z, *terms])


def byte_of(x: Expression, at: int, *, is_signed: bool) -> Expression:
    """Return a byte of a u32, extended to u32."""
    return field_of(x, 8 * at, 8, is_signed=is_signed)


def field_of(x: Expression, position: int, bits: int, *, is_signed: bool) -> Expression:
    """Return some bits of an unsigned integer, extended to its width."""
    left = x.bits - bits - position
    aligned = x << left if left else x
    if is_signed:
        return (aligned.signed() >> (x.bits - bits)).unsigned()
    return aligned >> (x.bits - bits)


def slct(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    """Select by the sign of `z`."""
    return (z >= z.constant(0)).select(x, y)


ALL = f"{INTEGERS} {PACKED}"
SELECTED = f"{BITS} {INTEGERS} f32 f64"
LOGIC = f"{BITS} pred"
RULES = [
    *rules("add", ALL, "u: u u", plain(arith.add)),
    *rules("sub", ALL, "u: u u", plain(arith.sub)),
    *rules("add|sub.sat", "s32", "t: t t", saturated),
    *rules("mul.lo", INTEGERS, "u: u u", plain(arith.mul)),
    *rules("mul.hi", INTEGERS, "t: t t", lambda op, x, y: mul_high(x, y)),
    *rules("mul.wide", NARROW, "w: t t", lambda op, x, y: multiply_wide(x, y)),
    *rules("mad.lo", INTEGERS, "u: u u u", lambda op, x, y, z: x * y + z),
    *rules("mad.hi", INTEGERS, "u: t t u", lambda op, x, y, z: mul_high(x, y).unsigned() + z),
    *rules("mad.wide", NARROW, "w: t t w", mad_wide),
    *rules("mul24.lo", "u32 s32", "u: t t", lambda op, x, y: mul24_low(x, y)),
    *rules("mad24.lo", "u32 s32", "u: t t u", lambda op, x, y, z: mul24_low(x, y) + z),
    *rules("sad", INTEGERS, "u: t t u", lambda op, x, y, z: distance(x, y) + z),
    *rules("div", INTEGERS, "t: t t", plain(arith.div)),
    *rules("rem", INTEGERS, "t: t t", plain(arith.rem)),
    *rules("abs", "s16 s32 s64", "u: t", lambda op, x: absolute(x)),
    *rules("neg", "s16 s32 s64", "u: u", lambda op, x: x.constant(0) - x),
    *rules("min", ALL, "t: t t", lambda op, x, y: relu(op, x.minimum(y)), "relu"),
    *rules("max", ALL, "t: t t", lambda op, x, y: relu(op, x.maximum(y)), "relu"),
    *rules("popc|clz", "b32 b64", "u32: t", lambda op, x: count(x, op.base)),
    *rules("brev", "b32 b64", "t: t", lambda op, x: bits_function(x, "brev").unsigned()),
    *rules("bfind", WORDS, "u32: t", bfind, "shiftamt"),
    *rules("fns", "b32", "u32: t u32 s", fns),
    *rules("bfe", WORDS, "t: t u32 u32", bfe),
    *rules("bfi", "b32 b64", "t: t t u32 u32", bfi),
    *rules("bmsk.clamp|wrap", "b32", "t: t t", bmsk),
    *rules("dp4a", "u32 s32", "u32: u32 u32 u32", dp4a, more=["u32 s32"]),
    *rules("dp2a", "u32 s32", "u32: u32 u32 u32", dp2a, "lo hi", more=["u32 s32"]),
    *rules("shl", BITS, "t: t u32", lambda op, x, amount: x << widened(amount, x)),
    *rules("shr", f"{BITS} {INTEGERS}", "t: t u32", lambda op, x, amount: shifted_right(x, amount)),
    *rules("shf.l|r.clamp|wrap", "b32", "t: t t u32", shf),
    *rules("and", LOGIC, "t: t t", plain(arith.and_)),
    *rules("or", LOGIC, "t: t t", plain(arith.or_)),
    *rules("xor", LOGIC, "t: t t", plain(arith.xor)),
    *rules("not", LOGIC, "t: t", plain(arith.not_)),
    *rules("cnot", BITS, "t: t", lambda op, x: x.equals(0).select(x.constant(1), 0)),
    *rules("selp", SELECTED, "t: t t i1", lambda op, x, y, condition: condition.select(x, y)),
    *rules("slct", SELECTED, "t: t t t1", slct, "ftz", more=["s32 f32"]),
]
