"""Time the host's part of launches: plain, tuned, with tensor descriptors, and of lists of arrays.

    python benchmarks/launches.py           on an NVIDIA GPU, with torch.add
    python benchmarks/launches.py --stub    the Python part alone, without a GPU: torch's tensors of
                                            the host pose as a device's, and the driver's launch
                                            function is one of C that does nothing

A call is timed in tight loops; the median of 15 loops of 400 calls is printed, in us; with --stub
the least CPU time, as the machine may be busy. The device is idle between loops, and kernels are so
small that the queue of launches does not fill.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import os
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

import tile
import tile.language as tl
from tile.ops import foreach_apply

LOOPS, CALLS = 15, 400


@tile.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x, y = tl.load(x_ptr + i, mask=mask), tl.load(y_ptr + i, mask=mask)
    tl.store(out_ptr + i, x + y, mask=mask)


def equal_times(run: Callable[[], object], quantiles: tuple[float, ...]) -> list[float]:
    """In place of a measurement, as it does not matter which configuration is chosen."""
    return [1.0 for _ in quantiles]


CONFIGS = [tile.Config({"BLOCK": 128}), tile.Config({"BLOCK": 64})]
tuned = tile.autotune(configs=CONFIGS, key=["n"], do_bench=equal_times)(tile.jit(add.fn))


@tile.jit
def matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


BLOCKS = {"BM": 64, "BN": 64, "BK": 64}


def calls(device: str) -> dict[str, Callable[[], object]]:
    """Return the calls to time, by name."""
    x, y, out = (torch.zeros(128, device=device) for _ in range(3))
    a, b, c = (torch.zeros(64, 64, device=device, dtype=torch.float16) for _ in range(3))
    describe = tile.TensorDescriptor.from_tensor
    made = [describe(tensor, [64, 64]) for tensor in (a, b, c)]

    def per_call() -> None:
        described = (describe(a, [64, 64]), describe(b, [64, 64]), describe(c, [64, 64]))
        matmul[(1, 1)](*described, 64, **BLOCKS)

    memory = torch.zeros(1 << 24, device=device, dtype=torch.float16)
    starts = itertools.cycle(range(0, 1 << 23, 64))

    def fresh() -> None:
        new = memory.as_strided((64, 64), (64, 1), next(starts))
        matmul[(1, 1)](describe(new, [64, 64]), made[1], made[2], 64, **BLOCKS)

    xs, ys = ([torch.zeros(128, device=device) for _ in range(10)] for _ in range(2))
    return {
        "torch.add": lambda: torch.add(x, y, out=out),
        "plain launch": lambda: add[(1,)](x, y, out, 100, BLOCK=128),
        "tuned launch": lambda: tuned[(1,)](x, y, out, 100),
        "tuned launch, grid function": lambda: tuned[lambda m: (1,)](x, y, out, 100),
        "from_tensor": lambda: describe(a, [64, 64]),
        "launch with 3 descriptors": lambda: matmul[(1, 1)](*made, 64, **BLOCKS),
        "3 descriptors and launch": per_call,
        "1 descriptor of another array each time, and launch": fresh,
        "torch._foreach_add_ of 10 arrays": lambda: torch._foreach_add_(xs, ys),
        "foreach_apply of 10 arrays, in place": lambda: foreach_apply("add", xs, ys, out=xs),
        "foreach_apply of 10 arrays": lambda: foreach_apply("add", xs, ys),
    }


def microseconds(
    call: Callable[[], object],
    wait: Callable[[], object],
    clock: Callable[[], float],
    choose: Callable[[list[float]], float],
) -> float:
    """Return the time of a call in a loop, chosen among the times of several loops."""
    times = []
    for _ in range(70):
        call()
    for _ in range(LOOPS):
        wait()
        start = clock()
        for _ in range(CALLS):
            call()
        times.append((clock() - start) / CALLS * 1e6)
    return choose(times)


def pose() -> None:
    """Let torch's tensors of the host pass as a device's, and replace the driver."""
    from tile.backends.nvptx import driver, loaded_module
    from tile.ops.core import call_keys, list_keys
    from tile.runtime import fast_path
    from tile.runtime.arguments import adapt, torch_tensors

    os.environ["TILE_BACKEND"] = "nvptx:sm_90a"
    nothing = ctypes.CDLL(None).pthread_getconcurrency  # a C function that returns 0
    device = SimpleNamespace(
        ordinal=0,
        architecture="sm_90a",
        shared_bytes=1 << 18,
        current=nullcontext,
        has_clusters=True,
        has_dependent_launches=True,
        major=9,
    )

    def load(loaded: Any, code: bytes, kernel: str, shared_bytes: int, **options: Any) -> None:
        loaded.kernel, loaded.shared_bytes, loaded.function = kernel, shared_bytes, 1 << 40
        loaded.launch = lambda *arguments, **how: None

    def encode(*description: Any) -> Any:
        data = ctypes.create_string_buffer(128)
        return SimpleNamespace(getPtr=lambda: ctypes.addressof(data))

    def on_device(tensor: Any, label: str) -> Any:
        return replace(torch_tensors.torch_device_array(tensor, label), device="cuda:0")

    adapt.torch_array = on_device
    for reader in (torch_tensors, fast_path, call_keys, list_keys):
        reader.only_cuda_numbered = lambda: True  # type: ignore[attr-defined]
    driver.device = lambda ordinal: device
    driver.version = lambda: 13000
    driver.direct = dict.fromkeys(("cuLaunchKernelEx", "cuTensorMapReplaceAddress"), nothing).get
    loaded_module.Loaded.__init__ = load
    driver.tensor_map = encode
    torch._C._cuda_getCurrentRawStream = lambda ordinal: 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stub", action="store_true", help="without a GPU")
    stub = parser.parse_args().stub
    if stub:
        pose()
    measure = (torch.cuda.synchronize, time.perf_counter, statistics.median)
    if stub:
        measure = (gc.collect, time.process_time, min)
    for name, call in calls("cpu" if stub else "cuda").items():
        print(f"{microseconds(call, *measure):8.2f} us  {name}", flush=True)


if __name__ == "__main__":
    main()
