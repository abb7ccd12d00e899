"""Launch metadata: a program in OpenCL C and what the host must know to build and launch it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tile.backends.base import Assertion


@dataclass(frozen=True)
class LaunchMetadata:
    """A program with one kernel, as it is built and launched."""

    numbered: str  # the text that is built, with `#line` directives for Python's lines
    kernel: str
    extents: tuple[int, int, int]  # of a work-group, in work-items
    shared_bytes: int
    reports: bool  # True if the last parameter is the record of failed assertions
    assertions: tuple[Assertion, ...]
    build_options: tuple[str, ...]
    device: str  # the device or class that it was compiled for
    extensions: frozenset[str]  # extensions that the device must have
    assembly: int = 0  # the compute capability that its inline assembly needs
    subgroup: int = 0  # the sub-group size that it is compiled for; 0 for none

    @property
    def threads(self) -> int:
        """Return the number of work-items per work-group."""
        return math.prod(self.extents)

    def data(self) -> dict[str, Any]:
        """Return the fields as JSON data, and `threads` for those who read it there."""
        return {
            **vars(self),
            "threads": self.threads,
            "extents": list(self.extents),
            "assertions": [assertion.data() for assertion in self.assertions],
            "build_options": list(self.build_options),
            "extensions": sorted(self.extensions),
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> LaunchMetadata:
        """Return the metadata that `data` serialized."""
        x, y, z = data["extents"]
        values = {
            **data,
            "extents": (x, y, z),
            "assertions": tuple(map(Assertion.of, data["assertions"])),
            "build_options": tuple(data["build_options"]),
            "extensions": frozenset(data["extensions"]),
        }
        return cls(**{field.name: values[field.name] for field in fields(cls)})
