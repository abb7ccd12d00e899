"""Instrumentation of code: each instruction calls the recorder of its launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tile.accesses import Site
from tile.backends.interp.code import BlockCode, Code
from tile.backends.interp.values import Held
from tile.ir.core import Operation
from tile.ir.ops import memory
from tile.ir.ops.memory import pointee

if TYPE_CHECKING:
    from tile.backends.interp.tracing.recorder import Recorder
    from tile.backends.interp.wave import Wave

Run = Callable[..., Any]

# For each memory operation: its verb, the kind of its timeline slices, the index of its mask.
ACCESSES = {
    memory.load: ("reads", "load", 1),
    memory.store: ("writes", "store", 2),
    memory.atomic_rmw: ("updates", "atomic", 2),
    memory.atomic_cas: ("updates", "atomic", 3),
}


def instrument(code: Code) -> Code:
    """Instrument all instructions of new code, in place; return the code."""
    for function in code.functions.values():
        _block(function.body)
    return code


def _block(block: BlockCode) -> None:
    for instruction in block.instructions:
        run, op = instruction.run, instruction.op
        if run is not None:
            instruction.run = _access(op, run) if op.defn in ACCESSES else _step(op, run)
        for region in instruction.regions:
            _block(region)


def _step(op: Operation, run: Run) -> Run:
    def step(batch: Wave, *values: Any) -> Any:
        recorder_of(batch).step(batch, op.loc, "compute")
        return run(batch, *values)

    return step


def _access(op: Operation, run: Run) -> Run:
    verb, kind, masked = ACCESSES[op.defn]
    site = Site(op.loc, verb)
    ptr = op.inputs[0].type
    size, shape = pointee(op.name, ptr).itemsize, ptr.shape

    def access(batch: Wave, address: Held, *values: Any) -> Any:
        result = run(batch, address, *values)  # an access that fails is not recorded
        mask: Held | None = values[masked - 1]
        recorder_of(batch).access(batch, site, kind, address, mask, shape, size)
        return result

    return access


def recorder_of(batch: Wave) -> Recorder:
    """Return the recorder of the launch that a batch belongs to."""
    recorder = batch.launch.recorder
    assert recorder is not None
    return recorder
