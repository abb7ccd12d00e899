"""The fast path of tuned launches, on a backend that records its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile
from tests.runtime.fake_torch import Tensor, aligned
from tests.runtime.kernels import add
from tests.runtime.test_fast_path import (
    Noting,
    descriptor_of,
    install_noting,
    load_block,
    new_launcher,
    overlapping,
    three,
)
from tile.errors import ArgumentTypeError, HookError
from tile.runtime.arguments.snapshot import Snapshot
from tile.runtime.autotuning.autotuner import Autotuner
from tile.runtime.launch_hooks import active_observer


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> Noting:
    monkeypatch.setattr(Snapshot, "save", lambda *given: None)  # nothing runs, so nothing changes
    return install_noting(monkeypatch)


@pytest.fixture
def binds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that tuners bind, which the fast path does not."""
    calls: list[Any] = []
    bind = Autotuner.bind

    def recording(tuner: Autotuner, *given: Any) -> Any:
        calls.append(given)
        return bind(tuner, *given)

    monkeypatch.setattr(Autotuner, "bind", recording)
    return calls


TIMES = {8: 3.0, 16: 1.0, 32: 2.0}
CONFIGS = [tile.Config({"BLOCK": block}) for block in TIMES]


def new_tuner(configs: list[tile.Config] | None = None, kernel: Any = None, **options: Any) -> Any:
    """Return a kernel, or `add`, with configurations of which a block of 16 is the fastest."""

    def bench(run: Callable[[], object], quantiles: tuple[float, ...]) -> list[float]:
        run()
        return [TIMES[run.config.kwargs["BLOCK"]] for _ in quantiles]  # type: ignore[attr-defined]

    options = {"key": ["n"], "do_bench": bench, **options}
    return tile.autotune(CONFIGS if configs is None else configs, **options)(
        new_launcher() if kernel is None else tile.jit(kernel.fn)
    )


def test_later_launches_find_their_choice(noting: Noting, binds: list[Any]) -> None:
    tuner, arrays, others = new_tuner(), three(), three()
    first = tuner[4,](*arrays, 100)
    binds.clear()
    noting.repeats.clear()
    assert tuner[2, 3](*others, 100) is first
    assert (binds, [grid for grid, _ in noting.repeats]) == ([], [(2, 3, 1)])
    assert tuner.best_config is CONFIGS[1] and first.constants["BLOCK"] == 16


def test_a_held_launch_function_and_a_grid_function(noting: Noting, binds: list[Any]) -> None:
    tuner, arrays = new_tuner(), three()
    held = tuner[lambda meta: (meta["n"] // meta["BLOCK"],)]
    held(*arrays, 96)
    held(*arrays, 96)
    binds.clear()
    held(*arrays, 96)
    assert binds == [] and noting.repeats[-1][0] == (6, 1, 1)


def test_another_key_dtype_or_device_is_tuned(noting: Noting, binds: list[Any]) -> None:
    tuner, arrays = new_tuner(), three()
    calls: list[tuple[Any, ...]] = [
        (*arrays, 100),
        (*arrays, 101),
        (*three(np.int32), 100),
        (*three(device=1), 100),
    ]
    for call in calls:
        tuner[4,](*call)
    assert len(tuner.cache) == len(calls)
    binds.clear()
    for call in calls:
        tuner[4,](*call)
    assert binds == [] and len(tuner.cache) == len(calls)


def test_an_array_without_part_in_the_key(noting: Noting, binds: list[Any]) -> None:
    tuner, arrays = new_tuner(), three()
    tuner[4,](*arrays, 100)
    tuner[4,](*arrays, n=100)
    shifted = [Tensor(aligned(64, shift=1)) for _ in "xyz"]  # of another kernel
    tuner[4,](*shifted, n=100)
    tuner[4,](*shifted, 100)
    binds.clear()
    tuner[4,](*shifted, n=100)
    tuner[4,](*shifted, 100)
    assert binds == [] and tuner.best_config is CONFIGS[1] and len(tuner.cache) == 1


def test_descriptors(noting: Noting, binds: list[Any]) -> None:
    configs = [tile.Config({"BLOCK": block}) for block in TIMES]
    tuner = tile.autotune(configs[:1], key=["n"])(tile.jit(load_block.fn))
    for _ in range(2):
        tuner[1,](descriptor_of(8, 32), descriptor_of(8, 32), 3)
    binds.clear()
    tuner[1,](descriptor_of(8, 32), descriptor_of(8, 32), 3)
    assert binds == [] and len(noting.repeats) == 2


def test_changes_of_the_tuner_are_seen(noting: Noting) -> None:
    tuner, arrays = new_tuner(), three()
    for _ in range(2):
        tuner[4,](*arrays, 100)
    (key,) = tuner.cache
    tuner.cache[key] = CONFIGS[2]
    assert tuner[4,](*arrays, 100).constants["BLOCK"] == 32
    tuner.cache.clear()
    assert tuner[4,](*arrays, 100).constants["BLOCK"] == 16
    tuner.cache = {key: CONFIGS[0]}
    assert tuner[4,](*arrays, 100).constants["BLOCK"] == 8
    single = new_tuner(CONFIGS[:1])
    for _ in range(2):
        single[4,](*arrays, 100)
    single.configs = CONFIGS[2:]
    assert single[4,](*arrays, 100).constants["BLOCK"] == 32


def test_configurations_are_read_at_each_launch(noting: Noting) -> None:
    seen: list[int] = []
    config = tile.Config({"BLOCK": 16})
    tuner, arrays = new_tuner([config]), three()
    for _ in range(2):
        tuner[4,](*arrays, 100)
    config.num_warps = 8
    assert tuner[4,](*arrays, 100).options.num_warps == 8
    config.pre_hook = lambda arguments: seen.append(arguments["n"])
    tuner[4,](*arrays, 100)
    assert seen == [100]


@pytest.mark.parametrize("others", [[], CONFIGS[::2]])
def test_a_configuration_with_a_hook(
    noting: Noting, binds: list[Any], others: list[tile.Config]
) -> None:
    seen: list[tuple[int, int]] = []

    def hook(arguments: dict[str, Any]) -> None:
        seen.append((arguments["n"], arguments["BLOCK"]))

    tuner, arrays = new_tuner([tile.Config({"BLOCK": 16}, pre_hook=hook), *others]), three()
    for n in (100, 101, 100, 101):
        seen.clear()
        binds.clear()
        noting.repeats.clear()
        tuner[4,](*arrays, n)
        assert seen[-1] == (n, 16)
    assert (seen, binds, len(noting.repeats)) == ([(101, 16)], [], 1)


def test_hooks_set_the_blocks_of_descriptors(noting: Noting, binds: list[Any]) -> None:
    def set_blocks(arguments: dict[str, Any]) -> None:
        for name in ("x", "y"):
            arguments[name].block_shape = [4, arguments["BLOCK"]]

    configs = [tile.Config({"BLOCK": block}, pre_hook=set_blocks) for block in (8, 16)]
    tuner = new_tuner(configs, load_block)
    for _ in range(3):
        binds.clear()
        noting.repeats.clear()
        x, y = descriptor_of(8, 32, (1, 1)), descriptor_of(8, 32, (1, 1))
        kernel = tuner[1,](x, y, 3)
    assert kernel.constants["BLOCK"] == 16 and list(x.block_shape) == [4, 16]
    assert (binds, len(noting.repeats)) == ([], 1)


def test_changes_of_the_kernel_are_seen(noting: Noting, binds: list[Any]) -> None:
    seen: list[int] = []
    tuner, arrays = new_tuner(), three()
    for _ in range(2):
        tuner[4,](*arrays, 100)
    held, kernel = tuner[4,], tuner.fn
    kernel.cache.clear()
    binds.clear()
    first = held(*arrays, 100)
    assert binds and len(kernel.cache) == 1
    binds.clear()
    assert held(*arrays, 100) is first and binds == []
    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(kwargs["BLOCK"]))
    held(*arrays, 100)
    assert seen == [16]


@pytest.mark.parametrize("order", [(False, True), (True, False)])
def test_arrays_that_overlap_have_their_own_version(
    noting: Noting, binds: list[Any], order: tuple[bool, ...]
) -> None:
    noting.specializes_noalias = True
    tuner = new_tuner()
    calls = [overlapping("same") if overlaps else three() for overlaps in order]
    tuner[1,](*three(), 100)
    kernels = [tuner[1,](*arrays, 100) for arrays in calls]
    assert kernels[0] is not kernels[1]
    binds.clear()
    assert [tuner[lambda meta: (meta["BLOCK"],)](*arrays, 100) for arrays in calls] == kernels
    assert binds == [] and [grid for grid, _ in noting.repeats[-2:]] == [(16, 1, 1)] * 2


def test_settings_and_observers_are_looked_at(
    noting: Noting, binds: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner, arrays = new_tuner(), three()
    for _ in range(2):
        tuner[4,](*arrays, 100)
    binds.clear()
    with tile.backend("nvptx"):
        tuner[4,](*arrays, 100)
    assert binds
    monkeypatch.setenv("TILE_BACKEND", "nvptx:sm_80")
    tuner[4,](*arrays, 100)
    assert [key[-1] for key in tuner.cache] == ["", "nvptx", "nvptx:sm_80"]

    class Observing:
        def launch_tuned(self, name: str, alternatives: Any) -> str:
            return f"{name}, {len(alternatives)}"

    observer: Any = Observing()
    with active_observer.scope(observer):
        assert tuner[4,](*arrays, 100) == f"{add.name}, 3"


def test_errors_are_those_of_ordinary_launches(noting: Noting) -> None:
    tuner, arrays = new_tuner(), three()
    for _ in range(2):
        tuner[4,](*arrays, 100)
        with pytest.raises(ArgumentTypeError, match="BLOCK of add: chosen by @autotune"):
            tuner[4,](*arrays, 100, BLOCK=16)
        with pytest.raises(ArgumentTypeError, match="'n'"):
            tuner[4,](*arrays)
        with pytest.raises(ArgumentTypeError, match="BLOCK of add: chosen by @autotune"):
            tuner[4,](*arrays, 100, 16)


def test_rules_under_the_tuner_are_followed(noting: Noting, binds: list[Any]) -> None:
    ruled = tile.heuristics({"BLOCK": lambda args: 8 if args["n"] < 50 else 32})(new_launcher())
    tuner, arrays = tile.autotune([tile.Config({}, num_warps=2)], key=[])(ruled), three()
    sizes = (100, 10, 100, 10)
    assert [tuner[4,](*arrays, n).constants["BLOCK"] for n in sizes] == [32, 8, 32, 8]


def test_a_subclass_that_launches_in_its_own_way(noting: Noting) -> None:
    runs: list[Any] = []

    class Own(tile.Autotuner):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            runs.append(kwargs["grid"])
            return super().run(*args, **kwargs)

    kernel = new_launcher()
    tuner = Own(kernel, kernel.arg_names, CONFIGS[:1], ["n"], None, None)
    for _ in range(3):
        tuner[4,](*three(), 100)
    assert runs == [(4,)] * 3


def test_warmup_launches_nothing(noting: Noting) -> None:
    tuner, arrays = new_tuner(), three()
    for _ in range(2):
        tuner[4,](*arrays, 100)
    noting.launches.clear()
    noting.repeats.clear()
    kernels = tuner[4,](*arrays, 100, warmup=True)
    assert len(kernels) == len(CONFIGS) and (noting.launches, noting.repeats) == ([], [])


def test_choices_that_change_often_keep_their_inline_cache(noting: Noting) -> None:
    """An inline cache of an earlier choice is dropped with its entry."""
    tuner, arrays = new_tuner(), three()
    for _ in range(9):
        tuner.cache.clear()
        tuner[1,](*arrays, 100)
        tuner[1,](*arrays, 100)
    (plan,) = tuner._launches._plans.values()
    assert len(plan.caches) == 1
    noting.launches.clear()
    compiled = tuner[lambda meta: (meta["BLOCK"],)](*arrays, 100)
    assert compiled is tuner[1,](*arrays, 100) and not noting.launches
    assert noting.repeats[-2][0] == (16, 1, 1)


class CountingRuns(Autotuner):
    """A tuner whose `run` does something first, as those of libraries."""

    runs = 0

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.runs += 1
        return super().run(*args, **kwargs)


class OwnLaunches(Autotuner):
    """A tuner that launches a configuration in its own way."""

    def launch(self, call: Any, config: Any, *, warmup: bool = False) -> Any:
        kernel = super().launch(call, config, warmup=warmup)
        return kernel if warmup else ("own", kernel)


def test_a_subclass_with_its_own_run_takes_the_fast_path_in_the_base_class(
    noting: Noting, binds: list[Any]
) -> None:
    kernel, arrays = new_launcher(), three()
    tuner = CountingRuns(kernel, kernel.arg_names, CONFIGS[:1], ["n"], None, None)
    first = tuner[4,](*arrays, 100)
    binds.clear()
    assert tuner[2,](*arrays, 100) is first
    assert tuner.run(*arrays, 100, grid=(3,)) is first
    assert binds == [] and [grid for grid, _ in noting.repeats] == [(2, 1, 1), (3, 1, 1)]
    assert tuner.runs == 3
    tuner.configs = CONFIGS[2:]
    assert tuner[4,](*arrays, 100).constants["BLOCK"] == 32


def test_a_subclass_with_its_own_launch_makes_each(noting: Noting) -> None:
    kernel, arrays = new_launcher(), three()
    tuner = OwnLaunches(kernel, kernel.arg_names, CONFIGS[:1], ["n"], None, None)
    results = [tuner[4,](*arrays, 100) for _ in range(3)]
    assert all(own == "own" for own, _ in results)


def test_heuristics_of_a_tuner(noting: Noting, binds: list[Any]) -> None:
    seen: list[int] = []

    def rule(arguments: dict[str, Any]) -> int:
        seen.append(arguments["n"])
        arguments["n"] = 0  # a copy
        return 16 if seen[-1] % 2 else 32

    arrays = three()
    tuner = tile.autotune([tile.Config({}, num_warps=2)], key=["n"])(new_launcher())
    kernel = tile.heuristics({"BLOCK": rule})(tuner)
    blocks = [kernel[4,](*arrays, n).constants["BLOCK"] for n in (101, 100)]
    binds.clear()
    noting.launches.clear()
    blocks += [kernel[4,](*arrays, n).constants["BLOCK"] for n in (101, 100)]
    assert (blocks, binds, noting.launches) == ([16, 32] * 2, [], [])
    assert seen == [101, 100] * 2


def test_heuristics_that_raise_name_their_rule(noting: Noting) -> None:
    kernel = tile.heuristics({"BLOCK": lambda arguments: arguments["m"]})(new_launcher())
    with pytest.raises(HookError, match=r"the rule for BLOCK of add, .* raised KeyError"):
        kernel[4,](*three(), 100)


def test_a_tuner_keeps_no_arrays(noting: Noting) -> None:
    tuner, arrays = new_tuner(), three()
    tuner[4,](*arrays, 100)
    assert tuner.nargs is None
