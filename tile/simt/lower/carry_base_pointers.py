"""Carry the base of a tile of pointers through a loop, instead of each pointer.

A tile of pointers takes two registers for each one: 128 of them for the 64 elements that a thread
of a 128x128x32 matmul loads one by one, because rows of odd length permit no wider accesses. With
its 128 accumulators it spills. If all pointers advance by the same amount, the base alone
can advance, and each iteration adds 32-bit offsets to it: one register for each element.

f16 matmuls of 4097^3, bytes of spill stores and instructions in the loop (ptxas 13.0, sm_90a):

    128x128x32, 4 warps     574, 587    68, 355
    128x128x64, 8 warps      62, 504     0, 386
    128x256x64, 8 warps    1284, 934   324, 575
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tile.analysis.liveness import liveness
from tile.ir.builder import Builder
from tile.ir.core import Function, Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith, control, memory
from tile.ir.passes import module_pass
from tile.ir.types import I32, I64, Fragment, Pointer, count_of
from tile.simt import ops
from tile.simt.ops.layout_inference import register_count
from tile.simt.schedule.resources import Resources, pressure
from tile.simt.target import GENERIC, SimtTarget
from tile.transforms.region_utils import add_loop_carried, shrink, stop_passing

POINTER_REGISTERS = 2  # of 32 bits
FIXED_OPERANDS = 3  # of a `for`: start, end and step


@module_pass("carry-base-pointers", before=Level.THREAD)
def carry_base_pointers(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Carry one pointer for several where a loop with dots lacks registers.

        %q = addptr %rows, %columns                     %b = addptr %base, %column
        %r = for .. iter(%p = %q, %acc = ..) {          %r = for .. iter(%c = %b, %acc = ..) {
          %x = load %p                                    %o = opaque %offsets
          %d = mma ..                                     %p = ptradd %c, (shl (cast %o), %1)
          %n = addptr %p, %64                             %x = load %p
          yield %n, %d                                    %d = mma ..
        }                                                 %n = addptr %c, %64
                                                          yield %n, %d
                                                        }

    Here %rows is `addptr %base, %offsets`. The sum stays in the loop because the compilers after
    this cannot see that it is invariant. Pointers that advance by different amounts, are used after
    the loop, or are accessed in vectors stay as they are, as do offsets of 64 bits.
    """
    if not target.ops.has(ops.thread.opaque):
        return
    for function in module:
        for loop in [op for op in function.walk() if op.defn is control.for_]:
            dots = [op.defn for op in loop.regions[0] if op.has_trait(Trait.DOT)]
            if dots and ops.mma.fma_dot not in dots:  # slices of FMA dots fit by themselves
                _rebase(function, loop, target)


@dataclass(frozen=True)
class _Pointers:
    """A tile of pointers that a loop carries: a uniform base and offsets, which advance.

    position: among the carried values.
    narrow: the `addptr` of offsets that need fewer registers than the tile has pointers.
    registers: for each pointer of the tile, its register in the narrow sum.
    wide: the `addptr` of the other offsets, which have 32 bits.
    advance: the `addptr` of a uniform amount in the loop.
    """

    position: int
    base: Value
    narrow: tuple[Operation, ...]
    registers: tuple[int, ...]
    wide: Operation
    advance: Operation


def _rebase(function: Function, loop: Operation, target: SimtTarget) -> None:
    """Carry bases where the tiles of a loop and its pointers exceed the registers of a thread."""
    carried = list(_carried_pointers(loop))
    if not carried:
        return
    pointers = POINTER_REGISTERS * sum(len(each.registers) for each in carried)
    tiles = pressure(loop, liveness(function), target) + _unpacked(loop)
    if not Resources(target).would_spill(tiles + pointers):
        return
    bases = [_carry(loop, each) for each in carried]
    positions = [each.position for each in carried]
    stop_passing(loop, positions)
    for each, base in zip(carried, bases, strict=True):
        _replace(loop, each, base)
    shrink(loop, positions)


def _unpacked(loop: Operation) -> int:
    """Return the registers that elements take which are loaded one by one, beyond packed ones."""
    loads = [op for op in loop.regions[0] if op.defn is memory.load and op["vector"] == 1]
    return sum(
        max(0, count_of(op.result.type) - register_count(op.result))
        for op in loads
        if isinstance(op.result.type, Fragment)
    )


def _carried_pointers(loop: Operation) -> Iterator[_Pointers]:
    """Yield the tiles of pointers that advance by a uniform amount, and that only the loop uses."""
    (body,) = loop.regions
    for position, result in enumerate(loop.results):
        ty = result.type
        if not isinstance(ty, Fragment) or not isinstance(ty.of, Pointer) or result.uses:
            continue
        advance = body.yielded[position].op
        if advance is None or advance.defn is not memory.addptr:
            continue
        argument, step = advance.inputs
        own = argument is body.args[1 + position]
        if own and _is_uniform(step) and _is_used_one_by_one(argument, advance):
            pointers = _split(position, loop.inputs[FIXED_OPERANDS + position], advance)
            if pointers is not None:
                yield pointers


def _is_used_one_by_one(pointers: Value, advance: Operation) -> bool:
    """Return True if each pointer is accessed; a vector access takes the first of several only."""
    users = [user for user in pointers.users if user is not advance]
    return all(user.attributes.get("vector") == 1 for user in users)


def _split(position: int, start: Value, advance: Operation) -> _Pointers | None:
    """Return the initial pointers as a narrow tile, and one tile of offsets of 32 bits."""
    chain: list[Operation] = []
    base = start
    while base.op is not None and base.op.defn is memory.addptr:
        chain.append(base.op)
        base = base.op.inputs[0]
    if not chain or not _is_uniform(base):
        return None
    widest = max(chain, key=lambda op: _distinct(op.inputs[1]))
    others = tuple(op for op in chain[::-1] if op is not widest)
    selections = {_selection(op.inputs[1]) for op in others if not _is_uniform(op.inputs[1])}
    if widest.inputs[1].type.element != I32 or len(selections) > 1 or None in selections:
        return None
    registers = next(iter(selections), None) or (0,) * count_of(start.type)
    if max(registers) + 1 == len(registers):
        return None
    return _Pointers(position, base, others, registers, widest, advance)


def _distinct(value: Value) -> int:
    """Return how many registers of a fragment may differ."""
    if _is_uniform(value):
        return 1
    selection = _selection(value)
    return count_of(value.type) if selection is None else max(selection) + 1


def _selection(value: Value) -> tuple[int, ...] | None:
    """Return the registers that a fragment selects from a narrower one, if it does."""
    op = value.op
    if op is None or op.defn is not ops.thread.frag_shuffle or len(op.inputs) > 1:
        return None
    registers = tuple(op["registers"])
    source = count_of(op.inputs[0].type)
    return registers if source == max(registers) + 1 < len(registers) else None


def _is_uniform(value: Value) -> bool:
    """Return True if all registers of a fragment hold one scalar."""
    return value.op is not None and value.op.defn in (ops.thread.frag_splat, arith.const)


def _splat(build: Builder, uniform: Value, count: int) -> Value:
    """Return a fragment of `count` registers with the scalar of a uniform fragment."""
    op = uniform.op
    assert op is not None
    if op.defn is arith.const:
        return build.constant(op["value"], Fragment(count, uniform.type.element))
    return build(ops.thread.frag_splat, op.inputs[0], count=count)


def _carry(loop: Operation, pointers: _Pointers) -> Value:
    """Let a loop carry the base of pointers, and return it as an argument of the body."""

    def advance(args: list[Value]) -> list[Value]:
        build = Builder.before(pointers.advance)
        steps = _splat(build, pointers.advance.inputs[1], count_of(args[0].type))
        return [build(memory.addptr, args[0], steps, stride=pointers.advance["stride"])]

    init = _narrow_base(Builder.before(loop), pointers)
    (base,) = add_loop_carried(loop, [init], advance)
    return base


def _narrow_base(build: Builder, pointers: _Pointers) -> Value:
    """Return the sum of the base and the narrow offsets."""
    count = max(pointers.registers) + 1
    base = _splat(build, pointers.base, count)
    for op in pointers.narrow:
        offset = op.inputs[1]
        if _is_uniform(offset):
            offset = _splat(build, offset, count)
        else:
            assert offset.op is not None
            (offset,) = offset.op.inputs
        base = build(memory.addptr, base, offset, stride=op["stride"])
    return base


def _replace(loop: Operation, pointers: _Pointers, base: Value) -> None:
    """Compute the pointers from the base in front of their first use in the loop."""
    (body,) = loop.regions
    old = body.args[1 + pointers.position]
    if not pointers.advance.result.uses:
        pointers.advance.erase()
    first = next((op for op in body if any(old in inner.inputs for inner in op.walk())), None)
    if first is not None:
        old.replace_by(_added(Builder.before(first), pointers, base))


def _added(build: Builder, pointers: _Pointers, base: Value) -> Value:
    """Return base plus wide offsets, computed where the builder stands."""
    selected = build(ops.thread.frag_shuffle, base, registers=pointers.registers)
    hidden = build(ops.thread.opaque, pointers.wide.inputs[1])
    offset: Value = build(arith.cast, hidden, to=I64)
    shift = pointers.wide["stride"].bit_length() - 1
    if shift:
        offset = build(arith.shl, offset, build.constant(shift, offset.type))
    return build(ops.thread.ptradd, selected, offset)
