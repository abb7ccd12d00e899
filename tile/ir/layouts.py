"""How the parser reads layouts, of which the IR knows nothing but that they have a text.

A kind of layout is declared by the package that defines it:

    declare_layout("linear", LinearLayout, parse_layout)       # reads `#linear{...}`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tile.ir.types import Layout


@dataclass(frozen=True)
class LayoutKind:
    """A kind of layout: its class, and how to read one from its text, `#name{...}`."""

    name: str
    cls: type
    parse: Callable[[str], Layout]


LAYOUTS: dict[str, LayoutKind] = {}


def declare_layout(name: str, cls: type, parse: Callable[[str], Layout]) -> None:
    """Make a kind of layout known to the parser."""
    assert name not in LAYOUTS, f"layout #{name} is declared twice"
    LAYOUTS[name] = LayoutKind(name, cls, parse)


def is_layout(value: object) -> bool:
    """Whether a value is a layout of a declared kind."""
    return isinstance(value, tuple(kind.cls for kind in LAYOUTS.values()))
