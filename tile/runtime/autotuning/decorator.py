"""`tile.autotune`, the decorator that makes a tuner of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from typing import Any

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.runtime.autotuning.autotuner import Autotuner
from tile.runtime.autotuning.configs import (
    Config,
    Kernel,
    annotated_constants,
    check_kernel,
    parameter_names,
)
from tile.runtime.autotuning.search import budget_of
from tile.runtime.autotuning.space import Space
from tile.short_repr import short_repr
from tile.tracebacks import public_function


@public_function
def autotune(
    configs: Sequence[Config] | None = None,
    key: Sequence[str] = (),
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
    space: Space | Mapping[str, Iterable[Any]] | None = None,
    search: str = "",
    effort: object = "normal",
    measure: str = "here",
) -> Callable[[Kernel], Autotuner]:
    """Choose among `configs`, or in a `space`, by benchmarking, once per key. A decorator.

    The key consists of the values of the parameters named in `key`, the dtype and device of every
    array, and the backend. Each configuration runs on the arguments of the first call with the key.
    Arrays that the kernel writes are restored automatically, so the call has the effect of one
    launch. An empty list stands for the default configuration; a single configuration is not timed.

    - `space`: in place of `configs`, a `Space` or a dict of its dimensions: values of constants and
      of compile options, as in `space={"BM": (32, ..., 128)}`. Options that it does not list get
      the values that mean something for the kernel (`Space` of `docs/tuning.md`), and constants
      those of their annotation: `BM: Annotated[tl.constexpr, (32, ..., 128)]`.
    - `search`: "auto" measures few configurations, as many as `effort` permits, and is the default
      for a space; "exhaustive", the default for `configs`, measures all.
    - `effort`: how much of the space to measure at most: a share as a float, a number of
      configurations, or "quick" (0.1, and 30), "normal" (0.25, and 100), "thorough" (0.5, and 400).
    - `prune_configs_by`: `early_config_prune(configs, positional_arguments, **keyword_arguments)`,
      which returns the configurations to try; `perf_model(**all_arguments)`, an estimate of the
      time; and `top_k`, the number of configurations with the best estimates to try (a count, or a
      fraction as a float).
    - `reset_to_zero`: arrays set to 0 before every run of a trial, and restored after it.
    - `restore_value`: arrays to restore that the kernel changes in ways its own code does not show.
    - `pre_hook(arguments)`, `post_hook(arguments, exception=None)`: called before and after every
      run of a trial, and `pre_hook(arguments, reset_only=True)` once after tuning.
    - `warmup`, `rep`: the approximate time in ms of untimed (25) and timed (100) runs per
      configuration.
    - `do_bench(run, quantiles=(0.5, 0.2, 0.8))`: replaces the timing; returns ms for each quantile.
    - `use_cuda_graph`: time runs of less than 20 us again by CUDA graphs of many of them, if
      PyTorch uses a GPU, there are no hooks, and the calling process measures.
    - `cache_results`: store results on disk for later processes; True, or the folder to use.
    - `executor`: compiles the configurations in parallel, before they are timed one by one;
      threads, or other processes if kernel and arguments can be pickled and they share a cache.
    - `measure`: "executor" lets it measure configurations of a search too, on copies of the
      arguments, each worker on its own device; "here" measures them in the calling process.

    A configuration that does not compile, or that exceeds the resources of the device, is skipped.
    The reasons are in `skipped` of the tuner and in the table of `TILE_PRINT_AUTOTUNING`. If no
    configuration can run, the last error is raised with the reasons of all. Faults of a run, such
    as an access out of bounds, are raised and name the configuration. An exception of a hook or
    rule is the `__cause__` of a `HookError`. Arrays are restored in all these cases.

    Raises `ArgumentError` for names that are not parameters; the wrapped kernel raises it for calls
    that pass a parameter that the configurations set.
    """
    if (configs is None) == (space is None):
        raise ArgumentTypeError(
            "autotune takes either configs, a list of Config, or space, the values of each "
            "dimension: space={'BLOCK': (64, ..., 1024)}"
        )
    if search not in ("", "auto", "exhaustive"):
        raise ArgumentValueError(
            f'search is {short_repr(search)} in autotune; there are "auto" and "exhaustive"'
        )
    budget_of(effort, 1)
    if measure not in ("here", "executor"):
        raise ArgumentValueError(
            f'measure is {short_repr(measure)} in autotune; there are "here" and "executor"'
        )
    hooks = {"do_bench": do_bench, "pre_hook": pre_hook, "post_hook": post_hook}
    own = [name for name, hook in hooks.items() if hook is not None]
    if measure == "executor" and (own or executor is None or search == "exhaustive"):
        raise ArgumentTypeError(
            "measure='executor' of autotune takes an executor and search='auto'"
            + (f", and cannot call {own[0]} in its workers" if own else "")
        )
    listed = [] if configs is None else _configs(configs)
    dimensions = Space(space) if isinstance(space, Mapping) else space
    if dimensions is not None and not isinstance(dimensions, Space):
        raise ArgumentTypeError(
            f"the space of autotune is a tile.Space or a dict, not {short_repr(space)}"
        )
    times: tuple[tuple[str, object], ...] = (("warmup", warmup), ("rep", rep))
    for name, value in times:
        if value is not None and not (isinstance(value, int | float) and value >= 0):
            raise ArgumentValueError(
                f"{name}={short_repr(value)} of autotune is a time in ms: zero or more"
            )

    @public_function
    def decorate(kernel: Kernel) -> Autotuner:
        check_kernel(kernel, "autotune")
        space = (
            None if dimensions is None else dimensions.joined(Space(annotated_constants(kernel)))
        )
        if dimensions is not None:
            constants = [d.name for d in dimensions.dimensions if not d.is_option]
            parameter_names("space", constants, kernel)
        return Autotuner(
            kernel,
            kernel.arg_names,
            listed,
            parameter_names("key", key, kernel),
            parameter_names("reset_to_zero", reset_to_zero or (), kernel),
            parameter_names("restore_value", restore_value or (), kernel),
            pre_hook,
            post_hook,
            prune_configs_by,
            warmup,
            rep,
            use_cuda_graph,
            do_bench,
            cache_results,
            executor,
            space,
            search,
            effort,
            measure,
        )

    return decorate


def _configs(configs: object) -> list[Config]:
    """Return the configurations of a decorator, or raise `ArgumentTypeError`."""
    if not isinstance(configs, Iterable) or isinstance(configs, str | bytes | Mapping):
        raise ArgumentTypeError(
            f"autotune takes a list of Config, not {short_repr(configs)}: "
            f"[Config({{'BLOCK': 128}})]"
        )
    listed = list(configs)
    for config in listed:
        if not isinstance(config, Config):
            raise ArgumentTypeError(
                f"autotune takes a list of Config, with {short_repr(config)} in it"
            )
    return listed
