"""Parts of `triton.testing` that `tile.testing` does not have."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tile.compat.driver import driver
from tile.compat.nested import canonicalize_dtype
from tile.errors import ArgumentValueError
from tile.runtime.autotuning.do_bench import (
    can_capture,
    check_summary,
    do_bench,
    graph_times,
    summarized,
)

SUBCORES = 4  # of one multiprocessor
# Operations of one subcore and cycle, by the name of the type.
TENSOR_CORE_OPERATIONS = {"fp32": 256, "i32": 256, "fp16": 512, "bf16": 512, "i16": 512, "i8": 1024}
TENSOR_CORE_OPERATIONS |= dict.fromkeys(("fp8e4nv", "fp8e5", "fp8e4b15"), 1024)
SIMD_OPERATIONS = {"fp32": 32, "fp16": 64, "bf16": 64}


def do_bench_cudagraph(
    fn: Callable[[], object],
    rep: float = 20,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Return the time of a call of `fn` in ms, by replays of a CUDA graph of many calls.

    If PyTorch uses no GPU, calls are timed as `do_bench` does. Raises PyTorch's error for calls
    that it cannot capture. The other parameters are those of `do_bench`.
    """
    if not can_capture():
        return do_bench(
            fn, rep=rep, grad_to_none=grad_to_none, quantiles=quantiles, return_mode=return_mode
        )
    check_summary(quantiles, return_mode)

    def call() -> None:
        for tensor in grad_to_none or ():
            tensor.grad = None
        fn()

    return summarized(graph_times(call, rep), quantiles, return_mode)


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """Return attributes of the GPU that `nvidia-smi` reports, such as `clocks.current.sm`."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(attrs)}"]
    text = subprocess.check_output([*command, "--format=csv,noheader,nounits"], text=True)
    return [int(number) for number in text.split(",")]


def _properties(device: int | None) -> dict[str, int]:
    chosen = driver.active.get_current_device() if device is None else device
    return dict(driver.active.utils.get_device_properties(chosen))


def get_dram_gbps(device: int | None = None) -> float:
    """Return the bandwidth of a device's memory in GB/s, as its clock and bus width give it."""
    properties = _properties(device)
    return properties["mem_clock_rate"] * properties["mem_bus_width"] * 2 / 1e6 / 8


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """Return the peak TFLOP/s of the tensor cores for a type, at a clock in kHz.

    Raises `ArgumentValueError` for a type that they do not have.
    """
    return _tflops(TENSOR_CORE_OPERATIONS, dtype, clock_rate, device)


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """Return the peak TFLOP/s of all lanes for a type, at a clock in kHz.

    Raises `ArgumentValueError` for other types than floats of 16 and 32 bits.
    """
    return _tflops(SIMD_OPERATIONS, dtype, clock_rate, device)


def _tflops(operations: dict[str, int], dtype: Any, clock_rate: float, device: int | None) -> float:
    name = canonicalize_dtype(dtype)
    if name not in operations:
        raise ArgumentValueError(f"there is no peak for {name}; there is for {list(operations)}")
    multiprocessors = _properties(device)["multiprocessor_count"]
    return multiprocessors * SUBCORES * clock_rate * operations[name] * 1e-9


@contextmanager
def set_gpu_clock(
    ref_sm_clock: int = 1350, ref_mem_clock: int = 1215
) -> Iterator[tuple[float, float]]:
    """Fix the GPU's clocks in MHz inside the `with` block, by `nvidia-smi`.

    Yield TFLOP/s and GB/s of an A100 at these clocks.
    """
    smi = ["nvidia-smi", "-i", "0"]
    clocks = {"gpu": ref_sm_clock, "memory": ref_mem_clock}
    try:
        subprocess.check_output([*smi, "-pm", "1"])
        for name, clock in clocks.items():
            subprocess.check_output([*smi, f"--lock-{name}-clocks={clock},{clock}"])
        yield 1e-6 * 2 * 108 * 4 * 256 * ref_sm_clock, 640 * 2 * ref_mem_clock * 1e-3
    finally:
        for option in (["-pm", "0"], ["-rgc"], ["-rmc"]):
            subprocess.check_output([*smi, *option])


@contextmanager
def cuda_graph_without_gc(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Do nothing: launches are timed one by one and not as a graph."""
    yield
