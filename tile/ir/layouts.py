"""Kinds of layouts and their parsers.

The IR treats layouts as opaque values with a text. The package that defines a kind of layout
declares it:

    declare_layout("linear", LinearLayout, parse_layout)       # reads `#linear{...}`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tile.ir.types import Layout


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
