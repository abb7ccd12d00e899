"""Weights of 4 bits: how they are packed, and how they become floats.

    w[n, k] = (q[n, k] - 8) * scale[n, k // group]

`pack_int4` rounds each group of weights along k to multiples of a seventh of its greatest
magnitude. Byte i of a group has its elements i, in the low bits, and i + group / 2: so the low bits
of a block of bytes are contiguous weights, and the high bits, too (int4_conversion.py). The groups
with the same k are contiguous, and so are eight rows of a group, which a warp loads at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.language.extra import libdevice
from tile.ops.core.call import BF16, F16, F32, Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.reference import Array
from tile.ops.linear.int4_conversion import weights_of

U8 = np.dtype(np.uint8)
FLOATS = (F16, BF16, F32)
GROUPS = (32, 64, 128, 256)
SHIFT = tl.constexpr(16.0)  # small weights would be subnormal numbers of float16
ROWS = 32  # of weights that a program expands


@tile.jit
def pack_int4_kernel(w_ptr, packed_ptr, scale_ptr, stride, GROUP: tl.constexpr):
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    w = tl.load(w_ptr + row * stride + group * GROUP + tl.arange(0, GROUP)).to(tl.float32)
    # Exact divisions: weights of 16 bits are often halfway between two integers.
    scale = tl.div_rn(tl.max(tl.abs(w), axis=0), 7.0)
    inverse = tl.where(scale > 0, tl.div_rn(1.0, scale), 0.0)
    q = libdevice.rint(tl.clamp(w * inverse, -7.0, 7.0)).to(tl.int32) + 8
    low, high = tl.split(tl.trans(q.reshape(2, GROUP // 2)))
    at = group.to(tl.int64) * tl.num_programs(0) + row
    byte = at * (GROUP // 2) + tl.arange(0, GROUP // 2)
    tl.store(packed_ptr + byte, (low | (high << 4)).to(tl.uint8))
    tl.store(scale_ptr + at, scale)


@tile.jit
def expand_int4_kernel(
    packed_ptr,
    scale_ptr,
    out_ptr,
    first,
    N,
    K,
    weight_row,
    weight_group,
    scale_row,
    scale_group,
    WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    group, byte = tl.program_id(1).to(tl.int64), tl.arange(0, WEIGHTS // 2)
    inside = (row < N)[:, None]
    source = first + row.to(tl.int64)
    at = source[:, None] * weight_row + group * weight_group + byte[None, :]
    packed = tl.load(packed_ptr + at, mask=inside, other=0)
    scales = scale_ptr + source * scale_row + group * scale_group
    scale = tl.load(scales, mask=row < N, other=0.0)
    low, high = weights_of(packed, (scale * SHIFT)[:, None], out_ptr.dtype.element_ty)
    out = out_ptr + row.to(tl.int64)[:, None] * K + group * WEIGHTS + byte[None, :]
    tl.store(out, low, mask=inside)
    tl.store(out + WEIGHTS // 2, high, mask=inside)


def pack_int4(weight: Any, group: int = 128) -> tuple[Any, Any]:
    """Return the weights in 4 bits, N x K / group x group / 2, and their scales, N x K / group.

    weight: N x K, float16, bfloat16 or float32, with contiguous rows. group: 32, 64, 128 or 256,
    which divides K. Results are of uint8 and float32, and stored by groups before rows.
    """
    call = Call("pack_int4")
    source = call.array("weight", weight, dtypes=FLOATS, rank=2)
    rows = source.rows()
    call.choice("group", group, GROUPS)
    if rows.length % group:
        raise ArgumentValueError(
            f"pack_int4: the rows of `weight` have {rows.length} elements; they must be a multiple "
            f"of `group`, {group}"
        )
    groups = rows.length // group
    packed = call.new((groups, rows.count, group // 2), U8)
    scales = call.new((groups, rows.count), F32)
    if packed.size:
        launch(pack_int4_kernel, scales.shape[::-1])(
            *(weight, packed.value, scales.value, rows.stride), GROUP=group
        )
    return _swapped(packed.value), scales.value.T


def _swapped(array: Any) -> Any:
    """Return an array with its first two axes exchanged; pyopencl's have no `swapaxes`."""
    return array.swapaxes(0, 1) if hasattr(array, "swapaxes") else array.transpose((1, 0, 2))


def by_groups(packed: Operand, k: int, groups: int) -> Operand:
    """Return packed weights as rows x groups x bytes of a group, of which the last are contiguous.

    k: weights of a row. Raises `ArgumentValueError` for other shapes.
    """
    n, long = packed.shape[0], k // max(1, groups) // 2
    if packed.shape == (n, k // 2):
        row, group = packed.contiguous().strides[0], long
        return replace(packed, shape=(n, groups, long), strides=(row, group, 1))
    if packed.shape != (n, groups, long):
        raise ArgumentValueError(
            f"{packed.op}: `packed` has shape {packed.shape}; it must be {(n, groups, long)} or "
            f"{(n, k // 2)}"
        )
    return packed.last_contiguous()


def expand_int4(packed: Operand, scales: Operand, weights: Operand, first: int, rows: int) -> None:
    """Write `rows` rows of weights from `first` on, times `SHIFT`, to an array of K columns."""
    k, groups = weights.shape[1], scales.shape[1]
    launch(expand_int4_kernel, (tile.cdiv(rows, ROWS), groups), dependent=True)(
        *(packed.value, scales.value, weights.value, first, rows, k),
        *(*packed.strides[:2], *scales.strides),
        WEIGHTS=k // groups,
        ROWS=ROWS,
    )


def pack_int4_reference(weight: Array, group: int) -> tuple[Array, Array]:
    """Return the packed weights and scales, by float32 operations, which decide ties."""
    n, k = weight.shape
    groups = weight.astype(np.float32).reshape(n, k // group, group)
    scales = np.abs(groups).max(axis=-1, initial=0) / np.float32(7)
    inverse = np.divide(np.float32(1), scales, out=np.zeros_like(scales), where=scales > 0)
    q = np.rint(np.clip(groups * inverse[..., None], -7, 7)).reshape(n, k).astype(np.int32) + 8
    low, high = q.reshape(n, k // group, 2, group // 2).swapaxes(0, 2).swapaxes(1, 2)
    return (low | high << 4).astype(np.uint8), scales
