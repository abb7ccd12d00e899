"""Loops whose warpgroups release the stages of TMA loads on mbarriers, with no producer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import assert_each_is_needed, lowered
from tests.simt.test_warp_specialize import FAULTS
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import (
    RaceError,
    WgmmaInFlightError,
)
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.op_definition import Trait
from tile.ir.ops import memory
from tile.simt import ops
from tile.simt.target import WGMMA

D, COLUMNS, ROWS = 64, 64, 128


@tile.jit
def attend(k, v, q, N, highest, weights, total, SIGN: tl.constexpr, BN: tl.constexpr):
    """The second dot needs what threads compute from the first one: none stays in flight."""
    for start in tl.range(0, N, BN, warp_specialize=False):
        scores = tl.dot(q, tl.trans(k.load([start, 0]))) * SIGN
        higher = tl.maximum(highest, tl.max(scores, 1))
        powers = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(highest - higher)
        weights = weights * shrink + tl.sum(powers, 1)
        total = tl.dot(powers.to(tl.float16), v.load([start, 0]), total * shrink[:, None])
        highest = higher
    return highest, weights, total


@tile.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    SECOND: tl.constexpr = False,
):  # fmt: skip
    k = tl.make_tensor_descriptor(k_ptr, [N, D], [D, 1], [BN, D])
    v = tl.make_tensor_descriptor(v_ptr, [N, D], [D, 1], [BN, D])
    at = tl.arange(0, BM)[:, None] * D + tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + at)
    highest = tl.full((BM,), -float("inf"), tl.float32)
    weights = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    highest, weights, total = attend(k, v, q, N, highest, weights, total, 1.0, BN)
    if SECOND:  # its buffers are where those of the first loop were
        highest, weights, total = attend(k, v, q, N, highest, weights, total, -1.0, BN)
    tl.store(o_ptr + at, (total / weights[:, None]).to(tl.float16))


def case(keys: int, rows: int = ROWS, *, second: bool = False) -> Kernel:
    types = {**dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16:16"), "N": "i32:16"}
    constants = {"BM": rows, "BN": COLUMNS, "D": D, "SECOND": second}

    def arguments() -> list[Any]:
        q, k, v = (numbers(n, D, dtype=np.float16, seed=n) for n in (rows, keys, keys + 1))
        return [q / 8, k, v[:keys], np.zeros((rows, D), np.float16), np.int32(keys)]

    return Kernel(attention, types, constants, (1, 1, 1), arguments)


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, second: bool) -> np.ndarray:
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    powers = np.exp2(scores) + (np.exp2(-scores) if second else 0)
    return powers @ v.astype(np.float64) / powers.sum(1, keepdims=True)


def loops(module: Module) -> list[Operation]:
    """The loops with wgmmas."""
    return [
        op
        for op in module.walk()
        if op.has_trait(Trait.LOOP) and any(x.defn is ops.wgmma.wgmma for x in op.walk())
    ]


def in_loops(module: Module, *defns: object) -> list[Operation]:
    return [op for loop in loops(module) for op in loop.walk() if op.defn in defns]


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize(("keys", "stages"), [(64, 2), (320, 2), (320, 3), (448, 4), (0, 2)])
def test_results(keys: int, stages: int, second: bool) -> None:
    """No barrier is left in the loop, whose warpgroups read each stage before it is filled again."""
    kernel = case(max(keys, 64), second=second)
    module = lowered(kernel, WGMMA, 8, stages)
    assert len(in_loops(module, ops.tma.mbarrier_arrive)) == len(loops(module)) == 1 + second
    assert not in_loops(module, memory.barrier)
    q, k, v, o, _ = kernel.arguments()
    run_threads(module, WGMMA, 8, kernel.grid, [q, k, v, o, np.int32(keys)])
    if keys:
        np.testing.assert_allclose(o, expected(q, k, v, second=second), atol=2e-3)


def test_one_warpgroup_has_a_barrier() -> None:
    """Its warps are together at each wgmma anyway."""
    module = lowered(case(320, 64), WGMMA, 4, 2)
    assert not in_loops(module, ops.tma.mbarrier_arrive)
    assert len(in_loops(module, memory.barrier)) == 1


@pytest.mark.parametrize("stages", [2, 3])
def test_what_is_missing_is_reported(stages: int) -> None:
    """Each wait, arrive, barrier, fence and load is needed."""
    kernel = case(320)
    module = lowered(kernel, WGMMA, 8, stages)
    assert_each_is_needed(module, WGMMA, 8, kernel, FAULTS)


def test_an_arrive_before_the_last_read_is_reported() -> None:
    kernel = case(320)
    module = lowered(kernel, WGMMA, 8, 2)
    (arrive,) = in_loops(module, ops.tma.mbarrier_arrive)
    wgmmas = in_loops(module, ops.wgmma.wgmma)
    arrive.move_before(wgmmas[-1])
    with pytest.raises((RaceError, WgmmaInFlightError)):
        run_threads(module, WGMMA, 8, kernel.grid, kernel.arguments())
