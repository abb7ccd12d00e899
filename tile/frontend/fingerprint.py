"""What a compiled function depends on: its text, all it calls, all it captures."""

from __future__ import annotations

import ast
import enum
import hashlib
import inspect
import marshal
import tokenize
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tile.frontend.captured import find
from tile.frontend.source import DeviceFunction
from tile.frontend.static import StaticFunction
from tile.ir.types import Type
from tile.language.builtin import Builtin
from tile.language.constexpr import constexpr


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
    """Collects text about functions, each function once."""

    lines: list[str] = field(default_factory=list)
    watched: list[tuple[dict[str, Any] | types.CellType, str, object]] = field(default_factory=list)
    seen: dict[object, int] = field(default_factory=dict)

    def function(self, function: DeviceFunction) -> int:
        """Add a function and what it depends on; its number."""
        known = self.seen.get(function)
        if known is not None:
            return known
        number = self.seen[function] = len(self.seen)
        source = function.source
        self.lines.append(f"function {number} {function.name} noinline={function.noinline}")
        self.lines.append(f"{source.file}:{source.first_line}\n{source.text}")
        for parameter in function.parameters:
            if not parameter.required:
                self.lines.append(f"default {parameter.name} = {self.spell(parameter.default)}")
        for name, value in self.captured(function):
            self.lines.append(f"{name} = {self.spell(value)}")
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
        for name in fn.__code__.co_names:
            value = fn.__globals__.get(name, _MISSING)
            if value is not _MISSING:
                self.watched.append((fn.__globals__, name, value))
                self.lines.append(f"{name} = {self.spell(value)}")
        return number

    def captured(self, function: DeviceFunction) -> Iterator[tuple[str, object]]:
        """The variables around a function that its text names, those of modules too, in order."""
        own = {
            *function.source.assigned_in(function.source.node),
            *(p.name for p in function.parameters),
        }
        for chain in chains(function.source.node, own):
            found, value = self.watch(function, chain[0])
            if not found:
                continue
            name = chain[0]
            for attribute in chain[1:]:
                if not isinstance(value, types.ModuleType) or not hasattr(value, attribute):
                    break
                owner, value, name = value, getattr(value, attribute), f"{name}.{attribute}"
                self.watched.append((vars(owner), attribute, vars(owner).get(attribute, _MISSING)))
            yield name, value

    def watch(self, function: DeviceFunction, name: str) -> tuple[bool, object]:
        found, value = find(function, name)
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
        if isinstance(value, tuple):
            return f"{type(value).__qualname__}({', '.join(map(self.spell, value))})"
        if isinstance(value, float):
            return f"float {value.hex()}"
        if isinstance(value, StaticFunction):
            return self.spell(value.fn)
        if isinstance(value, types.FunctionType):
            return f"python {self.python(value)}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, Builtin | Type | enum.Enum | str | bool | int | None):
            return f"{type(value).__qualname__} {value!r}"
        return f"{type(value).__qualname__} {getattr(value, '__qualname__', '')}"


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
