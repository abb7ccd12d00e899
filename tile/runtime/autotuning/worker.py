"""Jobs that a tuner gives to an executor: other threads, processes or hosts run them.

A worker does not share the caller's settings, so that each job brings them along. Grids, which are
often lambdas, are not sent.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

from tile.backends.base import Grid
from tile.backends.capabilities import Assembling
from tile.config import config as settings
from tile.runtime.arguments.adapt import retuple
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.autotuning.configs import Kernel
from tile.runtime.autotuning.do_bench import measure, quantiles_of


def compile_one(
    kernel: Kernel, overrides: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Compile a kernel, and assemble it. The results are in the kernel's cache or on disk."""
    with settings.scope(**overrides):
        compiled = kernel.run(*args, grid=(1,), warmup=True, **kwargs)
        executable = getattr(compiled, "executable", None)
        if isinstance(executable, Assembling):
            executable.assemble()


def measure_one(
    kernel: Kernel,
    overrides: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    grid: Grid,
    warmup: float,
    rep: float,
    quantiles: Sequence[float],
) -> list[float]:
    """Return quantiles of a kernel's times in ms, on copies of its arguments.

    warmup, rep: the approximate time in ms of untimed and of timed launches.
    """
    args = tuple(map(_copied, args))
    kwargs = {name: _copied(value) for name, value in kwargs.items()}
    with settings.scope(**overrides):
        launch = functools.partial(kernel.run, *args, grid=grid, **kwargs)
        return quantiles_of(measure(launch, warmup=warmup, rep=rep), quantiles)


def _copied(value: Any) -> Any:
    """Return a copy of an array, a descriptor, or a tuple with such; other values themselves."""
    if isinstance(value, tuple):
        return retuple(value, [_copied(item) for item in value])
    is_array = hasattr(value, "dtype") and hasattr(value, "shape")
    return copy.deepcopy(value) if is_array or isinstance(value, TensorDescriptor) else value
