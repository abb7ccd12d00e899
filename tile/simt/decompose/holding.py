"""Who holds the bits of an axis: registers, lanes or warps; and layouts that hold it otherwise.

An axis counts from the right. A layout is *straight* along it if each basis that moves along the
axis moves by a power of two, and along nothing else: then each bit of the axis is held by one bit
of a register, a lane or a warp. A bit is *near* if a warp can combine along it without shared
memory: those in registers, and those in lanes if these can shuffle. The others are *far*.

>>> from tile.simt.layouts.blocked import blocked
>>> rows = blocked([64], [2], [4], [4])
>>> holders(rows, -1)
Holders(registers=(0, 5), lanes=(1, 2), warps=(3, 4))
>>> in_order(rows, -1)
#linear{register = [[1],[2]], lane = [[4],[8]], warp = [[16],[32]] -> dim0 = 64}
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tile.simt.layout_rules import compact, reduced
from tile.simt.layouts.dims import LANE, REGISTER, WARP, bits_of
from tile.simt.layouts.f2 import units
from tile.simt.layouts.layout import LinearLayout

# How many bits a thread's registers may have when partial results are brought to them; what is
# more goes to lanes, if there are idle ones.
GATHERED_BITS = 3


@dataclass(frozen=True)
class Holders:
    """The bits of an axis that registers, lanes and warps hold, each in the order of their bits."""

    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]

    def far(self, shuffles: bool) -> tuple[int, ...]:
        """The bits that no warp can combine along without shared memory, lowest first."""
        return tuple(sorted(self.warps if shuffles else (*self.lanes, *self.warps)))

    def near(self, shuffles: bool) -> tuple[int, ...]:
        """The other bits, lowest first."""
        return tuple(sorted((*self.registers, *self.lanes) if shuffles else self.registers))

    @property
    def inner_first(self) -> tuple[int, ...]:
        """All bits, those in registers first, those in warps last."""
        return (*self.registers, *self.lanes, *self.warps)


def span(layout: LinearLayout, axis: int) -> tuple[int, int]:
    """The lowest bit of an axis in a packed coordinate, and its number of bits."""
    position = len(layout.outs) + axis
    return bits_of(layout.outs[position + 1 :]), layout.outs[position][1]


def _axis_mask(layout: LinearLayout, axis: int) -> int:
    place, bits = span(layout, axis)
    return ((1 << bits) - 1) << place


def _is_unit(column: int) -> bool:
    return column & (column - 1) == 0


@lru_cache(maxsize=1024)
def straight(layout: LinearLayout, axis: int) -> LinearLayout:
    """The layout itself if it is straight along an axis; else one like it that is.

    That keeps all bases that move by a power of two along one axis, and copies.
    """
    mask = _axis_mask(layout, axis)
    if all(_is_unit(column) for column in layout.columns if column & mask):
        return layout
    kept = {column for column in layout.columns if _is_unit(column)}
    missing = iter([unit for unit in units(bits_of(layout.outs)) if unit not in kept])
    ins = [
        (name, tuple([c if c in kept else next(missing) for c in columns]))
        for name, columns in layout.ins
    ]
    return LinearLayout(tuple(ins), layout.outs)


@lru_cache(maxsize=1024)
def holders(layout: LinearLayout, axis: int) -> Holders:
    """Who holds which bits of an axis that the layout is straight along."""
    place, _ = span(layout, axis)
    mask = _axis_mask(layout, axis)

    def held(name: str) -> tuple[int, ...]:
        return tuple([c.bit_length() - 1 - place for c in layout.images(name) if c & mask])

    return Holders(held(REGISTER), held(LANE), held(WARP))


@lru_cache(maxsize=1024)
def in_order(layout: LinearLayout, axis: int) -> LinearLayout:
    """A layout in which each thread has a run of neighbours along an axis, and each warp too.

    The axis has its lowest bits in the lowest registers, the next ones in lanes, in order, the
    highest in warps; as many in each as before. Other axes are held by whom they were.
    """
    layout = straight(layout, axis)
    mask = _axis_mask(layout, axis)
    place, bits = span(layout, axis)
    rising = iter([unit << place for unit in units(bits)])
    first = [next(rising) for column in layout.images(REGISTER) if column & mask]
    others = [column for column in layout.images(REGISTER) if not column & mask]
    ins = [(REGISTER, (*first, *others))]
    for name, columns in layout.ins[1:]:
        ins.append((name, tuple([next(rising) if c & mask else c for c in columns])))
    return LinearLayout(tuple(ins), layout.outs)


@lru_cache(maxsize=1024)
def nearer(layout: LinearLayout, axis: int, shuffles: bool) -> LinearLayout:
    """The layout with an axis, all of whose bits are far, brought near, or some of them at least.

    Other axes are held by whom they were, and all who hold the same of those hold the same of the
    axis. Its bits go first to registers and then to lanes that hold copies; without shuffles these
    bring them no nearer, so the rest waits there, or in warps, for the next time.
    """
    place, bits = span(layout, axis)
    mask = _axis_mask(layout, axis)
    ins = {name: [c & ~mask for c in columns] for name, columns in layout.ins}
    idle = [(LANE, index) for index, column in enumerate(ins[LANE]) if not column]
    if not shuffles:
        idle += [(WARP, index) for index, column in enumerate(ins[WARP]) if not column]
    own = min(bits, max(1, GATHERED_BITS - len(ins[REGISTER])))
    own = max(own, bits - len(idle))
    new = [unit << place for unit in units(bits)]
    ins[REGISTER][:0] = new[:own]
    for (name, index), column in zip(idle, new[own:], strict=False):
        ins[name][index] = column
    return LinearLayout(tuple((name, tuple(c)) for name, c in ins.items()), layout.outs)


@lru_cache(maxsize=1024)
def line(layout: LinearLayout, axis: int) -> LinearLayout:
    """The layout of the numbers along an axis: of rank 1, and held where the axis has them."""
    for _ in range(-axis - 1):
        layout = reduced(layout, -1)
    while len(layout.outs) > 1:
        layout = reduced(layout, 0)
    return compact(layout)
