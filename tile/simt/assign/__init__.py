"""Assign a layout to each tile, then remove the layout conversions that this inserts.

assign_layouts        the pass from TILE to LAID_OUT, which inserts conversions
anchor_layouts        anchor layouts, in which expensive values are computed
preferred_layouts     the layouts in which each value's users take it without a conversion
coalesce              coalesced layouts of memory accesses
decompose_dots        dots that the target has no mma for, as others that it has one for
narrow_dots           dots of widened operands in the type that these had
transpose_dots        dots whose transposes wgmma computes without a copy of an operand
dot_layouts           layouts of dots: their distribution over warps and lanes
layout_cost           the cost model of operations, conversions and accesses; rematerialization
remove_conversions    the pass that removes conversions or makes them cheaper
"""
