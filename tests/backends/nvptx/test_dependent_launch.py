"""Dependent launches: where programs wait for the launch before, and results of chains of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble

pytest.importorskip("llvmlite")

WAIT, LAUNCH = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"
ACCESS = re.compile(r"(ld|st|red|atom)\.(relaxed\S*\.)?global|\.shared\S*\.global\S* \[")


@tile.jit
def add_one(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x + 1, mask=i < n)
    tl.store(y_ptr + n + i, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)


@tile.jit
def in_a_loop(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for at in range(0, n, B):
        total += tl.load(x_ptr + at + i)
    tl.store(y_ptr + i, total)


@tile.jit
def without_accesses(x_ptr, y_ptr, n, B: tl.constexpr):
    tl.static_assert(B > 0)


@tile.jit
def matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


SIGNATURE = {"x_ptr": "*fp32:16:noalias", "y_ptr": "*fp32:16", "n": "i32"}


@tile.jit
def that_says_when(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
    tl.extra.cuda.gdc_launch_dependents()


def ptx_of(kernel: Any, arch: str = "sm_90a", **options: Any) -> str:
    compiled = tile.compile(kernel, SIGNATURE, {"B": 128}, options, f"nvptx:{arch}")
    return str(compiled.asm["ptx"])


@pytest.mark.parametrize("kernel", [add_one, in_a_loop, without_accesses])
def test_programs_wait_once_before_they_access_memory(kernel: Any) -> None:
    ptx = ptx_of(kernel, launch_pdl=True)
    assert ptx.count(WAIT) == ptx.count(LAUNCH) == 1
    access = ACCESS.search(ptx)
    assert ptx.index(WAIT) < ptx.index(LAUNCH) < (access.start() if access else len(ptx))
    assemble(ptx, "sm_90a")


def test_a_kernel_says_when_the_next_launch_starts() -> None:
    ptx = ptx_of(that_says_when, launch_pdl=True)
    assert ptx.count(WAIT) == ptx.count(LAUNCH) == 1
    assert ptx.index(WAIT) < ptx.index("ld.global") < ptx.index("st.global") < ptx.index(LAUNCH)
    assemble(ptx, "sm_90a")
    assert "griddepcontrol" not in ptx_of(that_says_when)


@tile.jit
def that_prefetches(x_ptr, y_ptr, n, B: tl.constexpr):
    tl.extra.cuda.prefetch(x_ptr + tl.program_id(0) * B, B)
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def test_prefetches_do_not_wait() -> None:
    ptx = ptx_of(that_prefetches, launch_pdl=True)
    assert ptx.index("cp.async.bulk.prefetch.L2.global") < ptx.index(WAIT) < ptx.index("ld.global")
    assemble(ptx, "sm_90a")
    assert "cp.async.bulk" not in ptx_of(that_prefetches, "sm_80")


def test_no_load_moves_above_the_wait() -> None:
    """A load that nothing invalidates while the kernel runs could; the launch before writes it."""
    ordinary, dependent = (ptx_of(add_one, launch_pdl=value) for value in (False, True))
    assert "ld.global.nc" in ordinary and "ld.global.nc" not in dependent


def test_mbarriers_are_initialized_before_the_wait() -> None:
    signature = dict.fromkeys("abc", "tensordesc<fp16[64, 64]>") | {"K": "i32:16"}
    sizes = {"BM": 64, "BN": 64, "BK": 64}
    options = {"launch_pdl": True}
    ptx = str(tile.compile(matmul, signature, sizes, options, "nvptx:sm_90a").asm["ptx"])
    places = [ptx.index(text) for text in ("mbarrier.init", "bar.sync", WAIT, "cp.async.bulk")]
    assert places == sorted(places) and ptx.count(WAIT) == 1
    assemble(ptx, "sm_90a")


@pytest.mark.parametrize(("arch", "value"), [("sm_90a", False), ("sm_80", True)])
@pytest.mark.parametrize("kernel", [add_one, that_says_when])
def test_nothing_of_it_elsewhere(kernel: Any, arch: str, value: bool) -> None:
    ptx = ptx_of(kernel, arch, launch_pdl=value)
    assert "griddepcontrol" not in ptx and ptx == ptx_of(kernel, arch)


def test_shared_memory_limits_the_programs_of_a_multiprocessor() -> None:
    """Each has 1 KiB more; a multiprocessor of compute capability 9.0 has 228 KiB."""

    def shared(count: int | None) -> int:
        options = {"max_programs": count}
        compiled = tile.compile(add_one, SIGNATURE, {"B": 128}, options, "nvptx:sm_90a")
        return int(compiled.metadata.shared)

    assert shared(None) == 0
    for count in (1, 3):
        assert count * (shared(count) + 1024) <= 228 * 1024 < (count + 1) * (shared(count) + 1024)


@pytest.mark.parametrize("backend", ["interp", "nvptx"])
def test_chains_of_launches(backend: str) -> None:
    """Each adds one to what the one before has stored."""
    if backend == "nvptx":
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("needs a GPU")
        x, y = (torch.zeros(1 << 18, device="cuda") for _ in "xy")
    else:
        x, y = (np.zeros(1 << 12, np.float32) for _ in "xy")
    n, repeats = len(x) // 2, 40 if backend == "nvptx" else 2
    with tile.backend(backend):
        for _ in range(repeats):
            add_one[(tile.cdiv(n, 128),)](x, y, n, B=128, launch_pdl=True)
            add_one[(tile.cdiv(n, 128),)](y, x, n, B=128, launch_pdl=True)
    assert set(x[:n].tolist()) == {2.0 * repeats} and set(x[n:].tolist()) == {2.0 * repeats - 1}
