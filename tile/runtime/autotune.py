"""Choosing a kernel's meta-parameters: by trial (`autotune`) or by rule (`heuristics`).

Both wrap a kernel, or each other, and are kernels themselves. A trial runs a configuration on the
caller's own arguments. What it may write is known from the compiled kernel, is copied before the
first trial and is put back before and after every run, so that in the end the chosen configuration
runs once, on the data that the caller passed.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tile.config import config as settings
from tile.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    BackendError,
    OutOfResourcesError,
    TileError,
)
from tile.runtime.binding import OPTION_DEFAULTS
from tile.runtime.descriptor import TensorDescriptor
from tile.runtime.grid import normalise_grid
from tile.runtime.observer import Alternative, observing
from tile.runtime.snapshot import Snapshot, fill_zero
from tile.runtime.timing import measure, quantiles_of
from tile.runtime.tuning import Call, Config, Kernel, KernelWrapper, Pruning, pruning
from tile.runtime.tuning_store import TuningStore, default_folder

__all__ = ["Autotuner", "Config", "Heuristics", "Kernel", "autotune", "heuristics"]

Key = tuple[Any, ...]

# The errors that mean "this configuration cannot run here" and take it out of the race. All others
# are the user's own mistakes and are raised.
CANNOT_RUN: tuple[type[TileError], ...] = (BackendError, OutOfResourcesError)

# What a timing holds: the median, then the two times between which the middle 60 % lie; in ms.
QUANTILES = (0.5, 0.2, 0.8)
NEVER = [math.inf, math.inf, math.inf]


class _Trial:
    """One configuration on a call's arguments; `before`, `launch` and `after` make up one run."""

    def __init__(self, tuner: Autotuner, config: Config, call: Call, kept: Snapshot) -> None:
        self.tuner = tuner
        self.config = config
        self.call = call
        self.kept = kept

    @property
    def arguments(self) -> dict[str, Any]:
        return {**self.call.named, **self.config.all_kwargs()}

    def before(self) -> None:
        self.kept.restore()
        for name in self.tuner.reset_to_zero:
            if self.call.named.get(name) is not None:
                fill_zero(name, self.call.named[name])
        for hook in (self.config.pre_hook, self.tuner.pre_hook):
            if hook is not None:
                hook(self.arguments)

    def launch(self) -> None:
        try:
            self.tuner.launch(self.call, self.config)
        except Exception as error:
            self._post(error)
            raise

    def after(self) -> None:
        self._post(None)

    def _post(self, error: Exception | None) -> None:
        if self.tuner.post_hook is not None:
            self.tuner.post_hook(self.arguments, exception=error)

    def __call__(self) -> None:
        self.before()
        self.launch()
        self.after()


class Autotuner(KernelWrapper):
    """A kernel whose configuration is chosen by trial, anew for each key.

    `cache` holds the chosen configuration by key, `best_config` the last one used,
    `configs_timings` the last tuning run's times (median, 20 % and 80 % quantile in ms; inf for
    what could not run) and `bench_time` how many seconds that run took.
    """

    def __init__(
        self,
        kernel: Kernel,
        configs: Sequence[Config],
        key: Sequence[str],
        *,
        prune: Pruning,
        reset_to_zero: Sequence[str] = (),
        restore_value: Sequence[str] = (),
        pre_hook: Callable[..., object] | None = None,
        post_hook: Callable[..., object] | None = None,
        warmup_ms: float = 25,
        rep_ms: float = 100,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        store: TuningStore | None = None,
        executor: Executor | None = None,
    ) -> None:
        super().__init__(kernel)
        self.configs = list(configs) or [Config({})]
        self.keys = self.check_names("key", key)
        self.reset_to_zero = self.check_names("reset_to_zero", reset_to_zero)
        self.restore_value = self.check_names("restore_value", restore_value)
        self.pre_hook = pre_hook
        self.post_hook = post_hook
        self.use_cuda_graph = use_cuda_graph
        self.executor = executor
        self.cache: dict[Key, Config] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, list[float]] = {}
        self.bench_time = 0.0
        self._pruning = prune
        self._warmup_ms = warmup_ms
        self._rep_ms = rep_ms
        self._do_bench = do_bench
        self._store = store
        self._tuning = threading.RLock()
        self._chosen = dict.fromkeys(name for c in self.configs for name in c.all_kwargs())
        self._parameter_defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(self.fn).parameters.items()
            if parameter.default is not parameter.empty
        }

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the best configuration for these arguments, found first if need be.

        With `warmup`, compile every configuration instead and return what was compiled, as a list.
        Raises `ArgumentError` for a call that passes what the configurations choose.
        """
        call = self.bind(args, kwargs, grid)
        self.check_free(self._chosen, call, "@autotune")
        if warmup:
            return self._compile(self._pruning(self.configs, call), call)
        observer = observing()
        if observer is not None and len(self.configs) > 1:
            return observer.tuned(self.__name__, self._alternatives(call))
        config = self.configs[0] if len(self.configs) == 1 else self._best(call)
        return self._launch_chosen(call, config)

    def _launch_chosen(self, call: Call, config: Config) -> Any:
        """Launch with a configuration that stays."""
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**call.named, **config.all_kwargs()})
        return self.launch(call, config)

    def _alternatives(self, call: Call) -> list[Alternative]:
        """Every configuration that can run here, each on the arguments as they are now."""
        kept = Snapshot()
        for name in {*self.written_arguments(*call.args, **call.kwargs), *self.restore_value}:
            self._keep(kept, name, call)

        def launch(config: Config) -> Any:
            kept.restore()
            return self._launch_chosen(call, config)

        return [
            Alternative(str(config), functools.partial(launch, config))
            for config in dict.fromkeys(self._pruning(self.configs, call))
        ]

    def launch(self, call: Call, config: Config, *, warmup: bool = False) -> Any:
        """Run the wrapped kernel on `call` under `config`, without hooks."""
        return self.kernel.run(
            *call.args, grid=call.grid, warmup=warmup, **call.with_config(config)
        )

    def written_arguments(self, *args: Any, **kwargs: Any) -> frozenset[str]:
        """Names of the array arguments that the kernel writes under any of its configurations."""
        call = self.bind(args, kwargs, None)
        written: frozenset[str] = frozenset()
        failures: dict[Config, TileError] = {}
        configs = self._pruning(self.configs, call)
        for config in configs:
            try:
                _set_blocks(config, call)
                written |= self.kernel.written_arguments(*args, **call.with_config(config))
            except CANNOT_RUN as error:
                failures[config] = error
        self._check_some_run(configs, failures)
        return written

    def _best(self, call: Call) -> Config:
        key = self._key(call)
        try:
            config = self.cache.get(key)
        except TypeError:  # unhashable: _check_key names the culprit
            config = None
        if config is not None:
            return config
        self._check_key(call)
        if self._launches_nothing(call):  # times of no programs would choose by chance
            return self.configs[0]
        with self._tuning:  # a second thread that waited here finds the first one's result
            if key not in self.cache:
                self.cache[key] = self._tune(key, call)
            return self.cache[key]

    def _launches_nothing(self, call: Call) -> bool:
        """Return True if the grid is known to have an extent of 0 under the first configuration.

        A grid function may ask for what a kernel inside adds (`heuristics`); that is not known.
        """
        grid = call.grid
        try:
            if callable(grid):
                known = {**OPTION_DEFAULTS, **self._parameter_defaults, **call.named}
                grid = grid({**known, **self.configs[0].all_kwargs()})
        except KeyError:
            return False
        return 0 in normalise_grid(grid)

    def _key(self, call: Call) -> Key:
        """Values of the key arguments, types of the arrays, and the backend asked for."""
        named = call.named
        values = [named.get(name, self._parameter_defaults.get(name)) for name in self.keys]
        types = [(name, kind) for name in self.arg_names if (kind := _array_type(named.get(name)))]
        return (*values, *types, settings.backend)

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
        started = time.perf_counter()
        configs = self._pruning(self.configs, call)
        if len(configs) == 1:
            return configs[0]
        stored = self._stored(key, configs)
        if stored is not None:
            self.configs_timings, self.bench_time = stored, 0.0
            return _fastest(stored)
        failures: dict[Config, TileError] = {}
        timings = self._trials(configs, call, failures)
        self.configs_timings = timings
        self.bench_time = time.perf_counter() - started
        if settings.print_autotuning:
            sys.stderr.write(self._report(key, failures))
        self._check_some_run(configs, failures)
        if self._store is not None:
            self._store.save(key, {str(config): times for config, times in timings.items()})
        return _fastest(timings)

    def _stored(self, key: Key, configs: list[Config]) -> dict[Config, list[float]] | None:
        kept = None if self._store is None else self._store.load(key)
        if kept is None or not all(str(config) in kept for config in configs):
            return None
        timings = {config: kept[str(config)] for config in configs}
        return timings if math.isfinite(_cost(timings[_fastest(timings)])) else None

    def _trials(
        self, configs: list[Config], call: Call, failures: dict[Config, TileError]
    ) -> dict[Config, list[float]]:
        """Times of all; those that cannot run go to `failures`. Arguments end as they began."""
        self._compile_ahead(configs, call, failures)
        kept = Snapshot()
        for name in (*self.restore_value, *self.reset_to_zero):
            self._keep(kept, name, call)
        timings: dict[Config, list[float]] = {}
        for config in dict.fromkeys(configs):
            timings[config] = NEVER
            if config in failures:
                continue
            try:
                _set_blocks(config, call)
                # What only this configuration writes is still untouched by those before it.
                for name in self.kernel.written_arguments(*call.args, **call.with_config(config)):
                    self._keep(kept, name, call)
                timings[config] = self._time(_Trial(self, config, call, kept))
            except CANNOT_RUN as error:
                failures[config] = error
            finally:
                kept.restore()
        if self.pre_hook is not None and len(failures) < len(timings):
            self.pre_hook({**call.named, **_fastest(timings).all_kwargs()}, reset_only=True)
        return timings

    @staticmethod
    def _keep(kept: Snapshot, name: str, call: Call) -> None:
        value = call.named.get(name)
        if value is not None:
            kept.keep(name, value)

    def _time(self, trial: _Trial) -> list[float]:
        if self._do_bench is not None:
            times = [float(t) for t in np.ravel(self._do_bench(trial, quantiles=QUANTILES))]
            return times if len(times) > 1 else times * len(QUANTILES)
        samples = measure(
            trial.launch,
            warmup=self._warmup_ms,
            rep=self._rep_ms,
            before=trial.before,
            after=trial.after,
        )
        return quantiles_of(samples, QUANTILES)

    def _compile(self, configs: list[Config], call: Call) -> list[Any]:
        """What was compiled for each configuration that can run; raises when none can."""
        failures: dict[Config, TileError] = {}
        self._compile_ahead(configs, call, failures)
        compiled: list[Any] = []
        for config in configs:
            try:
                if config not in failures:
                    _set_blocks(config, call)
                    compiled.append(self.launch(call, config, warmup=True))
            except CANNOT_RUN as error:
                failures[config] = error
        self._check_some_run(configs, failures)
        return compiled

    def _compile_ahead(
        self, configs: list[Config], call: Call, failures: dict[Config, TileError]
    ) -> None:
        """Fill the kernel's cache through the executor, if there is one.

        Not where configurations change the arguments that kernels are compiled for.
        """
        if self.executor is None or any(_sets_blocks(config, call) for config in configs):
            return
        overrides = {
            name: settings.overrides[variable.name]
            for name, variable in settings.variables().items()
            if variable.name in settings.overrides
        }
        futures = {
            config: self.executor.submit(_compile_one, self.kernel, overrides, call, config)
            for config in dict.fromkeys(configs)
        }
        try:
            for config, future in futures.items():
                try:
                    future.result()
                except CANNOT_RUN as error:
                    failures[config] = error
        finally:
            for future in futures.values():
                future.cancel()

    def _check_some_run(self, configs: list[Config], failures: dict[Config, TileError]) -> None:
        if len(failures) < len(set(configs)):
            return
        *others, (config, last) = failures.items()
        last.notes.append(f"this was configuration {config} of {self.__name__}")
        last.notes.append(f"none of its {len(failures)} configurations can run here")
        last.notes += [f"{other}: {error.message}" for other, error in others]
        raise last

    def _report(self, key: Key, failures: Mapping[Config, TileError]) -> str:
        """The last tuning run as a table, fastest first."""
        values = ", ".join(f"{n}={v!r}" for n, v in zip(self.keys, key, strict=False))
        lines = [
            f"autotune {self.__name__}({values}): {len(self.configs_timings)} configurations "
            f"in {self.bench_time:.2f} s",
            f"{'median ms':>12}{'20 %':>12}{'80 %':>12}  configuration",
        ]
        for config, times in sorted(self.configs_timings.items(), key=lambda item: _cost(item[1])):
            reason = f"  ({failures[config].message})" if config in failures else ""
            lines.append("".join(f"{t:12.4g}" for t in times) + f"  {config}{reason}")
        return "\n".join(lines) + "\n"


def _sets_blocks(config: Config, call: Call) -> bool:
    """Whether a configuration may set the blocks of descriptors, as Triton's programs do."""
    given = any(isinstance(value, TensorDescriptor) for value in call.named.values())
    return given and config.pre_hook is not None


def _set_blocks(config: Config, call: Call) -> None:
    """Let a configuration set the blocks of descriptors, before the kernel is compiled for them."""
    if config.pre_hook is not None and _sets_blocks(config, call):
        config.pre_hook({**call.named, **config.all_kwargs()})


def _compile_one(kernel: Kernel, overrides: dict[str, Any], call: Call, config: Config) -> None:
    # Runs in a worker of the executor, which does not share the caller's settings. What it compiles
    # stays in the kernel's cache, since a compiled kernel need not fit through a pipe.
    with settings.scope(**overrides):
        kernel.run(*call.args, grid=call.grid, warmup=True, **call.with_config(config))


def _array_type(value: Any) -> Key | None:
    """What an array, or each of a tuple of them, is made of and where; None for other values."""
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


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., object] | None = None,
    post_hook: Callable[..., object] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool | str | PathLike[str] = False,
    executor: Executor | None = None,
) -> Callable[[Kernel], Autotuner]:
    """Decorator: choose among `configs` by trial, whenever a new key comes.

    The key is made of the values of the parameters named in `key`, the dtype and device of every
    array and the backend. Each configuration is run on the arguments of the call that brought the
    key; arrays that the kernel writes are restored by themselves, so the call has the effect of one
    launch. No configurations mean the default one; a single one is used untried.

    - `prune_configs_by`: `early_config_prune(configs, positional_arguments, **keyword_arguments)`,
      which returns the configurations to keep; `perf_model(**all_arguments)`, an estimate of the
      time; and `top_k`, how many of the best by that estimate are tried (a count, or a share as a
      float).
    - `reset_to_zero`: arrays set to 0 before every run of a trial, and put back after it.
    - `restore_value`: arrays to restore that the kernel changes in ways its own code does not show.
    - `pre_hook(arguments)`, `post_hook(arguments, exception=None)`: called before and after every
      run of a trial, and `pre_hook(arguments, reset_only=True)` once after tuning.
    - `warmup`, `rep`: for about how many ms a configuration is run untimed (25) and timed (100).
    - `do_bench(run, quantiles=(0.5, 0.2, 0.8))`: takes the place of the timing; returns ms for
      each.
    - `use_cuda_graph`: accepted for programs that pass it; launches are timed one by one.
    - `cache_results`: keep results on disk for later processes; True, or the folder to use.
    - `executor`: compiles the configurations side by side, before they are timed one by one;
      threads, or workers elsewhere if kernel and arguments can be pickled and they share a cache.

    Raises `ArgumentError` for names that are no parameters; the wrapped kernel raises it for calls
    that pass what the configurations choose. When no configuration can run, the last one's error is
    raised.
    """
    for config in configs:
        if not isinstance(config, Config):
            raise ArgumentTypeError(f"autotune takes a list of Config, with {config!r} in it")
    for name, value in (("warmup", warmup), ("rep", rep)):
        if value is not None and not value >= 0:
            raise ArgumentValueError(f"{name}={value} of autotune is a time in ms: zero or more")

    def decorate(kernel: Kernel) -> Autotuner:
        store = None
        if cache_results is not False:
            folder = default_folder() if cache_results is True else Path(cache_results)
            store = TuningStore(folder, kernel.fn, [str(config) for config in configs])
        return Autotuner(
            kernel,
            configs,
            key,
            prune=pruning(prune_configs_by),
            reset_to_zero=reset_to_zero or (),
            restore_value=restore_value or (),
            pre_hook=pre_hook,
            post_hook=post_hook,
            warmup_ms=25 if warmup is None else warmup,
            rep_ms=100 if rep is None else rep,
            use_cuda_graph=use_cuda_graph,
            do_bench=do_bench,
            store=store,
            executor=executor,
        )

    return decorate


class Heuristics(KernelWrapper):
    """A kernel some of whose meta-parameters are computed from its other arguments."""

    def __init__(
        self, kernel: Kernel, values: Mapping[str, Callable[[dict[str, Any]], Any]]
    ) -> None:
        super().__init__(kernel)
        self.values = dict(values)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Run the wrapped kernel with the computed values added.

        Raises `ArgumentTypeError` if the call passes one of them.
        """
        return self.kernel.run(*args, grid=grid, warmup=warmup, **self._with_values(args, kwargs))

    def written_arguments(self, *args: Any, **kwargs: Any) -> frozenset[str]:
        """Names of the array arguments that the wrapped kernel writes with the computed values."""
        return self.kernel.written_arguments(*args, **self._with_values(args, kwargs))

    def _with_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        call = self.bind(args, kwargs, None)
        self.check_free(self.values, call, "@heuristics")
        named = call.named
        computed: dict[str, Any] = {}
        for name, rule in self.values.items():
            computed[name] = named[name] = rule(dict(named))
        return {**kwargs, **computed}


def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Kernel], Heuristics]:
    """Decorator: compute meta-parameters by `values[name](arguments)` at every call.

    `arguments` holds what was passed, by name, and what the rules before computed. Raises
    `ArgumentTypeError` for a rule that is no function.
    """
    for name, rule in values.items():
        if not callable(rule):
            raise ArgumentTypeError(
                f"heuristics takes functions of the arguments, not {rule!r}: "
                f"{{{name!r}: lambda args: ...}}"
            )
    return lambda kernel: Heuristics(kernel, values)
