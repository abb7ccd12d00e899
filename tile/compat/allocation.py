"""Allocators of scratch memory, which no kernel of `tile` needs."""

from __future__ import annotations

from typing import Protocol


class Buffer(Protocol):
    """Device memory."""

    def data_ptr(self) -> int:
        """Return its address."""


class Allocator(Protocol):
    """A function that allocates device memory."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer:
        """Return `size` bytes."""


class NullAllocator:
    """The allocator that refuses every request."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer:
        """Raise `RuntimeError`."""
        raise RuntimeError(f"no allocator is set for {size} bytes of scratch memory")


def set_allocator(allocator: Allocator) -> None:
    """Accept an allocator, which is never called: kernels get no scratch memory.

    Kernels make descriptors in parameters and shared memory.
    """
