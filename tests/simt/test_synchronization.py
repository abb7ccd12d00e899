"""Every barrier and every wait that the passes insert is needed: without it, something goes wrong."""

from __future__ import annotations

import pytest

from tests.simt.kernels import KERNELS
from tests.simt.synchronization import FAULTS, lowered, without_each
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.simt.target import SimtTarget


@pytest.mark.parametrize(
    ("machine", "warps", "stages"), [("generic", 4, 2), ("mma", 4, 3), ("wgmma", 4, 3)]
)
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_missing_is_reported(name: str, machine: str, warps: int, stages: int) -> None:
    kernel = KERNELS[name]
    target = SimtTarget.parse(machine)
    total = 0
    for removed, broken in without_each(lowered(kernel, target, warps, stages)):
        total += 1
        with pytest.raises(FAULTS[removed.defn]) as found:
            run_threads(broken, target, warps, kernel.grid, kernel.arguments())
        assert found.value.loc is not None
    assert total > 0, "a kernel here hands values from warp to warp"
