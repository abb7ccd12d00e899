"""One tuning run of a tuned kernel: the times of its configurations on the arguments of a call.

Results come from three places: from disk, from an earlier configuration of equal code, and from
measurements, which are stored at once. So a run that is interrupted loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from typing import Any, Protocol

from tile.errors import TileError
from tile.runtime.autotuning.configs import CANNOT_RUN, Call, Config
from tile.runtime.autotuning.cost_model import estimate, features, misfit
from tile.runtime.autotuning.do_bench import QUANTILES
from tile.runtime.autotuning.finalists import SHARE as SHARE_AGAIN
from tile.runtime.autotuning.finalists import Measured, run_off
from tile.runtime.autotuning.kernel_space import Profile, profiled
from tile.runtime.autotuning.progress import Progress
from tile.runtime.autotuning.search import Search, budget_of
from tile.runtime.autotuning.space import point_of
from tile.runtime.kernel import CompiledKernel

SHARE = 0.2  # of the usual time of measuring, for the first measurement of a configuration
DEAD_WORKER = "a worker of the executor died while it compiled this or another configuration"


class Tuner(Protocol):
    """The part of an autotuner that a run uses."""

    __name__: str
    fn: Any
    arg_names: list[str]
    executor: Executor | None
    skipped: dict[Config, str]

    def timed(self, config: Config, call: Call, share: float) -> list[float]:
        """Return times of a configuration: from disk, or measured; empty if it cannot run."""

    def compiled(self, config: Config, call: Call) -> Any:
        """Return the compiled kernel of a configuration; None if it does not compile."""

    def stores(self, config: Config) -> bool:
        """Return True if a configuration's result is on disk."""

    def skip(self, config: Config, reason: str) -> None:
        """Record why a configuration is not tried."""

    @property
    def measures_by_executor(self) -> bool:
        """True if the executor measures configurations, too."""

    def submit(self, config: Config, call: Call, share: float) -> Future[Any]:
        """Compile a configuration by the executor, or also measure it, as `timed` does."""

    def keep(self, config: Config, times: Sequence[float]) -> list[float]:
        """Store times that the executor measured, and return them."""


class SearchRun:
    """A search among the configurations of a call."""

    def __init__(
        self,
        tuner: Tuner,
        configs: Sequence[Config],
        call: Call,
        *,
        effort: object,
        starts: Sequence[Config],
        progress: Progress,
    ) -> None:
        """`starts` are configurations to measure first; see `search.budget_of` for `effort`."""
        self.tuner = tuner
        self.configs = list(dict.fromkeys(configs))
        self.call = call
        self.points = [point_of(config) for config in self.configs]
        self.progress = progress
        self._profiles: dict[Hashable, Profile | None] = {}
        self._failures: dict[Hashable, str] = {}
        self._registers: dict[int, float] = {}  # of compiled configurations that spill
        self._ahead: dict[int, Future[Any]] = {}
        self._executor_lives = tuner.executor is not None
        estimates = [self._estimate(at) for at in range(len(self.configs))]
        possible = [math.isfinite(number) for number in estimates]
        at = {config: number for number, config in enumerate(self.configs)}
        self.search = Search(
            self.points,
            estimates,
            self._measure,
            budget_of(effort, sum(possible)),
            features=self._features(),
            starts=[at[config] for config in starts if config in at],
            identity=self._identity,
            revised=self._revised,
            progress=self._report,
        )

    def timings(self) -> dict[Config, list[float]]:
        """Return quantiles of the times of what was measured so far, in the order of measuring."""
        return {
            self.configs[one.index]: one.quantiles(QUANTILES)
            for one in self.search.measured.values()
            if one.times
        }

    def run(self) -> None:
        """Search. A keyboard interrupt propagates; `timings` has what was measured."""
        try:
            self.search.run()
            self._keep_finalists()
        finally:
            for future in self._ahead.values():
                future.cancel()
            self.progress.close()

    def _keep_finalists(self) -> None:
        """Store the times of finalists by all measurements, in place of those of the last one."""
        for one in self.search.measured.values():
            if one.again:
                keep_finalist(self.tuner, self.configs[one.index], one)

    def _estimate(self, at: int) -> float:
        """Return the model's time of a configuration; infinity for one that cannot win."""
        config, point = self.configs[at], self.points[at]
        profile = self._profile(config)
        if profile is None:
            self.tuner.skip(config, self._failures[self._constants(config)])
            return math.inf
        reason = misfit(profile, point)
        if reason is not None:
            self.tuner.skip(config, f"not compiled: {reason}")
            return math.inf
        return estimate(profile, point)

    def _features(self) -> list[tuple[float, ...]]:
        profiles = [self._profile(config) for config in self.configs]
        listed = [
            () if profile is None else features(profile, point)
            for profile, point in zip(profiles, self.points, strict=True)
        ]
        width = max(map(len, listed), default=0)
        return [row or (0.0,) * width for row in listed]

    def _constants(self, config: Config) -> Hashable:
        names = set(self.tuner.arg_names)
        return tuple((name, v) for name, v in config.kwargs.items() if name in names)

    def _profile(self, config: Config) -> Profile | None:
        key = self._constants(config)
        if key not in self._profiles:
            try:
                self._profiles[key] = profiled(self.tuner.fn, self.call, config)
            except CANNOT_RUN as error:
                self._profiles[key] = None
                self._failures[key] = str(error)
        return self._profiles[key]

    def _identity(self, at: int) -> Hashable:
        """Compile a configuration, and return what equals for configurations of equal code."""
        self._submit(at)
        config = self.configs[at]
        if not self._lives(at):
            return at
        kernel = self.tuner.compiled(config, self.call)
        if kernel is None:
            return at
        if spilled := spilled_registers(kernel):
            self._registers[at] = spilled
        return code_of(kernel, at)

    def _revised(self, at: int) -> float | None:
        """Return the model's time of a compiled configuration that spills registers."""
        profile, registers = self._profile(self.configs[at]), self._registers.get(at)
        if profile is None or registers is None or self.tuner.stores(self.configs[at]):
            return None
        return estimate(profile, self.points[at], registers=registers)

    def _submit(self, at: int) -> None:
        """Let the executor work on a configuration, and on those that the search may take next."""
        for index in (at, *self.search.upcoming()):
            if index not in self._ahead and not self.tuner.stores(self.configs[index]):
                future = self._submitted(index, SHARE)
                if future is None:
                    return
                self._ahead[index] = future

    def _submitted(self, at: int, share: float) -> Future[Any] | None:
        """Return a job of the executor; None if there is none, or if it was shut down."""
        if not self._executor_lives:
            return None
        try:
            return self.tuner.submit(self.configs[at], self.call, share)
        except RuntimeError:  # which a `BrokenExecutor` is too
            self._executor_lives = False
            return None

    def _lives(self, at: int) -> bool:
        """Wait for the executor; return False for a configuration whose worker died.

        Raises what prevents that any configuration is sent, as a kernel that cannot be pickled.
        """
        future = self._ahead.get(at)
        error = None if future is None else future.exception()
        if error is None or isinstance(error, TileError):
            return True  # which is raised again where the result is used
        if not isinstance(error, BrokenExecutor):
            raise error
        self._executor_lives = False
        self.tuner.skip(self.configs[at], DEAD_WORKER)
        return False

    def _measure(self, at: int, iteration: int) -> list[float]:
        """Return the times of a configuration, which an iteration after the first measures anew."""
        config = self.configs[at]
        share = SHARE_AGAIN if iteration else SHARE
        if not self._lives(at) or config in self.tuner.skipped:
            return []
        if not self.tuner.measures_by_executor or self.tuner.stores(config):
            return self.tuner.timed(config, self.call, share)
        future = self._submitted(at, share) if iteration else self._ahead.get(at)
        if future is None:
            return self.tuner.timed(config, self.call, share)
        try:
            return self.tuner.keep(config, future.result())
        except BrokenExecutor:
            self._executor_lives = False
            return []
        except CANNOT_RUN as error:
            self.tuner.skip(config, str(error))
            return []

    def _report(self, search: Search) -> None:
        best = search.best
        self.progress.measured(
            search.distinct,
            search.budget,
            None if best is None else (str(self.configs[best.index]), best.time),
        )


def run_off_all(
    tuner: Tuner, timings: Mapping[Config, Sequence[float]], call: Call
) -> dict[Config, list[float]]:
    """Measure those of all configurations again that may be the best, and return their times.

    timings: the times of each; one that cannot run takes forever.
    """
    configs = list(timings)
    ran = [
        Measured(at, list(timings[config]))
        for at, config in enumerate(configs)
        if math.isfinite(timings[config][0])
    ]
    run_off(ran, lambda at, _: tuner.timed(configs[at], call, SHARE_AGAIN))
    return {
        configs[one.index]: keep_finalist(tuner, configs[one.index], one)
        for one in ran
        if one.again
    }


def keep_finalist(tuner: Tuner, config: Config, finalist: Measured) -> list[float]:
    """Store the times of a finalist, unless its result is from disk, and return them."""
    times = finalist.quantiles(QUANTILES)
    return times if tuner.stores(config) else tuner.keep(config, times)


def spilled_registers(kernel: Any) -> int:
    """Return the registers that a thread needs, if the assembler spilled some of them; else 0."""
    if isinstance(kernel, CompiledKernel):
        with suppress(TileError):  # of loading it; it cannot run
            spills, registers = kernel.n_spills, kernel.n_regs
            return registers + spills if registers and spills else 0
    return 0


def code_of(kernel: Any, otherwise: Hashable) -> Hashable:
    """Return what is equal for kernels of equal code and launches, else `otherwise`."""
    stages = getattr(kernel, "asm", {})
    if "thread" in stages:
        options = kernel.options
        return stages["thread"], options.num_warps, options.num_ctas, options.maxnreg
    text: Hashable = stages.get("tile-optimized", otherwise)
    return text
