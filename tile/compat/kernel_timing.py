"""Time configurations of TorchInductor's kernels without the copies of tensors that they overwrite.

`CachingAutotuner.bench` copies such a tensor before each call of a kernel, from the CPU if memory
is short, and measures both: 120 us and more for kernels of 10 to 40, so that the choice among
configurations is often that of the copies. Here only the kernel is between the events, and the host
has launched it before the GPU reaches the first one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

IDLE = 500_000  # cycles of the GPU, 0.25 ms, in which the host issues a preparation and a launch
BUDGET = 25.0  # milliseconds of kernels for a configuration, as of PyTorch's benchmarks
CALLS = 20  # at most: with what is between them, 6 ms


def bench(
    autotuner: Any,
    original: Callable[..., Any],
    launcher: Any,
    *args: Any,
    with_profiler: bool = False,
    **kwargs: Any,
) -> Any:
    """Return the milliseconds of a configuration of a kernel, the least of some calls.

    original: PyTorch's method, which measures kernels that overwrite nothing, and those that are
        not on a GPU or spill registers.
    """
    overwrites = autotuner.mutated_arg_names and autotuner.device_props.type == "cuda"
    if with_profiler or launcher.n_spills or not overwrites:
        return original(autotuner, launcher, *args, with_profiler=with_profiler, **kwargs)
    torch = importlib.import_module("torch")
    cache = torch.empty(
        torch.cuda.get_device_properties().L2_cache_size, dtype=torch.uint8, device="cuda"
    )
    stream = torch.cuda.current_stream().cuda_stream
    on_cpu = autotuner.copy_args_to_cpu_if_needed(*args, **kwargs)
    copies: list[Any] = []
    keywords: dict[str, Any] = {}

    def prepare() -> None:
        nonlocal copies, keywords
        torch.cuda._sleep(IDLE)
        copies, keywords = [], {}  # frees the last ones
        copies, keywords = autotuner.maybe_clone_args(on_cpu, *args, **kwargs)
        autotuner.restore_args_from_cpu(on_cpu)
        autotuner.reset_to_zero_args(*copies, **keywords)
        cache.zero_()

    def launch() -> None:
        launcher(*copies, **keywords, stream=stream)

    try:
        return least(prepare, launch, lambda: torch.cuda.Event(enable_timing=True))
    finally:
        autotuner.restore_args_from_cpu(on_cpu)


def least(
    prepare: Callable[[], None], launch: Callable[[], None], event: Callable[[], Any]
) -> float:
    """Return the least milliseconds of some launches, each after a preparation.

    event: return a new event of the stream that the launches are on.
    """
    prepare()
    launch()  # which may load the kernel
    times: list[float] = []
    while len(times) < CALLS and sum(times) < BUDGET:
        start, end = event(), event()
        prepare()
        start.record()
        launch()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return min(times)
