"""The type of buffers in shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tile.ir.extents import check_extent
from tile.ir.layout_kinds import Layout
from tile.ir.types import Pointer, Scalar, Type, require


@dataclass(frozen=True, slots=True, eq=False)
class Shared(Type):
    """A buffer in shared memory: `stages` consecutive tiles, each in the order of `layout`.

    A boolean takes one byte. `used`, unless 0, are the first bytes of a tile that are accessed: the
    buffer has no others.
    """

    dims: tuple[int, ...]
    of: Scalar | Pointer
    layout: Layout
    stages: int = 1
    used: int = 0

    def __post_init__(self) -> None:
        for extent in self.dims:
            check_extent(extent)
        require(self.stages >= 1, f"a buffer has at least one stage, not {self.stages}")
        whole = self.of.bytes_of(self.numel)
        require(
            0 <= self.used < whole, f"a buffer uses a part of {whole} bytes, or 0, not {self.used}"
        )

    def __str__(self) -> str:
        extents = "x".join(map(str, self.dims))
        stages = f", stages = {self.stages}" if self.stages != 1 else ""
        used = f", used = {self.used}" if self.used else ""
        return f"shared<{extents}x{self.of}, {self.layout}{stages}{used}>"

    __repr__ = __str__

    @property
    def shape(self) -> tuple[int, ...]:
        return self.dims

    @property
    def element(self) -> Scalar | Pointer:
        return self.of

    @property
    def numel(self) -> int:
        """The number of elements of one stage."""
        return math.prod(self.dims)

    @property
    def stage_bytes(self) -> int:
        """The size of a stage, in bytes."""
        return self.used or self.of.bytes_of(self.numel)

    @property
    def bytes(self) -> int:
        """The size of all stages, in bytes."""
        return self.stage_bytes * self.stages


def shared_of(ty: Type) -> Shared:
    """Return the type of a value that is a buffer."""
    assert isinstance(ty, Shared), f"{ty} is no buffer"
    return ty
