"""Kernels made around pure operations: load their operands, apply them, store their results.

Program `p` of the grid works on the p-th block of every array, in row-major order of the operand's shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Value
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, memory, program, shape
from tile.ir.types import I32, Pointer, Scalar, Tile, Type, with_element

MakeRegions = Callable[[], Sequence[Block]]


@dataclass
class Step:
    """One operation of a kernel."""

    defn: OpDef
    operands: Sequence[Type | None]
    attributes: dict[str, Any]
    regions: Sequence[Block] = ()
    results: list[Type] = field(init=False)

    def __post_init__(self) -> None:
        complete = self.defn.complete(self.attributes)
        self.results = list(self.defn.infer(list(self.operands), complete, self.regions))

    @property
    def parameters(self) -> list[Type]:
        """Pointers for the operands that are there, and for the results."""
        present = [ty for ty in self.operands if ty is not None]
        return [Pointer(ty.element) for ty in (*present, *self.results)]


def around(
    defn: OpDef,
    operands: Sequence[Type | None],
    attributes: dict[str, Any],
    *,
    masked: bool,
    regions: MakeRegions = tuple,
) -> tuple[Module, list[Type]]:
    """The module of one operation, and the types of the operation's results."""
    step = Step(defn, operands, attributes, list(regions()))
    return around_all([step], masked=masked), step.results


def zero(build: Builder, ty: Type) -> Value:
    """Return zeros, null pointers among them."""
    if isinstance(ty.element, Scalar):
        return build.constant(0, ty)
    zero = build.constant(0, with_element(ty, I32))
    return build(arith.bitcast, build(arith.cast, zero, to=ty.element), to=ty.element)


def around_all(
    steps: Sequence[Step], *, masked: bool, other: Callable[[Builder, Type], Value] = zero
) -> Module:
    """A kernel that does several operations, one after the other.

    Parameters: of each step a pointer for each operand that is there and one for each result, and
    in the end the number of elements of each array that are loaded and stored, if `masked`. `other`
    makes what is loaded past it.
    """
    types = [ty for step in steps for ty in step.parameters]
    names = [f"p{i}" for i in range(len(types))]
    kernel = Function("around", [*types, I32], [*names, "n"], kernel=True)
    build = Builder(kernel.body)
    *pointers, limit = kernel.args
    writer = _Writer(build, limit if masked else None, other)
    place = iter(pointers)
    for step in steps:
        writer.step(step, [next(place) for _ in step.parameters])
    build.op(control.return_)
    return Module([kernel])


class _Writer:
    """Writes a kernel; what addresses of one shape have in common is computed once."""

    def __init__(
        self, build: Builder, limit: Value | None, other: Callable[[Builder, Type], Value]
    ) -> None:
        self.build = build
        self.limit = limit
        self.other = other
        self.program = build(program.program_id, axis=0)
        self.offsets: dict[tuple[int, ...], tuple[Value, Value | None]] = {}

    def step(self, step: Step, pointers: Sequence[Value]) -> None:
        build, place = self.build, iter(pointers)
        values: list[Value | None] = []
        for ty in step.operands:
            if ty is None:
                values.append(None)
                continue
            address, mask = self.addresses(next(place), ty)
            other = None if mask is None else self.other(build, ty)
            values.append(build(memory.load, address, mask, other))
        op = build.op(step.defn, *values, regions=step.regions, **step.attributes)
        for pointer, value in zip(place, op.results, strict=True):
            address, mask = self.addresses(pointer, value.type)
            build.op(memory.store, address, value, mask)

    def addresses(self, pointer: Value, ty: Type) -> tuple[Value, Value | None]:
        """The addresses of a program's block, and which of its elements are below the limit."""
        build = self.build
        if ty.shape not in self.offsets:
            self.offsets[ty.shape] = self.offset(ty)
        offset, mask = self.offsets[ty.shape]
        if isinstance(ty, Tile):
            pointer = build(shape.splat, pointer, shape=ty.dims)
        size = pointer.type.element.pointee.itemsize
        return build(memory.addptr, pointer, offset, stride=size), mask

    def offset(self, ty: Type) -> tuple[Value, Value | None]:
        build = self.build
        count = math.prod(ty.shape)
        start = build(arith.mul, self.program, build.constant(count, I32))
        if not isinstance(ty, Tile):
            offset = start
        else:
            offset = build(shape.splat, start, shape=ty.dims)
            stride = count
            for axis, extent in enumerate(ty.dims):
                stride //= extent
                line = build(shape.arange, start=0, end=extent)
                for _ in range(axis):
                    line = build(shape.expand_dims, line, axis=-line.type.rank - 1)
                for _ in range(len(ty.dims) - axis - 1):
                    line = build(shape.expand_dims, line, axis=-1)
                line = build(arith.mul, line, build.constant(stride, line.type))
                offset = build(arith.add, offset, build(shape.broadcast, line, shape=ty.dims))
        if self.limit is None:
            return offset, None
        limit = self.limit
        if isinstance(ty, Tile):
            limit = build(shape.splat, limit, shape=ty.dims)
        return offset, build(arith.cmp, offset, limit, predicate=arith.Predicate.LT)
