"""Configurations of tuned kernels, their pruning, and the base class of tuners.

Exceptions of user functions that tuners call become a `HookError` with the function's name.

A configuration that does not compile, or that exceeds the resources of the device, is skipped with
its reason. All other errors are raised and name the configuration, in particular faults of a run:
an out-of-bounds access or a false `device_assert` is a bug of the kernel, and skipping it would
hide the bug behind a slower configuration.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tile.backends.base import Options
from tile.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    AutotunerError,
    BackendError,
    CompilationError,
    HookError,
    IRError,
    TileError,
    TypeRuleError,
)
from tile.pickling import PickledByName
from tile.runtime.annotations import annotated_values
from tile.runtime.binding import OPTION_DEFAULTS
from tile.runtime.interface import KernelInterface
from tile.short_repr import short_repr
from tile.tracebacks import public_class


@contextmanager
def user_code(name: str) -> Iterator[None]:
    """Raise exceptions inside the `with` block as a `HookError` that names the user function."""
    try:
        yield
    except Exception as error:
        raise hook_error(name, error) from error


def hook_error(name: str, error: Exception) -> HookError:
    """Return the error that names the user function that raised `error`."""
    return HookError(f"{name} raised {type(error).__name__}: {error}")


OPTION_FIELDS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# Errors of the compiler and of loading a kernel on its device, but not of arguments or runs.
CANNOT_RUN: tuple[type[TileError], ...] = (BackendError, CompilationError, IRError, TypeRuleError)

PRUNE_KEYS = ("early_config_prune", "perf_model", "top_k")


class Kernel(Protocol):
    """The protocol of tunable kernels: a jitted function, or a wrapper around one."""

    @property
    def arg_names(self) -> list[str]:
        """The names of the parameters, in order."""

    @property
    def fn(self) -> Any:
        """The wrapped kernel, or the Python function of a jitted one."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Compile, and launch unless `warmup`; `kwargs` are constexprs and options."""

    def written_arguments(self, *args: Any, **kwargs: Any) -> frozenset[str]:
        """Return the names of the array arguments that the compiled kernel writes."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return the launch function of the kernel's arguments, on `grid`."""


@public_class
@dataclass
class Config:
    """One configuration: meta-parameters (`kwargs`, by parameter name) and compile options.

    `pre_hook(arguments)` is called with all arguments by name before every launch of this
    configuration. `ir_override` is passed on as an option, which has no effect.
    """

    kwargs: dict[str, Any]
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    pre_hook: Callable[[dict[str, Any]], object] | None = None
    ir_override: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kwargs, Mapping):
            raise ArgumentTypeError(
                f"a Config takes a dict of meta-parameters, not {short_repr(self.kwargs)}: "
                "Config({'BLOCK': 128}, num_warps=4)"
            )
        self.kwargs = dict(self.kwargs)
        both = self.kwargs.keys() & set(OPTION_FIELDS)
        if both:
            name = min(both)
            raise ArgumentTypeError(
                f"{name} is an option, not a key of the dict: "
                f"Config({{...}}, {name}={short_repr(self.kwargs[name])})"
            )
        Options.of(self._options())  # raises for invalid values
        for name, value in self.kwargs.items():
            try:
                hash(value)
            except TypeError as error:
                raise ArgumentTypeError(
                    f"{name} of a Config is {short_repr(value)}; meta-parameters are hashable "
                    "constants"
                ) from error

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "num_ctas": self.num_ctas,
        }
        if self.maxnreg is not None:
            options["maxnreg"] = self.maxnreg
        return options

    def all_kwargs(self) -> dict[str, Any]:
        """Return meta-parameters and options as arguments of `run`, unset options left out."""
        arguments = {**self.kwargs, **self._options()}
        if self.ir_override is not None:
            arguments["ir_override"] = self.ir_override
        return arguments

    @property
    def source(self) -> str:
        """The text of a Python expression for this configuration, without its hook."""
        default = Config({})
        options = [
            f"{name}={getattr(self, name)!r}"
            for name in (*OPTION_FIELDS, "ir_override")
            if getattr(self, name) != getattr(default, name)
        ]
        return f"tile.Config({', '.join([repr(self.kwargs), *options])})"

    def __hash__(self) -> int:
        return hash((frozenset(self.all_kwargs().items()), self.pre_hook))

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())


@dataclass(frozen=True)
class Call:
    """One call of a tuned kernel: `positional` holds the positional arguments by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    grid: Any
    positional: dict[str, Any]

    @property
    def named(self) -> dict[str, Any]:
        """All arguments, by name."""
        return {**self.positional, **self.kwargs}

    def with_config(self, config: Config) -> dict[str, Any]:
        """Return the keyword arguments of this call with `config`."""
        return {**self.kwargs, **config.all_kwargs()}

    def arguments(self, config: Config) -> dict[str, Any]:
        """Return all arguments of this call with `config` by name, as hooks take them."""
        return {**self.named, **config.all_kwargs()}

    def grid_with(self, config: Config, defaults: Mapping[str, Any]) -> Any:
        """Return the grid of this call with `config`.

        defaults: the values of parameters that the call does not pass, for a grid function.
        """
        if not callable(self.grid):
            return self.grid
        return self.grid({**OPTION_DEFAULTS, **defaults, **self.arguments(config)})


@dataclass(frozen=True)
class Pruning:
    """The rules that select the configurations to try."""

    early_config_prune: Callable[..., Iterable[Config]] | None = None
    perf_model: Callable[..., float] | None = None
    top_k: int | float = 1.0

    def __post_init__(self) -> None:
        share = isinstance(self.top_k, float) and 0 < self.top_k <= 1
        count = isinstance(self.top_k, int) and self.top_k >= 1
        if not share and not count:
            raise ArgumentValueError(
                f"top_k is {short_repr(self.top_k)}; it is a count from 1 or a fraction as a float "
                "up to 1.0"
            )
        if self.perf_model is None and (count or self.top_k < 1):
            raise ArgumentValueError(
                f"top_k={self.top_k} keeps the best by perf_model, and there is no perf_model"
            )

    def __call__(self, configs: list[Config], call: Call, kernel: str) -> list[Config]:
        """Return the configurations to try; `kernel` is the name for errors of the rules."""
        if self.early_config_prune is not None:
            with user_code(f"the early_config_prune of {kernel}"):
                pruned = self.early_config_prune(configs, call.positional, **call.kwargs)
            configs = _checked(pruned, kernel)
        keep = self.top_k if isinstance(self.top_k, int) else max(1, int(len(configs) * self.top_k))
        if self.perf_model is None or keep >= len(configs):
            return configs
        return sorted(configs, key=lambda config: self._estimate(config, call, kernel))[:keep]

    def _estimate(self, config: Config, call: Call, kernel: str) -> float:
        """Return the model's time of a configuration; NaN becomes infinity."""
        assert self.perf_model is not None
        with user_code(f"the perf_model of {kernel}, on configuration {config},"):
            time = float(self.perf_model(**call.arguments(config)))
        return math.inf if math.isnan(time) else time


def _checked(pruned: Any, kernel: str) -> list[Config]:
    """Return the result of an `early_config_prune`, or raise `ArgumentError` if it is invalid."""
    configs = list(pruned) if isinstance(pruned, Iterable) else None
    if configs is None or not all(isinstance(config, Config) for config in configs):
        raise ArgumentTypeError(
            f"the early_config_prune of {kernel} returns the configurations to try, as a list of "
            f"Config, not {pruned!r}"
        )
    if not configs:
        raise AutotunerError(
            f"the early_config_prune of {kernel} left no configuration; at least one must stay"
        )
    return configs


def pruning(prune_configs_by: Mapping[str, Any] | None) -> Pruning:
    """Return the `prune_configs_by` of a decorator, or raise `ArgumentError` if it is invalid."""
    rules = {} if prune_configs_by is None else prune_configs_by
    if not isinstance(rules, Mapping):
        raise ArgumentTypeError(
            f"prune_configs_by is a dict with {', '.join(PRUNE_KEYS)}, not {short_repr(rules)}"
        )
    unknown = sorted(set(rules) - set(PRUNE_KEYS))
    if unknown:
        raise ArgumentTypeError(
            f"prune_configs_by has no {unknown[0]!r}; there are {', '.join(PRUNE_KEYS)}"
        )
    return Pruning(**{name: rule for name, rule in rules.items() if rule is not None})


def check_kernel(kernel: object, decorator: str) -> None:
    """Raise `ArgumentTypeError` if a decorator of kernels is applied to anything else."""
    if not hasattr(kernel, "arg_names"):
        raise ArgumentTypeError(
            f"@tile.{decorator} decorates a kernel of @tile.jit, or of another such decorator, and "
            f"this is {short_repr(kernel)}"
        )


class KernelWrapper(PickledByName, KernelInterface):
    """A kernel that adds meta-parameters to the calls of the kernel it wraps.

    fn: the wrapped kernel. base_fn: the innermost Python function.
    """

    def __init__(self, fn: Kernel, arg_names: Iterable[str]) -> None:
        self.fn = fn
        self.base_fn = python_function(fn)
        self.arg_names = list(arg_names)
        self.__name__ = self.base_fn.__name__
        self.__qualname__ = self.base_fn.__qualname__
        self.__module__ = self.base_fn.__module__
        self.__doc__ = self.base_fn.__doc__

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any = None) -> Call:
        """Return the call, with names for positional arguments; the kernel checks their number."""
        return Call(args, kwargs, grid, dict(zip(self.arg_names, args, strict=False)))

    def check_free(self, chosen: Iterable[str], named: Mapping[str, Any], by: str) -> None:
        """Raise `ArgumentTypeError` if the caller passed a parameter that this wrapper sets."""
        both = [name for name in chosen if name in named]
        if both:
            raise ArgumentTypeError(
                f"{', '.join(both)} of {self.__name__}: chosen by {by}, and passed in the call "
                "as well; leave it out of the call, or out of the decorator"
            )


def parameter_names(option: str, names: Sequence[str], kernel: Kernel) -> tuple[str, ...]:
    """Return names of parameters of `kernel` as a tuple; raise `ArgumentTypeError` for others."""
    if isinstance(names, str):
        raise ArgumentTypeError(f"{option} is a list of names: {option}=[{short_repr(names)}]")
    if not isinstance(names, Iterable):
        raise ArgumentTypeError(f"{option} is a list of names, not {short_repr(names)}")
    names = tuple(names)
    for name in names:
        if name not in kernel.arg_names:
            raise ArgumentTypeError(
                f"{option} names {short_repr(name)}, which is not a parameter of "
                f"{python_function(kernel).__name__}({', '.join(kernel.arg_names)})"
            )
    return names


def python_function(kernel: Any) -> Callable[..., Any]:
    """Return the Python function in a kernel."""
    while not inspect.isfunction(kernel):
        kernel = kernel.fn
    return kernel


def innermost(kernel: Any) -> Any:
    """Return the jitted function in a kernel."""
    while isinstance(kernel, KernelWrapper):
        kernel = kernel.fn
    return kernel


def annotated_constants(kernel: Kernel) -> dict[str, Any]:
    """Return the values with which a kernel's signature annotates its constants, by name."""
    function = innermost(kernel)
    values = {p.name: annotated_values(function, p) for p in getattr(function, "parameters", ())}
    return {name: each for name, each in values.items() if each is not None}


# The most reasons, and configurations per reason, in the error if all configurations fail.
MOST_REASONS = 8
MOST_NAMES = 4


class Skipped:
    """The configurations of a kernel that cannot run, each with its error."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.errors: dict[Config, TileError] = {}

    def __contains__(self, config: Config) -> bool:
        return config in self.errors

    def __len__(self) -> int:
        return len(self.errors)

    @property
    def reasons(self) -> dict[Config, str]:
        """The full text of each error."""
        return {config: str(error) for config, error in self.errors.items()}

    @contextmanager
    def trying(self, config: Config) -> Iterator[None]:
        """Skip `config` if it cannot run; any other error propagates with the configuration."""
        try:
            yield
        except CANNOT_RUN as error:
            self.errors[config] = error
        except HookError:
            raise
        except Exception as error:
            _note(error, f"this was configuration {config} of {self.kernel}")
            raise

    def check_some_run(self, configs: Sequence[Config]) -> None:
        """Raise the last error, with the reasons of all, if all of `configs` were skipped."""
        if len(self.errors) < len(set(configs)):
            return
        *others, (config, last) = self.errors.items()
        groups: dict[str, list[Config]] = {}
        for other, error in others:
            groups.setdefault(reason(error), []).append(other)
        same = groups.pop(reason(last), [])
        alike = ", all for this reason" if same and not groups else ""
        last.notes.append(f"this was configuration {config} of {self.kernel}")
        last.notes.append(f"none of its {len(self.errors)} configurations can run here{alike}")
        if same and groups:
            last.notes.append(f"{_names(same)}: the same")
        shown = list(groups.items())[:MOST_REASONS]
        last.notes += [f"{_names(group)}: {text}" for text, group in shown]
        if len(groups) > len(shown):
            last.notes.append(f"and {len(groups) - len(shown)} other reasons")
        raise last


def reason(error: TileError) -> str:
    """Return an error in one line: its message and location."""
    return error.message + ("" if error.loc is None else f", at {error.loc}")


def _names(configs: Sequence[Config]) -> str:
    names = "; ".join(map(str, configs[:MOST_NAMES]))
    rest = len(configs) - MOST_NAMES
    return f"{names} and {rest} others" if rest > 0 else names


def _note(error: Exception, text: str) -> None:
    if not isinstance(error, TileError):
        error.add_note(f"tile: {text}")
    elif text not in error.notes:
        error.notes.append(text)
