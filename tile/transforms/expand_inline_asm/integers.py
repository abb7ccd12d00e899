"""Integer instructions and instructions on bits (PTX ISA 8.5, 9.7.1 and 9.7.8)."""

from __future__ import annotations

from tile.ir.ops import arith
from tile.ir.types import I32, U32, U64
from tile.transforms.expand_inline_asm.expression import Expression, signed, total, unsigned
from tile.transforms.expand_inline_asm.rules import Opcode, rules

INTEGERS = "u16 s16 u32 s32 u64 s64"
WORDS = "u32 s32 u64 s64"
BITS = "b16 b32 b64"
PACKED = "u16x2 s16x2"


def _add(op: Opcode, x: Expression, y: Expression) -> Expression:
    return x + y


def _sub(op: Opcode, x: Expression, y: Expression) -> Expression:
    return x - y


def saturated(op: Opcode, x: Expression, y: Expression) -> Expression:
    """Add or subtract in twice the width, and clamp to the width."""
    x, y = x.cast(signed(64)), y.cast(signed(64))
    return clamp(x + y if op.base == "add" else x - y, I32.min_value, I32.max_value).cast(I32)


def clamp(x: Expression, low: int, high: int) -> Expression:
    """Return the nearest number between two bounds."""
    return x.maximum(low).minimum(high)


def _mul_low(op: Opcode, x: Expression, y: Expression) -> Expression:
    return x * y


def _mul_high(op: Opcode, x: Expression, y: Expression) -> Expression:
    if x.bits >= 32:
        return x.apply(arith.mulhi, y)
    return (multiply_wide(x, y) >> x.bits).cast(x.element)


def _mul_wide(op: Opcode, x: Expression, y: Expression) -> Expression:
    return multiply_wide(x, y)


def multiply_wide(x: Expression, y: Expression) -> Expression:
    """Multiply in twice the width, without overflow."""
    to = (signed if x.is_signed else unsigned)(2 * x.bits)
    return x.cast(to) * y.cast(to)


def _mad_low(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    return x * y + z


def _mad_high(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    return _mul_high(op, x, y).unsigned() + z


def _mad_wide(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    return multiply_wide(x, y).unsigned() + z.unsigned()


def low_24(x: Expression) -> Expression:
    """Return the lower 24 bits as a number of the signedness of `x`."""
    return (x.unsigned() << 8).view(x.element) >> 8


def _mul24_low(op: Opcode, x: Expression, y: Expression) -> Expression:
    return low_24(x).unsigned() * low_24(y).unsigned()


def _mad24_low(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    return _mul24_low(op, x, y) + z


def distance(x: Expression, y: Expression) -> Expression:
    """Return |x - y| as an unsigned integer."""
    return x.maximum(y).unsigned() - x.minimum(y).unsigned()


def _sad(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    return distance(x, y) + z


def _div(op: Opcode, x: Expression, y: Expression) -> Expression:
    return x.apply(arith.div, y)


def _rem(op: Opcode, x: Expression, y: Expression) -> Expression:
    return x.apply(arith.rem, y)


def _absolute(op: Opcode, x: Expression) -> Expression:
    return (x < 0).select(x.constant(0).unsigned() - x.unsigned(), x.unsigned())


def _neg(op: Opcode, x: Expression) -> Expression:
    return x.constant(0) - x


def _minimum(op: Opcode, x: Expression, y: Expression) -> Expression:
    return relu(op, x.minimum(y))


def _maximum(op: Opcode, x: Expression, y: Expression) -> Expression:
    return relu(op, x.maximum(y))


def relu(op: Opcode, x: Expression) -> Expression:
    """Replace negative numbers by zero if the opcode says so."""
    return x.maximum(0) if op.has("relu") else x


# -- bits


def _popc(op: Opcode, x: Expression) -> Expression:
    return count(x, "popc")


def _clz(op: Opcode, x: Expression) -> Expression:
    return count(x, "clz")


def count(x: Expression, function: str) -> Expression:
    """Return a function of libdevice that counts bits, as u32."""
    return x.signed().call(function + ("ll" if x.bits == 64 else "")).view(U32)


def _brev(op: Opcode, x: Expression) -> Expression:
    return x.signed().call("brevll" if x.bits == 64 else "brev").unsigned()


def bfind(op: Opcode, x: Expression) -> Expression:
    """Return the position of the highest bit that differs from the sign, or all ones.

    `shiftamt`: the shift to the left that moves the bit to the top.
    """
    if x.is_signed:
        x = (x < 0).select(~x, x)
    zeros = _clz(op, x)
    if op.has("shiftamt"):
        return zeros.equals(x.bits).select(zeros.constant(-1), zeros)
    return zeros.constant(x.bits - 1) - zeros


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


def _bmsk(op: Opcode, position: Expression, length: Expression) -> Expression:
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


def _shl(op: Opcode, x: Expression, amount: Expression) -> Expression:
    return x << widened(amount, x)


def _shr(op: Opcode, x: Expression, amount: Expression) -> Expression:
    return shifted_right(x, amount)


def shf(op: Opcode, low: Expression, high: Expression, amount: Expression) -> Expression:
    """Shift two registers as one; the result is the higher one (`l`) or the lower one (`r`)."""
    amount = amount & 31 if op.has("wrap") else amount.minimum(32)
    both = low.cast(U64) | (high.cast(U64) << 32)
    if op.has("l"):
        return ((both << amount.cast(U64)) >> 32).cast(U32)
    return (both >> amount.cast(U64)).cast(U32)


def _and(op: Opcode, x: Expression, y: Expression) -> Expression:
    return x & y


def _or(op: Opcode, x: Expression, y: Expression) -> Expression:
    return x | y


def _xor(op: Opcode, x: Expression, y: Expression) -> Expression:
    return x ^ y


def _not(op: Opcode, x: Expression) -> Expression:
    return ~x


def _cnot(op: Opcode, x: Expression) -> Expression:
    return x.equals(0).select(x.constant(1), x.constant(0))


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


# -- selection


def _selp(op: Opcode, x: Expression, y: Expression, condition: Expression) -> Expression:
    return condition.select(x, y)


def _slct(op: Opcode, x: Expression, y: Expression, z: Expression) -> Expression:
    return (z >= z.constant(0)).select(x, y)


RULES = [
    *rules("add", f"{INTEGERS} {PACKED}", "u: u u", _add),
    *rules("sub", f"{INTEGERS} {PACKED}", "u: u u", _sub),
    *rules("add.sat", "s32", "t: t t", saturated),
    *rules("sub.sat", "s32", "t: t t", saturated),
    *rules("mul.lo", INTEGERS, "u: u u", _mul_low),
    *rules("mul.hi", INTEGERS, "t: t t", _mul_high),
    *rules("mul.wide", "u16 s16 u32 s32", "w: t t", _mul_wide),
    *rules("mad.lo", INTEGERS, "u: u u u", _mad_low),
    *rules("mad.hi", INTEGERS, "u: t t u", _mad_high),
    *rules("mad.wide", "u16 s16 u32 s32", "w: t t w", _mad_wide),
    *rules("mul24.lo", "u32 s32", "u: t t", _mul24_low),
    *rules("mad24.lo", "u32 s32", "u: t t u", _mad24_low),
    *rules("sad", INTEGERS, "u: t t u", _sad),
    *rules("div", INTEGERS, "t: t t", _div),
    *rules("rem", INTEGERS, "t: t t", _rem),
    *rules("abs", "s16 s32 s64", "u: t", _absolute),
    *rules("neg", "s16 s32 s64", "u: u", _neg),
    *rules("min", f"{INTEGERS} {PACKED}", "t: t t", _minimum, "relu"),
    *rules("max", f"{INTEGERS} {PACKED}", "t: t t", _maximum, "relu"),
    *rules("popc", "b32 b64", "u32: t", _popc),
    *rules("clz", "b32 b64", "u32: t", _clz),
    *rules("brev", "b32 b64", "t: t", _brev),
    *rules("bfind", WORDS, "u32: t", bfind, "shiftamt"),
    *rules("bfe", WORDS, "t: t u32 u32", bfe),
    *rules("bfi", "b32 b64", "t: t t u32 u32", bfi),
    *rules("bmsk.clamp", "b32", "t: t t", _bmsk),
    *rules("bmsk.wrap", "b32", "t: t t", _bmsk),
    *rules("dp4a", "u32 s32", "u32: u32 u32 u32", dp4a, more=["u32 s32"]),
    *rules("dp2a", "u32 s32", "u32: u32 u32 u32", dp2a, "lo hi", more=["u32 s32"]),
    *rules("shl", BITS, "t: t u32", _shl),
    *rules("shr", f"{BITS} {INTEGERS}", "t: t u32", _shr),
    *[
        rule
        for way in ("l", "r")
        for mode in ("clamp", "wrap")
        for rule in rules(f"shf.{way}.{mode}", "b32", "t: t t u32", shf)
    ],
    *rules("and", f"{BITS} pred", "t: t t", _and),
    *rules("or", f"{BITS} pred", "t: t t", _or),
    *rules("xor", f"{BITS} pred", "t: t t", _xor),
    *rules("not", f"{BITS} pred", "t: t", _not),
    *rules("cnot", BITS, "t: t", _cnot),
    *rules("selp", f"{BITS} {INTEGERS} f32 f64", "t: t t i1", _selp),
    *rules("slct", f"{BITS} {INTEGERS} f32 f64", "t: t t t1", _slct, "ftz", more=["s32 f32"]),
]
