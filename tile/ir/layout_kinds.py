"""Layouts of tiles are opaque values with a text here.

The package that defines a kind of them declares it with its parser:

    declare_layout("linear", LinearLayout, parse_layout)       # reads `#linear{...}`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Layout(Protocol):
    """The distribution of a tile over registers, lanes and warps, or its order in shared memory.

    The SIMT lowering defines layouts (`tile/simt/layouts`) and declares their parsers.
    """

    def __str__(self) -> str: ...
    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class LayoutKind:
    """A kind of layout: its class, and the parser of its text, `#name{...}`."""

    name: str
    cls: type
    parse: Callable[[str], Layout]


LAYOUTS: dict[str, LayoutKind] = {}


def declare_layout(name: str, cls: type, parse: Callable[[str], Layout]) -> None:
    """Register a kind of layout with the parser."""
    assert name not in LAYOUTS, f"layout #{name} is declared twice"
    LAYOUTS[name] = LayoutKind(name, cls, parse)


def is_layout(value: object) -> bool:
    """Return True if the value is a layout of a declared kind."""
    return isinstance(value, tuple(kind.cls for kind in LAYOUTS.values()))
