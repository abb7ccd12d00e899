"""Compare matmuls and attention with JAX's Pallas kernels for Hopper, and with FlashAttention-3.

    python benchmarks/pallas_peers.py               all cases
    python benchmarks/pallas_peers.py --case 4096   cases whose name contains one of these
    python benchmarks/pallas_peers.py --markdown    also print a table as Markdown

JAX's `hopper_matmul_mgpu` and `attention_mgpu` (Pallas, Mosaic GPU) have producer warps and two
warpgroups in ping-pong. The fastest of the tiles that their own benchmarks list is chosen, of
matmuls also with clusters of two; here `tile.ops` chooses. A sample is the wall time of calls that
are enqueued together, some 10 ms, after 30 ms of rest. Samples of both alternate in random order; a
ratio is the median of Pallas's time to that of ours, next to the quartiles of the ratios of pairs.
Random data, float16; all results are compared with PyTorch's. The exit status is 1 if one is wrong.

The figures of FlashAttention-3 are those that its authors published, of an H100 (SXM5): figures 5
and 6 of arXiv 2407.08608. Shapes are theirs: 16384 tokens, heads of 2048 columns in all.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import torch
from jax.experimental.pallas.ops.gpu import attention_mgpu, hopper_matmul_mgpu

import tile
import tile.ops

SAMPLES = 15
SECONDS, REST = 10e-3, 30e-3
THREADS = 12  # that compile Pallas's kernels
TOKENS, WIDTH = 16384, 2048  # of attention: batch times positions, heads times columns

# TFLOP/s of FlashAttention-3 by (columns of a head, causal, positions).
FORWARD = {
    (64, False, 4096): 476, (64, False, 16384): 497,
    (128, False, 4096): 638, (128, False, 16384): 648,
    (128, True, 4096): 579, (128, True, 16384): 616,
    (256, False, 4096): 736, (256, False, 16384): 756,
    (256, True, 4096): 612, (256, True, 16384): 642,
}  # fmt: skip
BACKWARD = {(64, 4096): 453, (64, 16384): 474, (128, 4096): 542, (128, 16384): 561}

Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A problem: our call, Pallas's by the name of the tiles, the right results.

    `operations` are counted as the authors of FlashAttention do: half of them if causal, and two
    and a half times those of the forward pass for the gradients.
    """

    name: str
    ours: Call
    expected: tuple[torch.Tensor, ...]
    operations: float
    tolerance: float
    compilations: Mapping[str, Callable[[], Call]] = field(default_factory=dict)
    published: int | None = None


def to_jax(x: torch.Tensor) -> jax.Array:
    return jnp.from_dlpack(x.contiguous())


def compilation(function: Callable[..., Any], *arguments: Any) -> Callable[[], Call]:
    def compiled() -> Call:
        return functools.partial(jax.jit(function).lower(*arguments).compile(), *arguments)

    return compiled


def matmul(n: int) -> Case:
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    left, right = to_jax(a), to_jax(b)
    dimension = hopper_matmul_mgpu.MatmulDimension
    compilations = {}
    grids = [(width, None) for width in (4, 8, 16)] + [(8, cluster) for cluster in dimension]
    for rows, columns, minor, groups, (width, cluster) in itertools.product(
        (128, 256), (64, 128), dimension, dimension, grids
    ):
        config = hopper_matmul_mgpu.TuningConfig(
            tile_m=rows, tile_n=columns, tile_k=64, max_concurrent_steps=4, epi_tile_m=64,
            epi_tile_n=64, grid_minor_dim=minor, grid_tile_width=width, wg_dimension=groups,
            cluster_dimension=cluster,
        )  # fmt: skip
        if rows * columns > 128 * 128:
            continue  # the sums exceed a warpgroup's registers
        function = functools.partial(hopper_matmul_mgpu.matmul, c=None, config=config)
        shared = "one" if cluster is None else f"two by {cluster.name}"
        name = f"{rows} {columns} 64, {groups.name} {minor.name} {width}, cluster of {shared}"
        compilations[name] = compilation(function, left, right)
    ours = functools.partial(tile.ops.matmul, a, b)
    return Case(f"matmul {n} cubed", ours, (a @ b,), 2.0 * n**3, 1e-2, compilations)


def operands(size: int, positions: int) -> list[torch.Tensor]:
    """Return random queries, keys and values."""
    shape = (TOKENS // positions, WIDTH // size, positions, size)
    return [torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3)]


def attention(size: int, causal: bool, positions: int) -> Case:
    q, k, v = operands(size, positions)
    # Pallas's arrays are (batch, positions, heads, columns), and it does not scale.
    arrays = [to_jax(x.transpose(1, 2)) for x in (q * size**-0.5, k, v)]
    compilations = {}
    for rows, keys, steps in itertools.product((64, 128), (256, 128, 64), (2, 3, 4)):
        if rows * size > 128 * 128:
            continue  # the sums exceed a warpgroup's registers
        config = attention_mgpu.TuningConfig(
            block_q=rows, block_kv=keys, max_concurrent_steps=steps, causal=causal
        )
        function = functools.partial(attention_mgpu.attention, config=config)
        compilations[f"{rows} {keys}, {steps} stages"] = compilation(function, *arrays)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return Case(
        f"attention, {size} columns, {positions} positions{', causal' if causal else ''}",
        functools.partial(tile.ops.attention, q, k, v, causal=causal),
        (expected,),
        4.0 * TOKENS * positions * WIDTH / (2 if causal else 1),
        5e-3,
        compilations,
        FORWARD.get((size, causal, positions)),
    )


def gradients(size: int, positions: int) -> Case:
    q, k, v = operands(size, positions)
    dout = torch.randn_like(q)
    out, log_sums = tile.ops.attention(q, k, v, log_sums=True)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    right = torch.nn.functional.scaled_dot_product_attention(*leaves)
    return Case(
        f"gradients of attention, {size} columns, {positions} positions",
        functools.partial(tile.ops.attention_backward, dout, q, k, v, out, log_sums),
        torch.autograd.grad(right, leaves, dout),
        10.0 * TOKENS * positions * WIDTH,
        2e-2,
        published=BACKWARD[size, positions],
    )


def makers() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield the first words of a case's name, and the function that makes it."""
    for n in (4096, 8192):
        yield f"matmul {n}", functools.partial(matmul, n)
    for size, positions in itertools.product((64, 128, 256), (4096, 16384)):
        for causal in (False, True):
            name = f"attention {size} {positions}{' causal' if causal else ''}"
            yield name, functools.partial(attention, size, causal, positions)
    for size, positions in BACKWARD:
        yield f"gradients {size} {positions}", functools.partial(gradients, size, positions)


def difference(result: Any, case: Case) -> float:
    """Return the largest difference, in units of what is allowed."""
    results = result if isinstance(result, tuple) else (result,)
    return max(
        (torch.as_tensor(a) - b).abs().max().item() / b.abs().max().item() / case.tolerance
        for a, b in zip(results, case.expected, strict=True)
    )


def of_jax(result: jax.Array, case: Case) -> torch.Tensor:
    x = torch.from_dlpack(jax.block_until_ready(result))
    return x.transpose(1, 2) if x.ndim == 4 else x


def seconds(call: Call, count: int, wait: Callable[[Any], Any]) -> float:
    """Return the wall time of a call, of so many that are enqueued together."""
    start = time.perf_counter()
    for _ in range(count):
        result = call()
    wait(result)
    return (time.perf_counter() - start) / count


def synchronize(_: Any) -> None:
    torch.cuda.synchronize()


def fastest(case: Case) -> tuple[str, Call] | None:
    """Return Pallas's tiles that take the least time, of those that fit and are right."""
    times: dict[str, tuple[float, Call]] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        futures = {name: pool.submit(make) for name, make in case.compilations.items()}
    for name, future in futures.items():
        try:
            call = future.result()
            error = difference(of_jax(call(), case), case)
        except ValueError as problem:
            if "available shared memory" not in str(problem):
                raise
            print(f"  {name}: {problem}", file=sys.stderr)
            continue
        if error > 1:
            print(f"  {name}: wrong by {error:.1f} times what is allowed", file=sys.stderr)
            continue
        times[name] = min(seconds(call, 4, jax.block_until_ready) for _ in range(3)), call
    if not times:
        return None
    name = min(times, key=lambda name: times[name][0])
    return name, times[name][1]


def alternating(calls: list[tuple[Call, Callable[[Any], Any]]]) -> list[list[float]]:
    """Return samples of each call, taken in random order."""
    counts = [max(1, round(SECONDS / seconds(call, 4, wait))) for call, wait in calls]
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(SAMPLES):
        for index in random.sample(range(len(calls)), len(calls)):
            torch.cuda.synchronize()
            time.sleep(REST)
            call, wait = calls[index]
            samples[index].append(seconds(call, counts[index], wait))
    return samples


def row(case: Case) -> tuple[list[str], bool]:
    """Return the cells of a row, and whether our results are right."""
    right = difference(case.ours(), case) <= 1
    calls: list[tuple[Call, Callable[[Any], Any]]] = [(case.ours, synchronize)]
    peer = fastest(case)
    if peer is not None:
        calls.append((peer[1], jax.block_until_ready))
    samples = alternating(calls)
    rates = [case.operations / statistics.median(times) / 1e12 for times in samples]
    ratio, quartiles = "", ""
    if peer is not None:
        low, _, high = statistics.quantiles([b / a for a, b in zip(*samples, strict=True)], n=4)
        ratio, quartiles = f"{rates[0] / rates[1]:.3f}", f"{low:.3f} to {high:.3f}"
    cells = [
        case.name + ("" if right else " (wrong)"), ratio, quartiles,
        f"{statistics.median(samples[0]) * 1e6:.1f}", f"{rates[0]:.0f}",
        f"{rates[1]:.0f}" if peer else "", peer[0] if peer else "", str(case.published or ""),
    ]  # fmt: skip
    return cells, right


HEADER = [
    "work", "ratio", "quartiles", "us", "TFLOP/s", "Pallas", "its tiles", "FA3, H100, published",
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", nargs="+", default=[""], help="parts of names of cases")
    parser.add_argument("--markdown", action="store_true", help="also print a table as Markdown")
    options = parser.parse_args()
    print(f"JAX {jax.__version__}, torch {torch.__version__}, {torch.cuda.get_device_name()}")
    rows, right = [], []
    for name, make in makers():
        if any(part in name for part in options.case):
            cells, is_right = row(make())
            rows.append(cells)
            right.append(is_right)
            print("  ".join(cells), flush=True)
    if options.markdown:
        table = [HEADER, ["---"] * len(HEADER), *rows]
        print("\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in table))
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
