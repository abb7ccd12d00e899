"""Faults as errors that say which program did what, where in which array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tile.backends.interp.memory import Buffer, FaultError
from tile.backends.interp.values import Array
from tile.errors import OutOfBoundsError

if TYPE_CHECKING:
    from tile.backends.interp.wave import Wave


def out_of_bounds(wave: Wave, verb: str, fault: FaultError, itemsize: int) -> OutOfBoundsError:
    """The error for an access at a bad address.

    `verb` is what the access does: reads, writes, updates.
    """
    launch = wave.launch
    buffer = launch.memory.buffer_at(fault.address)
    # An access that is the same in all programs was done once, for the first of them.
    row = int(wave.rows[fault.row if fault.row < len(wave) else 0])
    if buffer is None:
        what = f"{verb} address {fault.address:#x}, which belongs to no array of this launch"
        notes = ["tile.pointers([...]) makes arrays known that are reached through memory"]
    else:
        what = f"{verb} {_place(buffer, fault.address, itemsize)}"
        notes = [_described(buffer)]
    where = launch.element(fault.lane, row)
    others = f"; {fault.count} of {fault.active} active elements of this access are out of bounds"
    notes.append(where + (others if fault.active > 1 else ""))
    return OutOfBoundsError(f"`{launch.name}` {what}", notes=notes)


def _place(buffer: Buffer, address: int, itemsize: int) -> str:
    offset = address - buffer.origin
    size = buffer.array.itemsize
    name = f"`{buffer.name}`"
    if offset % size or itemsize != size:
        return f"{name} at byte {offset}, where no element of {itemsize} bytes lies"
    element = offset // size
    if buffer.start <= address < buffer.end and buffer.inside is not None:
        return f"{name} at element {element}, which lies between those of the view passed"
    if element < 0:
        return f"{name} at element {element}, before its start"
    beyond = (address - buffer.end) // size + 1
    return f"{name} at element {element}, {beyond} past its end"


def _described(buffer: Buffer) -> str:
    array = buffer.array
    kind = f"{array.dtype} array of shape {array.shape}"
    if array.size == 0:
        return f"`{buffer.name}` is a {kind}: it has no elements"
    if array.flags.c_contiguous:
        return f"`{buffer.name}` is a {kind}: elements 0 to {array.size - 1}"
    strides = tuple(int(s) // array.itemsize for s in array.strides)
    low = (buffer.start - buffer.origin) // array.itemsize
    high = (buffer.end - buffer.origin) // array.itemsize - 1
    return f"`{buffer.name}` is a {kind} with strides {strides}: elements {low} to {high}"


def first_false(condition: Array) -> tuple[int, ...]:
    """The index of the first false element."""
    return tuple(int(i) for i in np.unravel_index(int(condition.argmin()), condition.shape))
