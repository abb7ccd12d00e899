"""Reductions, scans, sorts and the like in terms of operations that one warp can do.

axis_split    split an axis by the owners of its bits; the indices along it
reduce        reductions, and the regions that combine elements
scan          scans
indexing      gathers and histograms through shared memory, sorts, reversal
rank          the order of elements by digits, through shared memory
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tile.ir.core import Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level, OpDef
from tile.ir.ops import arith, shape
from tile.ir.ops import indexing as indexing_ops
from tile.ir.ops import reduce as reduce_ops
from tile.ir.passes import module_pass
from tile.ir.types import Tile
from tile.simt.assign.remove_conversions import fold, sink_conversions
from tile.simt.lower.decompose.indexing import flip, gather, histogram, sort
from tile.simt.lower.decompose.rank import rank, scatter
from tile.simt.lower.decompose.reduce import arg_reduce, reduce, reduce_region
from tile.simt.lower.decompose.scan import scan, scan_region
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.target import GENERIC, SimtTarget

# Builds, before an operation, others with the same results, in any layouts. Returns these results,
# or None to leave the operation as it is.
Rule = Callable[[Operation, LayoutBuilder, SimtTarget], Sequence[Value] | None]

RULES: dict[OpDef, Rule] = {
    reduce_ops.reduce: reduce,
    reduce_ops.arg_reduce: arg_reduce,
    reduce_ops.scan: scan,
    reduce_ops.reduce_region: reduce_region,
    reduce_ops.scan_region: scan_region,
    indexing_ops.sort: sort,
    indexing_ops.gather: gather,
    indexing_ops.scatter: scatter,
    indexing_ops.histogram: histogram,
    indexing_ops.rank: rank,
    shape.flip: flip,
}


@module_pass("decompose", before=Level.LAID_OUT)
def decompose(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Decompose reductions, scans, sorts and the like into operations that one warp can do.

    All kinds of reductions become `reduce_region`, all kinds of scans `scan_region`. Along their
    axis the elements are in registers, and in lanes if the target has shuffles; those of a scan in
    order. An axis that several warps share is split by a reshape. Each warp combines its part, and
    then the partial results are combined.

        %r = reduce %x {kind = sum} : f32         %a = reshape %x {shape = (4, 128)}
                                                  %b = reduce_region %a : tile<4xf32, ...> { add }
                                                  %c = convert_layout %b : tile<4xf32, ...>
                                                  %r = reduce_region %c : f32 { add }

    A result is converted to the layout of the operation that it stands for, or at once to that of
    its use.

    Sorts become butterflies with comparisons, and `flip` a `butterfly`; `gather` and `histogram` go
    through buffers in shared memory.

        %y = gather %x, %i                        %m = local_alloc : shared<...>
                                                  local_store %m, %x
                                                  %y = local_gather %m, %i
    """
    for function in module:
        converted: list[Operation] = []
        for op in list(function.walk()):
            rule = RULES.get(op.defn)
            if rule is not None:
                converted += _replace(op, rule, target)
        # Reductions that combine the elements of one warp keep their operands.
        sink_conversions(converted, target.tuning, below_reductions=False)
        fold(function)


def _replace(op: Operation, rule: Rule, target: SimtTarget) -> list[Operation]:
    """Replace an operation; return the conversions of its results."""
    assert op.block is not None
    b = LayoutBuilder(op.block, op, op.loc)
    values = rule(op, b, target)
    if values is None:
        return []
    pairs = zip(values, op.results, strict=True)
    results = [
        b.convert(v, layout_of(old)) if isinstance(old.type, Tile) else v for v, old in pairs
    ]
    op.replace_by(results)
    return [
        made
        for made in map(_before_cast, results)
        if made is not None and made.defn is convert_layout
    ]


def _before_cast(value: Value) -> Operation | None:
    """Return the operation that makes a value, or what is cast to it."""
    op = value.op
    return op.inputs[0].op if op is not None and op.defn is arith.cast else op
