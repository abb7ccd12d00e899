"""Overlap of the memory of launch arguments."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import chain, islice
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
    one, other = address_range(x), address_range(y)
    if one is None or other is None:
        return True
    return one[0] < other[1] and other[0] < one[1]


def first_overlap(
    pairs: Sequence[tuple[int, int]], arguments: Sequence[Any]
) -> tuple[int, int] | None:
    """Return the first of some pairs of positions whose arguments may overlap; None if none do.

    A kernel on lists of arrays has thousands of pairs, few of which overlap.
    """
    spans = {at: address_range(arguments[at]) for at in {*chain.from_iterable(pairs)}}
    unknown = {at for at, span in spans.items() if span is None}
    if unknown:
        return next(pair for pair in pairs if not unknown.isdisjoint(pair))
    positions, ranges = [*spans], [span for span in spans.values() if span is not None]
    starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
    overlaps = {frozenset((positions[i], positions[j])) for i, j in overlapping(starts, ends)}
    return next((pair for pair in pairs if frozenset(pair) in overlaps), None) if overlaps else None


def overlapping(starts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of each two spans that overlap. Empty spans overlap none."""
    if all(map(operator.le, sorted(ends), islice(sorted(starts), 1, None))):
        return  # each ends before the next one starts
    ordered = sorted(range(len(starts)), key=starts.__getitem__)
    for at, one in enumerate(ordered):
        for index in range(at + 1, len(ordered)):
            other = ordered[index]
            if starts[other] >= ends[one]:
                break
            if starts[other] < ends[other]:
                yield one, other


def address_range(array: Any) -> tuple[int, int] | None:
    """Return the address range of an array, as of `DeviceArray.span`; None if it is not known."""
    if isinstance(array, np.ndarray):
        low, high = accessible(array)
        address: int = array.__array_interface__["data"][0]
        return address + low, address + high
    if type(array) is not DeviceArray or array.device.partition(":")[0] == OPENCL:
        return None
    return array.span
