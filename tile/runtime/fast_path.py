"""The fast path of launches that differ from an earlier one only in addresses and numbers.

For each shape of calls of a kernel (the types of arguments, and the names of those passed by name),
Python source of a launch function is generated and compiled. It does only what such a call needs:
compute the key that selects a compiled kernel, look it up in one dictionary, and call the backend's
fast launch (`FastLaunchable.bind`). For `add[grid](x, y, out, n, BLOCK=1024)` with torch's tensors
the function is

    def launch(grid, a0=absent, a1=absent, a2=absent, a3=absent, /, *rest, BLOCK=absent, **more):
        if type(a0) is t0 and ... and not rest and not more and cache and alive and ...:
            try:
                p0 = a0.data_ptr()
                ...
                entry = table.get((backend() if own(None) is None else scoped(), checks(),
                                   a0.dtype, a0.get_device(), ..., BLOCK, <alignment>))
                if entry is not None and entry.choose is not None:
                    entry = entry.choose((a0, a1, a2), (p0, p1, p2))
            except unreadable:
                entry = None
            if entry is not None:
                repeat, fixed, kernel, constants, choose, note, inline_cache, apart, _ = entry
                <the grid's extents x, y, z>
                note(a0, a1, a2)
                if repeat(x, y, z, p0, p1, p2, a3):
                    return kernel
        if a0 is not absent and ... and BLOCK is not absent:
            return slow_path(launch, grid, a0, a1, a2, a3, *rest, BLOCK=BLOCK, **more)
        args, named = merge((a0, a1, a2, a3), rest, {'BLOCK': BLOCK}, more)
        return slow_path(launch, grid, *args, **named)

`add[grid]` calls this function directly, without packing arguments: `*rest`, `**more` and the
defaults exist only so that it accepts any call. Where the backend has inline caches
(`tile.backends.capabilities.CallGuards`), it calls that of the latest entry, which leaves to this
function the calls for which its guards do not hold. It leaves everything else to `slow_path`: the
first launch with a key, arguments of other types, hooks, errors, and launches with launch callbacks
or inside `with tile.sanitize(...)`. The whole body is in a `try` that trims the tracebacks of
errors (`tile.tracebacks`). Keys may be finer than those of compiled kernels, but never coarser. The
launch of an entry has passed all checks of an ordinary launch. A kernel that is wrong for arrays
that overlap has two versions, and its entry chooses between them by the arrays' address ranges.
Tuples are unpacked, and each item is read like an argument: a tuple of tensors gives as many
addresses.

Arguments passed by name keep their names in the generated source. All other names begin with `~` in
the templates of `fast_path_source`, whose `Writer.text` replaces it by enough underscores to make
them unique.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tile.backends.base import Grid
from tile.backends.capabilities import (
    CallGuards,
    FastLaunch,
    InlineCache,
    Item,
    Passed,
    ReaderOf,
)
from tile.config import Config, config
from tile.frontend.python.source import Parameter
from tile.runtime.arguments.autograd import NoteWrites
from tile.runtime.arguments.overlap import overlap_test, tensor_extent
from tile.runtime.arguments.tensor_descriptor import make_descriptors_by
from tile.runtime.arguments.torch_tensors import is_plain_tensor, only_cuda_numbered
from tile.runtime.call_guards import field_guards
from tile.runtime.callbacks import LAUNCH_CALLBACKS
from tile.runtime.fast_path_source import Writer
from tile.runtime.grid import LIMITS, normalize_grid
from tile.runtime.kernel import CompiledKernel
from tile.runtime.key_parts import UNREADABLE, constant_tuple, scoped_settings, wide_integer
from tile.runtime.signature import DIVISOR, Path
from tile.runtime.specialize import Rule, divisor_of
from tile.tracebacks import GENERATED, trim

Arguments = tuple[Any, ...]
Options = dict[str, Any]
Shape = tuple[Any, ...]
LaunchFunction = Callable[..., CompiledKernel]
SlowPath = Callable[..., CompiledKernel]

ABSENT = object()  # the default of all arguments

MOST_CACHES = 8  # of a launch function; a call tries each, which takes 0.07 us


class FastPathEntry(NamedTuple):
    """The fast launch for one key; `constants` are the constants and options, by name.

    repeat, fixed: as in `BoundLaunch`.
    choose: replaces the entry by another, or by None, for the tensors of a launch and their
        addresses.
    note: tells autograd of the kernel's writes to some of the tensors of a launch.
    inline_cache: as in `BoundLaunch`.
    apart: pairs of numbers of tensors that do not overlap if they are launched by this entry; None
        for an entry of tensors that may, which has no inline caches.
    address_reader: as in `BoundLaunch`.
    """

    repeat: FastLaunch
    fixed: Callable[[Grid, Sequence[int | float | Passed | Item]], FastLaunch]
    kernel: CompiledKernel
    constants: dict[str, Any]
    choose: Callable[[Sequence[Any], Sequence[int]], FastPathEntry | None] | None = None
    note: NoteWrites | None = None
    inline_cache: InlineCache | None = None
    apart: tuple[tuple[int, int], ...] | None = ()
    address_reader: ReaderOf | None = None


class OverlapEntries:
    """The entries of one key for tensors that do not overlap, and for those that may.

    `pairs` are positions, among `count` tensors, of those whose overlap matters. `objects`: some
    are other objects with an address.
    """

    def __init__(
        self, pairs: Sequence[tuple[int, int]], count: int, *, objects: bool = False
    ) -> None:
        self.pairs = pairs
        self.versions: dict[bool, FastPathEntry | None] = {}  # by: the tensors may overlap
        self._overlap = overlap_test(pairs, count, objects=objects)

    def choose(self, tensors: Sequence[Any], addresses: Sequence[int]) -> FastPathEntry | None:
        """Return the entry for tensors at these addresses."""
        return self.versions.get(self._overlap(tensors, addresses))


class LaunchPlan(NamedTuple):
    """The generated functions for calls of one shape.

    table: the entries by key.
    alive: cleared to invalidate the plan. A caller may have stored `launch`, which then leaves all
        calls to the slow path.
    key: the key of arguments, or None if they have none, such as tensors without plain memory.
    launch: `launch(grid, *args, **kwargs)` launches.
    parameters: the indices of the kernel's parameters whose values are passed to the backend.
    tensors: the paths of tensors among the arguments, and of objects with an address.
    objects: those of the latter, of which autograd is not told.
    passed: the names of the parameters that calls pass.
    overlaps: by key, the entries of kernels with two versions.
    current: returns True if the variables that the kernel captured are unchanged; None if there are
        none.
    guards: returns the guards of a call for an inline cache, from its key, its arguments and the
        constants of its entry; None if it has none.
    caches: the inline caches of entries, each of which calls the one before, and the first one
        `launch`.
    """

    table: dict[Any, FastPathEntry | None]
    alive: list[bool]
    key: Callable[..., Any]
    launch: LaunchFunction
    parameters: tuple[int, ...]
    tensors: tuple[Path, ...]
    objects: frozenset[Path]
    passed: frozenset[str]
    overlaps: dict[Any, OverlapEntries]
    guards: Callable[[Any, Arguments, Options, Options], CallGuards | None]
    caches: list[LaunchFunction]
    current: Callable[[], bool] | None = None

    def is_valid(self) -> bool:
        """Return True unless what the kernels depend on has changed."""
        return bool(self.alive) and (self.current is None or self.current())

    @property
    def fastest(self) -> LaunchFunction:
        """The function that launches in the least time: the latest inline cache, or `launch`."""
        return self.caches[-1] if self.caches else self.launch

    def remember(
        self,
        args: Arguments,
        kwargs: Options,
        arguments: Sequence[Any],
        meta: Mapping[str, Any],
        kernel: CompiledKernel,
        guarded: CompiledKernel,
    ) -> bool:
        """Let later calls like one that was just launched take the fast path, if there is one.

        arguments: the launch arguments. meta: all parameters and options by name. kernel: the one
        that was launched; guarded: the one for tensors that do not overlap. Return True if the plan
        has a new entry.
        """
        key = self.key(*args, **kwargs)
        if key is None or not self._lacks(key, overlapping=kernel is not guarded):
            return False
        bound = kernel.bind(self.parameters, arguments)
        constants = {name: value for name, value in meta.items() if name not in self.passed}
        entry = None
        if bound is not None:
            entry = FastPathEntry(
                bound.run,
                bound.fixed,
                kernel,
                constants,
                inline_cache=bound.inline_cache,
                address_reader=bound.address_reader,
            )
        self._add(key, entry, guarded)
        added = self.table[key]
        if added is not None:
            self.add_cache(added, key, args, kwargs)
        if bound is not None and bound.descriptor_maker is not None:
            make_descriptors_by(bound.descriptor_maker, (*args, *kwargs.values()))
        return entry is not None

    def add_cache(
        self,
        entry: FastPathEntry,
        key: Any,
        args: Arguments,
        kwargs: Options,
        *,
        states: Sequence[tuple[object, bool]] = (),
        readings: Sequence[tuple[Callable[[], object], object]] = (),
    ) -> None:
        """Add an inline cache for the entry of a call with a key, if there may be one.

        states, readings: those besides the plan's.
        """
        note, pairs, make = entry.note, entry.apart, entry.inline_cache
        if note is None or pairs is None or make is None or len(self.caches) >= MOST_CACHES:
            return
        guards = self.guards(key, args, kwargs, entry.constants)
        if guards is not None:
            guards = guards._replace(
                states=(*guards.states, *states),
                readings=(*guards.readings, *readings),
                pairs=pairs,
                length=tensor_extent,
            )
            self.caches.append(make(guards, note, entry.repeat, entry.kernel, self.fastest))

    def _lacks(self, key: Any, *, overlapping: bool) -> bool:
        """Return True if there is no entry yet for launches with a key, with such tensors."""
        entries = self.overlaps.get(key)
        return key not in self.table if entries is None else overlapping not in entries.versions

    def _add(self, key: Any, entry: FastPathEntry | None, guarded: CompiledKernel) -> None:
        """Add the entry for launches with a key; None for launches without a fast path.

        guarded: the kernel for tensors that do not overlap. The entry's may be another one.
        """
        pairs = guarded.parameters.disjoint
        if entry is not None and self.tensors:
            noted = [path for path in self.tensors if path not in self.objects]
            entry = entry._replace(note=entry.kernel.note_writes(noted))
        if entry is not None and pairs:
            positions = {path: at for at, path in enumerate(self.tensors)}
            numbered = tuple((positions[x], positions[y]) for x, y in pairs)
            new = OverlapEntries(numbered, len(self.tensors), objects=bool(self.objects))
            entries = self.overlaps.setdefault(key, new)
            aliased = entry.kernel is not guarded
            entries.versions[aliased] = entry
            entry = entry._replace(choose=entries.choose, apart=None if aliased else numbered)
        self.table[key] = entry


def shape_of(args: Arguments, kwargs: Options) -> Shape:
    """Return the types of a call's arguments, and the names of those passed by name, sorted."""
    names = sorted(kwargs)
    return (*map(_kind_of, args), *names, *[_kind_of(kwargs[name]) for name in names])


def _kind_of(value: Any) -> Any:
    """Return a value's type; of a tuple also those of its items."""
    if not isinstance(value, tuple):
        return type(value)
    kinds = type(value), *map(type, value)
    nested = any(issubclass(kind, tuple) for kind in {*kinds[1:]})
    return (kinds[0], *map(_kind_of, value)) if nested else kinds


def build_launch_plan(
    args: Arguments,
    kwargs: Options,
    parameters: Sequence[Parameter],
    rules: Sequence[Rule],
    *,
    hooks: list[Any],
    cache: dict[Any, Any],
    current: Callable[[], bool] | None,
    slow_path: SlowPath,
    exact: Collection[str] = (),
    always_choose: bool = False,
) -> LaunchPlan | None:
    """Return a plan for calls of this shape, or None if it does not support their arguments.

    rules: those by which the parameters are specialized.
    current: returns True if the captured variables are unchanged; None if there are none.
    exact: parameters for each value of which there is an entry.
    always_choose: every entry has a `choose`, which may return None for one that is out of date.
    slow_path: launches calls that the plan does not support. It takes the plan's `launch`, a grid,
        and the arguments of a call.
    """
    writer = Writer(
        len(args), tuple(kwargs), numbered=only_cuda_numbered(), always_choose=always_choose
    )
    arguments = _read_arguments(writer, args, kwargs, parameters, rules, exact)
    if arguments is None:
        return None
    table: dict[Any, FastPathEntry | None] = {}
    alive = [True]
    variables = Config.variables()
    readers = variables["backend"].text_reader(), variables["sanitize"].text_reader()
    names = {**_NAMES, **arguments, "slow_path": slow_path, "table": table, "alive": alive}
    names |= {"hooks": hooks, "cache": cache, "current": current}
    names |= {"backend": readers[0], "checks": readers[1]}
    key, launch = _compile_functions(writer, names, watching=current is not None)
    states = ((cache, True), (alive, True), (hooks, False), (LAUNCH_CALLBACKS, False))
    return LaunchPlan(
        table=table,
        alive=alive,
        key=key,
        launch=launch,
        parameters=tuple(writer.parameters),
        tensors=writer.tensors,
        objects=writer.objects,
        passed=frozenset(writer.passed),
        overlaps={},
        guards=functools.partial(_guards, writer, readers, states, current),
        caches=[],
        current=current,
    )


def _read_arguments(
    writer: Writer,
    args: Arguments,
    kwargs: Options,
    parameters: Sequence[Parameter],
    rules: Sequence[Rule],
    exact: Collection[str],
) -> dict[str, Any] | None:
    """Let the writer read the arguments of a call, and defaults; None for one it does not support.

    Return what the generated functions refer to by name: types of arguments, and defaults.
    """
    words: dict[str, tuple[str, Any]] = {name: (name, value) for name, value in kwargs.items()}
    words |= {
        p.name: (word, value)
        for word, p, value in zip(writer.positional, parameters, args, strict=False)
    }
    names: dict[str, Any] = {f"t{at}": type(v) for at, v in enumerate((*args, *kwargs.values()))}
    for index, parameter in enumerate(parameters):
        word, value = words.pop(parameter.name, ("", parameter.default))
        if word:
            writer.passed[parameter.name] = word
        else:
            names[f"d{index}"] = value
        if parameter.is_constexpr:
            supported = not word or writer.constant(word, type(value))
        else:
            supported = writer.runtime(word or f"~d{index}", value, index, rules[index])
        if word and parameter.name in exact:
            supported = supported and writer.exact(word, type(value))
        if not supported:
            return None
    if not all(writer.constant(word, type(value)) for word, value in words.values()):
        return None
    return names | {name: kind for kind, name in writer.item_types.items()}


Reading = tuple[Callable[[], Any], Any]


def _guards(
    writer: Writer,
    readers: Sequence[Callable[[], object]],
    states: tuple[tuple[Any, bool], ...],
    current: Callable[[], bool] | None,
    key: Any,
    args: Arguments,
    kwargs: Options,
    constants: Options,
) -> CallGuards | None:
    """Return the guards of a call; see `LaunchPlan.guards`.

    readers: of the first parts of keys.
    """
    arguments = writer.guards(args, kwargs)
    scope = functools.partial(config.own.get, None)
    if arguments is None or scope() is not None or not only_cuda_numbered():
        return None
    readings: list[Reading] = [(scope, None), *zip(readers, key, strict=False)]
    readings += [] if current is None else [(current, True)]
    named = tuple(map(sys.intern, kwargs))
    values = enumerate((*args, *kwargs.values()))
    fields = [
        field
        for (at, value), one in zip(values, arguments, strict=True)
        if one.kind == "descriptor"
        for field in field_guards(at, value)
    ]
    every = (tuple(readings), named, tuple(arguments), constants, tuple(fields))
    return CallGuards(LIMITS, states, *every)


def _compile_functions(
    writer: Writer, names: Mapping[str, Any], *, watching: bool
) -> tuple[Callable[..., Any], LaunchFunction]:
    """Compile the generated source, and return the functions `key` and `launch`."""
    prefix = writer.prefix
    space = {prefix + name: value for name, value in names.items()}
    exec(compile(writer.text(watching=watching), GENERATED, "exec"), space)
    return space[f"{prefix}key"], space[f"{prefix}launch"]


def merge_arguments(
    args: Arguments, rest: Arguments, named: Options, more: Options
) -> tuple[Arguments, Options]:
    """Return a call's arguments from those of the generated function."""
    named = {name: value for name, value in named.items() if value is not ABSENT}
    return (*(value for value in args if value is not ABSENT), *rest), {**named, **more}


# What all generated functions refer to by name.
_NAMES: dict[str, Any] = {
    "absent": ABSENT,
    "merge": merge_arguments,
    "callbacks": LAUNCH_CALLBACKS,
    "scoped": scoped_settings,
    "own": config.own.get,
    "unreadable": UNREADABLE,
    "trim": trim,
    "divisors": tuple(map(divisor_of, range(DIVISOR))),
    "grid_extents": normalize_grid,
    "wide": wide_integer,
    "plain": is_plain_tensor,
    "items": constant_tuple,
}


def first_launch(
    launch: Callable[..., Any], latest: Callable[[], Callable[..., Any] | None], grid: Any
) -> functools.partial[Any]:
    """Return a function that calls `launch(None, grid, *args, **kwargs)` until there is a plan.

    latest: returns the launch function of the latest plan, if there is one.
    """

    def first(*args: Any, **kwargs: Any) -> Any:
        try:
            result = launch(None, grid, *args, **kwargs)
        except Exception as error:
            trim(error)
            raise
        planned = latest()
        if planned is not None:
            # In place, so that later calls have no step more than those of a new `kernel[grid]`.
            replaceable.__setstate__((planned, (grid,), {}, {}))
        return result

    stored = functools.partial(first)
    replaceable: Any = stored  # the method is not among those that type checkers know
    return stored
