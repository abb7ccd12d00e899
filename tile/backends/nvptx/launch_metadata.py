"""Launch metadata: what a launch of a kernel needs besides its code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tile.backends.base import Assertion
from tile.ir.types import ALL_FP8

# the global variable for the address of the fault record, which the launcher sets
RECORD = "tile_fault_record"
REPORTED = "tile_fault_reported"  # the global flag: the record was written already


# Size and alignment of a tensor map, in bytes.
MAP_BYTES, MAP_ALIGNMENT = 128, 64
# Bytes of which strides and addresses of a map's array are multiples, and that TMA writes at least.
MAP_STRIDE = 16
MAP_AXIS = (1 << 32) - 1  # elements of an axis, at most: those of an axis without a bound
# By element, its name among the driver's (`CU_TENSOR_MAP_DATA_TYPE_`), and its bytes.
MAP_ELEMENTS = {
    "f16": ("FLOAT16", 2),
    "bf16": ("BFLOAT16", 2),
    "f32": ("FLOAT32", 4),
    "f64": ("FLOAT64", 8),
    "i16": ("UINT16", 2),
    "u16": ("UINT16", 2),
    "i32": ("INT32", 4),
    "u32": ("UINT32", 4),
    "i64": ("INT64", 8),
    "u64": ("UINT64", 8),
    **dict.fromkeys(("i1", "i8", "u8", *(ty.ir_name for ty in ALL_FP8)), ("UINT8", 1)),
}


class LaunchValue(NamedTuple):
    """A value that is known at a launch: the arguments `parameters` times a constant.

    It is a signed integer of `bits` bits, to which the multiplications wrap.
    """

    parameters: tuple[int, ...]
    multiplier: int = 1
    bits: int = 64

    def value(self, arguments: Sequence[Any]) -> int:
        """Return the value in a launch with these arguments."""
        return self.of([int(arguments[number]) for number in self.parameters])

    def of(self, numbers: Sequence[int]) -> int:
        """Return the value where the arguments are these numbers."""
        value = math.prod(numbers, start=self.multiplier)
        half = 1 << self.bits - 1
        return (value + half) % (2 * half) - half


class TensorMap(NamedTuple):
    """The tensor map that TMA needs to copy blocks of an array.

    `base` is the number of the parameter that points to the array, `offset` elements before its
    first one; extents, strides (in elements,
    without the last, which is 1) and `box_dim` start with the outermost axis. `element` is the
    name of a type, and `swizzle` the width of the swizzle in bytes. With `in_strips`, the last axis
    is divided into one of strips, the outermost one of the map, and one of elements, and `box_dim`
    has both. With a `window`, the map is for im2col mode: the window is the lower corner, the upper
    corner and the steps along the spatial axes, and `box_dim` is of pixels and channels. TMA
    writes the array through a map that is `written`.
    """

    base: int
    extents: tuple[LaunchValue, ...]
    strides: tuple[LaunchValue, ...]
    element: str
    box_dim: tuple[int, ...]
    swizzle: int
    in_strips: bool = False
    window: tuple[tuple[int, ...], ...] = ()
    offset: LaunchValue = LaunchValue((), 0)
    written: bool = False

    @classmethod
    def of(cls, data: Sequence[Any]) -> TensorMap:
        """Return the map that `LaunchMetadata.data` described."""
        base, extents, strides, element, box_dim, swizzle, in_strips, window, offset, written = data
        array = (_values(extents), _values(strides), element, tuple(box_dim))
        (before,) = _values([offset])
        return cls(base, *array, swizzle, in_strips, tuple(map(tuple, window)), before, written)


def _values(data: Sequence[Sequence[Any]]) -> tuple[LaunchValue, ...]:
    return tuple([LaunchValue(tuple(parameters), *rest) for parameters, *rest in data])


@dataclass(frozen=True)
class LaunchMetadata:
    """A kernel's symbol, threads of a program, bytes of shared memory, and assertions.

    `maps` are the kernel's last parameters. `gathers`: it is launched in clusters only, whose
    programs exchange numbers.
    """

    kernel: str
    threads: int
    shared_bytes: int
    assertions: tuple[Assertion, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    gathers: bool = False

    def data(self) -> dict[str, Any]:
        """Return the metadata as JSON values."""
        return {**vars(self), "assertions": [one.data() for one in self.assertions]}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> LaunchMetadata:
        """Return the metadata that `data` described."""
        assertions = tuple(map(Assertion.of, data["assertions"]))
        maps = tuple(map(TensorMap.of, data["maps"]))
        return cls(**{**data, "assertions": assertions, "maps": maps})
