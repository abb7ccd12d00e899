"""How an operation is declared, once.

A declaration is a Python function whose signature is the operation's and whose body is its type
rule:

    @op(meaning=numerics.permute, keeps_units=True, examples=("%x: tile<4x8xf32> | ...",))
    def trans(x: Type, *, order: tuple[int, ...]) -> Type:
        ...

Positional parameters are operands (default None: may be absent; `*args`: any number),
keyword-only ones are attributes, and those annotated `Block` are regions. Called with *types* in
place of operands, the function returns the result type, a tuple of them, or None, or raises
through `require`. From this follow builder, inference, verifier (it runs the rule again),
printer, parser, constant folding, interpretation, conformance cases and the reference page.

An attribute called `result` (or `results`) holds result types that cannot be derived; the text
has it after the colon and nowhere else.
"""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile.errors import TypeRuleError
from tile.ir.core import Block
from tile.ir.levels import EVERY, Level
from tile.ir.types import Scalar, Type, require, with_element, without_layout

NO_DEFAULT = inspect.Parameter.empty
EXPLICIT = ("result", "results")


class Effect(enum.Flag):
    """What an operation does besides computing its results."""

    NONE = 0
    READ = enum.auto()  # reads memory
    WRITE = enum.auto()  # writes memory
    SHARED = enum.auto()  # uses the program's shared memory
    SYNC = enum.auto()  # orders memory accesses around it
    OUTPUT = enum.auto()  # is seen outside: prints, may stop the program
    ASSUME = enum.auto()  # states a fact that analyses may use; removable once they have
    NESTED = enum.auto()  # and all that its regions do
    MAY_HANG = enum.auto()  # a loop that is not proven to end: what comes after it may never run


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

    `meaning` computes a pure operation on NumPy arrays that lead with a program axis; attributes
    are passed by name, and regions by name as functions of arrays that return a sequence of
    arrays. `isolated` says that its regions are such functions: they use no value from outside,
    run any number of times, and are no part of the control flow. `keeps_units` says that it takes
    arrays in which an axis of extent 1 stands for a constant along that axis, and may answer with
    such (elementwise operations do, by broadcasting). `accepts` lists element types and `domain`
    the range of values where `ulp` holds, for the conformance suite. `ulp` is the accuracy demanded
    of every backend; 0 means the same bits.
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
        """The file of `tile/ir/ops` that declares it."""
        return self.rule.__module__.rpartition(".")[2]

    @property
    def explicit(self) -> str | None:
        """The attribute that holds the result types, for an operation that cannot derive them."""
        return next((name for name in EXPLICIT if name in self.attributes), None)

    def infer(
        self,
        operands: Sequence[Type | None],
        attributes: dict[str, Any],
        regions: Sequence[Block],
    ) -> tuple[Type, ...]:
        """The result types; raises `TypeRuleError` where the rule refuses.

        Rules know nothing of layouts, which are taken off the operands' types here.
        """
        operands = [None if ty is None else without_layout(ty) for ty in operands]
        # Every operation comes here as it is made and verified, so that what to say of a wrong one
        # is put together only then.
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
        """The attributes with defaults filled in, in declared order.

        Refuses unknown and missing ones.
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
    # Only attributes' types are asked for, and reading types takes longer than all else here.
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
    """Declare an operation that works on each element alone: the usual case, in one line.

    All operands share one type, a scalar or tile whose element is in `accepts`; the result has
    that type, or that shape with element `result`. `family` is the declaring module's `__name__`.
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
    spelled = ", ".join(f"%{p}: {accepts[0]}" for p in parameters.split(", "))
    operands = ", ".join(f"%{p}" for p in parameters.split(", "))
    properties.setdefault(
        "examples", (f"{spelled} | %r = {name} {operands} : {result or accepts[0]}",)
    )
    return op(
        name, elementwise=True, keeps_units=True, accepts=accepts, meaning=meaning, **properties
    )(rule)


def same_shape(
    name: str, types: Sequence[Type], accepts: Sequence[Scalar], result: Scalar | None = None
) -> Type:
    """The rule of elementwise operations: equal types with an accepted element."""
    first = types[0]
    for other in types[1:]:
        require(first == other, f"{name} takes operands of one type, not {first} and {other}")
    require(
        first.element in accepts,
        f"{name} is not defined on {first.element}; it takes {', '.join(t.name for t in accepts)}",
    )
    return first if result is None else with_element(first, result)
