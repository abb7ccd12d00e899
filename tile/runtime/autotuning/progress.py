"""Progress of a tuning run, on the standard error: by `rich` on a terminal, else as plain lines."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, TextIO

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
