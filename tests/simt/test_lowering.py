"""Whole kernels through all passes, on the thread machine, against the tile-level interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sampling import sample
from tests.simt.kernels import KERNELS, Kernel
from tile import backends
from tile.ir.op_definition import Level
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.ir.verifier import verify

# Machine, warps, stages: with and without shuffles, asynchronous copies, matrix instructions.
CONFIGURATIONS = [
    ("plain", 4, 2),
    ("generic", 1, 1),
    ("generic", 8, 3),
    ("cp_async", 4, 3),
    ("cp_async", 8, 4),
    ("mma", 1, 2),
    ("mma", 4, 3),
    ("mma", 8, 4),
    ("wgmma", 4, 3),
    ("wgmma", 8, 4),
    ("warp64", 2, 3),
    ("generic", 32, 2),
]


def run(kernel: Kernel, target: str, **options: Any) -> list[Any]:
    """The arrays after a launch."""
    compiled = kernel.compile(target, **options)
    arguments = kernel.arguments()
    backends.get("interp").load(compiled.artifact).launch(kernel.grid, arguments)
    return [argument for argument in arguments if isinstance(argument, np.ndarray)]


def agree(kernel: Kernel, actual: list[Any], wanted: list[Any]) -> None:
    """The same bits; floats as close as their order of summation allows."""
    for x, y in zip(actual, wanted, strict=True):
        if kernel.rtol and x.dtype.kind == "f":
            scale = np.abs(y).max()
            np.testing.assert_allclose(x, y, rtol=kernel.rtol, atol=kernel.rtol * scale)
        else:
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("name", "machine", "warps", "stages"), sample(KERNELS, CONFIGURATIONS, each=2)
)
def test_threads_do_what_tiles_say(name: str, machine: str, warps: int, stages: int) -> None:
    kernel = KERNELS[name]
    actual = run(kernel, f"interp:{machine}", num_warps=warps, num_stages=stages)
    agree(kernel, actual, run(kernel, "interp"))


@pytest.mark.parametrize("name", KERNELS)
def test_thread_ir_has_a_text(name: str) -> None:
    """The result is IR like any other: it verifies, prints, and reads back the same."""
    module = KERNELS[name].compile("interp:mma").artifact.module
    verify(module, Level.THREAD)
    text = print_module(module)
    again = parse_module(text)
    verify(again, Level.THREAD)
    assert print_module(again) == text
