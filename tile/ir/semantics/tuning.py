"""Tuning constants of the reference semantics in NumPy."""

from __future__ import annotations

from dataclasses import dataclass

from tile.measured import constant


@dataclass(frozen=True)
class NumpyTuning:
    """Sizes from which other ways to compute the same values are faster, in elements."""

    # Elements computed at a time, so that intermediate values stay in cache.
    cached_elements: int = constant(1 << 14)
    # Elements from which several integer SIMD passes beat one scalar loop of NumPy.
    simd_elements: int = constant(1 << 13)
    # Rows of a matmul that keep BLAS busy.
    matmul_rows: int = constant(64)
    # Multiplications of a matmul up to which OpenBLAS starts no threads.
    serial_multiplications: int = constant(
        1 << 18,
        "OpenBLAS, interface/gemm.c: SMP_THRESHOLD_MIN (65536) * GEMM_MULTITHREAD_THRESHOLD (4)",
    )


TUNING = NumpyTuning()
