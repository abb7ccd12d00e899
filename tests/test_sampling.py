"""Samples of combinations of parameters have what they promise."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import crossed


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_every_two_values_are_together_in_a_test_that_always_runs(sizes: list[int]) -> None:
    names = "abcd"[: len(sizes)]
    mark = crossed({name: range(size) for name, size in zip(names, sizes, strict=True)}).mark
    cases = mark.args[1]
    assert [case.values for case in cases] == list(itertools.product(*map(range, sizes)))
    chosen = [case.values for case in cases if not case.marks]
    for i, j in itertools.combinations(range(len(sizes)), 2):
        pairs = {(row[i], row[j]) for row in chosen}
        assert pairs == set(itertools.product(range(sizes[i]), range(sizes[j])))


def test_an_entry_may_name_several_parameters() -> None:
    mark = crossed({"a, b": [(1, 2), (3, 4)], "c": "xy"}).mark
    assert mark.args[0] == "a, b, c"
    assert [case.values for case in mark.args[1]][1] == (1, 2, "y")
