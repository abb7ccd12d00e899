"""Launches of tuned kernels. Fast paths find the configuration that an earlier call chose.

A jitted function that is tuned has a plan of `tile.runtime.fast_path` whose keys have the values of
the tuning key, too, and whose entries are those of the jitted function's own plan, each with a
check that the choice still holds (`Chosen`). So such a launch reads its arguments once.

A tuner of anything else, such as a kernel with heuristics, or of a kernel that has no fast path, or
whose configurations have hooks, finds the choice and passes it on to what it wraps. For each shape
of calls (the types of arguments, and the names of those passed by name) a launch function is
generated that reads all that the tuning key depends on. For a tuner with `key=["n"]`,
called as `tuned[grid](x, n)` with a torch tensor, it is

    def launch(grid, a0=absent, a1=absent, /, *rest, **more):
        if type(a0) is t0 and type(a1) is t1 and not rest and not more and ...:
            try:
                choice = table.get((backend(), a0.dtype, a0.get_device(), a1))
            except unreadable:
                choice = None
            if choice is not None:
                key, config = choice
                if <the tuner still has that choice>:
                    tuner.best_config = config
                    if config.pre_hook is not None:
                        prepare(config, {'x': a0, 'n': a1}, tuner.__name__)
                    return launcher(tuner.fn, grid)(a0, a1, **config.all_kwargs())
        args, named = merge((a0, a1), rest, {}, more)
        return slow_path(launch, grid, *args, **named)

`tuned[grid]` calls the latest of these functions directly. Everything else is left to `slow_path`:
the first launch with a key, hooks, observers, and `with` blocks with settings of their own. A
choice is used only while the tuner's public `cache` still holds it, so that whatever changes that
cache changes the next launch; configurations are mutable, so their values are read each time. The
launch itself takes the fast path of the wrapped kernel (`tile.runtime.fast_path`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MethodType
from typing import Any, NamedTuple, Protocol

from tile.config import Config as Settings
from tile.config import config as settings
from tile.ir.types import Scalar
from tile.language.base.constexpr import constexpr
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.arguments.torch_tensors import is_plain_tensor, only_cuda_numbered
from tile.runtime.autotuning.configs import Config, KernelWrapper
from tile.runtime.autotuning.trial import prepare
from tile.runtime.fast_path import (
    ABSENT,
    FastPathEntry,
    LaunchPlan,
    Shape,
    SlowPath,
    first_launch,
    merge_arguments,
    shape_of,
)
from tile.runtime.fast_path_source import PLAIN_KEYS, Writer
from tile.runtime.jit import JITFunction
from tile.runtime.key_parts import UNREADABLE
from tile.runtime.launch_hooks import active_observer
from tile.tracebacks import GENERATED, trim

_INDEXED = (JITFunction, KernelWrapper)  # a union would be made for each launch
NO_ARRAYS = PLAIN_KEYS | {Scalar, constexpr}  # types of values without a dtype and device

_TEXT = """\
def ~key({parameters}):
    return {key}

def ~launch(~grid, {defaults}):
    try:
        if {guard}:
            try:
                ~choice = ~table.get({key})
            except ~unreadable:
                ~choice = None
            if ~choice is not None:
                ~at, ~config = ~choice
                if ~tuner.configs == [~config] if ~at is None else ~tuner.cache.get(~at) is ~config:
                    ~tuner.best_config = ~config
                    if ~config.pre_hook is not None:
                        ~prepare(~config, {{{arguments}}}, ~tuner.__name__)
                    return ~launcher(~tuner.fn, ~grid)({passed}**~config.all_kwargs())
        ~args, ~named = ~merge({positional}, ~rest, {{{named}}}, ~more)
        return ~slow_path(~launch, ~grid, *~args, **~named)
    except Exception as ~error:
        ~trim(~error)
        raise
"""


class HashedKey(tuple[Any, ...]):
    """A key of a tuner's cache whose hash is computed once, as each launch looks it up."""

    def __init__(self, key: Iterable[Any]) -> None:
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash


class Chosen:
    """A choice, and the entry of the jitted function's plan that launches it."""

    def __init__(self, tuner: Any, choice: Choice, plan: LaunchPlan, entry: FastPathEntry) -> None:
        self._tuner, self._at, self._config = tuner, choice.key, choice.config
        self._attributes = {**vars(self._config), "kwargs": {**self._config.kwargs}}
        self._plan, self._inner_choose = plan, entry.choose
        self._constants = {**entry.constants, **self._config.all_kwargs()}
        self.entry = entry._replace(constants=self._constants, choose=self.choose)

    def choose(self, tensors: Sequence[Any], addresses: Sequence[int]) -> FastPathEntry | None:
        """Return the entry for these tensors; None if anything has changed that it depends on."""
        if not self._plan.is_valid() or active_observer() is not None or not self.holds():
            return None
        if self._inner_choose is None:
            return self.entry
        version = self._inner_choose(tensors, addresses)
        return None if version is None else version._replace(constants=self._constants)

    def add_cache(
        self, plan: LaunchPlan, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Add an inline cache for the entry of a call with a key to its plan."""
        own = self._plan
        readings: list[tuple[Callable[[], object], object]] = [(active_observer.get, None)]
        if own.current not in (None, plan.current):
            readings.append((own.current, True))
        readings.append((self.holds, True))
        states = ((own.alive, True),)
        plan.add_cache(self.entry, key, args, kwargs, states=states, readings=readings)

    def holds(self) -> bool:
        """Return True, and note the choice, if it and the configuration are unchanged."""
        tuner, at, config = self._tuner, self._at, self._config
        if (
            tuner.configs == [config] if at is None else tuner.cache.get(at) is config
        ) and config.__dict__ == self._attributes:
            tuner.best_config = config
            return True
        return False


def build_tuned_plan(
    args: tuple[Any, ...], kwargs: dict[str, Any], tuner: Any, slow_path: SlowPath
) -> LaunchPlan | None:
    """Return the plan for calls of this shape of a tuner of a jitted function; None without one."""
    kernel = tuner.fn
    if type(kernel) is not JITFunction:
        return None
    return kernel.build_plan(
        args, kwargs, slow_path=slow_path, exact=tuner.keys, always_choose=True
    )


def chosen(
    tuner: Any, choice: Choice, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Chosen | None:
    """Return the choice for a call of a tuned jitted function; None if that has no fast path."""
    planned = tuner.fn.planned(args, {**kwargs, **choice.config.all_kwargs()})
    return None if planned is None else Chosen(tuner, choice, *planned)


class Choice(NamedTuple):
    """A configuration, and its key in the tuner's cache: None if it is the only one."""

    key: tuple[Any, ...] | None
    config: Config


class ChoicePlan(NamedTuple):
    """The generated functions for calls of one shape.

    key: returns the key of a call's arguments in `table`; raises `UNREADABLE`.
    launch: `launch(grid, *args, **kwargs)` launches.
    """

    key: Callable[..., Any]
    launch: Callable[..., Any]
    table: dict[Any, Choice]

    @property
    def fastest(self) -> Callable[..., Any]:
        """The same as `launch`: there are no inline caches."""
        return self.launch


def build_choice_plan(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tuner: Any,
    slow_path: Callable[..., Any],
) -> ChoicePlan | None:
    """Return the plan for calls of this shape, or None if it does not support their arguments.

    tuner: has `arg_names`, `keys`, `configs`, `cache`, `best_config` and the wrapped kernel `fn`.
    """
    writer = Writer(len(args), tuple(kwargs), numbered=only_cuda_numbered())
    passed = [*zip(tuner.arg_names, writer.positional, args, strict=False)]
    passed += [(name, name, value) for name, value in kwargs.items()]
    parts = ["~backend()"]
    for name, word, value in passed:
        read = _parts(word, value, is_key=name in tuner.keys)
        if read is None:
            return None
        parts += read
    state = ["not ~rest", "not ~more", "~own(None) is None", "~observer() is None"]
    text = _TEXT.format(
        parameters=writer.signature(""),
        defaults=writer.signature(" = ~absent"),
        key=f"({', '.join(parts)},)",
        guard=" and ".join([*writer.kinds(), *state]),
        passed="".join(f"{p}, " for p in (*writer.positional, *(f"{n}={n}" for n in kwargs))),
        positional=f"({''.join(f'{word}, ' for word in writer.positional)})",
        named=", ".join(f"{name!r}: {name}" for name in kwargs),
        arguments=", ".join(f"{name!r}: {word}" for name, word, _ in passed),
    )
    table: dict[Any, Choice] = {}
    names: dict[str, Any] = {f"t{at}": type(v) for at, v in enumerate((*args, *kwargs.values()))}
    names |= {"table": table, "tuner": tuner, "slow_path": slow_path, "absent": ABSENT}
    names |= {"merge": merge_arguments, "launcher": launcher, "unreadable": UNREADABLE}
    names |= {"own": settings.own.get, "backend": Settings.variables()["backend"].text_reader()}
    names |= {"observer": active_observer, "trim": trim, "prepare": prepare}
    prefix = writer.prefix
    space = {prefix + name: value for name, value in names.items()}
    exec(compile(text.replace("~", prefix), GENERATED, "exec"), space)
    return ChoicePlan(space[f"{prefix}key"], space[f"{prefix}launch"], table)


def launcher(kernel: Any, grid: Any) -> Callable[..., Any]:
    """Return the launch function of a kernel, which may be of another library's class."""
    if isinstance(kernel, _INDEXED):
        launch: Callable[..., Any] = kernel[grid]
        return launch
    return functools.partial(kernel.run, grid=grid, warmup=False)


def _parts(word: str, value: Any, *, is_key: bool) -> list[str] | None:
    """Return the source of an argument's part of the key; None if its type is not supported."""
    kind = type(value)
    if is_key:
        return [word] if kind in PLAIN_KEYS else None
    if kind in NO_ARRAYS:
        return []
    device = "get_device()" if only_cuda_numbered() else "device"
    if is_plain_tensor(kind):
        return [f"{word}.dtype", f"{word}.{device}"]
    if kind is TensorDescriptor and is_plain_tensor(type(value.base)):
        base = f"{word}.base"
        return [f"type({base})", f"{base}.dtype", f"{base}.{device}"]
    return None


class Tuner(Protocol):
    """A tuner."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the best configuration for these arguments."""

    def launch_ordinary(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> Any:
        """Launch without a fast path."""

    def runs_itself(self) -> bool:
        """Return True if a subclass has a `run` of its own, which may call the tuner's."""

    def launches_itself(self) -> bool:
        """Return True if a subclass launches a configuration in a way of its own."""

    def choice_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Choice | None:
        """Return the choice for a call that was launched; None if it is not kept."""


class TunedLaunches:
    """The plans of a tuner by the shape of calls.

    latest: the launch function of the latest plan, if there is one.
    """

    def __init__(self, tuner: Tuner) -> None:
        self._tuner = tuner
        self._plans: dict[Shape, LaunchPlan | ChoicePlan | None] = {}
        self.latest: Callable[..., Any] | None = None

    def on(self, grid: Any) -> Callable[..., Any]:
        """Return `tuner[grid]`."""
        if self._tuner.runs_itself():
            return functools.partial(self._tuner.run, grid=grid, warmup=False)
        if self.latest is None or grid is None:
            return first_launch(self._slow_path, lambda: self.latest, grid)
        return MethodType(self.latest, grid)

    def launch(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch by the latest plan, if there is one."""
        if self.latest is None or grid is None:
            return self._slow_path(None, grid, *args, **kwargs)
        return self.latest(grid, *args, **kwargs)

    def _slow_path(
        self, tried: Callable[..., Any] | None, grid: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Launch a call that the plan of `tried` cannot handle, by another one or without."""
        try:
            call_shape = shape_of(args, kwargs)
            plan = self._plans.get(call_shape)
            if plan is not None and plan.launch is not tried:
                self.latest = plan.fastest  # more calls of this shape are likely
                return plan.launch(grid, *args, **kwargs)
            if "grid" in kwargs or "warmup" in kwargs:
                return self._tuner.run(*args, **{"grid": grid, "warmup": False, **kwargs})
            result = self._tuner.launch_ordinary(args, kwargs, grid)
            self._remember(call_shape, args, kwargs)
            return result
        except Exception as error:
            trim(error)
            raise

    def _remember(self, shape: Shape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the choice of a launch that was done the ordinary way."""
        if shape not in self._plans:
            ordinary = self._tuner.launches_itself()
            self._plans[shape] = None if ordinary else self._plan(args, kwargs)
        plan = self._plans[shape]
        if plan is None or settings.own.get(None) is not None:
            return
        choice = self._tuner.choice_of(args, kwargs)
        if choice is None:
            return
        if isinstance(plan, LaunchPlan):
            has_hook = choice.config.pre_hook is not None
            entry = None if has_hook else chosen(self._tuner, choice, args, kwargs)
            place = plan.key(*args, **kwargs)
            if entry is not None and place is not None:
                if place in plan.table:  # of a choice that has changed
                    plan.caches.clear()
                plan.table[place] = entry.entry
                entry.add_cache(plan, place, args, kwargs)
                self.latest = plan.fastest
                return
            self._plans[shape] = plan = self._passing_plan(args, kwargs)
        if plan is not None:
            with suppress(*UNREADABLE):
                plan.table[plan.key(*args, **kwargs)] = choice
                self.latest = plan.launch

    def _plan(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LaunchPlan | ChoicePlan | None:
        """Return a plan for calls of this shape; None if there is none for their arguments."""
        plan = build_tuned_plan(args, kwargs, self._tuner, self._slow_path)
        return self._passing_plan(args, kwargs) if plan is None else plan

    def _passing_plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ChoicePlan | None:
        return build_choice_plan(args, kwargs, self._tuner, self._slow_path)
