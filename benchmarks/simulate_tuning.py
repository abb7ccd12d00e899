"""Simulate searches of recorded tables with noise: their costs, and how good their choices are.

    python benchmarks/simulate_tuning.py [--spaces 60] [--drift 0.01] [--least 4 6 8]
    python benchmarks/simulate_tuning.py --seeds 200 [--drift 0.03 --settling 0.1]

The tables of tests/runtime/tuning/tables and parts of them (some neighboring values of each
dimension) are searched. A measurement draws from the recorded times of its configuration, and is
multiplied by an error that all its times share, as a device's clock has it; with --settling the
first measurements of a search take longer. Printed are, by the size of the space, the share of
configurations that was measured, the time of measuring over that of an exhaustive search without
finalists, and the time of the best configuration over that of the one found: its mean, its 5 %
quantile and how often it is 98 %. The last rows are those of an exhaustive search. With --seeds
each table is searched so often as a whole, and has rows of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tile.runtime.autotuning import search as searching
from tile.runtime.autotuning.finalists import SHARE as SHARE_AGAIN
from tile.runtime.autotuning.finalists import Measured, run_off
from tile.runtime.autotuning.search import Search, budget_of
from tile.runtime.autotuning.tuning_run import SHARE

TABLES = sorted((Path(__file__).parents[1] / "tests/runtime/tuning/tables").glob("*.json"))
SETTLED = 8.0  # measurements in which what they take longer falls by e
SIZES = (4, 8, 16, 32, 64, 400)  # spaces are listed by the next one of these


@dataclass(frozen=True)
class Outcome:
    """A search: the configurations of its space, its costs, and what it found."""

    size: int
    measured: float
    cost: float
    of_the_best: float


@dataclass(frozen=True)
class Noise:
    """Errors of measurements: relative, and how much longer the first one takes."""

    drift: float
    settling: float = 0.0


class Device:
    """Measures the rows of a table with noise."""

    def __init__(self, rows: Sequence[dict[str, Any]], noise: Noise, seed: int) -> None:
        self.rows = rows
        self.noise = noise
        self.random = np.random.default_rng(seed)
        self.measurements = 0
        self.cost = 0.0  # in units of an exhaustive search

    def measure(self, index: int, step: int) -> list[float]:
        """Measure as a search does, a finalist more shortly."""
        return self.times(index, SHARE_AGAIN if step else SHARE)

    def times(self, index: int, share: float) -> list[float]:
        times = self.rows[index]["times"]
        if not times:
            return []
        error = self.noise.drift * self.random.standard_normal()
        error += self.noise.settling * math.exp(-self.measurements / SETTLED)
        self.measurements += 1
        self.cost += share
        count = int(np.clip(100 * share / np.median(times), 1, 100))
        return [float(t) * math.exp(error) for t in self.random.choice(times, count)]


def spaces(count: int, random: np.random.Generator) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of every table, and then of parts of tables."""
    tables = [json.loads(path.read_text())["rows"] for path in TABLES]
    yield from tables
    for number in range(count):
        rows = tables[number % len(tables)]
        names = list(dict.fromkeys(name for row in rows for name in row["point"]))
        allowed: dict[str, set[Any]] = {}
        for name in names:
            values = sorted({row["point"][name] for row in rows})
            first, last = sorted(random.integers(0, len(values), 2))
            allowed[name] = {*values[first : last + 1]}
        part = [row for row in rows if all(row["point"][n] in allowed[n] for n in names)]
        if len([row for row in part if row["times"]]) > 2:
            yield part


def searched(rows: Sequence[dict[str, Any]], noise: Noise, seed: int, effort: float) -> Outcome:
    device = Device(rows, noise, seed)
    search = Search(
        [row["point"] for row in rows],
        [row.get("estimate", math.inf) for row in rows],
        device.measure,
        budget_of(effort, len(rows)),
        features=[row.get("features", [0.0, 0.0, 0.0]) for row in rows],
        identity=lambda index: rows[index].get("code", -1 - index),
        revised=lambda index: rows[index].get("revised"),
    )
    best = search.run()
    assert best is not None
    return outcome(rows, search.with_times, device.cost, best.index)


def exhausted(rows: Sequence[dict[str, Any]], noise: Noise, seed: int) -> Outcome:
    device = Device(rows, noise, seed)
    every = [Measured(at, device.times(at, 1.0)) for at in range(len(rows)) if rows[at]["times"]]
    run_off(every, device.measure)
    best = min(every, key=lambda one: one.time)
    return outcome(rows, len(rows), device.cost, best.index)


def outcome(rows: Sequence[dict[str, Any]], measured: int, cost: float, chosen: int) -> Outcome:
    medians = [np.median(row["times"] or [math.inf]) for row in rows]
    all_of_them = len({row["code"] for row in rows if row["times"]})
    return Outcome(
        len(rows), measured / len(rows), cost / all_of_them, float(min(medians) / medians[chosen])
    )


def listed(title: str, outcomes: Sequence[Outcome]) -> None:
    """Print a row for each size of spaces."""
    for least, most in zip((0, *SIZES), SIZES, strict=False):
        group = [one for one in outcomes if least < one.size <= most]
        if group:
            row(f"{title:>12} {least + 1:4}-{most:<4}", group)


def row(title: str, group: Sequence[Outcome]) -> None:
    found = np.array([one.of_the_best for one in group])
    measured = np.mean([one.measured for one in group])
    cost = np.mean([one.cost for one in group])
    print(
        f"{title}{len(group):5} {measured:9.2f} {cost:6.2f} "
        f"{found.mean():8.4f} {np.quantile(found, 0.05):8.4f} {(found >= 0.98).mean():6.2f}",
        flush=True,
    )


def whole_tables(noise: Noise, seeds: int, share: float) -> None:
    """Search each table as a whole, and print its rows."""
    for path in TABLES:
        rows = json.loads(path.read_text())["rows"]
        row(f"{path.stem:>22}", [searched(rows, noise, seed, share) for seed in range(seeds)])
        row(f"{'exhaustive':>22}", [exhausted(rows, noise, seed) for seed in range(seeds)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spaces", type=int, default=200)
    parser.add_argument("--drift", type=float, default=0.01, help="of one measurement, relative")
    parser.add_argument("--settling", type=float, default=0.0, help="of the first measurement")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, help="searches of each table as a whole")
    parser.add_argument("--share", type=float, default=searching.EFFORTS["normal"][0])
    parser.add_argument("--least", type=int, nargs="*", default=[searching.LEAST])
    options = parser.parse_args()
    noise = Noise(options.drift, options.settling)
    if options.seeds:
        print("                 table     n  measured   cost  of best    5 %  >= .98")
        whole_tables(noise, options.seeds, options.share)
        return
    parts = list(spaces(options.spaces, np.random.default_rng(options.seed)))
    print("      policy     size    n  measured   cost  of best    5 %  >= .98")
    for least in options.least:
        searching.LEAST = least
        found = [searched(rows, noise, at, options.share) for at, rows in enumerate(parts)]
        listed(f"least {least}", found)
    every = [exhausted(rows, noise, at) for at, rows in enumerate(parts)]
    listed("exhaustive", every)


if __name__ == "__main__":
    main()
