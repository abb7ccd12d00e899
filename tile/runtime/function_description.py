"""The part of a jitted function that describes it to tools and libraries, by Triton's names."""

from __future__ import annotations

import collections
import functools
import inspect
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from tile import backends
from tile.frontend.python.fingerprint import portable_digest
from tile.frontend.python.source import DeviceFunction
from tile.pickling import Reduction
from tile.runtime.compile import preloaded
from tile.runtime.kernel import CompiledKernel
from tile.runtime.kernel_definition import JitOptions, KernelDefinition
from tile.runtime.signature import spell_type
from tile.runtime.specialize import Constant, leaf_of, spell_leaf
from tile.runtime.target_selection import target_of

Hook = Callable[..., object]


@dataclass(frozen=True)
class KernelParam:
    """A parameter of a kernel, as tools read it from `JITFunction.params`.

    num: its position.
    annotation: the text of its annotation, or an empty string.
    annotation_type: the type that the annotation sets, as in signatures (`"i64"`, `"*fp32"`), or an
        empty string.
    default: the default value, or `inspect.Parameter.empty`.
    do_not_specialize, do_not_specialize_on_alignment: True if `jit` was asked for it.
    """

    num: int
    name: str
    annotation: str
    annotation_type: str
    is_constexpr: bool
    is_const: bool
    default: Any
    do_not_specialize: bool
    do_not_specialize_on_alignment: bool

    @property
    def has_default(self) -> bool:
        """True if calls can leave the parameter out."""
        return self.default is not inspect.Parameter.empty


def annotation_text(annotation: Any) -> str:
    """Return the text of an annotation; an empty string if there is none."""
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, str):
        return annotation.strip("\"' ")
    return str(getattr(annotation, "__name__", annotation))


class FunctionDescription(KernelDefinition):
    """A kernel's definition with what tools read and assign.

    `cache` has the compiled kernels. Hooks in `pre_run_hooks` are called before launches.
    """

    cache: dict[Any, CompiledKernel]

    def __init__(self, fn: Callable[..., Any], options: Mapping[str, Any]) -> None:
        super().__init__(fn, JitOptions(**options))
        self.own_src = ""
        self.used_global_vals: dict[tuple[str, int], Any] = {}  # for tools that assign it
        self.pre_run_hooks: list[Hook] = []
        self.__globals__: Any = self.fn.__globals__
        self._options = options
        self._python_function: FunctionType | None = self.fn
        self._description: dict[str, Any] = {}

    @functools.cached_property
    def params(self) -> list[KernelParam]:
        """The parameters, in order."""
        exempt = self._named("do_not_specialize", self._unspecialized)
        unaligned = self._named("do_not_specialize_on_alignment", self._unaligned)
        return [
            KernelParam(
                num=num,
                name=p.name,
                annotation=annotation_text(p.annotation),
                annotation_type="" if rule.type is None else spell_type(rule.type),
                is_constexpr=p.is_constexpr,
                is_const=p.is_const,
                default=p.default,
                do_not_specialize=p.name in exempt,
                do_not_specialize_on_alignment=p.name in unaligned,
            )
            for num, (p, (_, rule)) in enumerate(zip(self.parameters, self._rules, strict=True))
        ]

    @property
    def constexprs(self) -> list[int]:
        """The positions of the parameters that are compile-time constants."""
        return [num for num, p in enumerate(self.parameters) if p.is_constexpr]

    @property
    def signature(self) -> inspect.Signature:
        """The signature of the Python function."""
        return inspect.signature(self.fn)

    # -- the source

    @property
    def module(self) -> str:
        """The name of the module that defines the function."""
        return self.fn.__module__

    @property
    def src(self) -> str:
        """The text of the definition from `def` on, without decorators and indentation."""
        if self.own_src:
            return self.own_src
        lines = self.source.text.splitlines(keepends=True)
        start = next(i for i, line in enumerate(lines) if line.startswith("def "))
        return "".join(lines[start:])

    @property
    def raw_src(self) -> list[str]:
        """The lines of the definition in its file, decorators included."""
        return inspect.getsourcelines(self.fn)[0]

    @property
    def starting_line_number(self) -> int:
        """The line of `raw_src` in its file, from 1."""
        return self.fn.__code__.co_firstlineno

    @property
    def device_caches(self) -> Mapping[int, tuple[dict[Any, CompiledKernel], ...]]:
        """The compiled kernels of each device, which is the same `cache` for all."""
        return collections.defaultdict(lambda: (self.cache,))

    @property
    def hash(self) -> str:
        """The same as `cache_key`."""
        return self.cache_key

    @property
    def cache_key(self) -> str:
        """A hash of the text of the function and of all that it captures.

        It does not depend on the place of the text: equal sources have equal keys. A captured value
        without an exact text makes the key valid in this process only.
        """
        if vars(self)["fn"] is None:
            return str(self._described()["cache_key"])
        return portable_digest(self) or f"{id(self):x}"

    # -- launches

    def _bound(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
        """Return the arguments of a launch by name, the type and key of each, and the options."""
        values, options = self._binder.bind(args, kwargs)
        adapted, keys = self._specialize(values)
        leaves = [
            Constant(value) if is_constexpr else leaf_of(value, key)
            for (is_constexpr, _), value, key in zip(self._rules, adapted, keys, strict=True)
        ]
        kinds = [(spell_leaf(leaf), key) for leaf, key in zip(leaves, keys, strict=True)]
        return dict(zip(self.arg_names, values, strict=True)), kinds, options

    def create_binder(self) -> tuple[Any, ...]:
        """Return the compiled kernels, an empty table, the target, its backend, and a binder.

        `binder(*args, **kwargs)` returns the arguments of a launch by name, the type and key of
        each, and the options.
        """
        target = target_of([])
        return self.cache, {}, target, backends.get(target.backend), self._bound

    def preload(self, specialization_data: str) -> CompiledKernel:
        """Compile the kernel that a hook of compilations was told of, for the disk cache.

        specialization_data: the text that the hook got. A launch then finds the kernel on disk.
        Raises `ArgumentValueError` for a text of another function.
        """
        return preloaded(self, specialization_data)

    def add_pre_run_hook(self, hook: Hook) -> None:
        """Call `hook(*args, **kwargs)` before every launch, once its arguments are checked."""
        self.pre_run_hooks.append(hook)

    # -- in other processes

    def nameless(self) -> Reduction | None:
        """Return the recipe to pickle a function whose `fn` a tool has cleared, else None.

        See `description`.
        """
        if vars(self)["fn"] is not None:
            return None
        return restored, (type(self), {**self._described(), "repr": self.repr})

    def _described(self) -> dict[str, Any]:
        """Return the attributes that a function without `fn` keeps."""
        if self._python_function is None:  # it is from another process
            return self._description
        self.fn = self._python_function
        try:
            return description(self)
        finally:
            self.fn = None  # type: ignore[assignment]

    def by_value(self) -> tuple[bool, Reduction]:
        """Return the recipe to decorate the function again, with the text of its source file.

        The other process may not have the file, as for a notebook's cell.
        """
        file = self.fn.__code__.co_filename
        text = linecache.getlines(file, self.fn.__globals__)
        return False, (decorated_again, (type(self), self.fn, self._options, file, text))


# -- jitted functions without their Python function

# What remains of a function, by attribute; `__dict__` of the function has the same names.
NAMES = ("name", "noinline", "__name__", "__qualname__", "__module__", "__doc__")


def description(function: Any) -> dict[str, Any]:
    """Return the attributes that a function keeps when its `fn` is cleared.

    PyTorch's compile workers clear `fn` of a jitted function and pickle the rest: the parameters,
    the text and the name of the kernel. Such a function describes a compiled kernel and cannot be
    compiled.
    """
    parameters = [replace(p, annotation=annotation_text(p.annotation)) for p in function.parameters]
    return {
        **{name: getattr(function, name) for name in NAMES},
        "parameters": tuple(parameters),
        "params": function.params,
        "own_src": function.src,
        "cache_key": function.cache_key,
    }


def restored(kind: type[DeviceFunction], attributes: dict[str, Any]) -> DeviceFunction:
    """Return a function of these attributes, in another process."""
    function = kind.__new__(kind)
    without = dict.fromkeys(("fn", "_python_function", "__globals__", "used_global_vals"))
    vars(function).update(attributes, **without, _description=attributes)
    return function


def decorated_again(
    kind: Callable[..., Any],
    fn: FunctionType,
    options: Mapping[str, Any],
    file: str,
    text: list[str],
) -> Any:
    """Return the jitted function of a function of another process, with its source file's text."""
    if linecache.getlines(file) != text:
        # `linecache.checkcache` keeps entries without a modification time.
        linecache.cache[file] = (sum(map(len, text)), None, text, file)
    # cloudpickle 3.1.3 names no file in code, so that equal functions have equal pickles.
    fn.__code__ = fn.__code__.replace(co_filename=file)
    return kind(fn, **options)
