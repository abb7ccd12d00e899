"""Kernels that are tuned in a space: on the interpreter, by executors, from disk, interrupted."""

from __future__ import annotations

import csv
import io
import os
import pickle
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import matmul
from tile.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    AutotunerError,
    BackendError,
    CompilationError,
)
from tile.runtime.autotuning import progress
from tile.runtime.autotuning.progress import PlainProgress, progress_for

MACHINE = "interp:generic"


@tile.jit
def scale(x_ptr, n, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    tl.static_assert(BLOCK * ROWS <= 256, "too large")
    first = tl.program_id(0) * BLOCK * ROWS
    i = first + tl.arange(0, ROWS)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2.0, mask=i < n)


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (tile.cdiv(meta["n"], meta["BLOCK"] * meta["ROWS"]),)


class Clock:
    """A `do_bench` with made-up times: the best block is 64, and two warps are the best."""

    def __init__(self) -> None:
        self.timed: list[tuple[int, int, int]] = []
        self.stop_after = 1 << 30

    def __call__(self, run: Any, quantiles: tuple[float, ...]) -> list[float]:
        if len(self.timed) >= self.stop_after:
            raise KeyboardInterrupt
        run()
        config = run.config
        values = config.kwargs["BLOCK"], config.kwargs["ROWS"], config.num_warps
        self.timed.append(values)
        block, rows, warps = (value.bit_length() for value in values)
        return [1.0 + abs(block - 7) + 0.1 * abs(rows - 2) + 0.3 * abs(warps - 2)] * len(quantiles)


SPACE = {"BLOCK": (8, ..., 256), "ROWS": (1, ..., 8)}


def tuned(**options: Any) -> tuple[Any, Clock]:
    clock = Clock()
    arguments = {"space": SPACE, "key": ["n"], "do_bench": clock, "effort": 30, **options}
    return tile.autotune(**arguments)(tile.jit(scale.fn)), clock


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", MACHINE)


def run(kernel: Any, n: int = 512) -> Any:
    x = np.arange(n, dtype=np.float32)
    compiled = kernel[grid](x, n)
    np.testing.assert_array_equal(x, 2 * np.arange(n, dtype=np.float32))
    return compiled


def test_a_search_measures_few_and_has_the_effect_of_one_launch() -> None:
    kernel, clock = tuned()
    compiled = run(kernel)
    assert compiled.constants["BLOCK"] == 64 and compiled.options.num_warps == 2
    space = kernel.search_space(np.zeros(512, np.float32), 512, grid=grid)
    assert len(space) == 6 * 4 * 4 and len({*clock.timed}) <= 30
    reasons = {
        config.kwargs["BLOCK"] * config.kwargs["ROWS"]: r for config, r in kernel.skipped.items()
    }
    assert "too large" in reasons[512]
    assert "threads for tiles of at most 64 elements" in reasons[64]
    clock.timed.clear()
    run(kernel)
    assert clock.timed == []


@pytest.mark.parametrize("search", ["auto", "exhaustive"])
def test_the_choice_is_that_of_the_finalists(search: str, tmp_path: Path) -> None:
    """The first measurement of one configuration is too short, by chance."""
    runs: dict[int, int] = {}

    def bench(run: Any, quantiles: tuple[float, ...]) -> list[float]:
        run()
        block = run.config.kwargs["BLOCK"]
        runs[block] = runs.get(block, 0) + 1
        time = {64: 1.0, 128: 0.98 if runs[block] == 1 else 1.04}.get(block, 2.0)
        return [time, 0.99 * time, 1.01 * time]

    space = {"BLOCK": (8, ..., 256), "ROWS": (1,), "num_warps": (1,)}
    kernel, _ = tuned(space=space, do_bench=bench, search=search, cache_results=tmp_path)
    assert run(kernel).constants["BLOCK"] == 64 and kernel.results.best == kernel.best_config
    again, _ = tuned(space=space, search=search, cache_results=tmp_path)
    assert run(again).constants["BLOCK"] == 64
    assert all(len(times) == 3 for times in kernel.configs_timings.values())


def test_sizes_of_each_tile_are_searched() -> None:
    def bench(run: Any, quantiles: tuple[float, ...]) -> list[float]:
        """Take the more time the further a thread's part is from 1 x 4."""
        run()
        rows, columns = (int(n) for n in run.config.kwargs["tile_sizes"][5:8].split("x"))
        return [1.0 + rows.bit_length() + abs(columns - 4)] * len(quantiles)

    space = tile.Space(BM=(16, 32), BN=(16,), BK=(16,), num_warps=(2,), per_tile=True)
    kernel = tile.autotune(space=space, key=["M"], do_bench=bench, effort=20)(matmul)
    a, c = np.ones((32, 32), np.float16), np.zeros((32, 32), np.float32)
    compiled = kernel[lambda meta: (32 // meta["BM"], 32 // meta["BN"])](a, a, c, 32, 32, 32)
    np.testing.assert_array_equal(c, 32)
    assert compiled.options.tile_sizes.startswith("dot0:1x4@")


def test_an_exhaustive_search_measures_all_that_run() -> None:
    kernel, clock = tuned(space={**SPACE, "num_warps": (1, 2)}, search="exhaustive")
    run(kernel)
    count = 2 * sum(b * r <= 256 for b in (8, 16, 32, 64, 128, 256) for r in (1, 2, 4, 8))
    assert len({*clock.timed}) == len({*clock.timed[:count]}) == count
    assert {*clock.timed[count:]} == {(64, rows, 2) for rows in (1, 2, 4)}  # run off


def test_options_mean_nothing_on_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", "interp")
    kernel, clock = tuned(space={**SPACE, "num_warps": (1, 2, 4, 8)}, effort=1.0)
    run(kernel)
    assert len({(block, rows) for block, rows, _ in clock.timed}) == len({*clock.timed}) <= 18


def test_the_best_of_another_key_comes_first() -> None:
    kernel, clock = tuned()
    run(kernel, 512)
    clock.timed.clear()
    run(kernel, 1024)
    assert clock.timed[0] == (64, 2, 2)


def test_nothing_runs() -> None:
    kernel, _ = tuned(space={"BLOCK": (256,), "ROWS": (2, 4)})
    with pytest.raises(CompilationError, match="too large"):
        run(kernel)
    kernel, _ = tuned(space={"BLOCK": (64, 128), "ROWS": (1,), "num_warps": (16,)})
    with pytest.raises(AutotunerError, match="none of the 2 configurations of scale can run") as e:
        run(kernel)
    assert "not compiled: 512 threads for tiles of at most 64 elements" in str(e.value)
    with pytest.raises(ArgumentValueError, match="num_warps must be a power of two"):
        tuned(space={"BLOCK": (64,), "ROWS": (1,), "num_warps": (3,)})


def test_results_on_disk_serve_the_next_process(tmp_path: Path, capsys, monkeypatch) -> None:
    first, clock = tuned(cache_results=tmp_path)
    run(first)
    count = len({*clock.timed})
    assert len(list(tmp_path.rglob("*.json"))) == count
    monkeypatch.setenv("TILE_PRINT_AUTOTUNING", "1")
    second, other = tuned(cache_results=tmp_path)
    run(second)
    assert other.timed == [] and second.best_config == first.best_config
    assert f"{count} of them from disk" in capsys.readouterr().err


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    kernel, clock = tuned(cache_results=tmp_path)
    clock.stop_after = 5
    x = np.arange(512, dtype=np.float32)
    with pytest.raises(KeyboardInterrupt):
        kernel[grid](x, 512)
    np.testing.assert_array_equal(x, np.arange(512))
    assert len(kernel.configs_timings) == len(list(tmp_path.rglob("*.json"))) == 5
    assert kernel.results.best is not None
    again, later = tuned(cache_results=tmp_path)
    run(again)
    assert not {*later.timed} & {*clock.timed}


# -- executors


def test_threads_compile_ahead() -> None:
    with ThreadPoolExecutor(2) as executor:
        kernel, _ = tuned(executor=executor)
        assert run(kernel).constants["BLOCK"] == 64


def test_processes_compile_ahead() -> None:
    with ProcessPoolExecutor(2) as executor:
        assert len(matmul_by(executor).configs_timings) == 8


SMALL = {"BM": (16, 32), "BN": (16,), "BK": (16,), "num_warps": (1, 2), "warp_rows": (0,)}


def matmul_by(executor: Executor, **options: Any) -> Any:
    """Tune a matmul by an executor, and check the result."""
    kernel = tile.autotune(
        space={**SMALL, "thread_tile": (1, 2), "num_stages": (1,)},
        key=["M"],
        executor=executor,
        **{"warmup": 0, "rep": 1, "effort": 1.0, "search": "auto", **options},
    )(matmul)
    a, c = np.ones((32, 32), np.float16), np.zeros((32, 32), np.float32)
    kernel[lambda meta: (32 // meta["BM"], 32 // meta["BN"])](a, a, c, 32, 32, 32)
    np.testing.assert_array_equal(c, 32)
    return kernel


@pytest.mark.parametrize("make", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_measure(make: Callable[[int], Executor], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tile.Autotuner, "timed", None)  # what would measure here
    with make(2) as executor:
        kernel = matmul_by(executor, measure="executor", cache_results=tmp_path)
    assert len(kernel.configs_timings) == 8 and not kernel.skipped
    assert 1 <= len(list(tmp_path.rglob("*.json"))) <= 8


def test_workers_do_not_change_the_caller_s_arrays() -> None:
    with ThreadPoolExecutor(2) as executor:
        arguments = {"executor": executor, "measure": "executor", "do_bench": None}
        kernel, _ = tuned(**arguments, warmup=0, rep=1, effort=8)
        run(kernel)


def test_what_workers_cannot_call_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="takes an executor and search='auto'"):
        tile.autotune(space=SPACE, measure="executor")
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(ArgumentTypeError, match="cannot call pre_hook in its workers"):
            tile.autotune(space=SPACE, measure="executor", executor=executor, pre_hook=print)
        with pytest.raises(ArgumentValueError, match="measure is 'there' in autotune"):
            tile.autotune(space=SPACE, measure="there", executor=executor)


class Dying(Executor):
    """Sends a job that kills its worker in place of the third compilation."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool
        self.jobs = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.jobs += 1
        if self.jobs == 3:
            return self.pool.submit(os._exit, 1)
        return self.pool.submit(int)


def test_a_worker_that_dies_costs_its_configurations_only() -> None:
    with ProcessPoolExecutor(1) as pool:
        kernel, clock = tuned(executor=Dying(pool))
        run(kernel)
    died = [text for text in kernel.skipped.values() if "a worker of the executor died" in text]
    assert 1 <= len(died) <= 10 and clock.timed


def test_a_kernel_that_processes_cannot_find_is_said() -> None:
    """In place of compiling everything in this process."""
    with ProcessPoolExecutor(1) as pool:
        kernel, _ = tuned(executor=pool)
        with pytest.raises(
            pickle.PicklingError, match="other processes find it by module and name"
        ):
            run(kernel)


def test_an_executor_that_was_shut_down() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    kernel, _ = tuned(executor=executor)
    assert run(kernel).constants["BLOCK"] == 64


# -- what people see


def test_progress_has_a_line_for_each_better_configuration(capsys, monkeypatch) -> None:
    monkeypatch.setenv("TILE_PRINT_AUTOTUNING", "1")
    kernel, _ = tuned()
    run(kernel)
    lines = capsys.readouterr().err.splitlines()
    shown = [line for line in lines if line.startswith("autotune scale: ")]
    assert shown and " of 30, " in shown[0] and "BLOCK: 64" in shown[-1]
    table = lines[len(shown) :]
    assert table[0].startswith("autotune scale(n=512): ") and "skipped" in table[-1]


def test_progress_is_rich_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    made: list[Any] = []
    monkeypatch.setattr(progress, "RichProgress", lambda *given: made.append(given))
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: name == "rich")
    progress_for("t", shown=True, stream=Terminal())
    assert len(made) == 1
    assert isinstance(progress_for("t", shown=True, stream=io.StringIO()), PlainProgress)
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    assert isinstance(progress_for("t", shown=True, stream=Terminal()), PlainProgress)
    assert type(progress_for("t", shown=False)) is progress.Progress


def test_rich_draws_a_bar() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    bar = progress.RichProgress("autotune scale", stream)
    bar.measured(3, 30, ("BLOCK: 64", 1.5))
    bar.close()
    assert "autotune scale" in stream.getvalue()


def test_results_are_a_table(tmp_path: Path) -> None:
    kernel, _ = tuned()
    run(kernel)
    results = kernel.results
    assert results.best == kernel.best_config
    assert results.best.source.startswith("tile.Config({'BLOCK': 64, 'ROWS': 2}")
    text = str(results).splitlines()
    assert "BLOCK: 64" in text[1] and "skipped" in text[-1] and "too large" in text[-1]
    results.csv(tmp_path / "results.csv")
    with open(tmp_path / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results) and rows[0]["BLOCK"] == "64"
    assert float(rows[0]["median ms"]) == 1.0 and "too large" in rows[-1]["skipped"]


def test_results_are_plotted(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    kernel, _ = tuned()
    run(kernel)
    kernel.results.plot(tmp_path / "results.svg")
    assert "<svg" in (tmp_path / "results.svg").read_text()


def test_errors_of_runs_are_raised() -> None:
    def fails(run: Any, quantiles: Any) -> list[float]:
        raise BackendError("no room")

    kernel, _ = tuned(do_bench=fails)
    with pytest.raises((AutotunerError, BackendError, tile.errors.HookError), match="no room"):
        run(kernel)
