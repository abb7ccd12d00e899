"""Tables of configurations by size, which replace a search at the first call.

A table has for a backend the configurations that a tuner measured to be the fastest, each with the
greatest sizes that it is for, and default configurations for all other backends. The numbers
change nothing but speed: every configuration computes the same result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Configuration = Mapping[str, Any]
Bounds = tuple[float, ...]
ANY = math.inf


@dataclass(frozen=True)
class Table:
    """Configurations by sizes: those of the backend in `measured`, else `default`.

    Each maps the greatest sizes to constexprs and options of a launch. The first entry that bounds
    all sizes is selected, so entries go from small to large, and the last has bounds `ANY`.

    >>> table = Table({(ANY,): {"num_warps": 4}}, {"nvptx": {(1024,): {"num_warps": 2},
    ...                                                      (ANY,): {"num_warps": 8}}})
    >>> table.select("nvptx", 781), table.select("interp", 781)
    ({'num_warps': 2}, {'num_warps': 4})
    """

    default: Mapping[Bounds, Configuration]
    measured: Mapping[str, Mapping[Bounds, Configuration]]

    def __post_init__(self) -> None:
        for entries in (self.default, *self.measured.values()):
            bounds = list(entries)
            if not bounds or any(bound != ANY for bound in bounds[-1]):
                raise ValueError("the last entry of a table must have the bounds `ANY`")

    def select(self, backend: str, *sizes: int) -> Configuration:
        """Return the configuration for these sizes on a backend."""
        entries = self.measured.get(backend, self.default)
        return next(
            configuration
            for bounds, configuration in entries.items()
            if all(size <= bound for size, bound in zip(sizes, bounds, strict=True))
        )
