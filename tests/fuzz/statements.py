"""Statements: stores, atomic operations, notes, and control flow with blocks of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fuzz.accesses import boxable, described, maybe_mask, packed, starts_of
from tests.fuzz.axes import small
from tests.fuzz.shapes import at
from tests.fuzz.sizes import BUDGET, MOST_STATEMENTS, SHARED, TILES
from tests.fuzz.writer import Writer
from tile.ir.core import Block, Symbol, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, debug, descriptor, memory
from tile.ir.ops.arith import Predicate
from tile.ir.ops.memory import Eviction, Order, RMWKind, Scope
from tile.ir.types import I1, I8, I32, I64, U32, Type, with_element, with_shape


def statements(w: Writer, count: int) -> None:
    for _ in range(count if w.lines < BUDGET else 0):
        w.choose(STATEMENTS if w.depth < 3 else SIMPLE_STATEMENTS)(w)


def compute(w: Writer) -> None:
    w.keep(w.value(w.type(), 3))


def store_tile(w: Writer) -> None:
    base, element = w.choose(w.owned())
    ty = with_shape(w.choose(w.sizes.shapes), element)
    if boxable(w, ty) and w.chance(4):
        store_block(w, base, ty)
        return
    index = w.number(0, TILES - 1) * w.sizes.elements
    offset, mask = packed(w, ty, w.sizes.elements, 1)
    if index:
        offset = w.emit(arith.add, offset, w.constant(index, offset.type))
    pointers = w.emit(memory.addptr, at(w, base, ty), offset, stride=element.itemsize)
    value = w.value(ty, 3)
    w.place()
    w.build.op(memory.store, pointers, value, mask, eviction=w.choose(tuple(Eviction)))


def store_block(w: Writer, base: Value, ty: Type) -> None:
    desc = described(w, base, TILES * w.sizes.elements, ty, apart=True)
    value, starts = w.value(ty, 3), starts_of(w, ty.rank)
    w.place()
    w.build.op(descriptor.descriptor_store, desc, value, *starts)


def update(w: Writer) -> None:
    """An atomic operation on what all programs share; one kind to an array."""
    shared = [v for v in w.function.args if v.name.startswith("shared_")]
    if not shared:
        return
    base = w.choose(shared)
    element = base.type.element.pointee
    ty = with_shape(w.choose(w.sizes.shapes), element)
    offset = w.emit(
        arith.and_,
        w.value(with_element(ty, I32)),
        w.constant(SHARED - 1, with_element(ty, I32)),
    )
    pointers = w.emit(memory.addptr, at(w, base, ty), offset, stride=element.itemsize)
    mask = maybe_mask(w, ty, 1)
    value = small(w, ty, 1) if element.is_floating() else w.value(ty)
    w.emit(
        memory.atomic_rmw,
        pointers,
        value,
        mask,
        kind=RMWKind(base.name.split("_")[1]),
        order=w.choose(tuple(Order)),
        scope=w.choose(tuple(Scope)),
    )


def note(w: Writer) -> None:
    """A barrier, an assumption that holds, or an assertion that does."""
    which = w.number(0, 2)
    w.place()
    if which == 0:
        w.build.op(memory.barrier)
        return
    ty = with_element(w.type() if which == 2 else I32, I32)
    x = w.value(ty)
    true = w.emit(arith.cmp, x, x, predicate=w.choose((Predicate.EQ, Predicate.LE)))
    if which == 1:
        w.build.op(debug.assume, true)
    else:
        mask = w.value(true.type) if w.chance(2) else None
        w.build.op(debug.device_assert, true, mask, message="always")


def carried(w: Writer) -> list[Value]:
    return [w.value(w.type()) for _ in range(w.number(0, 3))]


def nested(w: Writer, block: Block, results: Sequence[Type], count: int) -> None:
    """Fill a block that yields values of some types."""
    with w.block(block):
        for value in block.args:
            w.keep(value)
        statements(w, count)
        yielded = [w.value(ty) for ty in results]
        w.place()
        w.build.op(control.yield_, *yielded)


def if_(w: Writer) -> None:
    condition = w.value(I1)
    results = [w.type() for _ in range(w.number(0, 2))]
    then, orelse = Block(), Block()
    nested(w, then, results, w.number(0, MOST_STATEMENTS))
    nested(w, orelse, results, w.number(0, 2))
    finish(w, control.if_, condition, regions=(then, orelse))


def finish(w: Writer, defn: OpDef, *operands: Value, **rest: Any) -> None:
    w.place()
    for value in w.build.op(defn, *operands, **rest).results:
        w.keep(value)


def for_(w: Writer) -> None:
    ty = w.choose((I32, I32, I64, U32, I8))
    upper = w.emit(arith.and_, w.value(ty), w.constant(3, ty))
    lower, step = w.constant(0, ty), w.constant(1, ty)
    style = w.number(0, 3)
    if style == 1 and ty.signed:  # downwards, perhaps not at all
        lower, upper = upper, w.constant(w.number(-2, 2), ty)
        step = w.constant(-1, ty)
    elif style == 2:  # from a bound, by a bound
        start = w.emit(arith.and_, w.value(ty), w.constant(1, ty))
        lower, upper = start, w.emit(arith.add, start, upper)
        one = w.emit(arith.and_, w.value(ty), w.constant(1, ty))
        step = w.emit(arith.add, one, step)
    elif style == 3:
        upper = w.constant(w.number(0, 3), ty)
    inits = carried(w)
    body = Block([ty, *(v.type for v in inits)], ["i"])
    nested(w, body, [v.type for v in inits], w.number(0, MOST_STATEMENTS))
    attributes = {"num_stages": w.number(0, 3)} if w.chance(3) else {}
    finish(w, control.for_, lower, upper, step, *inits, regions=(body,), **attributes)


def while_(w: Writer) -> None:
    """Counts down a carried number, and may stop before for another reason."""
    limit = w.emit(arith.and_, w.value(I32), w.constant(3, I32))
    inits = [limit, *carried(w)]
    types = [v.type for v in inits]
    test, body = Block(types), Block(types)
    with w.block(test):
        for value in test.args:
            w.keep(value)
        zero = w.constant(0, I32)
        more = w.emit(arith.cmp, test.args[0], zero, predicate=Predicate.GT)
        if w.chance(3):
            more = w.emit(arith.and_, more, w.value(I1))
        w.build.op(control.condition, more)
    with w.block(body):
        for value in body.args:
            w.keep(value)
        statements(w, w.number(0, MOST_STATEMENTS))
        yielded = [w.value(ty) for ty in types[1:]]
        left = w.emit(arith.sub, body.args[0], w.constant(1, I32))
        w.build.op(control.yield_, left, *yielded)
    finish(w, control.while_, *inits, regions=(test, body))


def call(w: Writer) -> None:
    if not w.callees:
        return compute(w)
    callee = w.choose(w.callees)
    function = callee.function
    arguments = []
    for value in function.args:
        if value.name.startswith("own_"):
            arguments.append(next(p for p, _ in w.owned() if p.type == value.type))
        elif value.name.startswith("in_"):
            fitting = [p for p, n in w.readable(value.type.pointee) if n >= w.sizes.elements]
            arguments.append(w.choose(fitting))
        else:
            arguments.append(w.value(value.type))
    results = function.result_types
    return finish(w, control.call, *arguments, callee=Symbol(function.name), results=results)


SIMPLE_STATEMENTS = (
    *(compute, compute, store_tile, store_tile, update),
    *(note, call),
)
STATEMENTS = (*SIMPLE_STATEMENTS, if_, if_, for_, while_)
