"""Overlap of the memory of launch arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.backends.base import accessible
from tile.runtime.arguments.device_arrays import DeviceArray
from tile.runtime.arguments.opencl_buffers import DEVICE as OPENCL


def may_overlap(x: Any, y: Any) -> bool:
    """Return False if the address ranges of two arrays, adapted arguments of a launch, differ.

    Return True for memory whose range is not known: OpenCL buffers, which have no addresses.
    """
    if type(x) is np.ndarray and type(y) is np.ndarray:
        return np.may_share_memory(x, y)
    one, other = _span(x), _span(y)
    if one is None or other is None:
        return True
    return one[0] < other[1] and other[0] < one[1]


def _span(array: Any) -> tuple[int, int] | None:
    """Return the address range of an array; None if it is not known."""
    if isinstance(array, np.ndarray):
        low, high = accessible(array)
        address: int = array.__array_interface__["data"][0]
        return address + low, address + high
    if type(array) is not DeviceArray or array.device.partition(":")[0] == OPENCL:
        return None
    return array.span
