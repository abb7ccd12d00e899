"""The type of tensor descriptors: `desc<64x64xf16>`, `desc<1x32xf32, nan>`.

A tensor descriptor is an array in global memory together with its bounds, accessed in blocks of one
shape.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import ClassVar

from tile.errors import TypeRuleError
from tile.ir.extents import MAX_NUMEL, check_extent
from tile.ir.types import I32, I64, Pointer, Scalar, Tile, Type, require


class Padding(enum.StrEnum):
    """The value that loads through a descriptor return for elements outside the array."""

    ZERO = "zero"
    NAN = "nan"


@dataclass(frozen=True, slots=True, eq=False)
class Descriptor(Type):
    """A tensor descriptor: an array in global memory with extents and strides known at run time.

    It is accessed in blocks, tiles of shape `dims`. Elements of a block outside the array are read
    as `padding` and never written. The elements along the last axis are contiguous in memory; the
    array's address and all other strides are multiples of `ALIGNMENT` bytes.
    """

    ALIGNMENT: ClassVar[int] = 16
    MAX_RANK: ClassVar[int] = 5

    dims: tuple[int, ...]
    of: Scalar
    padding: Padding = Padding.ZERO

    def __post_init__(self) -> None:
        dims, of = list(self.dims), self.of
        most = self.MAX_RANK
        require(1 <= len(dims) <= most, f"a descriptor has 1 to {most} axes, not {len(dims)}")
        require(not of.is_bool(), f"a descriptor has elements of a number type, not {of}")
        for extent in dims:
            check_extent(extent, "the extents of a descriptor's block are")
        numel, inner = math.prod(dims), of.bytes_of(dims[-1])
        require(
            numel <= MAX_NUMEL,
            f"a block of shape {dims} has {numel} elements; the most is {MAX_NUMEL}",
        )
        require(
            inner >= self.ALIGNMENT,
            f"a block of shape {dims} has {inner} bytes of {of} along its last axis; the least is "
            f"{self.ALIGNMENT}, {self.ALIGNMENT * 8 // of.storage_bits} elements",
        )
        require(
            self.padding is Padding.ZERO or of.is_floating(),
            f"elements of {of} outside the array cannot be NaN; a padding of zero fits any type",
        )

    def __str__(self) -> str:
        padding = "" if self.padding is Padding.ZERO else f", {self.padding.value}"
        return f"desc<{'x'.join(map(str, self.dims))}x{self.of}{padding}>"

    __repr__ = __str__

    @property
    def element(self) -> Scalar | Pointer:
        raise TypeRuleError(
            f"{self} is a descriptor, which arithmetic does not accept; load([...]) and "
            "store([...], value) read and write its array"
        )

    @property
    def block_type(self) -> Tile:
        """The type of the block that one access reads or writes."""
        return Tile(self.dims, self.of)

    @property
    def component_types(self) -> tuple[Scalar | Pointer, ...]:
        """The types of its components: base, extents, and all strides but the last, which is 1.

        Extents and strides are in elements.
        """
        rank = len(self.dims)
        return (Pointer(self.of), *[I32] * rank, *[I64] * (rank - 1))

    @property
    def stride_multiple(self) -> int:
        """The number of elements that divides every stride but the last."""
        return self.ALIGNMENT * 8 // self.of.storage_bits


def addresses_memory(ty: Type) -> bool:
    """Return True if values of a type address memory: pointers, tiles of them, descriptors."""
    return isinstance(ty, Descriptor) or isinstance(ty.element, Pointer)
