"""NumPy dtypes by kind, and tables keyed by dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

import numpy as np

from tile.errors import TypeRuleError
from tile.ir import types
from tile.ir.numpy_dtypes import DTYPES, SCALAR_OF_DTYPE, Array, Dtype

Unary: TypeAlias = Callable[[Array], Array]
Binary: TypeAlias = Callable[[Array, Array], Array]
V = TypeVar("V")


BOOL = DTYPES["i1"]
SIGNED = tuple(DTYPES[ty.ir_name] for ty in types.SIGNED)
UNSIGNED = tuple(DTYPES[ty.ir_name] for ty in types.UNSIGNED)
INTEGERS = SIGNED + UNSIGNED
FP8 = tuple(DTYPES[ty.ir_name] for ty in types.FP8)
EMULATED_FP8 = tuple(DTYPES[ty.ir_name] for ty in types.EMULATED_FP8)
ALL_FP8 = FP8 + EMULATED_FP8
F16, BF16, F32, F64 = FLOATS = tuple(DTYPES[ty.ir_name] for ty in types.FLOATS)
NARROW_FLOATS = tuple(DTYPES[ty.ir_name] for ty in types.NARROW_FLOATS)
BITS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class ByDtype(dict[Dtype, V]):
    """Implementations of an operation by dtype; any other dtype raises `TypeRuleError`.

    It can be called, as the operation on operands of the first one's dtype.
    """

    def __init__(self, name: str, entries: Mapping[Dtype, V]) -> None:
        super().__init__(entries)
        self.name = name

    def __call__(self: ByDtype[Callable[..., Array]], x: Array, *others: Array) -> Array:
        return self[x.dtype](x, *others)

    def __missing__(self, dtype: Dtype) -> V:
        accepted = ", ".join(SCALAR_OF_DTYPE[key].ir_name for key in self)
        name = SCALAR_OF_DTYPE[dtype].ir_name if dtype in SCALAR_OF_DTYPE else str(dtype)
        raise TypeRuleError(f"{self.name} is not defined on {name}; it takes {accepted}")


class Choices(dict[str, V]):
    """Implementations by an attribute's value; any other value raises `TypeRuleError`."""

    def __init__(self, attribute: str, entries: Mapping[str, V]) -> None:
        super().__init__(entries)
        self.attribute = attribute

    def __missing__(self, key: str) -> V:
        raise TypeRuleError(f"{self.attribute} is one of {', '.join(self)}, not {key!r}")


def each(dtypes: Iterable[Dtype], value: V) -> dict[Dtype, V]:
    """Return a table with the same entry for several dtypes."""
    return dict.fromkeys(dtypes, value)


def quiet() -> np.errstate:
    """Return a context manager that suppresses NumPy's floating-point and division warnings.

    The functions of this package do not use it themselves, since entering it takes as long as a
    small operation: a caller enters it once around many calls. Overflow, division by zero and
    invalid operations have defined results here and are not errors.
    """
    return np.errstate(all="ignore")
