"""Records of the kernels that a program compiles and launches, and short texts of errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

HOPPER = GPUTarget("cuda", 90, 32)


@dataclass
class Compilations:
    """The compilations of kernels, as the arguments of `triton.compile`, and the launches."""

    sources: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    launches: int = 0

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Note what is compiled by `triton.compile`, and what is launched."""
        compile_kernel = triton.compile

        def compile_and_note(source: Any, *args: Any, **options: Any) -> Any:
            self.sources.append((source, options.get("options") or {}))
            return compile_kernel(source, *args, **options)

        triton.compile = compile_and_note
        triton.knobs.runtime.launch_enter_hook.add(self.count)
        try:
            yield
        finally:
            triton.compile = compile_kernel
            triton.knobs.runtime.launch_enter_hook.remove(self.count)

    def count(self, metadata: Any) -> None:
        """Count a launch."""
        self.launches += 1


def summary(error: BaseException) -> str:
    """Return the innermost cause's type and first line."""
    text = str(error) or type(error).__name__
    lines = [line for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}"[:200] if lines else type(error).__name__
