"""Loads that stay inside their arrays, by pointers and by descriptors; masks."""

from __future__ import annotations

import math

from tests.fuzz.shapes import along, at, permutation, ramps
from tests.fuzz.writer import Writer
from tile.ir.core import Value
from tile.ir.descriptor_type import Descriptor, Padding
from tile.ir.extents import is_power_of_two
from tile.ir.ops import arith, descriptor, memory, shape
from tile.ir.ops.arith import Predicate
from tile.ir.ops.memory import CacheModifier, Eviction
from tile.ir.types import I1, I32, I64, U32, Scalar, Type, with_element


def pointer(w: Writer, pointee: Scalar) -> tuple[Value, int]:
    """A scalar pointer and the elements behind it."""
    base, limit = w.choose(w.readable(pointee))
    if limit > 16 and w.chance(3):
        half = limit // 2
        ty = w.choose((I32, I64, U32))
        offset = w.emit(arith.and_, w.value(ty, 1), w.constant(half - 1, ty))
        base = w.emit(memory.addptr, base, offset, stride=pointee.itemsize)
        limit = half
    if limit >= w.sizes.elements and w.chance(6):
        other, more = w.choose(w.readable(pointee))
        if more >= limit:
            base = w.emit(arith.select, w.value(I1, 1), base, other)
    w.scopes[-1].extents[base] = limit
    return base, limit


def load_of(w: Writer, ty: Type, depth: int) -> Value:
    element = ty.element
    assert isinstance(element, Scalar)
    base, limit = pointer(w, element)
    fits = math.prod(ty.shape) <= limit
    style = w.choose((gathered, stepped, packed if fits else stepped))
    offset, mask = style(w, ty, limit, depth)
    pointers = w.emit(memory.addptr, at(w, base, ty), offset, stride=element.itemsize)
    cache = w.choose(tuple(CacheModifier)[:4])
    eviction = w.choose(tuple(Eviction))
    volatile = w.chance(8)
    rest = {"cache": cache, "eviction": eviction, "volatile": volatile}
    if mask is None:
        return w.emit(memory.load, pointers, **rest)
    other = w.value(ty, depth)
    if w.chance(2):
        return w.emit(memory.load, pointers, mask, other, **rest)
    loaded = w.emit(memory.load, pointers, mask, **rest)
    return w.emit(arith.select, mask, loaded, other)


def gathered(w: Writer, ty: Type, limit: int, depth: int) -> tuple[Value, Value | None]:
    """Any offsets, cut down to the limit or masked."""
    of = with_element(ty, w.choose((I32, I32, I64, U32)))
    offset = w.value(of, depth)
    if w.chance(2):
        return offset, inside(w, offset, limit, depth)
    return w.emit(arith.and_, offset, w.constant(limit - 1, of)), maybe_mask(w, ty, depth)


def stepped(w: Writer, ty: Type, limit: int, depth: int) -> tuple[Value, Value | None]:
    """Offsets that grow evenly along each axis, masked to the limit."""
    steps = [w.number(-3, 9) for _ in ty.shape]
    start = w.emit(arith.and_, w.value(I32, depth), w.constant(limit - 1, I32))
    offset = ramps(w, ty, steps, start)
    return offset, inside(w, offset, limit, depth)


def packed(w: Writer, ty: Type, limit: int, depth: int) -> tuple[Value, Value | None]:
    """Contiguous elements, axes in any order; all inside."""
    steps = [0] * ty.rank
    reach = 1
    for axis in permutation(w, ty.rank):
        steps[axis] = reach
        reach *= ty.shape[axis]
    start = None
    if reach < limit and w.chance(2):
        free = limit - reach  # at least half of the limit, since both are powers of two
        most = 1 << (free.bit_length() - 1)
        start = w.emit(arith.and_, w.value(I32, depth), w.constant(most - 1, I32))
    return ramps(w, ty, steps, start), maybe_mask(w, ty, depth)


def inside(w: Writer, offset: Value, limit: int, depth: int) -> Value:
    ty = offset.type
    low = w.emit(arith.cmp, offset, w.constant(0, ty), predicate=Predicate.GE)
    high = w.emit(arith.cmp, offset, w.constant(limit, ty), predicate=Predicate.LT)
    mask = w.emit(arith.and_, low, high)
    if w.chance(3):
        mask = w.emit(arith.and_, mask, w.value(mask.type, depth))
    return mask


def maybe_mask(w: Writer, ty: Type, depth: int) -> Value | None:
    of = with_element(ty, I1)
    if w.chance(2):
        return None
    if ty.rank == 0 or w.chance(2):
        return w.value(of, depth)
    axis = w.number(0, ty.rank - 1)  # one end of an axis
    line = w.emit(shape.arange, start=0, end=ty.shape[axis])
    limit = at(w, w.value(I32, depth), line.type)
    if w.chance(2):
        limit = w.constant(w.number(0, ty.shape[axis]), line.type)
    predicate = w.choose(tuple(Predicate))
    compared = w.emit(arith.cmp, line, limit, predicate=predicate)
    return along(w, compared, ty.shape, axis)


def boxable(w: Writer, ty: Type) -> bool:
    """Return True if a tile can be a block of an array that begins at a multiple of 16 bytes."""
    element = ty.element
    assert isinstance(element, Scalar)
    wide = ty.rank > 0 and ty.shape[-1] * element.itemsize >= Descriptor.ALIGNMENT
    powers = all(map(is_power_of_two, ty.shape))
    return powers and wide and element != I1 and element in {e for _, e in aligned(w)}


def aligned(w: Writer) -> list[tuple[Value, Scalar]]:
    """Arrays that are only read; those of a kernel, which begin where memory was allotted."""
    if not w.function.kernel:
        return []
    args = [v for v in w.function.args if v.name.startswith("in_")]
    return [(v, v.type.element.pointee) for v in args]


def described(w: Writer, base: Value, limit: int, ty: Type, *, apart: bool) -> Value:
    """A descriptor within `limit` elements of `base`, its elements apart from each other."""
    element = ty.element
    assert isinstance(element, Scalar)
    step = Descriptor.ALIGNMENT // element.itemsize
    extents = [w.number(0 if w.chance(8) else 1, min(limit, 40))]
    strides: list[int] = []
    reach = max(1, extents[0])  # elements from the first to the last
    for _ in ty.shape[1:]:
        least = -(-reach // step) if apart else 0
        strides.insert(0, step * w.number(least, least + 3))
        most = 1 + (limit - reach) // max(1, strides[0])
        extents.insert(0, w.number(1, max(1, min(most, 9))))
        reach += (extents[0] - 1) * strides[0]
    sizes = [w.constant(n, I32) for n in extents] + [w.constant(s, I64) for s in strides]
    padding = Padding.NAN if element.is_floating() and w.chance(3) else Padding.ZERO
    return w.emit(descriptor.make_tensor_descriptor, base, *sizes, block=ty.shape, padding=padding)


def starts_of(w: Writer, rank: int) -> list[Value]:
    """Return the start of a block: near the array, or anywhere."""
    begins = []
    for _ in range(rank):
        start = w.value(I32, 1)
        if not w.chance(4):
            low = w.emit(arith.and_, start, w.constant(15, I32))
            start = w.emit(arith.sub, low, w.constant(w.choose((0, 0, 4)), I32))
        begins.append(start)
    return begins


def descriptor_block(w: Writer, ty: Type, depth: int) -> Value:
    """A load by a descriptor."""
    base, _ = w.choose([pair for pair in aligned(w) if pair[1] == ty.element])
    limit = w.sizes.elements
    desc = described(w, base, limit, ty, apart=False)
    starts = starts_of(w, ty.rank)
    return w.emit(descriptor.descriptor_load, desc, *starts)
