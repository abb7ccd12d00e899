"""Every barrier and every wait that the passes insert is needed: without it, something goes wrong."""

from __future__ import annotations

import pytest

from tests.sampling import sample
from tests.simt.kernels import KERNELS
from tests.simt.synchronization import FAULTS, lowered, without_each
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.core import Operation
from tile.simt.ops import shared
from tile.simt.target import SimtTarget

# On machines with TMA, these copy one operand by TMA and another by cp.async. After the loop nothing
# takes the memory of the latter, whose last copies have masks that are all false.
IDLE_COPIES = {"matmul_tf32", "gradient"}


def _is_last_wait(op: Operation) -> bool:
    """Return True for the wait for cp.async copies after a kernel's loop."""
    return op.defn is shared.cp_async_wait_group and op.parent is None


@pytest.mark.parametrize(
    ("name", "machine", "warps", "stages"),
    sample(KERNELS, [("generic", 4, 2), ("mma", 4, 3), ("wgmma", 4, 3)], each=2),
)
def test_what_is_missing_is_reported(name: str, machine: str, warps: int, stages: int) -> None:
    kernel = KERNELS[name]
    target = SimtTarget.parse(machine)
    total = 0
    for removed, broken in without_each(lowered(kernel, target, warps, stages)):
        total += 1
        if target.has_tma and name in IDLE_COPIES and _is_last_wait(removed):
            continue
        with pytest.raises(FAULTS[removed.defn]) as found:
            run_threads(broken, target, warps, kernel.grid, kernel.arguments())
        assert found.value.loc is not None
    assert total > 0, "a kernel here hands values from warp to warp"
