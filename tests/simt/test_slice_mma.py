"""Dots of mma instructions, whose last k-slice runs an iteration later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import KERNELS, Kernel, matmul, numbers
from tests.simt.synchronization import lowered
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.module import Module
from tile.simt import ops
from tile.simt.target import MMA

TYPES = {
    "fp16": (np.float16, "fp32", {}),
    "i8": (np.int8, "i32", {"SUMS": tl.int32}),
    "fp32": (np.float32, "fp32", {"PRECISION": "tf32"}),
    "fp64": (np.float64, "fp64", {"SUMS": tl.float64}),
}


def kernel_of(name: str, k: int, block: int, columns: int = 64) -> Kernel:
    """A matmul of one tile, 64 rows, in steps of `block` elements of k."""
    dtype, out, constants = TYPES[name]
    kernel = KERNELS["matmul_f16"]
    assert kernel.function is matmul
    pointers = {"a_ptr": f"*{name}:16", "b_ptr": f"*{name}:16", "c_ptr": f"*{out}:16"}
    result = np.dtype({"fp32": np.float32, "i32": np.int32, "fp64": np.float64}[out])
    return replace(
        kernel,
        signature={**kernel.signature, **pointers, "K": "i32:8"},
        constants={"BM": 64, "BN": columns, "BK": block, **constants},
        grid=(1, 1, 1),
        arguments=lambda: [
            numbers(64, k, dtype=dtype),
            numbers(k, columns, dtype=dtype, seed=1),
            np.zeros((64, columns), result),
            *(np.int32(extent) for extent in (64, columns, k)),
        ],
    )


def dots(module: Module) -> tuple[list[int], list[int]]:
    """The elements along k of the dots in loops, and of others."""
    inside, outside = list[int](), list[int]()
    for op in module.walk():
        if op.defn is ops.mma.mma:
            (inside if op.in_loop else outside).append(op["shape"][2] * op["repeats"][2])
    return inside, outside


@pytest.mark.parametrize("k", [0, 8, 32, 64, 200])
@pytest.mark.parametrize(
    ("name", "block", "slices"),
    [("fp16", 32, 2), ("fp16", 64, 4), ("i8", 64, 2), ("fp32", 16, 2), ("fp64", 16, 2)],
)
def test_results(name: str, block: int, slices: int, k: int) -> None:
    """An iteration does all slices, the first one those of the iteration before.

    The first iteration is peeled without its last slice, which follows the loop for the last one.
    """
    kernel = kernel_of(name, k, block)
    module = lowered(kernel, MMA, 4, 3)
    inside, outside = dots(module)
    assert inside == [block // slices] * slices
    assert outside == [block // slices] * slices
    arguments: list[Any] = kernel.arguments()
    run_threads(module, MMA, 4, kernel.grid, arguments)
    a, b, c = (array.astype(np.float64) for array in arguments[:3])
    error = np.linalg.norm(c - a @ b)
    assert error <= (1e-3 if name == "fp32" else 1e-6) * max(1, np.linalg.norm(a @ b))


def test_registers() -> None:
    """Dots stay whole if registers do not hold two slices."""
    kernel = kernel_of("fp16", 64, 32, columns=256)
    assert dots(lowered(kernel, MMA, 2, 3)) == ([32], [])


@tile.jit
def doubled(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(a, b, total) * 2
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


def test_other_uses_of_the_sums() -> None:
    """Operations of the same iteration need the whole dot."""
    kernel = replace(kernel_of("fp16", 64, 32), function=doubled)
    module = lowered(kernel, MMA, 4, 3)
    assert dots(module) == ([32], [])


def test_short_loops() -> None:
    """A loop of as many iterations as stages is unrolled: its copies are all in front."""
    kernel = kernel_of("fp16", 64, 32)
    types = {name: text for name, text in kernel.signature.items() if name != "K"}
    short = replace(kernel, signature=types, constants={**kernel.constants, "K": 64})
    assert dots(lowered(short, MMA, 4, 3)) == ([], [32, 32])
