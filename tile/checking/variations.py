"""The ways in which a launch is made again: nothing that it writes may depend on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile.config import Config, config

# A tile value over all programs of a wave that are to run at once, in bytes.
ONE_WAVE = 64 << 20


@dataclass(frozen=True)
class Variation:
    """A way to make a launch: settings in force, by attribute of `config`, and other constants."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """As a user would write it down: environment variables, and constants."""
        variables = Config.variables()
        words = [f"{variables[name].name}={value}" for name, value in self.settings.items()]
        return " ".join(words + [f"{name}={value}" for name, value in self.constants.items()])

    def scope(self) -> Any:
        """The settings, in force inside a `with` block."""
        return config.scope(**self.settings)


def orders(seeds: int) -> list[Variation]:
    """Programs in other orders than they are numbered in, and more of them at once."""
    chosen: list[str | int] = ["reverse", *range(seeds)] if seeds else []
    return [
        *(Variation({"interp_order": order}) for order in chosen),
        Variation({"chunk_bytes": ONE_WAVE}),
    ]


def of_constants(varied: Mapping[str, Sequence[Any]], named: Mapping[str, Any]) -> list[Variation]:
    """A launch's constants, one at a time with another of the values that are asked for.

    `named` are the values of its constexprs by name.
    """
    return [
        Variation(constants={name: value})
        for name, values in varied.items()
        if name in named
        for value in values
        if value != named[name]
    ]
