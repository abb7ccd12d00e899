"""The definition of a kernel: its source, its parameters, and how they are specialized.

The values of globals and closure variables are compiled into a kernel. Guards compare them by
identity before each launch, which is cheap: most kernels capture only the language.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

from tile.errors import ArgumentTypeError
from tile.frontend.python.source import DeviceFunction, cell_contents, names_read
from tile.runtime.annotations import annotated_type
from tile.runtime.arguments.adapt import DIRECT, adapt
from tile.runtime.arguments.storage_view import with_storage
from tile.runtime.binding import Binder, unknown_names
from tile.runtime.interface import KernelInterface
from tile.runtime.specialize import (
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
from tile.short_repr import short_repr
from tile.tracebacks import GENERATED

RUN_ARGUMENTS = ("grid", "warmup")


@dataclass(frozen=True)
class JitOptions:
    """The keyword arguments of `jit`."""

    version: Any = None
    repr: Callable[[Any], str] | None = None
    launch_metadata: Callable[..., Any] | None = None
    do_not_specialize: Sequence[str | int] | None = None
    do_not_specialize_on_alignment: Sequence[str | int] | None = None
    debug: bool | None = None
    noinline: bool | None = None
    loose_annotations: bool = False  # see `DeviceFunction`
    launch_defaults: Callable[[], Mapping[str, Any]] = dict  # see `DeviceFunction`
    whole_storage: bool = False  # kernels may access all of the storage of torch's tensors


class KernelDefinition(DeviceFunction, KernelInterface):
    """A function with a specialization rule for each parameter.

    `version`, `repr` and `launch_metadata` are the arguments of `tile.jit`.
    """

    def __init__(self, fn: Callable[..., Any], options: JitOptions) -> None:
        super().__init__(fn, noinline=bool(options.noinline))
        if options.repr is not None and not callable(options.repr):
            raise ArgumentTypeError(
                f"repr of {self.name}() is a function that returns its name, not "
                f"{short_repr(options.repr)}"
            )
        self.loose_annotations = options.loose_annotations
        self.launch_defaults = options.launch_defaults
        self.whole_storage = options.whole_storage
        self.version = options.version
        self.repr: Callable[[Any], str] = options.repr or functools.partial(_own_name, self.name)
        self.launch_metadata = options.launch_metadata
        self.debug = options.debug
        self._unspecialized = self._chosen("do_not_specialize", options)
        self._unaligned = self._chosen("do_not_specialize_on_alignment", options)
        if self._unspecialized or self._unaligned:
            self._rules  # noqa: B018 - unknown names raise at the decorator

    # -- parameters

    @property
    def arg_names(self) -> list[str]:
        """The names of the parameters, in order."""
        return self._binder.names

    @functools.cached_property
    def _binder(self) -> Binder:
        rest = [p.name for p in self.parameters if p.is_rest]
        if rest:
            raise self.refused_parameter(f"*{rest[0]}")
        taken = [p.name for p in self.parameters if p.name in RUN_ARGUMENTS]
        if taken:
            raise ArgumentTypeError(
                f"{self.name}() cannot be launched: the name of its parameter {taken[0]!r} is "
                f"reserved for launches ({', '.join(RUN_ARGUMENTS)}); rename it"
            )
        return Binder(self.name, self.parameters)

    @functools.cached_property
    def _rules(self) -> list[tuple[bool, Rule]]:
        """For each parameter, whether it is a constexpr, and its specialization rule."""
        exempt = self._named("do_not_specialize", self._unspecialized)
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

    def _chosen(self, option: str, options: JitOptions) -> tuple[str | int, ...]:
        """Return names and positions of parameters, or raise `ArgumentTypeError`."""
        chosen: object = getattr(options, option)
        if chosen is None:
            return ()
        if not isinstance(chosen, Iterable) or isinstance(chosen, str | bytes):
            raise ArgumentTypeError(
                f"{option} of {self.name}() is a list of names or positions of parameters, not "
                f"{short_repr(chosen)}"
            )
        return tuple(chosen)

    def _named(self, option: str, chosen: Sequence[str | int]) -> frozenset[str]:
        """Return the names of parameters given by names and positions."""
        names = self.arg_names
        selected = [
            names[c] if isinstance(c, int) and -len(names) <= c < len(names) else c for c in chosen
        ]
        unknown = [str(name) for name in selected if name not in names]
        if unknown:
            raise ArgumentTypeError(
                f"{option} of {self.name}() names {unknown_names(unknown, names)}; its parameters "
                f"are {', '.join(names)}"
            )
        return frozenset(map(str, selected))

    # -- arguments

    def _specialize(self, values: list[Any]) -> tuple[list[Any], list[Key]]:
        """Return the adapted arguments and their keys."""
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
                    if self.whole_storage:
                        value = with_storage(value)
                keys.append(runtime_key(value, rule))
            adapted.append(value)
        return adapted, keys

    def specialize(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the types that a launch with these arguments is specialized for.

        They are spelled as in signatures of `tile.compile`: `"*fp32:16"`, and `"i32:1"` for 1.
        Constants and unknown names are left out.
        """
        rules = {
            p.name: rule
            for p, (is_constexpr, rule) in zip(self.parameters, self._rules, strict=True)
            if not is_constexpr and arguments.get(p.name) is not None
        }
        types = {}
        for name, rule in rules.items():
            value = adapt(arguments[name], rule.label)
            key = runtime_key(value, rule)
            types[name] = key if isinstance(key, str) else spell_leaf(leaf_of(value, key))
        return types

    def _name_for(self, leaves: dict[str, Any]) -> str:
        constants = {n: leaf.value for n, leaf in leaves.items() if isinstance(leaf, Constant)}
        signature = {n: spell_leaf(leaf) for n, leaf in leaves.items()}
        name = self.repr(SimpleNamespace(constants=constants, signature=signature))
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"repr of {self.name}() returns the kernel's name, a text, not {short_repr(name)}"
            )
        return name


def _own_name(name: str, specialization: object) -> str:
    """Return the name of a kernel whose decorator gives no other."""
    return name


Watch = tuple[dict[str, Any], str, object]


_COMPARISON = """\
def current():
    try:
        return {terms}
    except KeyError:
        return False
"""


class Captures:
    """The variables that a function and its callees capture, with their values.

    current: returns True if every variable is still bound to the same object. Launches call it, so
        it is generated.
    """

    current: Callable[[], bool]

    def __init__(self, function: DeviceFunction) -> None:
        self._names: list[Watch] = []
        self._cells: list[tuple[CellType, object]] = []
        self._seen: set[DeviceFunction] = set()
        self._visit(function)
        self.current = self._comparison()

    @property
    def watching(self) -> bool:
        """True if there are variables to compare."""
        return bool(self._names or self._cells)

    def _comparison(self) -> Callable[[], bool]:
        """Return the function that compares the variables."""
        names: dict[str, Any] = {"contents": cell_contents}
        spaces: dict[int, str] = {}
        terms: list[str] = []
        for at, (space, name, value) in enumerate(self._names):
            word = spaces.setdefault(id(space), f"names{len(spaces)}")
            names |= {word: space, f"value{at}": value}
            terms.append(f"{word}[{name!r}] is value{at}")
        for at, (cell, value) in enumerate(self._cells):
            names |= {f"cell{at}": cell, f"content{at}": value}
            terms.append(f"contents(cell{at}) is content{at}")
        text = _COMPARISON.format(terms=" and ".join(terms) or "True")
        exec(compile(text, GENERATED, "exec"), names)
        function: Callable[[], bool] = names["current"]
        return function

    def _visit(self, function: DeviceFunction) -> None:
        if function in self._seen:
            return
        self._seen.add(function)
        fn = function.fn
        used = set(names_read(fn.__code__))
        for cell in fn.__closure__ or ():
            self._cells.append((cell, cell_contents(cell)))
            self._follow(cell_contents(cell), used)
        for name in sorted(used & fn.__globals__.keys()):
            self._watch(fn.__globals__, name, used)

    def _watch(self, names: dict[str, Any], name: str, used: set[str]) -> None:
        value = names[name]
        if not _is_fixed(value):
            self._names.append((names, name, value))
            self._follow(value, used)

    def _follow(self, value: object, used: set[str]) -> None:
        """Watch the variables that a value leads to: of a jitted function, or of a module."""
        if isinstance(value, DeviceFunction):
            self._visit(value)
        elif isinstance(value, ModuleType) and not _is_fixed(value):
            for name in sorted(used & vars(value).keys()):
                member = vars(value)[name]
                if not isinstance(member, ModuleType | FunctionType):
                    self._watch(vars(value), name, used)


def _is_fixed(value: object) -> bool:
    """Return True for modules whose names are assumed constant: the language and some others."""
    name = value.__name__ if isinstance(value, ModuleType) else ""
    return name.partition(".")[0] in ("tile", "triton", "math", "numpy", "torch")
