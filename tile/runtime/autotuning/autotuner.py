"""`autotune`: choose a kernel's meta-parameters by benchmarking.

A tuner wraps a kernel, or another wrapper, and is a kernel itself. A trial runs a configuration on
the caller's own arguments. The arrays that it may write follow from the compiled kernel. They are
copied before the first trial and restored before and after every run, so that finally the best
configuration runs once, on the data that the caller passed.
`tile.runtime.autotuning.skipped_configs` defines which errors only exclude a configuration.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tile._lazy import lazy_import
from tile.config import config as settings
from tile.errors import ArgumentTypeError, AutotunerError
from tile.pickling import Reduction
from tile.runtime.arguments.adapt import MockArray
from tile.runtime.arguments.snapshot import Snapshot, fill_zero
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.autotuning.configs import (
    Call,
    Config,
    Kernel,
    KernelWrapper,
    Pruning,
    hook_error,
    innermost,
    pruning,
    user_code,
)
from tile.runtime.autotuning.do_bench import QUANTILES, do_bench, measure, quantiles_of
from tile.runtime.autotuning.fast_path import Choice
from tile.runtime.autotuning.graph_replays import replayed
from tile.runtime.autotuning.progress import progress_for
from tile.runtime.autotuning.results_table import TuningResults
from tile.runtime.autotuning.skipped_configs import MOST_REASONS, Skipped, reason
from tile.runtime.autotuning.space import TILE_OPTIONS, Space
from tile.runtime.autotuning.trial import Trial, launch_arguments, prepare
from tile.runtime.autotuning.tuned_launches import TunedLaunches
from tile.runtime.autotuning.tuning_store import (
    StoredResult,
    TuningStore,
    default_folder,
    launch_target,
    machine_of,
)
from tile.runtime.autotuning.worker import compile_one, measure_one
from tile.runtime.binding import OPTION_DEFAULTS
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

Key = tuple[Any, ...]

NEVER = [math.inf, math.inf, math.inf]


class Autotuner(KernelWrapper):
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
        super().__init__(fn, arg_names)
        self.space = space
        self.search = search or ("exhaustive" if space is None else "auto")
        self.effort = effort
        self.measure = measure
        self.configs = (list(configs) if space is None else space.configs) or [Config({})]
        self.keys = tuple(key)
        self.reset_to_zero = list(reset_to_zero or ())
        self.restore_value = list(restore_value or ())
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.pre_hook = self._reset if pre_hook is None else pre_hook
        self.post_hook = self._restore if post_hook is None else post_hook
        rules = pruning(prune_configs_by)
        self.early_config_prune = rules.early_config_prune
        self.perf_model = rules.perf_model
        self.configs_top_k = rules.top_k
        self.num_warmups = 25.0 if warmup is None else warmup
        self.num_reps = 100.0 if rep is None else rep
        self.use_cuda_graph = use_cuda_graph
        self._do_bench = do_bench
        self.cache_results = cache_results or settings.cache_autotuning
        self.executor = executor
        self.cache: dict[Key, Config] = {}
        self.nargs: dict[str, Any] | None = None
        self.best_config: Config | Any = None  # None before the first launch
        self.configs_timings: dict[Config, list[float]] = {}
        self.restore_copies: dict[str, Snapshot] = {}
        self.skipped: dict[Config, str] = {}
        self.bench_time = 0.0
        self._skips = Skipped(self.__name__)
        self._tuning = threading.RLock()
        self._launches = TunedLaunches(self)
        self._chosen = dict.fromkeys(name for c in self.configs for name in c.all_kwargs())
        if space is not None:
            self._chosen |= dict.fromkeys((*TILE_OPTIONS, "tile_sizes"))
        self._share = 1.0  # of the usual time of measuring
        self._stored: dict[str, StoredResult] = {}  # results on disk of the current run
        self._place: tuple[Key, str] | None = None  # where the current run stores its results
        self._new_results = 0  # of the current run
        self._parameter_defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(self.base_fn).parameters.items()
            if parameter.default is not parameter.empty
        }

    @functools.cached_property
    def _store(self) -> TuningStore | None:
        """The results on disk; None if they are not stored."""
        if not self.cache_results:
            return None
        folder = default_folder() if self.cache_results is True else Path(self.cache_results)
        return TuningStore(folder, self.fn, self.base_fn)

    @property
    def _is_single(self) -> bool:
        """True for a single configuration, which is not timed."""
        return self.space is None and len(self.configs) == 1

    @property
    def do_bench(self) -> Callable[..., Any]:
        """The function that times a run: `do_bench(run, quantiles=(0.5, 0.2, 0.8))`, in ms."""
        if self._do_bench is not None:
            return self._do_bench
        return functools.partial(do_bench, warmup=self.num_warmups, rep=self.num_reps)

    def _reset(self, arguments: Mapping[str, Any], reset_only: bool = False) -> None:
        """Set `reset_to_zero` to 0 and copy `restore_value`: the `pre_hook` if there is no other.

        Trials do both themselves; this is for subclasses that run the kernel in their own way.
        """
        for name in self.reset_to_zero:
            if arguments.get(name) is not None:
                fill_zero(name, arguments[name])
        for name in () if reset_only else self.restore_value:
            if arguments.get(name) is not None:
                self.restore_copies[name] = Snapshot()
                self.restore_copies[name].save(name, arguments[name])

    def _restore(self, arguments: Mapping[str, Any], exception: Exception | None = None) -> None:
        """Restore what `_reset` has copied: the `post_hook` if there is no other."""
        for snapshot in self.restore_copies.values():
            snapshot.restore()
        self.restore_copies.clear()

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return the launch function of the kernel's arguments, on `grid`."""
        return functools.partial(self._launches.latest, grid)

    def launches_itself(self) -> bool:
        """Return True if a subclass launches in a way of its own."""
        own = type(self)
        return own.run is not Autotuner.run or own.launch is not Autotuner.launch

    def choice_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Choice | None:
        """Return the choice for a call that was launched; None if it is not kept."""
        key = None if self._is_single else self._key(self.bind(args, kwargs))
        config = self.configs[0] if key is None else self.cache.get(key)
        return None if config is None else Choice(key, config)

    @public_function
    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the best configuration for these arguments, tuning first if necessary.

        With `warmup`, compile every configuration instead and return a list of the kernels. Raises
        `ArgumentError` for a call that passes a parameter that the configurations set.
        """
        call = self.bind(args, kwargs, grid)
        self.nargs = call.positional
        self.check_free(self._chosen, call, "@autotune")
        if warmup:
            return self._compile(self._pruned(call), call)
        observer = active_observer()
        if isinstance(observer, NoLaunches):
            return None
        if observer is not None and not self._is_single:
            return observer.launch_tuned(self.__name__, self._alternatives(call))
        config = self.configs[0] if self._is_single else self._best(call)
        return self._launch_chosen(call, config)

    def _launch_chosen(self, call: Call, config: Config) -> Any:
        """Launch with the chosen configuration."""
        self.best_config = config
        prepare(config, call, self.__name__)
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

    def launch(self, call: Call, config: Config, *, warmup: bool = False) -> Any:
        """Run the wrapped kernel on `call` with `config`, without hooks."""
        return self.fn.run(*call.args, grid=call.grid, warmup=warmup, **call.with_config(config))

    @public_function
    def written_arguments(self, *args: Any, **kwargs: Any) -> frozenset[str]:
        """Return the names of the array arguments that any configuration of the kernel writes."""
        call = self.bind(args, kwargs, None)
        written, _ = self._written(self._pruned(call), call)
        return written

    def _written(self, configs: list[Config], call: Call) -> tuple[frozenset[str], Skipped]:
        """Return the arguments that any configuration writes, and the configurations skipped."""
        written: frozenset[str] = frozenset()
        skipped = Skipped(self.__name__)
        for config in configs:
            with skipped.trying(config):
                written |= self._written_by(config, call)
        skipped.check_some_run(configs)
        return written, skipped

    def _written_by(self, config: Config, call: Call) -> frozenset[str]:
        """Compile a configuration, and return the arguments that it writes."""
        _set_blocks(config, call, self.__name__)
        return self.fn.written_arguments(*call.args, **call.with_config(config))

    def _best(self, call: Call) -> Config:
        key = self._key(call)
        try:
            config = self.cache.get(key) or self.cache.get(self._short_key(call))
        except TypeError:  # unhashable: _check_key names the culprit
            config = None
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
        grid = call.grid
        try:
            if callable(grid):
                values = {**OPTION_DEFAULTS, **self._parameter_defaults, **call.named}
                grid = grid({**values, **self.configs[0].all_kwargs()})
        except KeyError:
            return False
        return 0 in normalize_grid(grid)

    def _key(self, call: Call) -> Key:
        """Return the values of the key arguments, the types of the arrays, and the backend."""
        named = call.named
        values = [named.get(name, self._parameter_defaults.get(name)) for name in self.keys]
        types = [(name, kind) for name in self.arg_names if (kind := _array_type(named.get(name)))]
        return (*values, *types, settings.backend)

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

    def _open_results(self, key: Key, call: Call) -> None:
        """Read the results on disk for a key."""
        self._stored, self._place, self._new_results = {}, None, 0
        if self._store is None:
            return
        try:
            machine = machine_of(launch_target(self.fn, call.named))
        except AttributeError:  # a kernel of another class
            machine = str(settings.backend)
        self._place = key, machine
        self._stored = self._store.load(key, machine)

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
                self.pre_hook(launch_arguments(call, best), reset_only=True)

    def timed(self, config: Config, call: Call, share: float) -> list[float]:
        """Return times of a configuration in ms: from disk, or measured, and then stored.

        share: of the usual time of measuring. Empty for a configuration that cannot run, whose
        reason is in `skipped`.
        """
        stored = self._stored.get(str(config))
        if stored is not None:
            if not stored.times:
                self.skipped[config] = stored.reason
            return list(stored.times)
        self._share = share
        times = list(self._bench(*call.args, config=config, grid=call.grid, **call.kwargs))
        self.keep(config, times)
        return [] if config in self._skips else times

    def compiled(self, config: Config, call: Call) -> Any:
        """Return the compiled kernel of a configuration; None if it does not compile."""
        compiled: list[Any] = []
        with self._skips.trying(config):
            _set_blocks(config, call, self.__name__)
            compiled.append(self.launch(call, config, warmup=True))
        return compiled[0] if compiled else None

    def skip(self, config: Config, reason: str) -> None:
        """Record why a configuration is not tried."""
        self.skipped[config] = reason

    @property
    def measures_by_executor(self) -> bool:
        """True if the executor measures configurations, too."""
        return self.measure == "executor" and self.executor is not None

    def submit(self, config: Config, call: Call, share: float = 1.0) -> Future[Any]:
        """Compile a configuration by the executor, or also measure it, on copies of the arguments.

        share: of the usual time of measuring.
        """
        assert self.executor is not None
        job = (self.fn, _overrides(), call.args, call.with_config(config))
        if not self.measures_by_executor:
            return self.executor.submit(compile_one, *job)
        grid = call.grid
        if callable(grid):
            values = {**OPTION_DEFAULTS, **self._parameter_defaults, **call.named}
            with user_code(f"the grid of {self.__name__}"):
                grid = grid({**values, **config.all_kwargs()})
        times = (self.num_warmups * share, self.num_reps * share)
        return self.executor.submit(measure_one, *job, normalize_grid(grid), *times, QUANTILES)

    def stores(self, config: Config) -> bool:
        """Return True if a configuration's result is on disk."""
        return str(config) in self._stored

    def keep(self, config: Config, times: Sequence[float]) -> list[float]:
        """Store times of a configuration, and return them."""
        self._new_results += 1
        if self._store is not None and self._place is not None:
            self._store.save(*self._place, config, times, self.skipped.get(config, ""))
        return list(times)

    def _bench(
        self, *args: Any, config: Config, grid: Any = None, warmup: bool = False, **meta: Any
    ) -> Sequence[float]:
        """Return the times of a configuration on these arguments, which are restored after it.

        Return infinity, and add the reason to `skipped`, if it cannot run.
        """
        call = self.bind(args, meta, grid)
        snapshot = Snapshot()
        for name in (*self.restore_value, *self.reset_to_zero):
            self._save(snapshot, name, call)
        times: Sequence[float] = NEVER
        try:
            with self._skips.trying(config):
                for name in self._written_by(config, call):
                    self._save(snapshot, name, call)
                times = self._time(Trial(self, config, call, snapshot))
        finally:
            snapshot.restore()
        if config in self._skips:
            self.skipped[config] = str(self._skips.errors[config])
        return times

    @staticmethod
    def _save(snapshot: Snapshot, name: str, call: Call) -> None:
        value = call.named.get(name)
        if value is not None:
            snapshot.save(name, value)

    def _time(self, trial: Trial) -> list[float]:
        if self._do_bench is not None:
            return self._benchmark(trial, self._do_bench)
        samples = measure(
            trial.launch,
            warmup=self.num_warmups * self._share,
            rep=self.num_reps * self._share,
            before=trial.before,
            after=trial.after,
        )
        if self.use_cuda_graph:
            samples = replayed(trial, samples, self.num_reps * self._share)
        return quantiles_of(samples, QUANTILES)

    def _benchmark(self, trial: Trial, do_bench: Callable[..., Any]) -> list[float]:
        """Time a trial with the user's function, which propagates the errors of its runs."""
        try:
            times = [float(t) for t in np.ravel(do_bench(trial, quantiles=QUANTILES))]
        except Exception as error:
            if any(error is failure for failure in trial.failures):
                raise
            name = f"the do_bench of {self.__name__}, on configuration {trial.config},"
            raise hook_error(name, error) from error
        return times if len(times) > 1 else times * len(QUANTILES)

    def _compile(self, configs: list[Config], call: Call) -> list[Any]:
        """Return the compiled kernel of each configuration that can run; raise if none can."""
        skipped = Skipped(self.__name__)
        self._compile_ahead(configs, call, skipped)
        compiled: list[Any] = []
        for config in configs:
            if config not in skipped:
                with skipped.trying(config):
                    _set_blocks(config, call, self.__name__)
                    compiled.append(self.launch(call, config, warmup=True))
        self.skipped = skipped.reasons
        skipped.check_some_run(configs)
        return compiled

    def _compile_ahead(self, configs: list[Config], call: Call, skipped: Skipped) -> None:
        """Fill the kernel's cache with the executor, if there is one.

        Do nothing if configurations change the arguments for which kernels are specialized.
        """
        if self.executor is None or any(_sets_blocks(config, call) for config in configs):
            return
        futures = {config: self.submit(config, call) for config in dict.fromkeys(configs)}
        try:
            for config, future in futures.items():
                with skipped.trying(config):
                    future.result()
        finally:
            for future in futures.values():
                future.cancel()

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


def _overrides() -> dict[str, Any]:
    """Return the settings of `with` blocks, for a worker, which does not share them."""
    return {
        name: settings.overrides[variable.name]
        for name, variable in settings.variables().items()
        if variable.name in settings.overrides
    }


def _sets_blocks(config: Config, call: Call) -> bool:
    """Return True if a configuration's hook may set the blocks of descriptors, as in Triton."""
    has_descriptor = any(isinstance(value, TensorDescriptor) for value in call.named.values())
    return has_descriptor and config.pre_hook is not None


def _set_blocks(config: Config, call: Call, kernel: str) -> None:
    """Let a configuration's hook set the blocks of descriptors, before the kernel is compiled.

    Changes of arrays by the hook are undone: this call precedes no launch, and the arrays that the
    kernel writes are known only after compilation.
    """
    if not _sets_blocks(config, call):
        return
    snapshot = Snapshot()
    for name, value in call.named.items():
        if _has_data(value):
            snapshot.save(name, value)
    try:
        prepare(config, call, kernel)
    finally:
        snapshot.restore()


def _has_data(value: Any) -> bool:
    """Return True for arrays, and for descriptors and tuples of them."""
    if isinstance(value, tuple):
        return any(map(_has_data, value))
    if isinstance(value, TensorDescriptor):
        value = value.base
    shaped = hasattr(value, "dtype") and hasattr(value, "shape")
    return shaped and not isinstance(value, MockArray | np.generic)


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
