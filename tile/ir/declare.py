"""Declarations of operations.

A declaration is a Python function whose signature is the operation's and whose body is its type
rule:

    @op(meaning=numerics.permute, keeps_units=True, examples=("%x: tile<4x8xf32> | ...",))
    def trans(x: Type, *, order: tuple[int, ...]) -> Type:
        ...

Positional parameters are operands (default None: may be absent; `*args`: any number), keyword-only
parameters are attributes, and those annotated `Block` are regions. The function is called with the
operands' *types*. It returns the result type, a tuple of types, or None, or raises through
`require`. The builder, type inference, the verifier (which runs the rule again), the printer, the
parser, constant folding, the interpreter, conformance cases and the reference page all derive from
the declaration.

An attribute called `result` (or `results`) holds result types that cannot be inferred; IR text
states it after the colon only.
"""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile.errors import TypeRuleError
from tile.ir.core import EVERY, Block, Level
from tile.ir.types import Scalar, Type, require, with_element, without_layout

NO_DEFAULT = inspect.Parameter.empty
EXPLICIT = ("result", "results")


class Effect(enum.Flag):
    """The side effects of an operation."""

    NONE = 0
    READ = enum.auto()  # reads memory
    WRITE = enum.auto()  # writes memory
    SHARED = enum.auto()  # uses the program's shared memory
    SYNC = enum.auto()  # orders memory accesses around it
    OUTPUT = enum.auto()  # is visible outside: prints, may stop the program
    ASSUME = enum.auto()  # states a fact for analyses; removable once they have used it
    NESTED = enum.auto()  # has the effects of its regions as well
    MAY_HANG = enum.auto()  # a loop that is not proven to end, so what follows may never run


PURE = Effect.NONE


class Symbol(str):
    """The name of a function, as an attribute."""

    __slots__ = ()


@dataclass(frozen=True)
class AttributeSpec:
    """One attribute of a declaration."""

    name: str
    annotation: Any
    default: Any

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT


@dataclass(frozen=True, eq=False)
class OpDef:
    """A declared operation.

    `meaning` is the reference semantics of a pure operation: a function of NumPy arrays whose first
    axis is the program axis. Attributes are passed by name; regions are passed by name as functions
    of arrays that return a sequence of arrays. `isolated`: the regions are such functions. They use
    no value from outside, run any number of times, and are not part of the control flow.
    `keeps_units`: the reference semantics accept and may return arrays in which an axis of extent 1
    stands for a value that is constant along that axis (elementwise operations do so by
    broadcasting). `accepts` lists the element types. `ulp` is the accuracy required of every
    backend, in units in the last place, for values in `domain`; 0 requires the same bits.
    """

    name: str
    rule: Callable[..., Type | tuple[Type, ...] | None]
    operands: tuple[str, ...]
    optional: frozenset[str]
    variadic: str | None
    attributes: dict[str, AttributeSpec]
    regions: tuple[str, ...]
    effect: Effect = PURE
    meaning: Callable[..., Any] | None = None
    keeps_units: bool = False
    elementwise: bool = False
    commutative: bool = False
    terminator: bool = False
    isolated: bool = False
    accepts: tuple[Scalar, ...] = ()
    domain: tuple[float, float] | None = None
    ulp: float = 0
    levels: frozenset[Level] = EVERY
    examples: tuple[str, ...] = ()
    positions: dict[str, int] = field(default_factory=dict)

    @property
    def pure(self) -> bool:
        return self.effect is Effect.NONE and not self.terminator

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.rule) or ""

    @property
    def family(self) -> str:
        """The name of the file in `tile/ir/ops` that declares the operation."""
        return self.rule.__module__.rpartition(".")[2]

    @property
    def explicit(self) -> str | None:
        """The attribute that holds the result types, or None if they are inferred."""
        return next((name for name in EXPLICIT if name in self.attributes), None)

    def infer(
        self,
        operands: Sequence[Type | None],
        attributes: dict[str, Any],
        regions: Sequence[Block],
    ) -> tuple[Type, ...]:
        """Return the result types. Raises `TypeRuleError` if the type rule rejects the operands.

        Type rules see types without layouts; this function removes them.
        """
        operands = [None if ty is None else without_layout(ty) for ty in operands]
        # This runs whenever an operation is created or verified, so messages are formatted only
        # for errors.
        fixed = len(self.operands)
        least = fixed - len(self.optional)
        count = len(operands)
        if self.variadic is None and not least <= count <= fixed:
            raise TypeRuleError(f"{self.name} takes {_span(least, fixed)}, not {count}")
        if count < fixed and self.variadic is not None:
            raise TypeRuleError(f"{self.name} takes at least {fixed} operands, not {count}")
        for name, ty in zip(self.operands, operands, strict=False):
            if ty is None and name not in self.optional:
                raise TypeRuleError(f"{self.name} needs its operand `{name}`")
        if len(regions) != len(self.regions):
            raise TypeRuleError(f"{self.name} has {len(self.regions)} regions, not {len(regions)}")
        types = self.rule(*operands, **attributes, **dict(zip(self.regions, regions, strict=True)))
        if types is None:
            return ()
        return types if isinstance(types, tuple) else (types,)

    def complete(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes with defaults filled in, in declared order.

        Raises `TypeRuleError` for unknown and missing attributes.
        """
        for name in attributes:
            if name not in self.attributes:
                raise TypeRuleError(f"{self.name} has no attribute `{name}`")
        complete = {}
        for name, spec in self.attributes.items():
            value = attributes.get(name, spec.default)
            if value is NO_DEFAULT:
                raise TypeRuleError(f"{self.name} needs its attribute `{name}`")
            complete[name] = value
        return complete

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _span(least: int, most: int) -> str:
    count = str(most) if least == most else f"{least} to {most}"
    return f"{count} operand{'' if count == '1' else 's'}"


class OpTable:
    """The declared operations by name."""

    def __init__(self) -> None:
        self._defns: dict[str, OpDef] = {}

    def add(self, defn: OpDef) -> OpDef:
        assert defn.name not in self._defns, f"operation {defn.name} is declared twice"
        self._defns[defn.name] = defn
        return defn

    def get(self, name: str) -> OpDef | None:
        return self._defns.get(name)

    def __getitem__(self, name: str) -> OpDef:
        return self._defns[name]

    def __contains__(self, name: str) -> bool:
        return name in self._defns

    def __iter__(self) -> Iterator[OpDef]:
        return iter(self._defns.values())


OPS = OpTable()


def op(name: str | None = None, **properties: Any) -> Callable[[Callable[..., Any]], OpDef]:
    """Declare an operation from its type rule; `properties` are fields of `OpDef`."""

    def declare(rule: Callable[..., Any]) -> OpDef:
        return OPS.add(_define(name or rule.__name__.rstrip("_"), rule, properties))

    return declare


def _define(name: str, rule: Callable[..., Any], properties: dict[str, Any]) -> OpDef:
    parameters = inspect.signature(rule).parameters.values()
    # Only attributes need their types, and evaluating type hints is the slowest step here.
    has_attributes = any(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)
    hints = typing.get_type_hints(rule) if has_attributes else {}
    operands: list[str] = []
    optional: set[str] = set()
    attributes: dict[str, AttributeSpec] = {}
    regions: list[str] = []
    variadic = None
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = parameter.name
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            operands.append(parameter.name)
            if parameter.default is not NO_DEFAULT:
                optional.add(parameter.name)
        elif hints[parameter.name] is Block:
            regions.append(parameter.name)
        else:
            annotation = hints[parameter.name]
            attributes[parameter.name] = AttributeSpec(
                parameter.name, annotation, parameter.default
            )
    return OpDef(
        name=name,
        rule=rule,
        operands=tuple(operands),
        optional=frozenset(optional),
        variadic=variadic,
        attributes=attributes,
        regions=tuple(regions),
        positions={operand: index for index, operand in enumerate(operands)},
        **properties,
    )


def elementwise(
    family: str,
    name: str,
    arity: int,
    doc: str,
    *,
    accepts: tuple[Scalar, ...],
    meaning: Callable[..., Any],
    result: Scalar | None = None,
    **properties: Any,
) -> OpDef:
    """Declare an elementwise operation in one line.

    All operands have one type, a scalar or tile whose element is in `accepts`. The result has that
    type, or the same shape with element `result`. `family` is the declaring module's `__name__`.
    """
    parameters = {1: "x", 2: "x, y", 3: "x, y, z"}[arity]

    def check(*types: Type) -> Type:
        return same_shape(name, types, accepts, result)

    rules: dict[int, Callable[..., Any]] = {
        1: lambda x: check(x),
        2: lambda x, y: check(x, y),
        3: lambda x, y, z: check(x, y, z),
    }
    rule = rules[arity]
    rule.__doc__ = doc
    rule.__module__ = family
    typed_operands = ", ".join(f"%{p}: {accepts[0]}" for p in parameters.split(", "))
    operands = ", ".join(f"%{p}" for p in parameters.split(", "))
    properties.setdefault(
        "examples", (f"{typed_operands} | %r = {name} {operands} : {result or accepts[0]}",)
    )
    return op(
        name, elementwise=True, keeps_units=True, accepts=accepts, meaning=meaning, **properties
    )(rule)


def same_shape(
    name: str, types: Sequence[Type], accepts: Sequence[Scalar], result: Scalar | None = None
) -> Type:
    """Check the type rule of elementwise operations: equal types with an accepted element."""
    first = types[0]
    for other in types[1:]:
        require(first == other, f"{name} takes operands of one type, not {first} and {other}")
    require(
        first.element in accepts,
        f"{name} is not defined on {first.element}; it takes {', '.join(t.name for t in accepts)}",
    )
    return first if result is None else with_element(first, result)
