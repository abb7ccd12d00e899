"""Options of a launch that every backend takes alike."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import KERNELS
from tile.errors import OutOfResourcesError, UnsupportedError
from tile.language.extra import cuda

NEEDS: dict[str, tuple[str, ...]] = {
    "interp:generic": (),
    "nvptx:sm_90a": ("llvmlite",),
    "opencl:generic": ("pyopencl",),
}


@pytest.fixture(params=NEEDS)
def target(request: pytest.FixtureRequest) -> str:
    """One of each backend that lowers to threads, if its packages are there."""
    for package in NEEDS[request.param]:
        pytest.importorskip(package, reason=f"{package} is not installed")
    return str(request.param)


@pytest.mark.parametrize("option", [{"thread_tile": 2}, {"warp_rows": 4}, {"num_warps": 8}])
def test_sizes_of_dots_reach_the_threads(target: str, option: dict[str, int]) -> None:
    kernel = KERNELS["matmul_f32"]
    usual = kernel.compile(target, num_warps=4, thread_tile=4, warp_rows=1)
    other = kernel.compile(target, **{"num_warps": 4, "thread_tile": 4, "warp_rows": 1, **option})
    assert usual.asm["tile-optimized"] == other.asm["tile-optimized"]
    assert usual.asm["thread"] != other.asm["thread"]


def test_checks_of_a_launch_are_refused_by_who_does_none(target: str) -> None:
    with pytest.raises(UnsupportedError, match=r"sanitize asks for checks.*TILE_BACKEND=interp"):
        KERNELS["matmul_f32"].compile(target, sanitize="race")
    KERNELS["matmul_f32"].compile(target, sanitize="none")


def test_a_target_limits_the_warps(target: str) -> None:
    with pytest.raises(OutOfResourcesError, match=r"is to have .* threads, 64 warps of") as caught:
        KERNELS["matmul_f32"].compile(target, num_warps=64)
    assert caught.value.name == "threads"


@tile.jit
def sizes(out):
    at = tl.arange(0, cuda.num_threads())
    tl.store(out + at, at + cuda.num_warps())


@pytest.mark.parametrize("num_warps", [1, 64])
def test_kernels_know_their_warps_and_the_interpreter_has_no_limit(num_warps: int) -> None:
    out = np.zeros(32 * 64, np.int32)
    sizes[1,](out, num_warps=num_warps)
    threads = 32 * num_warps
    assert (out[:threads] == np.arange(threads) + num_warps).all() and not out[threads:].any()
