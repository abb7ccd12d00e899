"""The interface of kernels, and descriptions of jitted functions and of their parameters."""

from __future__ import annotations

import functools
import inspect
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from tile.frontend.python.source import DeviceFunction


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


# -- jitted functions without their Python function

# What remains of a function, by attribute; `__dict__` of the function has the same names.
NAMES = ("name", "noinline", "__name__", "__qualname__", "__module__", "__doc__")


def description(function: Any) -> dict[str, Any]:
    """Return the attributes that a function keeps when its `fn` is cleared.

    PyTorch's compile workers clear `fn` of a jitted function and pickle the rest: the parameters,
    the text and the name of the kernel. Such a function describes a compiled kernel and cannot be
    compiled.
    """
    parameters = [replace(p, annotation=annotation_text(p.annotation)) for p in function.parameters]
    return {
        **{name: getattr(function, name) for name in NAMES},
        "parameters": tuple(parameters),
        "params": function.params,
        "own_src": function.src,
        "cache_key": function.cache_key,
    }


def restored(kind: type[DeviceFunction], attributes: dict[str, Any]) -> DeviceFunction:
    """Return a function of these attributes, in another process."""
    function = kind.__new__(kind)
    without = dict.fromkeys(("fn", "_python_function", "__globals__", "used_global_vals"))
    vars(function).update(attributes, **without, _description=attributes)
    return function


def decorated_again(
    kind: Callable[..., Any],
    fn: FunctionType,
    options: Mapping[str, Any],
    file: str,
    text: list[str],
) -> Any:
    """Return the jitted function of a function of another process, with its source file's text."""
    if linecache.getlines(file) != text:
        # `linecache.checkcache` keeps entries without a modification time.
        linecache.cache[file] = (sum(map(len, text)), None, text, file)
    # cloudpickle 3.1.3 names no file in code, so that equal functions have equal pickles.
    fn.__code__ = fn.__code__.replace(co_filename=file)
    return kind(fn, **options)
