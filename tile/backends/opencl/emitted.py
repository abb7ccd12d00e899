"""A program in OpenCL C, and what the host must know of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tile.backends.assertions import Assertion


@dataclass(frozen=True)
class Emitted:
    """A program with one kernel, as it is built and launched."""

    numbered: str  # what is built: every line under the number of its Python line
    kernel: str
    extents: tuple[int, int, int]  # of a work-group
    shared_bytes: int
    reports: bool  # whether the last parameter is the record of assertions
    assertions: tuple[Assertion, ...]
    build_options: tuple[str, ...]
    device: str  # what it was compiled for
    extensions: frozenset[str]  # that the device must have
    assembly: int = 0  # the compute capability that its inline assembly needs
    subgroup: int = 0  # the size of sub-groups that it is written for; 0 for none

    @property
    def threads(self) -> int:
        """Work-items of a work-group."""
        return math.prod(self.extents)

    def data(self) -> dict[str, Any]:
        """It as what JSON can say; with `threads`, for those who read it there."""
        return {
            **vars(self),
            "threads": self.threads,
            "extents": list(self.extents),
            "assertions": [one.data() for one in self.assertions],
            "build_options": list(self.build_options),
            "extensions": sorted(self.extensions),
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Emitted:
        """The program that `data` gave."""
        x, y, z = data["extents"]
        given = {
            **data,
            "extents": (x, y, z),
            "assertions": tuple(map(Assertion.of, data["assertions"])),
            "build_options": tuple(data["build_options"]),
            "extensions": frozenset(data["extensions"]),
        }
        return cls(**{field.name: given[field.name] for field in fields(cls)})
