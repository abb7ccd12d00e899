"""What a program says about itself: prints, assertions, assumptions, places for a debugger."""

from __future__ import annotations

import enum

from tile.errors import TypeRuleError
from tile.ir.levels import TILES_ALONE, WITH_TILES
from tile.ir.opdef import Effect, op
from tile.ir.steps import shared_out
from tile.ir.types import I1, Type, require


@op(
    effect=Effect.OUTPUT,
    levels=WITH_TILES,
    examples=('%x: tile<8xf32>, %n: i32 | device_print %x, %n {prefix = "x and n", hex = false}',),
)
def device_print(*values: Type, prefix: str, hex: bool = False) -> None:
    """Print a text and values from every program."""


@op(
    effect=Effect.OUTPUT,
    examples=('%c: tile<8xi1>, %m: tile<8xi1> | device_assert %c, %m {message = "x is positive"}',),
)
def device_assert(condition: Type, mask: Type | None = None, *, message: str = "") -> None:
    """Stop with `DeviceAssertionError` where the condition is false (and the mask true)."""
    require(condition.element == I1, f"device_assert takes a condition of i1, not {condition}")
    require(
        mask in (None, condition),
        f"device_assert on {condition} takes a mask of that type, not {mask}",
    )


@op(effect=Effect.ASSUME, levels=WITH_TILES, examples=("%c: i1 | assume %c",))
def assume(condition: Type) -> None:
    """Promise that a scalar condition holds from here on; analyses take it as a fact."""
    require(condition == I1, f"assume takes a scalar condition of type i1, not {condition}")


class StepKind(enum.Enum):
    """What begins at a step: a statement, a function's body, or the way back to its caller."""

    LINE = "line"
    CALL = "call"
    RETURN = "return"


@op(name="breakpoint", effect=Effect.OUTPUT, levels=TILES_ALONE, examples=("breakpoint",))
def breakpoint_() -> None:
    """Stop here, where a debugger can; elsewhere it is passed over."""


@op(
    effect=Effect.OUTPUT,
    levels=TILES_ALONE,
    examples=(
        '%x: tile<8xf32>, %n: i32 | step %x, %n {kind = line, variables = ("x", "B = 8", "n")}',
    ),
)
def step(*values: Type, kind: StepKind, variables: tuple[str, ...] = ()) -> None:
    """A statement begins here, and variables have these values: for a debugger alone.

    `variables` says of each what it has of the values, as in `tile/ir/steps.py`.
    """
    try:
        for _ in shared_out(variables, values, values):
            pass
    except ValueError as error:
        raise TypeRuleError(f"step: {error}") from None
