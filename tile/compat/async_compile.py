"""Compilation by an executor, while the program goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class FutureKernel:
    """A kernel that may still be compiling; `result()` waits for it."""

    def __init__(
        self,
        finalize_compile: Callable[[Any], object],
        future: Future[Any],
        cleanup_compile: Callable[[FutureKernel], object] | None = None,
    ) -> None:
        self.finalize_compile = finalize_compile
        self.cleanup_compile = cleanup_compile
        self.future = future
        self.kernel: Any = None

    def result(self, ignore_errors: bool = False) -> Any:
        """Return the kernel, or None if its compilation failed and errors are ignored."""
        if self.kernel is None:
            try:
                kernel = self.future.result()
            except Exception:
                if self.cleanup_compile is not None:
                    self.cleanup_compile(self)
                if ignore_errors:
                    return None
                raise
            self.finalize_compile(kernel)
            self.kernel = kernel
        return self.kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result(), name)


class AsyncCompileMode:
    """A `with` block at whose end all submitted compilations are complete.

    `warmup` inside the block compiles at once; functions passed to `submit` run in the executor.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        self.executor = executor
        self.ignore_errors = ignore_errors
        self.future_kernels: dict[Any, FutureKernel] = {}

    def submit(
        self,
        key: Any,
        compile_fn: Callable[[], Any],
        finalize_fn: Callable[[Any], object],
        cleanup_fn: Callable[[FutureKernel], object] | None = None,
    ) -> FutureKernel:
        """Compile by `compile_fn` in the executor, once for each key.

        `finalize_fn` receives the kernel; `cleanup_fn` the future of one that failed to compile.
        """
        if key not in self.future_kernels:
            future = self.executor.submit(compile_fn)
            self.future_kernels[key] = FutureKernel(finalize_fn, future, cleanup_fn)
        return self.future_kernels[key]

    def __enter__(self) -> AsyncCompileMode:
        return self

    def __exit__(self, *_: object) -> None:
        for kernel in self.future_kernels.values():
            kernel.result(self.ignore_errors)
