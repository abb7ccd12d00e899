"""Overlap of the memory of launch arguments: of adapted ones, and of tensors at their addresses."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from tile.backends.base import accessible, footprint
from tile.runtime.arguments.device_arrays import DeviceArray
from tile.runtime.arguments.opencl_buffers import DEVICE as OPENCL
from tile.tracebacks import GENERATED


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


# The fast path of launches reads addresses alone, and asks tensors for what follows them.

FEW_PAIRS = 32  # of arrays that may overlap; more are sorted

OverlapTest = Callable[[Sequence[Any], Sequence[int]], bool]
"""Returns True if two tensors at these addresses, whose overlap matters, may overlap."""


def overlap_test(
    pairs: Sequence[tuple[int, int]], count: int, *, objects: bool = False
) -> OverlapTest:
    """Return a test of `count` tensors whose overlap matters for some pairs of positions.

    `objects`: some are other objects with an address. The test raises `ValueError`, or what such an
    object raises, for one that does not tell its extent.
    """
    if len(pairs) > FEW_PAIRS:
        return _test_of_many(pairs, objects=objects)
    return _test_of_few(tuple(pairs), count, objects=objects)


_OVERLAP = """\
def overlap(tensors, addresses):
    {tensors} = tensors
    {addresses} = addresses
    {ends}
    return {tests}
"""

_EXTENT = "(t{0}.nbytes if t{0}.is_contiguous() else extent(t{0}))"


@functools.cache
def _test_of_few(pairs: tuple[tuple[int, int], ...], count: int, *, objects: bool) -> OverlapTest:
    """Return a generated function that compares each pair, which is faster than to sort."""
    extent = "extent(t{0})" if objects else _EXTENT
    ends = [f"e{at} = p{at} + {extent.format(at)}" for at in sorted({*chain.from_iterable(pairs)})]
    text = _OVERLAP.format(
        tensors="".join(f"t{at}, " for at in range(count)),
        addresses="".join(f"p{at}, " for at in range(count)),
        ends="\n    ".join(ends),
        tests=" or ".join(f"p{x} < e{y} and p{y} < e{x}" for x, y in pairs),
    )
    space: dict[str, Any] = {"extent": tensor_extent}
    exec(compile(text, GENERATED, "exec"), space)
    test: OverlapTest = space["overlap"]
    return test


def _test_of_many(pairs: Sequence[tuple[int, int]], *, objects: bool) -> OverlapTest:
    """Return a function that sorts address ranges, few of which overlap."""
    positions = sorted({*chain.from_iterable(pairs)})
    number = {position: at for at, position in enumerate(positions)}
    numbered = {frozenset((number[one], number[other])) for one, other in pairs}

    def extent(tensor: Any) -> int:
        dense = not objects and tensor.is_contiguous()
        return int(tensor.nbytes) if dense else tensor_extent(tensor)

    def overlap(tensors: Sequence[Any], addresses: Sequence[int]) -> bool:
        starts = [addresses[at] for at in positions]
        ends = list(map(operator.add, starts, [extent(tensors[at]) for at in positions]))
        return any(pair in numbered for pair in map(frozenset, overlapping(starts, ends)))

    return overlap


def tensor_extent(tensor: Any) -> int:
    """Return the bytes from the first element of a tensor, or object like one, to its end.

    Raises `ValueError` if there are elements before the first one, and what an object raises that
    does not tell.
    """
    low, high = footprint(tensor.shape, tensor.stride(), 1)
    if low < 0:
        raise ValueError
    return high * int(tensor.dtype.itemsize)
