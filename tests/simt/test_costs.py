"""No bank conflicts and no wasted traffic, where the places do not depend on data."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.sampling import sample
from tests.simt.kernels import KERNELS
from tile.backends.interp.simulator.counters import Counters
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.simt.pass_pipeline import lower
from tile.simt.target import SimtTarget


@tile.jit
def add(x_ptr, y_ptr, z_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(z_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))


# Where each thread goes in these is up to the data.
BY_DATA = {"gathering", "counting", "ranking"}
CONFIGURATIONS = [
    ("generic", 4, 2),
    ("cp_async", 8, 4),
    ("cp_async", 4, 3),
    ("cp_async", 2, 2),
    ("mma", 4, 3),
    ("warp64", 2, 2),
]


@pytest.mark.parametrize(
    ("name", "machine", "warps", "stages"),
    sample(sorted({*KERNELS} - BY_DATA), CONFIGURATIONS, each=2),
)
def test_accesses_cost_the_least(name: str, machine: str, warps: int, stages: int) -> None:
    kernel = KERNELS[name]
    target = SimtTarget.parse(machine)
    module = kernel.compile("interp").artifact.module.clone()
    lower(module, target, num_warps=warps, num_stages=stages)
    counters = Counters()
    run_threads(module, target, warps, kernel.grid, kernel.arguments(), counters)
    assert counters.global_total().sectors > 0
    assert counters.shared_total().conflicts == 0
    assert counters.global_total().efficiency == 1.0


@pytest.mark.parametrize("name", ["matmul_blocks", "attention_blocks"])
def test_blocks_cost_the_least(name: str) -> None:
    """Block copies are counted as the sectors that they move."""
    test_accesses_cost_the_least(name, "wgmma", 4, 3)


def test_slices_that_would_conflict_are_not_loaded() -> None:
    """B is stored by elements, to a buffer whose layout suits loads of the whole operand."""
    test_accesses_cost_the_least("matmul_narrow_rows", "mma", 4, 3)


@pytest.mark.parametrize("name", sorted(BY_DATA))
def test_conflicts_by_data_are_counted(name: str) -> None:
    kernel = KERNELS[name]
    target = SimtTarget.parse("generic")
    module = kernel.compile("interp").artifact.module.clone()
    lower(module, target, num_warps=4, num_stages=2)
    counters = Counters()
    run_threads(module, target, 4, kernel.grid, kernel.arguments(), counters)
    assert counters.shared_total().conflicts > 0


@pytest.mark.parametrize(
    ("aligned", "sectors", "instructions"), [(True, 3 * 128, 3 * 8), (False, 2 * 128 + 160, 3 * 32)]
)
def test_an_argument_between_sectors(aligned: bool, sectors: int, instructions: int) -> None:
    """A warp then touches one sector more for each instruction, and no more than that."""
    types = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16" if aligned else "*fp32", "z_ptr": "*fp32:16"}
    module = tile.compile(add, types, {"N": 1024}, target="interp").artifact.module.clone()
    lower(module, SimtTarget.parse("generic"), num_warps=4, num_stages=1)
    store = np.zeros(1024 + 1, np.float32)
    arrays = [np.zeros(1024, np.float32), store[not aligned :][:1024], np.zeros(1024, np.float32)]
    counters = Counters()
    run_threads(module, SimtTarget.parse("generic"), 4, (1, 1, 1), arrays, counters)
    total = counters.global_total()
    assert (total.sectors, total.instructions) == (sectors, instructions)
