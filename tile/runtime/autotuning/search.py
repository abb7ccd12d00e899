"""Search a space of configurations by measuring few of them.

A search starts with configurations that were the best for other keys, with those that a cost model
ranks first, and with some far from these. A Gaussian process over all measured times then predicts
the others: time is the model's estimate, corrected where measurements near by disagree with it. The
configuration with the greatest expected improvement is measured next, every other time among those
that differ from one of the three best in one dimension. When the improvement falls below 0.2 % of
the best time, a local search goes on among the neighbors of these. Finally those that cannot be
told from the best are measured again (`tile/runtime/autotuning/finalists.py`).

Nothing here launches a kernel: `measure` may as well read a table of recorded times.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.runtime.autotuning.finalists import Measured, run_off
from tile.short_repr import short_repr

Numbers = npt.NDArray[np.float64]
Point = dict[str, Any]

# How much of a space a search may measure, by the name of the effort: a share, and a number.
EFFORTS = {"quick": (0.1, 30), "normal": (0.25, 100), "thorough": (0.5, 400)}
LEAST = 8  # configurations that any search may measure
SMALL = (
    64  # configurations; of a smaller space the share is greater, as the square root of its size
)
STARTING = 0.3  # the share of the budget that is chosen before the first measurement
APART = 3  # one in so many of these is as far as possible from the others
PUT_OFF = 1.1  # ratio of the estimate for code to that before it is compiled
IMPROVEMENT = 0.002  # expected improvement, of the best time, below which a search stops
LOCAL, REACH = 3, 2.0  # so many of the best are leaders; all so near to these are measured
LENGTH = 1.5  # steps along a dimension over which times are similar
STEPS = (0.5, 0.7, 1.4, 2.0)  # ratios by which a fit changes the weight of a dimension
WEIGHTS = (0.02, 3.0)  # bounds of weights
NOISE = 0.02  # standard deviation of the logarithm of a measured time
AHEAD = max(8, min(16, os.cpu_count() or 1))  # configurations that an executor compiles ahead


def budget_of(effort: object, count: int) -> int:
    """Return how many of `count` configurations a search may measure.

    effort: a name of `EFFORTS`, a share as a float up to 1.0, or a number of configurations.
    Raises `ArgumentError` for anything else.
    """
    if isinstance(effort, str):
        if effort not in EFFORTS:
            raise ArgumentValueError(
                f"effort is {effort!r}; there are {', '.join(map(repr, EFFORTS))}, a share of the "
                "space such as 0.25, and a number of configurations such as 40"
            )
        share, most = EFFORTS[effort]
        return min(budget_of(share, count), most)
    if isinstance(effort, bool) or not isinstance(effort, int | float):
        raise ArgumentTypeError(
            f"effort is a name, a share or a number of configurations, not {short_repr(effort)}"
        )
    if isinstance(effort, float):
        if not 0 < effort <= 1:
            raise ArgumentValueError(f"effort={effort} is no share: above 0, and at most 1.0")
        return min(count, max(LEAST, math.floor(effort * max(count, math.sqrt(SMALL * count)))))
    if effort < 1:
        raise ArgumentValueError(f"effort={effort} is no number of configurations: at least 1")
    return min(count, effort)


Measure = Callable[[int, int], Sequence[float]]


@dataclass
class Search:
    """A search among configurations by their index.

    points: the values of each configuration by dimension.
    estimates: the time of each by a cost model, in any unit; infinity for one that cannot win.
    measure: `measure(index, iteration)` returns times in ms; none for a configuration that cannot
        run. Iteration 0 is the first measurement; in later ones finalists are measured again.
    budget: how many may be measured, those included that take the times of equal code.
    starts: configurations to measure first.
    features: numbers for each configuration on which its time depends besides its values.
    identity: returns what equals for configurations of equal code, which are measured once.
    revised: returns the estimate for the code of a configuration whose identity was asked for.
    progress: called after each measurement.
    """

    points: Sequence[Point]
    estimates: Sequence[float]
    measure: Measure
    budget: int
    starts: Sequence[int] = ()
    features: Sequence[Sequence[float]] = ()
    identity: Callable[[int], Hashable] = lambda index: index
    revised: Callable[[int], float | None] = lambda index: None
    progress: Callable[[Search], object] = lambda search: None
    measured: dict[int, Measured] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._coordinates = coordinates(self.points)
        self._axes = self._coordinates
        self._values = values_of(self.points)
        if len(self.features):
            more = np.asarray(self.features, np.float64)
            more = more[:, np.ptp(more, axis=0) > 0]
            self._axes = np.concatenate([self._axes, more], axis=1)
        estimates = np.asarray(self.estimates, np.float64)
        self.possible = np.isfinite(estimates)
        logs = np.log(np.where(self.possible, np.maximum(estimates, 1e-300), 1.0))
        self.logs: Numbers = logs - (logs[self.possible].mean() if self.possible.any() else 0)
        self.seen: dict[Hashable, int] = {}
        self._put_off: set[int] = set()
        self._first: list[int] = []
        self._weights: Numbers = np.full(self._axes.shape[1], 1 / LENGTH)

    @property
    def distinct(self) -> int:
        """The number of configurations measured, those of equal code counted once."""
        return sum(one.same_as is None and bool(one.times) for one in self.measured.values())

    @property
    def with_times(self) -> int:
        """The number of configurations that have run, or whose code has."""
        return sum(bool(one.times) for one in self.measured.values())

    @property
    def best(self) -> Measured | None:
        """The fastest configuration so far; None if none has run."""
        ran = [one for one in self.measured.values() if one.times and one.same_as is None]
        return min(ran, key=lambda one: one.time, default=None)

    def run(self) -> Measured | None:
        """Search, and return the best; None if none of those that were tried can run."""
        self._first = self.first()
        for index in self._first:
            self.try_one(index)
        self.settle()
        while self.with_times < self.budget:
            chosen = self.next()
            if chosen is None:
                break
            self.try_one(chosen)
        self.finalists()
        return self.best

    def try_one(self, index: int) -> None:
        """Measure a configuration, take the times of one of equal code, or put it off."""
        if index in self.measured:
            return
        key = self.identity(index)
        if key not in self.seen and self.put_off(index):
            return
        other = self.seen.setdefault(key, index)
        if other == index:
            times = [time for time in self.measure(index, 0) if math.isfinite(time)]
            self.measured[index] = Measured(index, times)
        else:
            self.measured[index] = Measured(index, self.measured[other].times, same_as=other)
        self.progress(self)

    def put_off(self, index: int) -> bool:
        """Return True for a configuration whose code is worse than estimated, at first.

        The search may choose it again, by the estimate for its code.
        """
        if index in self._put_off:
            return False
        revised = self.revised(index)
        if revised is None or not revised > PUT_OFF * self.estimates[index]:
            return False
        self._put_off.add(index)
        self.logs[index] += math.log(revised / self.estimates[index])
        return True

    def settle(self) -> None:
        """Measure the first configurations again, until one is not faster than before.

        The clock of an idle device rises, and its caches fill, while the first ones are measured.
        """
        for index, one in self.measured.items():
            if not one.times or one.same_as is not None:
                continue
            again = Measured(index, [t for t in self.measure(index, 1) if math.isfinite(t)])
            if again.time > (1 - NOISE) * one.time:
                return
            self.measured[index] = again
            self.progress(self)

    def first(self) -> list[int]:
        """Return the configurations that are measured first, at most `STARTING` of the budget.

        After `starts`, the best by estimate at two steps or more from those before, and every third
        time the one that is farthest from them, in case that the model is wrong.
        """
        count = min(self.budget, max(3, math.ceil(STARTING * self.budget)))
        chosen = [index for index in dict.fromkeys(self.starts) if self.possible[index]][:count]
        order = np.argsort(self.logs, kind="stable")
        left = [int(index) for index in order if self.possible[index] and index not in chosen]
        near = np.full(len(self.points), math.inf)
        for index in chosen:
            near = np.minimum(near, self._steps_from(index))
        while left and len(chosen) < count:
            apart = [index for index in left if near[index] >= 2] or left
            farthest = max(left, key=lambda index: near[index])
            index = farthest if len(chosen) % APART == APART - 1 else apart[0]
            chosen.append(index)
            left.remove(index)
            near = np.minimum(near, self._steps_from(index))
        return chosen

    def _steps_from(self, index: int) -> Numbers:
        """Return the number of steps from a configuration to every one."""
        steps: Numbers = np.abs(self._axes - self._axes[index]).sum(axis=1)
        return steps

    def next(self) -> int | None:
        """Return the configuration to measure next; None if no improvement is expected."""
        unmeasured = [i for i in np.flatnonzero(self.possible) if int(i) not in self.measured]
        left: npt.NDArray[np.intp] = np.array(unmeasured, np.intp)
        if not len(left):
            return None
        best = self.best
        if best is None:
            return int(left[np.argmin(self.logs[left])])
        mean, deviation = self.predict(left)
        gain = expected_improvement(math.log(best.time), mean, deviation)
        if len(self.measured) % 2:
            adjacent = self._adjacent(left)
            if len(adjacent):
                return int(left[adjacent[np.argmax(gain[adjacent])]])
        if gain.max() < IMPROVEMENT and self.with_times >= min(LEAST, self.budget):
            return self.neighbor(left, mean)
        return int(left[np.argmax(gain)])

    def _adjacent(self, left: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return which of `left` differ in one dimension from one of the best, which alternate."""
        one = self._leaders()[len(self.measured) // 2 % LOCAL :][:1]
        apart = [(self._values[left] != self._values[o.index]).sum(axis=1) for o in one]
        return np.flatnonzero(apart[0] == 1) if apart else np.array([], np.intp)

    def _leaders(self) -> list[Measured]:
        """Return the fastest `LOCAL` configurations of different code."""
        ran = [one for one in self.measured.values() if one.times and one.same_as is None]
        return sorted(ran, key=lambda one: one.time)[:LOCAL]

    def neighbor(self, left: npt.NDArray[np.intp], mean: Numbers) -> int | None:
        """Return the neighbor of one of the best that is predicted best; None if all are measured.

        left: the configurations that are not measured, and `mean` their predictions.
        """
        for one in self._leaders():
            steps = np.abs(self._coordinates[left] - self._coordinates[one.index]).sum(axis=1)
            near = np.flatnonzero(steps <= REACH)
            if len(near):
                return int(left[near[np.argmin(mean[near])]])
        return None

    def upcoming(self) -> list[int]:
        """Return configurations that `next` is likely to choose, to compile them ahead."""
        left = [int(i) for i in np.flatnonzero(self.possible) if int(i) not in self.measured]
        best, started = self.best, len(self.measured) >= STARTING * self.budget
        if not started or best is None:
            ranked = (int(index) for index in np.argsort(self.logs) if self.possible[index])
            chosen = dict.fromkeys((*self._first, *ranked))
            return [index for index in chosen if index not in self.measured][:AHEAD]
        mean, deviation = self.predict(np.array(left, np.intp)) if left else (None, None)
        if mean is None or deviation is None:
            return []
        gain = expected_improvement(math.log(best.time), mean, deviation)
        adjacent = self._adjacent(np.array(left, np.intp))
        near = adjacent[np.argsort(-gain[adjacent])][: AHEAD // 2]
        return [left[i] for i in dict.fromkeys((*near, *np.argsort(-gain)))][:AHEAD]

    def predict(self, wanted: npt.NDArray[np.intp]) -> tuple[Numbers, Numbers]:
        """Return the mean and standard deviation of the logarithm of configurations' times."""
        ran = [one for one in self.measured.values() if one.times]
        worst = max(math.log(one.time) for one in ran)
        at = np.array(list(self.measured))
        logs = np.array(
            [math.log(one.time) if one.times else worst for one in self.measured.values()]
        )
        slope, offset = _trend(self.logs[at], logs)
        rest = logs - (slope * self.logs[at] + offset)
        self._weights = fitted_weights(self._axes[at], rest, self._weights)
        scaled = self._axes * self._weights
        scale = max(float(rest.var()), NOISE**2)
        inverse = np.linalg.inv(_covariance(scaled[at], scale))
        towards = _similarity(scaled[wanted], scaled[at])
        mean = slope * self.logs[wanted] + offset + towards @ (inverse @ rest)
        explained = np.einsum("ij,jk,ik->i", towards, inverse, towards)
        return mean, np.sqrt(scale * np.maximum(1e-9, 1 - explained))

    def finalists(self) -> None:
        """Measure those again that cannot be told from the best, until one is left."""
        ran = [one for one in self.measured.values() if one.times and one.same_as is None]
        run_off(ran, self.measure, lambda: self.progress(self))
        for one in self.measured.values():
            if one.same_as is not None:
                one.times = self.measured[one.same_as].times
                one.time = self.measured[one.same_as].time


def coordinates(points: Sequence[Point]) -> Numbers:
    """Return points as coordinates: one step between neighbors, zero and unordered values apart.

    Numbers are counted in the order of size, other values get an axis each.
    """
    columns: list[Numbers] = []
    for name in dict.fromkeys(name for point in points for name in point):
        values = [point.get(name) for point in points]
        distinct = list(dict.fromkeys(values))
        if len(distinct) < 2:
            continue
        if all(isinstance(value, int | float) for value in distinct):
            at = {value: n for n, value in enumerate(sorted(distinct))}  # type: ignore[type-var]
            columns.append(np.array([at[value] for value in values], np.float64))
        else:
            columns += [np.array([v == one for v in values], np.float64) for one in distinct]
    return np.stack(columns, axis=1) if columns else np.zeros((len(points), 1))


def values_of(points: Sequence[Point]) -> npt.NDArray[np.intp]:
    """Return a number for each value of points, equal for equal values of a dimension."""
    names = dict.fromkeys(name for point in points for name in point)
    columns: list[list[int]] = []
    for name in names:
        numbers: dict[Any, int] = {}
        columns.append([numbers.setdefault(p.get(name), len(numbers)) for p in points])
    return np.array(columns, np.intp).reshape(len(names), len(points)).T


def expected_improvement(best: float, mean: Numbers, deviation: Numbers) -> Numbers:
    """Return the expected decrease below `best` of normally distributed values."""
    z = (best - mean) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float64])(z / math.sqrt(2)))
    gain: Numbers = deviation * (z * below + density)
    return gain


def _trend(x: Numbers, y: Numbers) -> tuple[float, float]:
    """Return slope, from 0 to 1, and offset of a line: 0.5 where points do not tell."""
    x0, y0 = x.mean(), y.mean()
    slope = (0.5 + float(((x - x0) * (y - y0)).sum())) / (1.0 + float(((x - x0) ** 2).sum()))
    slope = min(1.0, max(0.0, slope))
    return slope, float(y0 - slope * x0)


def fitted_weights(points: Numbers, values: Numbers, start: Numbers) -> Numbers:
    """Return how much a step along each dimension matters to `values`, by maximum likelihood.

    One sweep over the dimensions, from `start`.
    """
    scale = max(float(values.var()), NOISE**2)

    def likelihood(weights: Numbers) -> float:
        covariance = _covariance(points * weights, scale)
        _, determinant = np.linalg.slogdet(covariance)
        fit = float(values @ np.linalg.solve(covariance, values)) / scale
        return -0.5 * (fit + float(determinant)) - 0.1 * float(
            (np.log(weights * LENGTH) ** 2).sum()
        )

    weights, best = start.copy(), likelihood(start)
    for axis in range(points.shape[1]):
        for ratio in STEPS:
            changed = weights.copy()
            changed[axis] = np.clip(start[axis] * ratio, *WEIGHTS)
            likely = likelihood(changed)
            if likely > best:
                weights, best = changed, likely
    return weights


def _covariance(points: Numbers, scale: float) -> Numbers:
    noise = (NOISE**2 / scale + 1e-6) * np.eye(len(points))
    covariance: Numbers = _similarity(points, points) + noise
    return covariance


def _similarity(x: Numbers, y: Numbers) -> Numbers:
    """Return the correlation of times between points: a Matern kernel, of smoothness 3/2."""
    squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)[None, :] - 2 * x @ y.T
    distance = np.sqrt(3.0 * np.maximum(squares, 0.0))
    correlation: Numbers = (1 + distance) * np.exp(-distance)
    return correlation
