"""The report that every example prints: times of calls, and errors of results.

An example creates a `Report`, calls `measure` for each function with the results expected in
float64, and exits with the status that `finish` returns.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Results = Mapping[str, Any]

HEADER = f"{'':<34}{'first call':>12}{'repeat':>11}   {'result':<8}{'max error':>10}{'allowed':>10}"


def sum_error(expected: np.ndarray, terms: int) -> float:
    """Return the absolute error to allow sums of `terms` elements in float32.

    Each addition rounds a partial sum, so that the errors are a random walk.
    """
    return float(np.abs(expected).max() * (2 + math.sqrt(terms) / 4) * np.finfo(np.float32).eps)


class Report:
    """A table of measurements; each line is printed when it is measured."""

    def __init__(self, title: str) -> None:
        self._wrong = 0
        self._compared = 0
        print(title, HEADER, sep="\n\n")

    def measure(
        self,
        label: str,
        function: Callable[[], Results],
        expected: Mapping[str, np.ndarray],
        tolerance: float | Mapping[str, float],
    ) -> Results:
        """Call `function` twice, timed, and compare each array that it returns with `expected`.

        The first call compiles. `tolerance` is the greatest allowed absolute error, for all
        results or by name. Returns the results of the second call.
        """
        first, first_seconds = timed(function)
        second, repeat_seconds = timed(function)
        left = f"{label:<34}{duration(first_seconds):>12}{duration(repeat_seconds):>11}"
        for name, reference in expected.items():
            allowed = tolerance[name] if isinstance(tolerance, Mapping) else tolerance
            error = float(np.max([max_error(run[name], reference) for run in (first, second)]))
            self._line(left, name, error, allowed)
            left = " " * len(left)
        return second

    def _line(self, left: str, name: str, error: float, allowed: float) -> None:
        right = error <= allowed
        self._compared += 1
        self._wrong += not right
        verdict = "ok" if right else "WRONG"
        print(f"{left}   {name:<8}{error:>10.1e}{allowed:>10.1e}  {verdict}", flush=True)

    def require(self, condition: bool, title: str) -> None:
        """Report a property of the results, which is wrong if `condition` is false."""
        self._compared += 1
        self._wrong += not condition
        print(f"  {title}: {'ok' if condition else 'WRONG'}")

    def finish(self) -> int:
        """Print the verdict and return the exit status: 1 if anything was wrong, else 0."""
        count = f"{self._compared} check" + "s" * (self._compared != 1)
        if self._wrong:
            print(f"\n{self._wrong} of {count} failed.")
        else:
            print(f"\n{count} passed, against NumPy in float64.")
        return int(self._wrong > 0)


def positive(text: str) -> int:
    """Parse a size from the command line."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; sizes are numbers from 1 on")
    return int(text)


def timed(function: Callable[[], Results]) -> tuple[Results, float]:
    """Return the result of `function`, and the seconds that it took."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def duration(seconds: float) -> str:
    """Format a time in a suitable unit."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def max_error(result: np.ndarray, reference: np.ndarray) -> float:
    """Return the greatest absolute error: infinite for different shapes, NaN for a NaN result."""
    if result.shape != reference.shape:
        return float("inf")
    return float(np.abs(result.astype(np.float64) - reference).max(initial=0.0))
