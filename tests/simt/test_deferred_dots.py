"""Attention whose second dot runs an iteration later: results, waits, and code for a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import takewhile

import numpy as np
import pytest

from tests.simt.kernels import KERNELS
from tests.simt.synchronization import lowered
from tests.simt.test_warp_specialize import FAULTS as PRODUCER_FAULTS
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import DeadlockError, ExecutionError, WgmmaInFlightError
from tile.ir.builder import create
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.ops import control, math, memory
from tile.simt.ops import order, tma, wgmma
from tile.simt.target import WGMMA


def waits(module: Module) -> list[int]:
    return [op["pending"] for op in module.walk() if op.defn is wgmma.wgmma_wait]


def test_no_iteration() -> None:
    """Nothing is waited for that nobody began: of arrays without rows, no block is loaded."""
    kernel = KERNELS["attention_blocks"]
    module = lowered(kernel, WGMMA, 4, 2, warp_specialize=True)
    arguments = kernel.arguments()
    arguments[4] = np.int32(0)
    with np.errstate(invalid="ignore"):
        run_threads(module, WGMMA, 4, kernel.grid, arguments)
    assert not arguments[3].any()


@pytest.mark.parametrize("stages", [2, 3])
def test_results_are_the_same(stages: int) -> None:
    """Softmax waits for the first dot only; the second one, of the iteration before, goes on.

    Values are waited for and released an iteration later, too: two stages are enough.
    """
    kernel, results = KERNELS["attention_blocks"], []
    for producer, expected in ((False, [0, 0]), (True, [0, 1, 0, 0])):
        module = lowered(kernel, WGMMA, 4, stages, warp_specialize=producer)
        assert waits(module) == expected
        arguments = kernel.arguments()
        run_threads(module, WGMMA, 4, kernel.grid, arguments)
        results.append(arguments[3])
    assert np.array_equal(*results)


def waits_again(op: Operation) -> bool:
    """True for a wait for a phase that an earlier wait of its block has seen complete."""
    if op.defn is not tma.mbarrier_wait or op.block is None:
        return False
    before = takewhile(lambda other: other is not op, op.block)
    waits = [other for other in before if other.defn is op.defn]
    return any(other.inputs[0] is op.inputs[0] for other in waits)


def test_each_operation_between_the_partitions_is_needed() -> None:
    """But the release of the last values, which the producer does not fill again.

    Nor does anything read what a wait for a phase that has completed could bring: it keeps ptxas
    from moving the wait for the dot.
    """
    kernel = KERNELS["attention_blocks"]
    module = lowered(kernel, WGMMA, 4, 2, warp_specialize=True)
    faults: dict[object, tuple[type[ExecutionError], ...]]
    faults = {**PRODUCER_FAULTS, wgmma.wgmma_wait: (WgmmaInFlightError,)}
    ops = [op for op in module.walk() if op.defn in faults]
    # Of keys and of values in the loop, and in the iteration that is peeled into two parts.
    arrivals = [op for op in ops if op.defn is tma.mbarrier_arrive]
    again = [op for op in ops if waits_again(op)]
    assert len(arrivals) == 4 and len(again) == 2
    for index, op in enumerate(ops):
        broken = module.clone()
        removed = [op for op in broken.walk() if op.defn in faults][index]
        for value in removed.results:
            value.replace_by(removed.inputs[0])
        removed.erase()
        spare = op is arrivals[-1] or op in again
        with nullcontext() if spare else pytest.raises(faults[op.defn]):
            run_threads(broken, WGMMA, 4, kernel.grid, kernel.arguments())


def test_the_wait_for_a_dot_is_in_the_middle_of_the_exponentials() -> None:
    """Threads wait again for the dot's values there, which have arrived."""
    module = lowered(KERNELS["attention_blocks"], WGMMA, 4, 2, warp_specialize=True)
    (loop,) = [
        op
        for op in module.walk()
        if op.defn is control.for_ and wgmma.wgmma in [inner.defn for inner in op.walk()]
    ]
    kinds = (math.exp2, wgmma.wgmma_wait, tma.mbarrier_wait, tma.mbarrier_arrive)
    steps = [op.name for op in loop.regions[0] if op.defn in kinds]
    release = ["mbarrier_wait", "wgmma_wait", "mbarrier_arrive"]
    ends = ["mbarrier_wait", "mbarrier_wait", "wgmma_wait", "mbarrier_arrive"]
    assert steps == [*ends, "exp2", "exp2", *release, "exp2"]


ORDERED = replace(WGMMA, tuning=replace(WGMMA.tuning, ordered_warpgroups=True))
TWO_WARPGROUPS = replace(KERNELS["attention_blocks"], constants={"N": 128, "D": 16})


def test_ordered_warpgroups_have_the_same_results() -> None:
    results = []
    for target in (WGMMA, ORDERED):
        arguments = TWO_WARPGROUPS.arguments()
        module = lowered(TWO_WARPGROUPS, target, 8, 2, warp_specialize=True)
        run_threads(module, target, 8, TWO_WARPGROUPS.grid, arguments)
        results.append(arguments[3])
    assert np.array_equal(*results)


def order_ops(module: Module) -> list[Operation]:
    return [op for op in module.walk() if op.defn in (order.order_wait, order.order_arrive)]


def test_each_wait_and_arrive_of_warpgroups_is_needed() -> None:
    module = lowered(TWO_WARPGROUPS, ORDERED, 8, 2, warp_specialize=True)
    # Of the first warpgroup, the iteration that is peeled, those in the loop, and the last one.
    assert [(op.name, op["only"]) for op in order_ops(module)] == [
        ("order_arrive", 1),
        *[("order_wait", order.ALL), ("order_arrive", order.ALL)] * 2,
        ("order_wait", 0),
    ]
    for index in range(len(order_ops(module))):
        broken = module.clone()
        order_ops(broken)[index].erase()
        with pytest.raises(DeadlockError):
            run_threads(broken, ORDERED, 8, TWO_WARPGROUPS.grid, TWO_WARPGROUPS.arguments())


@pytest.mark.parametrize("index", [2, 4])
def test_a_barrier_that_not_all_warpgroups_reach(index: int) -> None:
    """Those that wait cannot pass it; passes put none there."""
    module = lowered(TWO_WARPGROUPS, ORDERED, 8, 2, warp_specialize=True)
    create(memory.barrier).move_before(order_ops(module)[index])
    with pytest.raises(DeadlockError, match="a barrier is between order_wait and order_arrive"):
        run_threads(module, ORDERED, 8, TWO_WARPGROUPS.grid, TWO_WARPGROUPS.arguments())


def test_registers_are_those_of_co_resident_programs() -> None:
    """Loads and their pointers take none, once TMA fills buffers in their place."""
    kernel = replace(KERNELS["attention_blocks"], constants={"N": 64, "D": 64})
    module = lowered(kernel, WGMMA, 4, 2, warp_specialize=True)
    (partition,) = [op for op in module.walk() if op.name == "warp_specialize"]
    assert partition["registers"] == (24, 232)  # two programs of 128 + 128 threads: 65536


@pytest.mark.parametrize(("shared", "expected"), [(60_000, 1), (90_000, 0)])
def test_a_loop_gets_a_producer_if_its_buffers_leave_no_memory_for_another_program(
    shared: int, expected: int
) -> None:
    """Buffers and operands take 40 KiB. Else another program computes while the dots of this one run."""
    kernel = replace(KERNELS["attention_blocks"], constants={"N": 64, "D": 64})
    module = lowered(kernel, replace(WGMMA, shared_bytes=shared), 4, 2)
    assert sum(op.name == "warp_specialize" for op in module.walk()) == expected


def test_too_few_registers_for_a_producer() -> None:
    """A program of 16 warps has 96 a thread at entry; a wgmma of 64 x 256 takes 158."""
    kernel = replace(KERNELS["attention_blocks"], constants={"N": 256, "D": 64})
    target = replace(WGMMA, shared_bytes=1 << 18)
    with pytest.warns(RuntimeWarning, match="takes 158 registers .* 20 warps have 96 at entry"):
        module = lowered(kernel, target, 16, 2, warp_specialize=True)
    assert waits(module) == [0, 0]
