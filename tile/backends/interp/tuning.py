"""Tuning constants of the interpreter and of the SIMT simulator.

The bytes of one value over a batch of programs are a setting (`TILE_INTERP_CHUNK`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.measured import constant


@dataclass(frozen=True)
class InterpreterTuning:
    """Limits of batches, of effort, and of the memory of checks. Sizes are in bytes."""

    # Programs of a chunk: enough to amortize the cost of an operation, and to bound memory.
    chunk_programs: int = constant(
        1 << 16, "docs/results/interpreter.md#time-and-memory-as-the-grid-grows"
    )
    # Shared memory of all programs of a chunk of the simulator, with its records.
    chunk_shared_bytes: int = constant(1 << 26)
    # Batches that a grid is divided into only to run it in another order.
    reordered_batches: int = constant(32)
    # A block of this size is freed once a process, so that glibc keeps its heap; just below
    # DEFAULT_MMAP_THRESHOLD_MAX of 64-bit glibc.
    heap_reserve: int = constant(
        (32 << 20) - (64 << 10), "2026-11-21, 2 cores: add of 2^20 floats 1.4 ms instead of 8"
    )
    # Arrays of at least this size are mapped without a reservation of swap space, so that they may
    # be larger than the machine's memory.
    mapped_bytes: int = constant(1 << 26)

    # -- loops that wait

    # A loop that reads memory yields to other batches after this many iterations since a program
    # last left it, and programs that did leave continue. Loops are checked for cycles as often. A
    # power of two.
    check_interval: int = constant(64)
    # Consecutive yields with no other batch ready, after which a join is broken or a chunk starts.
    idle_yields: int = constant(16)
    # Accesses of an iteration that are observed for cycles.
    observed_accesses: int = constant(256)

    # -- checks

    # Reads kept per region of shadow memory in addition to its records, at sixteen bytes each.
    extra_readers: int = constant(1 << 20)
    # Vector clocks that are cached, one a program.
    cached_views: int = constant(64)
    # Elements sampled per cell to estimate which share of it belongs to a view.
    sampled_elements: int = constant(256)


TUNING = InterpreterTuning()
