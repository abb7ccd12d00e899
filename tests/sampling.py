"""Samples of all pairs of two parameters, and numbers of examples: `.ci/nightly` runs all and more.

Pairs such as kernels and machines have their faults in few of them. `.ci/run` tests each row with
some columns, and each column with some rows; the other pairs are `nightly`, as pytest calls them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings


def sample(rows: Iterable[Any], columns: Sequence[Any], each: int = 1) -> list[Any]:
    """Return all pairs as parameters; all but `each` columns of a row, in rotation, run nightly.

    A row or a column that is a tuple stands for several parameters.
    """
    pairs = []
    for index, row in enumerate(rows):
        chosen = {(index * each + offset) % len(columns) for offset in range(each)}
        for column, values in enumerate(columns):
            marks = () if column in chosen else pytest.mark.nightly
            pairs.append(pytest.param(*_several(row), *_several(values), marks=marks))
    return pairs


def _several(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def is_nightly() -> bool:
    """Return True if tests run that are `nightly`, too."""
    return settings.get_current_profile_name() == "nightly"


def examples(count: int) -> settings:
    """Return settings of a property with so many examples, and eight times as many nightly."""
    return settings(
        max_examples=count * (8 if is_nightly() else 1),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
