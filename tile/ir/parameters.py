"""The parameters of functions: their attributes, and the types of functions."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from tile.ir.types import Type


@dataclass
class Argument:
    """Attributes of a function's parameter besides its type.

    divisible: divides the value, or for a pointer its address in bytes.
    readonly: a pointer through which, or through pointers derived from it, the function writes no
        memory; nor do its callees.
    noalias: a pointer to memory that, if any of it is written while the function runs, is accessed
        through pointers derived from this parameter only.
    aliased: a pointer to memory that other `aliased` parameters may reach, too. Passes assume of
        all others that their memory is disjoint.
    unordered: an `aliased` pointer. What other `unordered` parameters access of its memory needs no
        order among the threads of a program: it is at equal offsets, as in calls in place, or
        the kernel's own barriers are between.
    disjoint: positions of later parameters of a kernel. A pass has relied on their memory being
        disjoint from this one's: the code is wrong for launches for which it is not.
    """

    divisible: int = 1
    readonly: bool = False
    noalias: bool = False
    aliased: bool = False
    unordered: bool = False
    disjoint: tuple[int, ...] = ()

    FLAGS: ClassVar[tuple[str, ...]] = (  # of pointers only
        "readonly",
        "noalias",
        "aliased",
        "unordered",
    )

    def __str__(self) -> str:
        """Return the attributes that differ from their defaults, as in ` {divisible = 16}`."""
        shown = [
            spec.name if value is True else f"{spec.name} = {_spell_attribute(value)}"
            for spec in fields(self)
            if (value := getattr(self, spec.name)) != spec.default
        ]
        return f" {{{', '.join(shown)}}}" if shown else ""


def _spell_attribute(value: int | tuple[int, ...]) -> str:
    return f"({', '.join(map(str, value))})" if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class Signature:
    """A function's type, with its parameters' attributes as text: all that a call depends on."""

    parameters: tuple[Type, ...]
    attributes: tuple[str, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        parameters = ", ".join(
            f"{ty}{attributes}"
            for ty, attributes in zip(self.parameters, self.attributes, strict=True)
        )
        results = f" -> ({', '.join(map(str, self.results))})" if self.results else ""
        return f"({parameters}){results}"
