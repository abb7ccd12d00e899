"""`autotune`: choose a kernel's meta-parameters by benchmarking.

A tuner wraps a kernel, or another wrapper, and is a kernel itself. It measures configurations on
the caller's own arguments (`tile.runtime.autotuning.measuring`), which are restored after each run,
so that finally the best configuration runs once, on the data that the caller passed.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from types import MethodType
from typing import TYPE_CHECKING, Any

from tile._lazy import lazy_import
from tile.config import config as settings
from tile.errors import ArgumentTypeError, AutotunerError
from tile.pickling import Reduction
from tile.runtime.arguments.snapshot import Snapshot
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.autotuning.configs import (
    MOST_REASONS,
    Call,
    Config,
    Kernel,
    Pruning,
    Skipped,
    innermost,
    pruning,
    reason,
    user_code,
)
from tile.runtime.autotuning.fast_path import Choice, HashedKey, TunedLaunches
from tile.runtime.autotuning.measuring import NEVER, Key, Measuring
from tile.runtime.autotuning.progress import TuningResults, progress_for
from tile.runtime.autotuning.space import TILE_OPTIONS, Space
from tile.runtime.autotuning.trial import prepare
from tile.runtime.callbacks import AUTOTUNE_LISTENERS
from tile.runtime.grid import normalize_grid
from tile.runtime.launch_hooks import NoLaunches, TunedLaunch, active_observer
from tile.short_repr import short_repr
from tile.tracebacks import public_function

if TYPE_CHECKING:
    from tile.runtime.autotuning.kernel_space import kernel_space
    from tile.runtime.autotuning.tuning_run import SearchRun, run_off_all
else:
    kernel_space = lazy_import("tile.runtime.autotuning.kernel_space", "kernel_space")
    SearchRun = lazy_import("tile.runtime.autotuning.tuning_run", "SearchRun")
    run_off_all = lazy_import("tile.runtime.autotuning.tuning_run", "run_off_all")


class Autotuner(Measuring):
    """A kernel whose configuration is chosen by benchmarking, once per key.

    cache: the chosen configuration, by key.
    best_config: the configuration used last.
    configs_timings: the times of the last tuning run (median, 20 % and 80 % quantile in ms; inf for
        a configuration that could not run).
    skipped: the reason, as text, of each configuration that could not run.
    bench_time: the duration of the last tuning run, in seconds.
    """

    def __init__(
        self,
        fn: Kernel,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None,
        restore_value: Sequence[str] | None,
        pre_hook: Callable[..., object] | None = None,
        post_hook: Callable[..., object] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool | str | PathLike[str] = False,
        executor: Executor | None = None,
        space: Space | None = None,
        search: str = "",
        effort: object = "normal",
        measure: str = "here",
    ) -> None:
        """`fn` is the kernel and `arg_names` its parameters; see `autotune` for the others.

        Names that are not parameters are ignored here; `autotune` refuses them.
        """
        super().__init__(
            fn,
            arg_names,
            reset_to_zero=reset_to_zero,
            restore_value=restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            warmup=warmup,
            rep=rep,
            use_cuda_graph=use_cuda_graph,
            do_bench=do_bench,
            cache_results=cache_results,
            executor=executor,
            measure=measure,
        )
        self.space = space
        self.search = search or ("exhaustive" if space is None else "auto")
        self.effort = effort
        self.configs = (list(configs) if space is None else space.configs) or [Config({})]
        self.keys = tuple(key)
        rules = pruning(prune_configs_by)
        self.early_config_prune = rules.early_config_prune
        self.perf_model = rules.perf_model
        self.configs_top_k = rules.top_k
        self.cache: dict[Key, Config] = {}
        self.nargs: dict[str, Any] | None = None
        self.best_config: Config | Any = None  # None before the first launch
        self.configs_timings: dict[Config, list[float]] = {}
        self.bench_time = 0.0
        self._tuning = threading.RLock()
        self._launches = TunedLaunches(self)
        self._chosen = dict.fromkeys(name for c in self.configs for name in c.all_kwargs())
        if space is not None:
            self._chosen |= dict.fromkeys((*TILE_OPTIONS, "tile_sizes"))

    @property
    def _is_single(self) -> bool:
        """True for a single configuration, which is not timed."""
        return self.space is None and len(self.configs) == 1

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return the launch function of the kernel's arguments, on `grid`."""
        launch = self._launches.latest
        if launch is None or grid is None or type(self).run is not Autotuner.run:
            return self._launches.on(grid)
        return MethodType(launch, grid)

    def runs_itself(self) -> bool:
        """Return True if a subclass has a `run` of its own, which may call this one."""
        return type(self).run is not Autotuner.run

    def launches_itself(self) -> bool:
        """Return True if a subclass launches a configuration in a way of its own."""
        return type(self).launch is not Autotuner.launch

    def choice_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Choice | None:
        """Return the choice for a call that was launched; None if it is not kept."""
        if self._is_single:
            return Choice(None, self.configs[0])
        key = self._key(self.bind(args, kwargs))
        # The object in the cache, as a look-up finds it without comparing items.
        stored = next((one for one in list(self.cache) if one == key), None)
        config = None if stored is None else self.cache.get(stored)
        return None if config is None else Choice(stored, config)

    @public_function
    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the best configuration for these arguments, tuning first if necessary.

        With `warmup`, compile every configuration instead and return a list of the kernels. Raises
        `ArgumentError` for a call that passes a parameter that the configurations set.
        """
        if not warmup:
            return self._launches.launch(grid, args, kwargs)
        call = self._checked(args, kwargs, grid)
        return self._compile(self._pruned(call), call)

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Call:
        """Return the call, or raise if it passes a parameter that the configurations set."""
        call = self.bind(args, kwargs, grid)
        self.nargs = call.positional
        self.check_free(self._chosen, call.named, "@autotune")
        return call

    def launch_ordinary(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Any:
        """Launch without a fast path, tuning first if necessary."""
        call = self._checked(args, kwargs, grid)
        try:
            observer = active_observer()
            if isinstance(observer, NoLaunches):
                return None
            if observer is not None and not self._is_single:
                return observer.launch_tuned(self.__name__, self._alternatives(call))
            config = self.configs[0] if self._is_single else self._best(call)
            return self._launch_chosen(call, config)
        finally:
            self.nargs = None  # which would keep the arrays alive

    def _launch_chosen(self, call: Call, config: Config) -> Any:
        """Launch with the chosen configuration."""
        self.best_config = config
        prepare(config, call.named, self.__name__)
        return self.launch(call, config)

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """Return the configurations to try on a call with `nargs` and these keyword arguments."""
        call = Call((), dict(kwargs), None, self.nargs or {})
        rules = Pruning(self.early_config_prune, self.perf_model, self.configs_top_k)
        return rules(self.configs, call, self.__name__)

    def _pruned(self, call: Call) -> list[Config]:
        """Return the configurations to try on a call."""
        self.nargs = call.positional
        return self.prune_configs(call.kwargs)

    def _alternatives(self, call: Call) -> list[TunedLaunch]:
        """Return every configuration that can run, each with a launch on the current arguments."""
        snapshot = Snapshot()
        configs = self._pruned(call)
        written, skipped = self._written(configs, call)
        self.skipped = skipped.reasons
        for name in {*written, *self.restore_value}:
            self._save(snapshot, name, call)

        def launch(config: Config) -> Any:
            snapshot.restore()
            return self._launch_chosen(call, config)

        return [
            TunedLaunch(str(config), functools.partial(launch, config))
            for config in dict.fromkeys(configs)
            if config not in skipped
        ]

    def by_value(self) -> tuple[bool, Reduction]:
        """Return the recipe to pickle a tuner that is not a module's attribute.

        It includes neither the executor nor the tuning results.
        """
        hooks = (
            self.pre_hook if self.user_defined_pre_hook else None,
            self.post_hook if self.user_defined_post_hook else None,
        )
        rules = {
            "early_config_prune": self.early_config_prune,
            "perf_model": self.perf_model,
            "top_k": self.configs_top_k,
        }
        names = (self.arg_names, self.configs, self.keys, self.reset_to_zero, self.restore_value)
        timing = (self.num_warmups, self.num_reps, self.use_cuda_graph, self._do_bench)
        searching = (None, self.space, self.search, self.effort, self.measure)
        arguments = (self.fn, *names, *hooks, rules, *timing, self.cache_results, *searching)
        return True, (type(self), arguments)

    @public_function
    def written_arguments(self, *args: Any, **kwargs: Any) -> frozenset[str]:
        """Return the names of the array arguments that any configuration of the kernel writes."""
        call = self.bind(args, kwargs, None)
        written, _ = self._written(self._pruned(call), call)
        return written

    def _best(self, call: Call) -> Config:
        try:
            key = self._key(call)
            config = self.cache.get(key) or self.cache.get(self._short_key(call))
        except TypeError:  # unhashable
            self._check_key(call)
            raise
        if config is not None:
            return config
        self._check_key(call)
        if self._launches_nothing(call):  # times of an empty grid would be noise
            return self._first_that_compiles(call)
        with self._tuning:  # a second thread that waited here uses the result of the first
            if key not in self.cache:
                self.cache[key] = self._tune(key, call)
            return self.cache[key]

    def _first_that_compiles(self, call: Call) -> Config:
        configs = self._pruned(call)
        skipped = Skipped(self.__name__)
        for config in configs:
            with skipped.trying(config):
                self._written_by(config, call)
                return config
        skipped.check_some_run(configs)
        raise AssertionError("no configuration compiled, and none failed")

    def _launches_nothing(self, call: Call) -> bool:
        """Return True if the grid has an extent of 0 under the first configuration.

        Return False if a grid function needs values that a wrapped kernel adds (`heuristics`).
        """
        try:
            grid = call.grid_with(self.configs[0], self._parameter_defaults)
        except KeyError:
            return False
        return 0 in normalize_grid(grid)

    def _key(self, call: Call) -> Key:
        """Return the values of the key arguments, the types of the arrays, and the backend."""
        named = call.named
        values = [named.get(name, self._parameter_defaults.get(name)) for name in self.keys]
        types = [(name, kind) for name in self.arg_names if (kind := _array_type(named.get(name)))]
        return HashedKey((*values, *types, settings.backend))

    def _short_key(self, call: Call) -> Key:
        """Return the key under which subclasses store configurations, as Triton's autotuner has it.

        It has no defaults of parameters, devices and backends.
        """
        passed = {name: call.named[name] for name in self.arg_names if name in call.named}
        values = [passed[name] for name in self.keys if name in passed]
        types = [str(value.dtype) for value in passed.values() if hasattr(value, "dtype")]
        return (*values, *types)

    def _check_key(self, call: Call) -> None:
        for name in self.keys:
            value = call.named.get(name)
            try:
                hash(value)
                usable = not getattr(value, "shape", ())
            except TypeError:
                usable = False
            if not usable:
                raise ArgumentTypeError(
                    f"key argument {name!r} of {self.__name__} is a {type(value).__name__}; a key "
                    "is a number, text or other hashable constant, such as a size of that array"
                )

    def _tune(self, key: Key, call: Call) -> Config:
        configs = self._candidates(call)
        if len(configs) == 1:
            return configs[0]

        def benchmark() -> None:
            self._time_all(key, configs, call)

        self._open_results(key, call)
        cached = bool(self.cache_results) and self.check_disk_cache(key, configs, benchmark)
        if not self.cache_results:
            benchmark()
        best = self.cache.get(key) or _fastest(self.configs_timings)
        for listener in list(AUTOTUNE_LISTENERS):
            listener(
                fn=innermost(self),
                key=key,
                best_config=best,
                configs_timings=self.configs_timings,
                duration=None if cached else self.bench_time,
                cache_hit=cached,
            )
        return best

    def _candidates(self, call: Call) -> list[Config]:
        """Return the configurations to try on a call, with compile options of the kernel's space.

        Raises `AutotunerError` for a space without configurations.
        """
        if self.space is None:
            return self._pruned(call)
        self.nargs = call.positional
        space = kernel_space(self.fn, call, self.space)
        rules = Pruning(self.early_config_prune, self.perf_model, self.configs_top_k)
        return rules(space.configs, call, self.__name__)

    def check_disk_cache(
        self, tuning_key: Key, configs: list[Config], bench_fn: Callable[[], object]
    ) -> bool:
        """Call `bench_fn`, which takes results from disk where there are any.

        Return True if it measured nothing. A subclass may set `cache[tuning_key]` instead.
        """
        bench_fn()
        return self._new_results == 0

    def _time_all(self, key: Key, configs: list[Config], call: Call) -> None:
        """Time the configurations. Raises the last error if none of them can run."""
        started = time.perf_counter()
        self._skips = Skipped(self.__name__)
        self.skipped = {}
        self.configs_timings = {}
        if self.search == "exhaustive":
            self._trials(configs, call)
        else:
            self._search(configs, call)
        self.skipped |= self._skips.reasons
        self.bench_time = time.perf_counter() - started if self._new_results else 0.0
        if settings.print_autotuning:
            sys.stderr.write(self._report(key))
        if len(self.skipped) >= len(set(configs)):
            if len(self._skips):
                self._skips.check_some_run(())
            raise self._none_runs()

    def _none_runs(self) -> AutotunerError:
        """Return the error for a run in which nothing could be measured."""
        reasons = list(dict.fromkeys(self.skipped.values()))
        error = AutotunerError(
            f"none of the {len(self.skipped)} configurations of {self.__name__} can run here"
        )
        error.notes += [text.splitlines()[0] for text in reasons[:MOST_REASONS] if text]
        return error

    def _search(self, configs: list[Config], call: Call) -> None:
        """Measure few of the configurations, of which one is close to the best."""
        progress = progress_for(f"autotune {self.__name__}", shown=bool(settings.print_autotuning))
        run = SearchRun(
            self, configs, call, effort=self.effort, starts=self._starts(configs), progress=progress
        )
        try:
            run.run()
        finally:
            self._share = 1.0
            self.configs_timings = run.timings()
        self._prepare_best(call)

    def _starts(self, configs: list[Config]) -> list[Config]:
        """Return configurations that were the best for other keys."""
        of_text = {str(config): config for config in configs}
        texts = [str(config) for config in reversed(self.cache.values())]
        if self._store is not None and self._place is not None:
            texts += self._store.fastest(*self._place)
        return [of_text[text] for text in dict.fromkeys(texts) if text in of_text]

    def _trials(self, configs: list[Config], call: Call) -> None:
        """Time all configurations, and those of a space that may be the best again.

        A list is timed once, as its users expect of their hooks. The arguments are restored.
        """
        missing = [config for config in configs if str(config) not in self._stored]
        self._compile_ahead(missing, call, self._skips)
        for config in dict.fromkeys(configs):
            self.configs_timings[config] = NEVER
            if config not in self._skips:
                self.configs_timings[config] = self.timed(config, call, 1.0) or NEVER
        if self.space is not None:
            self.configs_timings |= run_off_all(self, self.configs_timings, call)
        self._prepare_best(call)

    def _prepare_best(self, call: Call) -> None:
        """Call the user's hook for the best configuration, once after all trials."""
        if not self.user_defined_pre_hook or not self.configs_timings:
            return
        best = _fastest(self.configs_timings)
        if math.isfinite(_cost(self.configs_timings[best])) and self._new_results:
            with user_code(f"the pre_hook of {self.__name__}, on configuration {best},"):
                self.pre_hook(call.arguments(best), reset_only=True)

    @property
    def results(self) -> TuningResults:
        """The last tuning run as a table: `print(tuner.results)`, `.csv(path)`, `.plot(path)`."""
        return TuningResults(self.configs_timings, self.skipped)

    @public_function
    def search_space(self, *args: Any, grid: Any = None, **kwargs: Any) -> Space:
        """Return the space that a launch with these arguments would search.

        Raises `ArgumentTypeError` for a tuner with `configs`.
        """
        if self.space is None:
            raise ArgumentTypeError(f"{self.__name__} is tuned among configs, not in a space")
        return kernel_space(self.fn, self.bind(args, kwargs, grid), self.space)

    def _report(self, key: Key) -> str:
        """Return the last tuning run as a table, fastest first, with the reasons of skips."""
        values = ", ".join(f"{n}={short_repr(v)}" for n, v in zip(self.keys, key, strict=False))
        reasons = {
            config: reason(self._skips.errors[config]) if config in self._skips else text
            for config, text in self.skipped.items()
        }
        count = len({*self.configs_timings, *reasons})
        without = f", {len(reasons)} skipped" if reasons else ""
        stored = f", {len(self._stored)} of them from disk" if self._stored else ""
        title = f"autotune {self.__name__}({values}): {count} configurations "
        title += f"in {self.bench_time:.2f} s{stored}{without}"
        return f"{title}\n{TuningResults(self.configs_timings, reasons)}\n"


def _array_type(value: Any) -> Key | None:
    """Return the dtype and device of an array, or of each of a tuple; None for other values."""
    if isinstance(value, tuple):
        return tuple(map(_array_type, value))
    if isinstance(value, TensorDescriptor):
        value = value.base
    dtype = getattr(value, "dtype", None)
    return None if dtype is None else (dtype, str(getattr(value, "device", "cpu")))


def _cost(times: Sequence[float]) -> float:
    return math.inf if math.isnan(times[0]) else times[0]


def _fastest(timings: Mapping[Config, Sequence[float]]) -> Config:
    return min(timings, key=lambda config: _cost(timings[config]))
