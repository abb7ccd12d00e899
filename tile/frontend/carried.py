"""The names that a loop carries from one turn to the next.

A loop's body is compiled once, with an argument for every value of every name that it assigns and
that is defined before (`LoopNames`). Its end tells what of that was needed (`Ends`): a value that
comes back as it went in is not carried, and a name that is overwritten before it is read may even
change its type.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tile.errors import CompilationError
from tile.frontend.scope import Binding, Conflict, Entry, Loop, Partial, place
from tile.frontend.state import Lowering, Path
from tile.frontend.steps import forget
from tile.frontend.values import (
    POISON,
    Filling,
    MismatchError,
    describe,
    leaves,
    match,
    materialise,
    name_leaves,
    rebuild,
    same,
    strong,
)
from tile.ir.core import Block, Operation, Value
from tile.ir.ops.debug import step
from tile.ir.types import Descriptor
from tile.language.dtypes import spelled
from tile.language.tensor import Tensor

INSIDE_LOOP = "only inside a loop, which may run no turn"


@dataclass(frozen=True, slots=True)
class Carried:
    """One name: its binding before the loop, and the same with numbers made constants.

    `span` tells where the IR values of that stand among all that the loop carries.
    """

    name: str
    before: Binding
    init: object
    span: slice


class LoopNames:
    """The names that a loop assigns and that have values before it.

    `inits` are their IR values; `arguments` holds, for each region entered, those that stand for
    them, and `entered` what each name stood for there.
    """

    def __init__(self, low: Lowering, node: ast.For | ast.While) -> None:
        self.low = low
        self.assigned = low.source.assigned_in(node)
        self.carried: list[Carried] = []
        self.inits: list[Value] = []
        self.arguments: dict[Block, list[Value]] = {}
        self.entered: dict[str, list[Binding]] = {}
        for name, entry in low.scope.items():
            if isinstance(entry, Binding) and name in self.assigned:
                init = strong(low.build, entry.value)
                name_leaves(init, name)
                start = len(self.inits)
                self.inits += leaves(init)
                self.carried.append(Carried(name, entry, init, slice(start, len(self.inits))))
        self.loop = Loop(frozenset(c.name for c in self.carried), low.loop)

    def region(self, block: Block, work: Callable[[], None]) -> Path:
        """Compile a region of the loop, the names standing for its arguments."""
        arguments = self.arguments[block] = [block.add_arg(init.type) for init in self.inits]

        def inside() -> None:
            for c in self.carried:
                value = rebuild(c.init, arguments[c.span])
                name_leaves(value, c.name)
                binding = Binding(value, c.before.loc, c.before.doubtful)
                self.low.scope[c.name] = binding
                self.entered.setdefault(c.name, []).append(binding)
            work()

        outer, self.low.loop = self.low.loop, self.loop
        try:
            return self.low.branch(inside, block)
        finally:
            self.low.loop = outer


class Ends:
    """What the body of a loop made of the names.

    `fillings` are the values that they take into the next turn. Those that are the arguments
    themselves are taken out again by `prune`, once every use of an argument is an operand of some
    operation.
    """

    def __init__(self, names: LoopNames, body: Path) -> None:
        self.names = names
        self.body = body
        self.conflicts: dict[str, Entry] = {}
        self.fillings: list[Filling] = []
        self.kept: list[int] = []
        for c in names.carried:
            self.fillings += self.ending(c)

    def ending(self, c: Carried) -> list[Filling]:
        arguments = self.names.arguments[self.body.block][c.span]
        end = self.body.scope.get(c.name)
        if end is None:  # the end of the body is never reached
            return [POISON] * len(arguments)
        if isinstance(end, Binding):
            if same(end.value, c.before.value):
                return list(arguments)
            try:
                return match(rebuild(c.init, arguments), end.value)
            except MismatchError:
                pass
        self.conflicts[c.name] = end
        return list(arguments)

    def values(self) -> list[Value]:
        """The fillings as IR values, made where the builder stands."""
        build = self.names.low.build
        pairs = zip(self.fillings, self.names.inits, strict=True)
        return [materialise(build, filling, init.type) for filling, init in pairs]

    def prune(self, end: Operation, offset: int) -> list[Value]:
        """Take out what is not carried; `end` yields the values from operand `offset` on.

        The initial values of the rest. Raises `CompilationError` for a name that changes its type
        although it is read in the next turn.
        """
        arguments = self.names.arguments
        own = arguments[self.body.block]
        for c in self.names.carried:
            if c.name in self.conflicts:
                self.check_unread(c, end, offset)
        gone: set[Value] = set()
        for k, init in enumerate(self.names.inits):
            if end.operands[offset + k] is own[k]:
                for values in arguments.values():
                    values[k].replace_by(init)
                    gone.add(values[k])
            else:
                self.kept.append(k)
        if gone:
            stays = [*range(offset), *(offset + k for k in self.kept)]
            stays += range(offset + len(own), len(end.operands))
            end.set_operands([end.operands[position] for position in stays])
            for block in arguments:
                remove_arguments(block, gone)
        return [self.names.inits[k] for k in self.kept]

    def check_unread(self, c: Carried, end: Operation, offset: int) -> None:
        """A name whose type changes in the body may not be read before it is assigned."""
        for block, values in self.names.arguments.items():
            for k in range(c.span.start, c.span.stop):
                own = {(end, offset + k)} if block is self.body.block else set()
                if any(use not in own and use[0].defn is not step for use in values[k].uses):
                    raise changed_type(c, self.conflicts[c.name])
        if self.looked_at(c):
            raise changed_type(c, self.conflicts[c.name])
        for values in self.names.arguments.values():
            for op in [user for value in values[c.span] for user in value.users]:
                if op.defn is step:
                    forget(op, c.name, "it changes its type in this loop")

    def looked_at(self, c: Carried) -> bool:
        return not self.names.low.looked_at.isdisjoint(self.names.entered[c.name])

    def leave(self, results: Sequence[Value]) -> None:
        """Let the names stand for what the loop gives, the `results` for what it still carries."""
        low = self.names.low
        final = list(self.names.inits)
        for k, result in zip(self.kept, results, strict=True):
            final[k] = result
        kept = set(self.kept)
        for c in self.names.carried:
            end = self.body.scope.get(c.name)
            if self.looked_at(c):
                low.looked_at.add(c.before)
            if c.name in self.conflicts:
                end = self.conflicts[c.name]
                low.scope[c.name] = Conflict(c.before, end) if isinstance(end, Binding) else end
            elif isinstance(end, Binding) and kept.intersection(range(c.span.start, c.span.stop)):
                value = rebuild(c.init, final[c.span])
                name_leaves(value, c.name)
                low.looked_at.add(c.before)
                low.scope[c.name] = Binding(value, end.loc, end.doubtful or c.before.doubtful)
        self.forget()

    def forget(self) -> None:
        """Names that had no value before the loop have none for sure after it."""
        low = self.names.low
        for name, node in self.names.assigned.items():
            if name not in low.scope:
                low.scope[name] = Partial(INSIDE_LOOP, low.loc(node))


def remove_arguments(block: Block, gone: set[Value]) -> None:
    """Remove arguments that have no uses."""
    block.args = [value for value in block.args if value not in gone]
    for index, value in enumerate(block.args):
        value.index = index


def changed_type(c: Carried, end: Entry) -> CompilationError:
    """The error for a name that the body of a loop gives another type than it has before."""
    if isinstance(end, Conflict):
        end = end.second if same_types(end.first.value, c.init) else end.first
    if isinstance(end, Partial):
        return end.error(c.name, end.loc)
    before, after = describe(c.init), describe(end.value)
    return CompilationError(
        f"`{c.name}` is {before} before the loop and {after} at the end of its body; a name that "
        "goes from one turn to the next must keep its type and shape",
        loc=end.loc,
        notes=[
            place(f"before the loop it is {before}", c.before.loc),
            remedy(c.name, c.init, end.value),
        ],
    )


def same_types(a: object, b: object) -> bool:
    """Whether two values read alike in a message."""
    return describe(a) == describe(b)


def remedy(name: str, before: object, after: object) -> str:
    """What to write so that a carried name keeps its type."""
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        return (
            "what is known only at compile time changes in tl.static_range, not in a loop that runs"
        )
    if isinstance(before.type, Descriptor) or isinstance(after.type, Descriptor):
        return "descriptors with one dtype, block_shape and padding are of one type"
    if before.shape != after.shape:
        if after.dtype.is_ptr():
            return f"give `{name}` the shape {list(after.shape)} before the loop"
        zeros = f"tl.zeros({list(after.shape)}, {spelled(after.dtype)})"
        return f"before the loop, write `{name} = {zeros}`"
    return (
        f"convert at the end of the body, as in `{name}.to({spelled(before.dtype)})`, or before it"
    )
