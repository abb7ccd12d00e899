"""The norms of the arrays of a list, many arrays a launch.

    norms[k] = sqrt(sum over i of xs[k][i] ^ 2)

Programs add up blocks of many arrays (array_lists.py), and one program for each array their sums,
in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import F32, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.lists.array_lists import BLOCK, arrays_of, chunks, item_of


@tile.jit(do_not_specialize=("starts", "sizes"))
def squares_kernel(xs, parts_ptr, starts, sizes, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    x_ptr, start, size = item_of((xs, starts, sizes), starts, program, COUNT)
    at = (program - start).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = widen(tl.load(x_ptr + at, mask=at < size, other=0.0))
    tl.store(parts_ptr + program, tl.sum(x * x, axis=0))


@tile.jit(do_not_specialize=("starts",))
def norms_kernel(parts_ptr, norms_ptr, first, starts, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    lane, program = tl.arange(0, BLOCK), tl.program_id(0)
    first_part, end = starts[0], starts[1]
    for k in tl.static_range(1, COUNT):
        first_part = tl.where(program == k, starts[k], first_part)
        end = tl.where(program == k, starts[k + 1], end)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(first_part, end, BLOCK):
        total += tl.load(parts_ptr + start + lane, mask=start + lane < end, other=0.0)
    tl.store(norms_ptr + first + program, tl.sqrt(tl.sum(total, axis=0)))


@planned()
def foreach_norms(xs: Sequence[Any]) -> Any:
    """Return the Euclidean norms of the arrays of `xs`, an array of float32.

    xs: as in `foreach_apply`, with one array or more. Programs add up blocks, and one program for
    each array their sums, in a fixed order. The norm of the norms and the function "scale" clip
    gradients.
    """
    call = Call("foreach_norms")
    sources = arrays_of(call, "xs", xs)
    if not sources:
        raise ArgumentValueError("foreach_norms: `xs` has no arrays")
    norms = call.new((len(sources),), F32)
    values = [source.value for source in sources]
    for chunk in chunks(call.backend, [source.size for source in sources]):
        parts = call.new((chunk.starts[-1],), F32)
        if parts.size:
            launch(squares_kernel, parts.shape, dependent=True)(
                *(chunk.of(values), parts.value, chunk.starts, chunk.sizes),
                COUNT=chunk.count,
                BLOCK=BLOCK,
            )
        launch(norms_kernel, (len(chunk.indices),), dependent=True)(
            *(parts.value, norms.value, chunk.indices.start, chunk.starts),
            COUNT=chunk.count,
            BLOCK=BLOCK,
        )
    return norms.value


def foreach_norms_reference(xs: Sequence[Array]) -> Array:
    """Return the norms in float64."""
    return np.array([np.sqrt((x * x).sum()) for x in wide(*xs)])
