"""Declarations of operations.

A declaration is a Python function whose signature is the operation's and whose body is its type
rule:

    @op(
        semantics=semantics.permute,
        unit_axes_broadcast=True,
        examples=("%x: tile<4x8xf32> | ...",),
    )
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

import inspect
import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tile.errors import TypeRuleError
from tile.ir.core import Block
from tile.ir.op_definition import (
    LAID_OUT,
    LOWERED,
    NO_DEFAULT,
    THREAD,
    AttributeSpec,
    Effect,
    OpDef,
    Table,
)
from tile.ir.types import Scalar, Type, with_element

OPS = Table[OpDef]("operation")
"""The declared operations by name."""


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
    for implied in ("any_extents", "unit_axes_broadcast"):
        properties.setdefault(implied, properties.get("elementwise", False))
    return OpDef(
        name=name,
        rule=rule,
        operands=tuple(operands),
        optional=frozenset(optional),
        variadic=variadic,
        attributes=attributes,
        regions=tuple(regions),
        positions={operand: index for index, operand in enumerate(operands)},
        traits=frozenset(properties.pop("traits", ())),
        **properties,
    )


def elementwise(
    family: str,
    name: str,
    arity: int,
    doc: str,
    *,
    accepts: tuple[Scalar, ...],
    semantics: Callable[..., Any],
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
        name,
        elementwise=True,
        accepts=accepts,
        semantics=semantics,
        **properties,
    )(rule)


def same_shape(
    name: str, types: Sequence[Type], accepts: Sequence[Scalar], result: Scalar | None = None
) -> Type:
    """Check the type rule of elementwise operations: equal types with an accepted element."""
    first = types[0]
    for other in types[1:]:
        if first is not other and first != other:
            raise TypeRuleError(f"{name} takes operands of one type, not {first} and {other}")
    if first.element not in accepts:
        names = ", ".join(ty.ir_name for ty in accepts)
        raise TypeRuleError(f"{name} is not defined on {first.element}; it takes {names}")
    return first if result is None else with_element(first, result)


# Declarations by level: of operations that access shared memory, and of one thread's.
lowered_op = partial(op, levels=LOWERED, effect=Effect.SHARED)
laid_out_op = partial(op, levels=LAID_OUT, effect=Effect.SHARED)
shared_op = partial(op, levels=THREAD, effect=Effect.SHARED)
thread_op = partial(op, levels=THREAD)
