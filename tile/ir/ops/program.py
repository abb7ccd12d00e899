"""The position of a program in its grid."""

from __future__ import annotations

from tile.ir.core import Effect
from tile.ir.declare import op
from tile.ir.types import I32, Type, require

MAX_AXES = 3


def _axis(axis: int) -> None:
    require(0 <= axis < MAX_AXES, f"a grid has axes 0, 1 and 2, not {axis}")


@op(effect=Effect.NONE, examples=("%r = program_id {axis = 0} : i32",))
def program_id(*, axis: int) -> Type:
    """The index of this program along an axis of the grid."""
    _axis(axis)
    return I32


@op(effect=Effect.NONE, examples=("%r = num_programs {axis = 0} : i32",))
def num_programs(*, axis: int) -> Type:
    """The extent of the grid along an axis."""
    _axis(axis)
    return I32
