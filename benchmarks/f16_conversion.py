"""Benchmark f16 kernels on an OpenCL device by the CPU time of this process.

    python benchmarks/f16_conversion.py --device portable

prints medians of 7; results are compared in the same run.

They measure the cost of converting f16 on a device without f16 arithmetic, and the loops that
convert. Attention is that of the examples, with two heads of 512 queries.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import attention
import numpy as np
from opencl import add_kernel, cpu_seconds, matmul_kernel, softmax_kernel, table

import tile
from tile.backends.opencl import devices
from tile.config import config


def rows() -> Iterator[list[str]]:
    random = np.random.default_rng(0)

    def random_f16(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32).astype(np.float16)

    n = 1 << 22
    for name, scale in (("add 2^22", 1), ("add 2^22, subnormal", 2**-20)):
        x, y = (random_f16(n) * np.float16(scale) for _ in "xy")
        total = np.zeros_like(x)

        def add(x=x, y=y, total=total) -> None:
            add_kernel[(tile.cdiv(n, 1024),)](x, y, total, n, BLOCK=1024)

        yield row(name, add, lambda total=total, x=x, y=y: (total, x + y), 0.0)

    x = random_f16(1024, 1024)
    out = np.zeros_like(x)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    yield row(
        "softmax 1024x1024",
        lambda: softmax_kernel[(1024,)](x, out, 1024, BLOCK=1024),
        lambda: (out, powers / powers.sum(1, keepdims=True)),
        1e-3,
    )
    a, b, c = random_f16(256, 256), random_f16(256, 256), np.zeros((256, 256), np.float32)
    tiles = {"BM": 64, "BN": 64, "BK": 32, "num_warps": 4, "num_stages": 1}
    yield row(
        "matmul 256",
        lambda: matmul_kernel[(4, 4)](a, b, c, 256, 256, **tiles),
        lambda: (c, a.astype(np.float64) @ b.astype(np.float64)),
        1e-2,
    )
    q, k, v, dout = (random_f16(1, 2, 512, 64) for _ in range(4))
    expected = attention.reference(q, k, v, dout, False)
    done = attention.forward(q, k, v, False)
    yield row(
        "attention, forward",
        lambda: done.update(attention.forward(q, k, v, False)),
        lambda: (done["out"], expected["out"]),
        4e-3,
    )
    gradients: dict[str, np.ndarray] = {}
    yield row(
        "attention, backward",
        lambda: gradients.update(attention.backward(q, k, v, done, dout, False)),
        lambda: tuple(
            np.stack([of[g] for g in ("dq", "dk", "dv")]) for of in (gradients, expected)
        ),
        4e-3,
    )


def row(
    name: str,
    call: Callable[[], object],
    results: Callable[[], tuple[np.ndarray, np.ndarray]],
    tolerance: float,
) -> list[str]:
    """Return the median and least time of a call, and the greatest error of its result."""
    times = cpu_seconds(call)
    result, expected = results()
    error = float(np.abs(result.astype(np.float64) - expected).max())
    verdict = f"{error:.1e}" if error <= tolerance else f"WRONG by {error:.1e}"
    return [name, f"{statistics.median(times) * 1e3:.1f}", f"{min(times) * 1e3:.1f}", verdict]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="", help="by index or part of its name")
    parser.add_argument("--markdown", action="store_true", help="a table as Markdown")
    options = parser.parse_args()
    with config.scope(opencl_device=options.device, cache=False), tile.backend("opencl"):
        print(f"{devices.chosen().name}\n")
        table(("case", "CPU ms", "least", "error"), rows(), options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
