"""Loop-carried names.

A loop's body is compiled once, with a region argument for every IR value of every name that it
assigns and that is defined before the loop (`LoopNames`). The end of the body decides which of them
are loop-carried (`Ends`): a value that the body yields unchanged is not carried, and a name that is
overwritten before it is read may even change its type.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tile.errors import CompilationError
from tile.frontend.python.debug_info import drop_variable
from tile.frontend.python.lowering_context import (
    Binding,
    Conflict,
    Entry,
    Loop,
    Lowering,
    Partial,
    Path,
    note_at,
)
from tile.frontend.python.value_trees import (
    POISON,
    Incoming,
    MismatchError,
    describe,
    leaves,
    match,
    materialize,
    name_leaves,
    rebuild,
    same,
    strong,
)
from tile.ir.core import Block, Operation, Value
from tile.ir.descriptor_type import Descriptor
from tile.ir.ops.debug import debug_step
from tile.language.base.dtypes import spelled
from tile.language.base.tensor import Tensor

INSIDE_LOOP = "only inside a loop, which may run zero iterations"


@dataclass(frozen=True, slots=True)
class Carried:
    """One name: its binding before the loop, and that value with numbers made runtime constants.

    `span` is the range of its IR values among all loop-carried values.
    """

    name: str
    before: Binding
    init: object
    span: slice


class LoopNames:
    """The names that a loop assigns and that have values before it.

    `inits` are their IR values before the loop. `arguments` holds the region arguments that replace
    them, by region, and `entered` the binding of each name at the entry of each region.
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
        """Compile a region of the loop, with the names bound to its arguments."""
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
    """The values of the names at the end of a loop's body.

    `incoming_values` are the values of the next iteration. `prune` removes those that are the
    region arguments themselves, once every use of an argument is an operand of some operation.
    """

    def __init__(self, names: LoopNames, body: Path) -> None:
        self.names = names
        self.body = body
        self.conflicts: dict[str, Entry] = {}
        self.incoming_values: list[Incoming] = []
        self.carried_indices: list[int] = []  # positions in `inits` of loop-carried values
        for c in names.carried:
            self.incoming_values += self.incoming(c)

    def incoming(self, c: Carried) -> list[Incoming]:
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
        """Return the incoming values as IR values, created at the builder's insertion point."""
        build = self.names.low.build
        pairs = zip(self.incoming_values, self.names.inits, strict=True)
        return [materialize(build, value, init.type) for value, init in pairs]

    def prune(self, end: Operation, offset: int) -> list[Value]:
        """Remove the values that are not loop-carried and return the initial values of the others.

        `end` is the terminator of the body; it yields the values from operand `offset` on. Raises
        `CompilationError` for a name that changes its type although the next iteration reads it.
        """
        arguments = self.names.arguments
        own = arguments[self.body.block]
        for c in self.names.carried:
            if c.name in self.conflicts:
                self.check_unread(c, end, offset)
        removed: set[Value] = set()
        for k, init in enumerate(self.names.inits):
            if end.operands[offset + k] is own[k]:
                for values in arguments.values():
                    values[k].replace_by(init)
                    removed.add(values[k])
            else:
                self.carried_indices.append(k)
        if removed:
            retained = [*range(offset), *(offset + k for k in self.carried_indices)]
            retained += range(offset + len(own), len(end.operands))
            end.set_operands([end.operands[position] for position in retained])
            for block in arguments:
                block.remove_args(removed)
        return [self.names.inits[k] for k in self.carried_indices]

    def check_unread(self, c: Carried, end: Operation, offset: int) -> None:
        """Raise `CompilationError` if a name that changes its type is read before it is assigned.

        The `debug_step` operations that read it record that it has no value.
        """
        for block, values in self.names.arguments.items():
            for k in range(c.span.start, c.span.stop):
                own = {(end, offset + k)} if block is self.body.block else set()
                if any(use not in own and use[0].defn is not debug_step for use in values[k].uses):
                    raise changed_type(c, self.conflicts[c.name])
        if self.was_read(c):
            raise changed_type(c, self.conflicts[c.name])
        for values in self.names.arguments.values():
            for op in [user for value in values[c.span] for user in value.users]:
                if op.defn is debug_step:
                    drop_variable(op, c.name, "it changes its type in this loop")

    def was_read(self, c: Carried) -> bool:
        return not self.names.low.read_bindings.isdisjoint(self.names.entered[c.name])

    def leave(self, results: Sequence[Value]) -> None:
        """Bind the names to their values after the loop; `results` are the loop's results."""
        low = self.names.low
        final = list(self.names.inits)
        for k, result in zip(self.carried_indices, results, strict=True):
            final[k] = result
        carried_indices = set(self.carried_indices)
        for c in self.names.carried:
            end = self.body.scope.get(c.name)
            if self.was_read(c):
                low.read_bindings.add(c.before)
            if c.name in self.conflicts:
                end = self.conflicts[c.name]
                low.scope[c.name] = Conflict(c.before, end) if isinstance(end, Binding) else end
            elif isinstance(end, Binding) and carried_indices.intersection(
                range(c.span.start, c.span.stop)
            ):
                value = rebuild(c.init, final[c.span])
                name_leaves(value, c.name)
                low.read_bindings.add(c.before)
                low.scope[c.name] = Binding(value, end.loc, end.doubtful or c.before.doubtful)
        self.forget()

    def forget(self) -> None:
        """Bind names that had no value before the loop as only partially assigned after it."""
        low = self.names.low
        for name, node in self.names.assigned.items():
            if name not in low.scope:
                low.scope[name] = Partial(INSIDE_LOOP, low.loc(node))


def changed_type(c: Carried, end: Entry) -> CompilationError:
    """Return the error for a name whose type at the end of a loop's body differs from before."""
    if isinstance(end, Conflict):
        unchanged = describe(end.first.value) == describe(c.init)
        end = end.second if unchanged else end.first
    if isinstance(end, Partial):
        return end.error(c.name, end.loc)
    before, after = describe(c.init), describe(end.value)
    return CompilationError(
        f"`{c.name}` is {before} before the loop and {after} at the end of its body; a name that "
        "the loop carries from one iteration to the next must keep its type and shape",
        loc=end.loc,
        notes=[
            note_at(f"before the loop it is {before}", c.before.loc),
            remedy(c.name, c.init, end.value),
        ],
    )


def remedy(name: str, before: object, after: object) -> str:
    """Return a note that shows how to keep the type of a loop-carried name."""
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        return "a compile-time value can change in tl.static_range, but not in a loop at run time"
    if isinstance(before.type, Descriptor) or isinstance(after.type, Descriptor):
        return "descriptors have the same type if their dtype, block_shape and padding are equal"
    if before.shape != after.shape:
        if after.dtype.is_ptr():
            return f"give `{name}` the shape {list(after.shape)} before the loop"
        zeros = f"tl.zeros({list(after.shape)}, {spelled(after.dtype)})"
        return f"before the loop, write `{name} = {zeros}`"
    return (
        f"convert at the end of the body, as in `{name}.to({spelled(before.dtype)})`, or before it"
    )
