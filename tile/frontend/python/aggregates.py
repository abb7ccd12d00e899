"""Aggregates: classes of values with named fields and methods, for kernels.

    @tile.aggregate
    class Pair:
        first: tl.tensor
        second: tl.tensor

        @tile.jit
        def total(self):
            return self.first + self.second

An aggregate is a tuple of its fields, so it goes where tuples go: into functions and out of them,
through loops and branches, and from the host into a kernel. Unlike the items of a tuple, fields
annotated `tl.constexpr` stay compile-time values in loops.

Aggregates are values. `pair.first = x` in a kernel binds the name `pair` to another value, as
`pair = tile.aggregate_replace(pair, first=x)` does; other names of the earlier value keep that.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, TypeVar, cast

from tile.errors import ArgumentTypeError
from tile.frontend.python.constexpr_function import StaticFunction
from tile.frontend.python.source import (
    DeviceFunction,
    is_constexpr_annotation,
    is_tensor_annotation,
)
from tile.ir.types import Type
from tile.language.base.builtin import SEMANTIC, Emitter
from tile.language.base.constexpr import constexpr
from tile.language.base.tensor import Tensor
from tile.short_repr import short_repr
from tile.tracebacks import public_function

C = TypeVar("C", bound=type)

DRAFT = "aggregate is a draft"  # in the namespace of a value while `__init__` runs
NAMESPACE = frozenset({"__init__", "__doc__", "__module__", "__qualname__", "__annotations__"})


class Field:
    """The attribute of a field: an item of the tuple, and a variable while `__init__` runs."""

    def __init__(self, name: str, index: int, annotation: Any) -> None:
        self.name = name
        self.index = index
        self.annotation = annotation
        self.is_constexpr = is_constexpr_annotation(annotation)
        self.is_tensor = is_tensor_annotation(annotation)

    def __get__(self, instance: Aggregate | None, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if DRAFT not in vars(instance):
            return tuple.__getitem__(instance, self.index)
        if self.name not in vars(instance):
            raise AttributeError(f"field `{self.name}` of {type(instance).__name__} has no value")
        return vars(instance)[self.name]

    def __set__(self, instance: Aggregate, value: Any) -> None:
        if DRAFT not in vars(instance):
            raise AttributeError(
                f"cannot assign to field '{self.name}' of an aggregate, which does not change; use "
                "aggregate_replace()"
            )
        vars(instance)[self.name] = self.checked(value, type(instance).__name__)

    def checked(self, value: Any, owner: str) -> Any:
        """Return the value as the aggregate has it; raise `ArgumentTypeError` for a wrong one."""
        if self.is_constexpr and not isinstance(value, Tensor):
            return constexpr(value)
        if self.is_tensor and isinstance(value, constexpr):
            value = value.value
        if self._accepts(value):
            return value
        expected = getattr(self.annotation, "__name__", self.annotation)
        raise ArgumentTypeError(
            f"Expected {expected} for attribute '{self.name}' of {owner}, got {short_repr(value)}"
        )

    def _accepts(self, value: Any) -> bool:
        if self.is_constexpr:
            return False
        if self.is_tensor:
            return not (value is None or isinstance(value, str | tuple | Type))
        return not isinstance(self.annotation, AggregateType) or isinstance(value, self.annotation)


@dataclass(frozen=True)
class Definition:
    """The definition of an aggregate class, bases included.

    members: the methods by name, operators such as `__add__` and `__init__` included.
    """

    fields: Mapping[str, Field]
    members: Mapping[str, Any]
    defaults: Mapping[str, Any]


class AggregateType(type):
    """The class of aggregate classes; a call runs `__init__` and returns the value."""

    _definition: Definition
    _fields: tuple[str, ...]  # their names, as a named tuple has them

    def __call__(cls, *args: Any, _semantic: Emitter | None = None, **kwargs: Any) -> Any:
        """Return a value. Raises `ArgumentTypeError` for a field without a value."""
        draft: Any = cls._make(())
        vars(draft)[DRAFT] = True
        initialize = cls._definition.members.get("__init__", cls._initialize)
        if isinstance(initialize, DeviceFunction):
            raise ArgumentTypeError(
                f"{cls.__name__}.__init__ cannot be a @jit function; it runs when the kernel is "
                "compiled, so leave the decorator out"
            )
        if takes_semantic(initialize):
            kwargs[SEMANTIC] = _semantic
        initialize(draft, *args, **kwargs)
        missing = [name for name in cls._fields if name not in vars(draft)]
        if missing:
            raise ArgumentTypeError(
                f"the constructor of {cls.__name__} did not initialize attribute '{missing[0]}'"
            )
        return cls._make(vars(draft)[name] for name in cls._fields)

    def _make(cls, items: Iterable[Any]) -> Any:
        """Return the value with these fields, in order, without a call of `__init__`."""
        return tuple.__new__(cast("type[tuple[Any, ...]]", cls), tuple(items))

    def _initialize(cls, draft: Any, *args: Any, **kwargs: Any) -> None:
        """Set the fields by position or name, or to their defaults."""
        names, defaults = cls._fields, cls._definition.defaults
        passed = dict(zip(names, args, strict=False))
        values = {**defaults, **passed, **kwargs}
        problems = {
            f"takes {len(names)} fields, not {len(args)}": len(args) > len(names),
            "got multiple values for {}": [name for name in kwargs if name in passed],
            "has no field {}": [name for name in kwargs if name not in names],
            "is missing a value for {}": [name for name in names if name not in values],
        }
        for problem, wrong in problems.items():
            if wrong:
                listed = ", ".join(map(repr, wrong)) if isinstance(wrong, list) else ""
                raise ArgumentTypeError(f"{cls.__name__} {problem.format(listed)}")
        for name in names:
            setattr(draft, name, values[name])


class Aggregate(tuple[Any, ...], metaclass=AggregateType):
    """The base of aggregates, which `aggregate` derives from."""

    _definition = Definition({}, {}, {})
    _fields: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        names = type(self)._fields
        shown = (f"{n}={short_repr(v)}" for n, v in zip(names, self, strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"


def takes_semantic(function: Callable[..., Any]) -> bool:
    """Return True if a function has a parameter for the emitter of a kernel's operations."""
    plain = function.fn if isinstance(function, StaticFunction) else function
    try:
        return SEMANTIC in inspect.signature(plain).parameters
    except (TypeError, ValueError):  # written in C
        return False


@public_function
def aggregate(cls: C) -> C:
    """Make a class of values with fields and methods for kernels. Use it as a decorator.

    The annotations of the class are the fields: `tl.tensor` for a runtime value, `tl.constexpr`
    for a compile-time value, another aggregate, or anything else. Methods decorated with `jit` are
    compiled into the kernel; others run while it is compiled. Without an `__init__`, the class
    takes its fields by position or name; a field that is assigned in the class has that default.
    An aggregate can derive from other aggregates, whose fields come first.

    In kernels, operators call methods such as `__add__`, `x[i]` calls `__getitem__`.

        @tile.aggregate
        class Span:
            start: tl.tensor
            BLOCK: tl.constexpr

            @tile.jit
            def offsets(self):
                return self.start + tl.arange(0, self.BLOCK)

    Raises `ArgumentTypeError` for an object that is not a class, and for a base that is not an
    aggregate.
    """
    if not isinstance(cls, type):
        raise ArgumentTypeError(f"aggregate decorates a class, not {short_repr(cls)}")
    bases = tuple(base for base in cls.__bases__ if base is not object)
    for base in bases:
        if not isinstance(base, AggregateType):
            raise ArgumentTypeError(
                f"Aggregates can only inherit from other aggregates, and {base.__name__}, a base "
                f"of {cls.__name__}, is none"
            )
    own = _annotations(cls)
    namespace = dict(vars(cls))
    inherited = [base._definition for base in reversed(bases) if isinstance(base, AggregateType)]
    annotations = {n: f.annotation for one in inherited for n, f in one.fields.items()} | own
    definition = Definition(
        {n: Field(n, i, kind) for i, (n, kind) in enumerate(annotations.items())},
        _merged(*(one.members for one in inherited), _methods(cls)),
        _merged(
            *(one.defaults for one in inherited),
            {name: namespace.pop(name) for name in own if name in namespace},
        ),
    )
    # Python's own operators of tuples stay: those of the class are for kernels only.
    plain = {name: value for name, value in namespace.items() if _is_plain(name)}
    return cast(
        "C",
        AggregateType(
            cls.__name__,
            bases or (Aggregate,),
            {
                **plain,
                **definition.fields,
                "_definition": definition,
                "_fields": tuple(definition.fields),
            },
        ),
    )


def _merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for table in tables for name, value in table.items()}


def _is_plain(name: str) -> bool:
    """Return True for the names of a class that are not methods of Python's operators."""
    return not name.startswith("__") or name in NAMESPACE


def _methods(cls: type) -> dict[str, Any]:
    """Return the methods that a class defines itself, and note that jitted ones are methods."""
    methods = {}
    for name, member in vars(cls).items():
        function = _plain_member(member)
        if isinstance(function, DeviceFunction):
            function.method_of = cls.__name__
        if isinstance(function, DeviceFunction | StaticFunction | FunctionType):
            methods[name] = member
    return methods


def _annotations(cls: type) -> dict[str, Any]:
    """Return the annotations of a class itself; those that do not evaluate stay text."""
    own = inspect.get_annotations(cls)
    try:
        hints = typing.get_type_hints(cls)
    except (NameError, AttributeError, TypeError):
        hints = own
    return {name: hints.get(name, annotation) for name, annotation in own.items()}


def _plain_member(member: Any) -> Any:
    """Return the function in a static or class method, or the member itself."""
    return member.__func__ if isinstance(member, staticmethod | classmethod) else member


@public_function
def aggregate_replace(instance: Any, **changes: Any) -> Any:
    """Return an aggregate with other values of some fields, in a kernel or outside.

    Raises `ArgumentTypeError` for an object that is not an aggregate and for an unknown field.
    """
    if not isinstance(instance, Aggregate):
        raise ArgumentTypeError(
            f"aggregate_replace() expects an aggregate instance, got {short_repr(instance)}"
        )
    kind = type(instance)
    fields = kind._definition.fields
    for name in changes:
        if name not in fields:
            raise ArgumentTypeError(f"{kind.__name__} has no field '{name}'")
    checked = {name: fields[name].checked(v, kind.__name__) for name, v in changes.items()}
    return kind._make({**dict(zip(fields, instance, strict=True)), **checked}.values())


@dataclass(frozen=True)
class Method:
    """A method of an aggregate: its function, and the arguments in front of those of a call."""

    function: Any
    receivers: tuple[Any, ...]


def aggregate_member(owner: Any, name: str) -> Any:
    """Return `owner.name` of an aggregate or of a class of them, as a kernel sees it.

    Methods become a `Method`. Raises `AttributeError` if there is no such attribute.
    """
    kind = owner if isinstance(owner, AggregateType) else type(owner)
    member = kind._definition.members.get(name)
    if member is None:
        value = getattr(owner, name)
        return value.value if isinstance(value, constexpr) else value
    function = _plain_member(member)
    if isinstance(member, classmethod):
        return Method(function, (kind,))
    bound = owner is not kind and not isinstance(member, staticmethod)
    return Method(function, (owner,) if bound else ())


def operator_method(value: object, name: str) -> Method | None:
    """Return the method of an operator such as `__add__`, or None if the value has none."""
    if not isinstance(value, Aggregate) or name not in type(value)._definition.members:
        return None
    method: Method = aggregate_member(value, name)
    return method


def with_constants(value: Any) -> Any:
    """Return a value in which the constant fields of aggregates are `tl.constexpr`."""
    if not isinstance(value, tuple):
        return value
    items = [with_constants(item) for item in value]
    if isinstance(value, Aggregate):
        fields = type(value)._definition.fields.values()
        pairs = zip(fields, items, strict=True)
        items = [constexpr(item) if field.is_constexpr else item for field, item in pairs]
    return getattr(type(value), "_make", tuple)(items)
