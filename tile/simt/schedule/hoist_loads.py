"""Issue loads before operations in which threads wait for each other."""

from __future__ import annotations

from tile.ir.core import Block, Operation, Value
from tile.ir.effects import effects, is_pure
from tile.ir.module import Module
from tile.ir.op_definition import Effect, Level, Trait
from tile.ir.ops import indexing, memory
from tile.ir.ops.memory import CacheModifier
from tile.ir.passes import module_pass
from tile.ir.types import Tile
from tile.simt.layouts.axes import register_bits
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import layout_of
from tile.simt.target import GENERIC, SimtTarget

# Effects that a load does not move across, besides operations with regions: it may read what these
# write, and what they order, print or reject comes first.
STOPS = Effect.WRITE | Effect.SYNC | Effect.SHARED | Effect.OUTPUT


@module_pass("hoist-loads", before=Level.LAID_OUT)
def hoist_loads(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Move loads, and the address computations they need, above reductions, scans and the like.

    Memory latency then overlaps with the synchronization. A load stays below the operations that it
    depends on, and below all that may write the memory that it reads. Loops are left to
    `pipeline-loops`.

        %x = load %p : tile<256xf32, #a>       %x = load %p : tile<256xf32, #a>
        %s = reduce %x {kind = sum}            %q = addptr %w, %i {stride = 4}
        %q = addptr %w, %i {stride = 4}        %y = load %q : tile<256xf32, #a>
        %y = load %q : tile<256xf32, #a>       %s = reduce %x {kind = sum}
    """
    for function in module:
        _Hoisting(function.body, target.tuning.hoisted_load_bytes).run()


class _Hoisting:
    """One walk over a block whose operations are numbered.

    The moved loads take up to `most` bytes of a thread's registers: more would cost more in
    occupancy than the overlap gains.
    """

    def __init__(self, block: Block, most: int) -> None:
        self.block = block
        self.ops = list(block)
        self.number = {op: number for number, op in enumerate(self.ops)}
        self.waits: list[Operation] = []  # since the last operation that loads do not pass
        self.after: dict[Operation, int] = {}  # the last operation that must precede each
        self.left = most

    def run(self) -> None:
        for op in self.ops:
            if _waits(op):
                self.waits.append(op)
            elif op.defn is memory.load:
                self._load(op)
            if not _waits(op) and (op.regions or effects(op) & STOPS):
                self.waits.clear()

    def _load(self, op: Operation) -> None:
        if not isinstance(op.result.type, Tile) or op["volatile"]:
            return
        if op["cache"] is CacheModifier.CV:
            return
        ready = max([self._ready(value) for value in op.inputs], default=-1)
        wait = next((wait for wait in self.waits if self.number[wait] > ready), None)
        size = op.result.type.of.bytes_of(1 << register_bits(layout_of(op.result)))
        if wait is not None and size <= self.left:
            self.left -= size
            self._move(op, wait)

    def _ready(self, value: Value) -> int:
        """Return the number of the last operation that must precede the computation of a value."""
        op = value.op
        if op is None or op not in self.number:
            return -1
        number = self.after.get(op)
        if number is None:
            number = self.number[op]
            if _goes_along(op):
                number = max([self._ready(operand) for operand in op.inputs], default=-1)
            self.after[op] = number
        return number

    def _move(self, op: Operation, before: Operation) -> None:
        """Move an operation, and those that compute its operands, in front of another one."""
        for value in op.inputs:
            source = value.op
            if source in self.number and self.number[source] > self.number[before]:
                self._move(source, before)
        op.unlink()
        self.block.insert(op, before)
        self.number[op] = self.after[op] = self.number[before] - 1


def _goes_along(op: Operation) -> bool:
    """Return True if an operation moves with a load that needs it: pure, and within each thread."""
    return is_pure(op) and not (op.regions or _waits(op) or op.defn is convert_layout)


def _waits(op: Operation) -> bool:
    """Return True if lanes and warps exchange values: a thread waits for the slowest."""
    return op.has_trait(Trait.COMBINE) or op.defn in (indexing.gather, indexing.histogram)
