"""Lookup tables: constants of a kernel that are indexed by runtime values, as `TABLE[i]`.

A table is a compile-time tuple of numbers, or of tuples of equal length, such as an array of NumPy
in a `tl.constexpr`. An element is found by selects, one for each bit of the index at each node of a
binary tree whose leaves are the elements; equal subtrees need none:

    (a, b, c, d)[i]      select(i & 2, select(i & 1, d, c), select(i & 1, b, a))

So a table of n entries costs at most n - 1 selects for each element of the index, and no memory:
15 for a codebook of 4 bits. A table of more than `SELECTED_ENTRIES` is a constant array of the
kernel's code (`table`), from which each element of the index loads an entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.expressions import Expression
from tile.ir.numpy_dtypes import SCALAR_OF_DTYPE, numpy_dtype
from tile.ir.ops import arith, indexing
from tile.ir.ops.arith import Predicate
from tile.ir.ops.indexing import TABLE_ENTRIES
from tile.ir.types import I1, I32, I64, SCALARS, Scalar, Type, with_element
from tile.language.base.promotion import (
    as_number,
    broadcast_together,
    common_type,
    convert,
    describe,
    number_type,
    to_tensor,
)
from tile.language.base.tensor import Tensor

SELECTED_ENTRIES = 64


def lookup(build: Builder, table: tuple[Any, ...], index: Any) -> Tensor:
    """Return the entries of a table at runtime indices, one index for each of its axes.

    The result for an index outside of the table is undefined. Raises `CompilationError` for items
    that are not numbers, for rows of different lengths, and for a table of too many entries.
    """
    indices = index if isinstance(index, tuple) else (index,)
    extents, entries = _flattened(table)
    if len(indices) != len(extents):
        raise CompilationError(
            f"a table of shape {list(extents)} takes {len(extents)} indices, not {len(indices)}"
        )
    if len(entries) > TABLE_ENTRIES:
        raise CompilationError(
            f"a table that is indexed by runtime values has at most {TABLE_ENTRIES:,} entries, and "
            f"this has {len(entries):,}",
            notes=["pass it as an argument, and load from it: tl.load(table + index)"],
        )
    position = _position(build, extents, indices)
    if len(entries) > SELECTED_ENTRIES:
        return _loaded(build, position, _element(entries), entries)
    ty = with_element(position.type, _element(entries))
    return Tensor(_Tree(build, position, ty, entries).node(0, _bits(len(entries))))


def _flattened(table: tuple[Any, ...]) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of a table and its entries in row-major order."""
    extents: list[int] = []
    entries: list[Any] = list(table)
    extents.append(len(entries))
    while entries and isinstance(entries[0], tuple):
        lengths = {len(row) if isinstance(row, tuple) else -1 for row in entries}
        if len(lengths) > 1:
            raise CompilationError("the rows of a table differ in length")
        extents += lengths
        entries = [item for row in entries for item in row]
    wrong = [entry for entry in entries if as_number(entry) is None]
    if wrong or not entries:
        what = "it is empty" if not entries else f"this has {describe(wrong[0])}"
        raise CompilationError(
            f"only a table of compile-time numbers is indexed by runtime values, and {what}"
        )
    return tuple(extents), entries


def _element(entries: Sequence[Any]) -> Scalar:
    """Return the type of a table: that of a NumPy array, else the first that holds all numbers."""
    dtypes = {getattr(entry, "dtype", None) for entry in entries}
    dtype = dtypes.pop()
    if not dtypes and dtype is not None:
        element = SCALAR_OF_DTYPE.get(dtype)
        if element is None:
            raise CompilationError(f"there are no tables of {dtype}")
        return element
    numbers = [as_number(entry) for entry in entries]
    types = [number_type(number) for number in numbers if number is not None]
    element = types[0]
    for other in types[1:]:
        element = common_type(element, other)
    integers = [number for number in numbers if isinstance(number, int)]
    if element.is_int() and not element.is_bool() and min(integers) < element.min_value:
        element = I64  # negative numbers, and others that only an unsigned type holds
    return element


def _position(build: Builder, extents: Sequence[int], indices: Sequence[Any]) -> Value:
    """Return the row-major position of an entry, as i32."""
    tensors = [to_tensor(build, item, "an index into a table") for item in indices]
    for tensor in tensors:
        if not tensor.dtype.is_int():
            raise CompilationError(f"an index into a table is an integer, not {tensor.type}")
    tensors = list(broadcast_together(build, *(convert(build, x, I32) for x in tensors)))
    position, *others = (Expression(build, tensor.value) for tensor in tensors)
    for extent, index in zip(extents[1:], others, strict=True):
        position = position * extent + index
    return position.value


def _loaded(build: Builder, position: Value, element: Scalar, entries: Sequence[Any]) -> Tensor:
    """Return entries of a constant array; its end is padded to a power of two of entries."""
    bits = SCALARS[f"u{element.storage_bits}"]
    numbers = np.array([as_number(entry) for entry in entries], numpy_dtype(element))
    padded = np.pad(numbers.view(numpy_dtype(bits)), (0, (1 << _bits(len(entries))) - len(entries)))
    value = build(indexing.table, position, of=bits, entries=tuple(padded.tolist()))
    if element is I1:
        return convert(build, Tensor(value), I1)
    return Tensor(value if element is bits else build(arith.bitcast, value, to=element))


class _Tree:
    """The selects that find one of `entries` by the bits of a position."""

    def __init__(self, build: Builder, position: Value, ty: Type, entries: Sequence[Any]) -> None:
        self.build = build
        self.position = position
        self.type = ty
        self.entries = entries
        self.conditions: dict[int, Value] = {}
        self.leaves: dict[bytes, Value] = {}

    def node(self, first: int, bits: int) -> Value:
        """Return the entry at `first` plus the low bits of the position."""
        if bits == 0:
            return self.leaf(self.entries[min(first, len(self.entries) - 1)])
        half = 1 << bits - 1
        low = self.node(first, bits - 1)
        if first + half >= len(self.entries):
            return low
        high = self.node(first + half, bits - 1)
        return low if high is low else self.build(arith.select, self.bit(half), high, low)

    def leaf(self, entry: Any) -> Value:
        number = as_number(entry)
        assert number is not None
        key = np.asarray(number).tobytes()  # -0.0 and 0.0 differ
        if key not in self.leaves:
            self.leaves[key] = self.build.constant(number, self.type)
        return self.leaves[key]

    def bit(self, mask: int) -> Value:
        """Return the condition that a bit of the position is set."""
        if mask not in self.conditions:
            masked = Expression(self.build, self.position) & mask
            self.conditions[mask] = masked.is_(Predicate.NE, 0).value
        return self.conditions[mask]


def _bits(count: int) -> int:
    return (count - 1).bit_length()
