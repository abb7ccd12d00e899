"""Value trees: the values of Python names while a kernel is compiled, and how paths merge them.

A value is a `Tensor` (a runtime value), a tuple of values, or any other Python object (a
compile-time value). Regions, calls and loops carry IR values only, so a value is flattened to its
IR values (`leaves`) and rebuilt around others (`rebuild`).

Where two paths merge, `unify` computes the merged value. Parts that differ become *phis*. Each path
has an incoming value for a phi: an IR value, a number that becomes a constant of the phi's type,
or poison if nothing reads the phi after that path.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.descriptor_type import Descriptor
from tile.ir.ops import arith
from tile.ir.types import Kind, Scalar, Type
from tile.language.base import promotion
from tile.language.base.promotion import Number
from tile.language.base.static_args import constant_value
from tile.language.base.tensor import Tensor
from tile.short_repr import join_values

POISON = None


@dataclass(frozen=True, slots=True)
class Runtime:
    """The placeholder of a runtime value that does not exist yet, with its type."""

    type: Type


def leaves(value: object) -> list[Value]:
    """Return the IR values inside a value, from left to right."""
    if isinstance(value, Tensor):
        return [value.value]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def runtime_types(value: object) -> list[Type]:
    """Return the types of the `Runtime` placeholders inside a value, from left to right."""
    if isinstance(value, Runtime):
        return [value.type]
    if isinstance(value, tuple):
        return [ty for item in value for ty in runtime_types(item)]
    return []


def rebuild(value: object, replacements: Sequence[Value]) -> object:
    """Return `value` with its IR values replaced, in order, by as many `replacements`."""
    rest = iter(replacements)
    return transform(value, lambda leaf: Tensor(next(rest)) if isinstance(leaf, Tensor) else leaf)


def transform(value: object, change: Callable[[object], object]) -> object:
    """Return `value` with a function applied to every leaf (everything that is not a tuple)."""
    if isinstance(value, tuple):
        return like(value, [transform(item, change) for item in value])
    return change(value)


def like(pattern: tuple[Any, ...], items: Sequence[object]) -> object:
    """Return a tuple of the same class as `pattern`, possibly a named tuple, with other items."""
    if type(pattern) is tuple:
        return tuple(items)
    make: Callable[[Sequence[object]], object] = getattr(type(pattern), "_make", type(pattern))
    return make(items)


def name_leaves(value: object, name: str) -> None:
    """Name IR values that have no name yet after the Python variable."""
    if isinstance(value, Tensor):
        if not value.value.name:
            value.value.name = ir_name(name)
    elif isinstance(value, tuple):
        for part, item in zip(item_names(value), value, strict=True):
            name_leaves(item, f"{name}.{part}")


def item_names(value: tuple[Any, ...]) -> Sequence[str]:
    """Return the names of a tuple's items: the fields of a named tuple, else their indices."""
    names: Sequence[str] = getattr(value, "_fields", None) or [str(i) for i in range(len(value))]
    return names


def ir_name(name: str) -> str:
    """Return a Python name as an IR name, which begins with an ASCII letter or underscore."""
    return name if name[0].isascii() else f"_{name}"


def key_of(value: object) -> Hashable:
    """Return the specialization key of a value: a runtime value's type, else class and value."""
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
    """Return True if two compile-time values are equal, or two runtime values are one IR value."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and a.value is b.value
    if isinstance(a, tuple) and isinstance(b, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a is b or key_of(a) == key_of(b)


def describe(value: object) -> str:
    """Return the text of a value in a message: the type of a runtime value, else the value."""
    if isinstance(value, tuple):
        return f"({join_values(value, describe)}{',' if len(value) == 1 else ''})"
    return promotion.describe(value)


def is_number(value: object) -> TypeGuard[Number]:
    """Return True if a value is a Python number."""
    return isinstance(value, bool | int | float)


def strong(build: Builder, value: object) -> object:
    """Return `value` with every number made a runtime constant of the first type that holds it."""
    return transform(
        value, lambda leaf: promotion.to_tensor(build, leaf) if is_number(leaf) else leaf
    )


def holds(ty: Type, number: Number) -> bool:
    """Return True if a number that merges with a runtime value of type `ty` takes that type."""
    if isinstance(ty, Descriptor):
        return False
    element = ty.element
    if not isinstance(element, Scalar) or promotion.number_type(number).kind > element.kind:
        return False
    return element.kind is not Kind.INT or element.min_value <= number <= element.max_value


class MismatchError(Exception):
    """Two values cannot be merged."""


Incoming = Value | Number | None  # None is POISON


def match(pattern: object, value: object) -> list[Incoming]:
    """Return the incoming values for the IR values inside `pattern` that make it equal `value`.

    A number takes the type of the runtime value that it replaces. Raises `MismatchError` if types
    or compile-time values differ.
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
        return [incoming for item, actual in pairs for incoming in match(item, actual)]
    if not same(pattern, value):
        raise MismatchError
    return []


@dataclass(frozen=True, slots=True)
class Phi:
    """The placeholder of an IR value that merges two paths, by its index in `Phis`."""

    index: int


class Phis:
    """The phis of two paths: their types, and the incoming values of the first and second path.

    An incoming value is `POISON` if nothing reads the phi after that path.
    """

    def __init__(self) -> None:
        self.types: list[Type] = []
        self.first: list[Incoming] = []
        self.second: list[Incoming] = []
        self.by_incoming: dict[tuple[Value | None, Value | None], Phi] = {}

    def add(self, ty: Type, first: Incoming, second: Incoming) -> Phi:
        key = None
        if isinstance(first, Value | None) and isinstance(second, Value | None):
            key = (first, second)
            if key in self.by_incoming:
                return self.by_incoming[key]
        phi = Phi(len(self.types))
        self.types.append(ty)
        self.first.append(first)
        self.second.append(second)
        if key is not None:
            self.by_incoming[key] = phi
        return phi

    def one_sided(self, value: object, *, first: bool) -> object:
        """Return the phis of a value that matters on one path only."""

        def split(leaf: object) -> object:
            if not isinstance(leaf, Tensor):
                return leaf
            own = leaf.value
            return self.add(own.type, own, POISON) if first else self.add(own.type, POISON, own)

        return transform(value, split)

    def unify(self, a: object, b: object) -> object:
        """Return the merge of `a` on the first path and `b` on the second.

        A number takes the type of the runtime value that it merges with. Two different numbers
        merge as runtime values. Raises `MismatchError` if types, or other compile-time values,
        differ.
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

    def with_number(self, a: Any, b: Any) -> Phi:
        if isinstance(a, Tensor) and is_number(b) and holds(a.type, b):
            return self.add(a.type, a.value, b)
        if isinstance(b, Tensor) and is_number(a) and holds(b.type, a):
            return self.add(b.type, a, b.value)
        if is_number(a) and is_number(b):
            ty = promotion.number_type(a)
            if ty == promotion.number_type(b):
                return self.add(ty, a, b)
        raise MismatchError

    def materialize(self, build: Builder, incoming_values: Sequence[Incoming]) -> list[Value]:
        """Return the IR values of one path; emit constants and poison at the insertion point."""
        return [
            materialize(build, incoming, ty)
            for incoming, ty in zip(incoming_values, self.types, strict=True)
        ]


def materialize(build: Builder, incoming: Incoming, ty: Type) -> Value:
    """Return an incoming value as an IR value of type `ty`."""
    if isinstance(incoming, Value):
        return incoming
    if incoming is POISON:
        return build(arith.poison, result=ty)
    return promotion.constant(build, incoming, ty).value


def resolve(template: object, values: Sequence[Value]) -> object:
    """Return a value with its phis replaced by the results of the `if`."""
    return transform(
        template, lambda leaf: Tensor(values[leaf.index]) if isinstance(leaf, Phi) else leaf
    )


def fold_constant(leaf: object) -> object:
    """Return the number of a scalar that is a constant, and any other leaf unchanged."""
    number = constant_value(leaf)
    return leaf if number is None else number


def compile_time_only(value: object, subject: str) -> object:
    """Return `value` with scalar constants as numbers.

    Raises `CompilationError` if another runtime value is in it; `subject` begins the message.
    """
    value = transform(value, fold_constant)
    if leaves(value):
        raise CompilationError(
            f"{subject} must be known when the kernel is compiled, and this is {describe(value)}, "
            "known only when it runs"
        )
    return value
