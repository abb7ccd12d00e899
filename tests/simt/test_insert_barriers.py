"""Barriers are where they are needed, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.simt.barrier_kernels import KERNELS, Kernel
from tests.simt.random_buffers import CONDITIONS, COUNTS, Writer
from tests.simt.shared_machine import Machine
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import memory
from tile.ir.verifier import verify
from tile.simt.memory.allocate_shared import allocate_shared
from tile.simt.memory.expose_shared import expose_shared
from tile.simt.memory.insert_barriers import insert_barriers
from tile.simt.target import GENERIC, SimtTarget

# So small that hardly anything is to spare, and buffers take over each other's places.
TIGHT = replace(GENERIC, shared_bytes=4096)
ROOMY = replace(GENERIC, shared_bytes=8192)


def lowered(module: Module, target: SimtTarget = TIGHT) -> Module:
    verify(module, Level.LAID_OUT)
    expose_shared(module, target=GENERIC, num_warps=2)
    allocate_shared(module, target=target)
    insert_barriers(module)
    verify(module, Level.LAID_OUT)
    return module


def barriers(module: Module) -> list[Operation]:
    return [op for op in module.walk() if op.defn is memory.barrier]


def depth(op: Operation) -> int:
    return sum(outer.has_trait(Trait.LOOP) for outer in op.ancestors())


def arguments(count: int, condition: bool) -> list[Any]:
    """Return arguments for the kernels of `barrier_kernels`, with pointers to 256 bytes each."""
    square = 4 * np.arange(64).reshape(1, 8, 8)
    return [
        np.array([count], np.int32),
        np.array([condition]),
        square,
        square + 256,
        4 * np.arange(64)[None] + 512,
        4 * np.arange(4)[None] + 768,
        np.array([784]),
    ]


def run(module: Module, count: int, condition: bool) -> Machine:
    data = np.random.default_rng(0).integers(0, 4, 256).astype(np.float32).view(np.uint8)
    data[768:] = np.array([0, 3, 1, 1, 0], np.int32).view(np.uint8).tolist() + [0] * 236
    machine = Machine(module, data)
    machine.run(module["k"], arguments(count, condition))
    return machine


def races(module: Module) -> list[str]:
    results = []
    for count in (0, 1, 2, 5):
        for condition in (False, True):
            results += list(map(str, run(module, count, condition).races))
    return results


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_barriers_are_the_fewest(kernel: Kernel) -> None:
    module = lowered(kernel.module())
    results = [0] * len(kernel.barriers)
    for op in barriers(module):
        results[depth(op)] += 1
    assert tuple(results) == kernel.barriers


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_no_race_is_left(kernel: Kernel) -> None:
    assert races(lowered(kernel.module())) == []


# A flag is seen by other programs, and no machine that runs one of them alone knows of that.
ALONE = [name for name in KERNELS if name != "a flag behind stores"]


@pytest.mark.parametrize("name", ALONE)
def test_each_barrier_is_needed(name: str) -> None:
    whole = lowered(KERNELS[name].module())
    for index in range(len(barriers(whole))):
        module = whole.clone()
        barriers(module)[index].erase()
        assert races(module), f"without barrier {index} nothing goes wrong"


def run_random(module: Module, seed: int, rounds: int) -> list[Machine]:
    """The machine after some runs of a program of `random_buffers`."""
    chosen = np.random.default_rng(seed)
    machines = []
    for _ in range(rounds):
        machine = Machine(module, np.arange(192, dtype=np.float32).view(np.uint8).copy())
        counts = [np.array([n], np.int32) for n in chosen.integers(0, 5, COUNTS)]
        conditions = [np.array([c]) for c in chosen.integers(0, 2, CONDITIONS) > 0]
        square = 4 * np.arange(64).reshape(1, 8, 8)
        machine.run(module["k"], [*counts, *conditions, square, square + 256, square + 512])
        machines.append(machine)
    return machines


@pytest.mark.parametrize("seed", range(16))
def test_random_programs_have_no_race_and_do_what_they_did(seed: int) -> None:
    before = Writer(seed, memory=bool(seed % 2)).module()
    after = lowered(before.clone(), GENERIC if seed % 3 == 0 else ROOMY)
    for x, y in zip(run_random(before, seed, 6), run_random(after, seed, 6), strict=True):
        assert y.races == []
        np.testing.assert_array_equal(x.memory, y.memory)


@pytest.mark.parametrize("seed", range(100, 104))
def test_random_programs_have_no_barrier_too_many(seed: int) -> None:
    whole = lowered(Writer(seed).module(), ROOMY)
    for index in range(len(barriers(whole))):
        module = whole.clone()
        barriers(module)[index].erase()
        tried = (run_random(module, other, 1)[0].races for other in range(200))
        assert any(tried), f"without barrier {index} nothing goes wrong"
