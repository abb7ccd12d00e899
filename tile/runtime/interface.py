"""The interface of kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tile.tracebacks import public_function


class KernelInterface:
    """An object that launches a kernel: `kernel[grid](*arguments)`.

    Subclasses define `run`; `warmup` compiles without a launch.
    """

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Compile, and launch unless `warmup`."""
        raise NotImplementedError(f"{type(self).__name__}.run")

    @public_function
    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> Any:
        """Compile for these arguments without launching, and return the result."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return the launch function of the kernel's arguments, on `grid`."""
        return functools.partial(self.run, grid=grid, warmup=False)
