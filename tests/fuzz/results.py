"""The results of a kernel that are compared in the end."""

from __future__ import annotations

import math

from tests.fuzz.shapes import at, ramps
from tests.fuzz.sizes import TILES, WITNESSES
from tests.fuzz.writer import Writer
from tile.ir.core import Value
from tile.ir.declare import OPS
from tile.ir.ops import arith, memory, program, reduce, shape
from tile.ir.ops import math as math_ops
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import F32, I32, Tile

LOOSE_UNARY = tuple(defn for defn in OPS if defn.accepts == math_ops.REALS and defn.ulp)


def witness(w: Writer) -> None:
    """Store some of the values that this block computed."""
    sizes = w.sizes
    candidates = [v for values in w.scopes[-1].values.values() for v in values]
    owned = {element: base for base, element in w.scopes[0].own}
    candidates = [v for v in candidates if v.type.element in owned and v.op is not None]
    candidates = [v for v in candidates if math.prod(v.type.shape) <= w.sizes.largest]
    for number in range(min(WITNESSES, len(candidates))):
        value = candidates.pop(w.pick(len(candidates)))
        element = value.type.element
        steps = [math.prod(value.type.shape[k + 1 :]) for k in range(value.type.rank)]
        start = w.constant(TILES * sizes.elements + number * sizes.largest, I32)
        offset = ramps(w, value.type, steps, start)
        base = at(w, owned[element], value.type)
        pointers = w.emit(memory.addptr, base, offset, stride=element.itemsize)
        w.build.op(memory.store, pointers, value)


def probe(w: Writer, out: Value) -> None:
    """Results that are not exact, each stored at once in a place where that is allowed."""
    for index in range(w.number(0, 3)):
        ty = Tile((8,), F32)
        # The function's own domain decides nothing else: clamp to where all are tame.
        x = w.emit(
            arith.min_,
            w.emit(arith.max_, w.value(ty), w.constant(0.125, ty)),
            w.constant(16.0, ty),
        )
        y = w.emit(w.choose(LOOSE_UNARY), x)
        if w.chance(2):
            total = w.emit(reduce.reduce, y, axis=-1, kind=ReduceKind.SUM)
            y = w.emit(shape.splat, total, shape=(8,))
        pid = linear_program(w)
        row = w.emit(arith.mul, pid, w.constant(32, I32))
        row = w.emit(arith.add, row, w.constant(8 * index, I32))
        lanes = w.emit(shape.arange, start=0, end=8)
        offset = w.emit(arith.add, at(w, row, lanes.type), lanes)
        pointers = w.emit(memory.addptr, at(w, out, ty), offset, stride=4)
        w.build.op(memory.store, pointers, y)


def linear_program(w: Writer) -> Value:
    """The number of the program: x + X * (y + Y * z)."""
    total = w.emit(program.program_id, axis=2)
    for axis in (1, 0):
        extent = w.emit(program.num_programs, axis=axis)
        total = w.emit(arith.mul, total, extent)
        total = w.emit(arith.add, total, w.emit(program.program_id, axis=axis))
    return total
