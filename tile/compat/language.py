"""Names of Triton's language modules that programs use outside kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tile.frontend.python.constexpr_function import constexpr_function
from tile.frontend.python.global_names import EMITTING as TRITON_BUILTIN
from tile.language.base import dtypes
from tile.language.base.builtin import SEMANTIC, Builtin
from tile.language.base.constexpr import constexpr, constexpr_type
from tile.runtime.signature import parse_type

__all__ = [
    "CONSTEXPR_0",
    "TRITON_BUILTIN",
    "_log2",
    "_unwrap_if_constexpr",
    "builtin",
    "get_int_dtype",
    "is_builtin",
    "must_use_result",
    "str_to_ty",
]


CONSTEXPR_0 = constexpr(0)
N_ROUNDS_DEFAULT = constexpr(10)


def must_use_result(value: Any, statement: Any = True) -> Any:
    """Return the function: `tile` does not warn of results that a kernel does not use."""
    return value if callable(value) else lambda function: function


def builtin(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a Python function that emits operations; use it as a decorator.

    The function takes runtime values, compile-time values as `tl.constexpr`, and `_semantic`, which
    it passes on to the functions of the language that it calls. A call outside a kernel raises
    `ValueError`.
    """

    @functools.wraps(fn)
    def emit(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get(SEMANTIC) is None:
            raise ValueError(
                f"{fn.__name__} can only be called in a kernel. Did you forget to add @triton.jit? "
                "(`_semantic` argument must be provided outside of JIT functions.)"
            )
        return fn(*args, **kwargs)

    return _emitting(emit)


def _emitting(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, as one that the compiler calls for a kernel."""
    setattr(fn, TRITON_BUILTIN, True)
    return fn


def is_builtin(fn: object) -> bool:
    """Return True for functions of the language, and for those decorated with `builtin`."""
    return isinstance(fn, Builtin) or bool(getattr(fn, TRITON_BUILTIN, False))


@_emitting
def _unwrap_if_constexpr(value: Any) -> Any:
    """Return the value in a `tl.constexpr`, or the value itself."""
    return value.value if isinstance(value, constexpr) else value


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> Any:
    """Return the integer type of a width, such as `tl.int32`."""
    name = f"{'int' if signed or bitwidth == 1 else 'uint'}{bitwidth}"
    return getattr(dtypes, name)


@constexpr_function
def _log2(i: int) -> int:
    """Return the logarithm of a power of two."""
    return int(i).bit_length() - 1


def str_to_ty(name: str, c: Any = None) -> Any:
    """Return the type of a text in signatures, such as `*fp32`; for `constexpr`, that of `c`."""
    return constexpr_type(c) if name == "constexpr" else parse_type(name.removeprefix("k"))
