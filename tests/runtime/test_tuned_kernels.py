"""Autotuned and heuristic kernels, compiled and run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tile
import tile.language as tl
from tests.runtime.kernels import add
from tile.testing import assert_close


@tile.jit
def increment(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) + 1)
    else:
        mask = offsets < n
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)


def grid(meta):
    return (tile.cdiv(meta["n"], meta["BLOCK"]),)


def tuned(**options):
    configs = [tile.Config({"BLOCK": block}, num_warps=2) for block in (16, 64)]
    even = tile.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    return tile.autotune(configs, key=["n"], warmup=0, rep=1, **options)(even(increment))


def test_tuning_has_the_effect_of_one_launch() -> None:
    kernel = tuned()
    for n in (100, 128, 100):
        x = np.arange(n, dtype=np.float32)
        compiled = kernel[grid](x, n)
        assert_close(x, np.arange(n, dtype=np.float32) + 1)
        assert compiled.constants["EVEN"] == (n % compiled.constants["BLOCK"] == 0)
        assert compiled.options.num_warps == 2
    assert len(kernel.cache) == 2


def test_configurations_compile_side_by_side() -> None:
    with ThreadPoolExecutor(2) as executor:
        kernel = tuned(executor=executor)
        x = np.zeros(100, np.int64)
        kernel[grid](x, 100)
    assert (x == 1).all()


def test_written_arguments_of_wrapped_kernels() -> None:
    assert tuned().written_arguments(np.zeros(64), 64) == {"x_ptr"}


def test_warmup_compiles_every_configuration() -> None:
    compiled = tuned().warmup(np.float32, 64)
    assert sorted(kernel.constants["BLOCK"] for kernel in compiled) == [16, 64]


def test_options_of_a_configuration_are_the_launchs() -> None:
    configs = [tile.Config({"BLOCK": 32}, num_warps=8, num_stages=5)]
    x = np.ones(32, np.float32)
    compiled = tile.autotune(configs, key=[])(add)[1,](x, x, np.zeros_like(x), 32)
    assert (compiled.options.num_warps, compiled.options.num_stages) == (8, 5)
