"""Look up the globals and closure variables that a kernel reads.

A kernel is compiled once for many launches, so it can read only globals and closure variables that
do not change: `tl.constexpr` values, types, modules, functions of the language, jitted functions,
enumerations, named tuples, and a few Python builtins. Anything else is an error, whose message says
how to fix it.

`STATIC_BUILTINS` has the implementations of the builtins that run at compile time.
"""

from __future__ import annotations

import builtins
import enum
import math
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tile.errors import CompilationError
from tile.frontend.python.aggregates import aggregate_replace
from tile.frontend.python.constexpr_function import StaticFunction
from tile.frontend.python.source import DeviceFunction, is_constexpr_annotation
from tile.frontend.python.value_trees import compile_time_only
from tile.ir.types import Kind, Type
from tile.language.base.builtin import Bound, Builtin
from tile.language.base.constexpr import constexpr
from tile.language.base.dtypes import block_type, dtype, pointer_type
from tile.language.base.static_args import MOST_BITS, bounded, compile_time_int, too_large
from tile.language.base.tensor import Tensor
from tile.language.python_builtins import PYTHON_BUILTINS
from tile.language.replacements import LIBRARIES, advice
from tile.short_repr import join_values, short_repr


def _isinstance(value: object, classes: Any) -> bool:
    """Return `isinstance`, where every compile-time value is also an instance of `tl.constexpr`."""
    kinds = classes if isinstance(classes, tuple) else (classes,)
    if constexpr in kinds and not isinstance(value, Tensor):
        return True
    return isinstance(value, kinds)


def _enumerate(values: Iterable[object], start: int = 0) -> tuple[object, ...]:
    return tuple(enumerate(values, start))


def _static(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function whose arguments must all be compile-time values."""

    def call(*args: Any, **kwargs: Any) -> Any:
        subject = f"an argument of `{function.__name__}`"
        plain = [compile_time_only(arg, subject) for arg in args]
        return function(*plain, **{k: compile_time_only(v, subject) for k, v in kwargs.items()})

    return call


def _bounded(function: Callable[..., int], bits: Callable[..., int]) -> Callable[..., Any]:
    """Wrap a function of integers whose result has about `bits` bits; reject huge results."""

    def call(*args: Any) -> int:
        plain = [compile_time_int(arg, f"an argument of math.{function.__name__}") for arg in args]
        if all(number >= 0 for number in plain) and bits(*plain) > MOST_BITS:
            raise too_large(f"math.{function.__name__}({join_values(plain, short_repr)})", "bits")
        return function(*plain)

    call.__name__ = function.__name__
    return call


# Python builtins and functions of the language that a kernel calls at compile time, with their
# implementation in a kernel. Sequences become tuples, whose items may be runtime values.
STATIC_BUILTINS: dict[Any, Callable[..., object]] = {
    builtins.all: _static(all),
    builtins.any: _static(any),
    builtins.divmod: _static(divmod),
    builtins.enumerate: _enumerate,
    builtins.isinstance: _isinstance,
    builtins.list: lambda values=(): tuple(values),
    builtins.repr: repr,
    builtins.reversed: lambda values: tuple(reversed(values)),
    builtins.round: _static(round),
    builtins.str: str,
    builtins.sum: _static(sum),
    builtins.tuple: lambda values=(): tuple(values),
    builtins.zip: lambda *values, strict=False: tuple(zip(*values, strict=strict)),
    math.comb: _bounded(math.comb, lambda n, k: min(k, abs(n - k)) * n.bit_length()),
    math.factorial: _bounded(math.factorial, lambda n: n * n.bit_length()),
    math.perm: _bounded(math.perm, lambda n, k=None: (n if k is None else k) * n.bit_length()),
    aggregate_replace: aggregate_replace,
    block_type: _static(block_type),
    builtins.slice: slice,
    dtype: _static(dtype),
    pointer_type: _static(pointer_type),
}


OBJECTS = (Type, Builtin, Bound, DeviceFunction, StaticFunction, types.ModuleType, enum.Enum)
TEXTUAL = (str, bool, int, float)


def lookup(function: DeviceFunction, name: str) -> tuple[bool, object]:
    """Return whether a name exists outside a function, and its value in a kernel.

    Raises `CompilationError` for a value that a kernel may not read.
    """
    exists, value = function.outside(name)
    if not exists:
        return False, None
    if isinstance(value, TEXTUAL) and is_constexpr_annotation(_annotation(function, name)):
        return True, value
    return True, admit(value, name)


def _annotation(function: DeviceFunction, name: str) -> Any:
    """Return the annotation of a global, as in `N: tl.constexpr = 4`."""
    return function.fn.__globals__.get("__annotations__", {}).get(name)


_OWN = ("tile", "triton")  # packages whose classes kernels may name; `triton` is `tile.compat`'s


def admit(value: Any, name: str) -> Any:
    """Return a captured value as the kernel sees it, or raise `CompilationError` if it may not."""
    if isinstance(value, constexpr):
        inner = value.value
        return StaticFunction(inner) if isinstance(inner, types.FunctionType) else bounded(inner)
    if isinstance(value, OBJECTS) or is_callable_now(value) or is_emitting(value):
        return value
    if isinstance(value, type) and (
        value.__module__.partition(".")[0] in _OWN or issubclass(value, enum.Enum | tuple)
    ):
        return value
    if isinstance(value, tuple):
        return tuple(admit(item, f"{name}[{index}]") for index, item in enumerate(value))
    raise CompilationError(_refusal(value, name))


EMITTING = "__triton_builtin__"  # an attribute that libraries set


def is_emitting(value: Any) -> bool:
    """Return True for a Python function that takes runtime values and emits operations itself.

    Libraries set an attribute of such functions, as `triton.language.core.builtin` does.
    """
    return isinstance(value, types.FunctionType) and getattr(value, EMITTING, False) is True


def is_callable_now(value: Any) -> bool:
    """Return True if a kernel may call this Python function at compile time."""
    if not callable(value):
        return False
    if isinstance(value, Kind):
        return True  # `x.dtype.kind()`
    try:
        if value in PYTHON_BUILTINS or value in STATIC_BUILTINS or value in (getattr, hasattr):
            return True
    except TypeError:  # not hashable
        return False
    if isinstance(value, types.BuiltinFunctionType) and value.__module__ == math.__name__:
        return True
    owner = getattr(value, "__self__", None)
    return isinstance(owner, Type | str | tuple | int | float | constexpr) and not isinstance(
        owner, types.ModuleType
    )


def member(owner: Any, name: str) -> Any:
    """Return `owner.name` of a compile-time value, as the kernel sees it.

    Raises `AttributeError` if there is no such attribute and `CompilationError` if the kernel may
    not read it.
    """
    value = getattr(_wrapped(owner, name), name)
    if isinstance(owner, types.ModuleType):
        if owner.__name__.startswith("tile.language") and isinstance(value, int):
            return value  # a limit, such as `tl.TRITON_MAX_TENSOR_NUMEL`
        if owner is math and isinstance(value, float):
            return value
        if isinstance(value, TEXTUAL) and is_constexpr_annotation(
            getattr(owner, "__annotations__", {}).get(name)
        ):
            return value
        return admit(value, f"{owner.__name__}.{name}")
    return value.value if isinstance(value, constexpr) else value


def _wrapped(owner: Any, name: str) -> Any:
    """Return a constant as `tl.constexpr` if only that has the attribute, as `n.value`."""
    plain = owner is None or isinstance(owner, TEXTUAL)
    plain = plain or (isinstance(owner, Type) and name == "value")
    return constexpr(owner) if plain and not hasattr(owner, name) else owner


def _library(value: Any, name: str) -> str:
    """Return the package that a function is from."""
    module = getattr(value, "__module__", None) or type(value).__module__
    root = str(module).partition(".")[0]
    return root if root in LIBRARIES else name.partition(".")[0]


def _refusal(value: Any, name: str) -> str:
    kind = type(value).__name__
    if _library(value, name) in LIBRARIES and callable(value) and not isinstance(value, type):
        instead = advice(name.rpartition(".")[2])
        return f"`{name}`, {short_repr(value)}, cannot be called in a kernel{instead}"
    if isinstance(value, types.FunctionType):
        return (
            f"`{name}` is a plain Python function; decorate it with @tile.jit to compile it into "
            "the kernel, or with @tile.constexpr_function to call it while the kernel is compiled"
        )
    if isinstance(value, TEXTUAL) or value is None:
        return (
            f"`{name}` is a global variable of type {kind}, and a kernel sees only constants; "
            f"define it as `{name.rpartition('.')[2]} = tl.constexpr({short_repr(value)})`, or "
            "pass it as an argument"
        )
    if isinstance(value, type) and issubclass(value, np.generic):
        return f"`{name}` is a type of NumPy; the types of kernels are those of tl, as tl.float32"
    if callable(value):
        return f"`{name}`, {short_repr(value)}, cannot be called in a kernel"
    if hasattr(value, "__array_interface__") or hasattr(value, "data_ptr"):
        return (
            f"`{name}` is an array outside the kernel; pass it as an argument, or make a small one "
            f"a table: `{name.rpartition('.')[2]} = tl.constexpr({name})`"
        )
    return (
        f"`{name}` is a global variable of type {kind}, and a kernel sees only tl.constexpr "
        "values, types, modules and functions of the language; pass it as an argument"
    )
