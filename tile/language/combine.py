"""Reductions and scans with a user-defined combine function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Block, Value
from tile.ir.ops import combine as ops
from tile.ir.ops import control
from tile.ir.types import Pointer, Scalar
from tile.language.builtin import Bound, Builtin, Callback, member
from tile.language.dtypes import spelled
from tile.language.known import (
    axis_from_right,
    compile_time_bool,
)
from tile.language.promote import as_number, describe, weak_constant
from tile.language.reductions import keep_axes, to_reduce
from tile.language.shape import tile_of
from tile.language.tensor import Tensor

Function: TypeAlias = Builtin[..., Any] | Bound | Callback


@member
def reduce(build: Builder, input: Any, axis: Any, combine_fn: Any, keep_dims: bool = False) -> Any:
    """Reduce a tile, or each tile of a tuple, along `axis` with a function.

    `combine_fn` is a `@tile.jit` function or a builtin. It takes two scalars, or for n tiles two
    groups of n scalars, and returns one scalar or n, of the element types of the tiles. It may
    contain arithmetic, comparisons, `tl.where` and `if`, but no memory accesses and no loops. It
    must be associative and commutative: the grouping and the order of elements are not defined.
    With axis None all elements are reduced; `keep_dims` keeps the reduced axes with extent 1. The
    tiles of a tuple have one shape, and the result is a tuple. Raises `CompilationError` for
    anything else.
    """
    tiles = _tiles("tl.reduce", input)
    flattened = [to_reduce(build, "tl.reduce", x, axis) for x in tiles]
    region = _region(build, "tl.reduce", tiles, combine_fn)
    values = [x.value for x, _ in flattened]
    op = build.op(ops.reduce_by, *values, regions=[region], axis=flattened[0][1])
    pairs = zip(op.results, tiles, strict=True)
    results = [keep_axes(build, "tl.reduce", Tensor(v), x, axis, keep_dims) for v, x in pairs]
    return tuple(results) if isinstance(input, tuple) else results[0]


@member
def associative_scan(
    build: Builder, input: Any, axis: Any, combine_fn: Any, reverse: bool = False
) -> Any:
    """Compute the inclusive scan of a tile, or of each tile of a tuple, with a function.

    `combine_fn` is as in `tl.reduce`, and must be associative; it need not be commutative. Its
    first argument, or the first half of its arguments, is the combination of elements that precede
    those of the second along `axis`, or follow them if `reverse`. The grouping of elements is not
    defined.
    """
    name = "tl.associative_scan"
    tiles = _tiles(name, input)
    along = axis_from_right(axis, len(tiles[0].shape), name)
    backwards = compile_time_bool(reverse, f"the reverse of {name}")
    region = _region(build, name, tiles, combine_fn)
    values = [x.value for x in tiles]
    op = build.op(ops.scan_by, *values, regions=[region], axis=along, reverse=backwards)
    results = tuple(map(Tensor, op.results))
    return results if isinstance(input, tuple) else results[0]


def _tiles(name: str, input: Any) -> list[Tensor]:
    """Return the tiles to combine: at least one, all of one shape, of numbers."""
    tiles = [tile_of(name, x) for x in (input if isinstance(input, tuple) else (input,))]
    if not tiles:
        raise CompilationError(f"{name} takes at least one tile, not an empty tuple")
    for x in tiles:
        if isinstance(x.dtype, Pointer):
            raise CompilationError(f"{name} is not defined on {spelled(x.dtype)}")
        if x.shape != tiles[0].shape:
            raise CompilationError(
                f"{name} takes tiles of one shape, not {tiles[0].type} and {x.type}"
            )
    return tiles


def _region(build: Builder, name: str, tiles: Sequence[Tensor], combine_fn: Any) -> Block:
    """Return the region that calls the function on two groups of scalars."""
    if not isinstance(combine_fn, Builtin | Bound | Callback):
        raise CompilationError(
            f"the combine_fn of {name} is a @tile.jit function, not {describe(combine_fn)}"
        )
    elements = [x.dtype for x in tiles]
    names = [f"{side}{index}" for side in "ab" for index in range(len(tiles))]
    block = Block([*elements, *elements], names)
    with build.into(block):
        returned = combine_fn.emit(build, *map(Tensor, block.args))
        build.op(control.yield_, *_group(build, name, combine_fn, returned, elements))
    functions = combine_fn.functions if isinstance(combine_fn, Callback) else None
    offender = ops.intruder(block, functions)
    if offender is not None:
        loc = offender.loc
        inside = loc is not None and loc != build.loc
        raise CompilationError(
            ops.refusal(name, offender), loc=loc.called_from(build.loc) if loc and inside else loc
        )
    return block


def _group(
    build: Builder, name: str, combine_fn: Function, returned: Any, elements: Sequence[Any]
) -> list[Value]:
    """Return the results of the function as scalars of the element types of the tiles."""
    results = returned if isinstance(returned, tuple) else (returned,)
    subject = f"`{combine_fn.name}`, the combine_fn of {name},"
    if len(results) != len(elements):
        raise CompilationError(
            f"{subject} returns {_count(len(results), 'value')}, and not one for each of "
            f"{_count(len(elements), 'tile')}"
        )
    values = []
    for result, element in zip(results, elements, strict=True):
        number = as_number(result)
        if number is not None and _same_kind(number, element):
            result = weak_constant(build, number, element, combine_fn.name)
        if not isinstance(result, Tensor) or result.type != element:
            text = spelled(result.type) if isinstance(result, Tensor) else describe(result)
            raise CompilationError(
                f"{subject} returns {text} where the tile has elements of {spelled(element)}; "
                f"convert one to the other"
            )
        values.append(result.value)
    return values


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _same_kind(number: bool | int | float, element: Scalar) -> bool:
    """Return True if a number converts to an element without a change of kind."""
    if isinstance(number, bool):
        return element.is_bool()
    return element.is_floating() or (isinstance(number, int) and not element.is_bool())
