"""Branches of inline PTX: elements that have branched away wait at the label.

Elements branch one by one, and there are no jumps in the IR. A branch takes its elements out of the
predicate under which the instructions up to its label are executed, and the label adds them again.
A branch back, which is a loop, has no such predicate and is refused.

    @p bra done;            active = not p
    add.s32 x, x, 1;        x = active ? x + 1 : x
    done:                   active = all
"""

from __future__ import annotations

from tile.errors import CompilationError
from tile.ir.expressions import Expression
from tile.ir.types import I1
from tile.transforms.expand_inline_asm.registers import RegisterFile


class Branches:
    """The labels of a text, and the elements that wait at each.

    waiting: predicates of elements by the label they have branched to.
    passed: the labels before the current statement, for each scope.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, Expression] = {}
        self.passed: list[set[str]] = [set()]

    def begin_scope(self) -> None:
        self.passed.append(set())

    def end_scope(self) -> None:
        self.passed.pop()

    def branch(self, registers: RegisterFile) -> None:
        """Let the elements for which the guard holds wait at a label."""
        (target,) = registers.user.take(1)
        label = registers.target(target).text
        if any(label in labels for labels in self.passed):
            raise registers.user.refusal(
                "it branches back, and only GPUs of NVIDIA execute loops here; write the loop in "
                "the kernel, or give `reference=f`, a @tile.jit function of the arguments that "
                "returns the results"
            )
        every = registers.like.constant(True, I1)
        taken = every if registers.guard is None else registers.guard
        active = every if registers.active is None else registers.active
        registers.active = active & ~taken
        earlier = self.waiting.get(label)
        self.waiting[label] = taken if earlier is None else earlier | taken

    def label(self, registers: RegisterFile, name: str) -> None:
        """Let the elements that wait at a label continue."""
        self.passed[-1].add(name)
        arrived = self.waiting.pop(name, None)
        if arrived is not None and registers.active is not None:
            registers.active = registers.active | arrived if self.waiting else None

    def finish(self) -> None:
        """Raise `CompilationError` for labels that do not exist."""
        if self.waiting:
            raise CompilationError(f"the asm has no label `{next(iter(self.waiting))}:`")
