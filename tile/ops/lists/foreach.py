"""Functions of corresponding elements of lists of arrays, many arrays a launch.

    outs[k][i] = f(xs[k][i], ys[k][i], alpha)

A launch has programs for the blocks of many arrays (array_lists.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tile
import tile.language as tl
from tile.errors import ArgumentTypeError
from tile.frontend.python.source import DeviceFunction
from tile.ops.core.call import Call
from tile.ops.core.call_plans import Varying, launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.options import is_number
from tile.ops.core.reference import Array, wide
from tile.ops.lists.array_lists import BLOCK, arrays_of, chunks, item_of
from tile.short_repr import short_repr


@tile.jit
def add(x, y, alpha):
    return x + alpha * y


@tile.jit
def mul(x, y, alpha):
    return x * y


@tile.jit
def scale(x, y, alpha):
    return alpha * x


@tile.jit
def lerp(x, y, alpha):
    return x + alpha * (y - x)


FUNCTIONS = {"add": add, "mul": mul, "scale": scale, "lerp": lerp}
REFERENCES = {
    "add": lambda x, y, alpha: x + alpha * y,
    "mul": lambda x, y, alpha: x * y,
    "scale": lambda x, y, alpha: alpha * x,
    "lerp": lambda x, y, alpha: x + alpha * (y - x),
}


@tile.jit
def apply_block(x_ptr, y_ptr, out_ptr, first, size, alpha, FUNCTION, BLOCK: tl.constexpr):
    at = first + tl.arange(0, BLOCK)
    if first + BLOCK <= size:  # without masks, loads are vectors whatever the size is
        x, y = widen(tl.load(x_ptr + at)), widen(tl.load(y_ptr + at))
        tl.store(out_ptr + at, FUNCTION(x, y, alpha))
    else:
        x = widen(tl.load(x_ptr + at, mask=at < size, other=0.0))
        y = widen(tl.load(y_ptr + at, mask=at < size, other=0.0))
        tl.store(out_ptr + at, FUNCTION(x, y, alpha), mask=at < size)


@tile.jit(do_not_specialize=("starts", "sizes"))
def apply_kernel(
    xs,
    ys,
    outs,
    starts,
    sizes,
    alpha,
    COUNT: tl.constexpr,
    FUNCTION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    lists = (xs, ys, outs, starts, sizes)
    x_ptr, y_ptr, out_ptr, start, size = item_of(lists, starts, program, COUNT)
    first = (program - start).to(tl.int64) * BLOCK
    apply_block(x_ptr, y_ptr, out_ptr, first, size, alpha, FUNCTION, BLOCK)


@planned(alpha=is_number)
def foreach_apply(
    function: Any,
    xs: Sequence[Any],
    ys: Sequence[Any] | None = None,
    alpha: float = 1.0,
    *,
    out: Any = None,
) -> tuple[Any, ...]:
    """Return f(x, y, alpha) of the elements of each x of `xs` and y of `ys`, in the type of x.

    function: "add" (x + alpha y), "mul" (x y), "scale" (alpha x), "lerp" (x + alpha (y - x)), or a
    `@tile.jit` function of x, y and alpha. xs, ys: lists of contiguous arrays of one type, float16,
    bfloat16 or float32, with equal shapes in both; without ys, y is x. out: a list of arrays for
    the results, which may be those of xs or ys.
    """
    call = Call("foreach_apply")
    if isinstance(function, str):
        function = FUNCTIONS[call.choice("function", function, tuple(FUNCTIONS))]
    if not isinstance(function, DeviceFunction):
        raise ArgumentTypeError(
            f"foreach_apply: `function` is {short_repr(function)}; it is a name or a `@tile.jit` "
            "function"
        )
    alpha = call.number("alpha", alpha)
    sources = arrays_of(call, "xs", xs)
    others = sources if ys is None else arrays_of(call, "ys", ys, sources)
    if out is not None and (not isinstance(out, list | tuple) or len(out) != len(sources)):
        raise ArgumentTypeError(f"foreach_apply: `out` is a list of {len(sources)} arrays")
    results = [one.contiguous() for one in call.outputs("out", out, sources, ("xs", "ys"))]
    values = [[operand.value for operand in each] for each in (sources, others, results)]
    for chunk in chunks(call.backend, [source.size for source in sources]):
        if chunk.starts[-1]:
            launch(apply_kernel, (chunk.starts[-1],), dependent=True)(
                *map(chunk.of, values),
                *(chunk.starts, chunk.sizes, Varying("alpha", alpha, float)),
                COUNT=chunk.count,
                FUNCTION=function,
                BLOCK=BLOCK,
            )
    return tuple(values[2])


def foreach_apply_reference(
    function: Any, xs: Sequence[Array], ys: Sequence[Array] | None, alpha: float
) -> tuple[Array, ...]:
    """Return the results in float64, of a function by name."""
    others = xs if ys is None else ys
    pairs = (wide(x, y) for x, y in zip(xs, others, strict=True))
    return tuple(REFERENCES[function](x, y, alpha) for x, y in pairs)
