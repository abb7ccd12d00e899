"""The interface of kernels, and the description of a kernel's parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class KernelInterface:
    """An object that launches a kernel: `kernel[grid](*arguments)`.

    Subclasses define `run`; `warmup` compiles without a launch.
    """

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Compile, and launch unless `warmup`."""
        raise NotImplementedError(f"{type(self).__name__}.run")

    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> Any:
        """Compile for these arguments without launching, and return the result."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return the launch function of the kernel's arguments, on `grid`."""
        return functools.partial(self.run, grid=grid, warmup=False)


@dataclass(frozen=True)
class KernelParam:
    """A parameter of a kernel, as tools read it from `JITFunction.params`.

    num: its position.
    annotation: the text of its annotation, or an empty string.
    annotation_type: the type that the annotation sets, as in signatures (`"i64"`, `"*fp32"`), or an
        empty string.
    default: the default value, or `inspect.Parameter.empty`.
    do_not_specialize, do_not_specialize_on_alignment: True if `jit` was asked for it.
    """

    num: int
    name: str
    annotation: str
    annotation_type: str
    is_constexpr: bool
    is_const: bool
    default: Any
    do_not_specialize: bool
    do_not_specialize_on_alignment: bool

    @property
    def has_default(self) -> bool:
        """True if calls can leave the parameter out."""
        return self.default is not inspect.Parameter.empty


def annotation_text(annotation: Any) -> str:
    """Return the text of an annotation; an empty string if there is none."""
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, str):
        return annotation.strip("\"' ")
    return str(getattr(annotation, "__name__", annotation))
