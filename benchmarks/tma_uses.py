"""Time kernels with and without each use of TMA that is not the default (the option `tma`).

    python benchmarks/tma_uses.py                  on an NVIDIA GPU with TMA
    python benchmarks/tma_uses.py --case strips    cases whose name contains `strips`
    python benchmarks/tma_uses.py --check          small sizes on the simulator: results alone

Each result is compared with NumPy's or PyTorch's. Calls are timed in random order, in bursts of
8 ms after 30 ms of rest, so that the card is cool. The table has medians and quartiles without and
with the use, in microseconds, and their ratio; of matmuls by pointers, also the ratio of the time
of PyTorch's to that with the use.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tile
import tile.language as tl

BURST, REST = 8.0, 0.03  # ms of work, and seconds between


@tile.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B, in any type of C."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


@tile.jit
def tile_by_pointers(
    number, a_ptr, b_ptr, c_ptr, M, N, K, am, bk, cm, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr, INDICES: tl.constexpr,
):  # fmt: skip
    """Compute a tile of C = A B as Triton's tutorial does: rows and columns modulo M and N.

    INDICES: "modulo"; "masks", which leave out what is outside of the arrays; or "any", for
    arrays of whole blocks.
    """
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = number // (GROUP * tiles_n) * GROUP
    group = min(tiles_m - first, GROUP)
    row = first + number % (GROUP * tiles_n) % group
    column = number % (GROUP * tiles_n) // group
    tl.assume(row >= 0)
    tl.assume(column >= 0)
    rows, columns = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    in_c = (rows < M)[:, None] & (columns < N)[None, :]
    c_ptrs = c_ptr + rows[:, None] * cm + columns[None, :]
    in_rows, in_columns = (rows < M)[:, None], (columns < N)[None, :]
    if INDICES == "modulo":
        rows, columns = rows % M, columns % N
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * am + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * bk + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        if INDICES == "any":
            x, y = tl.load(a_ptrs), tl.load(b_ptrs)
        elif INDICES == "modulo":
            x = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
            y = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        else:
            x = tl.load(a_ptrs, mask=in_rows & (inner[None, :] < K - k * BK), other=0.0)
            y = tl.load(b_ptrs, mask=(inner[:, None] < K - k * BK) & in_columns, other=0.0)
        total = tl.dot(x, y, total)
        a_ptrs += BK
        b_ptrs += BK * bk
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=in_c)


@tile.jit
def by_pointers(
    a_ptr, b_ptr, c_ptr, M, N, K, am, bk, cm, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr, INDICES: tl.constexpr,
):  # fmt: skip
    tile_by_pointers(
        tl.program_id(0), a_ptr, b_ptr, c_ptr, M, N, K, am, bk, cm, BM, BN, BK, GROUP, INDICES
    )


@tile.jit
def persistent_by_pointers(
    a_ptr, b_ptr, c_ptr, M, N, K, am, bk, cm, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr, INDICES: tl.constexpr,
):  # fmt: skip
    for number in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)):
        tile_by_pointers(
            number, a_ptr, b_ptr, c_ptr, M, N, K, am, bk, cm, BM, BN, BK, GROUP, INDICES
        )


@tile.jit
def split_k(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C += A B, to which programs along axis 2 add parts."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.program_id(2) * BK, K, BK * tl.num_programs(2)):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.atomic_add([row, column], total)


@dataclass(frozen=True)
class Case:
    """A call with a use of TMA: its arrays, the launch with options, and the expected result.

    peer: what else computes it, if its time is to be compared.
    """

    name: str
    use: str
    arrays: Sequence[Any]
    launch: Callable[..., object]
    expected: Callable[[], Any]
    peer: Callable[[], object] | None = None

    def is_right(self, tma: str) -> bool:
        """Return True if the result is right with some uses of TMA."""
        *_, result = self.arrays
        result[...] = 0
        self.launch(tma=tma)
        difference = abs(_float(result) - _float(self.expected()))
        return bool(difference.max() <= 0.01 * abs(_float(self.expected())).max())


def _float(x: Any) -> Any:
    return x.float() if hasattr(x, "float") else x.astype(np.float32)


class Arrays:
    """Random arrays of NumPy, or of PyTorch on the GPU."""

    def __init__(self, on_gpu: bool) -> None:
        self.on_gpu = on_gpu

    def random(self, *shape: int, dtype: str = "float16") -> Any:
        if self.on_gpu:
            import torch

            return torch.randn(shape, device="cuda").to(getattr(torch, dtype))
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)

    @property
    def processors(self) -> int:
        """The multiprocessors of the GPU; of the simulator, one that a program does not fill."""
        if not self.on_gpu:
            return 1
        import torch

        return int(torch.cuda.get_device_properties(0).multi_processor_count)

    def matmul(self, a: Any, b: Any) -> Callable[[], object]:
        """Return PyTorch's matmul, as a call."""
        import torch

        out = torch.empty(a.shape[0], b.shape[1], device="cuda", dtype=a.dtype)
        return lambda: torch.matmul(a, b, out=out)

    def product(self, a: Any, b: Any) -> Any:
        return _float(a) @ _float(b)


def cases(on_gpu: bool) -> list[Case]:
    """Return the cases, of sizes for a GPU or for the simulator."""
    arrays, made = Arrays(on_gpu), []
    blocks = {"BM": 128, "BN": 256, "BK": 64} if on_gpu else {"BM": 64, "BN": 128, "BK": 32}
    options: dict[str, Any] = {"num_warps": 8 if on_gpu else 4, "num_stages": 3}
    for size in (1024, 4096, 8192) if on_gpu else (192,):
        for use, dtype in (("strips", "float16"), ("stores", "float32")):
            a, b = arrays.random(size, size), arrays.random(size, size)
            c = arrays.random(size, size, dtype=dtype)
            grid = tile.cdiv(size, blocks["BM"]), tile.cdiv(size, blocks["BN"])

            def launch(a: Any = a, b: Any = b, c: Any = c, n: int = size, grid: Any = grid,
                       **kwargs: Any) -> object:  # fmt: skip
                return matmul[grid](a, b, c, n, n, n, **blocks, **options, **kwargs)

            def expected(a: Any = a, b: Any = b) -> Any:
                return arrays.product(a, b)

            made.append(Case(f"{use}: matmul to {dtype}, {size}", use, (a, b, c), launch, expected))
    m, k, splits = (512, 16384, 16) if on_gpu else (128, 256, 3)
    a, b = arrays.random(m, k), arrays.random(k, m)
    c = arrays.random(m, m, dtype="float32")
    square = blocks | {"BM": min(128, m), "BN": min(128, m)}
    made.append(
        Case(
            f"reduce: split K, {m} x {m} x {k}",
            "reduce",
            (a, b, c),
            lambda **kwargs: split_k[m // square["BM"], m // square["BN"], splits](
                a, b, c, m, m, k, **square, **options, **kwargs
            ),
            lambda: arrays.product(a, b),
        )
    )
    return made


def pointer_cases(on_gpu: bool) -> list[Case]:
    """Return matmuls through pointers, of one tile a program and of several."""
    arrays = Arrays(on_gpu)
    blocks = {"BM": 128, "BN": 256, "BK": 64} if on_gpu else {"BM": 64, "BN": 64, "BK": 32}
    shapes = [(n, n, n) for n in (1024, 4096, 8192)] + [(2048, 7000, 2048), (1000, 1016, 520)]
    kinds: list[tuple[str, Any, dict[str, Any]]] = [
        ("modulo", by_pointers, {}),
        ("masks", by_pointers, {}),
        ("any", by_pointers, {}),
        ("modulo", persistent_by_pointers, {"warp_specialize": True}),
    ]
    made = []
    for m, n, k in shapes if on_gpu else [(136, 88, 144), (128, 64, 96)]:
        a, b, c = arrays.random(m, k), arrays.random(k, n), arrays.random(m, n)
        tiles = tile.cdiv(m, blocks["BM"]) * tile.cdiv(n, blocks["BN"])
        for indices, kernel, more in kinds:
            if indices == "any" and (m % blocks["BM"] or n % blocks["BN"] or k % blocks["BK"]):
                continue
            options = {"num_warps": 8 if on_gpu else 4, "num_stages": 3, **more}
            programs = min(tiles, arrays.processors) if more else tiles

            def launch(
                a: Any = a, b: Any = b, c: Any = c, sizes: Any = (m, n, k, k, n, n),
                kernel: Any = kernel, programs: int = programs, options: Any = options,
                indices: str = indices, tma: str = "",
            ) -> object:  # fmt: skip
                chosen = options if tma else {**options, "warp_specialize": None}
                constants = {**blocks, "GROUP": 8, "INDICES": indices}
                return kernel[programs,](a, b, c, *sizes, **constants, **chosen, tma=tma)

            def expected(a: Any = a, b: Any = b) -> Any:
                return arrays.product(a, b)

            name = f"pointers: {'persistent, ' if more else ''}{indices}, {m} x {n} x {k}"
            peer = arrays.matmul(a, b) if on_gpu else None
            made.append(Case(name, "pointers", (a, b, c), launch, expected, peer))
    return made


def times(calls: Sequence[Callable[[], object]], samples: int = 25) -> list[list[float]]:
    """Return samples of the microseconds that each call takes."""
    import torch

    measured: list[list[float]] = [[] for _ in calls]
    counts = [1] * len(calls)  # of calls in a burst, which are enough for most of its time
    for number in [n for _ in range(samples) for n in random.sample(range(len(calls)), len(calls))]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        while True:
            torch.cuda.synchronize()
            time.sleep(REST)
            start.record()
            for _ in range(counts[number]):
                calls[number]()
            end.record()
            end.synchronize()
            elapsed = start.elapsed_time(end)
            if elapsed >= BURST / 2:
                break
            counts[number] *= 2
        measured[number].append(1000 * elapsed / counts[number])
    return measured


def compared(case: Case) -> str:
    """Return the times without and with a use of TMA, their ratio, and the peer's to the latter."""
    calls = [lambda: case.launch(tma=""), lambda: case.launch(tma=case.use)]
    if case.peer is not None:
        calls.append(case.peer)
    quartiles = [statistics.quantiles(each, n=4) for each in times(calls)]
    spread = "".join(f"  {q[1]:9.1f} ({q[0]:.1f} to {q[2]:.1f})" for q in quartiles[:2])
    without, by_tma, *peers = (q[1] for q in quartiles)
    ratios = [without / by_tma, *[peer / by_tma for peer in peers]]
    return spread + "".join(f"  {ratio:.3f}" for ratio in ratios)


def main() -> int:
    """Print the table; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", default="")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    target = tile.backend("interp:wgmma") if arguments.check else contextlib.nullcontext()
    wrong = 0
    with target:
        for case in [*cases(not arguments.check), *pointer_cases(not arguments.check)]:
            if arguments.case not in case.name:
                continue
            right = case.is_right("") and case.is_right(case.use)
            wrong += not right
            timed = "" if arguments.check else compared(case)
            print(f"{case.name:<60} {'right' if right else 'WRONG'}{timed}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
