"""`@tile.jit`: a Python function that is compiled for the arguments it is launched with."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from tile.backends.base import Options, Target
from tile.brief import brief
from tile.by_name import Reduction
from tile.errors import ArgumentTypeError
from tile.frontend.source import DeviceFunction
from tile.runtime.annotations import annotated_type
from tile.runtime.arguments import DIRECT, adapt
from tile.runtime.binding import OPTION_DEFAULTS, Binder, unknown_names
from tile.runtime.captures import Captures
from tile.runtime.compile import build
from tile.runtime.context import target_of
from tile.runtime.grid import normalise_grid
from tile.runtime.kernel import CompiledKernel
from tile.runtime.observer import Attempt, Constants, observing
from tile.runtime.repeat import Entry, Plan, Shape, make_plan, shape_of
from tile.runtime.specialise import (
    PLAIN,
    Constant,
    Key,
    Rule,
    constant,
    constant_key,
    leaf_of,
    runtime_key,
    spell_leaf,
)
from tile.tracebacks import entry, trim

RUN_ARGUMENTS = ("grid", "warmup")

Hook = Callable[..., object]
CacheKey = tuple[Key, ...]
P = ParamSpec("P")
R = TypeVar("R")


class JITFunction(DeviceFunction, Generic[P, R]):
    """A function of the language: launched as `kernel[grid](*arguments)`, or called in a kernel.

    `cache` holds what was compiled, by target, options and keys of all arguments; it is emptied
    when something that the function sees of its module has changed. Calls that repeat an earlier
    one in all but addresses and numbers go a shorter way (`tile.runtime.repeat`). `version`, `repr`
    and `launch_metadata` are as given to `jit`.
    """

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        version: Any = None,
        repr: Callable[[Any], str] | None = None,  # noqa: A002 - Triton's name
        launch_metadata: Callable[..., Any] | None = None,
        do_not_specialize: Sequence[str | int] | None = None,
        do_not_specialize_on_alignment: Sequence[str | int] | None = None,
        debug: bool | None = None,
        noinline: bool | None = None,
    ) -> None:
        super().__init__(fn, noinline=bool(noinline))
        if repr is not None and not callable(repr):
            raise ArgumentTypeError(
                f"repr of {self.name}() is a function that returns its name, not {brief(repr)}"
            )
        self._options = {
            "version": version,
            "repr": repr,
            "launch_metadata": launch_metadata,
            "do_not_specialize": do_not_specialize,
            "do_not_specialize_on_alignment": do_not_specialize_on_alignment,
            "debug": debug,
            "noinline": noinline,
        }
        self.version = version
        self.repr = repr
        self.launch_metadata = launch_metadata
        self.debug = debug
        self.cache: dict[CacheKey, CompiledKernel] = {}
        self._captures: Captures | None = None
        self._plans: dict[Shape, Plan | None] = {}
        # What launches go to, and what calls that is for: a plan's, or none's.
        self._latest: tuple[Shape | None, Callable[..., CompiledKernel]] = None, self._start
        self.pre_run_hooks: list[Hook] = []
        self._unspecialised = self._chosen("do_not_specialize", do_not_specialize)
        self._unaligned = self._chosen(
            "do_not_specialize_on_alignment", do_not_specialize_on_alignment
        )
        if self._unspecialised or self._unaligned:
            self._rules  # noqa: B018 - wrong names are refused where they are written

    def by_value(self) -> tuple[bool, Reduction]:
        """The function decorated anew, which plain pickle cannot take, and the text of its file.

        That is of a notebook's cell, or of a file that the other process does not have.
        """
        file = self.fn.__code__.co_filename
        text = linecache.getlines(file, self.fn.__globals__)
        return False, (_jitted, (self.fn, self._options, file, text))

    # -- what it looks like

    @property
    def arg_names(self) -> list[str]:
        """The parameters, in order."""
        return self._binder.names

    @functools.cached_property
    def _binder(self) -> Binder:
        taken = [p.name for p in self.parameters if p.name in RUN_ARGUMENTS]
        if taken:
            raise ArgumentTypeError(
                f"{self.name}() cannot be launched: its parameter {taken[0]!r} has a name that "
                f"launches use themselves ({', '.join(RUN_ARGUMENTS)}); give it another"
            )
        return Binder(self.name, self.parameters)

    @functools.cached_property
    def _rules(self) -> list[tuple[bool, Rule]]:
        """For each parameter: whether it is a constexpr, and how its arguments are specialised."""
        exempt = self._named("do_not_specialize", self._unspecialised)
        unaligned = exempt | self._named("do_not_specialize_on_alignment", self._unaligned)
        return [
            (
                p.is_constexpr,
                Rule(
                    f"argument {p.name!r} of {self.name}()",
                    ones=p.name not in exempt,
                    alignment=p.name not in unaligned,
                    type=annotated_type(self, p),
                ),
            )
            for p in self.parameters
        ]

    def _chosen(self, what: str, chosen: object) -> tuple[str | int, ...]:
        """Names and positions of parameters. Raises `ArgumentTypeError` for anything else."""
        if chosen is None:
            return ()
        if not isinstance(chosen, Iterable) or isinstance(chosen, str | bytes):
            raise ArgumentTypeError(
                f"{what} of {self.name}() is a list of names or positions of parameters, not "
                f"{brief(chosen)}"
            )
        return tuple(chosen)

    def _named(self, what: str, chosen: Sequence[str | int]) -> frozenset[str]:
        """Parameters by name, from names and positions."""
        names = self.arg_names
        found = [
            names[c] if isinstance(c, int) and -len(names) <= c < len(names) else c for c in chosen
        ]
        unknown = [str(name) for name in found if name not in names]
        if unknown:
            raise ArgumentTypeError(
                f"{what} of {self.name}() names {unknown_names(unknown, names)}; its parameters "
                f"are {', '.join(names)}"
            )
        return frozenset(map(str, found))

    # -- launching

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        """The kernel as a function of its arguments, on `grid`.

        `grid` is a tuple of one to three integers, one integer, or a function that returns either
        from the arguments by name (with constexprs and options).
        """
        _, launch = self._latest
        return functools.partial(launch, grid)

    if TYPE_CHECKING:
        __call__: Callable[P, R]  # of one kernel by another
    else:

        @entry
        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            """Refuse: outside a kernel this needs a grid."""
            raise ArgumentTypeError(
                f"{self.name}() is a kernel and needs a grid: {self.name}[grid](...), where grid "
                f"is how many programs run, as in {self.name}[(tile.cdiv(n, BLOCK),)](...)"
            )

    @entry
    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> CompiledKernel:
        """Compile for these arguments, unless that was done before, and launch unless `warmup`.

        `kwargs` are parameters by name and options (`num_warps` and so on). Returns what was
        compiled. Raises `ArgumentError` before anything is touched when arguments or grid cannot be
        used.
        """
        if warmup:
            kernel, _ = self._compiled(*self._binder.bind(args, kwargs))
            return kernel
        return self._start(grid, *args, **kwargs)

    def _start(self, grid: Any, /, *args: Any, **kwargs: Any) -> CompiledKernel:
        """Launch, as launches before this one were done, if there is a plan for them.

        `kernel[grid]` is this only until a plan is made; who took it before comes here each time.
        """
        try:
            return self._unlike(None, grid, *args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    def _unlike(
        self, shape: Shape | None, grid: Any, /, *args: Any, **kwargs: Any
    ) -> CompiledKernel:
        """Launch what the plan for calls of a shape could not: by another plan, or without.

        First by the latest, for a caller who keeps `kernel[grid]` comes here each time when calls
        are of another shape since.
        """
        latest, launch = self._latest
        if latest is not None and latest != shape:
            return launch(grid, *args, **kwargs)
        found = shape_of(args, kwargs)
        plan = self._plans.get(found)
        if plan is not None and found != shape:
            self._latest = found, plan.again  # whose calls are likely to be more than this one
            return plan.again(grid, *args, **kwargs)
        if "warmup" in kwargs:
            return self.run(*args, grid=grid, **kwargs)
        return self._launch(grid, args, kwargs)

    def _launch(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CompiledKernel:
        """Launch, and see to it that launches like this one are repeated where that can be."""
        observer = observing()
        if observer is not None:
            return observer.launch(self._attempt(grid, args, kwargs))
        return self._launch_once(grid, args, kwargs)

    def _attempt(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attempt:
        """This launch, for an observer to make."""
        values, _ = self._binder.bind(args, kwargs)
        names = self.arg_names
        given = dict(zip(names, args, strict=False))
        rest = {name: value for name, value in kwargs.items() if name not in given}

        def run(constants: Constants) -> CompiledKernel:
            return self._launch_once(grid, (), {**given, **rest, **constants})

        def written(constants: Constants) -> frozenset[str]:
            return self.written_arguments(**{**given, **rest, **constants})

        named = dict(zip(names, values, strict=True))
        return Attempt(self, named, not callable(grid), run, written)

    def _launch_once(
        self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> CompiledKernel:
        values, options = self._binder.bind(args, kwargs)
        kernel, adapted = self._compiled(values, options)
        if callable(grid):
            grid = grid(self._meta(values, options))
        extents = normalise_grid(grid)
        arguments = kernel.prepare(adapted)
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        kernel.execute(extents, arguments)
        if 0 in extents:  # nothing was launched that could be repeated
            return kernel
        plan = self._plan(args, kwargs)
        key = None if plan is None else plan.key(*args, **kwargs)
        if plan is not None and key is not None and key not in plan.table:
            repeat = kernel.bind(plan.parameters, arguments)
            meta = self._meta(values, options).items()
            known = {name: value for name, value in meta if name not in plan.given}
            entry = None if repeat is None else Entry(repeat, kernel, known)
            # Another thread may have found meanwhile that what was compiled is out of date; it
            # empties the cache before it drops all plans.
            if any(kernel is one for one in list(self.cache.values())):
                plan.table[key] = entry
                self._latest = shape_of(args, kwargs), plan.again
        return kernel

    def _meta(self, values: list[Any], options: dict[str, Any]) -> dict[str, Any]:
        """What a grid function is given."""
        return {**OPTION_DEFAULTS, **options, **dict(zip(self.arg_names, values, strict=True))}

    @entry
    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> CompiledKernel:
        """Compile for these arguments without launching; what was compiled.

        A dtype (of torch, NumPy or `tile.language`) or a `MockArray` stands for an array.
        """
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    @entry
    def written_arguments(self, *args: Any, **kwargs: Any) -> frozenset[str]:
        """Names of the parameters through which a launch with these arguments writes memory."""
        return self.warmup(*args, **kwargs).written

    def add_pre_run_hook(self, hook: Hook) -> None:
        """Call `hook(*args, **kwargs)` before every launch, once its arguments are checked."""
        self.pre_run_hooks.append(hook)

    def _plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan | None:
        """The plan for calls like this one, made now if need be."""
        shape = shape_of(args, kwargs)
        if shape not in self._plans:
            watch = self._captures
            self._plans[shape] = make_plan(
                args,
                kwargs,
                self.parameters,
                [rule.type for _, rule in self._rules],
                hooks=self.pre_run_hooks,
                cache=self.cache,
                current=watch.current if watch is not None and watch.watching else None,
                unlike=self._unlike,
            )
        return self._plans.get(shape)

    def _drop_plans(self) -> None:
        """Repeat nothing that was compiled: not by functions either that somebody has yet."""
        self._latest = None, self._start
        while self._plans:
            _, plan = self._plans.popitem()
            if plan is not None:
                plan.alive.clear()

    # -- compiling

    def _compiled(
        self, values: list[Any], options: dict[str, Any]
    ) -> tuple[CompiledKernel, list[Any]]:
        """The kernel for these arguments, and the arguments adapted.

        Constants are taken out of their wrappers in `values` itself.
        """
        adapted, keys = self._specialise(values)
        if self._captures is None or not self._captures.current():
            self.cache.clear()
            self._captures = Captures(self)
            self._drop_plans()
        if not self.cache:  # users may have emptied it
            self._drop_plans()
        target = target_of(adapted)
        key = (target, tuple(sorted(options.items())), *keys)
        try:
            kernel = self.cache.get(key)
        except Exception as error:  # what the classes of constants and options raise
            raise ArgumentTypeError(
                f"constants or options of {self.name}() cannot be used: {error}"
            ) from error
        if kernel is None:
            kernel = self.cache[key] = self._compile(target, options, adapted, keys)
        return kernel, adapted

    def _specialise(self, values: list[Any]) -> tuple[list[Any], list[Key]]:
        """The arguments adapted, and their keys."""
        adapted: list[Any] = []
        keys: list[Key] = []
        for index, (value, (is_constexpr, rule)) in enumerate(
            zip(values, self._rules, strict=True)
        ):
            kind = type(value)
            if is_constexpr:
                if kind not in PLAIN:
                    values[index] = value = constant(value, rule.label)
                    keys.append(constant_key(value))
                else:
                    keys.append((kind, value))
            else:
                if kind not in DIRECT:
                    value = adapt(value, rule.label)
                keys.append(runtime_key(value, rule))
            adapted.append(value)
        return adapted, keys

    def _compile(
        self, target: Target, options: dict[str, Any], adapted: list[Any], keys: list[Key]
    ) -> CompiledKernel:
        leaves = {
            p.name: Constant(value) if p.is_constexpr else leaf_of(value, key)
            for p, value, key in zip(self.parameters, adapted, keys, strict=True)
        }
        chosen = Options.of({"debug": bool(self.debug), **options})
        return build(self, leaves, target, chosen, name=self._name_for(leaves))

    def _name_for(self, leaves: dict[str, Any]) -> str:
        if self.repr is None:
            return self.name
        constants = {n: leaf.value for n, leaf in leaves.items() if isinstance(leaf, Constant)}
        signature = {n: spell_leaf(leaf) for n, leaf in leaves.items()}
        name = self.repr(SimpleNamespace(constants=constants, signature=signature))
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"repr of {self.name}() returns the kernel's name, a text, not {brief(name)}"
            )
        return name


def _jitted(
    fn: Callable[P, R], options: dict[str, Any], file: str, text: list[str]
) -> JITFunction[P, R]:
    """A function from another process, with the text that its source is read from."""
    if linecache.getlines(file) != text:
        # Without a time, an entry stays as it is (`linecache.checkcache`).
        linecache.cache[file] = (sum(map(len, text)), None, text, file)
    return JITFunction(fn, **options)


@overload
def jit(fn: Callable[P, R]) -> JITFunction[P, R]: ...


@overload
def jit(
    fn: None = None,
    *,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,
    launch_metadata: Callable[..., Any] | None = None,
    do_not_specialize: Sequence[str | int] | None = None,
    do_not_specialize_on_alignment: Sequence[str | int] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Callable[[Callable[P, R]], JITFunction[P, R]]: ...


@entry
def jit(
    fn: Callable[P, R] | None = None, **options: Any
) -> JITFunction[P, R] | Callable[[Callable[P, R]], JITFunction[P, R]]:
    """Decorator: make a function of the language, to launch as a kernel or to call in one.

    - `do_not_specialize`: parameters, by name or position, whose value does not select a compiled
      kernel: neither being 1 nor being divisible by 16. `do_not_specialize_on_alignment`: only the
      latter.
    - `debug`: the option `debug` of launches that do not give one.
    - `noinline`: keep calls of the function as calls.
    - `repr`: the compiled kernel's name, from an object with `constants` and `signature`.
    - `version`, `launch_metadata`: kept as attributes, for programs and tools that look at them.

    Raises `ArgumentTypeError` for what is no plain function.
    """

    @entry
    def decorate(fn: Callable[P, R]) -> JITFunction[P, R]:
        return JITFunction(fn, **options)

    return decorate if fn is None else decorate(fn)
