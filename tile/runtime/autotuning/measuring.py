"""Compilation and measurement of an autotuner's configurations.

A trial runs a configuration on the caller's own arguments. The arrays that it may write follow from
the compiled kernel. They are copied before the first trial and restored before and after every run.
`tile.runtime.autotuning.configs` defines which errors only exclude a configuration.

Other threads, processes or hosts of an executor may compile and measure. They do not share the
caller's settings, so that each job brings them along. Grids, which are often lambdas, are not sent.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tile.backends.base import Grid
from tile.backends.capabilities import Assembling
from tile.config import config as settings
from tile.runtime.arguments.adapt import MockArray, retuple
from tile.runtime.arguments.snapshot import Snapshot, fill_zero
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.autotuning.configs import (
    Call,
    Config,
    Kernel,
    KernelWrapper,
    Skipped,
    hook_error,
    user_code,
)
from tile.runtime.autotuning.do_bench import QUANTILES, do_bench, measure, quantiles_of, replayed
from tile.runtime.autotuning.trial import Trial, prepare
from tile.runtime.autotuning.tuning_store import (
    StoredResult,
    TuningStore,
    default_folder,
    launch_target,
    machine_of,
)
from tile.runtime.grid import normalize_grid


def compile_one(
    kernel: Kernel, overrides: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Compile a kernel, and assemble it. The results are in the kernel's cache or on disk."""
    with settings.scope(**overrides):
        compiled = kernel.run(*args, grid=(1,), warmup=True, **kwargs)
        executable = getattr(compiled, "executable", None)
        if isinstance(executable, Assembling):
            executable.assemble()


def measure_one(
    kernel: Kernel,
    overrides: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    grid: Grid,
    warmup: float,
    rep: float,
    quantiles: Sequence[float],
) -> list[float]:
    """Return quantiles of a kernel's times in ms, on copies of its arguments.

    warmup, rep: the approximate time in ms of untimed and of timed launches.
    """
    args = tuple(map(_copied, args))
    kwargs = {name: _copied(value) for name, value in kwargs.items()}
    with settings.scope(**overrides):
        launch = functools.partial(kernel.run, *args, grid=grid, **kwargs)
        return quantiles_of(measure(launch, warmup=warmup, rep=rep), quantiles)


def _copied(value: Any) -> Any:
    """Return a copy of an array, a descriptor, or a tuple with such; other values themselves."""
    if isinstance(value, tuple):
        return retuple(value, [_copied(item) for item in value])
    is_array = hasattr(value, "dtype") and hasattr(value, "shape")
    return copy.deepcopy(value) if is_array or isinstance(value, TensorDescriptor) else value


Key = tuple[Any, ...]

NEVER = [math.inf, math.inf, math.inf]


class Measuring(KernelWrapper):
    """A kernel whose configurations are compiled and measured, on the arguments of a call.

    skipped: the reason, as text, of each configuration that could not run.
    """

    def __init__(
        self,
        fn: Kernel,
        arg_names: Sequence[str],
        *,
        reset_to_zero: Sequence[str] | None,
        restore_value: Sequence[str] | None,
        pre_hook: Callable[..., object] | None,
        post_hook: Callable[..., object] | None,
        warmup: float | None,
        rep: float | None,
        use_cuda_graph: bool,
        do_bench: Callable[..., Any] | None,
        cache_results: bool | str | PathLike[str],
        executor: Executor | None,
        measure: str,
    ) -> None:
        super().__init__(fn, arg_names)
        self.measure = measure
        self.reset_to_zero = list(reset_to_zero or ())
        self.restore_value = list(restore_value or ())
        self.restore_copies: dict[str, Snapshot] = {}
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.pre_hook = self._reset if pre_hook is None else pre_hook
        self.post_hook = self._restore if post_hook is None else post_hook
        self.num_warmups = 25.0 if warmup is None else warmup
        self.num_reps = 100.0 if rep is None else rep
        self.use_cuda_graph = use_cuda_graph
        self._do_bench = do_bench
        self.cache_results = cache_results or settings.cache_autotuning
        self.executor = executor
        self.skipped: dict[Config, str] = {}
        self._skips = Skipped(self.__name__)
        self._share = 1.0  # of the usual time of measuring
        self._stored: dict[str, StoredResult] = {}  # results on disk of the current run
        self._place: tuple[Key, str] | None = None  # where the current run stores its results
        self._new_results = 0  # of the current run
        self._parameter_defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(self.base_fn).parameters.items()
            if parameter.default is not parameter.empty
        }

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

    @functools.cached_property
    def _store(self) -> TuningStore | None:
        """The results on disk; None if they are not stored."""
        if not self.cache_results:
            return None
        folder = default_folder() if self.cache_results is True else Path(self.cache_results)
        return TuningStore(folder, self.fn, self.base_fn)

    @property
    def do_bench(self) -> Callable[..., Any]:
        """The function that times a run: `do_bench(run, quantiles=(0.5, 0.2, 0.8))`, in ms."""
        if self._do_bench is not None:
            return self._do_bench
        return functools.partial(do_bench, warmup=self.num_warmups, rep=self.num_reps)

    def launch(self, call: Call, config: Config, *, warmup: bool = False) -> Any:
        """Run the wrapped kernel on `call` with `config`, without hooks."""
        return self.fn.run(*call.args, grid=call.grid, warmup=warmup, **call.with_config(config))

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
        with user_code(f"the grid of {self.__name__}"):
            grid = call.grid_with(config, self._parameter_defaults)
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
        prepare(config, call.named, kernel)
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
