"""Helpers of emitters that unroll fragments to registers, whatever a register is to them.

Fragments become lists of names. To fill, to pick and to extract a register is then to choose from
lists, and emits nothing. The image of a thread under a layout is the XOR of a few masked shifts of
the thread number, and of a constant for each register.

    >>> terms((1, 2, 8))                       # bits 0 and 1 stay where they are, bit 2 goes one up
    [Term(mask=3, shift=0), Term(mask=4, shift=1)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tile.ir.core import Operation, Value
from tile.simt import ops
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.linear_layout import LinearLayout


class Unrolled(Protocol):
    """A function being emitted: the names of the registers of its values."""

    def of(self, value: Value) -> list[str]: ...
    def set(self, op: Operation, registers: list[str]) -> None: ...


def fill(body: Unrolled, op: Operation) -> None:
    """Repeat one scalar in all registers."""
    body.set(op, body.of(op.inputs[0]) * op["count"])


def pick(body: Unrolled, op: Operation) -> None:
    """Select registers by constant numbers."""
    every = [register for value in op.inputs for register in body.of(value)]
    body.set(op, [every[number] for number in op["registers"]])


def element(body: Unrolled, op: Operation) -> None:
    """Select one register."""
    body.set(op, [body.of(op.inputs[0])[op["register"]]])


# Rules for an emitter's table.
RULES: dict[Any, Any] = {
    ops.thread.frag_splat: fill,
    ops.thread.frag_shuffle: pick,
    ops.thread.frag_extract: element,
}


class Term(NamedTuple):
    """Bits of the thread number, shifted left by `shift`, or right for a negative one."""

    mask: int
    shift: int

    @property
    def reached(self) -> int:
        """The bits that it can set."""
        return self.mask << self.shift if self.shift > 0 else self.mask >> -self.shift


def terms(images: Sequence[int]) -> list[Term]:
    """Return the XOR of the images of a number's set bits, as masked shifts of the number.

    Bits that are shifted equally far share a term.
    """
    masks: dict[int, int] = {}
    for bit, image in enumerate(images):
        for position in range(image.bit_length()):
            if image >> position & 1:
                masks[position - bit] = masks.get(position - bit, 0) | 1 << bit
    return [Term(mask, shift) for shift, mask in sorted(masks.items())]


def thread_images(layout: LinearLayout) -> tuple[int, ...]:
    """Return the images of the bits of a thread number: of its lane, then of its warp."""
    return (*layout.images(LANE), *layout.images(WARP))


def image_bits(images: Sequence[int]) -> int:
    """Return the bits that any of the images has."""
    reached = 0
    for image in images:
        reached |= image
    return reached


def register_offsets(layout: LinearLayout) -> list[int]:
    """Return the XOR constant of each register relative to its thread; [0] without any."""
    offsets = [0]
    for image in layout.images(REGISTER) if REGISTER in layout.in_dims else ():
        offsets += [offset ^ image for offset in offsets]
    return offsets
