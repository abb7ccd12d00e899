"""Structured control flow: loops and branches with carried values, calls, and terminators."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tile.ir.core import Block, Symbol, Value
from tile.ir.declare import op
from tile.ir.op_definition import Effect, Trait
from tile.ir.types import I1, INTEGERS, Type, listed, require, without_layout

ORDERED_EFFECTS = Effect.READ | Effect.WRITE | Effect.SYNC | Effect.OUTPUT


def takes(where: str, block: Block, types: Sequence[Type]) -> None:
    """Check that the arguments of a region have these types."""
    actual = [without_layout(arg.type) for arg in block.args]
    require(
        actual == list(types),
        f"{where} takes arguments of types ({listed(types)}), not ({listed(actual)})",
    )


def ends(where: str, block: Block, terminator: str) -> list[Type]:
    """Check that the block ends with `terminator`, and return the types of its operands."""
    last = block.last
    actual = "nothing" if last is None else f"`{last.name}`"
    require(actual == f"`{terminator}`", f"{where} ends with `{terminator}`, not {actual}")
    assert last is not None
    return [without_layout(value.type) for value in last.inputs]


def yields(where: str, block: Block, types: Sequence[Type]) -> None:
    """Check that a region yields values of these types."""
    yielded = ends(where, block, "yield")
    require(
        yielded == list(types),
        f"{where} yields ({listed(yielded)}), but carries ({listed(types)})",
    )


def carried_position(value: Value) -> int | None:
    """Return the position of a result or region argument among the values that an op carries.

    The operation is a loop or branch. None for the induction variable of a `for`.
    """
    if value.op is not None or value.block.parent is None or value.block.parent.defn is not for_:
        return value.index
    return value.index - 1 if value.index else None


class WarpSpecialize(enum.StrEnum):
    """Options of a loop whose loads may be given to warps of their own."""

    AUTO = "auto"  # where that pays
    ON = "on"  # where that is possible
    OFF = "off"


@op(
    any_extents=True,
    traits={Trait.LOOP},
    name="for",
    effect=Effect.NESTED,
    examples=(
        "%n: i32, %x: f32, %l: i32, %s: i32 | "
        "%r = for %i = %l to %n step %s iter(%a = %x) : f32 {\n"
        "  %b = add %a, %a : f32\n"
        "  yield %b\n"
        "}",
    ),
)
def for_(
    lower: Type,
    upper: Type,
    step: Type,
    *inits: Type,
    body: Block,
    num_stages: int = 0,
    unroll: int = 1,
    flatten: bool = False,
    warp_specialize: WarpSpecialize = WarpSpecialize.AUTO,
    disallow_acc_multi_buffer: bool = False,
    disable_licm: bool = False,
) -> tuple[Type, ...]:
    """A counted loop from `lower` up to, but excluding, `upper`, with loop-carried values.

    With a negative step it counts down. The body takes the induction variable and the carried
    values, and yields their next values. `num_stages` is the depth of software pipelining (0: the
    launch's), `unroll` is an unroll factor; the other attributes are hints for GPUs.
    """
    require(
        lower == upper == step and lower in INTEGERS,
        f"for counts in one integer type, not from {lower} to {upper} by {step}",
    )
    takes("the body of for", body, (lower, *inits))
    yields("the body of for", body, inits)
    return inits


@op(
    any_extents=True,
    traits={Trait.LOOP},
    name="while",
    effect=Effect.NESTED,
    examples=(
        "%x: i32, %c: i32 | %r = while iter(%a = %x) : i32 {\n"
        "  %t = cmp %a, %c {predicate = lt} : i1\n"
        "  condition %t\n"
        "} do {\n"
        "  %b = add %a, %a : i32\n"
        "  yield %b\n"
        "}",
    ),
)
def while_(*inits: Type, test: Block, body: Block) -> tuple[Type, ...]:
    """Run `body` as long as the condition of `test` is true.

    Both regions take the carried values; the body yields the next ones.
    """
    takes("the test of while", test, inits)
    tested = ends("the test of while", test, "condition")
    require(tested == [I1], f"the test of while ends with one i1, not ({listed(tested)})")
    takes("the body of while", body, inits)
    yields("the body of while", body, inits)
    return inits


@op(
    any_extents=True,
    name="if",
    effect=Effect.NESTED,
    examples=(
        "%c: i1, %x: f32, %y: f32 | %r = if %c : f32 {\n  yield %x\n} else {\n  yield %y\n}",
        "%c: i1, %p: ptr<f32>, %y: f32 | if %c {\n  store %p, %y\n  yield\n} else {\n  yield\n}",
    ),
)
def if_(condition: Type, *, then: Block, orelse: Block) -> tuple[Type, ...]:
    """Run `then` if the condition is true, else `orelse`; the region yields the results."""
    require(condition == I1, f"if takes a scalar condition of type i1, not {condition}")
    takes("the first region of if", then, ())
    takes("the second region of if", orelse, ())
    types = ends("the first region of if", then, "yield")
    yields("the second region of if", orelse, types)
    return tuple(types)


@op(
    any_extents=True,
    effect=ORDERED_EFFECTS,
    examples=("%x: f32 | %r = call %x {callee = @test} : f32",),
)
def call(*args: Type, callee: Symbol, results: tuple[Type, ...]) -> tuple[Type, ...]:
    """Call a function that the module defines, or declares for `tile link` to resolve."""
    return results


@op(any_extents=True, name="yield", terminator=True)
def yield_(*values: Type) -> None:
    """End a region and pass on its results."""


@op(terminator=True)
def condition(value: Type) -> None:
    """End the test of a `while`; the loop continues if the value is true."""
    require(value == I1, f"condition takes a scalar of type i1, not {value}")


@op(any_extents=True, name="return", terminator=True)
def return_(*values: Type) -> None:
    """End a function and return its results."""
