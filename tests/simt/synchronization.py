"""Barriers, waits and fences taken out of lowered kernels one by one; as a command, the table of it.

python -m tests.simt.synchronization
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.simt.kernels import KERNELS, Kernel
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import (
    CopyInFlightError,
    ExecutionError,
    MbarrierError,
    RaceError,
    WgmmaInFlightError,
)
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.ops import memory
from tile.simt.ops import shared, tma, wgmma
from tile.simt.pass_pipeline import lower
from tile.simt.target import SimtTarget

# What is reported where one is missing.
FAULTS: dict[object, type[ExecutionError]] = {
    memory.barrier: RaceError,
    shared.cp_async_wait_group: CopyInFlightError,
    wgmma.wgmma_wait: WgmmaInFlightError,
    wgmma.fence_proxy_async: RaceError,
    tma.mbarrier_wait: CopyInFlightError,
    tma.mbarrier_init: MbarrierError,
    tma.mbarrier_arrive_expect_tx: MbarrierError,
    tma.tma_store_wait: CopyInFlightError,
}
MACHINES = (("plain", 4, 2), ("generic", 4, 2), ("mma", 4, 3), ("wgmma", 4, 3))


def lowered(kernel: Kernel, target: SimtTarget, warps: int, stages: int, **options: Any) -> Module:
    """A kernel as threads of a machine."""
    module: Module = kernel.compile("interp").artifact.module.clone()
    lower(module, target, num_warps=warps, num_stages=stages, **options)
    return module


def synchronizing(module: Module) -> list[Operation]:
    """The barriers, waits and fences of a module, in order."""
    return [op for op in module.walk() if op.defn in FAULTS]


def without_each(module: Module) -> Iterator[tuple[Operation, Module]]:
    """Each of them, with a module that lacks it."""
    for index in range(len(synchronizing(module))):
        broken = module.clone()
        removed = synchronizing(broken)[index]
        for value in removed.results:
            value.replace_by(removed.inputs[0])
        removed.erase()
        yield removed, broken


def assert_each_is_needed(
    module: Module,
    target: SimtTarget,
    warps: int,
    kernel: Kernel,
    faults: Mapping[object, tuple[type[ExecutionError], ...]],
) -> None:
    """Remove each operation that `faults` has, and expect one of its errors, at a location."""
    for index in range(sum(op.defn in faults for op in module.walk())):
        broken = module.clone()
        removed = [op for op in broken.walk() if op.defn in faults][index]
        removed.erase()
        with pytest.raises(faults[removed.defn]) as raised:
            run_threads(broken, target, warps, kernel.grid, kernel.arguments())
        assert raised.value.loc is not None


def reported(kernel: Kernel, target: SimtTarget, warps: int, stages: int) -> tuple[int, int, int]:
    """Count a kernel's barriers, waits and fences, and those whose removal is detected."""
    barriers = others = missed = 0
    for removed, broken in without_each(lowered(kernel, target, warps, stages)):
        is_barrier = removed.defn is memory.barrier
        barriers, others = barriers + is_barrier, others + (not is_barrier)
        try:
            run_threads(broken, target, warps, kernel.grid, kernel.arguments())
        except FAULTS[removed.defn]:
            missed += 1
    return barriers, others, missed


def main() -> int:
    """Print the table; 1 if one is removed and nothing is reported."""
    print(
        "| kernel | machine, warps, stages | barriers | waits, fences | removed one by one: reported |"
    )
    print("| --- | --- | --- | --- | --- |")
    total = all_missed = 0
    for name, kernel in KERNELS.items():
        for machine, warps, stages in MACHINES:
            reports = reported(kernel, SimtTarget.parse(machine), warps, stages)
            barriers, others, missed = reports
            total, all_missed = total + barriers + others, all_missed + missed
            where = f"{machine}, {warps}, {stages}"
            print(f"| {name} | {where} | {barriers} | {others} | {missed} of {barriers + others} |")
    print(f"| all | | | | {all_missed} of {total} |")
    return int(all_missed != total)


if __name__ == "__main__":
    sys.exit(main())
