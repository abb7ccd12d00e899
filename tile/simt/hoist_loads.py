"""Loads begin before what makes threads wait for each other, if they need none of it."""

from __future__ import annotations

from tile.ir.core import Block, Module, Operation, Value
from tile.ir.effects import effects, is_pure
from tile.ir.levels import Level
from tile.ir.opdef import Effect
from tile.ir.ops import combine, index, memory, reduce
from tile.ir.ops.memory import CacheModifier
from tile.ir.passes import module_pass
from tile.ir.types import Tile
from tile.simt.distribute.registers import register_bits
from tile.simt.layout_rules import layout_of
from tile.simt.ops.layout import convert_layout

# Lanes and warps hand each other values in these, and a thread waits for the slowest.
WAITS = frozenset(
    {
        reduce.reduce,
        reduce.arg_reduce,
        reduce.scan,
        combine.reduce_by,
        combine.scan_by,
        index.sort,
        index.gather,
        index.histogram,
    }
)
# What a load does not pass, besides operations with regions: it may read what these write, and
# what they order, print or refuse comes first.
STOPS = Effect.WRITE | Effect.SYNC | Effect.SHARED | Effect.OUTPUT
# The bytes of a thread's registers that loads of a block may hold while it waits: more of them
# would cost more, in threads that find no room beside it, than is gained.
HELD_BYTES = 32


@module_pass("hoist-loads", before=Level.LAID_OUT)
def hoist_loads(module: Module) -> None:
    """Move loads, with what computes their addresses, in front of reductions, scans and the like.

    The time that memory takes then passes while threads wait for each other anyway. A load stays
    behind what it depends on, and behind all that may change what it reads. Loops are left to
    `pipeline-loops`.

        %x = load %p : tile<256xf32, #a>       %x = load %p : tile<256xf32, #a>
        %s = reduce %x {kind = sum}            %q = addptr %w, %i {stride = 4}
        %q = addptr %w, %i {stride = 4}        %y = load %q : tile<256xf32, #a>
        %y = load %q : tile<256xf32, #a>       %s = reduce %x {kind = sum}
    """
    for function in module:
        _Hoisting(function.body).run()


class _Hoisting:
    """One walk over a block, in which each operation has its number."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.ops = list(block)
        self.number = {op: number for number, op in enumerate(self.ops)}
        self.waits: list[Operation] = []  # since the last operation that loads do not pass
        self.after: dict[Operation, int] = {}  # by what an operation can come first
        self.left = HELD_BYTES

    def run(self) -> None:
        for op in self.ops:
            if op.defn in WAITS:
                self.waits.append(op)
            elif op.defn is memory.load:
                self._load(op)
            if op.defn not in WAITS and (op.regions or effects(op) & STOPS):
                self.waits.clear()

    def _load(self, op: Operation) -> None:
        if not isinstance(op.result.type, Tile) or op["volatile"]:
            return
        if op["cache"] is CacheModifier.CV:
            return
        ready = max([self._ready(value) for value in op.inputs], default=-1)
        wait = next((wait for wait in self.waits if self.number[wait] > ready), None)
        size = op.result.type.of.itemsize << register_bits(layout_of(op.result))
        if wait is not None and size <= self.left:
            self.left -= size
            self._move(op, wait)

    def _ready(self, value: Value) -> int:
        """The number of the last operation that must come before a value can be computed."""
        op = value.op
        if op is None or op not in self.number:
            return -1
        found = self.after.get(op)
        if found is None:
            found = self.number[op]
            if _goes_along(op):
                found = max([self._ready(operand) for operand in op.inputs], default=-1)
            self.after[op] = found
        return found

    def _move(self, op: Operation, before: Operation) -> None:
        """Put an operation, and what it is computed from, in front of another one."""
        for value in op.inputs:
            source = value.op
            if source in self.number and self.number[source] > self.number[before]:
                self._move(source, before)
        op.unlink()
        self.block.insert(op, before)
        self.number[op] = self.after[op] = self.number[before] - 1


def _goes_along(op: Operation) -> bool:
    """Whether an operation moves with a load that needs it: it is pure, and done in the thread."""
    return is_pure(op) and not op.regions and op.defn not in WAITS | {convert_layout}
