"""Compute dot operands from buffered tiles in the layout in which they are used.

`remove-conversions` compares a conversion of an operand with one of the tile that it is computed
from, which is no smaller. But a tile in a multi-buffer can be read in any layout, so that only the
computation counts, which several threads may do for the same elements.

    %x = local_load %s : tile<.., #load>         %x = local_load %s : tile<.., #dot>
    %y = mul %x, %scale : tile<.., #load>        %y = mul %x, %scale : tile<.., #dot>
    %z = convert_layout %y : tile<.., #dot>
"""

from __future__ import annotations

from tile.simt.assign.layout_cost import RematerializationPlan, conversion_cost
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import layout_of, tile_type
from tile.simt.schedule.dot_slices import is_loaded_in_slices
from tile.simt.schedule.pipeline_loops.buffer_readers import conversions
from tile.simt.schedule.pipeline_loops.select_loads import LoopPlan
from tile.simt.target import SimtTarget


def recompute_operands(plan: LoopPlan, target: SimtTarget) -> bool:
    """Replace conversions in a loop by computations from its buffers, where these cost less.

    Returns True if there was one: then other layouts of the buffers may be better.
    """
    changed = False
    (body,) = plan.loop.regions
    tiles = frozenset(each.load.result for each in plan.buffered)
    reads = {each.op for tile in tiles for each in conversions(tile)}
    for op in [op for op in body if op.defn is convert_layout and op not in reads][::-1]:
        if not op.result.uses or is_loaded_in_slices(op, target):
            continue
        value, layout = op.inputs[0], layout_of(op.result)
        computed = RematerializationPlan(target.tuning, body, op, buffered=tiles)
        converted = conversion_cost(tile_type(value), layout_of(value), layout, target.tuning)
        if computed.cost(value, layout) < converted:
            op.replace_by([computed.make(value, layout)])
            changed = True
    return changed
