"""Overlap of the memory of launch arguments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
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


def first_overlap(
    pairs: Sequence[tuple[int, int]], arguments: Sequence[Any]
) -> tuple[int, int] | None:
    """Return the first of some pairs of positions whose arguments may overlap; None if none do.

    A kernel on lists of arrays has thousands of pairs, which usually all lie apart: then sorting
    the address ranges shows that.
    """
    positions = {*chain.from_iterable(pairs)}
    spans = [_span(arguments[at]) for at in positions]
    ranges = sorted(span for span in spans if span is not None)
    if len(ranges) == len(spans) and all(one[1] <= other[0] for one, other in pairwise(ranges)):
        return None
    return next(
        ((one, other) for one, other in pairs if may_overlap(arguments[one], arguments[other])),
        None,
    )


def _span(array: Any) -> tuple[int, int] | None:
    """Return the address range of an array; None if it is not known."""
    if isinstance(array, np.ndarray):
        low, high = accessible(array)
        address: int = array.__array_interface__["data"][0]
        return address + low, address + high
    if type(array) is not DeviceArray or array.device.partition(":")[0] == OPENCL:
        return None
    return array.span
