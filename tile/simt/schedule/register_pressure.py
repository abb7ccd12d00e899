"""Estimate the register pressure of tiles in a loop with dots.

Indices, masks and pointers are left out, since they are few or rematerialized; and of a dot
operand that an iteration loads from shared memory only a slice is live at a time.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import accumulate

from tile.analysis.liveness import Liveness
from tile.ir.core import Operation, Value
from tile.ir.ops import arith, shape
from tile.ir.ops.dot import is_multiplied, takes_registers
from tile.ir.types import I1, I32, Fragment, Scalar, Tile
from tile.simt import ops
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import register_count
from tile.simt.schedule.dot_slices import K_AXES
from tile.simt.target import SimtTarget

# Operations whose results take no registers, or those of another tile.
_FILLED = frozenset(
    {arith.const, shape.splat, shape.broadcast, ops.thread.frag_splat, ops.thread.frag_shuffle}
)
# Operations that load an operand from shared memory.
_READS = frozenset({convert_layout, ops.thread.ldmatrix})


def pressure(
    loop: Operation, live: Liveness, target: SimtTarget, without: Container[Value] = ()
) -> int:
    """Estimate the peak number of 32-bit registers that a thread needs for tiles in a loop.

    The loop is one of laid-out tiles, before it is pipelined, or of fragments. Values `without`
    which the loop will do take none.
    """
    first, last = live.start(loop), live.end(loop)
    changes = [0] * (last - first + 2)

    def add(start: int, end: int, count: int) -> None:
        start, end = max(start, first), min(end, last)
        if start < end:
            changes[start - first] += count
            changes[end - first] -= count

    for value, span in live.ranges.items():
        if span.start < last and span.end > first and value not in without:
            dots = _read_by(value, loop)
            if not dots:
                add(span.start, _end(value, live), tile_registers(value))
            for dot, index in dots:
                at = live.start(dot)
                add(at, at + 1, _at_once(value, dot, index, target.tuning.live_k_bytes))
    return max(accumulate(changes))


def _end(value: Value, live: Liveness) -> int:
    """Return the last use of a value, including uses of registers picked from it."""
    picked = [user.result for user in value.users if user.defn is ops.thread.frag_shuffle]
    return max([live.of(value).end, *[_end(other, live) for other in picked]])


def tile_registers(value: Value) -> int:
    """Return the 32-bit registers in which a thread holds a tile; 0 for excluded values."""
    ty = value.type
    if not isinstance(ty, Fragment | Tile) or not isinstance(ty.element, Scalar):
        return 0
    if ty.element == I1 or (ty.element == I32 and not _is_sum(value)) or _is_filled(value):
        return 0
    return register_count(value)


def _is_filled(value: Value) -> bool:
    return value.op is not None and value.op.defn in _FILLED


def _is_sum(value: Value) -> bool:
    """Return True if a value is the result or the accumulator operand of a dot."""
    if value.op is not None and takes_registers(value.op):
        return True
    return any(takes_registers(user) for user in value.users)


def _read_by(value: Value, loop: Operation) -> list[tuple[Operation, int]]:
    """Return the dots that load this operand from shared memory in each iteration; else none."""
    op = value.op
    if op is None or op.defn not in _READS or op.block is not loop.regions[0]:
        return []
    uses = list(_uses(value))
    only_operand = all(takes_registers(user) and is_multiplied(user, index) for user, index in uses)
    return uses if only_operand else []


def _uses(value: Value) -> Iterator[tuple[Operation, int]]:
    """Yield the uses of a value and of registers picked from it."""
    for user, index in value.uses:
        if user.defn is ops.thread.frag_shuffle:
            yield from _uses(user.result)
        else:
            yield user, index


def _at_once(value: Value, dot: Operation, index: int, live_bytes: int) -> int:
    """Return the registers of the slice of a dot operand that is live at a time.

    live_bytes: the bytes of the slice along k.
    """
    ty = value.type
    if isinstance(ty, Tile):
        extent = ty.shape[K_AXES[index]]
    else:
        extent = dot["shape"][2] * dot["repeats"][2]
    whole = max(ty.element.bytes_of(extent), live_bytes)
    return max(1, tile_registers(value) * live_bytes // whole)
