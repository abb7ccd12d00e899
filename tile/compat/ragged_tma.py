"""`triton.tools.ragged_tma`: slices of unequal sizes along an axis, accessed in blocks.

    rows = create_ragged_descriptor(x, [64, 32])              # on the host
    block = load_ragged(rows, slice_off, slice_size, [0, 0])  # in a kernel

An access to `x[slice_off : slice_off + slice_size]` does not reach what lies after the slice: it is
read as zero and not written. Each access makes a descriptor whose extent ends with the slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tile import jit
from tile import language as tl
from tile.errors import ArgumentValueError
from tile.language.base.constexpr import constexpr
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor

__all__ = [
    "atomic_add_ragged",
    "create_ragged_descriptor",
    "load_ragged",
    "store_ragged",
]

MOST_ROWS = 1 << 30


class RaggedDescriptor(NamedTuple):
    """An array with ragged slices, as an argument of kernels; `ragged_dim` is their axis."""

    base: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: constexpr
    ragged_dim: constexpr


def create_ragged_descriptor(
    T: Any, block_shape: Sequence[int], ragged_dim: int = 0
) -> RaggedDescriptor:
    """Return the descriptor of an array of two or three axes; any axis but the last is ragged.

    Raises `ArgumentError` for another array, and for one that `tile.TensorDescriptor` refuses.
    """
    whole = TensorDescriptor.from_tensor(T, block_shape)
    rank = len(whole.shape)
    axis = ragged_dim + rank if ragged_dim < 0 else ragged_dim
    if rank not in (2, 3):
        raise ArgumentValueError(f"a ragged descriptor has 2 or 3 axes, and this array has {rank}")
    if not 0 <= axis < rank - 1:
        raise ArgumentValueError(
            f"the ragged axis of an array of {rank} axes is 0 to {rank - 2}, not {ragged_dim}"
        )
    if whole.shape[axis] > MOST_ROWS:
        raise ArgumentValueError(
            f"the ragged axis has {whole.shape[axis]} indices; the most is {MOST_ROWS}"
        )
    shape, strides = tuple(whole.shape), tuple(whole.strides)
    return RaggedDescriptor(T, shape, strides, constexpr(tuple(block_shape)), constexpr(axis))


@jit
def _slice(desc: Any, end: Any, ragged_dim: tl.constexpr) -> Any:
    """Return the descriptor of the array up to the index `end` of the ragged axis."""
    tl.static_assert(desc.ragged_dim == ragged_dim, "the descriptor has another ragged axis")
    shape = (*desc.shape[:ragged_dim], end, *desc.shape[ragged_dim + 1 :])
    strides = (*desc.strides[:-1], 1)
    return tl.make_tensor_descriptor(desc.base, shape, strides, desc.block_shape)


@jit
def _offsets(slice_off: Any, coords: Any, ragged_dim: tl.constexpr) -> Any:
    return (*coords[:ragged_dim], slice_off + coords[ragged_dim], *coords[ragged_dim + 1 :])


@jit
def load_ragged(
    TMA: Any, slice_off: Any, slice_size: Any, coords: Any, ragged_dim: tl.constexpr = 0
) -> Any:
    """Read the block at `coords` of a slice; elements after the slice are zero."""
    desc = _slice(TMA, slice_off + slice_size, ragged_dim)
    return desc.load(_offsets(slice_off, coords, ragged_dim))


@jit
def store_ragged(
    TMA: Any, slice_off: Any, slice_size: Any, coords: Any, data: Any, ragged_dim: tl.constexpr = 0
) -> None:
    """Write the block at `coords` of a slice; elements after the slice are not written."""
    desc = _slice(TMA, slice_off + slice_size, ragged_dim)
    desc.store(_offsets(slice_off, coords, ragged_dim), data)


@jit
def atomic_add_ragged(
    TMA: Any, slice_off: Any, slice_size: Any, coords: Any, data: Any, ragged_dim: tl.constexpr = 0
) -> None:
    """Add to the block at `coords` of a slice atomically; what is after the slice stays."""
    desc = _slice(TMA, slice_off + slice_size, ragged_dim)
    desc.atomic_add(_offsets(slice_off, coords, ragged_dim), data)
