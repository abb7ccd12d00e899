"""Every barrier and every wait that the passes insert is needed: without it, something goes wrong."""

from __future__ import annotations

import pytest

from tests.simt.kernels import KERNELS
from tile.backends.interp.thread.run import run_threads
from tile.errors import CopyInFlightError, ProductInFlightError, RaceError
from tile.ir.core import Module, Operation
from tile.ir.ops import memory
from tile.simt.ops import group, shared
from tile.simt.pipeline import lower
from tile.simt.target import SimtTarget

# What is reported where one is missing.
FAULTS = {
    memory.barrier: RaceError,
    shared.copy_wait: CopyInFlightError,
    group.group_wait: ProductInFlightError,
    group.group_fence: RaceError,
}


def waits(module: Module) -> list[Operation]:
    """The barriers, waits and fences of a module, in order."""
    return [op for op in module.walk() if op.defn in FAULTS]


@pytest.mark.parametrize(
    ("machine", "warps", "stages"), [("generic", 4, 2), ("matrix", 4, 3), ("group", 4, 3)]
)
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_missing_is_reported(name: str, machine: str, warps: int, stages: int) -> None:
    kernel = KERNELS[name]
    target = SimtTarget.parse(machine)
    module = kernel.compile("interp").artifact.module.clone()
    lower(module, target, num_warps=warps, num_stages=stages)
    total = len(waits(module))
    assert total > 0, "a kernel here hands values from warp to warp"
    for index in range(total):
        broken = module.clone()
        removed = waits(broken)[index]
        fault = FAULTS[removed.defn]
        for value in removed.results:
            value.replace_by(removed.inputs[0])
        removed.erase()
        with pytest.raises(fault) as found:
            run_threads(broken, target, warps, kernel.grid, kernel.arguments())
        assert found.value.loc is not None
