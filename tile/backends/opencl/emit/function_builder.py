"""The function under construction: its statements, and the C operands of the IR's values.

Pointers to memory that the kernel only reads are `const` and `restrict`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tile.analysis.alias import alias
from tile.backends.opencl.emit.module import FOR_EACH, Line, Names, Source
from tile.backends.opencl.emit.register_arrays import (
    ArraySelection,
    Index,
    RegisterArray,
    is_simple,
    most_unrolled,
    splat,
    stored_array,
)
from tile.backends.opencl.emit.types import is_literal
from tile.codegen.emitter import FunctionEmitter
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import control
from tile.ir.types import Type, count_of
from tile.location import Loc
from tile.simt.lower.infer_invariant_loads import invariant_parameters

Registers = Sequence[str]
Rule = Callable[["FunctionBuilder", Operation], None]

WIDTH = 100


class FunctionBuilder(FunctionEmitter[Registers]):
    """Emit the statements of one function.

    A value of the IR is a list of operands, one per register: variables or literals. A buffer is a
    pointer to local memory. A long fragment is a `RegisterArray` that loops iterate over: a C
    array, or an expression that is emitted at each use.
    """

    def __init__(self, source: Source, function: Function, rules: dict[OpDef, Rule]) -> None:
        super().__init__("opencl", function, rules)
        self.source = source
        self.names = Names(source.symbols)
        self.lines: list[Line] = []
        self.depth = 1
        self._declaring = 0  # the lines so far that only declare variables
        self.pointers = constant_pointers(function)
        self.tuning = source.device.tuning
        self._selection = ArraySelection(
            most_unrolled(function, source.device), self.tuning.recomputed_ops
        )
        # The variables of expressions that this C block, or one around it, has computed.
        self._computed: ChainMap[tuple[object, ...], str] = ChainMap()
        self._loc: Loc | None = None

    # -- values

    def carrier(self, value: Value) -> str:
        """Return the C type of each register of a value."""
        const = "const " if value in self.pointers.const else ""
        return const + self.source.carrier(value.type.element)

    def use(self, name: str) -> str:
        """Add a helper function to the program; return its name."""
        return self.source.use(name)

    # -- statements

    def line(self, text: str) -> None:
        """Emit a line, indented by the depth of the block."""
        self.lines.append(Line("  " * self.depth + text, self._loc))

    def open(self, text: str) -> None:
        """Begin a block."""
        self.line(f"{text} {{")
        self._enter()

    def close(self, text: str = "}") -> None:
        """End a block."""
        self._leave()
        self.line(text)

    def otherwise(self) -> None:
        """End a block and begin its `else` block."""
        self.close("} else {")
        self._enter()

    def _enter(self) -> None:
        self.depth += 1
        self._computed = self._computed.new_child()

    def _leave(self) -> None:
        self.depth -= 1
        self._computed = self._computed.parents

    def barrier(self) -> None:
        """Emit a barrier of all threads of the program."""
        self.line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")

    def when(self, condition: str, statement: str) -> None:
        """Emit a statement under a condition, which may be the literal `true` or `false`."""
        if condition != "false":
            self.line(statement if condition == "true" else f"if ({condition}) {statement}")

    # -- register arrays

    def is_array(self, value: Value) -> bool:
        """Return True if a value is a register array."""
        return self._selection.is_array(value)

    @contextmanager
    def loop(
        self, count: int, step: int = 1, hint: str = "r", *, unroll: bool = False
    ) -> Iterator[Index]:
        """Emit a loop of `count` iterations; yield its variable times `step`.

        A loop that only declares variables is dropped: the mask of its store is the literal
        `false`. The loop is one line if it fits. The runtime may unroll it if `unroll` is set or
        the loop is short; otherwise the device's pragma (`Capabilities.loops`) decides.
        """
        variable = self.names.loop(hint)
        head, start = f"{FOR_EACH}({variable}, {count})", len(self.lines)
        declaring = self._declaring
        if unroll or count <= self.tuning.short_loop:
            head = f"for (uint {variable} = 0; {variable} < {count}; {variable}++)"
        self.open(head)
        yield Index.of(variable, count, step)
        self._leave()
        self.names.done(variable)
        statements = self.lines[start + 1 :]
        if len(statements) == self._declaring - declaring:
            del self.lines[start:]
            self._declaring = declaring
            return
        one_line = f"{'  ' * self.depth}{head} {statements[0].text.strip()}"
        if len(statements) == 1 and len(one_line) <= WIDTH:
            self.lines[start:] = [Line(one_line, statements[0].loc)]
        else:
            self.lines.append(Line("  " * self.depth + "}", self._loc))

    def array_of(self, value: Value) -> RegisterArray:
        """Return the registers of a value as an array; copy variables to a C array."""
        registers = self.values[value]
        if isinstance(registers, RegisterArray):
            return registers
        first, *rest = registers
        if all(x == first for x in rest):
            return splat(len(registers), first)
        name = self._computed.get((value,))
        if name is None:
            name = self._computed[value,] = self.names.new(self._hint(value) + "s")
            self.array(self.carrier(value), name, len(registers), registers)
        return stored_array(name, len(registers))

    def array(self, ty: str, name: str, count: int, values: Sequence[str] | None = None) -> None:
        """Declare an array."""
        base, star = (ty[:-1].rstrip(), "*") if ty.endswith("*") else (ty, "")
        start = f"{base} {star}{name}[{count}]"
        if values is None:
            self.line(f"{start};")
            return
        whole = f"{start} = {{{', '.join(values)}}};"
        if 2 * self.depth + len(whole) <= WIDTH:
            self.line(whole)
            return
        self.line(f"{start} = {{")
        self.depth += 1
        self.join_parts("", [f"{value}," for value in values], " ", "")
        self.depth -= 1
        self.line("};")

    def column(self, value: Value, like: Value) -> RegisterArray:
        """Return the registers of a value by index: an array, or variables if `like` is such."""
        if self.is_array(like):
            return self.array_of(value)
        registers = self.of(value)
        return RegisterArray(len(registers), lambda index: registers[index.offset])

    def mask_column(self, op: Operation, like: Value) -> RegisterArray:
        """Return the masks of an operation's registers, all `true` without a mask operand."""
        mask = op["mask"]
        return splat(count_of(like.type), "true") if mask is None else self.column(mask, like)

    def vectors(self, value: Value, step: int) -> Iterator[Index]:
        """Yield the first register of each vector of `step` registers, in a loop for an array."""
        count = count_of(value.type)
        if self.is_array(value):
            with self.loop(count // step, step) as index:
                yield index
        else:
            yield from map(Index, range(0, count, step))

    def fill_array(self, value: Value, element: Callable[[Index], str]) -> RegisterArray:
        """Declare a C array for the registers of a value and fill it with `element(index)`."""
        count = count_of(value.type)
        name = self.names.new(self._hint(value))
        self.array(self.carrier(value), name, count)
        with self.loop(count) as index:
            target = stored_array(name, count).at(index)
            text = element(index)
            self.line(f"{target} = {text};")
        return stored_array(name, count)

    def compute(
        self,
        op: Operation,
        element: Callable[[Index], str],
        sources: Iterable[RegisterArray] = (),
        *,
        pure: bool = True,
    ) -> None:
        """Set an operation's result to a register array, each register being `element(index)`.

        A pure operation that is cheap, or that has a single use, is computed at its uses.

        sources: the register arrays that `element` reads.
        """
        cost = 1 + sum(source.cost for source in sources)
        if pure and self._selection.is_deferred(op, cost):
            self.defer(op, element, cost)
        else:
            self.values[op.result] = self.fill_array(op.result, element)

    def defer(self, op: Operation, element: Callable[[Index], str], cost: int) -> None:
        """Set an operation's result to registers that are computed at each use."""
        result = op.result
        ty, hint, loc = self.carrier(result), self._hint(result), op.loc

        def compute(index: Index) -> str:
            operand = self._computed.get((result, index))
            if operand is None:
                loc_of_use, self._loc = self._loc, loc or self._loc
                text = element(index)
                operand = text if is_simple(text) else self.temporary(ty, text, hint)
                self._loc = loc_of_use
                self._computed[result, index] = operand
            return operand

        self.values[result] = RegisterArray(count_of(result.type), compute, cost=cost)

    # -- variables

    def _hint(self, value: Value) -> str:
        name = value.name
        return (name.rstrip("0123456789").rstrip("_") if name[:2] == "v_" else name) or "v"

    def new_names(self, value: Value) -> Registers:
        """Return new names for the registers of a value."""
        return self.named(self._hint(value), value.type)

    def named(self, hint: str, ty: Type) -> Registers:
        """Return new names for the registers of a type."""
        if ty.shape:
            return self.names.registers(hint, count_of(ty))
        return [self.names.new(hint)]

    def declare(self, ty: str, names: Sequence[str], values: Sequence[str] | None) -> None:
        """Declare variables of one type, in as few lines as possible."""
        base, star = (ty[:-1].rstrip(), "*") if ty.endswith("*") else (ty, "")
        if values is None:
            parts = [star + name for name in names]
        else:
            parts = [f"{star}{name} = {value}" for name, value in zip(names, values, strict=True)]
        start = len(self.lines)
        self.join_parts(base + " ", parts, ", ", ";")
        self._declaring += len(self.lines) - start

    def join_parts(self, start: str, parts: Iterable[str], between: str, end: str) -> None:
        """Emit statements of several parts, as many parts per line as fit."""
        width = WIDTH - 2 * self.depth - len(end)
        text = start
        count = 0
        for part in parts:
            if count and len(text) + len(between) + len(part) > width:
                self.line(text + end)
                text, count = start, 0
            text += (between if count else "") + part
            count += 1
        if count:
            self.line(text + end)

    def let(self, op: Operation, values: Sequence[str], *, pure: bool = True) -> None:
        """Declare variables with these values as the registers of an operation's only result.

        If the operation is `pure`, registers with equal text share a variable.
        """
        result = op.results[0]
        self.values[result] = self.bind(result, values, pure=pure)

    def bind(self, value: Value, values: Sequence[str], *, pure: bool = True) -> Registers:
        """Declare variables for the registers of a value and return their names."""
        if not pure:
            names = self.new_names(value)
            self.declare(self.carrier(value), names, values)
            return names
        literal = value.type.element.bits == 32  # a literal of another width has another C type
        operands = {x: x for x in values if x.isidentifier() or (literal and is_literal(x))}
        expressions = [x for x in dict.fromkeys(values) if x not in operands]
        if not expressions:
            return list(values)
        names = self.new_names(value) if len(expressions) > 1 else self._single(value)
        self.declare(self.carrier(value), names[: len(expressions)], expressions)
        operands.update(zip(expressions, names, strict=False))
        return [operands[text] for text in values]

    def _single(self, value: Value) -> Registers:
        hint = value.name if value.name[:2] != "v_" else "v"
        return [self.names.new(hint or "v")]

    def temporary(self, ty: str, text: str, hint: str = "t") -> str:
        """Declare a variable for a subexpression and return its name."""
        name = self.names.new(hint)
        self.declare(ty, [name], [text])
        return name

    def hoist_read(self, ty: str, text: str) -> str:
        """Return an operand for use in a conditional expression; read an array's element before it.

        Intel's CPU runtime 2026.2 miscompiles reads of private arrays under a condition in a loop.
        """
        return self.temporary(ty, text) if "[" in text else text

    # -- operations

    def locate(self, op: Operation) -> None:
        """Attribute the next lines to an operation; without a location, to the previous one."""
        self._loc = op.loc or self._loc or self.function.loc


def each(
    builder: FunctionBuilder,
    op: Operation,
    compute: Callable[..., str],
    *,
    pure: bool = True,
    operands: Sequence[Value] | None = None,
) -> None:
    """Emit an elementwise operation; `compute` takes one register of each of its operands."""
    operands = op.inputs if operands is None else operands
    if builder.is_array(op.result):
        arrays = [builder.array_of(value) for value in operands]
        builder.compute(
            op, lambda index: compute(*(array.at(index) for array in arrays)), arrays, pure=pure
        )
        return
    columns = [builder.of(value) for value in operands]
    builder.let(op, [compute(*registers) for registers in zip(*columns, strict=True)])


@dataclass(frozen=True)
class ConstantPointers:
    """The qualifiers of a kernel's pointers.

    restrict: the parameters through which the kernel has invariant loads.
    const: values that point to the memory of such parameters only, so that no initialization or
        assignment drops the qualifier.
    """

    restrict: frozenset[Value] = frozenset()
    const: frozenset[Value] = frozenset()


def constant_pointers(function: Function) -> ConstantPointers:
    """Return the qualifiers of a function's pointers: none unless it is a kernel."""
    names = invariant_parameters(function) if function.kernel else frozenset()
    if not names:
        return ConstantPointers()
    restrict = frozenset(value for value in function.args if value.name in names)
    if any(op.defn is control.call for op in function.walk()):
        return ConstantPointers(restrict)  # the callee's parameters are not const
    facts = {value: fact for value, fact in alias(function).facts.items() if fact.parameters}
    constant = frozenset(value.index for value in restrict)
    while True:
        mixed = {
            index
            for fact in facts.values()
            if not fact.parameters <= constant
            for index in fact.parameters & constant
        }
        if not mixed:
            break
        constant -= mixed
    const = frozenset(value for value, fact in facts.items() if fact.parameters <= constant)
    return ConstantPointers(restrict, const)
