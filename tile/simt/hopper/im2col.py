"""Limits of TMA loads in im2col mode (CUDA driver API, "cuTensorMapEncodeIm2col")."""

from __future__ import annotations

from collections.abc import Sequence

from tile.analysis.uniformity import launch_value
from tile.ir.core import Operation
from tile.ir.ops.descriptor import OFFSET_BITS

MAX_PIXELS = 1024
MAX_STEP = 8


def reason_against(pointers: Operation) -> str | None:
    """Return why a load through `im2col_pointers` is no TMA load; None if it can be one."""
    lower, upper, steps = pointers["lower"], pointers["upper"], pointers["steps"]
    bits = OFFSET_BITS[len(lower)]
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    for name, corner in (("lower", lower), ("upper", upper)):
        if not all(least <= number <= most for number in corner):
            return f"its {name} corner is {_list(corner)}, and TMA takes {least} to {most}"
    if max(steps) > MAX_STEP:
        return f"its element strides are {_list(steps)}, and TMA takes 1 to {MAX_STEP}"
    pixels = pointers.result.type.shape[0]
    if pixels > MAX_PIXELS:
        return f"its block has {pixels} pixels, and TMA copies up to {MAX_PIXELS}"
    array = pointers.inputs[1 : 2 + 2 * len(lower) + 3]  # the base, extents and strides
    if None in map(launch_value, array):
        return "its address, an extent or a stride is not known at launch"
    return None


def _list(numbers: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, numbers)) + ")"
