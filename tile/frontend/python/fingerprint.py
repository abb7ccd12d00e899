"""Fingerprints of jitted functions: a hash of the source, the callees and the captured values."""

from __future__ import annotations

import ast
import collections
import enum
import hashlib
import inspect
import marshal
import sys
import tokenize
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tile._lazy import is_lazy_reexport
from tile.frontend.python.constexpr_function import StaticFunction
from tile.frontend.python.source import ABSENT, DeviceFunction, Source, cell_contents, names_read
from tile.ir.types import Type
from tile.language.base.builtin import Bound, Builtin
from tile.language.base.constexpr import constexpr

if TYPE_CHECKING:
    from tile.frontend.python.aggregates import Definition


def exact_digest(function: DeviceFunction, constants: object) -> str | None:
    """Return a hash of a function and its compile-time constants that is valid across processes.

    It covers everything that decides what is compiled, except `tile` itself. Return None if that
    cannot be guaranteed, because a captured value or constant is of a class that has no exact text.
    """
    walk = _Walk()
    walk.function(function)
    walk.lines.append(walk.spell(constants))
    return walk.digest()


def portable_digest(function: DeviceFunction) -> str | None:
    """Return a hash like `exact_digest` that does not depend on the files and lines of sources.

    Kernels of equal functions differ in the lines that their errors name, and in nothing else.
    """
    walk = _Walk(located=False)
    walk.function(function)
    return walk.digest()


@dataclass
class _Walk:
    """Collects text about functions, each function once.

    `located` includes the files and lines of sources. `inexact` becomes True at a value whose text
    another value may share.
    """

    located: bool = True
    inexact: bool = False
    lines: list[str] = field(default_factory=list)
    seen: dict[object, int] = field(default_factory=dict)
    open: list[object] = field(default_factory=list)  # the enclosing collections

    def digest(self) -> str | None:
        """Return the hash of the text; None if it is not exact."""
        return None if self.inexact else hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    def function(self, function: DeviceFunction) -> int:
        """Add a function and its dependences, and return its number."""
        if (seen := self.seen.get(function)) is not None:
            return seen
        number = self.seen[function] = len(self.seen)
        if str(function.fn.__module__).startswith("tile."):  # constant within a process
            self.lines.append(f"function {number} {function.fn.__module__}.{function.name}")
            return number
        source = function.source
        self.lines.append(f"function {number} {function.name} noinline={function.noinline}")
        place = f"{source.file}:{source.first_line}" if self.located else ""
        self.lines.append(f"{place}\n{_undecorated(source)}")
        for parameter in function.parameters:
            if not parameter.required:
                self.lines.append(f"default {parameter.name} = {self.spell(parameter.default)}")
        self.lines.extend(self.captured(function))
        return number

    def python(self, fn: types.FunctionType) -> int:
        """Add a plain Python function that runs at compile time, and return its number."""
        if (seen := self.seen.get(fn)) is not None:
            return seen
        number = self.seen[fn] = len(self.seen)
        try:
            text = inspect.getsource(fn)
        except (OSError, SyntaxError, tokenize.TokenError):
            text = marshal.dumps(fn.__code__).hex()
        self.lines.append(f"python {number} {text}")
        defaults = (fn.__defaults__, fn.__kwdefaults__)
        self.lines.append(f"defaults = {self.spell(defaults)}")
        used = sorted(set(names_read(fn.__code__)))
        cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
        variables = [(name, cell_contents(cell)) for name, cell in cells]
        variables += [(name, fn.__globals__.get(name, ABSENT)) for name in used]
        for name, value in variables:
            if value is not ABSENT:
                self.lines.append(f"{name} = {self.spell(value)}")
                self.module_attributes(name, value, used)
        return number

    def module_attributes(self, name: str, value: object, used: list[str]) -> None:
        """Add the attributes of a user's module that a Python function may read."""
        if not isinstance(value, types.ModuleType) or _is_versioned(value.__name__):
            return
        for attribute in used:
            member = vars(value).get(attribute, ABSENT)
            if member is not ABSENT and not isinstance(member, types.ModuleType):
                self.lines.append(f"{name}.{attribute} = {self.spell(member)}")
            elif member is not ABSENT and not _is_versioned(str(getattr(member, "__name__", ""))):
                self.inexact = True  # a module in a module: rare, and not followed

    def captured(self, function: DeviceFunction) -> Iterator[str]:
        """Yield the captured variables that a function names, including attributes of modules.

        A lazily imported name of this package is identified by its name, and is not imported here.
        """
        own = {
            *function.source.assigned_in(function.source.node),
            *(p.name for p in function.parameters),
        }
        for chain in name_chains(function.source.node, own):
            exists, value = function.outside(chain[0])
            if not exists:
                continue
            name, text = chain[0], ""
            for attribute in chain[1:]:
                if not isinstance(value, types.ModuleType):
                    break
                if is_lazy_reexport(value, attribute):
                    name, text = f"{name}.{attribute}", f"{attribute} of {value.__name__}"
                    break
                if not hasattr(value, attribute):
                    break
                value, name = getattr(value, attribute), f"{name}.{attribute}"
            yield f"{name} = {text or self.spell(value)}"

    def spell(self, value: object) -> str:
        if isinstance(value, constexpr):
            return f"constexpr {self.spell(value.value)}"
        if isinstance(value, DeviceFunction):
            return f"function {self.function(value)}"
        if isinstance(value, tuple | list | dict | set | frozenset) and len(self.open) < _DEEP:
            return self.collection(value)
        if isinstance(value, float):
            return f"float {value.hex()}"
        if isinstance(value, StaticFunction):
            return self.spell(value.fn)
        if isinstance(value, types.FunctionType):
            if _is_versioned_function(value):
                return f"python {value.__module__}.{value.__qualname__}"
            return f"python {self.python(value)}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, enum.Enum):
            return f"{self.spell(type(value))} {value.name}"
        if isinstance(value, Bound):
            return f"{value.builtin!r} of {self.spell(value.receiver)}"
        if isinstance(value, type):
            return self.type(value)
        if isinstance(value, types.BuiltinFunctionType | types.MethodType):
            owner = value.__self__
            of = "" if owner is None else f" of {self.spell(owner)}"
            return f"{type(value).__qualname__} {value.__qualname__}{of}"
        if isinstance(value, np.generic):
            return f"{value.dtype} {value.tobytes().hex()}"
        is_exact = isinstance(value, _EXACT) or value is ABSENT or value is Ellipsis
        if is_exact or (type(value).__module__ == "torch" and type(value).__name__ == "dtype"):
            return f"{type(value).__qualname__} {value!r}"
        self.inexact = True
        return f"{type(value).__qualname__} {getattr(value, '__qualname__', '')}"

    def collection(self, value: Any) -> str:
        """Return the text of a tuple, list, set or dictionary with its items."""
        self.open.append(value)
        items = value.items() if isinstance(value, dict) else value
        words = [self.spell(item) for item in items]
        self.open.pop()
        if isinstance(value, set | frozenset):  # their order differs between processes
            words.sort()
        kind = type(value)
        name = kind.__qualname__ if kind.__module__ == "builtins" else self.type(kind)
        return f"{name}({', '.join(words)})"

    def type(self, value: type) -> str:
        """Return the text of a class: its name, and its members if its definition may change."""
        name = f"{value.__module__}.{value.__qualname__}"
        if value in self.seen or _is_versioned(value.__module__):
            return f"class {name}"
        self.seen[value] = len(self.seen)
        if issubclass(value, enum.Enum):
            words = [f"{one.name} = {self.spell(one.value)}" for one in value]
            plain: Mapping[str, Any] = vars(_PlainEnum)
        elif (definition := _definition_of(value)) is not None:
            words = list(self.aggregate(definition))
            plain = definition.members
        elif issubclass(value, tuple) and hasattr(value, "_fields"):
            words = [self.spell(getattr(value, of)) for of in ("_fields", "_field_defaults")]
            plain = vars(_PlainTuple)
        else:
            self.inexact = True
            return f"class {name}"
        own = {name for name, member in vars(value).items() if _is_code(member)}
        self.inexact |= not own <= plain.keys()
        return f"class {name}: {', '.join(words)}"

    def aggregate(self, definition: Definition) -> Iterator[str]:
        """Yield the text of the fields, methods and defaults of a class of aggregates."""
        for name, described in definition.fields.items():
            yield f"{name}: {self.spell(described.annotation)}"
        for table in (definition.members, definition.defaults):
            for name, member in table.items():
                yield f"{name} = {self.spell(getattr(member, '__func__', member))}"


_EXACT = (Builtin, Type, str, bool, int, complex, bytes, types.NoneType, np.dtype)
_DEEP = 20  # nested collections; a deeper one may contain itself

# Classes with the methods that every class of their kind has. Module-level references keep them
# alive, since garbage collection of a class empties the dictionary that `vars` returned for it.
_PlainEnum = enum.Enum("_PlainEnum", {"A": 1})
_PlainTuple = collections.namedtuple("_PlainTuple", [])

# Packages whose functions and classes are identified by name alone: the versions of those that
# matter are part of every cache key, or follow from the version of Python.
_VERSIONED = {*sys.stdlib_module_names, "builtins", "tile", "triton", "numpy", "ml_dtypes", "torch"}


def _is_versioned(module: str) -> bool:
    return module.partition(".")[0] in _VERSIONED and module != "__main__"


def _is_versioned_function(value: types.FunctionType) -> bool:
    """Return True if a function is the one that a versioned package exports under its name."""
    module = sys.modules.get(value.__module__)
    return _is_versioned(value.__module__) and getattr(module, value.__qualname__, None) is value


def _definition_of(value: type) -> Definition | None:
    """Return the definition of a class of aggregates, or None for any other class.

    The class is known by its name: a process that finds its kernels on disk loads no aggregates.
    """
    if type(value).__name__ != "AggregateType":
        return None
    definition: Definition = value._definition  # type: ignore[attr-defined]
    return definition


def _is_code(member: object) -> bool:
    return callable(member) or isinstance(member, property | classmethod | staticmethod)


def _undecorated(source: Source) -> str:
    """Return a function's text without its decorators, on which its code does not depend."""
    return "\n".join(source.text.splitlines()[source.node.lineno - 1 :])


def name_chains(node: ast.FunctionDef, own: set[str]) -> list[tuple[str, ...]]:
    """Return the free names that a function reads, each with the attributes read of it."""
    names: dict[tuple[str, ...], None] = {}

    def visit(inner: ast.AST, after: tuple[str, ...] = ()) -> None:
        if isinstance(inner, ast.Attribute):
            visit(inner.value, (inner.attr, *after))
        elif isinstance(inner, ast.Name):
            if isinstance(inner.ctx, ast.Load) and inner.id not in own:
                names[inner.id, *after] = None
        else:
            for child in ast.iter_child_nodes(inner):
                visit(child)

    visit(node)
    return list(names)
