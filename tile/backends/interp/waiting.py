"""Loops that come back to an earlier state, and what would get them on.

A `while` whose exit slice (`tile/analysis/exit_slice.py`) is what it was before, and whose reads
would give the same again, runs forever unless another wave writes what it reads. Two rules tell:

1. The carried values of the slice, stored values included, are those of an earlier iteration, and
   memory has not changed since then.
2. Memory changes all the time, since the loop itself or another one that waits writes to it. Then
   the accesses of one iteration are observed. If its slice is unchanged, memory still holds what it
   read, and none of its stores meets what it read, the next iteration is the same; if one does, the
   slice with stored values counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.analysis.exit_slice import ATOMICS, ExitSlice
from tile.backends.interp.memory import FaultError, Memory
from tile.backends.interp.values import Array, Held, array_of, same
from tile.ir.core import Operation
from tile.ir.ops.memory import pointee

if TYPE_CHECKING:
    from tile.backends.interp.wave import Loop, Wave

Run = Callable[..., Any]
# The most accesses of an iteration that are observed.
MOST_OBSERVED = 256


@dataclass(frozen=True, eq=False)
class Access:
    """A load, store or atomic operation as it ran: its operands, and what it read."""

    op: Operation
    operands: tuple[Held | None, ...]
    read: Held | None

    def operand(self, name: str) -> Array | None:
        position = self.op.defn.positions.get(name)
        value = None if position is None else self.operands[position]
        return None if value is None else array_of(value)

    def holds(self, memory: Memory) -> bool:
        """Return True if memory holds what was read."""
        ptr = self.op["ptr"].type
        address, mask = self.operand("ptr"), self.operand("mask")
        assert address is not None and self.read is not None
        try:
            now = memory.load(
                address, mask, self.operand("other"), pointee(self.op.name, ptr), ptr.shape
            )
        except FaultError:
            return False
        return same(now, self.read)

    def bytes(self, memory: Memory) -> Array:
        """The addresses of all bytes that were accessed, as the machine has them."""
        ptr = self.op["ptr"].type
        addresses, mask = self.operand("ptr"), self.operand("mask")
        assert addresses is not None
        if mask is not None:
            addresses, mask = np.broadcast_arrays(addresses, mask)
            addresses = addresses[mask]
        size = pointee(self.op.name, ptr).itemsize
        parts = [np.empty(0, np.int64)]
        for buffer, here in memory.by_buffer(addresses.ravel()):
            parts.append(addresses.ravel()[here] - buffer.origin + buffer.real)
        return (np.concatenate(parts)[:, None] + np.arange(size)).ravel()


@dataclass(eq=False)
class Observed:
    """The accesses of one iteration of a loop, in all programs of the wave that runs it."""

    accesses: list[Access] = field(default_factory=list)
    full: bool = False  # there were more

    def add(self, access: Access) -> None:
        self.full = self.full or len(self.accesses) == MOST_OBSERVED
        if not self.full:
            self.accesses.append(access)

    def reads(self, ops: Iterable[Operation]) -> list[Access]:
        """Return the memory that these operations read."""
        return [access for access in self.accesses if access.op in ops]

    def stores_meet(self, reads: Iterable[Access], memory: Memory) -> bool:
        """Return True if a store that is none of these reads wrote what one of them read."""
        others = [a for a in self.accesses if _writes(a.op) and a not in reads]
        read = [access.bytes(memory) for access in reads]
        if not others or not read:
            return False
        written = np.concatenate([access.bytes(memory) for access in others])
        return bool(np.isin(written, np.concatenate(read)).any())


@dataclass(frozen=True, eq=False)
class Wait:
    """The end of a wait: memory has another version, and does not hold what was read.

    Without a version nothing in memory can end the wait.
    """

    version: int | None
    reads: tuple[Access, ...] = ()

    def over(self, memory: Memory) -> bool:
        """Return True if the next iteration may differ."""
        if self.version is None or self.version == memory.version:
            return False
        return not self.reads or not all(read.holds(memory) for read in self.reads)


def observed(op: Operation, run: Run) -> Run:
    """Let an access tell the loops around it what it did, while they observe an iteration."""

    def access(batch: Wave, *operands: Held | None) -> Any:
        result = run(batch, *operands)
        for frame in batch.frames:
            if frame.loop is not None and frame.loop.observed is not None:
                frame.loop.observed.add(Access(op, operands, result))
        return result

    return access


def repeats(loop: Loop, exits: ExitSlice, next_values: list[Held], memory: Memory) -> Wait | None:
    """Return the wait of a loop by the second rule, or None where it may get on by itself.

    The loop has observed the iteration that yields the `following` values.
    """
    seen = loop.observed
    if seen is None or seen.full or loop.entry_state is None:
        return None
    unchanged = {i for i, value in loop.entry_state.items() if same(value, next_values[i])}
    reads, carried = seen.reads(exits.reads), exits.carried
    if seen.stores_meet(reads, memory):
        reads, carried = seen.reads(exits.stored_reads), exits.stored_carried
    if not unchanged.issuperset(carried):
        return None
    if not all(read.holds(memory) for read in reads):
        return None
    return Wait(memory.version, tuple(reads))


def _writes(op: Operation) -> bool:
    return op.defn in ATOMICS or not op.results
