"""Integer functions and reinterpretation of bits, on i32, u32, i64 and u64."""

from __future__ import annotations

import numpy as np

from tile.ir.numpy_dtypes import F64, Array

I32, U32, U64 = (np.dtype(name) for name in ("i4", "u4", "u8"))


def _unsigned(x: Array) -> Array:
    result: Array = x.view(f"u{x.dtype.itemsize}")
    return result


def popc(x: Array) -> Array:
    """Return the number of bits that are 1, as i32."""
    bits = _unsigned(x).astype(U64)
    bits = bits - (bits >> np.uint64(1) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    bits = (bits & pairs) + (bits >> np.uint64(2) & pairs)
    bits = bits + (bits >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    total: Array = bits * np.uint64(0x0101010101010101) >> np.uint64(56)
    return total.astype(I32)


def clz(x: Array) -> Array:
    """Return the number of leading zero bits as i32: the width for 0."""
    bits, width = _unsigned(x), 8 * x.dtype.itemsize
    for shift in (1, 2, 4, 8, 16, 32)[: width.bit_length() - 1]:
        bits = bits | bits >> bits.dtype.type(shift)
    zeros: Array = I32.type(width) - popc(bits)
    return zeros.astype(I32)


def ffs(x: Array) -> Array:
    """Return the position of the lowest bit that is 1, counted from 1, as i32; 0 for 0."""
    bits = _unsigned(x)
    lowest = bits & (~bits + bits.dtype.type(1))
    width = I32.type(8 * x.dtype.itemsize)
    return np.where(bits == 0, I32.type(0), width - clz(lowest)).astype(I32)


def brev(x: Array) -> Array:
    """Return the bits in reverse order."""
    octets = np.ascontiguousarray(_unsigned(x)).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)
    reverse = np.packbits(np.unpackbits(octets[..., ::-1], axis=-1, bitorder="little"), axis=-1)
    return reverse.view(x.dtype).reshape(x.shape)


def byte_perm(x: Array, y: Array, selector: Array) -> Array:
    """Return four of the eight bytes of x (the lowest) and y; 4 bits of `selector` name each."""
    both = _unsigned(x).astype(U64) | _unsigned(y).astype(U64) << np.uint64(32)
    chosen = _unsigned(selector).astype(U64)
    result = np.zeros((), U64)
    for byte in range(4):
        place = (chosen >> np.uint64(4 * byte) & np.uint64(7)) << np.uint64(3)
        result = result | (both >> place & np.uint64(0xFF)) << np.uint64(8 * byte)
    return result.astype(U32).view(I32)


def mul24(x: Array, y: Array) -> Array:
    """Return the lower 32 bits of the product of the lower 24 bits, in the type's signedness."""
    eight = x.dtype.type(8)
    product: Array = (x << eight >> eight) * (y << eight >> eight)
    return product


def sad(x: Array, y: Array, z: Array) -> Array:
    """Return |x - y| + z in the type of x; z is u32."""
    x, y, z = np.broadcast_arrays(x, y, z)
    size = np.where(x > y, _unsigned(x) - _unsigned(y), _unsigned(y) - _unsigned(x))
    total: Array = size + z
    return total.view(x.dtype)


def hadd(x: Array, y: Array) -> Array:
    """Return (x + y) >> 1 without overflow."""
    half: Array = (x & y) + ((x ^ y) >> x.dtype.type(1))
    return half


def rhadd(x: Array, y: Array) -> Array:
    """Return (x + y + 1) >> 1 without overflow."""
    half: Array = (x | y) - ((x ^ y) >> x.dtype.type(1))
    return half


def hiloint2double(high: Array, low: Array) -> Array:
    """Return the f64 with these upper and lower 32 bits."""
    bits = _unsigned(high).astype(U64) << np.uint64(32) | _unsigned(low).astype(U64)
    return bits.view(F64)


def double2loint(x: Array) -> Array:
    """Return the lower 32 bits of an f64."""
    return x.view(U64).astype(U32).view(I32)


def double2hiint(x: Array) -> Array:
    """Return the upper 32 bits of an f64."""
    return (x.view(U64) >> np.uint64(32)).astype(U32).view(I32)


def rcp64h(x: Array) -> Array:
    """Return the upper half of 1 / x, the lower half being 0; subnormal numbers are 0."""
    least = 2.0**-1022
    flushed = np.where(np.abs(x) < least, np.copysign(0.0, x), x)
    result = 1 / flushed
    result = np.where(np.abs(result) < least, np.copysign(0.0, result), result)
    return (result.view(U64) & np.uint64(0xFFFFFFFF00000000)).view(F64)
