"""Reductions and scans along an axis of a tile, of a kind or with a function of the user.

`axis` is a compile-time int; a negative one counts from the last axis. With axis None, where
allowed, all elements are reduced. `keep_dims` keeps the reduced axes with extent 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Block, Value
from tile.ir.extents import is_power_of_two
from tile.ir.ops import arith, control
from tile.ir.ops import reduce as ops
from tile.ir.ops import shape as shape_ops
from tile.ir.ops.arith import Predicate
from tile.ir.ops.reduce import ArgKind, ReduceKind
from tile.ir.rewriter import erase_unused
from tile.ir.types import BF16, F32, I32, U32, Pointer, Scalar
from tile.language.base.builtin import Bound, Builtin, Callback, member
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import (
    Operand,
    as_number,
    broadcast_together,
    convert,
    describe,
    to_tensor,
    weak_constant,
)
from tile.language.base.static_args import axis_from_right, compile_time_bool
from tile.language.base.tensor import Tensor
from tile.language.creation import element_type
from tile.language.shape import expand_dims, ravel, tile_of
from tile.language.slices import select_last


@member
def sum(
    build: Builder, input: Tensor, axis: Any = None, keep_dims: bool = False, dtype: Any = None
) -> Tensor:
    """The sum along `axis`, computed in `dtype` if given.

    Otherwise narrow integers are summed in int32 or uint32 according to their signedness, booleans
    in int32, and every other type in its own type. Use `dtype=tl.float32` for float16 and bfloat16.
    The order of additions is not defined.
    """
    x = numbers("tl.sum", input)
    return _reduced(
        build, "tl.sum", _summed(build, x, dtype, "tl.sum"), axis, keep_dims, ReduceKind.SUM
    )


def _extremum(kind: ArgKind, adjective: str) -> Builtin[..., Tensor | tuple[Tensor, Tensor]]:
    """Declare the function of the greatest or least element along an axis."""
    name = f"tl.{kind}"

    def find(
        build: Builder,
        input: Tensor,
        axis: Any = None,
        return_indices: bool = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if compile_time_bool(return_indices, f"the return_indices of {name}"):
            left = return_indices_tie_break_left
            return _located(build, name, kind, input, axis, left, keep_dims)
        x = numbers(name, input)
        if x.dtype.bits < 32:
            x = convert(build, x, F32 if x.dtype.is_floating() else I32)
        return _reduced(build, name, x, axis, keep_dims, ReduceKind(kind.value))

    find.__name__ = find.__qualname__ = kind.value
    find.__doc__ = (
        f"The {adjective} element along `axis`, ignoring NaN; with its index if `return_indices`.\n"
        """
    Types narrower than 32 bits are widened to float32 or int32; with indices, only bfloat16 is. Of
    equal elements, the lowest index is returned, or any of them if `return_indices_tie_break_left`
    is false.
    """
    )
    return member(find)


max = _extremum(ArgKind.MAX, "greatest")
min = _extremum(ArgKind.MIN, "least")


@member
def argmax(
    build: Builder, input: Tensor, axis: Any, tie_break_left: bool = True, keep_dims: bool = False
) -> Tensor:
    """The int32 index of the greatest element along `axis`; the lowest one if `tie_break_left`."""
    return _located(build, "tl.argmax", ArgKind.MAX, input, axis, tie_break_left, keep_dims)[1]


@member
def argmin(
    build: Builder, input: Tensor, axis: Any, tie_break_left: bool = True, keep_dims: bool = False
) -> Tensor:
    """The int32 index of the least element along `axis`; the lowest one if `tie_break_left`."""
    return _located(build, "tl.argmin", ArgKind.MIN, input, axis, tie_break_left, keep_dims)[1]


@member
def xor_sum(build: Builder, input: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """The bitwise exclusive or of integers along `axis`, in their own type."""
    x = _integers("tl.xor_sum", input)
    return _reduced(build, "tl.xor_sum", x, axis, keep_dims, ReduceKind.XOR)


@member
def reduce_or(build: Builder, input: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """The bitwise or of integers along `axis`; for booleans, true if any element is."""
    x = _integers("tl.reduce_or", input)
    return _reduced(build, "tl.reduce_or", x, axis, keep_dims, ReduceKind.OR)


@member
def item_(build: Builder, input: Operand) -> Tensor:
    """The only element of a tile of one element, as a scalar; a scalar is returned as it is.

    Raises `CompilationError` for a tile of several elements.
    """
    x = to_tensor(build, input, "the input of item")
    if x.numel != 1:
        raise CompilationError(f"item takes a tile of one element, not {x.type}")
    if not x.shape:
        return x
    return Tensor(select_last(build, ravel.emit(build, x).value, 0))


@member
def cumsum(
    build: Builder, input: Tensor, axis: Any = 0, reverse: bool = False, dtype: Any = None
) -> Tensor:
    """The inclusive prefix sum along `axis`, or the suffix sum if `reverse`.

    Computed in `dtype` if given, else in the type that `tl.sum` uses, and float32 for bfloat16.
    """
    x = _summed(build, _scannable(build, "tl.cumsum", input), dtype, "tl.cumsum")
    return _scanned(build, "tl.cumsum", x, axis, reverse, ReduceKind.SUM)


@member
def cumprod(
    build: Builder, input: Tensor, axis: Any = 0, reverse: bool = False, dtype: Any = None
) -> Tensor:
    """The inclusive prefix product along `axis`, or the suffix product if `reverse`.

    Computed in `dtype` if given. Otherwise integers keep their type and wrap, and bfloat16 is
    computed and returned as float32.
    """
    x = _scannable(build, "tl.cumprod", input)
    if dtype is not None:
        x = convert(build, x, element_type(dtype, "tl.cumprod"))
    return _scanned(build, "tl.cumprod", x, axis, reverse, ReduceKind.PROD)


def numbers(name: str, x: Any) -> Tensor:
    """Return the input of a reduction: a tile of numbers on which arithmetic is defined."""
    tile = tile_of(name, x)
    if isinstance(tile.dtype, Pointer) or tile.dtype.is_fp8():
        raise CompilationError(
            f"{name} is not defined on {spelled(tile.dtype)}"
            + ("; cast first: x.to(tl.float32)" if tile.dtype.is_fp8() else "")
        )
    return tile


def _integers(name: str, x: Any) -> Tensor:
    tile = numbers(name, x)
    if not tile.dtype.is_int():
        raise CompilationError(f"{name} combines the bits of integers, not of {tile.type}")
    return tile


def to_reduce(build: Builder, name: str, x: Tensor, axis: Any) -> tuple[Tensor, int]:
    """Return the tile to reduce and its axis; for axis None, the tile is flattened."""
    if axis is None:
        return ravel.emit(build, x), -1
    return x, axis_from_right(axis, len(x.shape), name)


def keep_axes(
    build: Builder, name: str, result: Tensor, x: Tensor, axis: Any, keep_dims: Any
) -> Tensor:
    """Return the result, with the reduced axes of extent 1 inserted if `keep_dims`."""
    if not compile_time_bool(keep_dims, f"the keep_dims of {name}"):
        return result
    rank = len(x.shape)
    axes = tuple(range(rank)) if axis is None else axis_from_right(axis, rank, name)
    return expand_dims.emit(build, result, axes)


def _reduced(
    build: Builder, name: str, x: Tensor, axis: Any, keep_dims: Any, kind: ReduceKind
) -> Tensor:
    value, along, steps = _steps(build, name, x, axis)
    for _ in range(steps):
        value = build(ops.reduce, value, axis=along, kind=kind)
    return keep_axes(build, name, Tensor(value), x, axis, keep_dims)


def _steps(build: Builder, name: str, x: Tensor, axis: Any) -> tuple[Value, int, int]:
    """Return the tile to reduce, its axis, and how often to reduce along that axis.

    The order of elements is free, so a tile that cannot be flattened is reduced axis by axis.
    """
    if axis is None and not all(map(is_power_of_two, x.shape[1:])):
        return x.value, -1, len(x.shape)
    flat, along = to_reduce(build, name, x, axis)
    return flat.value, along, 1


def _located(
    build: Builder, name: str, kind: ArgKind, input: Any, axis: Any, left: Any, keep_dims: Any
) -> tuple[Tensor, Tensor]:
    """Return the greatest or least element and its index."""
    x = _scannable(build, name, input)
    x = convert(build, x, I32) if x.dtype.is_bool() else x
    extremum, along, steps = _steps(build, name, x, axis)
    ties = compile_time_bool(left, f"the tie_break_left of {name}")
    index, size = None, 1
    for _ in range(steps):
        extent = extremum.type.shape[along]
        op = build.op(ops.arg_reduce, extremum, axis=along, kind=kind, tie_break_left=ties)
        extremum, own = op.results
        index = own if index is None else _index_in_rows(build, index, own, size)
        size *= extent
    assert index is not None
    results = (Tensor(value) for value in (extremum, index))
    value, place = (keep_axes(build, name, result, x, axis, keep_dims) for result in results)
    return value, place


def _index_in_rows(build: Builder, indices: Value, row: Value, size: int) -> Value:
    """Return the row-major index of an element, in a row of `size` elements at that row's index."""
    numbers = Tensor(build(shape_ops.arange, start=0, end=indices.type.shape[-1]))
    rows = expand_dims.emit(build, Tensor(row), -1)
    numbers, rows, within = broadcast_together(build, numbers, rows, Tensor(indices))
    own = build(arith.cmp, numbers.value, rows.value, predicate=Predicate.EQ)
    chosen = build(arith.select, own, within.value, build.constant(0, indices.type))
    place = build(ops.reduce, chosen, axis=-1, kind=ReduceKind.OR)
    return build(arith.add, build(arith.mul, row, build.constant(size, row.type)), place)


def _scannable(build: Builder, name: str, input: Any) -> Tensor:
    """Return the input of a scan, with bfloat16 cast to float32."""
    x = numbers(name, input)
    return convert(build, x, F32) if x.dtype is BF16 else x


def _scanned(
    build: Builder, name: str, x: Tensor, axis: Any, reverse: Any, kind: ReduceKind
) -> Tensor:
    along = axis_from_right(axis, len(x.shape), name)
    backwards = compile_time_bool(reverse, f"the reverse of {name}")
    return Tensor(build(ops.scan, x.value, axis=along, kind=kind, reverse=backwards))


def _summed(build: Builder, x: Tensor, dtype: Any, name: str) -> Tensor:
    """Return the input of a sum, cast to the type in which it is summed."""
    if dtype is not None:
        return convert(build, x, element_type(dtype, name))
    element = x.dtype
    if isinstance(element, Scalar) and element.is_int() and element.bits < 32:
        return convert(build, x, U32 if element.is_int_unsigned() else I32)
    return x


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
    steps = [_steps(build, "tl.reduce", x, axis) for x in tiles]
    values, (_, along, count) = [value for value, _, _ in steps], steps[0]
    for _ in range(count):
        region = combine_region(build, "tl.reduce", tiles, combine_fn)
        values = build.op(ops.reduce_region, *values, regions=[region], axis=along).results
    pairs = zip(values, tiles, strict=True)
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
    region = combine_region(build, name, tiles, combine_fn)
    values = [x.value for x in tiles]
    op = build.op(ops.scan_region, *values, regions=[region], axis=along, reverse=backwards)
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


def combine_region(build: Builder, name: str, tiles: Sequence[Tensor], combine_fn: Any) -> Block:
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
    functions = combine_fn.functions if isinstance(combine_fn, Callback) else {}
    erase_unused(block, functions)
    offender = ops.first_illegal_op(block, functions)
    if offender is not None:
        loc = offender.loc
        inside = loc is not None and loc != build.loc
        raise CompilationError(
            ops.illegal_op_message(name, offender),
            loc=loc.called_from(build.loc) if loc and inside else loc,
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
