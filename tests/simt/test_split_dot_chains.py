"""Iterations whose dots are done in slices compute the same, and load late."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.backends.interp.simulator.counters import Counters
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.ops import memory
from tile.ir.types import F16
from tile.simt import ops
from tile.simt.layouts.mma_fragments import MmaShape
from tile.simt.pass_pipeline import lower
from tile.simt.target import MMA, SimtTarget

# Without copies a tile is loaded into registers, an iteration ahead.
PLENTY = replace(MMA, name="plenty", cp_async_bytes=())
FEW = replace(PLENTY, name="few", registers=104)
# One of the instructions takes as much of k as the other gives columns; here it takes half.
SMALL_STEPS = replace(FEW, name="small steps", mma_shapes=(MmaShape(16, 8, 8, 16),))
N = 64


@tile.jit
def weighted(x_ptr, y_ptr, w_ptr, out_ptr, rounds, N: tl.constexpr):
    """Two dots with what comes of others: the backward pass of attention, in short."""
    column = tl.arange(0, N)
    at = column[:, None] * N + column[None, :]
    x = tl.load(x_ptr + at)
    first = tl.zeros((N, N), dtype=tl.float32)
    second = tl.zeros((N, N), dtype=tl.float32)
    for number in range(rounds):
        y = tl.load(y_ptr + number * N * N + at)
        scores = tl.dot(x, tl.trans(y)) - tl.load(w_ptr + number * N + column)[None, :]
        powers = tl.exp2(scores)
        first = tl.dot(powers.to(tl.float16), y, first)
        change = powers * (tl.dot(y, x) - 1.0)
        second = tl.dot(change.to(tl.float16), y, second)
    tl.store(out_ptr + at, first)
    tl.store(out_ptr + N * N + at, second)


def lowered(target: SimtTarget) -> Module:
    types = {"x_ptr": "*fp16:16", "y_ptr": "*fp16:16", "w_ptr": "*fp32:16", "out_ptr": "*fp32:16"}
    compiled = tile.compile(weighted, {**types, "rounds": "i32"}, {"N": N}, {}, "interp")
    module = compiled.artifact.module.clone()
    lower(module, target, num_warps=4, num_stages=2)
    return module


def body(module: Module) -> list[Operation]:
    """The operations of the only loop."""
    (loop,) = [op for op in module.walk() if op.name == "for"]
    return list(loop.regions[0])


def result(target: SimtTarget, rounds: int) -> np.ndarray:
    """Return the result for small integers, whose sums are exact in any order."""
    random = np.random.default_rng(0)
    x = np.eye(N, dtype=np.float16)[random.permutation(N)]
    y = random.integers(-2, 3, (4, N, N)).astype(np.float16)
    w = random.integers(-2, 3, (4, N)).astype(np.float32)
    out = np.zeros((2, N, N), np.float32)
    arguments = [x, y, w, out, np.int32(rounds)]
    run_threads(lowered(target), target, 4, (1, 1, 1), arguments, Counters())
    return out


@pytest.mark.parametrize("rounds", [0, 1, 4])
@pytest.mark.parametrize("shapes", [FEW, SMALL_STEPS], ids=str)
def test_the_result_is_the_same(shapes: SimtTarget, rounds: int) -> None:
    whole = replace(PLENTY, mma_shapes=shapes.mma_shapes)
    np.testing.assert_array_equal(result(shapes, rounds), result(whole, rounds))


@pytest.mark.parametrize("target", [FEW, SMALL_STEPS], ids=str)
def test_slices_follow_each_other_and_loads_come_before_the_last_dot(
    target: SimtTarget,
) -> None:
    steps = [op for op in body(lowered(target)) if op.defn in (ops.mma.mma, memory.load)]
    names = ["load" if op.defn is memory.load else "dot" for op in steps]
    assert names == ["dot"] * 7 + ["load"] * 2 + ["dot"]
    tiles = [op for op in steps if op.defn is memory.load and op.result.type.element == F16]
    assert len(tiles) == 1


def test_where_registers_suffice_loads_come_first() -> None:
    steps = [op for op in body(lowered(PLENTY)) if op.defn in (ops.mma.mma, memory.load)]
    assert [op.defn is memory.load for op in steps] == [True] * 2 + [False] * 4


def test_where_copies_are_asynchronous_no_load_waits() -> None:
    module = lowered(replace(FEW, cp_async_bytes=MMA.cp_async_bytes))
    assert not [op for op in body(module) if op.defn is memory.load]
