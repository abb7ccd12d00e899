"""Kernels made around one pure operation: load its operands, apply it, store its results.

Program `p` of the grid works on the p-th block of every array, in row-major order of the operand's shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Module, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, control, memory, program, shape
from tile.ir.types import I32, Pointer, Scalar, Tile, Type, with_element

MakeRegions = Callable[[], Sequence[Block]]


def around(
    defn: OpDef,
    operands: Sequence[Type | None],
    attributes: dict[str, Any],
    *,
    masked: bool,
    regions: MakeRegions = tuple,
) -> tuple[Module, list[Type]]:
    """The module, and the types of the operation's results.

    Parameters: a pointer for each operand that is there, one for each result, and, if `masked`, the
    number of elements that are loaded and stored.
    """
    blocks = list(regions())
    present = [ty for ty in operands if ty is not None]
    results = list(defn.infer(list(operands), defn.complete(attributes), blocks))
    types = [Pointer(ty.element) for ty in (*present, *results)]
    names = [f"p{i}" for i in range(len(types))]
    kernel = Function("around", [*types, I32], [*names, "n"], kernel=True)
    build = Builder(kernel.body)
    pid = build(program.program_id, axis=0)
    *pointers, limit = kernel.args
    place = iter(pointers)
    values: list[Value | None] = []
    for ty in operands:
        if ty is None:
            values.append(None)
            continue
        address, mask = _addresses(build, next(place), ty, pid, limit if masked else None)
        values.append(build(memory.load, address, mask, _zero(build, ty) if masked else None))
    op = build.op(defn, *values, regions=blocks, **attributes)
    for pointer, value in zip(place, op.results, strict=True):
        address, mask = _addresses(build, pointer, value.type, pid, limit if masked else None)
        build.op(memory.store, address, value, mask)
    build.op(control.return_)
    return Module([kernel]), results


def _zero(build: Builder, ty: Type) -> Value:
    if isinstance(ty.element, Scalar):
        return build.constant(0, ty)
    zero = build.constant(0, with_element(ty, I32))
    return build(arith.bitcast, build(arith.cast, zero, to=ty.element), to=ty.element)


def _addresses(
    build: Builder, pointer: Value, ty: Type, pid: Value, limit: Value | None
) -> tuple[Value, Value | None]:
    """The addresses of a program's block, and which of its elements are below the limit."""
    count = math.prod(ty.shape)
    start = build(arith.mul, pid, build.constant(count, I32))
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
        pointer = build(shape.splat, pointer, shape=ty.dims)
    size = pointer.type.element.pointee.itemsize  # type: ignore[union-attr]
    address = build(memory.addptr, pointer, offset, stride=size)
    if limit is None:
        return address, None
    if isinstance(ty, Tile):
        limit = build(shape.splat, limit, shape=ty.dims)
    return address, build(arith.cmp, offset, limit, predicate=arith.Predicate.LT)
