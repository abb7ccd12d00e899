"""Rules of PTX instructions: a table from an opcode to a function of expressions.

An opcode such as `add.rn.f32` is a base, modifiers and types. A rule is declared for some types and
modifiers, with a signature such as `u: u u32`: the types of its result and its sources.

    t, t1       the opcode's first and second type
    u, s        the unsigned or signed integer of the first type's width
    w           the integer of twice that width and the same signedness
    i1, u32...  a type of the IR

An instruction on packed types (`f16x2`, `bf16x2`, `f32x2`, `u16x2`, `s16x2`) is executed for each
half by the rule of its element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tile.ir.expressions import Expression, signed, unsigned
from tile.ir.op_definition import OpDef
from tile.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    SCALARS,
    SIGNED,
    UNSIGNED,
    Scalar,
)


@dataclass(frozen=True)
class PtxType:
    """A type of PTX: the IR's type of an element, and the number of elements in a register."""

    element: Scalar
    lanes: int = 1

    @property
    def bits(self) -> int:
        return self.element.bits * self.lanes


TYPES: dict[str, PtxType] = {
    **{f"b{ty.bits}": PtxType(ty) for ty in UNSIGNED},
    **{f"u{ty.bits}": PtxType(ty) for ty in UNSIGNED},
    **{f"s{ty.bits}": PtxType(ty) for ty in SIGNED},
    "f16": PtxType(F16),
    "bf16": PtxType(BF16),
    "f32": PtxType(F32),
    "tf32": PtxType(F32),
    "f64": PtxType(F64),
    "pred": PtxType(I1),
    "f16x2": PtxType(F16, 2),
    "bf16x2": PtxType(BF16, 2),
    "f32x2": PtxType(F32, 2),
    "u16x2": PtxType(unsigned(16), 2),
    "s16x2": PtxType(signed(16), 2),
    "e4m3x2": PtxType(F8E4M3, 2),
    "e5m2x2": PtxType(F8E5M2, 2),
}


@dataclass(frozen=True)
class Opcode:
    """An opcode in parts; `names` are the names of the types."""

    base: str
    modifiers: tuple[str, ...]
    names: tuple[str, ...]

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    @property
    def types(self) -> tuple[PtxType, ...]:
        return tuple(TYPES[name] for name in self.names)

    def one_of(self, modifiers: Iterable[str], default: str = "") -> str:
        """Return the modifier that the opcode has of several, or the default."""
        return next((name for name in modifiers if name in self.modifiers), default)


def split_opcode(text: str) -> Opcode:
    """Return the parts of an opcode."""
    base, *parts = text.replace("::", ".").split(".")
    names = tuple(part for part in parts if part in TYPES)
    return Opcode(base, tuple(part for part in parts if part not in TYPES), names)


Compute = Callable[..., Expression]  # of an opcode and an expression for each source


def plain(defn: OpDef) -> Compute:
    """Return the instruction that is an operation."""
    return lambda op, x, *others: x.apply(defn, *others)


@dataclass(frozen=True)
class Rule:
    """The rule of an instruction on one type.

    required, optional: the modifiers that its opcode has, and may have besides. more: the names of
    types that may stand for each of its types after the first.
    """

    compute: Compute
    result: str
    sources: tuple[str, ...]
    required: tuple[str, ...]
    optional: frozenset[str]
    more: tuple[frozenset[str], ...]

    def takes(self, opcode: Opcode) -> bool:
        """Return True if the rule is for the opcode's modifiers, and types after the first."""
        modifiers = frozenset(opcode.modifiers)
        return (
            modifiers.issuperset(self.required)
            and self.optional.issuperset(modifiers.difference(self.required))
            and len(modifiers) == len(opcode.modifiers)
            and len(opcode.names) == 1 + len(self.more)
            and all(map(frozenset.__contains__, self.more, opcode.names[1:]))
        )


_OPCODE_TYPES = ("t", "t1")
RuleTable = Mapping[tuple[str, str], Sequence[Rule]]


def rules(
    opcode: str,
    types: str,
    signature: str,
    compute: Compute,
    optional: str = "",
    *,
    more: Sequence[str] = (),
) -> list[tuple[str, str, Rule]]:
    """Return the rules of instructions: the base, a type, and the rule, for each type.

    `opcode` is the base with the required modifiers, as in `mul.wide`, and `|` between
    alternatives, as in `shf.l|r.wrap`; `types` and `optional` are separated by spaces. `more`:
    those of each further type in the opcode.
    """
    result, _, sources = signature.partition(": ")
    operands, others = tuple(sources.split()), tuple(frozenset(names.split()) for names in more)
    declared = []
    for base, *required in product(*[part.split("|") for part in opcode.split(".")]):
        rule = Rule(compute, result, operands, tuple(required), frozenset(optional.split()), others)
        declared += [(base, ty, rule) for ty in types.split()]
    return declared


def table(declared: Iterable[tuple[str, str, Rule]]) -> dict[tuple[str, str], list[Rule]]:
    """Return rules by base and first type."""
    result: dict[tuple[str, str], list[Rule]] = {}
    for base, ty, rule in declared:
        result.setdefault((base, ty), []).append(rule)
    return result


def element_named(name: str, opcode: Opcode) -> Scalar:
    """Return the element type that a name in a signature stands for."""
    first = opcode.types[0].element if opcode.names else None
    if name in _OPCODE_TYPES:
        return opcode.types[int(name[1:] or 0)].element
    if name in SCALARS:
        return SCALARS[name]
    assert first is not None
    if name == "w":
        return (signed if first.is_int_signed() else unsigned)(2 * first.bits)
    return {"u": unsigned, "s": signed}[name](first.bits)
