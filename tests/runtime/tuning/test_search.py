"""The search, on tables of recorded times and on made-up ones.

`tables/` has the times of all configurations of a kernel, from benchmarks/record_tuning.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.runtime.autotuning.search import Search, budget_of, coordinates, expected_improvement

TABLES = sorted((Path(__file__).parent / "tables").glob("*.json"))


class Table:
    """A recorded table, as a search measures it."""

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text())
        self.rows: list[dict[str, Any]] = content["rows"]
        self.points = [row["point"] for row in self.rows]
        self.estimates = [row.get("estimate", math.inf) for row in self.rows]
        self.features = [row.get("features", [0.0, 0.0, 0.0]) for row in self.rows]
        self.medians = [np.median(row["times"] or [math.inf]) for row in self.rows]
        self.measured: list[int] = []

    def measure(self, index: int, step: int) -> Sequence[float]:
        """Return some of the recorded times, others in each iteration."""
        self.measured.append(index)
        times: list[float] = self.rows[index]["times"]
        return [times[(3 * step + at) % len(times)] for at in range(3)] if times else []

    def search(self, budget: int, **options: Any) -> Search:
        def code(index: int) -> int:
            number: int = self.rows[index].get("code", -1 - index)
            return number

        return Search(
            self.points,
            self.estimates,
            self.measure,
            budget,
            features=self.features,
            identity=code,
            revised=lambda index: self.rows[index].get("revised"),
            **options,
        )


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_quarter_of_the_space_has_98_percent_of_the_best(path: Path) -> None:
    table = Table(path)
    search = table.search(budget_of("normal", len(table.rows)))
    best = search.run()
    assert best is not None
    assert min(table.medians) / table.medians[best.index] >= 0.98
    assert search.with_times <= max(8, 2 * math.sqrt(len(table.rows)), 0.25 * len(table.rows))
    ran = [table.rows[index] for index in table.measured if table.rows[index]["times"]]
    assert search.distinct == len({row["code"] for row in ran})


def test_a_search_repeats_itself() -> None:
    one, other = (Table(TABLES[0]) for _ in range(2))
    one.search(30).run()
    other.search(30).run()
    assert one.measured == other.measured


# -- made-up times


POINTS = [{"x": x, "y": y} for x in (1, 2, 4, 8, 16) for y in range(8)]


def times_of(index: int) -> float:
    """A valley with its lowest point at x = 4, y = 5."""
    x, y = math.log2(POINTS[index]["x"]), POINTS[index]["y"]
    return 1.0 + (x - 2) ** 2 + 0.5 * (y - 5) ** 2


LOWEST = POINTS.index({"x": 4, "y": 5})
FLAT = [1.0] * len(POINTS)


def recorded(**options: Any) -> tuple[Search, list[tuple[int, int]]]:
    calls: list[tuple[int, int]] = []

    def measure(index: int, step: int) -> list[float]:
        calls.append((index, step))
        return [times_of(index)] * 3

    arguments = {"points": POINTS, "estimates": FLAT, "measure": measure, "budget": 20}
    return Search(**{**arguments, **options}), calls


def test_the_lowest_point_without_a_model() -> None:
    search, calls = recorded()
    best = search.run()
    assert best is not None and best.index == LOWEST
    assert search.distinct <= 20 < len(POINTS)
    assert len({index for index, step in calls if step == 0}) == search.distinct


def test_what_the_model_excludes_is_never_measured() -> None:
    estimates = [math.inf if point["x"] == 4 else 1.0 for point in POINTS]
    search, calls = recorded(estimates=estimates, budget=len(POINTS))
    best = search.run()
    assert best is not None and POINTS[best.index] in ({"x": 2, "y": 5}, {"x": 8, "y": 5})
    assert all(POINTS[index]["x"] != 4 for index, _ in calls)


def test_nothing_is_possible() -> None:
    search, calls = recorded(estimates=[math.inf] * len(POINTS))
    assert search.run() is None and calls == []


def test_configurations_that_cannot_run_take_no_budget() -> None:
    def measure(index: int, step: int) -> list[float]:
        return [] if POINTS[index]["y"] < 4 else [times_of(index)] * 3

    search, _ = recorded(measure=measure)
    best = search.run()
    assert best is not None and best.index == LOWEST
    failed = [one for one in search.measured.values() if not one.times]
    assert search.distinct == len(search.measured) - len(failed) <= 20
    nothing, _ = recorded(measure=lambda index, step: [])
    assert nothing.run() is None and len(nothing.measured) == len(POINTS)


def test_equal_code_is_measured_once() -> None:
    search, calls = recorded(identity=lambda index: POINTS[index]["y"])
    search.run()
    assert len({index for index, _ in calls}) == search.distinct == 8
    copies = [one for one in search.measured.values() if one.same_as is not None]
    assert all(one.times == search.measured[one.same_as].times for one in copies if one.same_as)


def test_code_that_is_worse_than_estimated_is_put_off() -> None:
    """The model prefers y = 0; the code of x = 1 there spills, which the compiled kernel shows."""
    estimates = [1.0 + POINTS[index]["y"] for index in range(len(POINTS))]
    asked: list[int] = []

    def revised(index: int) -> float | None:
        asked.append(index)
        return 20.0 if POINTS[index] == {"x": 1, "y": 0} else None

    search, calls = recorded(estimates=estimates, revised=revised, budget=10)
    search.run()
    assert POINTS[asked[0]] == {"x": 1, "y": 0} and asked[0] not in {index for index, _ in calls}
    again, _ = recorded(revised=lambda index: 1.5 if index == LOWEST else None)
    best = again.run()
    assert best is not None and best.index == LOWEST  # chosen once more


def test_starts_come_first() -> None:
    search, calls = recorded(starts=[LOWEST, 3], budget=8)
    best = search.run()
    assert [index for index, _ in calls[:2]] == [LOWEST, 3]
    assert best is not None and best.index == LOWEST


def test_finalists_are_measured_again_interleaved() -> None:
    random = np.random.default_rng(0)
    calls: list[tuple[int, int]] = []

    def measure(index: int, iteration: int) -> list[float]:
        calls.append((index, iteration))
        close = 1.0 + 0.02 * (times_of(index) - 1.0)
        clock = 1.0 + 0.1 * iteration
        return [float(t) for t in clock * (close + 0.003 * random.standard_normal(5))]

    search, _ = recorded(measure=measure)
    best = search.run()
    assert best is not None and best.index == LOWEST
    again = [call for call in calls if call[1] > 0]
    assert again and all(index in search.measured for index, _ in again)
    assert [iteration for _, iteration in again] == sorted(iteration for _, iteration in again)
    assert len(again) <= 1 + 3 * search.distinct


def test_finalists_decide_and_not_the_first_measurement() -> None:
    """A first time that is short by chance wins nothing, and later times compare with first ones."""

    def measure(index: int, iteration: int) -> list[float]:
        lucky = 0.04 if iteration == 0 and index == LOWEST + 1 else 0.0
        return [(1.0 + 0.03 * (index != LOWEST) - lucky) * (1.5 if iteration else 1.0)] * 3

    search, _ = recorded(measure=measure, budget=len(POINTS))
    best = search.run()
    assert best is not None and best.index == LOWEST
    once = [one for one in search.measured.values() if not one.again]
    assert all(one.time >= best.time for one in search.measured.values())
    assert all(one.time == 1.03 for one in once) and 0.97 < best.time < 1.03


def test_progress_is_reported() -> None:
    counts: list[int] = []
    search, _ = recorded(progress=lambda search: counts.append(search.distinct))
    search.run()
    assert counts[0] == 1 and counts == sorted(counts)


def test_an_interrupted_search_keeps_what_it_measured() -> None:
    def measure(index: int, step: int) -> list[float]:
        if len(search.measured) == 5:
            raise KeyboardInterrupt
        return [times_of(index)] * 3

    search, _ = recorded(measure=measure)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert len(search.measured) == 5 and search.best is not None


def test_budgets() -> None:
    assert budget_of("normal", 100) == budget_of(0.25, 100) == budget_of(25, 100) == 25
    assert (budget_of("quick", 20), budget_of(0.1, 4), budget_of(50, 20)) == (8, 4, 20)
    assert [budget_of("normal", n) for n in (6, 16, 30, 60, 64, 160)] == [6, 8, 10, 15, 16, 40]
    assert [budget_of(e, 10**5) for e in ("quick", "normal", "thorough")] == [30, 100, 400]
    for effort in ("much", 0, 1.5, -0.1):
        with pytest.raises(ArgumentValueError, match="effort"):
            budget_of(effort, 10)
    for other in (None, True, [1]):
        with pytest.raises(ArgumentTypeError, match="effort is a name, a share or a number"):
            budget_of(other, 10)


def test_coordinates_are_steps() -> None:
    points = [{"a": a, "b": b, "c": 3} for a in (1, 4, 16) for b in ("x", "y")]
    assert coordinates(points).tolist() == [
        [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [2, 1, 0], [2, 0, 1],
    ]  # fmt: skip
    assert coordinates([{"a": 1}]).shape == (1, 1)


def test_expected_improvement() -> None:
    gain = expected_improvement(0.0, np.array([0.0, -1.0, 5.0]), np.array([1.0, 1e-6, 1e-3]))
    np.testing.assert_allclose(gain, [1 / math.sqrt(2 * math.pi), 1.0, 0.0], atol=1e-6)
