"""What a compiled function depends on: its text, all it calls, all it captures."""

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
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tile.frontend.source import DeviceFunction
from tile.frontend.static import StaticFunction
from tile.ir.types import Type
from tile.language.builtin import Bound, Builtin
from tile.language.constexpr import constexpr
from tile.late import is_given_on


def fingerprint(function: DeviceFunction) -> str:
    """A hash that changes when the function, what it calls or a captured value does.

    The place of the text counts too, since compiled kernels name it in reports. Raises
    `CompilationError` if a source cannot be read.
    """
    return snapshot(function).digest


def snapshot(function: DeviceFunction) -> Snapshot:
    """The fingerprint, with what to look at to see whether it still holds."""
    walk = _Walk()
    walk.function(function)
    text = "\n".join(walk.lines)
    return Snapshot(hashlib.sha256(text.encode()).hexdigest(), tuple(walk.watched))


def exact_digest(function: DeviceFunction, constants: object) -> str | None:
    """A hash of a function and the constants it is compiled for, for use by other processes.

    It differs where anything differs that decides what is compiled, but for `tile` itself. None
    where that cannot be told: a captured value or constant is an object of a class of which nothing
    is known.
    """
    walk = _Walk()
    walk.function(function)
    walk.lines.append(walk.spell(constants))
    if walk.inexact:
        return None
    return hashlib.sha256("\n".join(walk.lines).encode()).hexdigest()


@dataclass(frozen=True)
class Snapshot:
    """A fingerprint, and the variables behind it: where they live, their names and values."""

    digest: str
    watched: tuple[tuple[dict[str, Any] | types.CellType, str, object], ...]

    def holds(self) -> bool:
        """Whether every captured variable still is what it was. Costs one look-up for each."""
        return all(_current(owner, name) is value for owner, name, value in self.watched)


def spell(value: object) -> str:
    """A value known at compile time as text that differs where the value does."""
    walk = _Walk()
    walk.lines.append(walk.spell(value))
    return "\n".join(walk.lines)


_MISSING = object()


def _current(owner: dict[str, Any] | types.CellType, name: str) -> object:
    if isinstance(owner, dict):
        return owner.get(name, _MISSING)
    try:
        return owner.cell_contents
    except ValueError:
        return _MISSING


@dataclass
class _Walk:
    """Collects text about functions, each function once.

    `inexact` becomes true at a value whose text may be the same for another one.
    """

    inexact: bool = False
    lines: list[str] = field(default_factory=list)
    watched: list[tuple[dict[str, Any] | types.CellType, str, object]] = field(default_factory=list)
    seen: dict[object, int] = field(default_factory=dict)
    open: list[object] = field(default_factory=list)  # the collections around what is spelt

    def function(self, function: DeviceFunction) -> int:
        """Add a function and what it depends on; its number."""
        known = self.seen.get(function)
        if known is not None:
            return known
        number = self.seen[function] = len(self.seen)
        if str(function.fn.__module__).startswith("tile."):  # which does not change under a process
            self.lines.append(f"function {number} {function.fn.__module__}.{function.name}")
            return number
        source = function.source
        self.lines.append(f"function {number} {function.name} noinline={function.noinline}")
        self.lines.append(f"{source.file}:{source.first_line}\n{source.text}")
        for parameter in function.parameters:
            if not parameter.required:
                self.lines.append(f"default {parameter.name} = {self.spell(parameter.default)}")
        self.lines.extend(self.captured(function))
        return number

    def python(self, fn: types.FunctionType) -> int:
        """Add a plain Python function that runs while kernels are compiled; its number."""
        known = self.seen.get(fn)
        if known is not None:
            return known
        number = self.seen[fn] = len(self.seen)
        try:
            text = inspect.getsource(fn)
        except (OSError, SyntaxError, tokenize.TokenError):
            text = marshal.dumps(fn.__code__).hex()
        self.lines.append(f"python {number} {text}")
        defaults = (fn.__defaults__, fn.__kwdefaults__)
        self.lines.append(f"defaults = {self.spell(defaults)}")
        used = sorted(set(_names(fn.__code__)))
        places: list[tuple[dict[str, Any] | types.CellType, str]] = [
            *zip(fn.__closure__ or (), fn.__code__.co_freevars, strict=True),
            *((fn.__globals__, name) for name in used),
        ]
        for owner, name in places:
            value = _current(owner, name)
            if value is not _MISSING:
                self.watched.append((owner, name, value))
                self.lines.append(f"{name} = {self.spell(value)}")
                self.through(name, value, used)
        return number

    def through(self, name: str, value: object, used: list[str]) -> None:
        """Add what a Python function may take of a user's module."""
        if not isinstance(value, types.ModuleType) or _is_known(value.__name__):
            return
        for attribute in used:
            held = vars(value).get(attribute, _MISSING)
            if held is not _MISSING and not isinstance(held, types.ModuleType):
                self.watched.append((vars(value), attribute, held))
                self.lines.append(f"{name}.{attribute} = {self.spell(held)}")
            elif held is not _MISSING and not _is_known(str(getattr(held, "__name__", ""))):
                self.inexact = True  # a module in a module: seldom, and not followed

    def captured(self, function: DeviceFunction) -> Iterator[str]:
        """The variables around a function that its text names, those of modules too, in order.

        What this package gives on is known by its name, and is not imported for this.
        """
        own = {
            *function.source.assigned_in(function.source.node),
            *(p.name for p in function.parameters),
        }
        for chain in chains(function.source.node, own):
            found, value = self.watch(function, chain[0])
            if not found:
                continue
            name, spelt = chain[0], ""
            for attribute in chain[1:]:
                if not isinstance(value, types.ModuleType):
                    break
                if is_given_on(value, attribute):
                    name, spelt = f"{name}.{attribute}", f"{attribute} of {value.__name__}"
                    break
                if not hasattr(value, attribute):
                    break
                owner, value, name = value, getattr(value, attribute), f"{name}.{attribute}"
                self.watched.append((vars(owner), attribute, vars(owner).get(attribute, _MISSING)))
            yield f"{name} = {spelt or self.spell(value)}"

    def watch(self, function: DeviceFunction, name: str) -> tuple[bool, object]:
        found, value = function.outside(name)
        fn = function.fn
        free = fn.__code__.co_freevars
        if name in free and fn.__closure__ is not None:
            cell = fn.__closure__[free.index(name)]
            self.watched.append((cell, name, _current(cell, name)))
        else:
            self.watched.append((fn.__globals__, name, fn.__globals__.get(name, _MISSING)))
        return found, value

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
            if _is_known_function(value):
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
        is_exact = isinstance(value, _EXACT) or value is _MISSING or value is Ellipsis
        if is_exact or (type(value).__module__ == "torch" and type(value).__name__ == "dtype"):
            return f"{type(value).__qualname__} {value!r}"
        self.inexact = True
        return f"{type(value).__qualname__} {getattr(value, '__qualname__', '')}"

    def collection(self, value: Any) -> str:
        """A tuple, list, set or dictionary with all that is in it."""
        self.open.append(value)
        items = value.items() if isinstance(value, dict) else value
        words = [self.spell(item) for item in items]
        self.open.pop()
        if isinstance(value, set | frozenset):  # in an order of their own, in each process another
            words.sort()
        kind = type(value)
        name = kind.__qualname__ if kind.__module__ == "builtins" else self.type(kind)
        return f"{name}({', '.join(words)})"

    def type(self, value: type) -> str:
        """A class: by its name where its meaning cannot change, else with what it holds."""
        name = f"{value.__module__}.{value.__qualname__}"
        if value in self.seen or _is_known(value.__module__):
            return f"class {name}"
        self.seen[value] = len(self.seen)
        if issubclass(value, enum.Enum):
            words = [f"{one.name} = {self.spell(one.value)}" for one in value]
            plain = vars(_PlainEnum)
        elif issubclass(value, tuple) and hasattr(value, "_fields"):
            words = [self.spell(getattr(value, of)) for of in ("_fields", "_field_defaults")]
            plain = vars(_PlainTuple)
        else:
            self.inexact = True
            return f"class {name}"
        own = {name for name, held in vars(value).items() if _is_code(held)}
        self.inexact |= not own <= plain.keys()
        return f"class {name}: {', '.join(words)}"


_EXACT = (Builtin, Type, str, bool, int, complex, bytes, types.NoneType, np.dtype)
_DEEP = 20  # collections inside each other; what is deeper may be inside itself

# Classes with the functions that every one of their kind has. They are kept, since a class that is
# garbage-collected empties the dictionary that `vars` returned for it.
_PlainEnum = enum.Enum("_PlainEnum", {"A": 1})
_PlainTuple = collections.namedtuple("_PlainTuple", [])

# Packages whose functions and classes are taken to mean always the same: the versions of those that
# matter are in every key, or with the interpreter's.
_KNOWN = frozenset(sys.stdlib_module_names) | {"builtins", "tile", "numpy", "ml_dtypes", "torch"}


def _is_known(module: str) -> bool:
    return module.partition(".")[0] in _KNOWN and module != "__main__"


def _is_known_function(value: types.FunctionType) -> bool:
    """Whether it is what such a package has by its name."""
    home = sys.modules.get(value.__module__)
    return _is_known(value.__module__) and getattr(home, value.__qualname__, None) is value


def _is_code(held: object) -> bool:
    return callable(held) or isinstance(held, property | classmethod | staticmethod)


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that Python code takes from outside, of inner functions too, and of attributes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def chains(node: ast.AST, own: set[str]) -> list[tuple[str, ...]]:
    """The names that a function reads and does not assign, each with attributes taken of it."""
    found: dict[tuple[str, ...], None] = {}

    def visit(inner: ast.AST, after: tuple[str, ...] = ()) -> None:
        if isinstance(inner, ast.Attribute):
            visit(inner.value, (inner.attr, *after))
        elif isinstance(inner, ast.Name):
            if isinstance(inner.ctx, ast.Load) and inner.id not in own:
                found[inner.id, *after] = None
        else:
            for child in ast.iter_child_nodes(inner):
                visit(child)

    visit(node)
    return list(found)
