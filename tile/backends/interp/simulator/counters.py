"""Performance counters of a run: instructions, memory traffic, bank conflicts, register pressure.

Register pressure is the number of 32-bit registers that a thread needs at each operation. It counts
the live values, as if the allocation were perfect. Elements narrower than 32 bits share registers
with others of their fragment. What a backend's compiler allocates differs: it may rematerialize
values, or keep uniform values in other registers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeVar

from tile.analysis.liveness import liveness
from tile.ir.core import Function, Operation
from tile.ir.shared_type import Shared
from tile.ir.types import Fragment, Type
from tile.location import Loc
from tile.trace_data import Totals

SECTOR = 32  # bytes: the smallest unit that global memory moves


@dataclass
class GlobalCounts(Totals):
    """Accesses to global memory by whole warps, one vector a lane.

    `sectors` counts the 32-byte sectors that each instruction touches; `least` is the number of
    sectors that would hold the bytes that each instruction requests.
    """

    instructions: int = 0
    sectors: int = 0
    least: int = 0

    @property
    def efficiency(self) -> float:
        """The fewest possible sectors divided by the sectors moved, from 0 to 1."""
        return self.least / self.sectors if self.sectors else 1.0


@dataclass
class SharedCounts(Totals):
    """Accesses to shared memory by whole warps, one vector a lane.

    `wavefronts` were needed; without bank conflicts `least` would be enough.
    """

    instructions: int = 0
    wavefronts: int = 0
    least: int = 0

    @property
    def conflicts(self) -> int:
        """Additional wavefronts due to bank conflicts."""
        return self.wavefronts - self.least


T = TypeVar("T", GlobalCounts, SharedCounts)


@dataclass
class Counters:
    """All counts of one or several runs, by operation.

    `executed` counts how often warps executed each operation, control flow excepted;
    `shared_bytes` is the shared memory of a program.
    """

    executed: defaultdict[Operation, int] = field(default_factory=lambda: defaultdict(int))
    global_accesses: defaultdict[Operation, GlobalCounts] = field(
        default_factory=lambda: defaultdict(GlobalCounts)
    )
    shared_accesses: defaultdict[Operation, SharedCounts] = field(
        default_factory=lambda: defaultdict(SharedCounts)
    )
    shared_bytes: int = 0

    def global_total(self) -> GlobalCounts:
        """All accesses to global memory."""
        return _total(self.global_accesses, GlobalCounts())

    def shared_total(self) -> SharedCounts:
        """All accesses to shared memory."""
        return _total(self.shared_accesses, SharedCounts())

    def by_line(self) -> dict[tuple[str, int], LineCounts]:
        """Return the counts by (file, line), in order. Operations without a location: ("", 0)."""
        lines: dict[tuple[str, int], LineCounts] = defaultdict(LineCounts)
        for op, count in self.executed.items():
            lines[line_of(op.loc)].executed += count
        for op, accesses in self.global_accesses.items():
            lines[line_of(op.loc)].global_accesses.add(accesses)
        for op, shared in self.shared_accesses.items():
            lines[line_of(op.loc)].shared_accesses.add(shared)
        return dict(sorted(lines.items()))


@dataclass
class LineCounts:
    """The counts of a source line."""

    executed: int = 0
    global_accesses: GlobalCounts = field(default_factory=GlobalCounts)
    shared_accesses: SharedCounts = field(default_factory=SharedCounts)


def line_of(loc: Loc | None) -> tuple[str, int]:
    """Return (file, line) of the outermost call of a location, which is in the kernel itself."""
    if loc is None:
        return "", 0
    *_, outermost = loc.chain()
    return outermost.file, outermost.line


def _total(counts: defaultdict[Operation, T], total: T) -> T:
    for each in counts.values():
        total.add(each)
    return total


BITS = 32


def registers(function: Function) -> dict[Operation, int]:
    """Return the number of live registers after each operation of a THREAD function.

    An operation's own results count; its operands only if a later operation uses them.
    """
    live = liveness(function)
    counts = {
        number: sum(registers_of(value.type) for value in values) for number, values in live.sweep()
    }
    return {op: counts[live.end(op)] for op in function.walk()}


def registers_of(ty: Type) -> int:
    """Return the 32-bit registers of a value of type `ty`. A shared-memory buffer takes none."""
    if isinstance(ty, Shared):
        return 0
    count = ty.count if isinstance(ty, Fragment) else 1
    return -(-count * ty.element.bits // BITS)
