"""Names of Triton's language modules that programs use outside kernels."""

from __future__ import annotations

from typing import Any

from tile.errors import UnsupportedError
from tile.frontend.python.constexpr_function import constexpr_function
from tile.language.core import dtypes
from tile.language.core.constexpr import constexpr

__all__ = [
    "CONSTEXPR_0",
    "_unwrap_if_constexpr",
    "get_int_dtype",
    "must_use_result",
]


CONSTEXPR_0 = constexpr(0)


def must_use_result(value: Any, statement: Any = True) -> Any:
    """Return the function: `tile` does not warn of results that a kernel does not use."""
    return value if callable(value) else lambda function: function


def aggregate(cls: type) -> type:
    """Refuse the class: kernels take tuples and named tuples.

    Raises `UnsupportedError`.
    """
    raise UnsupportedError(
        f"@triton.aggregate of {cls.__name__}: this version of tile has no aggregates; use a "
        "named tuple"
    )


def _unwrap_if_constexpr(value: Any) -> Any:
    """Return the value in a `tl.constexpr`, or the value itself."""
    return value.value if isinstance(value, constexpr) else value


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> Any:
    """Return the integer type of a width, such as `tl.int32`."""
    name = f"{'int' if signed or bitwidth == 1 else 'uint'}{bitwidth}"
    return getattr(dtypes, name)
