"""The arguments of an op that are no arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ops.core.dtypes import FLOATS
from tile.ops.core.new_arrays import DType
from tile.short_repr import short_repr

LARGEST = float(np.finfo(np.float32).max)
MOST_INTEGER = 2**31 - 1  # of extents and counts, which kernels take as 32-bit integers


class Options:
    """Checks of the arguments of an op that are no arrays. Each raises an `ArgumentError`."""

    def __init__(self, op: str) -> None:
        self.op = op

    def number(
        self, name: str, value: Any, low: float = -math.inf, high: float = math.inf
    ) -> float:
        """Return a number from `low` to `high` that float32, the type of arithmetic, can hold."""
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        except (TypeError, ValueError):
            raise self.not_a(name, value, "number") from None
        if not abs(number) <= LARGEST:
            raise self._must_be(name, value, "finite in float32")
        if not low <= number <= high:
            raise self._must_be(name, value, _interval(low, high))
        return number

    def integer(
        self, name: str, value: Any, low: int = -MOST_INTEGER - 1, high: int = MOST_INTEGER
    ) -> int:
        """Return an integer from `low` to `high`."""
        try:
            integer = operator.index(value)
        except TypeError:
            raise self.not_a(name, value, "integer") from None
        if not low <= integer <= high:
            ends = f"{low} or more" if high == MOST_INTEGER else f"{low} to {high}"
            raise self._must_be(name, value, ends)
        return integer

    def choice(self, name: str, value: Any, choices: Sequence[Any]) -> Any:
        """Return `value` if it is among `choices`: texts, integers and None."""
        if not isinstance(value, str | int | np.integer | None) or value not in choices:
            raise self._must_be(name, value, f"one of {', '.join(map(repr, choices))}")
        return value

    def float_type(self, name: str, value: Any) -> DType:
        """Return the float type of this name."""
        kinds = {kind.name: kind for kind in FLOATS}
        return kinds[self.choice(name, value, tuple(kinds))]

    def flag(self, name: str, value: Any) -> bool:
        """Return a truth value."""
        if not isinstance(value, bool | np.bool_):
            raise ArgumentTypeError(
                f"{self.op}: `{name}` is {short_repr(value)}; it is True or False"
            )
        return bool(value)

    def not_a(self, name: str, value: Any, kind: str) -> ArgumentTypeError:
        """Return the error for an argument that is not an array, a number or an integer."""
        article = "a" if kind == "number" else "an"
        return ArgumentTypeError(
            f"{self.op}: `{name}` is {short_repr(value)}; it is {article} {kind}"
        )

    def _must_be(self, name: str, value: Any, expected: str) -> ArgumentValueError:
        return ArgumentValueError(
            f"{self.op}: `{name}` is {short_repr(value)}; it must be {expected}"
        )


def is_number(value: Any, low: float = -LARGEST) -> bool:
    """Return True for a plain number that `Options.number` takes, for arguments that vary."""
    return type(value) in (int, float) and low <= value <= LARGEST


def _interval(low: float, high: float) -> str:
    if math.isinf(high):
        return f"{low:g} or more"
    return f"at most {high:g}" if math.isinf(low) else f"{low:g} to {high:g}"
