"""Detection of spin loops: loops that are back in an earlier state, and what they wait for.

A `while` whose exit slice (`tile/analysis/exit_slice.py`) is in an earlier state, and whose reads
would return the same values again, runs forever unless another batch writes what it reads. Two
rules detect this:

1. The loop-carried values of the slice, stored values included, are those of an earlier iteration,
   and memory has not changed since then.
2. If memory changes all the time, because the loop itself or another spin loop writes to it, the
   accesses of one iteration are observed. If its slice is unchanged, memory still holds what it
   read, and none of its stores overlaps its reads, the next iteration is the same. If a store does
   overlap, the slice with stored values must be unchanged.

A loop of the second rule may still write what another spin loop reads, such as a heartbeat. It runs
again when all batches wait (`Wait.serves`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tile.analysis.exit_slice import ExitSlice
from tile.backends.interp.resolved_access import Elements
from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Array, RegisterValue, array_of, same
from tile.backends.interp.virtual_memory import FaultError, Memory
from tile.ir.core import Operation
from tile.ir.op_definition import Trait


@dataclass(frozen=True, eq=False)
class ObservedAccess:
    """A load, store or atomic operation as it ran: its operands, and what it read."""

    op: Operation
    operands: tuple[RegisterValue | None, ...]
    read: RegisterValue | None

    def operand(self, name: str) -> Array | None:
        position = self.op.defn.positions.get(name)
        value = None if position is None else self.operands[position]
        return None if value is None else array_of(value)

    def holds(self, memory: Memory) -> bool:
        """Return True if memory holds what was read."""
        address, mask = self.operand("ptr"), self.operand("mask")
        assert address is not None and self.read is not None
        try:
            current = memory.load(address, mask, self.operand("other"), Elements.of(self.op))
        except FaultError:
            return False
        return same(current, self.read)

    def bytes(self, memory: Memory) -> Array:
        """Return the real addresses of all bytes that were accessed."""
        addresses, mask = self.operand("ptr"), self.operand("mask")
        assert addresses is not None
        if mask is not None:
            addresses, mask = np.broadcast_arrays(addresses, mask)
            addresses = addresses[mask]
        size = Elements.of(self.op).dtype.itemsize
        parts = [np.empty(0, np.int64)]
        for buffer, index in memory.by_buffer(addresses.ravel()):
            parts.append(addresses.ravel()[index] - buffer.origin + buffer.real)
        return (np.concatenate(parts)[:, None] + np.arange(size)).ravel()


@dataclass(eq=False)
class ObservedAccesses:
    """The accesses of one iteration of a loop, in all programs of the batch that runs it."""

    accesses: list[ObservedAccess] = field(default_factory=list)
    full: bool = False  # True if there were more than the limit

    def add(self, access: ObservedAccess) -> None:
        self.full = self.full or len(self.accesses) == TUNING.observed_accesses
        if not self.full:
            self.accesses.append(access)

    def reads(self, ops: Iterable[Operation]) -> list[ObservedAccess]:
        """Return the observed accesses of these operations."""
        return [access for access in self.accesses if access.op in ops]

    def stores_overlap(self, reads: Sequence[ObservedAccess], memory: Memory) -> bool:
        """Return True if another access than these reads wrote memory that one of them read."""
        return _overlap(self.stores(reads), reads, memory)

    def stores(self, reads: Sequence[ObservedAccess]) -> list[ObservedAccess]:
        """Return the accesses that write memory, apart from these reads."""
        return [a for a in self.accesses if _writes(a.op) and a not in reads]


@dataclass(frozen=True, eq=False)
class Wait:
    """The condition that ends a wait for a change of memory.

    Memory has another version than `version` and, if `reads` are recorded, one of them would return
    another value. If `version` is None, no change of memory can end the wait. `stores` are the
    accesses by which each iteration of the loop may change memory.
    """

    version: int | None
    reads: tuple[ObservedAccess, ...] = ()
    stores: tuple[ObservedAccess, ...] = ()

    def over(self, memory: Memory) -> bool:
        """Return True if the next iteration may differ."""
        if self.version is None or self.version == memory.version:
            return False
        return not self.reads or not all(read.holds(memory) for read in self.reads)

    def serves(self, other: Wait, memory: Memory) -> bool:
        """Return True if iterations of this loop may write what another loop waits for."""
        return _overlap(self.stores, other.reads, memory)

    def deadlock(self) -> None:
        """Return None: the loop that waits is reported."""


def wait_of_repeated(accesses: ObservedAccesses | None, exits: ExitSlice, memory: Memory) -> Wait:
    """Return what a loop waits for by the first rule; `accesses` are those of an iteration."""
    if accesses is None or accesses.full:
        return Wait(memory.version)
    return Wait(memory.version, tuple(accesses.reads(exits.stored_reads)))


def wait_of_observed(
    accesses: ObservedAccesses | None,
    entry_state: Mapping[int, RegisterValue] | None,
    exits: ExitSlice,
    next_values: Sequence[RegisterValue],
    memory: Memory,
) -> Wait | None:
    """Return what a loop waits for by the second rule, or None if it may progress by itself.

    accesses: those of the iteration that yields `next_values`; None if it was not observed.
    entry_state: the state of the exit slice at the start of that iteration.
    """
    if accesses is None or accesses.full or entry_state is None:
        return None
    unchanged = {i for i, value in entry_state.items() if same(value, next_values[i])}
    reads, carried = accesses.reads(exits.reads), exits.carried
    if accesses.stores_overlap(reads, memory):
        reads, carried = accesses.reads(exits.stored_reads), exits.stored_carried
    if not unchanged.issuperset(carried):
        return None
    if not all(read.holds(memory) for read in reads):
        return None
    return Wait(memory.version, tuple(reads), tuple(accesses.stores(reads)))


def _overlap(
    stores: Sequence[ObservedAccess], reads: Sequence[ObservedAccess], memory: Memory
) -> bool:
    """Return True if one of the stores wrote memory that one of the reads read."""
    if not stores or not reads:
        return False
    written = np.concatenate([access.bytes(memory) for access in stores])
    return bool(np.isin(written, np.concatenate([access.bytes(memory) for access in reads])).any())


def _writes(op: Operation) -> bool:
    return op.has_trait(Trait.ATOMIC) or not op.results
