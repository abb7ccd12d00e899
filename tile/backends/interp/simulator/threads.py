"""The map from rows of a batch to threads and programs, and from threads to elements of a tile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tile.backends.interp.values import Array, Rows
from tile.simt.layouts.linear_layout import LinearLayout


@dataclass(frozen=True, eq=False)
class ThreadMap:
    """The threads of a batch, by row: the program number in the chunk, the thread number in it.

    `lanes` is the size of a warp and `threads` that of a program, both powers of two.
    """

    program: Rows
    thread: Rows
    lanes: int
    threads: int

    @classmethod
    def of(cls, rows: Rows, first: int, lanes: int, threads: int) -> ThreadMap:
        """Return the map of rows of a chunk whose first row is `first`."""
        local = rows - first
        return cls(local >> (threads.bit_length() - 1), local & (threads - 1), lanes, threads)

    def __len__(self) -> int:
        return len(self.thread)

    @cached_property
    def whole_warps(self) -> bool:
        """True if all lanes of each warp are among the rows."""
        return self._in_groups_of(self.lanes)

    @cached_property
    def whole_programs(self) -> bool:
        """True if all threads of each program are among the rows."""
        return self._in_groups_of(self.threads)

    @cached_property
    def programs(self) -> Rows:
        """The distinct programs, sorted."""
        if self.whole_programs:
            return self.program[:: self.threads]
        return np.unique(self.program)

    @cached_property
    def number(self) -> Array:
        """The number of each thread in its program, as i32."""
        return self.thread.astype(np.int32)

    @cached_property
    def numbers(self) -> Rows:
        """The number of each thread in the chunk."""
        return self.program * self.threads + self.thread

    @cached_property
    def column(self) -> Array:
        """The number of each thread in its program, with an axis for registers: (row, 1)."""
        return self.thread.astype(np.int64)[:, None]

    def _in_groups_of(self, size: int) -> bool:
        """Return True if the threads, which are sorted, form whole groups of `size`."""
        if len(self) % size:
            return False
        first, last = self.thread[::size], self.thread[size - 1 :: size]
        same = self.program[::size] == self.program[size - 1 :: size]
        return bool(np.all(same & (first % size == 0) & (last - first == size - 1)))

    def missing(self, size: int) -> tuple[int, int]:
        """Return the first row whose group of `size` threads is incomplete, and a missing one."""
        number = self.program * self.threads + self.thread
        groups, start, count = np.unique(number // size, return_index=True, return_counts=True)
        index = int(np.argmax(count < size))
        group, row = groups[index], int(start[index])
        present = set((number[number // size == group] % self.threads).tolist())
        base = int(group * size % self.threads)
        return row, next(t for t in range(base, base + size) if t not in present)


@lru_cache(maxsize=1024)
def index_table(layout: LinearLayout) -> Array:
    """Return the row-major element index of each (thread, register) of a layout, as i32."""
    names = dict(layout.ins)
    columns = [*names.get("register", ()), *names["lane"], *names["warp"]]
    packed = np.zeros(1, np.int32)
    for column in columns:
        packed = np.concatenate([packed, packed ^ np.int32(column)])
    return packed.reshape(-1, 1 << len(names.get("register", ())))


def tiles_of(fragments: Array, indices: Array, shape: tuple[int, ...]) -> Array:
    """Return the tiles of all programs, from the fragments of their threads and an index table."""
    programs = len(fragments) // len(indices)
    tiles: Array = np.empty((programs, math.prod(shape)), fragments.dtype)
    tiles[:, indices] = fragments.reshape(programs, *indices.shape)
    return tiles.reshape(programs, *shape)
