"""Choose among the fastest configurations of a search, by measuring them again.

A short measurement errs with the state of the device: its clock, its memory, other programs. So all
finalists are measured once, then all once more, and so on, in an order that is reversed each time.
What an iteration adds to all of them is no difference between them. The times are taken for

    log time = configuration + iteration + error

whose errors give an interval for the difference of two configurations, by Student's distribution.
A configuration leaves when it cannot be faster than the leader by `TOLERANCE`; the last one wins.
One measurement is short, as only many of them tell how much they err.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

CLOSE = 1.1  # ratio to the shortest time, up to which configurations are measured again
MOST = 12  # finalists
SHARE = 0.1  # of the usual time of measuring, for one measurement of a finalist
FIRST, EACH = 25.0, 12.5  # ms of a first measurement and of one of a finalist, of a short run
AGAIN = 1.5  # time for finalists, of that of the first measurements
LEAST = 900.0  # ms that are permitted for the finalists of any number of configurations
TOLERANCE = 0.005  # of a time; a smaller difference is not worth measuring
# The 97.5 % quantiles of Student's distribution for 1, 2, ... degrees of freedom.
STUDENT = (12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
NORMAL = 2.1  # for more
RESOLUTION = 0.001  # of a time, which clocks do not tell
SHORTEST = 1e-9  # a time in ms, in place of zero


@dataclass
class Measured:
    """A configuration that was measured.

    times: of the first measurement in ms; none if it cannot run.
    same_as: an earlier configuration of equal code, whose times these are.
    again: the times of each measurement as a finalist.
    time: the time in ms by all measurements; infinity if it cannot run.
    """

    index: int
    times: list[float]
    same_as: int | None = None
    again: list[list[float]] = field(default_factory=list)
    time: float = field(init=False)

    def __post_init__(self) -> None:
        self.time = max(SHORTEST, float(np.median(self.times))) if self.times else math.inf

    def quantiles(self, wanted: Sequence[float]) -> list[float]:
        """Return quantiles of a typical measurement, shifted so that their median is `time`."""
        each = [np.quantile(one, [0.5, *wanted]) for one in self.again or [self.times]]
        middle, *values = np.median(each, axis=0)
        return [float(value / middle) * self.time for value in values]


def run_off(
    ran: Sequence[Measured],
    measure: Callable[[int, int], Sequence[float]],
    report: Callable[[], object] = lambda: None,
) -> None:
    """Measure those of configurations again that may be the fastest; see `choose`."""
    best = min((one.time for one in ran), default=math.inf)
    close = sorted((one for one in ran if one.time <= CLOSE * best), key=lambda one: one.time)
    choose(close[:MOST], measure, _most_measurements(ran), report)


def _most_measurements(ran: Sequence[Measured]) -> int:
    """Return how often finalists may be measured: the longer a run takes, the less often."""
    if not ran:
        return 0
    runs = 2 * min(one.time for one in ran)  # of which the first is not timed
    first = sum(max(FIRST, 2 * one.time) for one in ran)
    return int(max(LEAST, AGAIN * first) / max(EACH, runs))


def choose(
    finalists: Sequence[Measured],
    measure: Callable[[int, int], Sequence[float]],
    most: int,
    report: Callable[[], object] = lambda: None,
) -> None:
    """Measure finalists again, at most `most` times in all, and set the time of each.

    measure: `measure(index, iteration)`, iterations from 1; no times for one that fails now, which
        then leaves with the time that it had.
    """
    left, ran = list(finalists), list(finalists)
    iteration = 0
    while len(left) > 1 and most >= len(left):
        iteration += 1
        most -= len(left)
        for one in left[:: 1 if iteration % 2 else -1]:
            times = [time for time in measure(one.index, iteration) if math.isfinite(time)]
            if times:
                one.again.append(times)
            else:
                ran.remove(one)
        left = contenders([one for one in left if one in ran])
        _set_times(ran, left)
        report()


def contenders(left: Sequence[Measured]) -> list[Measured]:
    """Return those that may be the fastest by more than `TOLERANCE`, the leader first."""
    if not left:
        return []
    logs = _logs(left, len(left[0].again))
    means = logs.mean(axis=1)
    order = np.argsort(means, kind="stable")
    freedom = (logs.shape[0] - 1) * (logs.shape[1] - 1)
    if not freedom:
        return [left[at] for at in order]
    errors = logs - means[:, None] - logs.mean(axis=0) + logs.mean()
    deviation = max(RESOLUTION, math.sqrt(float((errors**2).sum()) / freedom))
    student = STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL
    margin = student * deviation * math.sqrt(2 / logs.shape[1])
    ahead = means - means.min() - margin  # how far each may be from the leader, at best
    return [left[at] for at in order if at == order[0] or ahead[at] < -TOLERANCE]


def _set_times(ran: Sequence[Measured], left: Sequence[Measured]) -> None:
    """Set the time of each finalist: the leader's, and how far behind it each one is.

    The leader's is such that the mean of all is that of their first measurements, and so can be
    compared with the times of configurations that were measured only once.
    """
    if not left:
        return
    leader = left[0]
    behind = {}
    for one in ran:
        own, best = _logs((one, leader), len(one.again))
        behind[one.index] = max(0.0, float((own - best).mean()))
    first = float(np.mean([math.log(max(SHORTEST, np.median(one.times))) for one in ran]))
    for one in ran:
        one.time = math.exp(first - float(np.mean([*behind.values()])) + behind[one.index])


def _logs(measured: Sequence[Measured], count: int) -> Numbers:
    """Return the logarithms of the times of the first measurements as finalists, a row for each."""
    medians = [[np.median(times) for times in one.again[:count]] for one in measured]
    logs: Numbers = np.log(np.maximum(SHORTEST, medians))
    return logs
