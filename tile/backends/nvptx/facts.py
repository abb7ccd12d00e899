"""What the launcher must know of a kernel, besides its PTX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tile.backends.assertions import Assertion

RECORD = "tile_fault_record"  # a global that the launcher fills in with the record's address
REPORTED = "tile_fault_reported"  # another one: whether the record was written already


@dataclass(frozen=True)
class Facts:
    """A kernel's symbol, how many threads run a program, its shared bytes, and its assertions."""

    kernel: str
    threads: int
    shared_bytes: int
    assertions: tuple[Assertion, ...] = ()

    def data(self) -> dict[str, Any]:
        """Them as what JSON can say."""
        return {**vars(self), "assertions": [one.data() for one in self.assertions]}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Facts:
        """The facts that `data` gave."""
        assertions = tuple(map(Assertion.of, data["assertions"]))
        return cls(**{**data, "assertions": assertions})
