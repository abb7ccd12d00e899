"""Which values are the same for all programs.

A value is *uniform* if all programs that compute it, in the same round of the loops around it,
get the same elements. What differs comes from sources (`program_id`, atomics), spreads along
uses, and out of control flow: the results of an `if` or loop differ if programs go different ways
through it.

Who is compared is a parameter: a lowering that splits programs among lanes asks the same question
with the lane's index as source.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tile.analysis.dataflow import Forward
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import effects
from tile.ir.opdef import Effect, OpDef
from tile.ir.ops import control, descriptor, memory, program
from tile.ir.types import Type


class Variation(enum.Enum):
    """Whether a value is the same wherever it is computed."""

    UNIFORM = "uniform"
    VARYING = "varying"

    def __or__(self, other: Variation) -> Variation:
        return self if self is Variation.VARYING else other


LOADS = frozenset({memory.load, descriptor.descriptor_load, descriptor.descriptor_gather})


@dataclass(frozen=True)
class Members:
    """Those among whom a value may differ, and the operations that tell them apart.

    `together` says that they all access memory at the same moment, so that equal addresses read
    equal values even where memory is written.
    """

    name: str
    sources: frozenset[OpDef]
    together: bool = False


PROGRAMS = Members(
    "programs",
    frozenset({program.program_id, memory.atomic_rmw, memory.atomic_cas, control.call}),
)


@dataclass(frozen=True)
class Uniformity:
    """The variation of a function's values among `members`."""

    members: Members
    facts: Mapping[Value, Variation]

    def of(self, value: Value) -> Variation:
        return self.facts[value]

    def is_uniform(self, value: Value) -> bool:
        return self.facts[value] is Variation.UNIFORM


def uniformity(function: Function, members: Members = PROGRAMS) -> Uniformity:
    """The variation of all values.

    A kernel's arguments are uniform, a device function's may vary.
    """
    return Uniformity(members, _Uniformity(function, members).run(function))


class _Uniformity(Forward[Variation]):
    def __init__(self, function: Function, members: Members) -> None:
        super().__init__()
        self.members = members
        changed = Effect.WRITE | Effect.SYNC
        quiet = not any(effects(op) & changed for op in function.body)
        self.stable_memory = quiet or members.together

    def argument(self, function: Function, index: int) -> Variation:
        return Variation.UNIFORM if function.kernel else Variation.VARYING

    def unknown(self, ty: Type) -> Variation:
        return Variation.VARYING

    def join(self, x: Variation, y: Variation) -> Variation:
        return x | y

    def transfer(self, op: Operation) -> Sequence[Variation]:
        return [self.result(op)] * len(op.results)

    def result(self, op: Operation) -> Variation:
        moving = op.defn in LOADS and (
            op.attributes.get("volatile", False) or not self.stable_memory
        )
        if moving or op.defn in self.members.sources:
            return Variation.VARYING
        return self.any_of(self.present(op))

    def any_of(self, facts: Sequence[Variation]) -> Variation:
        return Variation.VARYING if Variation.VARYING in facts else Variation.UNIFORM

    def index(self, op: Operation) -> Variation:
        """The count of a round; programs that leave earlier are not there to differ."""
        return self.fact(op, 0) | self.fact(op, 2)

    def merge(self, op: Operation, index: int, then: Variation, orelse: Variation) -> Variation:
        first, second = (region.last for region in op.regions)
        assert first is not None and second is not None
        if first.inputs[index] is second.inputs[index]:
            return then
        return self.fact(op, 0) | then | orelse

    def leave(self, op: Operation, index: int, fact: Variation) -> Variation:
        return fact | self.exit(op)

    def exit(self, op: Operation) -> Variation:
        """Whether programs leave a loop after different numbers of rounds."""
        if op.defn is control.for_:
            return self.any_of(self.present(op)[:3])
        end = op.regions[0].last
        assert end is not None
        return self.fact(end, 0)
