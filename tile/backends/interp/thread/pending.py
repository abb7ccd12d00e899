"""Products of groups of warps that nobody has waited for yet, by thread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tile.backends.interp.thread.memory import SharedMemory, Touch
from tile.backends.interp.thread.place import Place
from tile.backends.interp.values import Array, Rows


@dataclass(frozen=True, eq=False)
class Product:
    """What one operation reads: for each thread some vectors, and its product's number.

    `thread` is the thread's number in the chunk. The vectors of a group's factor are shared out
    among its threads.
    """

    touches: tuple[Touch, ...]
    thread: Rows
    number: Array

    def take_rows(self, chosen: Array) -> Product:
        """The product of some threads."""
        touches = tuple(touch.of_rows(chosen) for touch in self.touches)
        return Product(touches, self.thread[chosen], self.number[chosen])


class Products:
    """The products of a chunk that still read, in the order of their beginning."""

    def __init__(self, memory: SharedMemory, threads: int) -> None:
        self.memory = memory
        self.begun = np.zeros(threads, np.int64)  # by each thread
        self.pending: list[Product] = []

    def begin(self, place: Place, *touches: Touch) -> None:
        """Begin to read vectors."""
        for touch in touches:
            self.memory.begin_reading(touch)
        thread = place.numbers
        self.begun[thread] += 1
        self.pending.append(Product(touches, thread, self.begun[thread]))

    def wait(self, place: Place, pending: int) -> None:
        """Finish all products of these threads but the last `pending`."""
        finished = np.zeros(len(self.begun), np.int64)
        here = place.numbers
        finished[here] = self.begun[here] - pending
        rest, ended = [], []
        for product in self.pending:
            done = product.number <= finished[product.thread]
            if done.any():
                ended.append(product if done.all() else product.take_rows(done))
            if not done.all():
                rest.append(product.take_rows(~done) if done.any() else product)
        for product in ended:
            for touch in product.touches:
                self.memory.end_reading(touch)
        for product in rest:
            for touch in product.touches:
                self.memory.go_on_reading(touch)
        self.pending = rest
        self.memory.reading = bool(rest)
