"""Tables keyed by dtype, and the dtypes by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

import numpy as np

from tile.errors import TypeRuleError
from tile.ir import types
from tile.ir.dtypes import DTYPES, SCALARS, Array, Dtype

Unary: TypeAlias = Callable[[Array], Array]
Binary: TypeAlias = Callable[[Array, Array], Array]
V = TypeVar("V")


BOOL = DTYPES["i1"]
SIGNED = tuple(DTYPES[ty.name] for ty in types.SIGNED)
UNSIGNED = tuple(DTYPES[ty.name] for ty in types.UNSIGNED)
INTEGERS = SIGNED + UNSIGNED
FP8 = tuple(DTYPES[ty.name] for ty in types.FP8)
F16, BF16, F32, F64 = FLOATS = tuple(DTYPES[ty.name] for ty in types.FLOATS)
BITS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class ByDtype(dict[Dtype, V]):
    """What an operation does on arrays of each dtype; another dtype is a `TypeRuleError`."""

    def __init__(self, name: str, entries: Mapping[Dtype, V]) -> None:
        super().__init__(entries)
        self.name = name

    def __missing__(self, dtype: Dtype) -> V:
        known = ", ".join(SCALARS[key].name for key in self)
        found = SCALARS[dtype].name if dtype in SCALARS else str(dtype)
        raise TypeRuleError(f"{self.name} is not defined on {found}; it takes {known}")


class Choices(dict[str, V]):
    """The values of an attribute; asking for another one is a `TypeRuleError` that lists them."""

    def __init__(self, attribute: str, entries: Mapping[str, V]) -> None:
        super().__init__(entries)
        self.attribute = attribute

    def __missing__(self, key: str) -> V:
        raise TypeRuleError(f"{self.attribute} is one of {', '.join(self)}, not {key!r}")


def each(dtypes: Iterable[Dtype], value: V) -> dict[Dtype, V]:
    """The same entry for several dtypes."""
    return dict.fromkeys(dtypes, value)


def quiet() -> np.errstate:
    """A context manager inside which NumPy gives no floating-point or division warnings.

    The functions of this package do not guard themselves, since entering costs as much as a small
    operation does: whoever runs many of them holds this once around all. Overflow, division by zero
    and invalid operations are defined results here and not errors.
    """
    return np.errstate(all="ignore")
