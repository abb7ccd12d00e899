"""Tensor maps in C: how a header encodes those of a launch from its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tile.backends.nvptx.architectures import may_run_on_blackwell
from tile.backends.nvptx.launch_metadata import (
    MAP_AXIS,
    MAP_ELEMENTS,
    LaunchMetadata,
    LaunchValue,
    TensorMap,
)


class CMap(NamedTuple):
    """The operands of a tensor map in C; axes start with the innermost one."""

    element: str  # of CU_TENSOR_MAP_DATA_TYPE_
    itemsize: int
    swizzle: str  # of CU_TENSOR_MAP_SWIZZLE_
    written: int
    rank: int
    array: str
    extents: str
    strides: str  # of all axes but the innermost, in elements; 0 if there are none
    box: str


def can_encode(metadata: LaunchMetadata, arch: str) -> bool:
    """Return True if a header can encode all maps of a kernel as the launcher does.

    It has no maps of strips (an option of launches) or windows, and no workaround for Blackwell.
    """
    plain = not any(each.in_strips or each.window for each in metadata.maps)
    return plain and not (metadata.maps and may_run_on_blackwell(arch))


def c_map(description: TensorMap, names: Sequence[str]) -> CMap:
    """Return a map in C; `names` are those of the parameters."""
    element, itemsize = MAP_ELEMENTS[description.element]
    array = names[description.base]
    if description.offset.multiplier:
        array += f" + (CUdeviceptr)({_c_value(description.offset, names)} * {itemsize})"
    extents = [_c_extent(value, names) for value in description.extents]
    strides = [_c_value(value, names) for value in description.strides]
    return CMap(
        element=element,
        itemsize=itemsize,
        swizzle=f"{description.swizzle}B" if description.swizzle else "NONE",
        written=int(description.written),
        rank=len(extents),
        array=array,
        extents=", ".join(reversed(extents)),
        strides=", ".join(reversed(strides)) or "0",
        box=", ".join(map(str, reversed(description.box_dim))),
    )


def _c_extent(value: LaunchValue, names: Sequence[str]) -> str:
    """Return an extent; an axis without a bound has -1."""
    return _c_value(value, names) if value.parameters else str(value.of(()) & MAP_AXIS)


def _c_value(value: LaunchValue, names: Sequence[str]) -> str:
    """Return a value, whose multiplications wrap to its bits."""
    if not value.parameters:
        return str(value.of(()))
    names = [names[number] for number in value.parameters]
    if len(names) == 1 and value.multiplier == 1:
        return f"(int{value.bits}_t){names[0]}"
    product = " * ".join(f"(uint{value.bits}_t){each}" for each in (*names, value.multiplier))
    return f"(int{value.bits}_t)({product})"
