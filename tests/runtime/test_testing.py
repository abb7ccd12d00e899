"""Timing, benchmarks and comparison, with a clock and a terminal that the tests control."""

from __future__ import annotations

import csv
import math
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile import testing
from tile.backends.nvptx.backend import NvptxBackend
from tile.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from tile.runtime.autotuning.do_bench import measure
from tile.testing import Benchmark, assert_close, do_bench, perf_report


class FakeTimer:
    """Every call takes the next of `times`, the last for ever; times come out at `elapsed` only."""

    def __init__(self, *times):
        self.times = list(times)
        self.pending = []
        self.running = False

    def start(self):
        assert not self.running
        self.running = True

    def stop(self):
        assert self.running
        self.running = False
        self.pending.append(self.times.pop(0) if len(self.times) > 1 else self.times[0])

    def elapsed(self):
        done, self.pending = self.pending, []
        return done


# --- do_bench ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("warmup", "rep", "calls"), [(25, 100, 126), (0, 10, 16), (3, 50, 56)])
def test_calls_fill_the_asked_times(warmup, rep, calls):
    count = 0

    def fn():
        nonlocal count
        count += 1

    times = do_bench(fn, warmup, rep, return_mode="all", timer=FakeTimer(1.0))
    # One call to compile, five to estimate (part of the warmup), the rest of the warmup, the timed.
    assert count == calls
    assert len(times) == rep


def test_the_first_call_is_not_counted():
    assert do_bench(lambda: None, timer=FakeTimer(1e6, 2.0), return_mode="max") == 2.0


def test_slow_functions_run_twice_only():
    times = do_bench(lambda: None, timer=FakeTimer(900.0, 500.0, 1.0), return_mode="all")
    assert times == [500.0]


def test_no_time_at_all_is_one_timed_run():
    assert do_bench(lambda: None, 0, 0, timer=FakeTimer(9.0, 4.0), return_mode="all") == [4.0]


@pytest.mark.parametrize(
    ("mode", "expected"), [("min", 1.0), ("max", 4.0), ("mean", 2.5), ("median", 2.5)]
)
def test_return_modes(mode, expected):
    timer = FakeTimer(*[1.0] * 6, 1.0, 2.0, 3.0, 4.0)
    got = do_bench(lambda: None, 2, 4, return_mode=mode, timer=timer)
    assert got == expected
    assert isinstance(got, float)


def test_quantiles_are_a_list_and_a_single_one_a_float():
    def bench(quantiles):
        timer = FakeTimer(*[1.0] * 6, 1.0, 2.0, 3.0, 5.0)
        return do_bench(lambda: None, 2, 4, quantiles=quantiles, timer=timer)

    assert bench([0.5, 0.0, 1.0]) == [2.5, 1.0, 5.0]
    assert bench([0.5]) == 2.5


def test_gradients_are_dropped_before_every_call():
    class Tensor:
        grad = None

    tensor = Tensor()

    def fn():
        assert tensor.grad is None
        tensor.grad = 1

    do_bench(fn, 1, 2, grad_to_none=[tensor])


def test_the_host_clock_measures_milliseconds():
    def busy():
        total = 0
        for i in range(20_000):
            total += i
        return total

    assert 0.05 < do_bench(busy, 2, 5, return_mode="median") < 50


def test_before_and_after_are_outside_the_time():
    events = []

    class Recorder(FakeTimer):
        def start(self):
            events.append("start")
            super().start()

        def stop(self):
            super().stop()
            events.append("stop")

    measure(
        lambda: events.append("fn"),
        warmup=0,
        rep=0,
        before=lambda: events.append("before"),
        after=lambda: events.append("after"),
        timer=Recorder(1.0),
    )
    assert events == ["before", "start", "fn", "stop", "after"] * 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"fn": 3},
        {"return_mode": "average"},
        {"warmup": -1},
        {"rep": math.nan},
        {"quantiles": [0.5, 1.5]},
        {"quantiles": []},
    ],
)
def test_bad_requests_to_do_bench_are_refused(arguments):
    with pytest.raises(ArgumentError):
        do_bench(**{"fn": lambda: None, **arguments})


# --- perf_report ---------------------------------------------------------------------------------


def benchmark(**changes):
    fields = {
        "x_names": ["n"],
        "x_vals": [1, 2, 4],
        "line_arg": "provider",
        "line_vals": ["a", "b"],
        "line_names": ["Alpha", "Beta"],
        "plot_name": "speed <of> a/b",
        "args": {"scale": 10},
    }
    return Benchmark(**{**fields, **changes})


def measured(n, provider, scale, offset=0):
    value = n * scale + offset + (0.5 if provider == "b" else 0)
    return value if provider == "a" else (value, value - 1, value + 1)


def test_rows_hold_points_values_and_bounds():
    rows = perf_report(benchmark())(measured).run(offset=100)
    assert rows[0] == {"n": 1, "Alpha": 110, "Beta": 110.5, "Beta-min": 109.5, "Beta-max": 111.5}
    assert [row["n"] for row in rows] == [1, 2, 4]


def test_points_of_several_parameters():
    seen = []

    def fn(m, n, k, provider):
        seen.append((m, n, k))
        return 1

    points = benchmark(x_names=["m", "n", "k"], x_vals=[8, (1, 2, 3), [4, 5, 6]], args={})
    rows = perf_report(points)(fn).run()
    assert seen[::2] == [(8, 8, 8), (1, 2, 3), (4, 5, 6)]
    assert rows[1] == {"m": 1, "n": 2, "k": 3, "Alpha": 1, "Beta": 1}


def test_many_benchmarks_give_many_tables():
    mark = perf_report([benchmark(plot_name="one"), benchmark(plot_name="two", x_vals=[9])])
    assert [[row["n"] for row in rows] for rows in mark(measured).run()] == [[1, 2, 4], [9]]


def test_the_table_is_aligned(capsys):
    perf_report(benchmark(x_vals=[1, 1000]))(measured).run(print_data=True)
    title, header, *lines = capsys.readouterr().out.splitlines()
    assert title == "speed <of> a/b:"
    assert header.split() == ["n", "Alpha", "Beta", "Beta-min", "Beta-max"]
    assert [line.split() for line in lines] == [
        ["1", "10", "10.5", "9.5", "11.5"],
        ["1000", "10000", "10000.5", "9999.5", "10001.5"],
    ]
    assert {len(line) for line in lines} == {len(header)}


def test_nothing_is_printed_unasked(capsys):
    perf_report(benchmark())(measured).run()
    assert capsys.readouterr() == ("", "")


def test_saved_files(tmp_path):
    folder = tmp_path / "new" / "folder"
    marks = [
        benchmark(x_log=True, y_log=True, styles=[("blue", "-"), ("green", "--")], ylabel="GB/s"),
        benchmark(plot_name="other"),
    ]
    rows, _ = perf_report(marks)(measured).run(save_path=folder)
    names = {"speed -of- a-b.csv", "speed -of- a-b.png", "other.csv", "other.png", "results.html"}
    assert {file.name for file in folder.iterdir()} == names
    with (folder / "speed -of- a-b.csv").open(newline="") as file:
        read = [{key: float(v) for key, v in row.items()} for row in csv.DictReader(file)]
    assert read == rows
    assert (folder / "other.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "results.html").read_text()
    assert "speed &lt;of&gt; a/b" in page
    assert 'src="speed -of- a-b.png"' in page
    assert "<of>" not in page


def test_the_plot_shows_what_was_measured():
    from matplotlib.figure import Figure

    figure = Figure()
    plotted = benchmark(x_log=True, ylabel="GB/s")
    testing._draw(figure, plotted, perf_report(plotted)(measured).run())
    [axes] = figure.axes
    assert [line.get_label() for line in axes.lines] == ["Alpha", "Beta"]
    assert axes.lines[1].get_ydata().tolist() == [10.5, 20.5, 40.5]
    assert len(axes.collections) == 1  # the band of the one line that has bounds
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("n", "GB/s", "log")


@pytest.mark.parametrize(
    ("package", "option", "hint"),
    [
        ("matplotlib.pyplot", {"show_plots": True}, r"pip install tile-compiler\[plot\]"),
        ("matplotlib.figure", {"save_path": "plots"}, r"pip install tile-compiler\[plot\]"),
        ("pandas", {"return_df": True}, "pip install pandas"),
    ],
)
def test_a_missing_package_is_named_before_anything_is_measured(monkeypatch, package, option, hint):
    monkeypatch.setitem(sys.modules, package, None)
    calls = []
    mark = perf_report(benchmark())(lambda **_: calls.append(1) or 1.0)
    with pytest.raises(ArgumentError, match=hint):
        mark.run(**option)
    assert not calls
    assert len(mark.run()) == 3


@pytest.mark.parametrize("result", [None, "fast", (1, 2), (1, 2, 3, 4), [1, None, 2]])
def test_a_result_that_is_no_measurement_is_refused(result):
    with pytest.raises(ArgumentTypeError, match=r"returned .* for n=1, provider='a', scale=10"):
        perf_report(benchmark())(lambda **_: result).run()


@pytest.mark.parametrize(
    "changes",
    [
        {"x_names": "n"},
        {"line_names": "ab"},
        {"x_vals": []},
        {"line_vals": ["a"]},
        {"styles": [("red", "-")]},
        {"args": {"n": 3}},
        {"args": {"provider": 3}},
        {"line_arg": "n"},
        {"line_names": ["Alpha", "n"]},
        {"line_names": ["Alpha", "Alpha"]},
        {"x_names": ["m", "n"], "x_vals": [(1, 2, 3)]},
    ],
)
def test_benchmarks_that_do_not_fit_together_are_refused(changes):
    with pytest.raises(ArgumentError):
        benchmark(**changes)


def test_two_plots_of_one_file_are_refused():
    with pytest.raises(ArgumentValueError, match="plot_name of its own"):
        perf_report([benchmark(plot_name="a/b"), benchmark(plot_name="a:b")])(measured)


# --- assert_close --------------------------------------------------------------------------------


class FakeTensor:
    """A torch tensor of a dtype that NumPy lacks, on a device, with a gradient."""

    def __init__(self, values, dtype="torch.bfloat16", steps=("detach", "cpu")):
        self.values = np.asarray(values, np.float32)
        self.dtype = dtype
        self.steps = steps

    def _after(self, step):
        assert self.steps[:1] == (step,)
        return FakeTensor(self.values, self.dtype, self.steps[1:])

    def detach(self):
        return self._after("detach")

    def cpu(self):
        return self._after("cpu")

    def float(self):
        assert not self.steps
        return self.values

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")


@pytest.mark.parametrize(
    ("dtype", "near", "far"),
    [
        (np.float64, 1e-11, 1e-8),
        (np.float32, 1e-6, 1e-4),
        (np.float16, 1e-3, 1e-2),
        (ml_dtypes.bfloat16, 1e-2, 1e-1),
        (ml_dtypes.float8_e4m3fn, 0.125, 0.5),
        (ml_dtypes.float8_e5m2, 0.25, 1.0),
        (np.complex64, 1e-6, 1e-4),
    ],
)
def test_tolerance_follows_the_less_precise_type(dtype, near, far):
    reference = np.ones((2, 3))
    assert_close((reference + near).astype(dtype), reference)
    assert_close(reference, (reference + near).astype(dtype))
    with pytest.raises(AssertionError):
        assert_close((reference + far).astype(dtype), reference)


def test_tensors_without_a_numpy_type():
    assert_close(FakeTensor([1.0, 2.0]), np.array([1.01, 2.01]))
    with pytest.raises(AssertionError, match="bfloat16 and float64"):
        assert_close(FakeTensor([1.0, 2.0]), np.array([1.1, 2.0]))
    with pytest.raises(AssertionError):
        assert_close(FakeTensor([1.01], dtype="torch.float16"), FakeTensor([1.0], "torch.float32"))


def test_the_message_says_how_many_and_where():
    x = np.zeros((4, 8), np.float32)
    x[1, 2], x[3, 7] = 0.5, -2
    with pytest.raises(AssertionError) as caught:
        assert_close(x, np.zeros((4, 8)), err_msg="after softmax")
    text = str(caught.value)
    assert text.startswith("after softmax\n2 of 32 elements (0.0625 of all)")
    assert "atol=1e-05, rtol=1e-05" in text
    assert "shape (4, 8), dtype float32 and float64" in text
    assert "worst at [3, 7]: x = -2, y = 0, difference 2" in text


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.int64(2**60), np.int64(2**60 + 1)),
        (np.array([2**64 - 1], np.uint64), np.array([-1])),
        (np.array([2**63 - 1]), np.array([2**63], np.uint64)),
        (np.array([-(2**63)]), np.array([2**63 - 1])),
        (np.array([True]), np.array([False])),
        (np.array([1], ml_dtypes.int4), np.array([2], ml_dtypes.int4)),
        (3, 4),
    ],
)
def test_integers_are_exact(x, y):
    with pytest.raises(AssertionError, match="1 of 1"):
        assert_close(x, y)
    assert_close(x, x)
    assert_close(y, y)
    assert_close(x, y, atol=2.0**65)


@pytest.mark.parametrize(
    ("x", "y", "same"),
    [
        (math.nan, math.nan, True),
        (math.nan, 0.0, False),
        (0.0, math.nan, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (1e300, math.inf, False),
        (math.inf, 1e300, False),
        (0.0, -0.0, True),
    ],
)
def test_special_values(x, y, same):
    for tolerance in (None, 0.5):
        if same:
            assert_close(np.array([x]), np.array([y]), atol=tolerance, rtol=tolerance)
        else:
            with pytest.raises(AssertionError, match="1 of 1"):
                assert_close(np.array([x]), np.array([y]), atol=tolerance, rtol=tolerance)


def test_a_nan_is_worse_than_any_difference():
    with pytest.raises(AssertionError, match=r"worst at \[2\]: x = nan, y = 1, difference nan"):
        assert_close(np.array([9.0, 1.0, math.nan]), np.ones(3))


def test_shapes():
    with pytest.raises(AssertionError, match=r"x has shape \(2, 3\), y has shape \(3, 2\)"):
        assert_close(np.zeros((2, 3)), np.zeros((3, 2)))
    with pytest.raises(AssertionError, match="shape"):
        assert_close(np.zeros((2, 3)), np.zeros((1, 3)))
    assert_close(np.zeros((2, 3)), 0)
    assert_close(1.0, np.ones(4, np.float16))
    assert_close(np.zeros((0, 3)), np.zeros((0, 3)))
    with pytest.raises(AssertionError, match=r"worst at \[1\]: x = 0, y = 1"):
        assert_close(0.0, np.array([0.0, 1.0]))
    with pytest.raises(AssertionError, match="worst: x = 1, y = 2"):
        assert_close(1, 2)


@pytest.mark.parametrize("value", ["text", None, np.array([object()]), np.array(["a"])])
def test_what_is_not_numbers_is_refused(value):
    with pytest.raises(ArgumentTypeError, match="numbers"):
        assert_close(value, 1.0)


@pytest.mark.parametrize("tolerance", [{"atol": -1}, {"rtol": math.nan}])
def test_bad_tolerances_are_refused(tolerance):
    with pytest.raises(ArgumentValueError, match="zero or more"):
        assert_close(1.0, 1.0, **tolerance)


numbers = st.one_of(st.floats(width=32), st.floats(-10, 10, width=32))


@given(st.lists(st.tuples(numbers, numbers), max_size=6), st.floats(0, 2), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_it_agrees_with_numpy(pairs, atol, rtol):
    x = np.array([pair[0] for pair in pairs], np.float32)
    y = np.array([pair[1] for pair in pairs], np.float32)
    with np.errstate(all="ignore"):
        close = np.allclose(x.astype(float), y.astype(float), rtol, atol, equal_nan=True)
    if close:
        assert_close(x, y, atol, rtol)
    else:
        with pytest.raises(AssertionError):
            assert_close(x, y, atol, rtol)


def test_the_clock_for_kernels_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that launches none of our kernels is timed by the GPU that PyTorch uses."""
    timer = FakeTimer(3.0)
    monkeypatch.setattr(NvptxBackend, "timer", lambda self: timer)
    cuda = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert do_bench(lambda: None, 0, 0) == 3.0
    cuda.is_initialized = lambda: False
    assert do_bench(lambda: None, 0, 0) != 3.0
