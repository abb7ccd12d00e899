"""The results of a tuning run as a table: text, CSV and a plot."""

from __future__ import annotations

import csv
import importlib
import io
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from tile.runtime.autotuning.configs import Config

HEADER = ("median ms", "20 %", "80 %")
SHOWN = 3  # times of a row


class TuningResults:
    """The configurations of a tuning run: those that ran, fastest first, and those skipped.

    `print(tuner.results)` prints a table, `tuner.results.csv(path)` writes one, and
    `tuner.results.plot(path)` draws the times (with matplotlib). `best` is the fastest
    configuration; `best.source` is Python text that makes it.
    """

    def __init__(
        self, timings: Mapping[Config, Sequence[float]], skipped: Mapping[Config, str]
    ) -> None:
        """`timings` has times in ms, the median first; `skipped` the reasons of the others."""
        ran = {config: times for config, times in timings.items() if math.isfinite(times[0])}
        self.timings = dict(sorted(ran.items(), key=lambda item: item[1][0]))
        self.skipped = dict(skipped)

    @property
    def best(self) -> Config | None:
        """The fastest configuration; None if none ran."""
        return next(iter(self.timings), None)

    def __len__(self) -> int:
        return len(self.timings) + len(self.skipped)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each configuration, with its values by name."""
        rows: list[dict[str, Any]] = []
        for config, times in self.timings.items():
            named = dict(zip(HEADER, times[:SHOWN], strict=False))
            rows.append({**_point(config), **named, "skipped": ""})
        empty = dict.fromkeys(HEADER, "")
        rows += [{**_point(c), **empty, "skipped": text} for c, text in self.skipped.items()]
        return rows

    def csv(self, path: str | PathLike[str]) -> None:
        """Write the table as CSV. Raises `OSError`."""
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        Path(path).write_text(text.getvalue(), encoding="utf-8")

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the times of all configurations fastest first, on a logarithmic axis.

        Raises `ModuleNotFoundError` without matplotlib.
        """
        figures: Any = importlib.import_module("matplotlib.figure")
        figure = figures.Figure(figsize=(6.0, 3.5), layout="constrained")
        axes = figure.subplots()
        times = [times[0] for times in self.timings.values()]
        axes.plot(range(1, len(times) + 1), times, ".")
        axes.set_yscale("log")
        axes.set_xlabel("configuration, fastest first")
        axes.set_ylabel("median, ms")
        figure.savefig(path)

    def __str__(self) -> str:
        lines = ["".join(f"{name:>12}" for name in HEADER) + "  configuration"]
        for config, times in self.timings.items():
            lines.append("".join(f"{t:12.4g}" for t in times[:SHOWN]) + f"  {config}")
        lines += [f"{'skipped':>36}  {c}  ({_line(text)})" for c, text in self.skipped.items()]
        return "\n".join(lines)


def _point(config: Config) -> dict[str, Any]:
    return config.all_kwargs()


def _line(text: str) -> str:
    return text.splitlines()[0] if text else ""
