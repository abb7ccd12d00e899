"""Rows of which registers do not hold two are copied to shared memory an iteration early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import lowered
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import CopyInFlightError
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ops.rowwise.row_norm_gradient import row_norm_backward_kernel
from tile.simt.ops import shared, thread
from tile.simt.target import WGMMA

ROWS, PROGRAMS, WARPS = 7, 2, 32


@tile.jit
def gradients(x_ptr, y_ptr, out_ptr, sums_ptr, rows, n, BLOCK: tl.constexpr):
    """The gradient of a softmax, and sums over the rows of each program."""
    column = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        x = tl.load(x_ptr + row * n + column, mask=column < n, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + row * n + column, mask=column < n, other=0.0).to(tl.float32)
        total = tl.sum(x * y, axis=0)
        tl.store(out_ptr + row * n + column, y * (x - total), mask=column < n)
        sums += x * y
    tl.store(sums_ptr + tl.program_id(0) * n + column, sums, mask=column < n)


def case(n: int, dtype: Any = np.float16, rows: int = ROWS) -> Kernel:
    def arguments() -> list[Any]:
        x, y = (numbers(rows, n, dtype=dtype, seed=seed) / 16 for seed in (1, 2))
        out, sums = np.zeros_like(x), np.zeros((PROGRAMS, n), np.float32)
        return [x, y, out, sums, np.int32(rows), np.int32(n)]

    kind = "*fp16:16" if dtype is np.float16 else "*fp32:16"
    signature = {"x_ptr": kind, "y_ptr": kind, "out_ptr": kind, "sums_ptr": "*fp32:16"}
    signature |= {"rows": "i32", "n": "i32:16"}
    block = tile.next_power_of_2(n)
    return Kernel(gradients, signature, {"BLOCK": block}, (PROGRAMS, 1, 1), arguments)


def count(module: Module, defn: OpDef) -> int:
    return sum(op.defn is defn for op in module.walk())


def check(module: Module, kernel: Kernel) -> None:
    arguments = kernel.arguments()
    run_threads(module, WGMMA, WARPS, kernel.grid, arguments)
    x, y = (each.astype(np.float64) for each in arguments[:2])
    expected = y * (x - (x * y).sum(axis=1, keepdims=True))
    tolerance = 4e-3 if arguments[0].dtype == np.float16 else 1e-4
    np.testing.assert_allclose(arguments[2], expected, rtol=tolerance, atol=tolerance)
    sums = [(x * y)[program::PROGRAMS].sum(axis=0) for program in range(PROGRAMS)]
    np.testing.assert_allclose(arguments[3], sums, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("n", "dtype", "copied"),
    [
        pytest.param(16384, np.float16, 2, id="both"),
        pytest.param(12304, np.float16, 2, id="masked"),
        pytest.param(16384, np.float32, 1, id="one"),  # two stages of both do not fit
        pytest.param(2048, np.float16, 0, id="none"),
    ],
)
@pytest.mark.parametrize("rows", [0, 1, ROWS])
def test_results(n: int, dtype: Any, copied: int, rows: int) -> None:
    kernel = case(n, dtype, rows)
    module = lowered(kernel, WGMMA, WARPS, 3)
    # In front of the loop, and in it.
    assert count(module, thread.shared_cp_async) == 2 * copied
    check(module, kernel)


def test_a_missing_wait_is_reported() -> None:
    kernel = case(16384)
    module = lowered(kernel, WGMMA, WARPS, 3)
    loop_wait, _ = [op for op in module.walk() if op.defn is shared.cp_async_wait_group]
    loop_wait.erase()
    with pytest.raises(CopyInFlightError):
        check(module, kernel)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_gradients_of_norms(centered: bool, given: bool) -> None:
    """Sums that depend on each other, and sums that do not; a weight that is widened."""
    rows, n = 5, 12304
    names = ["dy_ptr", "x_ptr", "weight_ptr", "dx_ptr"]
    signature = dict.fromkeys(names, "*fp16:16") | {"dweight_parts_ptr": "*fp32:16"}
    if centered:
        signature["dbias_parts_ptr"] = "*fp32:16"
    if given:
        signature |= dict.fromkeys(["mean_ptr", "rstd_ptr"][not centered :], "*fp32:16")
    strides = ["dy_stride", "x_stride", "dx_stride"]
    signature |= dict.fromkeys(strides, "i32:16") | {"rows": "i32", "length": "i32:16"}
    kernel = row_norm_backward_kernel
    none = {name.name: None for name in kernel.parameters if name.name not in signature}
    sizes = {"STAGES": 2, "ROWS": 1, "BLOCK": 16384, "TILES": 1, "SIZE": 1}
    constants = none | {"CENTERED": centered, "EPS": 1e-5} | sizes
    dy, x = (numbers(rows, n, dtype=np.float16, seed=seed) for seed in (1, 2))
    weight = numbers(n, dtype=np.float16, seed=3)
    center, scale = _statistics(x.astype(np.float64), centered)
    values = {"dy_ptr": dy, "x_ptr": x, "weight_ptr": weight, "dx_ptr": np.zeros_like(x)}
    parts = [np.zeros((PROGRAMS, n), np.float32) for _ in range(2)]
    values |= {"dweight_parts_ptr": parts[0], "dbias_parts_ptr": parts[1]}
    values |= {"mean_ptr": np.float32(center[:, 0]), "rstd_ptr": np.float32(scale[:, 0])}
    values |= dict.fromkeys(strides, np.int32(n)) | {"rows": np.int32(rows), "length": np.int32(n)}

    def arguments() -> list[Any]:
        return [values[each.name] for each in kernel.parameters if each.name in signature]

    case = Kernel(kernel, signature, constants, (PROGRAMS, 1, 1), arguments)
    module = lowered(case, WGMMA, WARPS, 3)
    run_threads(module, WGMMA, WARPS, case.grid, case.arguments())
    assert count(module, thread.shared_cp_async) > 0
    dy, x, weight = (each.astype(np.float64) for each in (dy, x, weight))
    normal, direct = (x - center) * scale, dy * weight
    dx = direct - normal * (direct * normal).mean(axis=1, keepdims=True)
    dx -= direct.mean(axis=1, keepdims=True) if centered else 0
    np.testing.assert_allclose(values["dx_ptr"], dx * scale, rtol=4e-3, atol=4e-3)
    np.testing.assert_allclose(
        parts[0].sum(axis=0), (dy * normal).sum(axis=0), rtol=1e-4, atol=1e-4
    )
    if centered:
        np.testing.assert_allclose(parts[1].sum(axis=0), dy.sum(axis=0), rtol=1e-4, atol=1e-4)


def _statistics(x: np.ndarray, centered: bool) -> tuple[np.ndarray, np.ndarray]:
    """The means of rows, or zeros, and the reciprocals of their deviations."""
    center = x.mean(axis=1, keepdims=True) * centered
    return center, 1 / np.sqrt(((x - center) ** 2).mean(axis=1, keepdims=True) + 1e-5)


@tile.jit
def scaled_rows(x_ptr, y_ptr, out_ptr, sums_ptr, rows, n, BLOCK: tl.constexpr):
    """Rows that are read in the layout of the sums, too, which is not that of 16-bit elements."""
    column = tl.arange(0, BLOCK)[None, :]
    sums = tl.zeros((1, BLOCK), tl.float32)
    x_rows = tl.make_tensor_descriptor(x_ptr, [rows, BLOCK], [n, 1], [1, BLOCK])
    y_rows = tl.make_tensor_descriptor(y_ptr, [rows, BLOCK], [n, 1], [1, BLOCK])
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        x = x_rows.load([row, 0]).to(tl.float32)
        y = y_rows.load([row, 0]).to(tl.float32)
        total = tl.sum(x * y, axis=1, keep_dims=True)
        sums += y * total * x
        tl.store(out_ptr + row * n + column, y * total)
    tl.store(sums_ptr + tl.program_id(0) * n + column, sums)


def test_rows_in_two_layouts() -> None:
    """A conversion of a loaded tile is a read of its buffer, no exchange to issue copies behind."""
    rows, n = 5, 2048
    x, y = (numbers(rows, n, dtype=np.float16, seed=seed) / 16 for seed in (1, 2))
    out, sums = np.zeros_like(x), np.zeros((PROGRAMS, n), np.float32)
    with tile.backend("interp:wgmma"):
        scaled_rows[(PROGRAMS,)](x, y, out, sums, rows, n, BLOCK=n, tma="pointers+strips")
    total = (x.astype(np.float64) * y).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out, y * total, rtol=4e-3, atol=4e-3)
    np.testing.assert_allclose(sums.sum(axis=0), (y * total * x).sum(axis=0), rtol=1e-3, atol=1e-3)
