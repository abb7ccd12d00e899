"""Let TorchInductor go on while ptxas assembles its kernels.

TorchInductor hands a kernel to its worker processes as soon as it has written it. Without workers
it compiles each kernel when the module of the graph is imported, and needs the cubin at once. Here
it does without workers, too, what it does with them: it compiles the kernel at once, in this
process, and takes the result when the module is imported. Meanwhile ptxas, a process of its own,
runs next to the rest of TorchInductor.

The compiler is loaded while TorchInductor is imported, unless workers will compile the kernels.

The configurations of a kernel are compiled one after the other, and ptxas assembles them at the
same time, in workers too.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tile.compat.preload import start_loading
from tile.compat.static_launch import CUBIN, assembles_later
from tile.runtime.kernel import CompiledKernel

HEURISTICS = "torch._inductor.runtime.triton_heuristics"
ASYNC_COMPILE = "torch._inductor.async_compile"
GPU = "cuda"


class EarlyCompile:
    """PyTorch's `AsyncCompile`, by which TorchInductor starts to compile what it has just written.

    original: that object.
    """

    def __init__(self, original: Any) -> None:
        self.original = original
        if threads() == 1:
            start_loading()

    def use_process_pool(self) -> bool:
        """Return True: kernels are compiled at once with or without workers."""
        return True

    def triton(self, name: str, source: str, *arguments: Any, **options: Any) -> Any:
        """Start to compile a kernel, by workers or here."""
        if self.original.use_process_pool():
            return self.original.triton(name, source, *arguments, **options)
        return compile_here(name, source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def threads() -> int:
    """Return the number of processes that are to compile kernels; 1 for this process alone."""
    config = importlib.import_module("torch._inductor.config")
    count = config.compile_threads  # None until it is asked for
    return int(config.decide_compile_threads() if count is None else count)


def compile_here(name: str, source: str) -> None:
    """Compile a kernel, and leave a future of it where `AsyncCompile.triton` looks for one.

    If that fails, it is compiled again when the module is imported, which tells of the error.
    """
    module: Any = sys.modules[ASYNC_COMPILE]
    futures = module.CompiledTritonKernels
    if futures.get(source) is not None:
        return
    start = time.perf_counter()
    load = partial(module._load_triton_kernel_from_source, name, source)
    try:
        autotuner = load()
        if not _is_compiled_here(autotuner):
            return
        _compile(autotuner)
    except Exception:  # noqa: BLE001 - of the compiler, or of another version of PyTorch
        return
    microseconds = int((time.perf_counter() - start) * 1e6)
    guards = importlib.import_module("torch._guards")
    compiled_for = guards.CompileContext.current_compile_id()
    graph = importlib.import_module("torch._inductor.virtualized").V.graph
    is_backward = getattr(graph, "is_backward", False)

    def result() -> Any:
        futures.remove_future(source)
        _finish(autotuner)
        autotuner.set_compile_info(compiled_for, is_backward)
        autotuner.precompile(static_triton_bundle_key=futures.key(source))
        _add_times(module, name, autotuner, microseconds)
        return autotuner

    codecache = importlib.import_module("torch._inductor.codecache")
    futures.save(source, codecache.LambdaFuture(result))


def _is_compiled_here(autotuner: Any) -> bool:
    """Return True for kernels of GPUs, unless one is compiled already, or a plugin compiles it."""
    plugins = getattr(autotuner, "_plugins", ())  # PyTorch 2.11 has none
    on_gpu = autotuner.device_props.type == GPU
    return on_gpu and not plugins and not autotuner.compile_results


def _compile(autotuner: Any) -> None:
    """Compile all configurations of a kernel, and do not wait for ptxas."""
    bundler = importlib.import_module("torch._inductor.triton_bundler").TritonBundler
    noted = bundler._entries
    count = len(noted or ())
    with assembles_later.scope(True):
        autotuner._precompile_worker()
    if noted is not None:
        del noted[count:]  # PyTorch notes them again when it makes launchers


def _add_times(module: Any, name: str, autotuner: Any, microseconds: int) -> None:
    """Tell PyTorch how long a kernel took to compile."""
    module.get_metrics_context().add_top_n("triton_kernel_compile_times_us", name, microseconds)
    facts = autotuner.autotune_cache_info or {}
    facts["compile_time_us"] = microseconds
    module._add_triton_kernel_info(name, facts)


def compile_configurations(autotuner: Any, original: Callable[[Any], None]) -> None:
    """Compile the configurations of a kernel while ptxas assembles earlier ones.

    original: the method that compiles them.
    """
    strict = importlib.import_module("torch._inductor.config").strict_static_triton_launcher
    if assembles_later() or strict:  # then PyTorch wants a cubin of each at once
        original(autotuner)
        return
    with assembles_later.scope(True):
        original(autotuner)
    _finish(autotuner)


def _finish(autotuner: Any) -> None:
    """Wait for the cubins of a kernel; let PyTorch launch from C++ those that it can."""
    result_class = sys.modules[HEURISTICS].StaticTritonCompileResult
    for at, result in enumerate(autotuner.compile_results):
        kernel = result.kernel
        if not isinstance(kernel, CompiledKernel) or CUBIN not in kernel.asm.unfinished:
            continue
        kernel.asm.finish(CUBIN)
        meta = (autotuner.inductor_meta, autotuner.triton_meta)
        static = result_class.can_statically_launch(kernel, *meta, autotuner.heuristic_type)
        if static is not None:
            facts = (result.config, result.compile_meta, result.inductor_meta)
            autotuner.compile_results[at] = result_class(static, *facts)
