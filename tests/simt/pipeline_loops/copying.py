"""The interpreter of tiles with shared memory in which copies complete as late as possible.

A stage is empty while a copy to it is in flight; the copy completes in a `cp_async_wait_group` for its commit
group. Reading an empty stage, or two copies to one stage at once, fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tile.backends.interp.launch import Launch
from tile.backends.interp.rules import RULES
from tile.backends.interp.translate import translate
from tile.backends.interp.values import array_of
from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.ops import memory
from tile.simt.ops import shared


class SharedMemory:
    """The stages of all buffers by (buffer, number), and the commit groups in flight."""

    def __init__(self) -> None:
        self.stages: list[int] = []
        self.tiles: dict[tuple[int, int], Any] = {}
        self.in_flight: set[tuple[int, int]] = set()
        self.open: list[tuple[tuple[int, int], Any]] = []
        self.groups: list[list[tuple[tuple[int, int], Any]]] = []
        self.most_pending = 0
        self.copied = 0
        self.stored = 0

    def alloc(self, op: Operation) -> Any:
        def run(batch: Any) -> Any:
            self.stages.append(op.result.type.stages)
            return np.array([[len(self.stages) - 1, 0]])

        return run

    def slot(self, op: Operation) -> Any:
        def run(batch: Any, mem: Any, iteration: Any) -> Any:
            buffer = int(mem[0, 0])
            return np.array(
                [[buffer, (int(iteration[0]) + op["stage_offset"]) % self.stages[buffer]]]
            )

        return run

    def copy(self, op: Operation) -> Any:
        ptr = op.inputs[1].type
        load = RULES[memory.load](op_of_load(op))
        zeros = np.zeros((1, *ptr.shape), semantics.numpy_dtype(ptr.element.pointee))

        def run(batch: Any, mem: Any, address: Any, mask: Any = None) -> None:
            stage = (int(mem[0, 0]), int(mem[0, 1]))
            assert stage not in self.in_flight, "two copies to one stage are in flight"
            tile = np.array(load(batch, address, mask, None if mask is None else zeros))
            self.in_flight.add(stage)
            self.tiles.pop(stage, None)
            self.open.append((stage, tile))
            self.copied += mask is None or bool(np.any(array_of(mask)))

        return run

    def commit(self, op: Operation) -> Any:
        def run(batch: Any) -> None:
            self.groups.append(self.open)
            self.open = []
            self.most_pending = max(self.most_pending, len(self.groups))

        return run

    def wait(self, op: Operation) -> Any:
        def run(batch: Any) -> None:
            while len(self.groups) > op["pending"]:
                for stage, tile in self.groups.pop(0):
                    self.tiles[stage] = tile
                    self.in_flight.remove(stage)

        return run

    def store(self, op: Operation) -> Any:
        def run(batch: Any, mem: Any, tile: Any) -> None:
            stage = (int(mem[0, 0]), int(mem[0, 1]))
            assert stage not in self.in_flight, "a stage is written to which a copy is in flight"
            self.tiles[stage] = np.array(array_of(tile))
            self.stored += 1

        return run

    def load(self, op: Operation) -> Any:
        def run(batch: Any, mem: Any) -> Any:
            stage = (int(mem[0, 0]), int(mem[0, 1]))
            assert stage in self.tiles, "a stage is read that holds nothing yet"
            return self.tiles[stage]

        return run


def op_of_load(op: Operation) -> Operation:
    """Return an operation with the pointers that the rule of loads needs."""
    return (
        op if op.defn is memory.load else Operation(memory.load, op.inputs[1:2], {}, [], [], None)
    )


def run(module: Module, arguments: Sequence[Any]) -> SharedMemory:
    """Run a kernel as one program; all copies have arrived at its end."""
    machine = SharedMemory()
    rules = {
        **RULES,
        shared.local_alloc: machine.alloc,
        shared.local_subview: machine.slot,
        shared.local_cp_async: machine.copy,
        shared.cp_async_commit_group: machine.commit,
        shared.cp_async_wait_group: machine.wait,
        shared.local_store: machine.store,
        shared.local_load: machine.load,
    }
    Launch(translate(module, rules), (1, 1, 1), arguments).run()
    assert not machine.open and not machine.groups, "copies are under way at the end"
    return machine
