"""`triton.tools.ragged_tma`: accesses end with a slice."""

import numpy as np
import pytest

from tile.errors import ArgumentError, CompilationError


@pytest.mark.parametrize("axis", [0, 1])
def test_slices_end_where_they_should(triton, axis: int) -> None:
    import triton.language as tl
    from triton.tools.ragged_tma import (
        atomic_add_ragged,
        create_ragged_descriptor,
        load_ragged,
        store_ragged,
    )

    @triton.jit
    def kernel(X, Y, Z, start, size, AXIS: tl.constexpr):
        if AXIS == 0:
            at: tl.constexpr = [2, 0]
        else:
            at: tl.constexpr = [0, 2, 0]
        x = load_ragged(X, start, size, at, AXIS)
        store_ragged(Y, start, size, at, x + 100, AXIS)
        atomic_add_ragged(Z, start, size, at, x, AXIS)

    x = np.arange(160, dtype=np.float32).reshape((20, 8) if axis == 0 else (2, 10, 8))
    block = (4, 8) if axis == 0 else (2, 4, 8)
    y, z = np.zeros_like(x), np.ones_like(x)
    descriptors = [create_ragged_descriptor(a, block, axis) for a in (x, y, z)]
    kernel[1,](*descriptors, 3, 5, axis)
    # The block begins at the third row of the slice, and the slice has five rows.
    rows = (slice(None),) * axis + (slice(5, 8),)
    expected = np.zeros_like(x)
    expected[rows] = x[rows] + 100
    assert np.array_equal(y, expected)
    expected[rows] -= 100
    assert np.array_equal(z, expected + 1)


def test_arrays_without_ragged_slices_are_refused(triton) -> None:
    import triton.language as tl
    from triton.tools.ragged_tma import create_ragged_descriptor, load_ragged

    x = np.zeros((4, 8), np.float32)
    with pytest.raises(ArgumentError, match="has 2 or 3 axes, and this array has 1"):
        create_ragged_descriptor(x[0], [8])
    with pytest.raises(ArgumentError, match="of an array of 2 axes is 0 to 0, not 1"):
        create_ragged_descriptor(x, [4, 8], 1)
    many = np.lib.stride_tricks.as_strided(x, ((1 << 30) + 1, 8), (0, 4))
    with pytest.raises(ArgumentError, match=r"has 1073741825 indices; the most is 1073741824"):
        create_ragged_descriptor(many, [4, 8])

    @triton.jit
    def kernel(X, out):
        tl.store(out, tl.sum(tl.sum(load_ragged(X, 0, 2, [0, 0, 0], 1), 1), 0))

    three = np.zeros((2, 4, 8), np.float32)
    with pytest.raises(CompilationError, match="the descriptor has another ragged axis"):
        kernel[1,](create_ragged_descriptor(three, [1, 4, 8]), three)
