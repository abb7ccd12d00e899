"""Operands that a loop does not change, read from shared memory in each iteration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.backends.interp.simulator.counters import Counters
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.module import Module
from tile.simt import ops
from tile.simt.pass_pipeline import lower
from tile.simt.target import MMA, SimtTarget

# So few registers that the operand of a quick test does not fit, with and without copies.
SMALL = replace(MMA, name="small", registers=96)
SYNCHRONOUS = replace(SMALL, name="synchronous", cp_async_bytes=())
SHAPE = (64, 64)


@tile.jit
def powers(x_ptr, y_ptr, out_ptr, rounds, N: tl.constexpr):
    """The sum of the dots of one tile with several others."""
    rows = tl.arange(0, N)[:, None]
    at = rows * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    total = tl.zeros((N, N), dtype=tl.float32)
    for number in range(rounds):
        total = tl.dot(x, tl.load(y_ptr + number * N * N + at), total)
    tl.store(out_ptr + at, total)


def module() -> Module:
    types = {"x_ptr": "*fp16:16", "y_ptr": "*fp16:16", "out_ptr": "*fp32:16", "rounds": "i32"}
    compiled = tile.compile(powers, types, {"N": SHAPE[0]}, {}, "interp")
    return compiled.artifact.module.clone()


@pytest.mark.parametrize("rounds", [0, 1, 5])
@pytest.mark.parametrize("target", [MMA, SMALL, SYNCHRONOUS], ids=str)
def test_the_result_is_the_same(target: SimtTarget, rounds: int) -> None:
    lowered = module()
    lower(lowered, target, num_warps=4, num_stages=3)
    (loop,) = [op for op in lowered.walk() if op.name == "for"]
    read = {op["mem"] for op in loop.walk() if op.defn is ops.thread.ldmatrix}
    assert len(read) == (1 if target is MMA else 2)
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, SHAPE).astype(np.float16)
    y = random.integers(-4, 5, (5, *SHAPE)).astype(np.float16)
    out = np.zeros(SHAPE, np.float32)
    run_threads(lowered, target, 4, (1, 1, 1), [x, y, out, np.int32(rounds)], Counters())
    wanted = sum((x.astype(np.float32) @ y[i] for i in range(rounds)), np.zeros(SHAPE, np.float32))
    np.testing.assert_array_equal(out, wanted)
