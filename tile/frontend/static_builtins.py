"""Functions of Python and of the language that kernels call while they are compiled."""

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
    """`isinstance`, where every value known at compile time counts as a `tl.constexpr` too."""
    kinds = classes if isinstance(classes, tuple) else (classes,)
    if constexpr in kinds and not isinstance(value, Tensor):
        return True
    return isinstance(value, kinds)


def _enumerate(values: Iterable[object], start: int = 0) -> tuple[object, ...]:
    return tuple(enumerate(values, start))


def _known(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of values that must all be known."""

    def call(*args: Any, **kwargs: Any) -> Any:
        what = f"what `{function.__name__}` takes"
        plain = [compile_time_only(arg, what) for arg in args]
        return function(*plain, **{k: compile_time_only(v, what) for k, v in kwargs.items()})

    return call


def _bounded(function: Callable[..., int], bits: Callable[..., int]) -> Callable[..., Any]:
    """A function of integers whose result has about `bits` bits, refused where it is huge."""

    def call(*args: Any) -> int:
        plain = [compile_time_int(arg, f"an argument of math.{function.__name__}") for arg in args]
        if all(number >= 0 for number in plain) and bits(*plain) > MOST_BITS:
            raise too_large(f"math.{function.__name__}({listed(plain, brief)})", "bits")
        return function(*plain)

    call.__name__ = function.__name__
    return call


# Functions of Python and of the language that are called while a kernel is compiled, and what they
# do there. Sequences become tuples, of any values.
STATIC_BUILTINS: dict[Any, Callable[..., object]] = {
    builtins.all: _known(all),
    builtins.any: _known(any),
    builtins.divmod: _known(divmod),
    builtins.enumerate: _enumerate,
    builtins.isinstance: _isinstance,
    builtins.list: lambda values=(): tuple(values),
    builtins.repr: repr,
    builtins.reversed: lambda values: tuple(reversed(values)),
    builtins.round: _known(round),
    builtins.str: str,
    builtins.sum: _known(sum),
    builtins.tuple: lambda values=(): tuple(values),
    builtins.zip: lambda *values, strict=False: tuple(zip(*values, strict=strict)),
    math.comb: _bounded(math.comb, lambda n, k: min(k, abs(n - k)) * n.bit_length()),
    math.factorial: _bounded(math.factorial, lambda n: n * n.bit_length()),
    math.perm: _bounded(math.perm, lambda n, k=None: (n if k is None else k) * n.bit_length()),
    pointer_type: _known(pointer_type),
}
