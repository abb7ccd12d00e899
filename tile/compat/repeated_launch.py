"""Repeat launches of TorchInductor's kernels without the work of a first launch.

PyTorch 2.13's `CachingAutotuner.run` keeps the launcher of a kernel after its first launch, and
calls the driver by a function in C. In older versions each launch sets Triton's allocator, asks for
flags that do not change, and passes its arguments through one more function in Python. Here these
keep the launcher, too, under the conditions of PyTorch 2.13.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partialmethod
from types import FunctionType
from typing import Any

from tile.compat.early_compile import HEURISTICS

RUN = "run"
LAUNCHER_ATTRIBUTE = "_cached_launcher"  # an attribute of PyTorch 2.13's autotuners


def in_older_versions(
    function: Callable[..., Any], original: Any
) -> partialmethod[Any] | Callable[..., Any]:
    """Return what replaces a method of `CachingAutotuner`; itself, if that keeps launchers."""
    keeps = LAUNCHER_ATTRIBUTE in original.__code__.co_names
    return original if keeps else partialmethod(function, original)


def launch(
    autotuner: Any, original: Callable[..., Any], *args: Any, stream: Any, **kwargs: Any
) -> Any:
    """Launch a kernel by PyTorch's method, and the same kernel without it from then on.

    original: that method.
    """
    result = original(autotuner, *args, stream=stream, **kwargs)
    if _has_one_way(autotuner):
        vars(autotuner)[RUN] = _repeated(autotuner, original)
    return result


def forget(autotuner: Any, original: Callable[[Any], Any]) -> Any:
    """Drop the function that repeats launches, which cannot be pickled; go on with the rest.

    original: PyTorch's method that drops its own functions.
    """
    vars(autotuner).pop(RUN, None)
    return original(autotuner)


def _has_one_way(autotuner: Any) -> bool:
    """Return True if all that launches of a kernel do besides has been done at the first one."""
    autotuners = sys.modules[HEURISTICS].CachingAutotuner
    flags = ("triton_interpret", "dump_launch_params", "dump_launch_tensors")
    return (
        type(autotuner) is autotuners
        and not any(getattr(autotuner, flag, False) for flag in flags)
        and len(autotuner.launchers) == 1
        and not autotuner.launchers[0].store_cubin
    )


def _repeated(autotuner: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what `run` does after a first launch.

    Profilers and modes for debugging, which may begin at any time, and special launches take
    PyTorch's method.
    """
    module = sys.modules[HEURISTICS]
    profiler, debug_mode = module.autograd_profiler, module.get_active_debug_mode
    launcher = _direct(autotuner.launchers[0])

    def run(*args: Any, stream: Any, **kwargs: Any) -> Any:
        if kwargs or profiler._is_profiler_enabled or debug_mode():
            return original(autotuner, *args, stream=stream, **kwargs)
        return launcher(*args, stream=stream)

    return run


def _direct(launcher: Callable[..., Any]) -> Callable[..., Any]:
    """Return a launcher that calls the function in C itself, if it is a static one."""
    if not getattr(launcher, "_is_static", False):
        return launcher
    kernel = launcher.__globals__["runner"].__self__
    function, warps, shared = kernel.function, kernel.num_warps, kernel.shared
    scratch = kernel.has_global_scratch + kernel.has_profile_scratch
    types, unused = kernel.arg_tys + "O" * scratch, (None,) * scratch
    start = kernel.C_impl._launch_kernel

    def runner(x: int, y: int, z: int, stream: int, *args: Any) -> None:
        start(function, x, y, z, warps, shared, types, args + unused, stream)

    return FunctionType(launcher.__code__, {**launcher.__globals__, "runner": runner})
