"""What a Python name can stand for while a kernel is compiled, and how two such things become one.

A value is a `Tensor` (known when the kernel runs), a tuple of values, or any other Python object
(known now). Regions, calls and loops carry IR values only, so a value is taken apart into the IR
values in it (`leaves`) and put together again around others (`rebuild`).

Where two paths meet, `unify` finds the value that stands for both: what differs becomes a *slot*,
which each path fills in its own way: with an IR value, with a number still to become a constant,
or, where nobody will look, with poison.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from tile.brief import listed
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.ops import arith
from tile.ir.types import Descriptor, Kind, Scalar, Type
from tile.language import promote
from tile.language.known import (
    constant_value,
)
from tile.language.promote import Number
from tile.language.tensor import Tensor

POISON = None


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime value that does not exist yet, by its type."""

    type: Type


def leaves(value: object) -> list[Value]:
    """The IR values inside a value, from left to right."""
    if isinstance(value, Tensor):
        return [value.value]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def runtime_types(value: object) -> list[Type]:
    """The types of the runtime values inside a value, where they do not exist yet."""
    if isinstance(value, Runtime):
        return [value.type]
    if isinstance(value, tuple):
        return [ty for item in value for ty in runtime_types(item)]
    return []


def rebuild(value: object, replacements: Sequence[Value]) -> object:
    """`value` with the IR values inside it exchanged for others, of which there are as many."""
    rest = iter(replacements)
    return transform(value, lambda leaf: Tensor(next(rest)) if isinstance(leaf, Tensor) else leaf)


def transform(value: object, change: Callable[[object], object]) -> object:
    """`value` with everything in it that is no tuple changed by a function."""
    if isinstance(value, tuple):
        return like(value, [transform(item, change) for item in value])
    return change(value)


def like(pattern: tuple[Any, ...], items: Sequence[object]) -> object:
    """A tuple of the same class, which may be a named one, with other items."""
    if type(pattern) is tuple:
        return tuple(items)
    make: Callable[..., object] = type(pattern)
    return make(*items)


def name_leaves(value: object, name: str) -> None:
    """Let IR values that have no name yet be called after the Python variable."""
    if isinstance(value, Tensor):
        if not value.value.name:
            value.value.name = ir_name(name)
    elif isinstance(value, tuple):
        for part, item in zip(item_names(value), value, strict=True):
            name_leaves(item, f"{name}.{part}")


def item_names(value: tuple[Any, ...]) -> Sequence[str]:
    """What the items of a tuple are called: by their fields in a named one, else by number."""
    names: Sequence[str] = getattr(value, "_fields", None) or [str(i) for i in range(len(value))]
    return names


def ir_name(name: str) -> str:
    """A Python name as the IR spells it, where names begin with an ASCII letter or underscore."""
    return name if name[0].isascii() else f"_{name}"


def key_of(value: object) -> Hashable:
    """What a function is specialised on: types of runtime values; class and value of all others."""
    if isinstance(value, Tensor):
        return value.type
    if isinstance(value, tuple):
        return (type(value), *map(key_of, value))
    if isinstance(value, float):
        return float, struct.pack("d", value)
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value


def same(a: object, b: object) -> bool:
    """Whether two compile-time values are the same, or two runtime values one IR value."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and a.value is b.value
    if isinstance(a, tuple) and isinstance(b, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a is b or key_of(a) == key_of(b)


def describe(value: object) -> str:
    """A value as a message names it: a runtime value by its type, others by themselves."""
    if isinstance(value, tuple):
        return f"({listed(value, describe)}{',' if len(value) == 1 else ''})"
    return promote.describe(value)


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a Python number."""
    return isinstance(value, bool | int | float)


def strong(build: Builder, value: object) -> object:
    """`value` with every number in it made a runtime constant of the first type that holds it."""
    return transform(
        value, lambda leaf: promote.to_tensor(build, leaf) if is_number(leaf) else leaf
    )


def holds(ty: Type, number: Number) -> bool:
    """Whether a number that meets a runtime value of type `ty` becomes a constant of that type."""
    if isinstance(ty, Descriptor):
        return False
    element = ty.element
    if not isinstance(element, Scalar) or promote.number_type(number).kind > element.kind:
        return False
    return element.kind is not Kind.INT or element.min_value <= number <= element.max_value


class MismatchError(Exception):
    """Two values have nothing in common that could stand for both."""


Filling = Value | Number | None


def match(pattern: object, value: object) -> list[Filling]:
    """What to put for the IR values inside `pattern`, so that it stands for `value`.

    A number takes the type of the runtime value it stands in for. Raises `MismatchError` where
    types or compile-time values differ.
    """
    if isinstance(pattern, Tensor):
        if isinstance(value, Tensor) and value.type == pattern.type:
            return [value.value]
        if is_number(value) and holds(pattern.type, value):
            return [value]
        raise MismatchError
    if isinstance(pattern, tuple) and isinstance(value, tuple):
        if type(pattern) is not type(value) or len(pattern) != len(value):
            raise MismatchError
        pairs = zip(pattern, value, strict=True)
        return [filling for item, given in pairs for filling in match(item, given)]
    if not same(pattern, value):
        raise MismatchError
    return []


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of an IR value that does not exist yet."""

    index: int


class Slots:
    """What each of two paths puts into the slots; `POISON` where a path's value does not matter."""

    def __init__(self) -> None:
        self.types: list[Type] = []
        self.first: list[Filling] = []
        self.second: list[Filling] = []
        self.known: dict[tuple[Value | None, Value | None], Slot] = {}

    def add(self, ty: Type, first: Filling, second: Filling) -> Slot:
        key = None
        if isinstance(first, Value | None) and isinstance(second, Value | None):
            key = (first, second)
            if key in self.known:
                return self.known[key]
        slot = Slot(len(self.types))
        self.types.append(ty)
        self.first.append(first)
        self.second.append(second)
        if key is not None:
            self.known[key] = slot
        return slot

    def one_sided(self, value: object, *, first: bool) -> object:
        """A value that exists on one path only, while on the other it does not matter."""

        def split(leaf: object) -> object:
            if not isinstance(leaf, Tensor):
                return leaf
            own = leaf.value
            return self.add(own.type, own, POISON) if first else self.add(own.type, POISON, own)

        return transform(value, split)

    def unify(self, a: object, b: object) -> object:
        """What stands for `a` after the first path and for `b` after the second.

        A number takes the type of the runtime value it meets; two different numbers meet as runtime
        values. Raises `MismatchError` where types, or other values known at compile time, differ.
        """
        if same(a, b):
            return a
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            if a.type != b.type:
                raise MismatchError
            return self.add(a.type, a.value, b.value)
        if isinstance(a, tuple) and isinstance(b, tuple):
            if type(a) is not type(b) or len(a) != len(b):
                raise MismatchError
            return like(a, [self.unify(x, y) for x, y in zip(a, b, strict=True)])
        return self.with_number(a, b)

    def with_number(self, a: Any, b: Any) -> Slot:
        if isinstance(a, Tensor) and is_number(b) and holds(a.type, b):
            return self.add(a.type, a.value, b)
        if isinstance(b, Tensor) and is_number(a) and holds(b.type, a):
            return self.add(b.type, a, b.value)
        if is_number(a) and is_number(b):
            ty = promote.number_type(a)
            if ty == promote.number_type(b):
                return self.add(ty, a, b)
        raise MismatchError

    def fill(self, build: Builder, fillings: Sequence[Filling]) -> list[Value]:
        """The IR values of one path, constants and poison made where `build` stands."""
        return [
            materialise(build, filling, ty)
            for filling, ty in zip(fillings, self.types, strict=True)
        ]


def materialise(build: Builder, filling: Filling, ty: Type) -> Value:
    """An IR value of type `ty` for what a path puts into a slot."""
    if isinstance(filling, Value):
        return filling
    if filling is POISON:
        return build(arith.poison, result=ty)
    return promote.constant(build, filling, ty).value


def resolve(template: object, values: Sequence[Value]) -> object:
    """A value made of slots, once the IR values that fill them exist."""
    return transform(
        template, lambda leaf: Tensor(values[leaf.index]) if isinstance(leaf, Slot) else leaf
    )


def known(leaf: object) -> object:
    """A scalar that is a constant as its number; anything else as it is."""
    number = constant_value(leaf)
    return leaf if number is None else number


def compile_time_only(value: object, what: str) -> object:
    """`value` with constants as numbers; nothing else in it may be a runtime value.

    Raises `CompilationError` naming `what`.
    """
    value = transform(value, known)
    if leaves(value):
        raise CompilationError(
            f"{what} must be known when the kernel is compiled, and this is {describe(value)}, "
            "known only when it runs"
        )
    return value
