"""Progress and results of tuning runs, as users see them.

Progress goes to the standard error, by `rich` on a terminal, else as plain lines. Results are a
table: text, CSV and a plot.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import math
import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from tile.runtime.autotuning.configs import Config

Best = tuple[str, float]  # a configuration, and its median time in ms


class Progress:
    """Shows nothing; the base of what shows progress."""

    def measured(self, count: int, budget: int, best: Best | None) -> None:
        """Show that `count` of at most `budget` configurations are measured."""

    def close(self) -> None:
        """End the display."""


class PlainProgress(Progress):
    """Writes a line for each better configuration."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self.title = title
        self.stream = stream
        self.best: Best | None = None

    def measured(self, count: int, budget: int, best: Best | None) -> None:
        if best is None or best == self.best:
            return
        self.best = best
        self.stream.write(f"{self.title}: {count} of {budget}, {best[1]:.4g} ms: {best[0]}\n")
        self.stream.flush()


class RichProgress(Progress):
    """A bar of the package `rich`, with the best configuration so far."""

    def __init__(self, title: str, stream: TextIO) -> None:
        progress: Any = importlib.import_module("rich.progress")
        console: Any = importlib.import_module("rich.console")
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[best]}"),
            console=console.Console(file=stream),
        )
        self._task = self._bar.add_task(title, total=None, best="")
        self._bar.start()

    def measured(self, count: int, budget: int, best: Best | None) -> None:
        text = "" if best is None else f"{best[1]:.4g} ms: {best[0]}"
        self._bar.update(self._task, completed=count, total=budget, best=text)

    def close(self) -> None:
        self._bar.stop()


def progress_for(title: str, *, shown: bool, stream: TextIO | None = None) -> Progress:
    """Return the progress of a run; without `shown` it shows nothing."""
    stream = sys.stderr if stream is None else stream
    if not shown:
        return Progress()
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        return RichProgress(title, stream)
    return PlainProgress(title, stream)


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
            rows.append({**config.all_kwargs(), **named, "skipped": ""})
        empty = dict.fromkeys(HEADER, "")
        rows += [{**c.all_kwargs(), **empty, "skipped": text} for c, text in self.skipped.items()]
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


def _line(text: str) -> str:
    return text.splitlines()[0] if text else ""
