"""Samples of combinations of parameters, and numbers of examples: `.ci/nightly` runs all and more.

Pairs such as kernels and machines have their faults in few of them. `.ci/run` tests each row with
some columns, and each column with some rows; the other pairs are `nightly`, as pytest calls them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
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


def crossed(values: Mapping[str, Iterable[Any]]) -> pytest.MarkDecorator:
    """Return the decorator that runs a test with all combinations of three parameters or more.

    Those run by `.ci/run` have every two values of two parameters together, since most faults show
    with two (D. R. Kuhn, D. R. Wallace, A. M. Gallo: Software Fault Interactions and Implications
    for Software Testing, 2004). An entry may name several parameters:

        @crossed({"rows, warps": [(1, 2), (13, 4)], "group": [32, 64], "dtype": DTYPES})
        def test_results(rows, warps, group, dtype): ...
    """
    axes = [list(axis) for axis in values.values()]
    rows = list(itertools.product(*map(range, map(len, axes))))
    chosen = _all_pairs(rows)
    cases = []
    for row in rows:
        picked = (_several(axis[index]) for axis, index in zip(axes, row, strict=True))
        marks = () if row in chosen else pytest.mark.nightly
        cases.append(pytest.param(*itertools.chain(*picked), marks=marks))
    return pytest.mark.parametrize(", ".join(values), cases)


def _all_pairs(rows: Sequence[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return rows that have all pairs of values of two columns, each row most of those still missing."""
    pairs = {row: set(itertools.combinations(enumerate(row), 2)) for row in rows}
    missing = set().union(*pairs.values())
    chosen = set()
    while missing:
        best = max(rows, key=lambda row: len(pairs[row] & missing))
        chosen.add(best)
        missing -= pairs[best]
    return chosen


def _several(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def is_nightly() -> bool:
    """Return True if tests run that are `nightly`, too."""
    return settings.get_current_profile_name() == "nightly"


def examples(count: int) -> settings:
    """Return settings of a property with so many examples, and sixteen times as many nightly."""
    return settings(
        max_examples=count * (16 if is_nightly() else 1),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
