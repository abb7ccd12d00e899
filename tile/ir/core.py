"""The IR as data: values, operations, blocks, functions.

A function holds one `Block`; an operation may hold further blocks, its regions. Control flow is
structured, so a region is always exactly one block and both are one class. An operation's operands
correspond to the parameters of its declaration, its `OpDef`; an absent optional operand is `None`.
Every value knows its uses, so replacing a value takes time proportional to the number of its uses.

Operations of a block form a doubly linked list: insertion and removal take O(1), and a walk
survives the removal of the current operation.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import Any

from tile.ir.op_definition import OpDef, Trait
from tile.ir.parameters import Argument, Signature
from tile.ir.types import Type
from tile.location import Loc

SCHEDULE = "schedule"  # `Operation.schedule` in the IR's text


class Value:
    """An SSA value: the result of an operation or the argument of a block."""

    __slots__ = ("index", "name", "owner", "type", "uses")

    def __init__(self, ty: Type, owner: Operation | Block, index: int, name: str = "") -> None:
        self.type = ty
        self.owner = owner
        self.index = index
        self.name = name  # a hint for the printer, from the Python variable
        self.uses: dict[tuple[Operation, int], None] = {}

    @property
    def op(self) -> Operation | None:
        """The operation that defines the value, or None for a block argument."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def block(self) -> Block:
        """The block in which the value is defined."""
        if isinstance(self.owner, Block):
            return self.owner
        assert self.owner.block is not None, "the defining operation was removed"
        return self.owner.block

    @property
    def users(self) -> Iterator[Operation]:
        return (op for op, _ in self.uses)

    def dominates(self, op: Operation) -> bool:
        """Return True if the value is defined where an operation may use it."""
        for each in (op, *op.ancestors()):
            if self.block is each.block:
                return self.op is None or self.op.is_before(each)
        return False

    def replace_by(self, other: Value) -> None:
        """Make every use of this value a use of `other`."""
        for op, index in list(self.uses):
            op.set_operand(index, other)
        if not other.name:
            other.name = self.name

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class Operation:
    """One operation: a declaration with operands, attributes, regions, results and a location.

    `schedule`: the stage and order of an operation in the body of a loop that is to be software
    pipelined, which `expand-schedules` reads. Copies of the operation have none.
    """

    __slots__ = (
        "_operands",
        "attributes",
        "block",
        "defn",
        "loc",
        "next",
        "prev",
        "regions",
        "results",
        "schedule",
    )

    def __init__(
        self,
        defn: OpDef,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        regions: Sequence[Block],
        result_types: Sequence[Type],
        loc: Loc | None,
    ) -> None:
        self.defn = defn
        self._operands: list[Value | None] = []
        self.attributes = attributes
        self.regions = list(regions)
        self.results = [Value(ty, self, i) for i, ty in enumerate(result_types)]
        self.loc = loc
        self.schedule: tuple[int, int] | None = None
        self.block: Block | None = None
        self.prev: Operation | None = None
        self.next: Operation | None = None
        self.set_operands(operands)
        for region in self.regions:
            region.parent = self

    @property
    def name(self) -> str:
        return self.defn.name

    @property
    def operands(self) -> Sequence[Value | None]:
        """Operands by position; None where an optional one is absent."""
        return self._operands

    @property
    def inputs(self) -> list[Value]:
        """The operands that are present."""
        return [value for value in self._operands if value is not None]

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def has_trait(self, trait: Trait) -> bool:
        return trait in self.defn.traits

    def __getitem__(self, parameter: str) -> Any:
        """Return the operand or attribute of the name that the declaration gives it."""
        position = self.defn.positions.get(parameter)
        if position is not None:
            return self._operands[position]
        return self.attributes[parameter]

    def set_operand(self, index: int, value: Value | None) -> None:
        old = self._operands[index]
        if old is not None:
            del old.uses[self, index]
        self._operands[index] = value
        if value is not None:
            value.uses[self, index] = None

    def set_operands(self, values: Iterable[Value | None]) -> None:
        """Replace all operands; their number may change."""
        for index, old in enumerate(self._operands):
            if old is not None:
                del old.uses[self, index]
        self._operands = list(values)
        for index, value in enumerate(self._operands):
            if value is not None:
                value.uses[self, index] = None

    def add_result(self, ty: Type) -> Value:
        value = Value(ty, self, len(self.results))
        self.results.append(value)
        return value

    @property
    def parent(self) -> Operation | None:
        """The operation whose region holds this one, or None at the top of a function."""
        return self.block.parent if self.block is not None else None

    @property
    def function(self) -> Function:
        """The function that holds this operation."""
        assert self.block is not None, "the operation was removed"
        return self.block.function

    def ancestors(self) -> Iterator[Operation]:
        """Yield the enclosing operations, innermost first."""
        op = self.parent
        while op is not None:
            yield op
            op = op.parent

    @property
    def in_loop(self) -> bool:
        """True if the operation is in a region of a loop, or nested in one."""
        return any(outer.has_trait(Trait.LOOP) for outer in self.ancestors())

    def within(self, block: Block) -> Operation:
        """Return the operation of a block that is this one or contains it."""
        return next(op for op in (self, *self.ancestors()) if op.block is block)

    def defines(self, value: Value) -> bool:
        """Return True if a value is defined in a region of this operation, or nested in one."""
        parent = value.block.parent
        return parent is self or (parent is not None and self in parent.ancestors())

    def walk(self) -> Iterator[Operation]:
        """Yield this operation, then all operations nested in it, in program order."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def blocks(self) -> Iterator[Block]:
        """Yield the regions of this operation, and those of the operations nested in it."""
        return (region for op in self.walk() for region in op.regions)

    def is_before(self, other: Operation) -> bool:
        """Return True if this operation precedes `other` in the same block."""
        op = self.next
        while op is not None:
            if op is other:
                return True
            op = op.next
        return False

    def move_before(self, other: Operation) -> Operation:
        """Insert the operation before another, from where it is, or as a new one; return it."""
        assert other.block is not None, f"{other.name} is in no block"
        self.unlink()
        return other.block.insert(self, other)

    def unlink(self) -> None:
        """Remove the operation from its block.

        It keeps its operands and may be inserted elsewhere.
        """
        if self.block is not None:
            self.block.unlink(self)

    def erase(self) -> None:
        """Remove and destroy the operation. None of its results may have uses."""
        for value in self.results:
            assert not value.uses, f"{self.name} is erased while {value} is in use"
        for region in self.regions:
            region.drop()
        self.set_operands(())
        self.unlink()

    def replace_by(self, values: Sequence[Value]) -> None:
        """Replace all results and erase the operation."""
        assert len(values) == len(self.results)
        for old, new in zip(self.results, values, strict=True):
            old.replace_by(new)
        self.erase()

    def __repr__(self) -> str:
        return f"<{self.name} at {self.loc}>"


class Block:
    """A list of operations with arguments; the body of a function or a region of an operation."""

    __slots__ = ("args", "first", "last", "owner", "parent")

    def __init__(self, arg_types: Sequence[Type] = (), names: Sequence[str] = ()) -> None:
        self.args = [Value(ty, self, i) for i, ty in enumerate(arg_types)]
        for value, name in zip(self.args, names, strict=False):
            value.name = name
        self.first: Operation | None = None
        self.last: Operation | None = None
        self.parent: Operation | None = None  # the operation whose region this is
        self.owner: Function | None = None  # the function whose body this is

    def add_arg(self, ty: Type, name: str = "") -> Value:
        value = Value(ty, self, len(self.args), name)
        self.args.append(value)
        return value

    def remove_args(self, removed: Container[Value]) -> None:
        """Remove arguments, which have no uses any more."""
        self.args = [value for value in self.args if value not in removed]
        for index, value in enumerate(self.args):
            value.index = index

    @property
    def ops(self) -> Iterator[Operation]:
        op = self.first
        while op is not None:
            following = op.next
            yield op
            op = following

    def __iter__(self) -> Iterator[Operation]:
        return self.ops

    @property
    def terminator(self) -> Operation | None:
        """The last operation if it ends the block."""
        return self.last if self.last is not None and self.last.defn.terminator else None

    @property
    def end(self) -> Operation:
        """The operation that ends the block."""
        assert self.last is not None, "the block is empty"
        return self.last

    @property
    def yielded(self) -> list[Value]:
        """The operands of the operation that ends the block."""
        return self.end.inputs

    @property
    def function(self) -> Function:
        block = self
        while block.parent is not None:
            assert block.parent.block is not None, "the enclosing operation was removed"
            block = block.parent.block
        assert block.owner is not None, "the block belongs to no function"
        return block.owner

    def walk(self) -> Iterator[Operation]:
        """Yield all operations in pre-order: each before those of its regions."""
        op = self.first
        while op is not None:
            following = op.next
            yield op
            for region in op.regions:
                yield from region.walk()
            op = following

    def append(self, op: Operation) -> Operation:
        return self.insert(op, None)

    def insert(self, op: Operation, before: Operation | None) -> Operation:
        """Insert `op` before another operation of this block, or at the end for None."""
        assert op.block is None, f"{op.name} is in a block already"
        op.block = self
        op.next = before
        op.prev = self.last if before is None else before.prev
        if op.prev is None:
            self.first = op
        else:
            op.prev.next = op
        if before is None:
            self.last = op
        else:
            before.prev = op
        return op

    def unlink(self, op: Operation) -> None:
        if op.prev is None:
            self.first = op.next
        else:
            op.prev.next = op.next
        if op.next is None:
            self.last = op.prev
        else:
            op.next.prev = op.prev
        op.block = op.prev = op.next = None

    def drop(self) -> None:
        """Erase all operations, regardless of uses between them."""
        ops = list(self.walk())
        for op in ops:
            op.set_operands(())
            op.block = None  # so that the owner of a worklist sees that the operation was erased
        self.first = self.last = None

    def encloses(self, op: Operation) -> bool:
        """Return True if `op` is in this block or in a region nested in it."""
        return op.block is self or any(outer.block is self for outer in op.ancestors())


class Function:
    """A function: a kernel that a grid of programs runs, or a device function."""

    def __init__(
        self,
        name: str,
        arg_types: Sequence[Type],
        arg_names: Sequence[str],
        result_types: Sequence[Type] = (),
        *,
        kernel: bool = False,
        noinline: bool = False,
        loc: Loc | None = None,
    ) -> None:
        self.name = name
        self.body = Block(arg_types, arg_names)
        self.body.owner = self
        self.arguments = [Argument() for _ in arg_types]
        self.result_types = tuple(result_types)
        self.kernel = kernel
        self.noinline = noinline
        self.loc = loc
        # Results of analyses, each with the state of the function that it is of.
        self.analyses: dict[Hashable, tuple[Any, Any]] = {}

    @property
    def args(self) -> list[Value]:
        return self.body.args

    @property
    def signature(self) -> Signature:
        return Signature(
            tuple(value.type for value in self.args),
            tuple(map(str, self.arguments)),
            self.result_types,
        )

    def walk(self) -> Iterator[Operation]:
        return self.body.walk()

    def __str__(self) -> str:
        return f"@{self.name}"


def clone(
    op: Operation,
    mapping: dict[Value, Value],
    relocate: Callable[[Loc | None], Loc | None] = lambda loc: loc,
) -> Operation:
    """Return a copy of `op` with operands replaced by `mapping`, and add its results to `mapping`.

    The copy is in no block. `relocate` returns the location of each copied operation.
    """
    regions = [clone_block(region, mapping, relocate) for region in op.regions]
    operands = [None if v is None else mapping.get(v, v) for v in op.operands]
    types = [v.type for v in op.results]
    new = Operation(op.defn, operands, dict(op.attributes), regions, types, relocate(op.loc))
    for old_value, new_value in zip(op.results, new.results, strict=True):
        new_value.name = old_value.name
        mapping[old_value] = new_value
    return new


def clone_block(
    block: Block,
    mapping: dict[Value, Value],
    relocate: Callable[[Loc | None], Loc | None] = lambda loc: loc,
) -> Block:
    """Return a copy of a block as `clone` copies operations; its arguments are new ones, too."""
    copy = Block([v.type for v in block.args], [v.name for v in block.args])
    mapping.update(zip(block.args, copy.args, strict=True))
    for op in block:
        copy.append(clone(op, mapping, relocate))
    return copy


class Symbol(str):
    """The name of a function, as an attribute."""

    __slots__ = ()
