"""Tuning of a fake kernel, plain Python on NumPy arrays, which counts the tuner's calls."""

from __future__ import annotations

import inspect
import math
import pickle
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tile.config import config
from tile.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArgumentValueError,
    BackendError,
    CompilationError,
    HookError,
    IRError,
    OutOfBoundsError,
    OutOfResourcesError,
    UnsupportedError,
)
from tile.location import Loc
from tile.runtime.arguments.device_arrays import pointer_array
from tile.runtime.arguments.snapshot import Snapshot, fill_zero
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.autotuning.configs import Config
from tile.runtime.autotuning.decorator import autotune
from tile.runtime.autotuning.heuristics import heuristics

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class FakeKernel:
    """Runs `fn` on its arguments; `writes` are the arguments that its IR would say it writes."""

    def __init__(self, fn, writes=()):
        self.fn = fn
        self.arg_names = list(inspect.signature(fn).parameters)
        self.writes = frozenset(writes)
        self.launched = []
        self.compiled = []
        self.refuses = {}
        self.threads = set()
        self.backends = []

    def _compile(self, kwargs):
        self.compiled.append(dict(kwargs))
        self.threads.add(threading.current_thread().name)
        self.backends.append(config.backend)
        error = self.refuses.get(kwargs.get("BLOCK"))
        if error is not None:
            raise error

    def run(self, *args, grid, warmup=False, **kwargs):
        self._compile(kwargs)
        if warmup:
            return f"compiled {kwargs.get('BLOCK')}"
        self.launched.append({**kwargs, "grid": grid})
        options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
        self.fn(*args, **kwargs)
        return options

    def written_arguments(self, *args, **kwargs):
        self._compile(kwargs)
        return self.writes

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, **kwargs)


def scale(x, n, BLOCK, EVEN=False):
    """Double `x` in place."""
    x[:n] *= 2


BLOCKS = [Config({"BLOCK": block}) for block in (16, 32, 64)]


def costs(kernel, **by_block):
    """A benchmark that runs once and takes the time from a table, by block."""

    def bench(run, quantiles):
        run()
        return [by_block[f"b{kernel.launched[-1]['BLOCK']}"]] * len(quantiles)

    return bench


def tuned(kernel, configs=BLOCKS, key=("n",), **options):
    options.setdefault("do_bench", costs(kernel, b16=3.0, b32=1.0, b64=2.0))
    return autotune(configs, key, **options)(kernel)


@pytest.fixture
def kernel():
    return FakeKernel(scale, writes=["x"])


# --- choosing ------------------------------------------------------------------------------------


def test_the_fastest_runs_last_and_once_on_pristine_data(kernel):
    tuner = tuned(kernel)
    x = np.arange(8.0)
    options = tuner[(4,)](x, 8)
    np.testing.assert_array_equal(x, 2 * np.arange(8.0))
    assert [run["BLOCK"] for run in kernel.launched] == [16, 32, 64, 32]
    assert options == {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
    assert tuner.best_config == BLOCKS[1]
    assert tuner.configs_timings == {
        c: [t] * 3 for c, t in zip(BLOCKS, (3.0, 1.0, 2.0), strict=True)
    }
    assert tuner.bench_time > 0
    assert kernel.launched[-1]["grid"] == (4,)


def test_real_timing_finds_the_faster_config_and_leaves_one_effect():
    def slow(x, n, BLOCK):
        for _ in range(BLOCK):
            np.sort(np.arange(20_000)[::-1])
        x += 1

    kernel = FakeKernel(slow, writes=["x"])
    tuner = autotune([Config({"BLOCK": 40}), Config({"BLOCK": 1})], ["n"], warmup=2, rep=5)(kernel)
    x = np.zeros(4, np.int32)
    tuner[(1,)](x, 4)
    assert tuner.best_config == Config({"BLOCK": 1})
    assert x.tolist() == [1, 1, 1, 1]
    for median, low, high in tuner.configs_timings.values():
        assert 0 < low <= median <= high < math.inf


@pytest.mark.parametrize("grid", [0, (4, 0), lambda meta: (meta["n"] * meta["BLOCK"],)])
def test_a_grid_without_programs_chooses_nothing(kernel, grid):
    tuner = tuned(kernel)
    tuner[grid](np.ones(4), 0)
    assert len(kernel.launched) == 1
    assert not tuner.cache
    tuner[lambda meta: (1,)](np.ones(4), 0)
    assert len(kernel.launched) > len(BLOCKS) and len(tuner.cache) == 1


def test_a_callable_grid_reaches_the_kernel_as_it_is(kernel):
    tuner = tuned(kernel)
    grid = lambda meta: (meta["BLOCK"],)  # noqa: E731
    tuner[grid](np.ones(4), 4)
    assert all(run["grid"] is grid for run in kernel.launched)


@pytest.mark.parametrize(
    ("change", "tunes_again"),
    [
        (lambda x, n: (x, n), False),
        (lambda x, n: (x + 1, n), False),
        (lambda x, n: (x, n - 1), True),
        (lambda x, n: (x.astype(np.float32), n), True),
    ],
)
def test_what_is_a_new_key(kernel, change, tunes_again):
    tuner = tuned(kernel)
    x = np.ones(8)
    tuner[(1,)](x, 8)
    before = len(kernel.launched)
    other, n = change(x, 8)
    tuner[(1,)](other, n=n)
    assert len(kernel.launched) - before == (4 if tunes_again else 1)
    assert len(tuner.cache) == (2 if tunes_again else 1)


def test_each_backend_has_its_own_choice(kernel):
    tuner = tuned(kernel)
    tuner[(1,)](np.ones(4), 4)
    with config.scope(backend="interp"):
        tuner[(1,)](np.ones(4), 4)
    assert len(tuner.cache) == 2


def test_which_of_two_optional_arrays_is_passed_matters():
    def fn(x, y, BLOCK):
        return None

    kernel = FakeKernel(fn)
    tuner = tuned(kernel, key=())
    tuner[(1,)](np.ones(4), None)
    tuner[(1,)](None, np.ones(4))
    assert len(tuner.cache) == 2


class Placed:
    """An array on some device."""

    def __init__(self, device, dtype="float32"):
        self.device = device
        self.dtype = dtype


def test_types_in_tuples_and_devices_matter():
    def fn(x, BLOCK):
        return None

    tuner = tuned(FakeKernel(fn), key=())
    on_first, on_second, half = Placed("cuda:0"), Placed("cuda:1"), Placed("cuda:0", "float16")
    values = [on_first, on_second, half, (on_first, 1), (on_second, 1), (half, 1), (on_first, half)]
    for value in values * 2:
        tuner[(1,)](value)
    assert len(tuner.cache) == len(values)


def test_a_default_is_the_value_of_a_key_that_is_not_passed(kernel):
    tuner = tuned(kernel, key=["n", "EVEN"])
    tuner[(1,)](np.ones(4), 4)
    tuner[(1,)](np.ones(4), 4, EVEN=False)
    assert len(tuner.cache) == 1
    tuner[(1,)](np.ones(4), 4, EVEN=True)
    assert len(tuner.cache) == 2


def test_one_config_is_neither_tried_nor_copied(kernel):
    tuner = tuned(kernel, configs=BLOCKS[:1])
    kernel.written_arguments = None  # calling it would be an error
    tuner[(1,)](np.ones(4), 4)
    assert len(kernel.launched) == 1
    assert tuner.best_config == BLOCKS[0]


def test_no_configs_are_the_default_config():
    kernel = FakeKernel(lambda x: None)
    tuner = autotune([], [])(kernel)
    assert tuner[(1,)](1) == {"num_warps": 4, "num_stages": 3, "num_ctas": 1}


def test_a_nan_time_never_wins(kernel):
    tuner = tuned(kernel, do_bench=costs(kernel, b16=math.nan, b32=2.0, b64=math.nan))
    tuner[(1,)](np.ones(4), 4)
    assert tuner.best_config == BLOCKS[1]


def test_a_benchmark_may_return_one_number(kernel):
    tuner = tuned(kernel, do_bench=lambda run, quantiles: 5)
    tuner[(1,)](np.ones(4), 4)
    assert set(map(tuple, tuner.configs_timings.values())) == {(5.0, 5.0, 5.0)}


def test_threads_that_come_together_tune_once():
    def fn(x, n, BLOCK):
        time.sleep(0.002)  # the others arrive while the first one tunes

    kernel = FakeKernel(fn)
    tuner = tuned(kernel)
    together = threading.Barrier(4)

    def call(_):
        together.wait()
        tuner[(1,)](np.ones(4), 4)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(4)))
    assert len(kernel.launched) == len(BLOCKS) + 4


# --- data ----------------------------------------------------------------------------------------


def test_a_config_that_spoils_its_output_harms_neither_the_others_nor_the_result():
    seen = []

    def fn(x, n, BLOCK):
        seen.append(x.copy())
        x[:] = np.nan if BLOCK == 16 else x * 2

    kernel = FakeKernel(fn, writes=["x"])
    once = costs(kernel, b16=3.0, b32=1.0, b64=2.0)
    x = np.arange(4.0)
    tuned(kernel, do_bench=lambda run, quantiles: once(run, quantiles) and once(run, quantiles))[
        (1,)
    ](x, 4)
    np.testing.assert_array_equal(x, 2 * np.arange(4.0))
    assert len(seen) == 2 * len(BLOCKS) + 1
    for array in seen:
        np.testing.assert_array_equal(array, np.arange(4.0))


def test_the_own_timing_restores_before_every_run():
    seen = []

    def fn(x, n, BLOCK):
        seen.append(x[0])
        x += 1

    x = np.zeros(4)
    tuned(FakeKernel(fn, writes=["x"]), do_bench=None, warmup=1, rep=1)[(1,)](x, 4)
    assert len(seen) > 2 * len(BLOCKS)
    assert set(seen) == {0}
    assert x[0] == 1


@pytest.mark.parametrize("error", [BackendError("no room"), CompilationError("bad"), KeyError("x")])
def test_an_error_half_way_leaves_the_data_as_it_was(error):
    def fn(x, n, BLOCK):
        x[:] = -1
        raise error

    tuner = tuned(FakeKernel(fn, writes=["x"]))
    x = np.arange(4.0)
    with pytest.raises(type(error)):
        tuner[(1,)](x, 4)
    np.testing.assert_array_equal(x, np.arange(4.0))
    assert not tuner.cache


@given(
    step=st.sampled_from([-3, -2, -1, 1, 2, 3]),
    dtype=st.sampled_from([np.float64, np.float16, np.int8, np.bool_, ">i4"]),
    transpose=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_views_of_any_strides_are_put_back(step, dtype, transpose):
    base = (np.arange(48).reshape(8, 6) % 7).astype(dtype)
    untouched = base.copy()
    view = base[::step, ::2]
    view = view.T if transpose else view
    saved = Snapshot()
    saved.save("view", view)
    view[...] = 1
    saved.restore()
    np.testing.assert_array_equal(base, untouched)
    fill_zero("view", view)
    assert not view.any()
    assert base[:, 1::2].tolist() == untouched[:, 1::2].tolist()


def test_overlapping_arguments_are_put_back():
    def fn(x, y, BLOCK):
        x += 1
        y += 1

    kernel = FakeKernel(fn, writes=["x", "y"])
    base = np.zeros(6)
    tuned(kernel, key=())[(1,)](base[:4], base[2:])
    assert base.tolist() == [1, 1, 2, 2, 1, 1]


def test_what_only_a_later_config_writes_is_put_back():
    def fn(x, y, BLOCK):
        (x if BLOCK == 16 else y)[:] += 1

    kernel = FakeKernel(fn)
    kernel.written_arguments = lambda *_, BLOCK, **__: frozenset("x" if BLOCK == 16 else "y")
    x, y = np.zeros(2), np.zeros(2)
    tuned(kernel, key=())[(1,)](x, y)
    assert (x.tolist(), y.tolist()) == ([0, 0], [1, 1])


class FakeTensor:
    """As much of a torch tensor as a snapshot uses; as a leaf it allows changes by `.data` only."""

    def __init__(self, values, leaf=True):
        self.values = values
        self.leaf = leaf
        self.dtype = "torch.float32"

    @property
    def data(self):
        return FakeTensor(self.values, leaf=False)

    def clone(self):
        return FakeTensor(self.values.copy(), leaf=self.leaf)

    def copy_(self, other):
        assert not self.leaf
        self.values[...] = other.values

    def zero_(self):
        assert not self.leaf
        self.values[...] = 0


def test_tensors_are_put_back_without_autograd_noticing():
    def fn(x, n, BLOCK):
        x.values += 1

    tensor = FakeTensor(np.zeros(3))
    tuner = tuned(FakeKernel(fn, writes=["x"]), reset_to_zero=["x"])
    tuner[(1,)](tensor, 3)
    assert tensor.values.tolist() == [1, 1, 1]


def test_arrays_in_tuples_and_behind_pointers_are_put_back():
    def fn(pair, pointers, BLOCK):
        pair[0][:] += 1
        for target in pointers.targets:
            target += 1
        pointers[0] = pointers[1]

    arrays = [np.zeros(2, np.float32) for _ in range(3)]
    pointers = pointer_array(arrays[1:])
    addresses = bytes(pointers)
    kernel = FakeKernel(fn, writes=["pair", "pointers"])
    tuner = tuned(kernel, key=(), do_bench=lambda run, quantiles: run() or 1.0)
    tuner[(1,)]((arrays[0], 3), pointers)
    assert [array.tolist() for array in arrays] == [[1, 1]] * 3
    saved = Snapshot()
    saved.save("pointers", pointer_array(arrays[1:]))
    fill_zero("pointers", pointers)
    assert not arrays[2].any()
    assert bytes(pointers) == addresses[8:] * 2  # as the kernel left them
    saved.restore()
    assert [array.tolist() for array in arrays] == [[1, 1]] * 3


class FakeDeviceArray:
    """As much of an array of Numba, in a device's memory, as a launch and a snapshot use."""

    def __init__(self, values):
        self.values = values
        self.dtype = values.dtype
        self.__cuda_array_interface__ = dict(values.__array_interface__)

    def copy_to_host(self):
        return self.values.copy()

    def copy_to_device(self, values):
        self.values[...] = values


def test_arrays_of_a_device_are_put_back_through_the_host():
    def fn(x, n, BLOCK):
        x.values += 1

    array = FakeDeviceArray(np.zeros((2, 3)))
    tuned(FakeKernel(fn, writes=["x"]), reset_to_zero=["x"])[(1,)](array, 3)
    assert array.values.tolist() == [[1] * 3] * 2


def test_a_written_argument_that_cannot_be_copied_is_named(kernel):
    with pytest.raises(ArgumentTypeError, match="argument 'x' is a int"):
        tuned(kernel)[(1,)](5, 4)
    assert not kernel.launched


def test_a_read_only_array_is_left_to_the_kernel_to_refuse(kernel):
    x = np.ones(4)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="output array is read-only"):
        tuned(kernel)[(1,)](x, 4)


def test_reset_to_zero_holds_in_trials_only():
    seen = []

    def fn(acc, other, n, BLOCK):
        seen.append((acc[0], other[0]))
        acc += 1
        other += 1

    kernel = FakeKernel(fn)  # its IR shows neither write
    tuner = tuned(kernel, reset_to_zero=["acc"], restore_value=["other"])
    acc, other = np.full(2, 5.0), np.full(2, 7.0)
    tuner[(1,)](acc, other, 2)
    assert seen == [(0, 7)] * len(BLOCKS) + [(5, 7)]
    assert (acc[0], other[0]) == (6, 8)


def test_absent_arrays_need_no_reset():
    def fn(x, bias, n, BLOCK):
        assert bias is None

    tuned(FakeKernel(fn), reset_to_zero=["bias"], restore_value=["bias"])[(1,)](np.ones(1), None, 1)


# --- what cannot run -----------------------------------------------------------------------------


def test_configs_that_cannot_run_are_skipped(kernel):
    kernel.refuses = {32: OutOfResourcesError("too much shared memory")}
    tuner = tuned(kernel)
    x = np.ones(4)
    tuner[(1,)](x, 4)
    assert tuner.best_config == BLOCKS[2]
    assert tuner.configs_timings[BLOCKS[1]] == [math.inf] * 3
    assert x.tolist() == [2] * 4


@pytest.mark.parametrize("parallel", [False, True])
def test_when_none_can_run_the_last_error_says_so(kernel, parallel):
    kernel.refuses = {block: BackendError(f"no room for {block}") for block in (16, 32, 64)}
    with ThreadPoolExecutor(2) as pool:
        tuner = tuned(kernel, executor=pool if parallel else None)
        for use in (tuner[(1,)], tuner.warmup, tuner.written_arguments):
            for error in kernel.refuses.values():
                error.notes.clear()
            with pytest.raises(BackendError) as caught:
                use(np.ones(4), 4)
            text = str(caught.value)
            assert text.startswith("no room for 64")
            assert "none of its 3 configurations" in text
            assert "BLOCK: 16" in text
            assert "no room for 16" in text
    assert not kernel.launched


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("kind", [CompilationError, OutOfResourcesError, UnsupportedError, IRError])
def test_a_config_that_does_not_compile_is_skipped_with_its_reason(kernel, parallel, kind):
    place = Loc("k.py", 5)
    kernel.refuses = {32: kind("static assertion failed", loc=place, notes=["more"])}
    with ThreadPoolExecutor(2) as pool:
        tuner = tuned(kernel, executor=pool if parallel else None)
        tuner[(1,)](np.ones(4), 4)
        assert tuner.warmup(np.ones(4), 4) == ["compiled 16", "compiled 64"]
    assert tuner.best_config == BLOCKS[2]
    [(config, reason)] = tuner.skipped.items()
    assert config == BLOCKS[1]
    assert reason.splitlines() == ["static assertion failed", "  at k.py:5:1", "  note: more"]
    assert tuner.written_arguments(np.ones(4), 4) == {"x"}


def test_nothing_is_skipped_where_all_run(kernel):
    kernel.refuses = {32: BackendError("no room")}
    tuner = tuned(kernel)
    tuner[(1,)](np.ones(4), 4)
    kernel.refuses = {}
    tuner[(1,)](np.ones(5), 5)
    assert tuner.skipped == {}


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("error", [ArgumentTypeError("no parameter 'm'"), KeyError("m")])
def test_the_users_own_errors_are_raised_and_name_the_config(kernel, parallel, error):
    kernel.refuses = {32: error}
    with ThreadPoolExecutor(2) as pool:
        tuner = tuned(kernel, executor=pool if parallel else None)
        x = np.ones(4)
        with pytest.raises(type(error)) as caught:
            tuner[(1,)](x, 4)
    assert caught.value is error
    assert "this was configuration BLOCK: 32, num_warps: 4" in printed(error)
    assert x.tolist() == [1] * 4


@pytest.mark.parametrize("own_timing", [False, True])
def test_a_fault_of_a_run_is_raised_and_names_the_config(own_timing):
    def fn(x, n, BLOCK):
        x[:] = 0
        if BLOCK == 32:
            raise OutOfBoundsError("outside of x")

    kernel = FakeKernel(fn, writes=["x"])
    options = {"do_bench": None, "warmup": 0, "rep": 0} if own_timing else {}
    x = np.ones(4)
    tuner = tuned(kernel, **options)
    with pytest.raises(OutOfBoundsError) as caught:
        tuner[(1,)](x, 4)
    assert caught.value.notes == [
        "this was configuration BLOCK: 32, num_warps: 4, num_stages: 3, num_ctas: 1 of fn"
    ]
    assert x.tolist() == [1] * 4
    assert not tuner.cache


def test_equal_reasons_are_listed_once(kernel):
    configs = [Config({"BLOCK": block}) for block in range(8)]
    same, other = Loc("k.py", 5), Loc("k.py", 6)
    kernel.refuses = {
        block: CompilationError("too small", loc=other if block == 3 else same)
        for block in range(8)
    }
    with pytest.raises(CompilationError) as caught:
        tuned(kernel, configs=configs)[(1,)](np.ones(4), 4)
    rest = "num_warps: 4, num_stages: 3, num_ctas: 1"
    assert caught.value.notes == [
        f"this was configuration BLOCK: 7, {rest} of scale",
        "none of its 8 configurations can run here",
        "; ".join(f"BLOCK: {b}, {rest}" for b in (0, 1, 2, 4)) + " and 2 others: the same",
        f"BLOCK: 3, {rest}: too small, at k.py:6:1",
    ]


def test_one_reason_for_all_is_not_repeated(kernel):
    kernel.refuses = {block: CompilationError("undefined name `m`") for block in (16, 32, 64)}
    tuner = tuned(kernel)
    with pytest.raises(CompilationError) as caught:
        tuner[(1,)](np.ones(4), 4)
    text = "none of its 3 configurations can run here, all for this reason"
    assert caught.value.notes[1:] == [text]
    assert set(tuner.skipped) == set(BLOCKS)


def test_the_reasons_of_many_failures_are_bounded(kernel):
    configs = [Config({"BLOCK": block}) for block in range(100)]
    kernel.refuses = {block: BackendError(f"no room for {block}") for block in range(100)}
    with pytest.raises(BackendError) as caught:
        tuned(kernel, configs=configs)[(1,)](np.ones(4), 4)
    assert len(caught.value.notes) < 12
    assert caught.value.notes[-1] == "and 91 other reasons"


# --- pruning -------------------------------------------------------------------------------------


def test_early_pruning_sees_positional_and_keyword_arguments_apart(kernel):
    def early(configs, named_args, **kwargs):
        assert set(named_args) == {"x"}
        assert kwargs == {"n": 4}
        return [c for c in configs if c.kwargs["BLOCK"] != 32]

    tuner = tuned(kernel, prune_configs_by={"early_config_prune": early})
    tuner[(1,)](np.ones(4), n=4)
    assert tuner.best_config == BLOCKS[2]
    assert BLOCKS[1] not in tuner.configs_timings


@pytest.mark.parametrize(
    ("top_k", "tried"), [(1, []), (2, [64, 32]), (0.7, [64, 32]), (0.1, []), (5, [16, 32, 64])]
)
def test_the_model_picks_the_best_k(kernel, top_k, tried):
    def model(x, n, BLOCK, num_warps, **rest):
        assert (num_warps, rest) == (4, {"num_stages": 3, "num_ctas": 1})
        return -BLOCK

    tuner = tuned(kernel, prune_configs_by={"perf_model": model, "top_k": top_k})
    tuner[(1,)](np.ones(4), 4)
    assert [run["BLOCK"] for run in kernel.launched[:-1]] == tried
    assert kernel.launched[-1]["BLOCK"] == (32 if tried else 64)


@pytest.mark.parametrize(
    "rule",
    [
        {"early_prune": None},
        {"perf_model": max, "top_k": 0},
        {"perf_model": max, "top_k": 2.5},
        {"perf_model": max, "top_k": "3"},
        {"top_k": 1},
        {"top_k": 0.5},
    ],
)
def test_bad_pruning_is_refused(kernel, rule):
    with pytest.raises(ArgumentError):
        tuned(kernel, prune_configs_by=rule)


def test_pruning_everything_is_refused(kernel):
    tuner = tuned(kernel, prune_configs_by={"early_config_prune": lambda configs, named, **kw: []})
    with pytest.raises(ArgumentValueError, match="left no configuration"):
        tuner[(1,)](np.ones(4), 4)


# --- hooks ---------------------------------------------------------------------------------------


def test_hooks_come_in_order_with_all_arguments():
    events = []

    def fn(x, n, BLOCK):
        events.append(f"run {BLOCK}")

    def pre(arguments, reset_only=False):
        assert {"x", "n", "BLOCK", "num_warps"} <= set(arguments)
        events.append(f"{'reset' if reset_only else 'pre'} {arguments['BLOCK']}")

    def post(arguments, exception):
        assert exception is None
        events.append(f"post {arguments['BLOCK']}")

    configs = [
        Config({"BLOCK": 16}, pre_hook=lambda arguments: events.append("own 16")),
        Config({"BLOCK": 32}, pre_hook=lambda arguments: events.append("own 32")),
    ]
    kernel = FakeKernel(fn)
    tuner = tuned(kernel, configs=configs, pre_hook=pre, post_hook=post)
    tuner[(1,)](np.ones(4), n=4)
    tried = ["own 16", "pre 16", "run 16", "post 16", "own 32", "pre 32", "run 32", "post 32"]
    assert events == [*tried, "reset 32", "own 32", "run 32"]
    events.clear()
    tuner[(1,)](np.ones(4), n=4)
    assert events == ["own 32", "run 32"]


def test_the_post_hook_hears_of_a_failure(kernel):
    heard = []

    def fn(x, n, BLOCK):
        if BLOCK == 16:
            raise BackendError("no room")

    tuner = tuned(
        FakeKernel(fn),
        post_hook=lambda arguments, exception: heard.append((arguments["BLOCK"], exception)),
        do_bench=lambda run, quantiles: run() or 1.0,
    )
    tuner[(1,)](np.ones(4), 4)
    assert [(block, str(error)) for block, error in heard] == [
        (16, "no room"),
        (32, "None"),
        (64, "None"),
    ]


def test_hooks_may_write_what_the_kernel_writes(kernel):
    def pre(arguments, reset_only=False):
        if not reset_only:
            arguments["x"][:] = 100

    x = np.ones(4)
    tuned(kernel, pre_hook=pre, do_bench=None, warmup=0, rep=0)[(1,)](x, 4)
    assert x.tolist() == [2] * 4


def printed(error):
    return "".join(traceback.format_exception(error))


class MineError(Exception):
    """An error of a hook."""


def fails(*_, **__):
    raise MineError("mine")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"pre_hook": fails}, "the pre_hook of scale, on configuration BLOCK: 16, "),
        ({"post_hook": fails}, "the post_hook of scale, on configuration BLOCK: 16, "),
        ({"do_bench": fails}, "the do_bench of scale, on configuration BLOCK: 16, "),
        (
            {"configs": [BLOCKS[0], Config({"BLOCK": 32}, pre_hook=fails)]},
            "the pre_hook of configuration BLOCK: 32, ",
        ),
        ({"configs": [Config({}, pre_hook=fails)]}, "the pre_hook of configuration num_warps: 4, "),
        (
            {"prune_configs_by": {"early_config_prune": fails}},
            "the early_config_prune of scale raised",
        ),
        (
            {"prune_configs_by": {"perf_model": fails, "top_k": 1}},
            "the perf_model of scale, on configuration BLOCK: 16, ",
        ),
    ],
)
@pytest.mark.parametrize("own_timing", [False, True])
def test_what_a_hook_raises_says_whose_it_is(options, named, own_timing):
    def fn(x, n, BLOCK=0):
        x[:] = 0

    fn.__name__ = "scale"
    if own_timing and "do_bench" not in options:
        options = {"do_bench": None, "warmup": 0, "rep": 0, **options}
    kernel = FakeKernel(fn, writes=["x"])
    tuner = tuned(kernel, restore_value=["x"], **options)
    x = np.ones(4)
    with pytest.raises(HookError) as caught:
        tuner[(1,)](x, 4)
    assert str(caught.value).startswith(named)
    assert str(caught.value).endswith("raised MineError: mine")
    assert isinstance(caught.value.__cause__, MineError)
    assert x.tolist() == [1] * 4
    assert not tuner.cache


def test_a_hook_that_fails_as_the_compiler_would_is_no_reason_to_skip(kernel):
    def hook(arguments):
        raise CompilationError("of another kernel")

    configs = [BLOCKS[0], Config({"BLOCK": 32}, pre_hook=hook)]
    with pytest.raises(HookError, match=r"BLOCK: 32.* raised CompilationError: of another kernel"):
        tuned(kernel, configs=configs)[(1,)](np.ones(4), 4)


def test_the_hook_after_tuning_is_named(kernel):
    def pre(arguments, reset_only=False):
        if reset_only:
            raise MineError("mine")

    x = np.ones(4)
    with pytest.raises(HookError, match="the pre_hook of scale, on configuration BLOCK: 32"):
        tuned(kernel, pre_hook=pre)[(1,)](x, 4)
    assert x.tolist() == [1] * 4


def test_a_post_hook_may_raise_its_argument(kernel):
    def post(arguments, exception):
        if exception is not None:
            raise exception

    def fn(x, n, BLOCK):
        if BLOCK == 16:
            raise BackendError("no room")

    tuner = tuned(FakeKernel(fn), post_hook=post, do_bench=lambda run, quantiles: run() or 1.0)
    tuner[(1,)](np.ones(4), 4)
    assert tuner.skipped == {BLOCKS[0]: "no room"}


@pytest.mark.parametrize("pruned", [None, 5, [{"BLOCK": 16}]])
def test_pruning_returns_configs(kernel, pruned):
    tuner = tuned(kernel, prune_configs_by={"early_config_prune": lambda *_, **__: pruned})
    with pytest.raises(ArgumentTypeError, match="the early_config_prune of scale returns"):
        tuner[(1,)](np.ones(4), 4)


def test_a_config_of_which_the_model_knows_nothing_comes_last(kernel):
    def model(BLOCK, **rest):
        return math.nan if BLOCK == 16 else -BLOCK

    tuner = tuned(kernel, prune_configs_by={"perf_model": model, "top_k": 2})
    tuner[(1,)](np.ones(4), 4)
    assert set(tuner.configs_timings) == {*BLOCKS[1:]}


def test_a_rule_of_heuristics_that_raises_is_named(kernel):
    ruled = heuristics({"BLOCK": lambda args: args["m"]})(kernel)
    for use in (ruled[(1,)], ruled.warmup, ruled.written_arguments):
        with pytest.raises(HookError, match=r"the rule for BLOCK of scale.* KeyError: 'm'"):
            use(np.ones(4), 4)


@pytest.mark.parametrize("failing", [False, True])
def test_hooks_that_set_blocks_leave_arrays_to_configs_without_them(failing):
    """They are called before the kernel is compiled, and so before it is known what it writes."""

    def zeroes(arguments):
        arguments["x"][:] = 0
        if failing:
            raise MineError("mine")

    def fn(desc, x, BLOCK):
        x *= 2

    kernel = FakeKernel(fn, writes=["x"])
    configs = [Config({"BLOCK": 16}, pre_hook=zeroes), Config({"BLOCK": 32})]
    tuner = tuned(kernel, configs=configs, key=())
    x, desc = np.arange(4.0), TensorDescriptor.from_tensor(np.zeros((8, 8)), [4, 4])
    if failing:
        with pytest.raises(HookError, match="the pre_hook of configuration BLOCK: 16"):
            tuner[(1,)](desc, x)
        assert x.tolist() == [0, 1, 2, 3]
    else:
        tuner.warmup(desc, x)
        tuner[(1,)](desc, x)
        assert x.tolist() == [0, 2, 4, 6]


# --- calls that cannot be meant ------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda k: k[(1,)](np.ones(4), 4, BLOCK=64),
        lambda k: k[(1,)](np.ones(4), 4, 64),
        lambda k: k[(1,)](np.ones(4), 4, num_warps=8),
        lambda k: k.warmup(np.ones(4), 4, BLOCK=64),
    ],
)
def test_passing_what_the_configs_choose_is_refused(kernel, call):
    with pytest.raises(ArgumentTypeError, match=r"(BLOCK|num_warps) of scale: chosen by @autotune"):
        call(tuned(kernel))
    assert not kernel.launched


@pytest.mark.parametrize("what", ["key", "reset_to_zero", "restore_value"])
def test_unknown_names_are_refused(kernel, what):
    with pytest.raises(
        ArgumentTypeError, match=f"{what} names 'm', .*scale\\(x, n, BLOCK, EVEN\\)"
    ):
        tuned(kernel, **{what: ["m"]})
    with pytest.raises(ArgumentTypeError, match="list of names"):
        tuned(kernel, **{what: "n"})


def test_an_array_is_no_key(kernel):
    with pytest.raises(ArgumentTypeError, match="key argument 'x' of scale is a ndarray"):
        tuned(kernel, key=["x"])[(1,)](np.ones(4), 4)
    assert not kernel.launched


@pytest.mark.parametrize(
    "make",
    [
        lambda: Config(64),
        lambda: Config({"BLOCK": [1]}),
        lambda: Config({"num_warps": 8}),
        lambda: Config({}, num_warps=0),
        lambda: Config({}, num_warps=6),
        lambda: Config({"maxnreg": 8}),
        lambda: Config({}, num_stages="3"),
        lambda: autotune([{"BLOCK": 16}], []),
        lambda: autotune([], [], rep=-1),
        lambda: heuristics({"EVEN": True}),
    ],
)
def test_bad_declarations_are_refused(make):
    with pytest.raises(ArgumentError):
        make()


@given(st.dictionaries(st.sampled_from("ABC"), st.integers(0, 2)), st.sampled_from([1, 2, 4]))
def test_equal_configs_are_equal_keys(kwargs, num_warps):
    one = Config(kwargs, num_warps=num_warps)
    two = Config(dict(reversed(kwargs.items())), num_warps=num_warps)
    assert one == two
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != Config(kwargs, num_warps=num_warps * 2)
    assert one != Config(kwargs, num_warps=num_warps, maxnreg=32)
    assert one.all_kwargs() == {**kwargs, "num_warps": num_warps, "num_stages": 3, "num_ctas": 1}
    assert str(one).endswith(f"num_warps: {num_warps}, num_stages: 3, num_ctas: 1")


# --- compiling, keeping, printing ----------------------------------------------------------------


def test_warmup_compiles_every_config_and_launches_none(kernel):
    kernel.refuses = {32: BackendError("no room")}
    assert tuned(kernel).warmup(np.ones(4), 4) == ["compiled 16", "compiled 64"]
    assert not kernel.launched


def test_an_executor_compiles_with_the_callers_settings(kernel):
    with ThreadPoolExecutor(2, thread_name_prefix="pool") as pool:
        tuner = tuned(kernel, executor=pool)
        x = np.ones(4)
        with config.scope(backend="interp"):
            tuner[(1,)](x, 4)
    assert any(name.startswith("pool") for name in kernel.threads)
    assert set(kernel.backends) == {"interp"}
    assert [c["BLOCK"] for c in kernel.compiled].count(16) >= 2
    assert x.tolist() == [2] * 4


def test_what_the_executor_could_not_compile_is_not_tried_again(kernel):
    kernel.refuses = {32: BackendError("no room")}
    with ThreadPoolExecutor(2) as pool:
        tuned(kernel, executor=pool)[(1,)](np.ones(4), 4)
    assert [c["BLOCK"] for c in kernel.compiled].count(32) == 1


def test_results_on_disk_serve_the_next_process(tmp_path):
    first, second, third = (FakeKernel(scale, writes=["x"]) for _ in range(3))
    tuned(first, cache_results=tmp_path)[(1,)](np.ones(4), 4)
    again = tuned(second, cache_results=tmp_path)
    again[(1,)](np.ones(4), 4)
    assert [run["BLOCK"] for run in second.launched] == [32]
    assert again.configs_timings[BLOCKS[0]] == [3.0] * 3
    again[(1,)](np.ones(4), 3)  # another key
    assert len(second.launched) == 1 + 4
    tuned(third, configs=BLOCKS[:2], cache_results=tmp_path)[(1,)](np.ones(4), 4)  # another list
    assert [run["BLOCK"] for run in third.launched] == [32]
    fourth = FakeKernel(scale, writes=["x"])
    more, times = [*BLOCKS, Config({"BLOCK": 128})], costs(fourth, b128=4.0)
    tuned(fourth, configs=more, cache_results=tmp_path, do_bench=times)[(1,)](np.ones(4), 4)
    assert [run["BLOCK"] for run in fourth.launched] == [128, 32]  # the rest is on disk


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("[]", "it is not of the format"),
        ('{"format": "tile tuning result 1", "times": 3, "reason": ""}', "neither times nor"),
        ('{"format": "tile tuning result 1", "times": ["a"], "reason": ""}', "its times are"),
        ('{"format": "another program\'s"}', "it is not of the format"),
    ],
)
def test_damaged_results_are_measured_anew(tmp_path, damage, text):
    tuned(FakeKernel(scale, writes=["x"]), cache_results=tmp_path)[(1,)](np.ones(4), 4)
    file, *others = sorted(tmp_path.rglob("*.json"))
    assert len(others) == len(BLOCKS) - 1
    good = file.read_text()
    file.write_text(damage)
    kernel = FakeKernel(scale, writes=["x"])
    with pytest.warns(RuntimeWarning, match=f"{file.name} is ignored: .*{text}"):
        tuned(kernel, cache_results=str(tmp_path))[(1,)](np.ones(4), 4)
    assert len(kernel.launched) == 2  # one is measured, and the best launched
    assert file.read_text() == good


def test_failures_are_stored_on_disk_as_infinite_times(tmp_path, kernel):
    kernel.refuses = {32: BackendError("no room")}
    tuned(kernel, cache_results=tmp_path)[(1,)](np.ones(4), 4)
    other = FakeKernel(scale, writes=["x"])
    again = tuned(other, cache_results=tmp_path)
    again[(1,)](np.ones(4), 4)
    assert again.best_config == BLOCKS[2]
    assert again.configs_timings[BLOCKS[1]] == [math.inf] * 3
    assert again.skipped == {BLOCKS[1]: "no room"}


def test_a_folder_that_cannot_be_written_costs_only_a_warning(tmp_path, kernel):
    blocked = tmp_path / "file"
    blocked.write_text("")
    x = np.ones(4)
    with pytest.warns(RuntimeWarning, match="not saved"):
        tuned(kernel, cache_results=blocked)[(1,)](x, 4)
    assert x.tolist() == [2] * 4


def test_the_table_is_printed_on_request(kernel, capsys, monkeypatch):
    kernel.refuses = {16: BackendError("no room")}
    tuned(kernel)[(1,)](np.ones(4), 4)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TILE_PRINT_AUTOTUNING", "1")
    tuned(kernel)[(1,)](np.ones(4), 4)
    out, err = capsys.readouterr()
    assert out == ""
    head, _, *lines = err.splitlines()
    assert head.startswith("autotune scale(n=4): 3 configurations in ")
    assert head.endswith(" s, 1 skipped")
    assert [line.split("BLOCK: ")[1][:2] for line in lines] == ["32", "64", "16"]
    assert lines[-1].endswith("(no room)")


# --- heuristics and stacks of decorators ---------------------------------------------------------


def test_heuristics_see_arguments_and_earlier_rules(kernel):
    rules = {
        "BLOCK": lambda args: 2 * args["n"],
        "EVEN": lambda args: args["BLOCK"] % 8 == 0,
    }
    ruled = heuristics(rules)(kernel)
    ruled[(1,)](np.ones(4), n=4)
    assert (kernel.launched[0]["BLOCK"], kernel.launched[0]["EVEN"]) == (8, True)
    assert ruled.warmup(np.ones(4), 4) == "compiled 8"
    assert ruled.written_arguments(np.ones(4), 4) == {"x"}
    with pytest.raises(ArgumentTypeError, match="EVEN of scale: chosen by @heuristics"):
        ruled[(1,)](np.ones(4), 4, EVEN=True)


@pytest.mark.parametrize("order", ["heuristics outside", "autotune outside"])
def test_both_decorators_stack(kernel, order):
    rule = heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
    if order == "heuristics outside":
        stacked = rule(tuned(kernel))
    else:
        stacked = tuned(rule(kernel), do_bench=costs(kernel, b16=3.0, b32=1.0, b64=2.0))
    x = np.ones(4)
    stacked[(1,)](x, 4)
    assert x.tolist() == [2] * 4
    assert (kernel.launched[-1]["BLOCK"], kernel.launched[-1]["EVEN"]) == (32, True)
    assert stacked.base_fn is scale
    assert stacked.arg_names == ["x", "n", "BLOCK", "EVEN"]
    assert stacked.__name__ == "scale"
    assert stacked.written_arguments(x, 4) == {"x"}


WRONG = {
    "configs None": lambda: autotune(None, key=[]),
    "configs a number": lambda: autotune(3, key=[]),
    "configs a Config": lambda: autotune(Config({}), key=[]),
    "configs of numbers": lambda: autotune([3], key=[]),
    "key None": lambda: autotune([], key=None)(FakeKernel(lambda x: None)),
    "key a number": lambda: autotune([], key=3)(FakeKernel(lambda x: None)),
    "key of numbers": lambda: autotune([], key=[3])(FakeKernel(lambda x: None)),
    "names a number": lambda: autotune([], key=[], reset_to_zero=3)(FakeKernel(lambda x: None)),
    "pruning a number": lambda: autotune([], key=[], prune_configs_by=3)(
        FakeKernel(lambda x: None)
    ),
    "a time that is text": lambda: autotune([], key=[], warmup="x"),
    "no kernel": lambda: autotune([], key=[])(lambda x: None),
    "no kernel under heuristics": lambda: heuristics({})(lambda x: None),
    "heuristics None": lambda: heuristics(None),
    "heuristics a list": lambda: heuristics([3]),
}


@pytest.mark.parametrize("decorate", WRONG.values(), ids=WRONG)
def test_decorators_refuse_what_they_cannot_take(decorate):
    with pytest.raises(ArgumentError) as caught:
        decorate()
    assert len(str(caught.value)) < 300


def test_configurations_may_be_made_one_by_one():
    kernel = FakeKernel(lambda BLOCK: None)
    tuned = autotune((Config({"BLOCK": size}) for size in (1, 2)), key=[])(kernel)
    assert [config.kwargs["BLOCK"] for config in tuned.configs] == [1, 2]
