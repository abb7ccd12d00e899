"""Split an axis by the owners of its bits: registers, lanes and warps.

An axis counts from the right. A layout is *straight* along it if each basis vector that moves
along the axis moves by a power of two, and along no other axis: then each bit of the axis is owned
by one bit of the register, lane or warp number. A bit is *near* if a warp can combine along it
without shared memory: bits in registers, and bits in lanes if the target has shuffles. The other
bits are *far*.

    >>> from tile.simt.layouts.blocked import blocked
    >>> rows = blocked([64], [2], [4], [4])
    >>> axis_owners(rows, -1)
    AxisOwners(registers=(0, 5), lanes=(1, 2), warps=(3, 4))
    >>> in_register_order(rows, -1)
    #linear{register = [[1],[2]], lane = [[4],[8]], warp = [[16],[32]] -> dim0 = 64}

The operations that split a tile so, and those that make the indices along an axis, are here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tile.ir.core import Value
from tile.ir.ops import shape
from tile.simt.layouts.axes import axis_mask
from tile.simt.layouts.dims import LANE, REGISTER, WARP, bits_of
from tile.simt.layouts.f2 import units
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout_inference import (
    LayoutBuilder,
    layout_of,
    reduced_layout,
    without_register_copies,
)


@dataclass(frozen=True)
class AxisOwners:
    """The bits of an axis by their owners, each in the order of the owner's bits."""

    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]

    def far(self, shuffles: bool) -> tuple[int, ...]:
        """Return the bits that a warp cannot combine along without shared memory, lowest first."""
        return tuple(sorted(self.warps if shuffles else (*self.lanes, *self.warps)))

    def near(self, shuffles: bool) -> tuple[int, ...]:
        """Return the other bits, lowest first."""
        return tuple(sorted((*self.registers, *self.lanes) if shuffles else self.registers))

    @property
    def inner_first(self) -> tuple[int, ...]:
        """All bits: those of registers, then those of lanes, then those of warps."""
        return (*self.registers, *self.lanes, *self.warps)


def span(layout: LinearLayout, axis: int) -> tuple[int, int]:
    """Return the lowest bit of an axis in a packed coordinate, and its number of bits."""
    position = len(layout.outs) + axis
    return bits_of(layout.outs[position + 1 :]), layout.outs[position][1]


def _is_unit(column: int) -> bool:
    return column & (column - 1) == 0


@lru_cache(maxsize=1024)
def straight(layout: LinearLayout, axis: int) -> LinearLayout:
    """Return the layout if it is straight along an axis; else a similar one that is.

    That one keeps all basis vectors that move by a power of two along one axis, and copies.
    """
    mask = axis_mask(layout, axis)
    if all(_is_unit(column) for column in layout.columns if column & mask):
        return layout
    units_in_use = {column for column in layout.columns if _is_unit(column)}
    missing = iter([unit for unit in units(bits_of(layout.outs)) if unit not in units_in_use])
    ins = [
        (name, tuple([c if c in units_in_use else next(missing) for c in columns]))
        for name, columns in layout.ins
    ]
    return LinearLayout(tuple(ins), layout.outs)


@lru_cache(maxsize=1024)
def axis_owners(layout: LinearLayout, axis: int) -> AxisOwners:
    """Return the owners of the bits of an axis along which the layout is straight."""
    shift, _ = span(layout, axis)
    mask = axis_mask(layout, axis)

    def owned(name: str) -> tuple[int, ...]:
        return tuple([c.bit_length() - 1 - shift for c in layout.images(name) if c & mask])

    return AxisOwners(owned(REGISTER), owned(LANE), owned(WARP))


@lru_cache(maxsize=1024)
def in_register_order(layout: LinearLayout, axis: int) -> LinearLayout:
    """Return a layout in which each thread, and each warp, owns contiguous elements along an axis.

    The lowest bits of the axis are in the lowest registers, the next ones in lanes, the highest in
    warps, each in order and as many in each as before. Other axes keep their owners.
    """
    layout = straight(layout, axis)
    mask = axis_mask(layout, axis)
    shift, bits = span(layout, axis)
    next_units = iter([unit << shift for unit in units(bits)])
    first = [next(next_units) for column in layout.images(REGISTER) if column & mask]
    others = [column for column in layout.images(REGISTER) if not column & mask]
    ins = [(REGISTER, (*first, *others))]
    for name, columns in layout.ins[1:]:
        ins.append((name, tuple([next(next_units) if c & mask else c for c in columns])))
    return LinearLayout(tuple(ins), layout.outs)


@lru_cache(maxsize=1024)
def nearer(layout: LinearLayout, axis: int, shuffles: bool, gathered_bits: int) -> LinearLayout:
    """Return the layout with at least some of the bits of an axis near; all of them are far before.

    Other axes keep their owners, and threads with the same elements of those have the same elements
    of the axis. The axis's bits go first to registers, up to `gathered_bits` of a thread, then to
    lanes that hold copies. Without shuffles bits in lanes are still far, so the rest stays there,
    or in warps, for the next call.
    """
    shift, bits = span(layout, axis)
    mask = axis_mask(layout, axis)
    ins = {name: [c & ~mask for c in columns] for name, columns in layout.ins}
    idle = [(LANE, index) for index, column in enumerate(ins[LANE]) if not column]
    if not shuffles:
        idle += [(WARP, index) for index, column in enumerate(ins[WARP]) if not column]
    least = 0 if shuffles else 1
    in_registers = min(bits, max(least, gathered_bits - len(ins[REGISTER])))
    in_registers = max(in_registers, bits - len(idle))
    new = [unit << shift for unit in units(bits)]
    ins[REGISTER][:0] = new[:in_registers]
    for (name, index), column in zip(idle, new[in_registers:], strict=False):
        ins[name][index] = column
    return LinearLayout(tuple((name, tuple(c)) for name, c in ins.items()), layout.outs)


@lru_cache(maxsize=1024)
def exchanged(layout: LinearLayout, axis: int) -> LinearLayout:
    """Return the layout with an axis, whose bits warps own, in registers, and others in warps.

    Each bit of a warp is exchanged with the highest bit of registers, as long as there are any; so
    no warps hold copies of what they combine along the axis.
    """
    shift, bits = span(layout, axis)
    mask = axis_mask(layout, axis)
    registers = [*layout.images(REGISTER)]
    warps = [
        (registers.pop() if registers else 0) if column & mask else column
        for column in layout.images(WARP)
    ]
    ins = {name: layout.images(name) for name in layout.in_dims}
    ins[REGISTER] = (*[unit << shift for unit in units(bits)], *registers)
    ins[WARP] = tuple(warps)
    return LinearLayout(tuple(ins.items()), layout.outs)


@lru_cache(maxsize=1024)
def line(layout: LinearLayout, axis: int) -> LinearLayout:
    """Return the rank-1 layout of the indices along an axis, with the axis's owners."""
    for _ in range(-axis - 1):
        layout = reduced_layout(layout, -1)
    while len(layout.outs) > 1:
        layout = reduced_layout(layout, 0)
    return without_register_copies(layout)


def permute_and_split(
    b: LayoutBuilder, x: Value, axis: int, bits: Sequence[int], extents: Sequence[int]
) -> Value:
    """Return `x` with the elements along an axis permuted, and that axis split into several.

    bits: bit k of the new index is bit `bits[k]` of the old one.
    extents: the extents of the new axes, of which the last varies fastest.
    No element moves between registers or lanes; only its index changes.
    """
    position = len(x.type.shape) + axis
    before, after = x.type.shape[:position], x.type.shape[position + 1 :]
    runs = _runs(bits)
    if len(runs) > 1:
        fields = sorted(runs, reverse=True)
        order = [fields.index(run) + position for run in reversed(runs)]
        last = position + len(runs)
        x = b(shape.reshape, x, shape=(*before, *[1 << n for _, n in fields], *after))
        rest = range(last, last + len(after))
        x = b(shape.trans, x, order=(*range(position), *order, *rest))
    result_shape = (*before, *extents, *after)
    return x if x.type.shape == result_shape else b(shape.reshape, x, shape=result_shape)


def _runs(bits: Sequence[int]) -> list[tuple[int, int]]:
    """Return runs of consecutive bits, each as its lowest bit and its length."""
    runs: list[tuple[int, int]] = []
    for bit in bits:
        if runs and bit == sum(runs[-1]):
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((bit, 1))
    return runs


def indices_along(
    b: LayoutBuilder, like: Value, axis: int, change: Callable[[Value], Value] = lambda x: x
) -> Value:
    """Return a tile of the shape and layout of `like` with the i32 indices along an axis.

    change: maps the indices to other values, while they are a tile of rank 1.
    """
    result_layout = layout_of(like)
    layout = straight(result_layout, axis)
    extents = like.type.shape
    x = change(b(shape.arange, start=0, end=extents[axis], layout=line(layout, axis)))
    for _ in range(len(extents) + axis):
        x = b(shape.expand_dims, x, axis=-1 - x.type.rank)
    for _ in range(-axis - 1):
        x = b(shape.expand_dims, x, axis=-1)
    if x.type.shape != extents:
        x = b(shape.broadcast, x, shape=extents, layout=layout)
    return b.convert(x, result_layout)
