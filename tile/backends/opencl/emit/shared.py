"""Shared memory of a program: one array in local memory, and typed pointers into it."""

from __future__ import annotations

from collections.abc import Iterator

from tile.backends.opencl.emit.body import Body, Registers, Rule
from tile.backends.opencl.emit.memory import (
    LOCAL,
    behind,
    from_memory,
    read_rows,
    read_vector,
    signed,
    write,
)
from tile.backends.opencl.emit.rows import Index
from tile.backends.opencl.emit.types import is_literal, value_of
from tile.errors import CompilationError
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import memory
from tile.ir.types import Shared
from tile.simt import ops

SHARED = "shared"


def alloc(body: Body, op: Operation) -> None:
    """A buffer is where planning has put it."""
    if op["at"] < 0:
        raise CompilationError("a buffer has no place in shared memory: plan-shared was not run")
    kind = body.source.stored(op.result.type.element)
    name = body.names.new(op.result.name or "buffer")
    at = f"({SHARED} + {op['at']})" if op["at"] else SHARED
    body.line(f"{LOCAL} {kind} *{name} = ({LOCAL} {kind} *){at};")
    body.set(op, [name])


def slot(body: Body, op: Operation) -> None:
    """A stage by number."""
    mem, turn = op.inputs
    held = mem.type
    assert isinstance(held, Shared)
    if held.stages == 1:
        body.set(op, body.of(mem))
        return
    number, shift = body.scalar(turn), op["shift"]
    if is_literal(number):
        stage = str((value_of(number) + shift) % held.stages)
    else:
        stage = f"({number} + {shift}) % {held.stages}" if shift else f"{number} % {held.stages}"
    kind = body.source.stored(held.of)
    name = body.names.new(op.result.name or "stage")
    body.line(f"{LOCAL} {kind} *{name} = {body.scalar(mem)} + {stage} * {held.numel};")
    body.set(op, [name])


def shared_load(body: Body, op: Operation) -> None:
    """Vectors, aligned to their size."""
    mem = op.inputs[0]
    buffer, ty, step = body.scalar(mem), mem.type.element, op["vector"]
    if body.rolled(op.result):
        _load_row(body, op, step)
        return
    results: list[str] = []
    for number in body.of(op.inputs[1]):
        offset = signed(body, number)
        if step == 1:
            results.append(from_memory(body, ty, f"{buffer}[{offset}]"))
        else:
            results += read_vector(body, ty, LOCAL, f"{buffer} + {offset}", step)
    body.let(op, results)


def _load_row(body: Body, op: Operation, step: int) -> None:
    """An element or a vector in each round of a loop."""
    mem, offsets = op.inputs[0], body.row(op.inputs[1])
    buffer, ty = body.scalar(mem), mem.type.element
    if step == 1:

        def element(index: Index) -> str:
            return from_memory(body, ty, behind(f"{buffer} + {signed(body, offsets.at(index))}"))

        if body.source.device.in_place and is_factor(op):
            body.defer(op, element, cost=1)
        else:
            body.compute(op, element, pure=False)
        return
    vector = step.bit_length() - 1

    def place(index: Index) -> tuple[str, str]:
        return f"{buffer} + {signed(body, offsets.at(index.down(vector)))}", "true"

    read_rows(body, op, LOCAL, step, place)


# What may be between the reading of a factor and the product: it writes nothing, and no other
# thread's writes are seen behind it.
_STILL = frozenset({ops.shared.alloc, ops.shared.slot, ops.thread.shared_load, memory.load})


def is_factor(op: Operation) -> bool:
    """Whether what is loaded goes into products alone, before any of it can be overwritten."""
    users = list(_users(op))
    if not all(user.defn is ops.matrix.thread_dot for user in users):
        return False
    left, following = set(users), op.next
    while left and following is not None:
        left.discard(following)
        if not (following.defn.pure or following.defn in _STILL) or following.regions:
            break
        following = following.next
    return not left


def _users(op: Operation) -> Iterator[Operation]:
    """What takes a fragment, be it in another order."""
    for user in op.result.users:
        if user.defn is ops.thread.pick:
            yield from _users(user)
        else:
            yield user


def shared_store(body: Body, op: Operation) -> None:
    """Vectors, each under its mask."""
    mem, offsets, values, *_ = op.inputs
    buffer, ty, step = body.scalar(mem), mem.type.element, op["vector"]
    if body.rolled(values):
        _store_row(body, op, step)
        return
    registers = body.of(values)
    masks = masks_of(body, op, len(body.of(offsets)))
    for number, (offset, mask) in enumerate(zip(body.of(offsets), masks, strict=True)):
        stored = registers[number * step : (number + 1) * step]
        write(body, ty, LOCAL, f"{buffer} + {signed(body, offset)}", stored, mask)


def _store_row(body: Body, op: Operation, step: int) -> None:
    """An element or a vector in each round of a loop."""
    mem, at, stored, *_ = op.inputs
    offsets, values = body.row(at), body.row(stored)
    mask = None if op["mask"] is None else body.row(op["mask"])
    buffer, vector = body.scalar(mem), step.bit_length() - 1
    with body.loop(len(offsets), step) as index:
        number = index.down(vector)
        place = f"{buffer} + {signed(body, offsets.at(number))}"
        allowed = "true" if mask is None else mask.at(number)
        registers = [values.at(index.plus(i)) for i in range(step)]
        write(body, mem.type.element, LOCAL, place, registers, allowed)


def masks_of(body: Body, op: Operation, count: int) -> Registers:
    """The masks of vectors; all true where there are none."""
    mask = op["mask"]
    return ["true"] * count if mask is None else body.of(mask)


def shared_count(body: Body, op: Operation) -> None:
    """Add 1 in one step."""
    buffer, offsets = body.scalar(op.inputs[0]), body.of(op.inputs[1])
    for offset, mask in zip(offsets, masks_of(body, op, len(offsets)), strict=True):
        body.when(mask, f"atomic_inc({buffer} + {offset});")


RULES: dict[OpDef, Rule] = {
    ops.shared.alloc: alloc,
    ops.shared.slot: slot,
    ops.thread.shared_load: shared_load,
    ops.thread.shared_store: shared_store,
    ops.thread.shared_count: shared_count,
}
