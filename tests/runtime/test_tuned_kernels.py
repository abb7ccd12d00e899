"""Autotuned and heuristic kernels, compiled and run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.kernels import add
from tile.diagnostics.differential import CheckOptions, DifferentialRun
from tile.errors import CompilationError, OutOfBoundsError
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


@tile.jit
def demanding(x_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 16, "BLOCK is too small")
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 1.0, mask=offsets < n)


def configurations(*blocks: int) -> list[tile.Config]:
    return [tile.Config({"BLOCK": block}) for block in blocks]


def test_configurations_that_do_not_compile_are_skipped(capsys, monkeypatch) -> None:
    monkeypatch.setenv("TILE_PRINT_AUTOTUNING", "1")
    small, large, right = configurations(8, 1 << 21, 64)
    kernel = tile.autotune([small, large, right], key=["n"], warmup=0, rep=1)(demanding)
    x = np.zeros(100, np.float32)
    compiled = kernel[grid](x, 100)
    assert compiled.constants["BLOCK"] == 64
    assert (x == 1).all()
    assert "BLOCK is too small" in kernel.skipped[small]
    assert "2097152 elements" in kernel.skipped[large]
    assert "tl.arange(0, BLOCK)" in kernel.skipped[large]
    lines = capsys.readouterr().err.splitlines()
    assert sum("skipped  BLOCK: " in line for line in lines) == 2
    assert any("test_tuned_kernels.py:" in line and "too small" in line for line in lines)


def test_what_no_configuration_compiles_is_the_users_mistake() -> None:
    kernel = tile.autotune(configurations(2, 4, 8), key=[])(demanding)
    with pytest.raises(CompilationError, match="BLOCK is too small") as caught:
        kernel[grid](np.zeros(8, np.float32), 8)
    assert caught.value.loc is not None
    assert caught.value.notes[-1].endswith("can run here, all for this reason")


def test_a_configuration_that_leaves_its_arrays_is_not_skipped() -> None:
    @tile.jit
    def unmasked(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offsets, 1.0)

    x = np.zeros(64, np.float32)
    kernel = tile.autotune(configurations(16, 128), key=["n"], warmup=0, rep=1)(unmasked)
    with pytest.raises(OutOfBoundsError) as caught:
        kernel[grid](x, 64)
    assert "this was configuration BLOCK: 128" in caught.value.notes[-1]
    assert caught.value.fault is not None
    assert not x.any() and not kernel.cache


def test_checks_of_a_tuned_kernel_pass_over_what_does_not_compile() -> None:
    kernel = tile.autotune(configurations(8, 64, 32), key=[])(demanding)
    x = np.zeros(100, np.float32)
    with DifferentialRun(CheckOptions()).watching() as findings:
        kernel[grid](x, 100)
    assert not findings and not findings.dependences
    assert (x == 1).all()


def test_a_launch_of_no_programs_takes_a_configuration_that_compiles() -> None:
    kernel = tile.autotune(configurations(8, 64, 32), key=[])(demanding)
    assert kernel[(0,)](np.zeros(4, np.float32), 4).constants["BLOCK"] == 64
