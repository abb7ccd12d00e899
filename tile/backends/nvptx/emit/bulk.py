"""Copies of boxes by the tensor memory accelerator, and the mbarriers on which they arrive.

One thread of the first warp begins them, the one that `elect.sync` chooses, always the same: so the
assembler sees that no other does, and needs no loop around each instruction. A box is copied
in pieces, each as wide as a row of the swizzle and at most 256 rows high, all by one tensor map,
which is a parameter of the kernel that the launcher makes. (PTX ISA, "cp.async.bulk.tensor" and
"mbarrier".)
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.analysis.launch_values import launch_value
from tile.backends.nvptx.emit.assembler import Operand, assemble
from tile.backends.nvptx.emit.body import Body, Place, Rule
from tile.backends.nvptx.emit.memory import SHARED
from tile.backends.nvptx.emit.registers import of_warp
from tile.backends.nvptx.emit.shared import MEMORY, staged
from tile.backends.nvptx.emit.turns import parity_of
from tile.backends.nvptx.facts import Number, TensorMap
from tile.backends.nvptx.target import WARP
from tile.errors import CompilationError
from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.types import Scalar, Shared
from tile.simt import ops
from tile.simt.layouts.factors import strips_of
from tile.simt.layouts.layout import LinearLayout

MOST_ROWS = 256  # of a piece
BARRIER_BYTES = 8


def _ring(op: Operation) -> Shared:
    ring = op["bars"].type
    assert isinstance(ring, Shared)
    return ring


def _first_warp(body: Body, active: Value | None = None) -> str:
    """Whether this is the first warp, of a program that is `active`."""
    first = body.first(f"icmp eq i32 {of_warp(body, WARP)}, 0")
    if active is None:
        return first
    return body.new(f"and i1 {first}, {body.scalar(active)}")


def _by_one(body: Body, lines: Sequence[str], operands: Sequence[Operand]) -> None:
    """Instructions by one thread, where the first operand is true for its warp."""
    chosen = "{ .reg .pred p; elect.sync _|p, 0xffffffff; and.pred p, p, $0; "
    text = chosen + " ".join([f"@p {line};" for line in lines]) + " }"
    assemble(body, text, [], operands, memory=True, convergent=True)


def _each(body: Body, op: Operation, text: str) -> None:
    """An instruction on every barrier of a ring, by one thread."""
    place = body.buffers[op["bars"]]
    lines = [
        text.format(f"[$1+{place.at + stage * BARRIER_BYTES}]") for stage in range(_ring(op).stages)
    ]
    _by_one(body, lines, [("i1", _first_warp(body)), (SHARED, MEMORY)])


def barrier_init(body: Body, op: Operation) -> None:
    """A barrier ends a phase when that thread has come, and what it expects has arrived."""
    _each(body, op, "mbarrier.init.shared::cta.b64 {}, 1")


def barrier_free(body: Body, op: Operation) -> None:
    """Memory that has been a barrier may be used for anything after this."""
    _each(body, op, "mbarrier.inval.shared::cta.b64 {}")


def _barrier(body: Body, op: Operation) -> Place:
    """Where the barrier of a turn is."""
    bars, turn = op["bars"], op["turn"]
    return staged(body, body.buffers[bars], body.scalar(turn), op["shift"], _ring(op))


def _pointer(body: Body, place: Place) -> str:
    """A pointer to a place, but for its constant."""
    if place.moving == "0":
        return MEMORY
    return body.new(f"getelementptr i8, {SHARED} {MEMORY}, i32 {place.moving}")


def barrier_expect(body: Body, op: Operation) -> None:
    """That one thread comes to the barrier."""
    place = _barrier(body, op)
    text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$1+{place.at}], {op['size']}"
    given = [("i1", _first_warp(body, op["active"])), (SHARED, _pointer(body, place))]
    _by_one(body, [text], given)


def barrier_wait(body: Body, op: Operation) -> None:
    """Try until the phase is over; a try sleeps for a while by itself."""
    place = _barrier(body, op)
    parity = parity_of(body, body.scalar(op["turn"]), op["shift"], _ring(op).stages)
    text = (
        "{ .reg .pred p; again: "
        f"mbarrier.try_wait.parity.shared::cta.b64 p, [$0+{place.at}], $1; @!p bra again; }}"
    )
    given = [(SHARED, _pointer(body, place)), ("i32", parity)]
    assemble(body, text, [], given, memory=True)


def bulk_copy(body: Body, op: Operation) -> None:
    """An instruction for each piece of the box."""
    bar = _barrier(body, op)
    name = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    text = f"{name} [$1+{{at}}], [$2, {{{{{{x}}, {{y}}}}}}], [$3+{bar.at}]"
    _pieces(body, op, text, _first_warp(body, op["active"]), (SHARED, _pointer(body, bar)))


def bulk_store(body: Body, op: Operation) -> None:
    """An instruction for each piece of the box, and a wait for all."""
    name = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
    text = f"{name} [$2, {{{{{{x}}, {{y}}}}}}], [$1+{{at}}]"
    _pieces(body, op, text, _first_warp(body))
    wait = ["cp.async.bulk.commit_group", "cp.async.bulk.wait_group 0"]
    _by_one(body, wait, [("i1", _first_warp(body))])


def _pieces(body: Body, op: Operation, text: str, alone: str, *more: Operand) -> None:
    """An instruction for each piece: at byte `at` of the buffer, column `x` and row `y`.

    Its operands are whether it is done, the buffer, the map, and `more`.
    """
    mem = op["mem"].type
    assert isinstance(mem, Shared) and isinstance(mem.layout, LinearLayout)
    strips = strips_of(mem.layout, 8 * mem.of.itemsize)
    assert strips is not None and strips.along == 1, f"{mem} is in no order that a box comes in"
    rows, columns = mem.dims
    height, width = min(rows, MOST_ROWS), strips.row_bytes // mem.of.itemsize
    map_ = body.module.tensor_map(_tensor_map(op, (height, width), strips.row_bytes))
    place = body.buffers[op["mem"]]
    row, column = (body.scalar(value) for value in op.inputs[-2:])
    given: list[Operand] = [("i1", alone), (SHARED, _pointer(body, place)), ("ptr", map_), *more]
    lines = []
    for inside in range(0, columns, width):
        for across in range(0, rows, height):
            at = place.at + strips.place(across, inside)
            x, y = (f"${len(given) + number}" for number in (0, 1))
            given += [("i32", _moved(body, column, inside)), ("i32", _moved(body, row, across))]
            lines.append(text.format(at=at, x=x, y=y))
    _by_one(body, lines, given)


def _moved(body: Body, index: str, by: int) -> str:
    return body.new(f"add i32 {index}, {by}") if by else index


def _tensor_map(op: Operation, box: tuple[int, int], swizzle: int) -> TensorMap:
    """The map of the array that an operation copies from or to."""
    base, *numbers = (_number(op, value) for value in (op["ptr"], *op.inputs[-5:-2]))
    element = op["mem"].type.of
    assert isinstance(element, Scalar) and base.parameter is not None
    return TensorMap(
        base.parameter, tuple(numbers[:2]), tuple(numbers[2:]), element.name, box, swizzle
    )


def _number(op: Operation, value: Value) -> Number:
    found = launch_value(value)
    if found is None:
        raise CompilationError(
            f"the array of {op.name} is not known before the kernel runs",
            loc=op.loc,
        )
    return Number(None, found) if isinstance(found, int) else Number(found.index, 0)


RULES: dict[OpDef, Rule] = {
    ops.bulk.barrier_init: barrier_init,
    ops.bulk.barrier_expect: barrier_expect,
    ops.bulk.barrier_wait: barrier_wait,
    ops.bulk.barrier_free: barrier_free,
    ops.bulk.bulk_copy: bulk_copy,
    ops.bulk.bulk_store: bulk_store,
}
