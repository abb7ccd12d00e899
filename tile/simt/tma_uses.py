"""Uses of TMA that a launch asks for by its option `tma`, as in `tma="stores+reduce"`.

They have not been measured on a GPU yet, so no kernel has them by default.

    im2col    loads through im2col descriptors (`tl.make_im2col_descriptor`) that feed dots are TMA
              loads in im2col mode
    pointers  loads and stores through pointers that are proven to access a block of an array are
              done as those through a descriptor (`find-blocks`)
    ranks     blocks of 3 to 5 axes that feed dots are TMA loads, and those of 16-bit elements with
              8 rows or more are stored by TMA, as blocks of 2 axes are by default
    reduce    atomic operations on blocks, as `desc.atomic_add`, are TMA reductions, not atomics of
              threads, for the elements that TMA combines
    stores    blocks of any element type and of any rank are stored by TMA, not just those of 16-bit
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

    im2col: bool = False
    pointers: bool = False
    ranks: bool = False
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
DEFAULT_RANK = 2  # of the blocks that kernels load and store by TMA without asking


def parse_tma_uses(text: str) -> TmaUses:
    """Return the uses in a text. Raises `ArgumentValueError` for an unknown one."""
    return TmaUses.parse(text)
