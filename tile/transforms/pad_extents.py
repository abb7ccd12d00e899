"""Padding of tiles to extents that are powers of two, which layouts need.

The elements past the end of a tile have any value. Operations on elements compute with them, and
shape operations move them. A rule masks an operand where the value would matter: where memory is
accessed, an assertion is checked, a value is printed, and elements along an axis are combined,
sorted or counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TypeAlias

from tile.ir.block_address import across
from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value, clone
from tile.ir.effects import constant_of
from tile.ir.extents import is_power_of_two, padded, unpadded_extent
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, debug, dot, indexing, memory, shape
from tile.ir.ops import reduce as reduce_ops
from tile.ir.ops.arith import Predicate
from tile.ir.ops.reduce import EXTREMES, ReduceKind
from tile.ir.passes import module_pass
from tile.ir.types import I1, I32, Scalar, Tile, Type
from tile.transforms.canonicalize import canonicalize
from tile.transforms.cse import cse
from tile.transforms.licm import licm

Number: TypeAlias = bool | int | float

# The attributes of operations that state extents.
STATED: dict[OpDef, tuple[str, ...]] = {
    shape.splat: ("shape",),
    shape.broadcast: ("shape",),
    shape.reshape: ("shape",),
    indexing.sort: ("count",),
    indexing.histogram: ("bins",),
}


@module_pass("pad-extents")
def pad_extents(module: Module) -> None:
    """Pad tiles to extents that are powers of two, and mask padding where it would matter.

    Loads, stores, atomics and assertions get masks. Reductions, backward scans, sorts and dots get
    operands with the identity of the combination there, or combine regions that pass over them.
    Forward scans and all other operations have any value there. A module whose extents are powers
    of two is not changed.

        %x = load %p : tile<100xf32>              %i = arange {start = 0, end = 128} : tile<128xi32>
        %r = reduce %x {kind = max} : f32         %e = const {value = 100} : tile<128xi32>
                                                  %m = cmp %i, %e {predicate = lt} : tile<128xi1>
                                                  %n = const {value = nan} : tile<128xf32>
                                                  %x = load %p, %m, %n : tile<128xf32>
                                                  %r = reduce %x {kind = max} : f32
    """
    tasks = [_Task(op) for op in module.walk() if _have_padding((*op.inputs, *op.results))]
    if not tasks and not any(_have_padding(function.args) for function in module):
        return
    for task in tasks:
        for name in STATED.get(task.op.defn, ()):
            task.op.attributes[name] = _padded(task.op[name])
    _retype(module)
    for task in tasks:
        rule = RULES.get(task.op.defn)
        if rule is not None:
            rule(task)
    for clean in (cse, licm, canonicalize, cse):
        clean(module)


def _have_padding(values: Iterable[Value]) -> bool:
    return any(unpadded_extent(value.type.shape) is not None for value in values)


def _retype(module: Module) -> None:
    """Give all values padded types, and operations and functions that state types."""
    for function in module:
        function.result_types = tuple(map(padded_type, function.result_types))
        for value in function.args:
            value.type = padded_type(value.type)
    for op in module.walk():
        for value in (*op.results, *(arg for region in op.regions for arg in region.args)):
            value.type = padded_type(value.type)
        if op.defn.explicit == "result":
            op.attributes["result"] = padded_type(op.attributes["result"])
        elif op.defn.explicit == "results":
            op.attributes["results"] = tuple(map(padded_type, op.attributes["results"]))


def _padded(extents: tuple[int, ...] | int | None) -> tuple[int, ...] | int | None:
    """Return an attribute, the extents of axes or one, with padding."""
    if isinstance(extents, tuple):
        return tuple(map(padded, extents))
    return None if extents is None else padded(extents)


def padded_type(ty: Type) -> Type:
    """Return a type with extents that are powers of two."""
    return (
        ty if unpadded_extent(ty.shape) is None else Tile(tuple(map(padded, ty.shape)), ty.element)
    )


class _Task:
    """An operation on padded tiles, with the types of its operands before."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.types = [None if value is None else value.type for value in op.operands]

    def tile(self, index: int) -> Tile:
        """Return the type, before padding, of an operand that is a tile."""
        ty = self.types[index]
        assert isinstance(ty, Tile)
        return ty

    @property
    def axis(self) -> int:
        axis: int = self.op["axis"]
        return axis

    def pads(self, index: int, axis: int) -> bool:
        """Return True if an operand has padding along an axis, counted from the right."""
        return not is_power_of_two(self.tile(index).dims[axis])

    def inside(self, index: int, axis: int | None = None) -> Value:
        """Return the mask of an operand's elements that are no padding, along one axis or all."""
        build, ty = Builder.before(self.op), self.tile(index)
        dims = tuple(map(padded, ty.dims))
        masks = []
        for position, extent in enumerate(ty.dims):
            if not is_power_of_two(extent) and axis in (None, position - ty.rank):
                numbers = build(shape.arange, start=0, end=dims[position])
                end = build.constant(extent, numbers.type)
                below = build(arith.cmp, numbers, end, predicate=Predicate.LT)
                masks.append(across(build, below, position, dims))
        return reduce(lambda x, y: build(arith.and_, x, y), masks)

    def fill(self, index: int, axis: int, number: Number) -> None:
        """Give an operand a number past its end along an axis.

        A load has a mask for all axes; with that one, its `other` becomes the number.
        """
        value = self.op.operands[index]
        assert value is not None
        load = value.op if value.op is not None and value.op.defn is memory.load else None
        if not self.pads(index, axis) or (load is not None and _gives(load["other"], number)):
            return
        build = Builder.before(self.op)
        mask = self.inside(index, axis if load is None else None)
        filler = build.constant(number, value.type)
        self.op.set_operand(index, build(arith.select, mask, value, filler))


def _gives(other: Value | None, number: Number) -> bool:
    """Return True for the constant; 0.0 and -0.0 differ."""
    return other is not None and repr(constant_of(other)) == repr(number)


# -- identities


def _scalar(ty: Type) -> Scalar:
    assert isinstance(ty.element, Scalar)
    return ty.element


def _least(ty: Scalar) -> Number:
    return -math.inf if ty.is_floating() else False if ty.is_bool() else ty.min_value


def _greatest(ty: Scalar) -> Number:
    return math.inf if ty.is_floating() else True if ty.is_bool() else ty.max_value


def _ones(ty: Scalar) -> Number:
    return True if ty.is_bool() else -1 if ty.signed else ty.max_value


# Each `combine(x, identity)` is `x`, to the bit.
IDENTITIES: dict[ReduceKind, Callable[[Scalar], Number]] = {
    ReduceKind.SUM: lambda ty: -0.0 if ty.is_floating() else 0,
    ReduceKind.PROD: lambda ty: 1.0 if ty.is_floating() else 1,
    ReduceKind.MAX: _least,
    ReduceKind.MIN: _greatest,
    ReduceKind.XOR: lambda ty: 0,
    ReduceKind.AND: _ones,
    ReduceKind.OR: lambda ty: 0,
}


def _identity(kind: ReduceKind, ty: Scalar, propagate_nan: bool = False) -> Number:
    """Return the identity of a combination; of extrema that ignore NaNs it is NaN."""
    if kind in EXTREMES and ty.is_floating() and not propagate_nan:
        return math.nan
    return IDENTITIES[kind](ty)


# -- rules


def _arange(task: _Task) -> None:
    """Count on; numbers that do not fit wrap."""
    op, build, start = task.op, Builder.before(task.op), task.op["start"]
    count = padded(op["end"] - start)
    first = start if start + count <= I32.max_value else 0
    numbers = build(shape.arange, start=first, end=first + count)
    op.replace_by([build(arith.add, numbers, build.constant(start - first, numbers.type))])


def _access(task: _Task) -> None:
    """Exclude padding from what an operation with a mask does."""
    if unpadded_extent(task.tile(0).shape) is None:
        return  # a histogram of other extents than those of its operand
    op, position = task.op, task.op.defn.positions["mask"]
    mask, own = op.operands[position], task.inside(0)
    both = own if mask is None else Builder.before(op)(arith.and_, mask, own)
    op.set_operand(position, both)


def _device_print(task: _Task) -> None:
    task.op.attributes["bounds"] = tuple(ty for ty in task.types if ty is not None)


def _reduce(task: _Task) -> None:
    ty = _scalar(task.tile(0))
    task.fill(0, task.axis, _identity(task.op["kind"], ty, task.op["propagate_nan"]))


def _arg_reduce(task: _Task) -> None:
    """Fill with the identity, which at most ties with the last element, as others before it do."""
    op, axis = task.op, task.axis
    if not task.pads(0, axis):
        return
    task.fill(0, axis, _identity(ReduceKind(op["kind"].value), _scalar(task.tile(0))))
    if not op["tie_break_left"]:
        index = op.results[1]
        uses = list(index.uses)
        build = Builder.after(op)
        last = build.constant(task.tile(0).dims[axis] - 1, index.type)
        clipped = build(arith.min_, index, last)
        for user, position in uses:
            user.set_operand(position, clipped)


def _scan(task: _Task) -> None:
    """Fill for a scan that begins at the end; others combine padding with padding only."""
    if task.op["reverse"]:
        task.fill(0, task.axis, _identity(task.op["kind"], _scalar(task.tile(0))))


def _scan_region(task: _Task) -> None:
    if task.op["reverse"]:
        _combine_region(task)


def _combine_region(task: _Task) -> None:
    """Combine a mask as well, with a region that returns the group that is no padding."""
    op = task.op
    if not task.pads(0, task.axis):
        return
    region = _passing_over(op.regions[0], len(op.inputs))
    combined = Builder.before(op).op(
        op.defn, *op.inputs, task.inside(0, task.axis), regions=[region], **op.attributes
    )
    op.replace_by(combined.results[:-1])


def _passing_over(region: Block, count: int) -> Block:
    """Return a region that combines like another one where both groups are elements.

    The last of each group is true for elements. Two groups of padding are padding.
    """
    types = [arg.type for arg in region.args[:count]]
    block = Block([*types, I1, *types, I1])
    first, second = block.args[: count + 1], block.args[count + 1 :]
    operands = dict(zip(region.args, (*first[:-1], *second[:-1]), strict=True))
    for op in region:
        if op is not region.end:
            block.append(clone(op, operands))
    build = Builder(block, loc=region.end.loc)
    results = []
    for value, x, y in zip(region.yielded, first[:-1], second[:-1], strict=True):
        either = build(arith.select, first[-1], operands.get(value, value), y)
        results.append(build(arith.select, second[-1], either, x))
    build.op(control.yield_, *results, build(arith.or_, first[-1], second[-1]))
    return block


def _sort(task: _Task) -> None:
    """Fill with what comes last."""
    ty = _scalar(task.tile(0))
    greatest = math.nan if ty.is_floating() else _greatest(ty)
    task.fill(0, task.axis, _least(ty) if task.op["descending"] else greatest)


def _rank(task: _Task) -> None:
    """Fill with the last bin, of which padding comes last."""
    task.fill(0, -1, task.op["bins"] - 1)


def _scatter(task: _Task) -> None:
    """Leave padding where it is."""
    op, build, ty = task.op, Builder.before(task.op), task.tile(1)
    dims = tuple(map(padded, ty.dims))
    position = task.axis + ty.rank
    own = across(build, build(shape.arange, start=0, end=dims[position]), position, dims)
    op.set_operand(1, build(arith.select, task.inside(1), op.operands[1], own))


def _flip(task: _Task) -> None:
    """Gather backwards from the last element."""
    op, axis, ty = task.op, task.axis, task.tile(0)
    if not task.pads(0, axis):
        return
    build, position = Builder.before(op), axis + ty.rank
    numbers = build(shape.arange, start=0, end=padded(ty.dims[axis]))
    backwards = build(arith.sub, build.constant(ty.dims[axis] - 1, numbers.type), numbers)
    index = across(build, backwards, position, tuple(map(padded, ty.dims)))
    op.replace_by([build(indexing.gather, *op.inputs, index, axis=axis)])


def _dot(task: _Task) -> None:
    """Fill with zeros along the axis that is summed over."""
    number: Number = 0.0 if _scalar(task.tile(0)).is_floating() else 0
    task.fill(0, -1, number)
    task.fill(1, -2, number)


RULES: dict[OpDef, Callable[[_Task], None]] = {
    shape.arange: _arange,
    memory.load: _access,
    memory.store: _access,
    memory.atomic_rmw: _access,
    memory.atomic_cas: _access,
    indexing.histogram: _access,
    debug.device_assert: _access,
    debug.device_print: _device_print,
    reduce_ops.reduce: _reduce,
    reduce_ops.arg_reduce: _arg_reduce,
    reduce_ops.scan: _scan,
    reduce_ops.reduce_region: _combine_region,
    reduce_ops.scan_region: _scan_region,
    indexing.sort: _sort,
    indexing.rank: _rank,
    indexing.scatter: _scatter,
    shape.flip: _flip,
    dot.dot: _dot,
}
