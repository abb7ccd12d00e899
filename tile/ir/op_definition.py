"""Definitions of operations: what a declaration says of one, for passes, verifier and backends.

A level of the IR is a set of legal operations and types, which the verifier enforces. A declaration
states the levels at which its operation is legal.

    TILE      the user's program: tiles without layouts
    LAID_OUT  every tile has a layout; shared memory, copies and barriers are operations
    THREAD    per-thread fragments, lanes, shuffles, vector accesses
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from tile.errors import TypeRuleError
from tile.ir.extents import refuse_extent, unpadded_extent
from tile.ir.types import Scalar, Type, without_layout


class Level(enum.StrEnum):
    """A level of the IR; see the module docstring."""

    TILE = "tile"
    LAID_OUT = "laid-out"
    THREAD = "thread"


ALL_LEVELS = frozenset(Level)
TILE_ONLY = frozenset({Level.TILE})
TILE_OR_LAID_OUT = frozenset({Level.TILE, Level.LAID_OUT})
LAID_OUT = frozenset({Level.LAID_OUT})
LOWERED = frozenset({Level.LAID_OUT, Level.THREAD})
THREAD = frozenset({Level.THREAD})

NO_DEFAULT = inspect.Parameter.empty
EXPLICIT = ("result", "results")
MAX_INFERRED = 4096  # type inferences that are kept for each operation


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


class Trait(enum.StrEnum):
    """A property of operations that passes ask for, instead of listing operations."""

    CONSTANT = "constant"  # all elements are known at compile time, or undefined
    LOOP = "loop"  # its regions run any number of times
    DIVISION = "division"  # of integers undefined for a divisor of 0, and slow
    ATOMIC = "atomic"  # an atomic access through a pointer, with an `order` and a `scope`
    COMBINE = "combine"  # combines or orders the elements along an `axis`: threads exchange values
    READS_SHARED = "reads shared memory"  # and has no other effect
    DOT = "dot"  # `a @ b + acc`, with operands of these names, the first three
    TENSOR_CORE = "tensor core"  # a dot by instructions that a warp or warpgroup executes together
    IN_FLIGHT = "in flight"  # a dot whose result is complete after a wait
    ASYNC_PROXY = "async proxy"  # accesses shared memory by the async proxy, after a proxy fence


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

    `semantics` is the reference semantics of a pure operation: a function of NumPy arrays whose
    first axis is the program axis. Attributes are passed by name; regions are passed by name as
    functions of arrays that return a sequence of arrays. `isolated`: the regions are such
    functions. They use no value from outside, run any number of times, and are not part of the
    control flow. `unit_axes_broadcast`: the reference semantics accept and may return arrays in
    which an axis of extent 1 stands for a value that is constant along that axis (elementwise
    operations do so by broadcasting). `accepts` lists the element types. `ulp` is the accuracy
    required of every backend, in units in the last place, for values in `domain`; 0 requires the
    same bits. `traits` are what passes ask of it besides. `any_extents`: the extents of its tiles
    need not be powers of two; the pass `pad-extents` carries the elements past their end.
    """

    name: str
    rule: Callable[..., Type | tuple[Type, ...] | None]
    operands: tuple[str, ...]
    optional: frozenset[str]
    variadic: str | None
    attributes: dict[str, AttributeSpec]
    regions: tuple[str, ...]
    effect: Effect = PURE
    semantics: Callable[..., Any] | None = None
    unit_axes_broadcast: bool = False
    elementwise: bool = False
    commutative: bool = False
    terminator: bool = False
    isolated: bool = False
    accepts: tuple[Scalar, ...] = ()
    domain: tuple[float, float] | None = None
    ulp: float = 0
    levels: frozenset[Level] = ALL_LEVELS
    any_extents: bool = False
    traits: frozenset[Trait] = frozenset()
    examples: tuple[str, ...] = ()
    positions: dict[str, int] = field(default_factory=dict)
    inferred: dict[Hashable, tuple[Type, ...]] = field(default_factory=dict)

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

    @functools.cached_property
    def explicit(self) -> str | None:
        """The attribute that holds the result types, or None if they are inferred."""
        return next((name for name in EXPLICIT if name in self.attributes), None)

    @functools.cached_property
    def tells_apart(self) -> bool:
        """True if equal attributes are the same ones: none may be a float, as `1.0` equals `1`."""
        return not any(
            spec.annotation is Any or "float" in str(spec.annotation)
            for spec in self.attributes.values()
        )

    def infer(
        self,
        operands: Sequence[Type | None],
        attributes: dict[str, Any],
        regions: Sequence[object],
    ) -> tuple[Type, ...]:
        """Return the result types. Raises `TypeRuleError` if the type rule rejects the operands.

        Type rules see types without layouts; this function removes them. It runs whenever an
        operation is created or verified, mostly with types and attributes that it has seen.
        """
        if regions or len(attributes) != len(self.attributes) or not self.tells_apart:
            return self._infer(operands, attributes, regions)
        key = tuple(operands), tuple(attributes.values())
        try:
            results = self.inferred.get(key)
        except TypeError:  # an attribute has no hash
            return self._infer(operands, attributes, regions)
        if results is None:
            results = self._infer(operands, attributes, regions)
            if len(self.inferred) >= MAX_INFERRED:
                self.inferred.clear()
            self.inferred[key] = results
        return results

    def _infer(
        self,
        operands: Sequence[Type | None],
        attributes: dict[str, Any],
        regions: Sequence[object],
    ) -> tuple[Type, ...]:
        operands = [None if ty is None else without_layout(ty) for ty in operands]
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
        named = dict(zip(self.regions, regions, strict=True)) if regions else {}
        types = self.rule(*operands, **attributes, **named)
        results = () if types is None else types if isinstance(types, tuple) else (types,)
        if not self.any_extents:
            for ty in (*operands, *results):
                extent = None if ty is None else unpadded_extent(ty.shape)
                if ty is not None and extent is not None:
                    refuse_extent(self.name, ty, extent)
        return results

    def complete(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes with defaults filled in, in declared order.

        Raises `TypeRuleError` for unknown and missing attributes.
        """
        if attributes.keys() == self.attributes.keys():  # the common case
            return {name: attributes[name] for name in self.attributes}
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


class Declared(Protocol):
    """A declaration with a name."""

    @property
    def name(self) -> str: ...


D = TypeVar("D", bound=Declared)


class Table(Generic[D]):
    """Declarations by name, all of one kind: operations, or passes."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._defns: dict[str, D] = {}

    def add(self, defn: D) -> D:
        """Add a declaration, and return it."""
        assert defn.name not in self._defns, f"{self._kind} {defn.name} is declared twice"
        self._defns[defn.name] = defn
        return defn

    def get(self, name: str) -> D | None:
        return self._defns.get(name)

    def __getitem__(self, name: str) -> D:
        return self._defns[name]

    def __contains__(self, name: str) -> bool:
        return name in self._defns

    def __iter__(self) -> Iterator[D]:
        return iter(self._defns.values())

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget, after a `with` block, what was declared inside of it."""
        before = dict(self._defns)
        try:
            yield
        finally:
            self._defns = before
