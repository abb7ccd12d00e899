"""The ways in which launches are repeated, none of which may change results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile.config import Config, config

# The limit for one tile over all programs of a batch, in bytes; so large that more run at once.
LARGE_BATCH_BYTES = 64 << 20


@dataclass(frozen=True)
class Variation:
    """A way to launch: settings by attribute of `config`, and other values of constants."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The variation as a user would write it: environment variables, and constants."""
        variables = Config.variables()
        parts = [f"{variables[name].name}={value}" for name, value in self.settings.items()]
        return " ".join(parts + [f"{name}={value}" for name, value in self.constants.items()])

    def scope(self) -> Any:
        """Return a context manager inside of which the settings are in force."""
        return config.scope(**self.settings)


def orders(seeds: int) -> list[Variation]:
    """Return variations of the order of programs, and one with more of them in a batch."""
    program_orders: list[str | int] = ["reverse", *range(seeds)] if seeds else []
    return [
        *(Variation({"interp_order": order}) for order in program_orders),
        Variation({"chunk_bytes": LARGE_BATCH_BYTES}),
    ]


def of_constants(varied: Mapping[str, Sequence[Any]], named: Mapping[str, Any]) -> list[Variation]:
    """Return variations of a launch's constants, one constant at a time.

    varied: the values to launch with, by name of the constant.
    named: the values of the launch's constexprs by name.
    """
    return [
        Variation(constants={name: value})
        for name, values in varied.items()
        if name in named
        for value in values
        if value != named[name]
    ]
