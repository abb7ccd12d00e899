"""Debugging: prints, assertions, assumptions, breakpoints and debug steps."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tile.errors import TypeRuleError
from tile.ir.debug_info import distribute_values
from tile.ir.declare import op
from tile.ir.op_definition import TILE_ONLY, TILE_OR_LAID_OUT, Effect
from tile.ir.types import I1, Type, require


@op(
    any_extents=True,
    effect=Effect.OUTPUT,
    levels=TILE_OR_LAID_OUT,
    examples=('%x: tile<8xf32>, %n: i32 | device_print %x, %n {prefix = "x and n", hex = false}',),
)
def device_print(
    *values: Type, prefix: str, hex: bool = False, bounds: tuple[Type, ...] = ()
) -> None:
    """Print a prefix and values from every program.

    `bounds` has the types of the values before `pad-extents`, if it padded any: elements outside of
    those are not printed.
    """
    unpadded(values, bounds)


def unpadded(values: Sequence[Type], bounds: Sequence[Type]) -> None:
    """Check that there are no bounds, or those of each value."""
    require(
        len(bounds) in (0, len(values)),
        f"there are bounds for all {len(values)} values or for none, not for {len(bounds)}",
    )


@op(
    any_extents=True,
    effect=Effect.OUTPUT,
    examples=('%c: tile<8xi1>, %m: tile<8xi1> | device_assert %c, %m {message = "x is positive"}',),
)
def device_assert(condition: Type, mask: Type | None = None, *, message: str = "") -> None:
    """Raise `DeviceAssertionError` if the condition is false where the mask is true."""
    require(condition.element == I1, f"device_assert takes a condition of i1, not {condition}")
    require(
        mask in (None, condition),
        f"device_assert on {condition} takes a mask of that type, not {mask}",
    )


@op(effect=Effect.ASSUME, levels=TILE_OR_LAID_OUT, examples=("%c: i1 | assume %c",))
def assume(condition: Type) -> None:
    """Assume that a scalar condition holds from here on; analyses rely on it."""
    require(condition == I1, f"assume takes a scalar condition of type i1, not {condition}")


class StepKind(enum.Enum):
    """The kind of a step: it begins a statement, a function's body, or the return to its caller."""

    LINE = "line"
    CALL = "call"
    RETURN = "return"


@op(name="breakpoint", effect=Effect.OUTPUT, levels=TILE_ONLY, examples=("breakpoint",))
def breakpoint_() -> None:
    """Stop in the debugger; without a debugger, do nothing."""


@op(
    any_extents=True,
    effect=Effect.OUTPUT,
    levels=TILE_ONLY,
    examples=(
        "%x: tile<8xf32>, %n: i32 | debug_step %x, %n "
        '{kind = line, variables = ("x", "B = 8", "n")}',
    ),
)
def debug_step(*values: Type, kind: StepKind, variables: tuple[str, ...] = ()) -> None:
    """Mark the begin of a statement and the values of variables there, for a debugger.

    `variables` describes the variables and their values; see `ir/debug_info.py` for the format.
    """
    try:
        for _ in distribute_values(variables, values, values):
            pass
    except ValueError as error:
        raise TypeRuleError(f"debug_step: {error}") from None
