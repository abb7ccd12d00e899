"""A step of AdamW (Loshchilov and Hutter, arXiv:1711.05101) in one pass over memory.

    m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
    p = p - lr (decay p + (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps))

Separate operators would read and write p, m and v several times. One kernel reads p, g, m and v
once and writes p, m and v in place. Moments are float32, whatever the type of the parameters; the
corrections of their bias, which depend on the step t alone, are computed on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import BF16, F16, F32, MOST_INTEGER, Call
from tile.ops.core.call_plans import Varying, launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.options import is_number
from tile.ops.core.reference import Array
from tile.ops.core.tables import Table
from tile.short_repr import short_repr

BLOCK = 1024  # elements of a program
# Of seven arrays. H200, 4096 x 8192, float16, 2026-11-30.
WARPS = Table({(): {}}, {"nvptx": {(): {"num_warps": 8}}})


@tile.jit
def adamw_kernel(
    p_ptr,
    g_ptr,
    m_ptr,
    v_ptr,
    n,
    lr,
    m_correction,
    v_correction,
    BETA1: tl.constexpr,
    BETA2: tl.constexpr,
    EPS: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    p = widen(tl.load(p_ptr + at, mask=inside, other=0.0))
    g = widen(tl.load(g_ptr + at, mask=inside, other=0.0))
    m = BETA1 * tl.load(m_ptr + at, mask=inside, other=0.0) + (1.0 - BETA1) * g
    v = BETA2 * tl.load(v_ptr + at, mask=inside, other=0.0) + (1.0 - BETA2) * g * g
    step = m * m_correction / (tl.sqrt(v * v_correction) + EPS)
    tl.store(p_ptr + at, p - lr * (DECAY * p + step), mask=inside)
    tl.store(m_ptr + at, m, mask=inside)
    tl.store(v_ptr + at, v, mask=inside)


@planned(
    step=lambda step: type(step) is int and 1 <= step <= MOST_INTEGER,
    lr=lambda lr: is_number(lr, low=0),
)
def adamw(
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    step: int,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decay: float = 0.01,
) -> tuple[Any, Any, Any]:
    """Update the parameters `p` and their moments `m` and `v` in place, and return all three.

    p, g: parameters and gradients, both float16, bfloat16 or float32; m, v: float32. All have one
    shape and are contiguous. step: t, from 1. lr, betas, eps, decay: as above.
    """
    call = Call("adamw")
    source = call.array("p", p, dtypes=(F16, BF16, F32)).contiguous()
    call.like(source, g=g)
    for name, moment in (("m", m), ("v", v)):
        call.output(name, moment, source.shape, F32).contiguous()
    call.output("p", p, source.shape, source.dtype, in_place=("p",))
    step = call.integer("step", step, low=1)
    lr = call.number("lr", lr, low=0)
    beta1, beta2 = _averages(call, betas)
    options = {"EPS": call.number("eps", eps, low=0), "DECAY": call.number("decay", decay, low=0)}
    if source.size:
        launch(adamw_kernel, (tile.cdiv(source.size, BLOCK),))(
            *(p, g, m, v, source.size, Varying("lr", lr, float)),
            *(Varying("step", step, correction(beta)) for beta in (beta1, beta2)),
            **(options | {"BETA1": beta1, "BETA2": beta2, "BLOCK": BLOCK}),
            **WARPS.select(call.backend),
        )
    return p, m, v


def _averages(call: Call, betas: Any) -> tuple[float, float]:
    """Return the shares of the averages of both moments, below 1; raise `ArgumentError`."""
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise ArgumentValueError(f"adamw: `betas` is {short_repr(betas)}; it is two numbers")
    below_1 = float(np.nextafter(1.0, 0.0))
    first, second = (call.number("betas", beta, low=0, high=below_1) for beta in betas)
    return first, second


def correction(beta: float) -> Callable[[int], float]:
    """Return the function from the step to that by which a moment is multiplied."""
    return lambda step: 1 / (1 - beta**step)


def adamw_reference(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    step: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    decay: float,
) -> tuple[Array, Array, Array]:
    """Return new parameters and moments in float64."""
    m = betas[0] * m + (1 - betas[0]) * g
    v = betas[1] * v + (1 - betas[1]) * g * g
    mean, variance = m / (1 - betas[0] ** step), v / (1 - betas[1] ** step)
    return p - lr * (decay * p + mean / (np.sqrt(variance) + eps)), m, v
