"""Ops of rows that are one launch: arrays of one shape, a program for some rows of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tile
from tile.ops.core.call import FLOATS, Call
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.core.row_tiles import row_tile


def launch_rows(
    op: str,
    kernel: Any,
    arrays: dict[str, Any],
    block: int,
    out: Any = None,
    dtypes: Sequence[DType] = FLOATS,
) -> Any:
    """Return what `kernel` computes from rows of arrays, of their shape and type.

    The kernel takes the arrays and the result, the stride of the rows of each, the number of rows
    and their length, ROWS and BLOCK (row_tiles.py), of at most `block` elements. out: it may be the
    first array.
    """
    call = Call(op)
    (name, first), *others = arrays.items()
    source = call.array(name, first, dtypes=dtypes)
    operands = [source]
    for other, value in others:
        operands.append(call.array(other, value, dtypes=(source.dtype,), shape=source.shape))
    result = call.output("out", out, source.shape, source.dtype, in_place=(name,))
    rows = [operand.rows() for operand in (*operands, result)]
    length = rows[0].length
    if result.size:
        shape = row_tile(call.backend, rows[0], block)
        launch(kernel, (tile.cdiv(rows[0].count, shape["ROWS"]),))(
            *(*arrays.values(), result.value, *(each.stride for each in rows)),
            *(rows[0].count, length),
            **shape,
        )
    return result.value
