"""Issue loads before operations in which threads wait for each other, or that take as long."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tile.analysis.liveness import liveness
from tile.ir.core import Block, Function, Operation
from tile.ir.effects import constant_of, effects, is_plain_load, is_pure
from tile.ir.module import Module
from tile.ir.op_definition import Effect, Level, Trait
from tile.ir.ops import arith, control, indexing
from tile.ir.passes import module_pass
from tile.ir.types import Scalar, Tile
from tile.simt.layouts.axes import register_bits
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import layout_of
from tile.simt.schedule.resources import Resources, pressure
from tile.simt.target import GENERIC, SimtTarget

# Effects that a load does not move across, besides operations with regions: it may read what these
# write, and what they order, print or reject comes first.
STOPS = Effect.WRITE | Effect.SYNC | Effect.SHARED | Effect.OUTPUT


@module_pass("hoist-loads", before=Level.LAID_OUT)
def hoist_loads(module: Module, *, target: SimtTarget = GENERIC, num_stages: int = 3) -> None:
    """Move loads, and the address computations they need, above reductions, scans and divisions.

    Memory latency then overlaps with the synchronization, or with a division of 64-bit integers:
    that is a branch and a call, across which ptxas moves no load. A load stays below the operations
    that it depends on, and below all that may write the memory that it reads.

        %x = load %p : tile<256xf32, #a>       %x = load %p : tile<256xf32, #a>
        %s = reduce %x {kind = sum}            %q = addptr %w, %i {stride = 4}
        %q = addptr %w, %i {stride = 4}        %y = load %q : tile<256xf32, #a>
        %y = load %q : tile<256xf32, #a>       %s = reduce %x {kind = sum}

    In loops of one stage loads move above dots, too, as long as threads have registers for them, if
    the target gains by that. Loops of several stages are left to `pipeline-loops`.
    """
    for function in module:
        branches = [op for op in function.walk() if op.defn is control.if_]
        for block in (function.body, *(block for op in branches for block in op.regions)):
            _Hoisting(block, target.tuning.hoisted_load_bytes).run()
        loops = [op for op in function.walk() if op.defn is control.for_]
        for loop in loops if target.tuning.loads_above_dots else ():
            if (loop["num_stages"] or num_stages) < 2 and any(map(_is_dot, loop.regions[0])):
                _LoopHoisting(function, loop, target).run()


class _Hoisting:
    """One walk over a block whose operations are numbered.

    The moved loads take up to `most` bytes of a thread's registers: more would cost more in
    occupancy than the overlap gains.
    """

    def __init__(self, block: Block, most: int = 0) -> None:
        self.ops = list(block)
        self.number = {op: number for number, op in enumerate(self.ops)}
        self.waits: list[Operation] = []  # since the last operation that loads do not pass
        self.left = most

    def run(self) -> None:
        for op in self.ops:
            if self.is_wait(op):
                self.waits.append(op)
            elif is_plain_load(op):
                self._load(op)
            if not self.is_wait(op) and (op.regions or effects(op) & STOPS):
                self.waits.clear()

    def is_wait(self, op: Operation) -> bool:
        """Return True if loads are of use in front of an operation."""
        return _waits(op)

    def hoist(self, ops: Collection[Operation], wait: Operation) -> None:
        """Move a load, the last one of `ops`, if there are registers for its result."""
        *_, load = ops
        if not isinstance(load.result.type, Tile):
            return
        size = load.result.type.of.bytes_of(1 << register_bits(layout_of(load.result)))
        if size <= self.left:
            self.left -= size
            self.move(ops, wait)

    def move(self, ops: Iterable[Operation], wait: Operation) -> None:
        for op in ops:
            op.move_before(wait)
            self.number[op] = self.number[wait] - 1

    def _load(self, load: Operation) -> None:
        for wait in self.waits:
            ops: dict[Operation, None] = {}
            if self._add(load, wait, ops):
                self.hoist(ops, wait)
                return

    def _add(self, op: Operation, wait: Operation, ops: dict[Operation, None]) -> bool:
        """Add an operation to `ops`, and those after `wait` that compute its operands, in order.

        False if one of these cannot move in front of `wait`.
        """
        for source in (value.op for value in op.inputs if value.op in self.number):
            if source in ops or self.number[source] < self.number[wait]:
                continue
            if not (_goes_along(source) and self._add(source, wait, ops)):
                return False
        ops[op] = None
        return True


class _LoopHoisting(_Hoisting):
    """The walk over the body of a loop with dots."""

    def __init__(self, function: Function, loop: Operation, target: SimtTarget) -> None:
        super().__init__(loop.regions[0])
        self.function = function
        self.loop = loop
        self.target = target

    def is_wait(self, op: Operation) -> bool:
        # ptxas sinks loads below a dot, but not below the barrier in front of its operands.
        return _waits(op) or _is_dot(op) or op.defn is convert_layout

    def hoist(self, ops: Collection[Operation], wait: Operation) -> None:
        before, number = list(wait.block or ()), dict(self.number)
        self.move(ops, wait)
        tiles = pressure(self.loop, liveness(self.function), self.target)
        if Resources(self.target).would_spill(tiles):
            for op in before[:-1]:
                op.move_before(before[-1])
            self.number = number


def _is_dot(op: Operation) -> bool:
    return op.has_trait(Trait.DOT)


def _goes_along(op: Operation) -> bool:
    """Return True if an operation moves with a load that needs it: pure, and within each thread."""
    return is_pure(op) and not (op.regions or _waits(op) or op.defn is convert_layout)


_THROUGH_SHARED = (indexing.gather, indexing.scatter, indexing.histogram, indexing.rank)


def _waits(op: Operation) -> bool:
    """Return True if lanes and warps exchange values, or if threads divide long integers.

    A thread waits for the slowest one.
    """
    return op.has_trait(Trait.COMBINE) or op.defn in _THROUGH_SHARED or _is_long_division(op)


def _is_long_division(op: Operation) -> bool:
    if op.defn not in (arith.div, arith.rem) or constant_of(op.inputs[1]) is not None:
        return False
    element = op.result.type.element
    return isinstance(element, Scalar) and element.is_int() and element.bits == 64
