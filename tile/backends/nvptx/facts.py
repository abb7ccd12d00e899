"""What the launcher must know of a kernel, besides its PTX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tile.backends.assertions import Assertion

RECORD = "tile_fault_record"  # a global that the launcher fills in with the record's address
REPORTED = "tile_fault_reported"  # another one: whether the record was written already


# Bytes of a tensor map, and where it begins.
MAP_BYTES, MAP_ALIGNMENT = 128, 64


class Number(NamedTuple):
    """The number of a kernel's parameter, or else a constant."""

    parameter: int | None
    constant: int

    def among(self, values: Sequence[Any]) -> int:
        """What it is in a launch with these values."""
        return self.constant if self.parameter is None else int(values[self.parameter])


class TensorMap(NamedTuple):
    """An array that the tensor memory accelerator copies boxes of, as its map has it.

    `base` is the number of the parameter that points to it; extents, strides (in elements, without
    the last, which is 1) and the box are from the outermost axis on. `element` is the name of a
    type, and `swizzle` the bytes of a row within which vectors are reordered.
    """

    base: int
    extents: tuple[Number, ...]
    strides: tuple[Number, ...]
    element: str
    box: tuple[int, ...]
    swizzle: int

    @classmethod
    def of(cls, data: Sequence[Any]) -> TensorMap:
        """The map that was said in JSON."""
        base, extents, strides, element, box, swizzle = data
        return cls(base, _numbers(extents), _numbers(strides), element, tuple(box), swizzle)


def _numbers(data: Sequence[Sequence[Any]]) -> tuple[Number, ...]:
    return tuple([Number(*one) for one in data])


@dataclass(frozen=True)
class Facts:
    """A kernel's symbol, how many threads run a program, its shared bytes, and its assertions.

    `maps` are its last parameters.
    """

    kernel: str
    threads: int
    shared_bytes: int
    assertions: tuple[Assertion, ...] = ()
    maps: tuple[TensorMap, ...] = ()

    def data(self) -> dict[str, Any]:
        """Them as what JSON can say."""
        return {**vars(self), "assertions": [one.data() for one in self.assertions]}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Facts:
        """The facts that `data` gave."""
        assertions = tuple(map(Assertion.of, data["assertions"]))
        maps = tuple(map(TensorMap.of, data["maps"]))
        return cls(**{**data, "assertions": assertions, "maps": maps})
