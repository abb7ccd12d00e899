"""Affine accesses equal element-by-element accesses, whichever fast path they take."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import examples
from tile.backends.interp.resolved_access import Elements
from tile.backends.interp.values import Affine
from tile.backends.interp.virtual_memory import FaultError, Memory
from tile.ir.types import I32

SHAPES = [(), (1,), (8,), (4, 4), (2, 8), (2, 2, 4)]


@st.composite
def accesses(draw: st.DrawFn) -> tuple[Affine, np.ndarray | None, tuple[int, ...], int]:
    """An affine access to an array of int32: offsets in elements, mask, tile shape, array length."""
    shape = draw(st.sampled_from(SHAPES))
    programs = draw(st.sampled_from([1, 2, 3, 7]))
    steps = tuple(draw(st.integers(-5, 5)) for _ in shape)
    varying = [draw(st.booleans()) if not step else False for step in steps]
    base_shape = (programs, *(n if v else 1 for n, v in zip(shape, varying, strict=True)))
    if draw(st.booleans()) and not any(varying):  # programs at even distances
        first, gap = draw(st.integers(0, 60)), draw(st.integers(-9, 9))
        base = (first + gap * np.arange(programs)).reshape(base_shape)
    else:
        count = int(np.prod(base_shape))
        base = np.array(draw(st.lists(st.integers(0, 60), min_size=count, max_size=count)))
        base = base.reshape(base_shape)
    mask = None
    if draw(st.booleans()):
        mask_shape = (
            draw(st.sampled_from([1, programs])),
            *(draw(st.sampled_from([1, n])) for n in shape),
        )
        if draw(st.booleans()):  # a prefix, as bounds checks make them
            cut = draw(st.integers(0, mask_shape[-1]))
            mask = np.broadcast_to(np.arange(mask_shape[-1]) < cut, mask_shape).copy()
        else:
            bits = draw(st.integers(0, (1 << int(np.prod(mask_shape))) - 1))
            flat = [bits >> i & 1 for i in range(int(np.prod(mask_shape)))]
            mask = np.array(flat, bool).reshape(mask_shape)
    affine = Affine(base.astype(np.int64), steps, shape, np.dtype(np.int64))
    return affine, mask, shape, draw(st.sampled_from([40, 64, 96]))


def expanded(affine: Affine, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Offset and activity of every element of every program."""
    extents = (affine.base.shape[0], *affine.shape)
    offsets = np.broadcast_to(affine.base, extents).copy()
    for place in itertools.product(*map(range, affine.shape)):
        index = (slice(None), *place)
        offsets[index] += sum(i * s for i, s in zip(place, affine.steps, strict=True))
    active = np.ones(extents, bool) if mask is None else np.broadcast_to(mask, extents)
    return offsets, active


def addressed(memory: Memory, array: np.ndarray, affine: Affine) -> Affine:
    """Return the access in bytes, at the address of an array in memory."""
    origin = memory.add("x", array)
    steps = tuple(s * 4 for s in affine.steps)
    return Affine(origin + affine.base * 4, steps, affine.shape, affine.dtype)


def check_fault(
    fault: FaultError, origin: int, offsets: np.ndarray, active: np.ndarray, wrong: np.ndarray
) -> None:
    """Check that a fault names the first wrong element and counts those of its program."""
    place = (fault.row, *fault.lane)
    assert place == tuple(np.argwhere(wrong)[0])
    assert fault.address == origin + 4 * offsets[place]
    assert (fault.count, fault.active) == (wrong[fault.row].sum(), active[fault.row].sum())


@examples(200)
@given(accesses(), st.booleans())
def test_load(access, with_other: bool) -> None:
    affine, mask, shape, length = access
    offsets, active = expanded(affine, mask)
    array = np.arange(1000, 1000 + length, dtype=np.int32)
    memory = Memory()
    other = (
        np.full((1,) * (1 + len(shape)), -5, np.int32) if with_other and mask is not None else None
    )
    address = addressed(memory, array, affine)
    wrong = active & ((offsets < 0) | (offsets >= length))
    if wrong.any():
        try:
            memory.load(address, mask, other, Elements(I32, shape))
        except FaultError as fault:
            check_fault(fault, memory.buffers[0].origin, offsets, active, wrong)
        else:
            raise AssertionError("a fault went unseen")
        return
    got = np.broadcast_to(memory.load(address, mask, other, Elements(I32, shape)), offsets.shape)
    expected = np.where(active, 1000 + offsets, -5 if other is not None else 0)
    np.testing.assert_array_equal(got[active], expected[active])
    if other is not None:
        np.testing.assert_array_equal(got, expected)


@examples(200)
@given(accesses(), st.booleans(), st.booleans())
def test_store(access, uniform: bool, watched: bool) -> None:
    affine, mask, shape, length = access
    offsets, active = expanded(affine, mask)
    array = np.zeros(length, np.int32)
    memory = Memory()
    memory.watched = watched
    address = addressed(memory, array, affine)
    if uniform:
        value = np.full((1,) * (1 + len(shape)), 3, np.int32)
    else:
        value = np.arange(1, 1 + offsets.size, dtype=np.int32).reshape(offsets.shape)
    wrong = active & ((offsets < 0) | (offsets >= length))
    if wrong.any():
        try:
            memory.store(address, value, mask, Elements(I32, shape))
        except FaultError as fault:
            check_fault(fault, memory.buffers[0].origin, offsets, active, wrong)
        else:
            raise AssertionError("a fault went unseen")
        assert not array.any()
        return
    expected = array.copy()
    values = np.broadcast_to(value, offsets.shape)
    for place in np.ndindex(offsets.shape):
        if active[place]:
            expected[offsets[place]] = values[place]
    before = memory.version
    memory.store(address, value, mask, Elements(I32, shape))
    np.testing.assert_array_equal(array, expected)
    if expected.any():
        assert memory.version != before
