"""Dots too large for the registers of threads, read slice by slice from shared memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.bounds import of_dots
from tests.simt.kernels import matmul
from tests.simt.synchronization import FAULTS, synchronizing, without_each
from tile.backends.interp.simulator.counters import Counters, registers
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.ops import control
from tile.ir.types import F16, F32, F64, Tile
from tile.simt import ops
from tile.simt.pass_pipeline import lower
from tile.simt.target import CP_ASYNC, GENERIC, PLAIN, WARP64, SimtTarget

SM_75 = replace(CP_ASYNC, name="sm_75", shared_bytes=64 << 10, cp_async_bytes=(), has_ldmatrix=True)
OPENCL = replace(PLAIN, name="opencl", shared_bytes=32 << 10)
MACHINES = [PLAIN, GENERIC, CP_ASYNC, SM_75, OPENCL]
# So few registers that the tiles of a quick test do not fit.
SMALL = replace(GENERIC, name="small", registers=64)


def module_of(function: Any, types: dict[str, str], **constants: int) -> Module:
    """A kernel's TILE IR, optimized."""
    compiled = tile.compile(function, types, constants, {}, "interp")
    return compiled.artifact.module.clone()


def dot_module(m: int, n: int, k: int) -> Module:
    names = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32:16")}
    names |= dict.fromkeys("MNK", "i32:16")
    return module_of(matmul, names, BM=m, BN=n, BK=k)


def parts_read(module: Module) -> list[Operation]:
    return [op for op in module.walk() if op.defn is ops.mma.fma_dot]


def live(module: Module) -> int:
    """The most registers live in a thread where it multiplies."""
    register_counts = [registers(function) for function in module]
    return max(
        counts[op] for counts in register_counts for op in counts if op in parts_read(module)
    )


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("target", MACHINES, ids=str)
def test_a_large_dot_of_f32(target: SimtTarget, warps: int) -> None:
    module = dot_module(128, 128, 64)
    lower(module, target, num_warps=warps, num_stages=2)
    accumulators = 128 * 128 // (warps * target.warp_size)
    for op in parts_read(module):
        operands = sum(value.type.count for value in op.inputs[:2])
        vector = op["sizes"][3] == 4 and target.cp_async_bytes
        spare = target.tuning.least_other_registers if vector else target.registers // 4
        assert accumulators + operands <= target.registers - spare
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((128, 128), (128, 128)))
    c, sizes = np.zeros((128, 128), np.float32), [np.int32(128)] * 3
    counters = Counters()
    run_threads(module, target, warps, (1, 1, 1), [a, b, c, *sizes], counters)
    np.testing.assert_array_equal(c, a @ b)
    assert counters.shared_total().conflicts == 0
    assert counters.global_total().efficiency == 1.0


def test_code_does_not_grow_with_tiles() -> None:
    counts, unrolled = [], []
    for size in (64, 128, 256):
        module = dot_module(128, 128, size)
        lower(module, replace(GENERIC, shared_bytes=1 << 20), num_warps=8, num_stages=1)
        counts.append(sum(1 for _ in module.walk()))
        unrolled.append(sum(math.prod(op["sizes"]) for op in parts_read(module)))
    assert max(counts) < 1.2 * min(counts)  # more or fewer terms of an address
    assert unrolled == [8 * (8 * 8 * 4)] * 3


def test_what_fits_is_not_cut() -> None:
    module = dot_module(32, 32, 32)
    lower(module, GENERIC, num_warps=4, num_stages=2)
    (op,) = parts_read(module)
    assert op["sizes"][3] == 32
    assert sum(op.defn is control.for_ for op in module.walk()) == 1


def test_each_barrier_is_needed() -> None:
    rolled = replace(SMALL.tuning, unrolled_fmas=0)
    target = replace(SMALL, shared_bytes=4 << 10, tuning=rolled)  # parts as well as slices
    module = dot_module(32, 32, 32)
    lower(module, target, num_warps=4, num_stages=1)
    assert max(_depth(op) for op in parts_read(module)) == 3
    a, b = np.ones((32, 64), np.float32), np.ones((64, 32), np.float32)
    sizes = np.int32(32), np.int32(32), np.int32(64)
    assert len(synchronizing(module)) >= 2
    for removed, broken in without_each(module):
        c = np.zeros((32, 32), np.float32)
        with pytest.raises(FAULTS[removed.defn]):
            run_threads(broken, target, 4, (1, 1, 1), [a, b, c, *sizes])


def _depth(op: Operation) -> int:
    """Count the loops around an operation."""
    depth = 0
    while op.block is not None and op.block.parent is not None:
        op = op.block.parent
        depth += op.defn is control.for_
    return depth


# -- against NumPy, within the bound of conformance


@tile.jit
def one_dot(a, b, c, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    x = tl.load(a + i * K + k[None, :])
    y = tl.load(b + k[:, None] * N + j)
    total = tl.load(c + i * N + j)
    acc = tl.dot(x, y, total, input_precision="ieee", out_dtype=total.dtype)
    tl.store(out + i * N + j, acc)


@tile.jit
def transposed(a, b, c, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The right operand is stored by columns, and the left one stays in a loop."""
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i * K + k[None, :])
    total = tl.load(c + i * N + j[None, :])
    for _ in range(2):
        y = tl.load(b + j[:, None] * K + k[None, :])
        total = tl.dot(x, tl.trans(y), total, input_precision="ieee", out_dtype=total.dtype)
    tl.store(out + i * N + j[None, :], total)


@tile.jit
def batched(a, b, c, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    p = tl.arange(0, 2)[:, None, None]
    i, j = tl.arange(0, M)[None, :, None], tl.arange(0, N)[None, None, :]
    k = tl.arange(0, K)
    x = tl.load(a + (p * M + i) * K + k[None, None, :])
    y = tl.load(b + (p * K + k[None, :, None]) * N + j)
    total = tl.load(c + (p * M + i) * N + j)
    tl.store(out + (p * M + i) * N + j, tl.dot(x, y, total, input_precision="ieee"))


TYPES = {
    "fp32": (np.float32, "fp32", F32),
    "fp16": (np.float16, "fp32", F16),
    "fp64": (np.float64, "fp64", F64),
    "i8": (np.int8, "i32", None),
}
NUMPY = {"fp32": np.float32, "fp64": np.float64, "i32": np.int32, "fp16": np.float16}
ACCUMULATORS = {"fp32": F32, "fp64": F64, "fp16": F16}


def check(
    function: Any, element: str, target: SimtTarget, *, accumulator: str = "", batch: int = 1
) -> None:
    dtype, own, ty = TYPES[element]
    into = accumulator or own
    m, n, k = 32, 64, 64
    types = {"a": f"*{element}:16", "b": f"*{element}:16", "c": f"*{into}:16", "out": f"*{into}:16"}
    module = module_of(function, types, M=m, N=n, K=k)
    wanted_of = module.clone()
    lower(module, target, num_warps=2, num_stages=2)
    assert all(op["sizes"][3] < k for op in parts_read(module))
    random = np.random.default_rng(1)

    def numbers(*shape: int) -> Any:
        return (random.standard_normal((batch, *shape)) * (8 if ty is None else 1)).astype(dtype)

    a, b = numbers(m, k), numbers(k, n)
    c = numbers(m, n).astype(NUMPY[into])
    stored = b.swapaxes(1, 2).copy() if function is transposed else b
    out = np.zeros_like(c)
    run_threads(module, target, 2, (1, 1, 1), [a, stored, c, out])
    times = 2 if function is transposed else 1
    wide = np.float64 if ty is not None else np.int64
    wanted = times * (a.astype(wide) @ b.astype(wide)) + c.astype(wide)
    if ty is None:
        np.testing.assert_array_equal(out, wanted)
        return
    shapes = Tile((m, k), ty), Tile((k, n), ty)
    bound = of_dots(*shapes, ACCUMULATORS[into])
    assert bound is not None and wanted_of.kernel.args
    allowed = times * bound([a, b, c.reshape(-1)], wanted.ravel())
    assert np.all(np.abs(out.astype(np.float64) - wanted).ravel() <= allowed)


@pytest.mark.parametrize(
    "target", [SMALL, replace(PLAIN, name="tight", registers=64, shared_bytes=8 << 10)], ids=str
)
@pytest.mark.parametrize("element", TYPES)
def test_dots_of_all_kinds(element: str, target: SimtTarget) -> None:
    if element == "fp64":
        target = replace(target, registers=128)
    check(one_dot, element, target)
    check(transposed, element, target)


def test_sums_of_f16_are_rounded_once() -> None:
    check(one_dot, "fp16", SMALL, accumulator="fp16")


def test_a_batch() -> None:
    check(batched, "fp32", SMALL, batch=2)


def test_warps_of_another_size() -> None:
    check(one_dot, "fp32", replace(WARP64, name="broad", registers=32))
