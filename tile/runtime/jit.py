"""`@tile.jit`: Python functions that are specialized and compiled for their launch arguments."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    NoReturn,
    ParamSpec,
    TypeVar,
    overload,
)

from tile._lazy import lazy_import
from tile.backends.base import Options, Target
from tile.config import config
from tile.errors import ArgumentTypeError, NoGridError
from tile.frontend.python.source import source_of_text
from tile.runtime.binding import OPTION_DEFAULTS
from tile.runtime.callbacks import CompileEvent, compilation_done, compilation_refused
from tile.runtime.compile import build
from tile.runtime.compiled_fast_path import CompiledLaunches
from tile.runtime.fast_path import (
    FastPathEntry,
    LaunchFunction,
    LaunchPlan,
    Shape,
    build_launch_plan,
    first_launch,
    shape_of,
)
from tile.runtime.function_description import FunctionDescription
from tile.runtime.grid import normalize_grid
from tile.runtime.kernel import CompiledKernel
from tile.runtime.kernel_definition import Captures
from tile.runtime.launch_hooks import Constants, PendingLaunch, active_observer
from tile.runtime.specialize import (
    Constant,
    Key,
    leaf_of,
    with_aliased,
)
from tile.runtime.target_selection import target_of
from tile.tracebacks import public_function

if TYPE_CHECKING:
    from tile.runtime.autotuning.kernel_space import space_of
    from tile.runtime.autotuning.space import Space
    from tile.runtime.compile_reasons import compile_reason
else:
    compile_reason = lazy_import("tile.runtime.compile_reasons", "compile_reason")
    space_of = lazy_import("tile.runtime.autotuning.kernel_space", "space_of")

OVERLAPPING = "overlapping"  # the last part of the key of a kernel for arrays that may overlap

Hook = Callable[..., object]
CacheKey = tuple[Key, ...]
P = ParamSpec("P")
R = TypeVar("R")


class _Call(NamedTuple):
    """The adapted arguments of a call, and what else selects its kernels.

    key: all of it, as the key of a kernel for arrays that do not overlap.
    warmup: the call launches nothing.
    """

    target: Target
    options: dict[str, Any]
    adapted: list[Any]
    key: CacheKey
    keys: list[Key]
    warmup: bool


class JITFunction(FunctionDescription, Generic[P, R]):
    """A jitted function: launched as `kernel[grid](*arguments)`, or called in a kernel.

    `cache` holds the compiled kernels by target, options and keys of all arguments; it is cleared
    when a captured variable of the function changes. Calls that differ from an earlier one only in
    addresses and numbers take a fast path (`tile.runtime.fast_path`).
    """

    def __init__(self, fn: Callable[P, R], **options: Any) -> None:
        super().__init__(fn, options)
        self.cache: dict[CacheKey, CompiledKernel] = {}
        self._captures: Captures | None = None
        self._plans: dict[Shape, LaunchPlan | None] = {}
        # Of the latest plan: its launch function, and its inline cache if it has one.
        self._latest: LaunchFunction | None = None
        self._fastest: LaunchFunction | None = None

    def _unsafe_update_src(self, new_src: str) -> None:
        """Compile another text, from `def` on, with the parameters and captures of the function."""
        self.source = source_of_text(self.fn, new_src)
        self.own_src = new_src
        vars(self).pop("loc", None)
        self.cache.clear()
        self._drop_plans()

    # -- launching

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        """Return the launch function of the kernel's arguments, on `grid`.

        `grid` is a tuple of one to three integers, one integer, or a function that returns either
        and takes a dict of the arguments by name (with constexprs and options).
        """
        launch = self._fastest
        if launch is None or grid is None:
            return first_launch(self._slow_path, lambda: self._fastest, grid)
        return types.MethodType(
            launch, grid
        )  # created and called in less time than a partial object

    if TYPE_CHECKING:
        __call__: Callable[P, R]  # in kernels
    else:

        @public_function
        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            """Raise `NoGridError`: a call outside a kernel needs a grid."""
            raise NoGridError(
                f"{self.name}() is a kernel and needs a grid: {self.name}[grid](...), where grid "
                f"is how many programs run, as in {self.name}[(tile.cdiv(n, BLOCK),)](...)"
            )

    @public_function
    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Compile for these arguments, unless cached, and launch unless `warmup`.

        `kwargs` are parameters by name and options (`num_warps` and so on). Return the compiled
        kernel, or None if a callback of compilations wants none. Raises `ArgumentError`, before
        any side effect, for invalid arguments or grids.
        """
        if warmup:
            kernel = self._compiled_before(args, kwargs)
            if kernel is None:
                kernel, _ = self._compiled(*self._binder.bind(args, kwargs), warmup=True)
            return kernel
        launch = self._fastest
        if launch is None:
            return self._slow_path(None, grid, *args, **kwargs)
        return launch(grid, *args, **kwargs)

    def _slow_path(
        self, tried: LaunchFunction | None, grid: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Launch a call that the plan of `tried` cannot handle: by another plan, or without one.

        Try the latest plan first: a caller that stored `kernel[grid]` enters here at each call if
        its plan is for another shape, or no longer valid.
        """
        latest = self._latest
        if latest is not None and latest is not tried:
            return latest(grid, *args, **kwargs)
        plan = self._plans.get(shape_of(args, kwargs))
        if plan is not None and plan.launch is not tried:
            self._prefer(plan)  # more calls of this shape are likely
            return plan.launch(grid, *args, **kwargs)
        if "warmup" in kwargs:
            return self.run(*args, grid=grid, **kwargs)
        return self._launch(grid, args, kwargs)

    def _launch(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch without a plan; an active observer makes the launch instead."""
        observer = active_observer()
        if observer is not None:
            return observer.launch(self._attempt(grid, args, kwargs))
        return self._launch_directly(grid, args, kwargs)

    def _attempt(
        self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> PendingLaunch[CompiledKernel]:
        """Return this launch for an observer."""
        values, _ = self._binder.bind(args, kwargs)
        names = self.arg_names
        passed = dict(zip(names, args, strict=False))
        rest = {name: value for name, value in kwargs.items() if name not in passed}

        def run(constants: Constants) -> CompiledKernel:
            kernel: CompiledKernel = self._launch_directly(
                grid, (), {**passed, **rest, **constants}
            )
            return kernel

        def written(constants: Constants) -> frozenset[str]:
            return self.written_arguments(**{**passed, **rest, **constants})

        named = dict(zip(names, values, strict=True))
        return PendingLaunch(self, named, not callable(grid), run, written)

    def _launch_directly(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values, options = self._binder.bind(args, kwargs)
        kernel, call = self._compiled(values, options)
        if kernel is None:
            return kernel
        if callable(grid):
            grid = grid(self._meta(values, options))
        extents = normalize_grid(grid)
        arguments = kernel.parameters.pack(call.adapted)
        guarded = kernel
        if guarded.parameters.overlap(arguments) is not None:
            kernel = self._version(call, guarded=False)
            if kernel is None:
                return kernel
            kernel.parameters.refuse_overlap(arguments)  # of a parameter that is declared not to
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        kernel.tell_autograd(values)
        kernel.execute(extents, arguments, values)
        plan = None if 0 in extents else self._plan(args, kwargs)  # 0: nothing was launched
        # Another thread may have invalidated the kernel meanwhile; it clears the cache before it
        # drops all plans.
        if plan is not None and any(kernel is one for one in list(self.cache.values())):
            meta = self._meta(values, options)
            if plan.remember(args, kwargs, arguments, meta, kernel, guarded):
                self._prefer(plan)
        return kernel

    def _meta(self, values: list[Any], options: dict[str, Any]) -> dict[str, Any]:
        """Return the argument of a grid function: all parameters and options, by name."""
        return {**OPTION_DEFAULTS, **options, **dict(zip(self.arg_names, values, strict=True))}

    @public_function
    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> CompiledKernel:
        """Compile for these arguments without launching, and return the compiled kernel.

        A dtype (of torch, NumPy or `tile.language`) or a `MockArray` is a placeholder for an array.
        """
        kernel: CompiledKernel = self.run(*args, grid=grid, warmup=True, **kwargs)
        return kernel

    @public_function
    def written_arguments(self, *args: Any, **kwargs: Any) -> frozenset[str]:
        """Return the names of the parameters through which a launch writes memory."""
        return self.warmup(*args, **kwargs).written

    @public_function
    def space(self, *args: Any, grid: Any = None, per_tile: bool = False, **kwargs: Any) -> Space:
        """Return the search space of the kernel for these arguments; nothing is launched.

        Constants may be ranges, as in `kernel.space(x, n, BLOCK=(64, ..., 1024))`; the compile
        options that mean something for the kernel follow; with `per_tile` those of each dot, load
        and store. `grid` is that of a launch.
        """
        return space_of(self, args, kwargs, grid, per_tile=per_tile)

    def _plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LaunchPlan | None:
        """Return the launch plan for calls of this shape; build it if it is new."""
        shape = shape_of(args, kwargs)
        if shape not in self._plans:
            self._plans[shape] = self.build_plan(args, kwargs, slow_path=self._slow_path)
        return self._plans.get(shape)

    def build_plan(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], **choices: Any
    ) -> LaunchPlan | None:
        """Return a launch plan for calls of this shape, as `build_launch_plan` does."""
        if vars(self)["fn"] is None:  # another process has compiled the kernels of this one
            return None
        watch = self._captures
        return build_launch_plan(
            args,
            kwargs,
            self.parameters,
            [rule for _, rule in self._rules],
            hooks=self.pre_run_hooks,
            cache=self.cache,
            current=watch.current if watch is not None and watch.watching else None,
            **choices,
        )

    def planned(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[LaunchPlan, FastPathEntry] | None:
        """Return the plan and the entry that launch these arguments; None without a fast path."""
        plan = self._plans.get(shape_of(args, kwargs))
        key = None if plan is None else plan.key(*args, **kwargs)
        entry = None if plan is None or key is None else plan.table.get(key)
        return None if plan is None or entry is None else (plan, entry)

    def _compiled_before(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> CompiledKernel | None:
        """Return the kernel of an earlier launch like this; None if it has several, or none."""
        plan, entry = self.planned(args, kwargs) or (None, None)
        if plan is None or entry is None or entry.choose is not None:
            return None
        return entry.kernel if self.cache and plan.is_valid() else None

    def _prefer(self, plan: LaunchPlan) -> None:
        """Let `kernel[grid]` try this plan first."""
        self._latest, self._fastest = plan.launch, plan.fastest

    def _drop_plans(self) -> None:
        """Invalidate all plans, including launch functions that callers have stored."""
        self._latest = self._fastest = None
        while self._plans:
            _, plan = self._plans.popitem()
            if plan is not None:
                plan.alive.clear()

    # -- compiling

    def _compiled(
        self, values: list[Any], options: dict[str, Any], *, warmup: bool = False
    ) -> tuple[Any, _Call]:
        """Return the kernel for these arguments if they do not overlap, and the adapted arguments.

        The kernel is None if a callback of compilations wants none. Constants in `values` are
        unwrapped in place.
        """
        adapted, keys = self._specialize(values)
        if self._captures is None or not self._captures.current():
            self.cache.clear()
            self._captures = Captures(self)
            self._drop_plans()
        if not self.cache:  # users may have cleared it
            self._drop_plans()
        target = target_of(adapted)
        key = (target, tuple(sorted(options.items())), *keys)
        call = _Call(target, options, adapted, key, keys, warmup)
        return self._version(call, guarded=True), call

    def _version(self, call: _Call, *, guarded: bool) -> Any:
        """Return the kernel for a call whose arrays do not overlap, or for one where they may.

        guarded: the kernel may rely on no overlap (`CompiledKernel.overlap`).
        """
        key = call.key if guarded else (*call.key, OVERLAPPING)
        try:
            kernel = self.cache.get(key)
        except Exception as error:  # raised by `__eq__` or `__hash__` of constants and options
            raise ArgumentTypeError(
                f"constants or options of {self.name}() cannot be used: {error}"
            ) from error
        if kernel is None:
            kernel = self._compile(call, guarded=guarded)
            if kernel is not None:
                self.cache[key] = kernel
        return kernel

    def _compile(self, call: _Call, *, guarded: bool) -> CompiledKernel | None:
        leaves = {
            p.name: Constant(value) if p.is_constexpr else leaf_of(value, key)
            for p, value, key in zip(self.parameters, call.adapted, call.keys, strict=True)
        }
        if not guarded:
            leaves = {name: with_aliased(leaf) for name, leaf in leaves.items()}
        defaults = {**self.launch_defaults(), "debug": bool(self.debug)}
        chosen = Options.of({**defaults, **call.options})
        event = CompileEvent(self, leaves, call.target, chosen, call.warmup)
        if compilation_refused(event):
            return None
        name = self._name_for(leaves)
        if config.print_compiles:
            earlier = self.cache.values()
            line = compile_reason(self.name, leaves, call.target, chosen, earlier)
            sys.stderr.write(f"{line}\n")
        kernel = build(self, leaves, call.target, chosen, name=name, guarded=guarded)
        if guarded:
            kernel.launches = CompiledLaunches(kernel, self)
        compilation_done(event, kernel)
        return kernel


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


@public_function
def jit(
    fn: Callable[P, R] | None = None, **options: Any
) -> JITFunction[P, R] | Callable[[Callable[P, R]], JITFunction[P, R]]:
    """Compile a function just in time, as a kernel to launch or a function to call in kernels.

    Use it as a decorator.

    - `do_not_specialize`: parameters, by name or position, on whose value kernels are not
      specialized: neither on being 1 nor on divisibility (of integers by 16, 8 or 4, of addresses
      by 16). `do_not_specialize_on_alignment`: only not on the latter.
    - `debug`: the default of the launch option `debug`.
    - `noinline`: do not inline calls of the function.
    - `repr`: a function that returns the compiled kernel's name, from an object with `constants`
      and `signature`.
    - `version`, `launch_metadata`: stored as attributes, for programs and tools that read them.

    Raises `ArgumentTypeError` for an object that is not a plain function.
    """

    @public_function
    def decorate(fn: Callable[P, R]) -> JITFunction[P, R]:
        return JITFunction(fn, **options)

    return decorate if fn is None else decorate(fn)
