"""Elementwise sin, and a benchmark of it against NumPy over a range of sizes.

python examples/sin.py --rows 256 --columns 256 1024 4096 --plot plots

`tile.testing.perf_report` turns a function that measures one point into a table and a plot.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from report import Report, positive

import tile
import tile.language as tl


@tile.jit
def sin_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, tl.sin(x), mask=inside)


def sin(x: np.ndarray) -> np.ndarray:
    """Return the sine of each element of `x`, a contiguous array of any shape."""
    out = np.empty_like(x)
    sin_kernel[lambda meta: (tile.cdiv(x.size, meta["BLOCK_SIZE"]),)](
        x, out, x.size, BLOCK_SIZE=256
    )
    return out


PROVIDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"tile": sin, "numpy": np.sin}


def benchmark(rows: int, columns: list[int]) -> tile.testing.Mark:
    """Return a benchmark of both on matrices of `rows` rows, in GB/s read and written."""

    @tile.testing.perf_report(
        tile.testing.Benchmark(
            x_names=["N"],  # the x axis
            x_vals=columns,
            line_arg="provider",  # one line of the plot for each
            line_vals=list(PROVIDERS),
            line_names=["tile", "NumPy"],
            styles=[("blue", "-"), ("green", "-")],
            xlabel=f"columns (of {rows} rows)",
            ylabel="GB/s",
            plot_name="sin-performance",
            args={"M": rows},
        )
    )
    def measure(M: int, N: int, provider: str) -> tuple[float, float, float]:
        x = np.random.default_rng(0).standard_normal((M, N), dtype=np.float32)
        run = PROVIDERS[provider]
        # The median, and the quantiles 0.2 and 0.8.
        ms, low_ms, high_ms = tile.testing.do_bench(lambda: run(x), quantiles=[0.5, 0.2, 0.8])
        return tuple(2 * x.nbytes * 1e-6 / t for t in (ms, high_ms, low_ms))

    return measure


def main() -> int:
    parser = argparse.ArgumentParser(description="sin, with a benchmark against NumPy")
    parser.add_argument("--rows", type=positive, default=256)
    parser.add_argument("--columns", type=positive, nargs="+", default=[256, 512, 1024, 2048, 4096])
    parser.add_argument("--plot", metavar="DIR", help="folder to save a PNG and the numbers in")
    options = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((1024, 1024), dtype=np.float32)

    report = Report("sin of 1024 x 1024 float32 numbers")
    report.measure("sin", lambda: {"out": sin(x)}, {"out": np.sin(x.astype(np.float64))}, 2.5e-7)
    print()
    benchmark(options.rows, options.columns).run(print_data=True, save_path=options.plot or "")
    if options.plot:
        print(f"The plot is in {options.plot}.")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
