"""Tools for kernel authors: timing, benchmarks and comparison of results.

`do_bench` times one call, `perf_report` makes tables and plots over a range of sizes, and
`assert_close` reports where two results differ.
"""

from __future__ import annotations

import csv
import html
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tile.backends.capabilities import Timer
from tile.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from tile.pickling import PickledByName
from tile.runtime.autotuning.do_bench import HostTimer, do_bench

__all__ = [
    "Benchmark",
    "HostTimer",
    "Mark",
    "Timer",
    "assert_close",
    "do_bench",
    "perf_report",
]

Row = dict[str, Any]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Benchmark:
    """The description of one plot: a line for each of `line_vals`, over the points `x_vals`.

    The benchmark function is called with the parameters `x_names` set to a point (one value for all
    of them, or a tuple with one for each), `line_arg` set to a line's value, and `args`.
    `line_names` are the names of the lines, `plot_name` that of the plot and of its files; `styles`
    holds a (color, line style) pair for each line. Raises `ArgumentError` if these are
    inconsistent.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: Mapping[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        for name in ("x_names", "line_names"):
            if isinstance(getattr(self, name), str):
                raise ArgumentTypeError(f"{name} is a list of names: [{getattr(self, name)!r}]")
        for name in ("x_names", "x_vals", "line_vals", "line_names"):
            object.__setattr__(self, name, list(getattr(self, name)))
            if not getattr(self, name):
                raise ArgumentValueError(f"{name} of benchmark {self.plot_name!r} is empty")
        if len(self.line_vals) != len(self.line_names):
            raise ArgumentValueError(
                f"benchmark {self.plot_name!r} has {len(self.line_vals)} line_vals and "
                f"{len(self.line_names)} line_names; each line needs one of both"
            )
        if self.styles is not None and len(self.styles) < len(self.line_vals):
            raise ArgumentValueError(
                f"benchmark {self.plot_name!r} has {len(self.line_vals)} lines and "
                f"{len(self.styles)} styles; each line needs one"
            )
        self._check_distinct("parameter", [*self.x_names, self.line_arg, *self.args])
        self._check_distinct("column", [*self.x_names, *self.line_names])
        for x in self.x_vals:
            self.point(x)

    def _check_distinct(self, kind: str, names: list[str]) -> None:
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ArgumentValueError(
                f"benchmark {self.plot_name!r} has the {kind} {twice[0]!r} twice"
            )

    def point(self, x: Any) -> Row:
        """Return the parameters `x_names` at the point `x`."""
        values = list(x) if isinstance(x, (tuple, list)) else [x] * len(self.x_names)
        if len(values) != len(self.x_names):
            raise ArgumentValueError(
                f"point {x!r} of benchmark {self.plot_name!r} has {len(values)} values for the "
                f"{len(self.x_names)} parameters {', '.join(self.x_names)}"
            )
        return dict(zip(self.x_names, values, strict=True))

    @property
    def file_name(self) -> str:
        """`plot_name` with the characters replaced that a file name cannot hold."""
        return re.sub(r'[/\\:*?"<>|\x00-\x1f]', "-", self.plot_name) or "benchmark"


def perf_report(
    benchmarks: Benchmark | Sequence[Benchmark],
) -> Callable[[Callable[..., Any]], Mark]:
    """Decorate a function that measures one point: the result, a `Mark`, measures all points.

    The function returns a number, or a (value, lowest, highest) tuple that is drawn as a line in a
    band.
    """
    return lambda fn: Mark(fn, benchmarks)


class Mark(PickledByName):
    """A benchmark function with its benchmarks; the name is that of `triton.testing.Mark`."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.benchmarks = [benchmarks] if isinstance(benchmarks, Benchmark) else list(benchmarks)
        self._single = isinstance(benchmarks, Benchmark)
        files = [benchmark.file_name for benchmark in self.benchmarks]
        if len(set(files)) < len(files):
            raise ArgumentValueError(f"each benchmark needs a plot_name of its own, not {files}")

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str | Path = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measure every point; `kwargs` go to the benchmark function.

        `print_data` prints a table; `save_path` is a folder that gets a CSV file and a PNG for each
        benchmark and a results.html. Plots need matplotlib and `return_df` needs pandas; if they
        are missing, an `ArgumentError` is raised before anything is measured.

        Returns the rows of the table, a list of dicts, or with `return_df` a DataFrame; a list of
        these if the `Mark` has a list of benchmarks. A row holds the point, each line's value under
        its name and, if the function returned them, its bounds under "name-min" and "name-max".
        """
        pyplot = _optional("matplotlib.pyplot", "show_plots") if show_plots else None
        if save_path:
            _optional("matplotlib.figure", "save_path")
        pandas = _optional("pandas", "return_df") if return_df else None
        tables: list[list[Row]] = []
        for benchmark in self.benchmarks:
            rows = _measure(self.fn, benchmark, kwargs)
            tables.append(rows)
            if print_data:
                sys.stdout.write(f"{benchmark.plot_name}:\n{_text_table(rows)}\n")
            if save_path:
                _save(benchmark, rows, Path(save_path))
            if pyplot is not None:
                _draw(pyplot.figure(), benchmark, rows)
        if save_path:
            _save_html(self.benchmarks, tables, Path(save_path))
        if pyplot is not None:
            pyplot.show()
            pyplot.close("all")
        results = tables if pandas is None else [pandas.DataFrame(rows) for rows in tables]
        return results[0] if self._single else results


_EXTRAS = {"matplotlib": "tile-compiler[plot]", "pandas": "pandas"}


def _optional(module: str, asked_by: str) -> ModuleType:
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ArgumentError(
            f"{asked_by} needs {package}, which cannot be imported ({error}); "
            f"install it with: pip install {_EXTRAS[package]}"
        ) from error


def _measure(fn: Callable[..., Any], benchmark: Benchmark, kwargs: Mapping[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for x in benchmark.x_vals:
        row = benchmark.point(x)
        for value, name in zip(benchmark.line_vals, benchmark.line_names, strict=True):
            call = {**benchmark.point(x), benchmark.line_arg: value, **benchmark.args}
            row.update(_columns(name, fn(**call, **kwargs), call))
        rows.append(row)
    return rows


def _columns(name: str, result: Any, call: Mapping[str, Any]) -> Row:
    """Return the columns of one measurement: its value and, if returned, its bounds."""
    keys = (name, f"{name}-min", f"{name}-max")
    try:
        values = [float(v) for v in (result if isinstance(result, (tuple, list)) else [result])]
    except (TypeError, ValueError):
        values = []
    if len(values) not in (1, len(keys)):
        at = ", ".join(f"{key}={value!r}" for key, value in call.items())
        raise ArgumentTypeError(
            f"the benchmark function returned {result!r} for {at}; "
            "it returns a number, or a tuple (value, lowest, highest)"
        )
    return dict(zip(keys, values, strict=False))


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _header(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _text_table(rows: list[Row]) -> str:
    header = _header(rows)
    lines = [header, *([_cell(row.get(name, "")) for name in header] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )


def _save(benchmark: Benchmark, rows: list[Row], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{benchmark.file_name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _header(rows))
        writer.writeheader()
        writer.writerows(rows)
    # A Figure of its own needs no display and leaves pyplot's state alone.
    figure = importlib.import_module("matplotlib.figure").Figure()
    _draw(figure, benchmark, rows)
    figure.savefig(folder / f"{benchmark.file_name}.png")


def _save_html(benchmarks: Sequence[Benchmark], tables: list[list[Row]], folder: Path) -> None:
    parts = ["<!DOCTYPE html>", '<html><head><meta charset="utf-8"></head><body>']
    for benchmark, rows in zip(benchmarks, tables, strict=True):
        name, table = html.escape(benchmark.plot_name), html.escape(_text_table(rows))
        parts.append(f"<h2>{name}</h2>")
        parts.append(f'<img src="{html.escape(benchmark.file_name)}.png" alt="{name}">')
        parts.append(f"<pre>{table}</pre>")
    text = "\n".join([*parts, "</body></html>", ""])
    (folder / "results.html").write_text(text, encoding="utf-8")


def _draw(figure: Any, benchmark: Benchmark, rows: list[Row]) -> None:
    axes = figure.add_subplot()
    x = [row[benchmark.x_names[0]] for row in rows]
    for i, name in enumerate(benchmark.line_names):
        color, style = benchmark.styles[i] if benchmark.styles else (f"C{i % 10}", "-")
        axes.plot(x, [row[name] for row in rows], label=name, color=color, linestyle=style)
        if any(f"{name}-min" in row for row in rows):
            lowest = [row.get(f"{name}-min", row[name]) for row in rows]
            highest = [row.get(f"{name}-max", row[name]) for row in rows]
            axes.fill_between(x, lowest, highest, alpha=0.15, color=color, linewidth=0)
    axes.legend()
    axes.set_title(benchmark.plot_name)
    axes.set_xlabel(benchmark.xlabel or benchmark.x_names[0])
    axes.set_ylabel(benchmark.ylabel)
    axes.set_xscale("log" if benchmark.x_log else "linear")
    axes.set_yscale("log" if benchmark.y_log else "linear")


# Absolute and relative tolerance by dtype: they allow for the last bits that a different order of
# operations changes in a sum of some hundreds of elements. Other floats use their epsilon for both.
TOLERANCES = {
    "bfloat16": (1e-2, 1.6e-2),
    "float16": (1e-3, 2e-3),
    "float32": (1e-5, 1e-5),
    "float64": (1e-10, 1e-10),
    "complex64": (1e-5, 1e-5),
    "complex128": (1e-10, 1e-10),
}
EXACT = (0.0, 0.0)


def assert_close(
    x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = ""
) -> None:
    """Raise `AssertionError` unless |x - y| <= atol + rtol * |y| everywhere; `y` is the reference.

    `x` and `y` are NumPy arrays, torch tensors (also bf16, fp8 and on a GPU), other arrays with
    `__array__`, or scalars; shapes must be equal, except that a scalar is compared with every
    element. Tolerances left out are those of the less precise dtype of the two (`TOLERANCES`);
    integers and booleans must be equal. NaN equals NaN, and infinities equal themselves only.
    Raises `ArgumentTypeError` for values that are not numbers, `ArgumentValueError` for a negative
    tolerance.
    """
    (left, left_type), (right, right_type) = _numbers("x", x), _numbers("y", y)
    default = max(_tolerance(left_type), _tolerance(right_type), key=lambda pair: pair[1])
    absolute = default[0] if atol is None else atol
    relative = default[1] if rtol is None else rtol
    if not (absolute >= 0 and relative >= 0):
        raise ArgumentValueError(f"tolerances are zero or more, not atol={atol}, rtol={rtol}")
    prefix = f"{err_msg}\n" if err_msg else ""
    if left.shape != right.shape and left.ndim > 0 and right.ndim > 0:
        raise AssertionError(f"{prefix}x has shape {left.shape}, y has shape {right.shape}")
    types = left_type if left_type == right_type else f"{left_type} and {right_type}"
    report = _mismatch(left, right, types, absolute, relative)
    if report:
        raise AssertionError(prefix + report)


def _numbers(argument: str, value: Any) -> tuple[Array, str]:
    """Return `value` on the host as (u)int64, float64 or complex128, and its own dtype's name."""
    host = value
    if hasattr(value, "detach"):  # torch
        host = value.detach().cpu()
    elif hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):  # CuPy
        host = value.get()
    try:
        array = np.asarray(host)
    except TypeError:
        # NumPy has no such dtype (torch's bf16 and fp8); float32 holds all their values.
        if not hasattr(host, "float"):
            raise
        array = np.asarray(host.float())
    own = str(getattr(value, "dtype", array.dtype.name)).removeprefix("torch.")
    name = own if _is_number(own) else array.dtype.name
    if not _is_number(name):
        raise ArgumentTypeError(
            f"assert_close compares numbers, and {argument} is a {type(value).__name__} "
            f"of dtype {array.dtype}"
        )
    return array.astype(_wide(name), copy=False), name


_INTEGER = re.compile(r"bool|u?int\d+")
_FLOAT = re.compile(r"bfloat16|float\d+(_\w+)?|longdouble")
_COMPLEX = re.compile(r"complex\d+")


def _is_number(dtype: str) -> bool:
    return any(pattern.fullmatch(dtype) for pattern in (_INTEGER, _FLOAT, _COMPLEX))


def _wide(dtype: str) -> type[np.generic]:
    if _INTEGER.fullmatch(dtype):
        return np.uint64 if dtype == "uint64" else np.int64
    return np.complex128 if _COMPLEX.fullmatch(dtype) else np.float64


def _tolerance(dtype: str) -> tuple[float, float]:
    if _INTEGER.fullmatch(dtype):
        return EXACT
    narrow = getattr(ml_dtypes, dtype, None)
    if narrow is None or dtype in TOLERANCES:
        return TOLERANCES.get(dtype, TOLERANCES["float64"])
    epsilon = float(np.spacing(np.ones((), narrow)))
    return epsilon, epsilon


def _mismatch(x: Array, y: Array, types: str, atol: float, rtol: float) -> str:
    """Return a report of the elements that differ by more than the tolerances, or ""."""
    x, y = np.broadcast_arrays(x, y)
    if {x.dtype.kind, y.dtype.kind} == {"i", "u"}:  # a comparison would round both to float64
        x, y = x.astype(object), y.astype(object)
    unequal = np.flatnonzero((x != y) & ~((x != x) & (y != y)))
    a, b = x.ravel()[unequal], y.ravel()[unequal]
    if x.dtype.kind in "iu":  # Python's integers: differences cannot wrap
        a, b = a.astype(object), b.astype(object)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
        near = (apart <= atol + rtol * np.abs(b)).astype(bool)
        size = apart.astype(np.float64)
    # An infinite y makes the tolerance infinite, but only equal infinities are close.
    far = ~(near & np.isfinite(size))
    if not far.any():
        return ""
    count = int(far.sum())
    worst = int(np.argmax(np.where(far, size, -1)))
    index = [int(i) for i in np.unravel_index(unequal[worst], x.shape)]
    where = f"worst at {index}" if index else "worst"
    return (
        f"{count} of {x.size} elements ({count / x.size:.3g} of all) are further apart than "
        f"atol={atol:g}, rtol={rtol:g} allow\n"
        f"  shape {x.shape}, dtype {types}\n"
        f"  {where}: x = {_value(a[worst])}, y = {_value(b[worst])}, "
        f"difference {_value(apart[worst])}"
    )


def _value(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"
