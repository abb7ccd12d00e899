"""Finalists of a search: interleaved until they differ, whatever the device does meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tile.runtime.autotuning.finalists import Measured, choose, contenders, run_off

QUANTILES = (0.5, 0.2, 0.8)


def contest(
    ratios: list[float], noise: float, most: int = 60, drift: Callable[[int], float] = lambda i: 1.0
) -> tuple[list[Measured], list[tuple[int, int]]]:
    """Return configurations of these times after a contest, and the measurements."""
    random = np.random.default_rng(1)
    calls: list[tuple[int, int]] = []

    def measure(index: int, iteration: int) -> list[float]:
        calls.append((index, iteration))
        error = math.exp(noise * random.standard_normal())
        return [ratios[index] * error * drift(iteration)] * 3

    finalists = [Measured(index, [2.0 * ratio] * 3) for index, ratio in enumerate(ratios)]
    choose(finalists, measure, most)
    return finalists, calls


def test_clear_differences_take_two_iterations() -> None:
    finalists, calls = contest([1.0, 1.05, 1.04], 0.001)
    assert len(calls) == 6 and min(finalists, key=lambda one: one.time).index == 0
    assert [round(one.time / finalists[0].time, 2) for one in finalists] == [1.0, 1.05, 1.04]


def test_noise_takes_more() -> None:
    finalists, calls = contest([1.02, 1.0, 1.03], 0.03)
    assert 9 < len(calls) <= 60 and min(finalists, key=lambda one: one.time).index == 1


def test_differences_below_one_percent_are_not_worth_it() -> None:
    _, calls = contest([1.0, 1.002, 1.001], 0.001)
    assert len(calls) == 6


def test_the_measurements_are_bounded() -> None:
    _, calls = contest([1.0] * 4, 0.2, most=14)
    assert len(calls) <= 14
    _, calls = contest([1.0] * 4, 0.2, most=3)
    assert calls == []


@pytest.mark.parametrize(("time", "most"), [(0.02, 72), (1000.0, 12)])
def test_long_runs_are_measured_less_often(time: float, most: int) -> None:
    random = np.random.default_rng(0)
    calls: list[int] = []

    def measure(index: int, iteration: int) -> list[float]:
        calls.append(index)
        return [time * math.exp(0.3 * random.standard_normal())]

    run_off([Measured(index, [time]) for index in range(8)], measure)
    assert most - 8 < len(calls) <= most
    run_off([], measure)


def test_drift_is_no_difference() -> None:
    """Each iteration is slower than the one before, in one order and reversed."""
    finalists, calls = contest([1.0, 1.03], 0.0005, drift=lambda i: 1.0 + 0.2 * i)
    assert [index for index, _ in calls[:4]] == [0, 1, 1, 0]
    assert len(calls) == 4 and finalists[1].time / finalists[0].time == pytest.approx(
        1.03, abs=2e-3
    )
    assert finalists[0].time * finalists[1].time == pytest.approx(4.0 * 1.03)


def test_one_that_fails_leaves_with_its_first_time() -> None:
    finalists = [Measured(at, [1.0 + at]) for at in range(3)]
    choose(finalists, lambda index, iteration: [] if index == 0 else [1.0 + index], 30)
    assert finalists[0].time == 1.0 and not finalists[0].again
    choose(finalists, lambda index, iteration: [], 30)
    assert contenders([]) == []


def test_quantiles_are_of_all_measurements() -> None:
    one = Measured(0, [1.0, 0.9, 1.1])
    assert one.quantiles(QUANTILES) == pytest.approx([1.0, 0.94, 1.06])
    one.again = [[2.0, 1.0, 3.0], [2.2, 1.2, 3.2]]
    assert one.quantiles((0.5,)) == [1.0]
    assert Measured(0, []).time == math.inf and Measured(0, [0.0]).time > 0
