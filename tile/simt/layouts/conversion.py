"""Plan layout conversions, by the innermost level of the hierarchy that can do them.

The map `src⁻¹ ∘ dst` gives, for each register, lane and warp of `dst`, the position of its element
in `src`. If it preserves lanes and warps, registers are renamed. If it preserves warps, shuffles do
it. Otherwise the tile goes through shared memory. The map is defined from the receiver's side,
since each position of `dst` must be filled, copies too, and one holder of each element in `src` is
enough.

    >>> from tile.simt.layouts.blocked import blocked
    >>> rows = blocked([16, 16], [1, 8], [16, 2], [1, 1])
    >>> plan_conversion(rows, blocked([16, 16], [1, 8], [16, 2], [1, 1], [0, 1]), 16).shuffles
    4
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.simt.layouts.banks import BANKS, Banks
from tile.simt.layouts.dims import BLOCK, LANE, REGISTER, WARP, LayoutError, require
from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.shared_conversion import Shared, through_shared
from tile.simt.layouts.shuffle import Shuffle, by_shuffles

THREAD = (REGISTER, LANE, WARP)


@dataclass(frozen=True)
class Renaming:
    """A conversion in which each register takes the value of a register of the same thread."""

    registers: tuple[int, ...]

    @property
    def is_identity(self) -> bool:
        """True if nothing changes."""
        return self.registers == tuple(range(len(self.registers)))


Conversion = Renaming | Shuffle | Shared


def plan_conversion(
    src: LinearLayout,
    dst: LinearLayout,
    element_bits: int,
    *,
    shuffles: bool = True,
    matrix_loads: bool = False,
    matrix_stores: bool = False,
    banks: Banks = BANKS,
) -> Conversion:
    """Plan the cheapest conversion of `element_bits` (8, 16, 32, 64) elements from `src` to `dst`.

    Both are surjective layouts of (register, lane, warp, block), any of which may be left out.
    `shuffles`, `matrix_loads` (ldmatrix) and `matrix_stores` (stmatrix) say which instructions the
    target has. Raises `LayoutError` for layouts of different tiles or different numbers of lanes,
    warps or blocks, and where elements move between blocks.
    """
    require(element_bits in (8, 16, 32, 64), f"elements have 8 to 64 bits, not {element_bits}")
    src, dst = distributed(src), distributed(dst)
    for name in (LANE, WARP, BLOCK):
        both = src.in_size(name), dst.in_size(name)
        require(both[0] == both[1], f"a conversion keeps the {name}s, and does not make {both}")
    pull = src.invert_and_compose(dst)
    renamed = pull.quotient(LANE, WARP, BLOCK)
    if renamed is not None:
        return Renaming(tuple(renamed.table()[REGISTER].tolist()))
    in_block = pull.quotient(BLOCK)
    if in_block is None:
        raise LayoutError(f"elements of {src} would have to change blocks to become {dst}")
    src, dst = src.select_ins(*THREAD), dst.select_ins(*THREAD)
    if shuffles and in_block.select_outs(WARP).is_identity_on(WARP):
        return by_shuffles(src, dst, element_bits)
    if not (src.is_surjective() and dst.is_surjective()):
        raise LayoutError(f"a block does not hold all of {src}, which shared memory takes whole")
    return through_shared(
        src,
        dst,
        element_bits,
        banks,
        matrix_loads=matrix_loads,
        matrix_stores=matrix_stores,
    )


def distributed(layout: LinearLayout) -> LinearLayout:
    """Return the layout with inputs (register, lane, warp, block), in this order."""
    every = (*THREAD, BLOCK)
    others = [name for name in layout.in_dims if name not in every]
    if others:
        raise LayoutError(f"registers, lanes, warps and blocks hold a tile, but not {others}")
    images = dict(layout.ins)
    return LinearLayout(tuple((name, images.get(name, ())) for name in every), layout.outs)
