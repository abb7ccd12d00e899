"""Kernels around one operation each, with one source for this project's compiler and Triton.

`peer_kernels.py` has whole algorithms; these are the operations on which an interpreter is tempted
to iterate over elements: sorts, reductions by a function, scans, histograms, atomics, random
numbers and block pointers.
"""

from __future__ import annotations

import numpy as np
from peer_kernels import Case, Prepared, ToDevice, compiler, jit, normal, tl


@jit
def sort_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.sort(tl.load(x_ptr + index)))


def sort(rng: np.random.Generator, to_device: ToDevice, rows: int, columns: int) -> Prepared:
    """Prepare the sort of each row."""
    x = normal(rng, rows, columns)
    x_dev, out = to_device(x), to_device(np.zeros_like(x))
    return Prepared(
        launch=lambda: sort_kernel[(rows,)](x_dev, out, BLOCK=columns),
        result=out,
        reference=lambda: np.sort(x.astype(np.float64), axis=1),
    )


@jit
def farther(a, b):
    return tl.where(tl.abs(a) >= tl.abs(b), a, b)


@jit
def reduce_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = tl.load(x_ptr + row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    tl.store(out_ptr + row, tl.reduce(x, 1, farther))


def reduce(
    rng: np.random.Generator, to_device: ToDevice, programs: int, rows: int, columns: int
) -> Prepared:
    """Prepare the number farthest from zero of each row, by a function of two numbers."""
    x = normal(rng, programs * rows, columns)
    x_dev, out = to_device(x), to_device(np.zeros(programs * rows, np.float32))

    def reference() -> np.ndarray:
        farthest = np.abs(x).argmax(axis=1)[:, None]
        return np.take_along_axis(x.astype(np.float64), farthest, axis=1)[:, 0]

    return Prepared(
        launch=lambda: reduce_kernel[(programs,)](x_dev, out, ROWS=rows, COLUMNS=columns),
        result=out,
        reference=reference,
    )


@jit
def cumsum_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.cumsum(tl.load(x_ptr + index), axis=0))


def cumsum(rng: np.random.Generator, to_device: ToDevice, rows: int, columns: int) -> Prepared:
    """Prepare the running sums of each row."""
    x = normal(rng, rows, columns)
    x_dev, out = to_device(x), to_device(np.zeros_like(x))
    return Prepared(
        launch=lambda: cumsum_kernel[(rows,)](x_dev, out, BLOCK=columns),
        result=out,
        reference=lambda: x.astype(np.float64).cumsum(axis=1),
    )


@jit
def histogram_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
    tl.store(out_ptr + row * BINS + tl.arange(0, BINS), tl.histogram(x, BINS))


def histogram(
    rng: np.random.Generator, to_device: ToDevice, rows: int, columns: int, bins: int
) -> Prepared:
    """Prepare the counts of each row's integers."""
    x = rng.integers(0, bins, (rows, columns), np.int32)
    x_dev, out = to_device(x), to_device(np.zeros((rows, bins), np.int32))
    return Prepared(
        launch=lambda: histogram_kernel[(rows,)](x_dev, out, BLOCK=columns, BINS=bins),
        result=out,
        reference=lambda: np.stack([np.bincount(row, minlength=bins) for row in x]),
    )


@jit
def atomics_kernel(x_ptr, counts_ptr, ranks_ptr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.load(x_ptr + index)
    tl.store(ranks_ptr + index, tl.atomic_add(counts_ptr + bins, 1))


def atomics(
    rng: np.random.Generator, to_device: ToDevice, programs: int, block: int, bins: int
) -> Prepared:
    """Prepare counts of integers by atomics, whose old values rank equal integers."""
    x = rng.integers(0, bins, programs * block, np.int32)
    x_dev, ranks = to_device(x), to_device(np.zeros_like(x))
    counts = to_device(np.zeros(bins, np.int32))

    def launch() -> None:
        counts[:] = 0
        atomics_kernel[(programs,)](x_dev, counts, ranks, BLOCK=block)

    def reference() -> np.ndarray:
        order = np.argsort(x, kind="stable")
        first = np.searchsorted(x[order], np.arange(bins))
        expected = np.empty(len(x), np.int64)
        expected[order] = np.arange(len(x)) - first[x[order]]
        return expected

    return Prepared(launch, ranks, reference)


@jit
def philox_kernel(out_ptr, seed, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.rand4x(seed, index)
    tl.store(out_ptr + index, (a + b) + (c + d))


def philox(rng: np.random.Generator, to_device: ToDevice, programs: int, block: int) -> Prepared:
    """Prepare sums of four random numbers each."""
    seed = int(rng.integers(1 << 31))
    out = to_device(np.zeros(programs * block, np.float32))
    return Prepared(
        launch=lambda: philox_kernel[(programs,)](out, seed, BLOCK=block),
        result=out,
        reference=lambda: sums_of_philox(seed, programs * block),
    )


def sums_of_philox(seed: int, count: int) -> np.ndarray:
    """Return the sums of the four numbers in [0, 1) of each counter (Salmon et al., 2011)."""
    low = np.uint64(0xFFFFFFFF)
    counter = [np.arange(count, dtype=np.uint64), *[np.zeros(count, np.uint64)] * 3]
    key = [np.uint64(seed), np.uint64(0)]
    for _ in range(10):
        a, b = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        shift = np.uint64(32)
        counter = [
            b >> shift ^ counter[1] ^ key[0],
            b & low,
            a >> shift ^ counter[3] ^ key[1],
            a & low,
        ]
        key = [key[0] + np.uint64(0x9E3779B9) & low, key[1] + np.uint64(0xBB67AE85) & low]
    bits = np.stack(counter).astype(np.uint32).view(np.int32).astype(np.int64)
    return (np.where(bits < 0, -bits - 1, bits) * 4.6566127342e-10).sum(axis=0)


@jit
def block_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (row, 0), (BM, BK), (1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (N, 1), (0, column), (BK, BN), (1, 0))
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(a, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(b, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(x, y, total, input_precision="ieee")
        a = tl.advance(a, (0, BK))
        b = tl.advance(b, (BK, 0))
    c = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (row, column), (BM, BN), (1, 0))
    tl.store(c, total, boundary_check=(0, 1))


def block_matmul(rng: np.random.Generator, to_device: ToDevice, size: int) -> Prepared:
    """Prepare a matmul of two square matrices through block pointers."""
    a, b = normal(rng, size, size), normal(rng, size, size)
    a_dev, b_dev, out = to_device(a), to_device(b), to_device(np.zeros_like(a))
    grid = (compiler.cdiv(size, 64), compiler.cdiv(size, 64))
    return Prepared(
        launch=lambda: block_matmul_kernel[grid](
            a_dev, b_dev, out, size, size, size, BM=64, BN=64, BK=32
        ),
        result=out,
        reference=lambda: a.astype(np.float64) @ b.astype(np.float64),
    )


OPERATIONS: dict[str, Case] = {
    "sort 4x1024": Case(sort, {"rows": 4, "columns": 1024}, tolerance=0),
    "reduce 128x128": Case(reduce, {"programs": 1, "rows": 128, "columns": 128}, tolerance=0),
    "cumsum 512x1024": Case(cumsum, {"rows": 512, "columns": 1024}, tolerance=5e-4),
    "histogram 512x1024": Case(histogram, {"rows": 512, "columns": 1024, "bins": 256}, tolerance=0),
    "atomics 1024x256": Case(atomics, {"programs": 1024, "block": 256, "bins": 4096}, tolerance=0),
    "philox 512x1024": Case(philox, {"programs": 512, "block": 1024}, tolerance=1e-6),
    "block pointers 512^3": Case(block_matmul, {"size": 512}, tolerance=5e-4),
}
