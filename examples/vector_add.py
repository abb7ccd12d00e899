"""Vector addition, in three steps: one block, any length, and an autotuned block size.

python examples/vector_add.py
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from report import Report

import tile
import tile.language as tl

N = 192_311


@tile.jit
def add_one_block(z_ptr, x_ptr, y_ptr):
    # A kernel computes on blocks of data. `x_ptr + offsets` is a block of 1024 pointers, one per
    # element of x; loading it returns a block of 1024 values.
    offsets = tl.arange(0, 1024)
    x = tl.load(x_ptr + offsets)
    y = tl.load(y_ptr + offsets)
    tl.store(z_ptr + offsets, x + y)


@tile.jit
def add_any_length(z_ptr, x_ptr, y_ptr, n):
    # Many programs run this function; `program_id` identifies this one. The last block reaches past
    # the end of the arrays: the mask disables these accesses.
    offsets = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + y, mask=inside)


# A `constexpr` is a compile-time constant, as the shape of a block must be. The first call for each
# `n` tries every configuration; later calls use the fastest.
@tile.autotune(
    configs=[tile.Config({"TILE": size}) for size in (256, 1024, 4096, 16384)], key=["n"]
)
@tile.jit
def add_tuned(z_ptr, x_ptr, y_ptr, n, TILE: tl.constexpr):
    offsets = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + y, mask=inside)


def main() -> int:
    argparse.ArgumentParser(description="sums of two random vectors").parse_args()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, N), dtype=np.float32)
    expected = x.astype(np.float64) + y
    # The sum is rounded once: by at most half an ulp of a number below 16.
    tolerance = 2.0**-21

    def one_block() -> dict[str, np.ndarray]:
        z = np.empty(1024, np.float32)
        add_one_block[(1,)](z, x[:1024], y[:1024])
        return {"z": z}

    def any_length() -> dict[str, np.ndarray]:
        z = np.empty_like(x)
        add_any_length[(tile.cdiv(N, 1024),)](z, x, y, N)
        return {"z": z}

    def tuned() -> dict[str, np.ndarray]:
        z = np.empty_like(x)
        # A grid may depend on the tuned configuration.
        add_tuned[lambda meta: (tile.cdiv(N, meta["TILE"]),)](z, x, y, N)
        return {"z": z}

    report = Report("z = x + y, random float32")
    report.measure("one block of 1024", one_block, {"z": expected[:1024]}, tolerance)
    report.measure(f"{N} in blocks of 1024", any_length, {"z": expected}, tolerance)
    report.measure(f"{N}, block size tuned", tuned, {"z": expected}, tolerance)
    sizes = ", ".join(str(config.kwargs["TILE"]) for config in add_tuned.configs)
    print(f"\nOf the block sizes {sizes}, {add_tuned.best_config.kwargs['TILE']} was fastest.")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
