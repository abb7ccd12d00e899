"""Helpers of emitters that unroll fragments to registers, whatever a register is to them.

Fragments become lists of names. To fill, to pick and to extract a register is then to choose from
lists, and emits nothing. The image of a thread under a layout is the XOR of a few masked shifts of
the thread number (`terms`), and of a constant for each register.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tile.codegen.emitter import FunctionEmitter
from tile.ir.core import Operation
from tile.simt import ops
from tile.simt.layouts.axes import Registers, sums
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.f2 import union
from tile.simt.layouts.linear_layout import LinearLayout

Unrolled = FunctionEmitter[list[str]]


def fill(builder: Unrolled, op: Operation) -> None:
    """Repeat one scalar in all registers."""
    builder.set(op, builder.of(op.inputs[0]) * op["count"])


def pick(builder: Unrolled, op: Operation) -> None:
    """Select registers by constant numbers."""
    every = [register for value in op.inputs for register in builder.of(value)]
    builder.set(op, [every[number] for number in op["registers"]])


def element(builder: Unrolled, op: Operation) -> None:
    """Select one register."""
    builder.set(op, [builder.of(op.inputs[0])[op["register"]]])


# Rules for an emitter's table.
RULES: dict[Any, Any] = {
    ops.thread.frag_splat: fill,
    ops.thread.frag_shuffle: pick,
    ops.thread.frag_extract: element,
}


def thread_images(layout: LinearLayout) -> tuple[int, ...]:
    """Return the images of the bits of a thread number: of its lane, then of its warp."""
    return (*layout.images(LANE), *layout.images(WARP))


def overlap(numbers: Iterable[int]) -> bool:
    """Return True if two of the numbers have a bit in common."""
    listed = list(numbers)
    return sum(number.bit_count() for number in listed) > union(listed).bit_count()


def register_offsets(layout: LinearLayout) -> Registers:
    """Return the XOR constant of each register relative to its thread; (0,) without any."""
    return sums(layout.images(REGISTER) if REGISTER in layout.in_dims else ())


def copy_bits(layout: LinearLayout) -> int:
    """Return the bits of a thread number that lead to copies of elements."""
    return sum(1 << bit for bit, image in enumerate(thread_images(layout)) if image == 0)
