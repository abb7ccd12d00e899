"""Functions of corresponding elements of lists of arrays, and their norms, many arrays a launch.

    foreach_apply: outs[k][i] = f(xs[k][i], ys[k][i], alpha)
    foreach_norms: norms[k] = sqrt(sum over i of xs[k][i] ^ 2)

Models have hundreds of small parameters, and a launch for each costs more than its work. A launch
takes the addresses of up to `MOST` arrays, and has programs for the blocks of all: a program
compares its index with those at which arrays start. Lists are padded with empty arrays to a power
of two, so that few kernels are compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.frontend.python.source import DeviceFunction
from tile.ops.core.call import BF16, F16, F32, Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.short_repr import short_repr
from tile.tracebacks import public_function

BLOCK = 1024  # elements of a program
MOST = 32  # arrays of a launch
DTYPES = (F16, BF16, F32)


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
    for k in tl.static_range(COUNT):
        if (program >= starts[k]) & (program < starts[k + 1]):
            first = (program - starts[k]).to(tl.int64) * BLOCK
            apply_block(xs[k], ys[k], outs[k], first, sizes[k], alpha, FUNCTION, BLOCK)


@tile.jit(do_not_specialize=("starts", "sizes"))
def squares_kernel(xs, parts_ptr, starts, sizes, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    for k in tl.static_range(COUNT):
        if (program >= starts[k]) & (program < starts[k + 1]):
            at = (program - starts[k]).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
            x = widen(tl.load(xs[k] + at, mask=at < sizes[k], other=0.0))
            tl.store(parts_ptr + program, tl.sum(x * x, axis=0))


@tile.jit(do_not_specialize=("starts",))
def norms_kernel(parts_ptr, norms_ptr, first, starts, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    for k in tl.static_range(COUNT):
        if tl.program_id(0) == k:
            total = tl.zeros((BLOCK,), tl.float32)
            for start in range(starts[k], starts[k + 1], BLOCK):
                total += tl.load(parts_ptr + start + lane, start + lane < starts[k + 1], 0.0)
            tl.store(norms_ptr + first + k, tl.sqrt(tl.sum(total, axis=0)))


@dataclass(frozen=True)
class Chunk:
    """The arrays of one launch, `indices` of a list: where their programs start, and their sizes.

    count: of arrays, with those that pad it.
    """

    indices: range
    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.sizes)

    def of(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arrays of a list for this launch; the first one pads them."""
        own = [values[index] for index in self.indices]
        return (*own, *[own[0]] * (self.count - len(own)))


def chunks(sizes: Sequence[int]) -> Iterator[Chunk]:
    """Yield the launches for arrays of these sizes."""
    for first in range(0, len(sizes), MOST):
        indices = range(first, min(first + MOST, len(sizes)))
        own = [sizes[index] for index in indices]
        own += [0] * (tile.next_power_of_2(len(own)) - len(own))
        starts = itertools.accumulate((tile.cdiv(size, BLOCK) for size in own), initial=0)
        yield Chunk(indices, tuple(starts), tuple(own))


def _arrays(call: Call, name: str, values: Any, like: Sequence[Operand] = ()) -> list[Operand]:
    """Return the arrays of a list, all of one type; of the shapes of `like` unless it is empty."""
    if not isinstance(values, list | tuple):
        raise ArgumentTypeError(
            f"{call.op}: `{name}` is {short_repr(values)}; it is a list of arrays"
        )
    if like and len(values) != len(like):
        raise ArgumentValueError(
            f"{call.op}: `{name}` has {len(values)} arrays, and `xs` {len(like)}"
        )
    operands: list[Operand] = []
    for index, value in enumerate(values):
        kind = (like or operands)[0].dtype if like or operands else None
        operand = call.array(
            f"{name}[{index}]",
            value,
            dtypes=DTYPES if kind is None else (kind,),
            rank=None if not like else len(like[index].shape),
            shape=like[index].shape if like else None,
        )
        operands.append(operand.contiguous())
    return operands


@public_function
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
    sources = _arrays(call, "xs", xs)
    others = sources if ys is None else _arrays(call, "ys", ys, sources)
    if out is not None and (not isinstance(out, list | tuple) or len(out) != len(sources)):
        raise ArgumentTypeError(f"foreach_apply: `out` is a list of {len(sources)} arrays")
    results = [
        call.output(
            f"out[{index}]",
            None if out is None else out[index],
            source.shape,
            source.dtype,
            in_place=(f"xs[{index}]", f"ys[{index}]"),
        ).contiguous()
        for index, source in enumerate(sources)
    ]
    values = [[operand.value for operand in each] for each in (sources, others, results)]
    for chunk in chunks([source.size for source in sources]):
        if chunk.starts[-1]:
            launch(apply_kernel, (chunk.starts[-1],))(
                *(*map(chunk.of, values), chunk.starts, chunk.sizes, alpha),
                COUNT=chunk.count,
                FUNCTION=function,
                BLOCK=BLOCK,
            )
    return tuple(values[2])


@public_function
def foreach_norms(xs: Sequence[Any]) -> Any:
    """Return the Euclidean norms of the arrays of `xs`, an array of float32.

    xs: as in `foreach_apply`, with one array or more. Programs add up blocks, and one program for
    each array their sums, in a fixed order. The norm of the norms and the function "scale" clip
    gradients.
    """
    call = Call("foreach_norms")
    sources = _arrays(call, "xs", xs)
    if not sources:
        raise ArgumentValueError("foreach_norms: `xs` has no arrays")
    norms = call.new((len(sources),), F32)
    values = [source.value for source in sources]
    for chunk in chunks([source.size for source in sources]):
        parts = call.new((chunk.starts[-1],), F32)
        if parts.size:
            launch(squares_kernel, parts.shape)(
                *(chunk.of(values), parts.value, chunk.starts, chunk.sizes),
                COUNT=chunk.count,
                BLOCK=BLOCK,
            )
        launch(norms_kernel, (len(chunk.indices),))(
            *(parts.value, norms.value, chunk.indices.start, chunk.starts),
            COUNT=chunk.count,
            BLOCK=BLOCK,
        )
    return norms.value


def foreach_apply_reference(
    function: Any, xs: Sequence[Array], ys: Sequence[Array] | None = None, alpha: float = 1.0
) -> tuple[Array, ...]:
    """Return the results in float64, of a function by name."""
    others = xs if ys is None else ys
    pairs = (wide(x, y) for x, y in zip(xs, others, strict=True))
    return tuple(REFERENCES[function](x, y, alpha) for x, y in pairs)


def foreach_norms_reference(xs: Sequence[Array]) -> Array:
    """Return the norms in float64."""
    return np.array([np.sqrt((x * x).sum()) for x in wide(*xs)])
