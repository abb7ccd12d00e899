"""Dataclasses that take a quarter of the time to define.

`dataclasses.dataclass` compiles five methods of a class when it is defined, which takes 0.5 ms. The
compiler has some 400 such classes, and a process compares or hashes instances of few. Here a class
gets `__init__` at once, `__eq__` and `__hash__` when they are first called, and shares the others.
For `fields`, `replace`, `asdict` and type checkers it is a dataclass like any other. Options other
than `frozen`, `eq` and the one for `__slots__` are left to the standard library.
"""

from __future__ import annotations

import dataclasses
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


@dataclasses.dataclass
class _Plain:
    example: int = 0


@dataclasses.dataclass(frozen=True)
class _Frozen:
    example: int = 0


def _dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, **options: Any) -> Any:
    """Return a dataclass, or a decorator if there is no class."""
    if set(options) - {"slots"}:
        made = dataclasses.dataclass(frozen=frozen, eq=eq, **options)
        return made if cls is None else made(cls)
    has_dictionary = not options.get("slots")

    def decorate(cls: Any) -> Any:
        fields = _fields(cls)
        cls = cls if has_dictionary else _without_dictionary(cls, fields)
        cls.__dataclass_fields__ = fields
        example: Any = _Frozen if frozen else _Plain
        cls.__dataclass_params__ = example.__dataclass_params__
        _add(cls, "__match_args__", tuple(one.name for one in fields.values() if one.init))
        _add(cls, "__init__", _init(cls, fields, frozen=frozen))
        _add(cls, "__repr__", _repr)
        if eq:
            _add_comparison(cls, fields, frozen=frozen)
        if frozen:
            cls.__setattr__, cls.__delattr__ = _frozen_methods(cls, frozenset(fields))
            if not has_dictionary:  # by default, a copy would set attributes
                _add(cls, "__getstate__", _state)
                _add(cls, "__setstate__", _set_state)
        return cls

    return decorate if cls is None else decorate(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def _fields(cls: type) -> dict[str, Field[Any]]:
    """Return the fields of a class by name, and set its attributes to their defaults."""
    fields: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        fields |= base.__dict__.get("__dataclass_fields__", {})
    kind: Any = _Plain.__dataclass_fields__["example"]
    for name, annotation in inspect.get_annotations(cls).items():
        if "ClassVar" in str(annotation):
            continue
        default = getattr(cls, name, MISSING)
        one: Any = default if isinstance(default, Field) else dataclasses.field(default=default)
        one.name, one.type, one.kw_only = name, annotation, False
        one._field_type = kind._field_type
        if one.default is not MISSING:
            setattr(cls, name, one.default)
        elif one is default:
            delattr(cls, name)
        fields[name] = one
    return fields


def _without_dictionary(cls: type, fields: Mapping[str, Field[Any]]) -> type:
    """Return the class with `__slots__` for its fields, which is another class."""
    left_out = {*fields, "__dict__", "__weakref__"}
    body = {name: value for name, value in cls.__dict__.items() if name not in left_out}
    inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    body["__slots__"] = tuple(name for name in fields if name not in inherited)
    made: type = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: Iterable[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


def _add(cls: type, name: str, value: Any) -> None:
    """Set an attribute that a class does not define itself."""
    if name not in cls.__dict__:
        setattr(cls, name, value)


def _method(cls: type, name: str, text: str, values: Mapping[str, Any]) -> Callable[..., Any]:
    """Compile a method of a class. values: the names in its text."""
    space = {"__name__": cls.__module__, **values}
    exec(text, space)
    method: Callable[..., Any] = space[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


_ABSENT = object()  # the default of fields with a factory


def _init(cls: type, fields: Mapping[str, Field[Any]], *, frozen: bool) -> Callable[..., Any]:
    """Return the `__init__` of a class."""
    values: dict[str, Any] = {"_set": object.__setattr__, "_absent": _ABSENT}
    parameters, lines = ["self"], []
    for name, one in fields.items():
        value = name
        if one.default_factory is not MISSING:
            values[f"_make_{name}"] = one.default_factory
            made = f"_make_{name}()"
            value = f"{made} if {name} is _absent else {name}" if one.init else made
            parameters += [f"{name}=_absent"] * one.init
        elif one.default is not MISSING:
            values[f"_default_{name}"] = one.default
            parameters += [f"{name}=_default_{name}"] * one.init
        else:
            parameters += [name] * one.init
        if one.init or one.default_factory is not MISSING:
            lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    lines += ["self.__post_init__()"] * hasattr(cls, "__post_init__")
    body = "\n    ".join(lines or ["pass"])
    method = _method(cls, "__init__", f"def __init__({', '.join(parameters)}):\n    {body}", values)
    types = {name: one.type for name, one in fields.items() if one.init}
    method.__annotations__ = {**types, "return": None}
    return method


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = [one.name for one in dataclasses.fields(self) if one.repr]
    return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


def _add_comparison(cls: Any, fields: Mapping[str, Field[Any]], *, frozen: bool) -> None:
    """Add `__eq__`, and `__hash__` to a frozen class."""
    own = cls.__dict__
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    compared = [one.name for one in fields.values() if one.compare]
    mine, others = (_tuple(f"{of}.{name}" for name in compared) for of in ("self", "other"))
    text = f"def __eq__(self, other):\n    return {mine} == {others} if other.__class__ is "
    _add(cls, "__eq__", _deferred(cls, "__eq__", f"{text}self.__class__ else NotImplemented"))
    if has_hash:
        return
    cls.__hash__ = None
    if frozen:
        hashed = [n for n, one in fields.items() if (one.compare if one.hash is None else one.hash)]
        items = _tuple(f"self.{name}" for name in hashed)
        text = f"def __hash__(self):\n    return hash({items})"
        cls.__hash__ = _deferred(cls, "__hash__", text)


def _tuple(words: Iterable[str]) -> str:
    return f"({''.join(f'{word}, ' for word in words)})"


def _deferred(cls: type, name: str, text: str) -> Callable[..., Any]:
    """Return a method that compiles its text when it is first called, and takes its own place."""

    def method(self: Any, *args: Any) -> Any:
        compiled = _method(cls, name, text, {})
        setattr(cls, name, compiled)
        return compiled(self, *args)

    return method


def _frozen_methods(cls: Any, names: frozenset[str]) -> tuple[Any, Any]:
    """Return `__setattr__` and `__delattr__` of a class whose fields cannot be changed."""

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return set_attribute, delete_attribute
