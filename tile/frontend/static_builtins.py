"""Python builtins and functions of the language that kernels call at compile time."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable
from typing import Any

from tile.brief import brief, listed
from tile.frontend.values import compile_time_only
from tile.language.constexpr import constexpr
from tile.language.dtypes import pointer_type
from tile.language.known import MOST_BITS, compile_time_int, too_large
from tile.language.tensor import Tensor


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
            raise too_large(f"math.{function.__name__}({listed(plain, brief)})", "bits")
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
    pointer_type: _static(pointer_type),
}
