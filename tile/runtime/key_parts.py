"""Parts of the keys of launches that generated functions compute by calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.config import Origin, config
from tile.language.base.constexpr import constexpr
from tile.runtime.signature import DIVISOR
from tile.runtime.specialize import divisor_of

# Exceptions of reading arguments that differ from those for which the plan was built.
UNREADABLE = (AttributeError, RuntimeError, TypeError, ValueError)


class _CheckedError(RuntimeError):
    """Checks of a `with` block are active, which only an ordinary launch supports."""


def scoped_settings() -> tuple[str]:
    """Return the part of a key for the settings of a `with` block.

    Raises one of `UNREADABLE` for checks, which only an ordinary launch supports.
    """
    if config.origin("sanitize") is Origin.SCOPE:
        raise _CheckedError
    return (config.backend,)


def constant_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the part of a key for a constant tuple: with types, as 1, 1.0 and True are equal.

    Raises `TypeError` for items that no key tells apart.
    """
    kinds = tuple(map(type, value))
    if kinds.count(int) == len(kinds):
        return value
    if any(issubclass(kind, np.generic | constexpr) for kind in kinds):
        raise TypeError
    return kinds, *(_item(item, kind) for item, kind in zip(value, kinds, strict=True))


def _item(value: Any, kind: type) -> Any:
    if kind is float:
        return value.hex()
    return constant_tuple(value) if kind is tuple else value


def wide_integer(value: int) -> tuple[int, bool]:
    """Return the part of a key for integers that do not fit 32 bits, as items of tuples may be."""
    if type(value) is not int:
        raise TypeError
    return divisor_of(value % DIVISOR), value <= 0x7FFF_FFFF_FFFF_FFFF
