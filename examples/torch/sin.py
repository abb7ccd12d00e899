"""Replace PyTorch's `sin` by a kernel, with autograd kept, and time both.

python examples/torch/sin.py --columns 256 1024 4096 --plot plots

Runs on the GPU where PyTorch has one, else on the CPU by the interpreter.
"""

from __future__ import annotations

import argparse
import sys

import torch

import tile
import tile.language as tl
import tile.torch


@tile.jit
def sin_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = offsets < n
    tl.store(out_ptr + offsets, tl.sin(tl.load(x_ptr + offsets, mask=inside)), mask=inside)


def sin(x: torch.Tensor) -> torch.Tensor:
    """Return the sine of each element of `x`."""
    out = torch.empty_like(x)  # dense, and with the layout of a dense `x`
    if out.stride() != x.stride():
        x = torch.empty_like(out).copy_(x)
    sin_kernel[lambda meta: (tile.cdiv(x.numel(), meta["BLOCK_SIZE"]),)](
        x, out, x.numel(), BLOCK_SIZE=1024
    )
    return out


def check(device: str) -> None:
    """Compare results and gradients while PyTorch's own `sin` is replaced."""
    x = torch.randn(1000, 37, device=device, requires_grad=True)
    expected = torch.sin(x).detach()
    with tile.torch.override("aten::sin", sin, device=device):
        y = x.sin()
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(x.t().sin(), expected.t())
    y.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())
    print(f"sin on {device}: results and gradients are those of PyTorch")


def benchmark(device: str, rows: int, columns: list[int]) -> tile.testing.Mark:
    """Return a benchmark of both on matrices of `rows` rows, in GB/s read and written."""

    @tile.testing.perf_report(
        tile.testing.Benchmark(
            x_names=["N"],
            x_vals=columns,
            line_arg="provider",
            line_vals=["tile", "torch-native"],
            line_names=["tile", "Torch (native)"],
            styles=[("blue", "-"), ("green", "-")],
            xlabel=f"columns (of {rows} rows)",
            ylabel="GB/s",
            plot_name="sin-performance",
            args={"M": rows},
        )
    )
    def measure(M: int, N: int, provider: str) -> tuple[float, float, float]:
        x = torch.randn(M, N, device=device)
        function = sin if provider == "tile" else torch.sin
        ms, low_ms, high_ms = tile.testing.do_bench(lambda: function(x), quantiles=[0.5, 0.2, 0.8])
        return tuple(2 * x.nbytes * 1e-6 / t for t in (ms, high_ms, low_ms))

    return measure


def main() -> int:
    parser = argparse.ArgumentParser(description="PyTorch's sin replaced by a kernel")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--plot", metavar="DIR", help="folder to save a PNG and the numbers in")
    options = parser.parse_args()
    if min(options.rows, *options.columns) < 1:
        parser.error("sizes are numbers from 1 on")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    check(device)
    benchmark(device, options.rows, options.columns).run(
        print_data=True, save_path=options.plot or ""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
