"""The IR as data: values, operations, blocks, functions, modules.

A function holds one `Block`; an operation may hold further blocks, its regions. Control flow is
structured, so a region is always exactly one block and both are one class. An operation's operands
correspond to the parameters of its declaration, its `OpDef`; an absent optional operand is `None`.
Every value knows its uses, so replacing a value takes time proportional to the number of its uses.

Operations of a block form a doubly linked list: insertion and removal take O(1), and a walk
survives the removal of the current operation.

A level of the IR is a set of legal operations and types, which the verifier enforces. A declaration
states the levels at which its operation is legal.

    TILE      the user's program: tiles without layouts
    LAID_OUT  every tile has a layout; shared memory, copies and barriers are operations
    THREAD    per-thread fragments, lanes, shuffles, vector accesses
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from tile.errors import IRError, TypeRuleError
from tile.ir.types import Scalar, Type, without_layout
from tile.location import Loc


class Level(enum.Enum):
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
SCHEDULE = "schedule"  # `Operation.schedule` in the IR's text


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

    `semantics` is the reference semantics of a pure operation: a function of NumPy arrays whose
    first axis is the program axis. Attributes are passed by name; regions are passed by name as
    functions of arrays that return a sequence of arrays. `isolated`: the regions are such
    functions. They use no value from outside, run any number of times, and are not part of the
    control flow. `unit_axes_broadcast`: the reference semantics accept and may return arrays in
    which an axis of extent 1 stands for a value that is constant along that axis (elementwise
    operations do so by broadcasting). `accepts` lists the element types. `ulp` is the accuracy
    required of every backend, in units in the last place, for values in `domain`; 0 requires the
    same bits. `traits` are what passes ask of it besides.
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
    traits: frozenset[Trait] = frozenset()
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
        """The name of the file in `tile/ir/ops` that declares the operation."""
        return self.rule.__module__.rpartition(".")[2]

    @property
    def explicit(self) -> str | None:
        """The attribute that holds the result types, or None if they are inferred."""
        return next((name for name in EXPLICIT if name in self.attributes), None)

    def infer(
        self,
        operands: Sequence[Type | None],
        attributes: dict[str, Any],
        regions: Sequence[Block],
    ) -> tuple[Type, ...]:
        """Return the result types. Raises `TypeRuleError` if the type rule rejects the operands.

        Type rules see types without layouts; this function removes them.
        """
        operands = [None if ty is None else without_layout(ty) for ty in operands]
        # This runs whenever an operation is created or verified, so messages are formatted only
        # for errors.
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
        """Return the attributes with defaults filled in, in declared order.

        Raises `TypeRuleError` for unknown and missing attributes.
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

    def within(self, block: Block) -> Operation:
        """Return the operation of a block that is this one or contains it."""
        return next(op for op in (self, *self.ancestors()) if op.block is block)

    def walk(self) -> Iterator[Operation]:
        """Yield this operation, then all operations nested in it, in program order."""
        yield self
        for region in self.regions:
            yield from region.walk()

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
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()

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


@dataclass
class Argument:
    """Attributes of a function's parameter besides its type.

    divisible: divides the value, or for a pointer its address in bytes.
    readonly: a pointer through which, or through pointers derived from it, the function writes no
        memory; nor do its callees.
    noalias: a pointer to memory that, if any of it is written while the function runs, is accessed
        through pointers derived from this parameter only.
    aliased: a pointer to memory that other `aliased` parameters may reach, too. Passes assume of
        all others that their memory is disjoint.
    disjoint: positions of later parameters of a kernel. A pass has relied on their memory being
        disjoint from this one's: the code is wrong for launches for which it is not.
    """

    divisible: int = 1
    readonly: bool = False
    noalias: bool = False
    aliased: bool = False
    disjoint: tuple[int, ...] = ()

    FLAGS: ClassVar[tuple[str, ...]] = ("readonly", "noalias", "aliased")  # of pointers only

    def __str__(self) -> str:
        """Return the attributes that differ from their defaults, as in ` {divisible = 16}`."""
        shown = [
            spec.name if value is True else f"{spec.name} = {_spell_attribute(value)}"
            for spec in fields(self)
            if (value := getattr(self, spec.name)) != spec.default
        ]
        return f" {{{', '.join(shown)}}}" if shown else ""


def _spell_attribute(value: int | tuple[int, ...]) -> str:
    return f"({', '.join(map(str, value))})" if isinstance(value, tuple) else str(value)


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


@dataclass(frozen=True)
class Signature:
    """A function's type, with its parameters' attributes as text: all that a call depends on."""

    parameters: tuple[Type, ...]
    attributes: tuple[str, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        parameters = ", ".join(
            f"{ty}{attributes}"
            for ty, attributes in zip(self.parameters, self.attributes, strict=True)
        )
        results = f" -> ({', '.join(map(str, self.results))})" if self.results else ""
        return f"({parameters}){results}"


class Module:
    """Functions by name, in order: kernels and the functions that they call.

    `declarations` are functions that another module defines: a signature, and a body without
    operations. Iteration, and therefore passes, see definitions only.
    """

    def __init__(
        self, functions: Iterable[Function] = (), declarations: Iterable[Function] = ()
    ) -> None:
        self.functions: dict[str, Function] = {f.name: f for f in functions}
        self.declarations: dict[str, Function] = {f.name: f for f in declarations}

    def add(self, function: Function) -> Function:
        assert function.name not in self.functions, f"@{function.name} is defined twice"
        self.functions[function.name] = function
        return function

    def __iter__(self) -> Iterator[Function]:
        return iter(list(self.functions.values()))

    def __getitem__(self, name: str) -> Function:
        return self.functions[name]

    @property
    def kernels(self) -> list[Function]:
        return [f for f in self.functions.values() if f.kernel]

    @property
    def kernel(self) -> Function:
        """The only kernel of the module. Raises `IRError` if there is another number of them."""
        kernels = self.kernels
        if len(kernels) == 1:
            return kernels[0]
        names = ", ".join(map(str, kernels)) or "none"
        raise IRError(
            f"a module to be compiled has one kernel, and this one has {names}",
            loc=kernels[1].loc if kernels else None,
        )

    def walk(self) -> Iterator[Operation]:
        for function in self:
            yield from function.walk()

    def clone(self) -> Module:
        """Return a deep copy."""
        return Module(map(clone_function, self), map(clone_function, self.declarations.values()))


def clone_function(function: Function) -> Function:
    """Return a deep copy of a function."""
    copy = Function(
        function.name,
        [v.type for v in function.args],
        [v.name for v in function.args],
        function.result_types,
        kernel=function.kernel,
        noinline=function.noinline,
        loc=function.loc,
    )
    copy.arguments = [replace(argument) for argument in function.arguments]
    mapping = dict(zip(function.args, copy.args, strict=True))
    for op in function.body:
        copy.body.append(clone(op, mapping))
    return copy


def clone(
    op: Operation,
    mapping: dict[Value, Value],
    relocate: Callable[[Loc | None], Loc | None] = lambda loc: loc,
) -> Operation:
    """Return a copy of `op` with operands replaced by `mapping`, and add its results to `mapping`.

    The copy is in no block. `relocate` returns the location of each copied operation.
    """
    regions = []
    for region in op.regions:
        copy = Block([v.type for v in region.args], [v.name for v in region.args])
        mapping.update(zip(region.args, copy.args, strict=True))
        for inner in region:
            copy.append(clone(inner, mapping, relocate))
        regions.append(copy)
    operands = [None if v is None else mapping.get(v, v) for v in op.operands]
    types = [v.type for v in op.results]
    new = Operation(op.defn, operands, dict(op.attributes), regions, types, relocate(op.loc))
    for old_value, new_value in zip(op.results, new.results, strict=True):
        new_value.name = old_value.name
        mapping[old_value] = new_value
    return new
