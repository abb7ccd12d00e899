"""Loads of elements at equal addresses: one for all rows, whichever of them a mask leaves out."""

from __future__ import annotations

import tile
import tile.language as tl


@tile.jit
def bias(x_ptr, bias_ptr, out_ptr, rows, columns, OTHER: tl.constexpr):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    mask = (i < rows) & (j < columns)
    at = i * 64 + j
    pointers = tl.broadcast_to(bias_ptr + j, [64, 64])
    if OTHER:
        b = tl.load(pointers, mask, other=1.0)
    else:
        b = tl.load(pointers, mask)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask, other=0.0) + b, mask)


def loads(*, rows: str, other: bool) -> int:
    """Return the number of loads of the bias; the other array's are eight."""
    types = dict.fromkeys(("x_ptr", "bias_ptr", "out_ptr"), "*fp32:16")
    types |= {"rows": rows, "columns": "i32:16"}
    kernel = tile.compile(bias, types, {"OTHER": other}, {"num_warps": 4}, "nvptx:sm_90a")
    return str(kernel.asm["ptx"]).count("ld.global") - 8


def test_a_row_is_loaded_once_for_all_rows() -> None:
    assert loads(rows="i32", other=False) == 1


def test_other_elements_keep_their_own_masks() -> None:
    assert loads(rows="i32", other=True) == 8
