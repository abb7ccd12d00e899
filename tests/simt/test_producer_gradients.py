"""The gradients of attention in one kernel with a producer: vectors by TMA, dq by reductions."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import lowered
from tests.simt.test_warp_specialize import FAULTS
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import RaceError, WgmmaInFlightError
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.ops import memory
from tile.simt.ops import tma, wgmma
from tile.simt.ops.order import warpgroup_barrier
from tile.simt.ops.warp_specialize import warp_specialize
from tile.simt.target import WGMMA

LOG2_E = 1.4426950408889634
HEADS, TOKENS, SIZE = 1, 256, 64


@tile.jit
def gradients(
    q_ptr, k_ptr, v_ptr, dout_ptr, log_sum_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, rows, N,
    SCALE: tl.constexpr, LOG2_SCALE: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, DP_FIRST: tl.constexpr,
):  # fmt: skip
    """A block of keys, for all queries: rows of the scores are keys."""
    q_desc = tl.make_tensor_descriptor(q_ptr, [rows, D], [D, 1], [BM, D])
    dout_desc = tl.make_tensor_descriptor(dout_ptr, [rows, D], [D, 1], [BM, D])
    dq_desc = tl.make_tensor_descriptor(dq_ptr, [rows, D], [D, 1], [BM, D])
    log_sums = tl.make_tensor_descriptor(log_sum_ptr, [rows], [1], [BM])
    deltas = tl.make_tensor_descriptor(delta_ptr, [rows], [1], [BM])
    tl.assume(N >= 0)  # no reduction begins at a negative index
    first = tl.program_id(1) * N
    key = first + tl.program_id(0) * BN + tl.arange(0, BN)
    keys = key[:, None] * D + tl.arange(0, D)[None, :]
    k, v = tl.load(k_ptr + keys), tl.load(v_ptr + keys)
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    for start in tl.range(first, first + N, BM, warp_specialize=True):
        q = q_desc.load([start, 0])
        scores = tl.dot(k, tl.trans(q)) * LOG2_SCALE
        p = tl.exp2(scores - log_sums.load([start])[None, :])
        dout = dout_desc.load([start, 0])
        if DP_FIRST:
            dp = tl.dot(v, tl.trans(dout))
        dv = tl.dot(p.to(tl.float16), dout, dv)
        if not DP_FIRST:
            dp = tl.dot(v, tl.trans(dout))
        ds = (p * (dp - deltas.load([start])[None, :])).to(tl.float16)
        dq = tl.dot(tl.trans(ds), k)
        dk = tl.dot(ds, q, dk)
        dq_desc.atomic_add([start, 0], dq * SCALE)
    tl.store(dk_ptr + keys, (dk * SCALE).to(tl.float16))
    tl.store(dv_ptr + keys, dv.to(tl.float16))


@cache
def problem() -> tuple[list[Any], list[Any]]:
    """The arrays of a call, and its results in float64."""
    q, k, v, dout = (numbers(HEADS, TOKENS, SIZE, dtype=np.float16, seed=i) for i in range(4))
    wide = [x.astype(np.float64) for x in (q, k, v, dout)]
    scores = wide[0] @ wide[1].swapaxes(1, 2) * SIZE**-0.5
    log_sums = np.log(np.exp(scores).sum(-1))
    p = np.exp(scores - log_sums[..., None])
    delta = (p @ wide[2] * wide[3]).sum(-1)
    ds = p * (wide[3] @ wide[2].swapaxes(1, 2) - delta[..., None]) * SIZE**-0.5
    vectors = [(log_sums * LOG2_E).astype(np.float32), delta.astype(np.float32)]
    results = [ds @ wide[1], ds.swapaxes(1, 2) @ wide[0], p.swapaxes(1, 2) @ wide[3]]
    return [q, k, v, dout, *vectors], results


def arguments() -> list[Any]:
    dq = np.zeros((HEADS, TOKENS, SIZE), np.float32)
    dk, dv = np.zeros_like(dq, np.float16), np.zeros_like(dq, np.float16)
    return [*problem()[0], dq, dk, dv, *map(np.int32, (HEADS * TOKENS, TOKENS))]


SIGNATURE = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "dout_ptr", "dk_ptr", "dv_ptr"), "*fp16:16")
SIGNATURE |= dict.fromkeys(("log_sum_ptr", "delta_ptr", "dq_ptr"), "*fp32:16")
SIGNATURE |= dict.fromkeys(("rows", "N"), "i32:16")


def case(keys: int = 64, dp_first: bool = False) -> Kernel:
    constants = {"SCALE": SIZE**-0.5, "LOG2_SCALE": SIZE**-0.5 * LOG2_E, "D": SIZE}
    constants |= {"BM": 64, "BN": keys, "DP_FIRST": dp_first}
    return Kernel(gradients, SIGNATURE, constants, (TOKENS // keys, HEADS, 1), arguments)


def pending(module: Module) -> list[int]:
    return [op["pending"] for op in module.walk() if op.defn is wgmma.wgmma_wait]


def names(module: Module) -> list[str]:
    return [op.name for op in module.walk()]


@pytest.mark.parametrize("dp_first", [False, True])
@pytest.mark.parametrize(("keys", "warps"), [(64, 4), (128, 8)])
def test_results(keys: int, warps: int, dp_first: bool) -> None:
    """The producer issues all loads of the loop, and TMA adds to dq."""
    kernel = case(keys, dp_first)
    module = lowered(kernel, WGMMA, warps, 2, tma="reduce")
    assert names(module).count("tma_load") == 4
    assert names(module).count("tma_reduce") == names(module).count("warp_specialize") == 1
    launched = arguments()
    run_threads(module, WGMMA, warps, kernel.grid, launched)
    for result, expected in zip(launched[6:9], problem()[1], strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, atol=2e-3)


@pytest.mark.parametrize(("keys", "warps"), [(64, 4), (128, 8)])
def test_what_is_missing_in_the_loops_is_reported(keys: int, warps: int) -> None:
    """But the producer's waits for vectors and dout: a stage of q is released after theirs."""
    kernel = case(keys)
    module = lowered(kernel, WGMMA, warps, 2, tma="reduce")
    faults = {**FAULTS, wgmma.wgmma_wait: (WgmmaInFlightError, RaceError)}
    faults[warpgroup_barrier] = (RaceError,)

    def checked(module: Module) -> list[Operation]:
        return [op for op in module.walk() if op.defn in faults and op.parent is not None]

    (producer,) = [op for op in module.walk() if op.defn is warp_specialize]
    ops = checked(module)
    waits = [op for op in ops if op.defn is tma.mbarrier_wait and producer in op.ancestors()]
    assert len(waits) == 3
    for index, op in enumerate(ops):
        broken = module.clone()
        removed = checked(broken)[index]
        for value in removed.results:
            value.replace_by(removed.inputs[0])
        removed.erase()
        with nullcontext() if op in waits[1:] else pytest.raises(faults[op.defn]):
            run_threads(broken, WGMMA, warps, kernel.grid, arguments())


def test_warpgroups_add_their_own_columns() -> None:
    """They need not wait for each other."""
    module = lowered(case(128), WGMMA, 8, 2, tma="reduce")
    (reduction,) = [op for op in module.walk() if op.defn is tma.tma_reduce]
    assert (reduction["warpgroups"], reduction["axis"]) == (2, -1)
    loop = reduction.parent
    assert loop is not None
    kinds = {
        *(tma.tma_store_wait, tma.tma_reduce, wgmma.wgmma, wgmma.wgmma_wait),
        *(memory.barrier, warpgroup_barrier),
    }
    names = [op.name for op in loop.regions[0] if op.defn in kinds]
    assert names[-8:] == [
        *("barrier", "wgmma", "wgmma", "wgmma_wait"),
        *("tma_store_wait", "warpgroup_barrier", "warpgroup_barrier", "tma_reduce"),
    ]


def test_a_reduction_overlaps_with_the_next_iteration() -> None:
    """Its buffer is waited for when it is written again, and has memory of its own."""
    module = lowered(case(), WGMMA, 4, 2, tma="reduce")
    waits = [op for op in module.walk() if op.defn is tma.tma_store_wait]
    assert [(op["pending"], op["read"], op.parent is not None) for op in waits] == [
        (0, True, True),
        (0, True, False),
    ]


def test_dots_complete_in_their_iteration_where_registers_are_short() -> None:
    """Two dots are issued first in any case; the accumulations are waited for at the end."""
    module = lowered(case(128), WGMMA, 8, 2, tma="reduce")
    assert pending(module) == [2, 1, 1, 1, 0, 0]
    short = replace(WGMMA, tuning=replace(WGMMA.tuning, overlap_registers=200))
    module = lowered(case(128), short, 8, 2, tma="reduce")
    assert pending(module) == [1, 1, 0, 2, 0]
    launched = arguments()
    run_threads(module, short, 8, case(128).grid, launched)
    for result, expected in zip(launched[6:9], problem()[1], strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, atol=2e-3)
