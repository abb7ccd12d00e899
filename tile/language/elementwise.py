"""Elementwise application of a function of scalars, which may contain branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Block
from tile.ir.ops import reduce as ops
from tile.ir.types import with_element
from tile.language.base.builtin import Bound, Builtin, Callback, builtin
from tile.language.base.promotion import Operand, broadcast_together, constant, describe, to_tensor
from tile.language.base.static_args import compile_time_int
from tile.language.base.tensor import Tensor
from tile.language.reductions import Function, combine_region
from tile.language.shape import join, reshape, split

NAME = "tl.map_elementwise"


@builtin
def map_elementwise(build: Builder, scalar_fn: Any, *args: Operand, pack: Any = 1) -> Any:
    """Apply a function of scalars to each element of the tiles `args`, broadcast together.

    `scalar_fn` is a `@tile.jit` function or a builtin. It may contain arithmetic, `tl.where` and
    `if`, but no memory accesses and no loops. It returns one scalar, or a tuple for a tuple of
    tiles. With `pack`, a power of two, it takes and returns `pack` elements of each tile in a row:
    those of the first tile come first. Which elements share a call is not defined. Raises
    `CompilationError` for anything else.
    """
    if not isinstance(scalar_fn, Builtin | Bound | Callback):
        raise CompilationError(
            f"the scalar_fn of {NAME} is a @tile.jit function, not {describe(scalar_fn)}"
        )
    tensors = [to_tensor(build, x, f"an argument of {NAME}") for x in args]
    if not any(x.shape for x in tensors):
        raise CompilationError(f"{NAME} takes at least one tile")
    tiles = broadcast_together(build, *tensors)
    count = compile_time_int(pack, f"the pack of {NAME}")
    if count <= 0 or count & (count - 1) or tiles[0].numel % count:
        raise CompilationError(
            f"the pack of {NAME} is a power of two up to {tiles[0].numel}, the number of elements, "
            f"not {count}"
        )
    packed = [part for x in tiles for part in _parts(build, x, count)]
    single, results = _apply(build, scalar_fn, packed)
    if len(results) % count:
        raise CompilationError(
            f"`{scalar_fn.name}`, the scalar_fn of {NAME}, returns {len(results)} values, which is "
            f"not a multiple of {count}, its pack"
        )
    groups = [results[at : at + count] for at in range(0, len(results), count)]
    wholes = tuple(_whole(build, group, tiles[0].shape) for group in groups)
    return wholes[0] if single or (count > 1 and len(wholes) == 1) else wholes


def _parts(build: Builder, x: Tensor, count: int) -> list[Tensor]:
    """Return `count` tiles that together hold the elements of `x`."""
    if count == 1:
        return [x]
    pairs = reshape.emit(build, x, (x.numel // 2, 2))
    return [part for half in split.emit(build, pairs) for part in _parts(build, half, count // 2)]


def _whole(build: Builder, parts: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    """Return the tile whose `_parts` these are."""
    while len(parts) > 1:
        flat = [reshape.emit(build, part, (part.numel,)) for part in parts]
        parts = [join.emit(build, a, b) for a, b in zip(flat[::2], flat[1::2], strict=True)]
    return reshape.emit(build, parts[0], shape)


class _OfSecond(Callback):
    """The combination of two groups that applies a function to the arguments of the second.

    It does not depend on the first group, so it is associative.
    """

    def __init__(self, scalar_fn: Function, arguments: int, group: int) -> None:
        self.scalar_fn = scalar_fn
        self.arguments = arguments
        self.group = group
        self.name = scalar_fn.name
        self.functions = scalar_fn.functions if isinstance(scalar_fn, Callback) else {}

    def emit(self, build: Builder, *args: Any) -> Any:
        arguments = args[self.group :][: self.arguments]
        returned = self.scalar_fn.emit(build, *arguments)
        return (*arguments, *(returned if isinstance(returned, tuple) else (returned,)))


def _apply(
    build: Builder, scalar_fn: Function, tiles: Sequence[Tensor]
) -> tuple[bool, list[Tensor]]:
    """Return True if the function returns a single value, and its results on tiles of one shape.

    The tiles are scanned along a new axis of two equal elements, together with a tile for each
    result: the second element of a result is the function of the arguments.
    """
    scratch = Block([x.dtype for x in tiles])  # for the types of the results alone
    with build.into(scratch):
        returned = scalar_fn.emit(build, *map(Tensor, scratch.args))
        single = not isinstance(returned, tuple)
        values = [
            to_tensor(build, x, f"a result of {NAME}")
            for x in ((returned,) if single else returned)
        ]
    outputs = [constant(build, 0, with_element(tiles[0].type, x.dtype)) for x in values]
    group = [join.emit(build, x, x) for x in (*tiles, *outputs)]
    combine = _OfSecond(scalar_fn, len(tiles), len(group))
    region = combine_region(build, NAME, group, combine)
    op = build.op(ops.scan_region, *(x.value for x in group), regions=[region], axis=-1)
    scanned = [Tensor(value) for value in op.results[len(tiles) :]]
    return single, [split.emit(build, x)[1] for x in scanned]
