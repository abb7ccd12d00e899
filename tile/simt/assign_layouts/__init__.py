"""Assign a layout to each tile: TILE to LAID_OUT.

machine      the options that layouts are chosen for
wishes       preferred layouts: what the users of a value would take without a conversion
homes        anchor layouts of loads, dots, loops and the like
placing      operations with layouts, and the conversions between them
"""

from __future__ import annotations

from tile.analysis.axis_info import axis_info
from tile.ir.core import Function, Module
from tile.ir.levels import Level
from tile.ir.passes import module_pass
from tile.ir.types import Tile, with_layout
from tile.simt.assign_layouts.homes import homes
from tile.simt.assign_layouts.machine import Machine
from tile.simt.assign_layouts.placing import place
from tile.simt.coalescing import accesses, coalesced
from tile.simt.dot_layouts import Tiling, replace_dots
from tile.simt.target import GENERIC, SimtTarget


@module_pass("assign-layouts", before=Level.TILE, after=Level.LAID_OUT)
def assign_layouts(
    module: Module,
    *,
    target: SimtTarget = GENERIC,
    num_warps: int = 4,
    thread_tile: int = Tiling.thread_tile,
    warp_rows: int = Tiling.warp_rows,
) -> None:
    """Give every tile a layout, and insert conversions where an operation needs another.

    Memory accesses have coalesced layouts (`coalescing`), dots those of their instructions
    (`dot_layouts`), which become `matrix_dot` where the target has mma instructions. Loaded and
    expensive values keep their layout through arithmetic, loops and branches. Cheap values
    (indices, constants, pointers made of them) are computed in each layout in which they are used.
    `thread_tile` and `warp_rows` are sizes of dots; see `dot_layouts.Tiling`.

        %o = arange {start = 0, end = 64}         %o = arange ... : tile<64xi32, #a>
        %p = splat %x {shape = (64)}              %p = splat %x ... : tile<64xptr<f32>, #a>
        %q = addptr %p, %o {stride = 4}           %q = addptr ... : tile<64xptr<f32>, #a>
        %v = load %q : tile<64xf32>               %v = load %q : tile<64xf32, #a>
    """
    machine = Machine(target, num_warps)
    for function in module:
        _lay_out(function, machine, Tiling(thread_tile, warp_rows))
    for function in module:
        function.result_types = tuple(
            with_layout(ty, machine.default(ty)) if isinstance(ty, Tile) else ty
            for ty in function.result_types
        )


def _lay_out(function: Function, machine: Machine, tiling: Tiling) -> None:
    properties = accesses(function, axis_info(function), machine.target)
    layouts = coalesced(properties, machine.target, machine.num_warps)
    dots = replace_dots(function, machine.target, machine.num_warps, tiling)
    place(function, homes(function, machine, layouts, dots))
