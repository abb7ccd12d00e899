"""Predicated SSA as text: `@%p`, `icmpp`, `fcmpp` and `psi` of Triton-IR, which parsing desugars.

The Triton paper (MAPL 2019, section 4.3, listing 6) writes

    %pt, %pf = icmpp slt %x, 5                            ; two opposite predicates
    @%pt %x1 = add %y, 1                                  ; has a value where %pt holds
    @%pf %x2 = sub %y, 1
    %z = psi i32<8, 8> [%pt, %x1], [%pf, %x2]             ; the value whose predicate holds

which becomes a comparison and its negation, plain operations, and a `select`. A predicate of an
access to memory is its mask, or joins the mask that it has. A number stands for a constant of the
type of the other operand, and a type in front of the operands is that of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tile.errors import TypeRuleError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, shape
from tile.ir.ops.arith import Predicate
from tile.ir.types import I1, Kind, Scalar, Tile, Type, require, with_element

COMPARISONS = ("icmpp", "fcmpp")
PSI = "psi"

# LLVM's predicates with those here; of integers, also whether they are signed (None: any).
_FLOAT: dict[str, Predicate] = {
    "oeq": Predicate.EQ,
    "une": Predicate.NE,
    "olt": Predicate.LT,
    "ole": Predicate.LE,
    "ogt": Predicate.GT,
    "oge": Predicate.GE,
}
_INTEGER: dict[str, tuple[Predicate, bool | None]] = {
    "eq": (Predicate.EQ, None),
    "ne": (Predicate.NE, None),
    **{f"{s}{name.lower()}": (Predicate[name], s == "s") for s in "su" for name in ("LT", "LE")},
    **{f"{s}{name.lower()}": (Predicate[name], s == "s") for s in "su" for name in ("GT", "GE")},
}


def compare(build: Builder, name: str, predicate: str, a: Value, b: Value) -> tuple[Value, Value]:
    """Emit `icmpp` or `fcmpp`, and return both predicates.

    Raises `TypeRuleError` for a predicate that the instruction or the operands do not have.
    """
    element = a.type.element
    predicates = _FLOAT if name == "fcmpp" else _INTEGER
    require(
        predicate in predicates,
        f"{name} has no predicate `{predicate}`; it has {', '.join(predicates)}",
    )
    if name == "fcmpp":
        require(element.is_floating(), f"fcmpp compares floats, not {a.type}")
        holds = build(arith.cmp, a, b, predicate=_FLOAT[predicate])
    else:
        require(
            isinstance(element, Scalar) and element.kind is not Kind.FLOAT,
            f"icmpp compares integers, not {a.type}",
        )
        assert isinstance(element, Scalar)
        chosen, signed = _INTEGER[predicate]
        kind = "signed" if signed else "unsigned"
        require(
            signed is None or element.signed is signed,
            f"`{predicate}` compares {kind} integers, not {a.type}",
        )
        holds = build(arith.cmp, a, b, predicate=chosen)
    return holds, build(arith.not_, holds)


def psi(build: Builder, pairs: Sequence[tuple[Value, Value]]) -> Value:
    """Emit the merge of values by their predicates; where none holds, the last value is taken.

    Raises `TypeRuleError` if the values differ in type, or a predicate in shape.
    """
    (_, last), *others = reversed(pairs)
    types = {str(value.type) for _, value in pairs}
    require(len(types) == 1, f"psi merges values of one type, not {' and '.join(sorted(types))}")

    def merge(result: Value, pair: tuple[Value, Value]) -> Value:
        predicate, value = pair
        return build(arith.select, shaped(build, predicate, value.type), value, result)

    return reduce(merge, others, last)


def masked(
    build: Builder, defn: OpDef, operands: Sequence[Value | None], predicate: Value
) -> list[Value | None]:
    """Return the operands of a predicated operation: one that accesses memory gets a mask.

    Raises `TypeRuleError` for an operation with other effects.
    """
    if defn.pure:
        return list(operands)
    require(
        "mask" in defn.positions,
        f"{defn.name} cannot be predicated: it has effects other than an access with a mask",
    )
    complete = [*operands, *[None] * (len(defn.operands) - len(operands))]
    pointer, position = complete[0], defn.positions["mask"]
    assert pointer is not None
    own = complete[position]
    mask = shaped(build, predicate, pointer.type)
    complete[position] = mask if own is None else build(arith.and_, own, mask)
    return complete


def shaped(build: Builder, predicate: Value, ty: Type) -> Value:
    """Return a predicate in the shape of a type. Raises `TypeRuleError` if it has another one."""
    require(predicate.type.element == I1, f"a predicate is of i1, not {predicate.type}")
    if predicate.type.shape == ty.shape:
        return predicate
    if predicate.type.shape:
        raise TypeRuleError(f"a predicate of {predicate.type} is not of the shape of {ty}")
    return build(shape.splat, predicate, shape=ty.shape)


def immediate(build: Builder, number: bool | int | float, like: Value) -> Value:
    """Emit a constant of the type of another operand."""
    require(isinstance(like.type.element, Scalar), f"no number can be an operand with {like.type}")
    return build.constant(number, with_element(like.type, like.type.element))


def vector_type(element: Scalar, extents: Sequence[int]) -> Type:
    """Return the type that `i32<8, 8>` means."""
    return Tile(tuple(extents), element) if extents else element
