"""Uses of TMA that a launch chooses by its option `tma`, as in `tma="stores+reduce"`.

The default is `pointers`: on Hopper the others gained nothing (docs/notes/hopper.md,
docs/notes/descriptor-loads.md).

    pointers  loads and stores through pointers that are proven to access a block of an array are
              done as those through a descriptor (`find-blocks`)
    reduce    atomic operations on blocks, as `desc.atomic_add`, are TMA reductions, not atomics of
              threads, for the elements that TMA combines
    stores    blocks of any element type and shape are stored by TMA, not just those of 16-bit
              elements with 8 rows or more
    strips    one instruction copies a block of several strips, if the array's last extent and the
              index along it are multiples of a strip, which is decided when the kernel runs
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from tile.errors import ArgumentValueError
from tile.short_repr import short_repr


@dataclass(frozen=True)
class TmaUses:
    """The uses of TMA beyond those that every kernel has."""

    pointers: bool = False
    reduce: bool = False
    stores: bool = False
    strips: bool = False

    @classmethod
    def parse(cls, text: str) -> TmaUses:
        """Return the uses in a text. Raises `ArgumentValueError` for an unknown one."""
        names = {field.name for field in fields(cls)}
        uses = [part for part in text.split("+") if part]
        for use in uses:
            if use not in names:
                raise ArgumentValueError(
                    f"tma names uses of TMA, joined by +, of {', '.join(sorted(names))}, not "
                    f"{short_repr(use)}"
                )
        return cls(**dict.fromkeys(uses, True))

    def __str__(self) -> str:
        return "+".join(field.name for field in fields(self) if getattr(self, field.name))


NO_USES = TmaUses()
DEFAULT_USES = TmaUses(pointers=True)


def parse_tma_uses(text: str | None) -> TmaUses:
    """Return the uses in a text, or those by default; `ArgumentValueError` for an unknown one."""
    return DEFAULT_USES if text is None else TmaUses.parse(text)
