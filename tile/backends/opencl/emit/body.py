"""A function under construction: its statements, and what became of the values of the IR."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tile.backends.opencl.emit.names import Names
from tile.backends.opencl.emit.reach import Reach
from tile.backends.opencl.emit.rolling import Rolling, once, short_enough
from tile.backends.opencl.emit.rows import Index, Row, array_row, same
from tile.backends.opencl.emit.source import FOR_EACH, Line, Source
from tile.backends.opencl.emit.types import count_of, is_literal
from tile.errors import Loc, UnsupportedError, stamp
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.types import Type

Registers = Sequence[str]
Rule = Callable[["Body", Operation], None]

WIDTH = 100
SHORT = 16  # rounds of a loop that any runtime may unroll, which keeps short arrays in registers


class Body:
    """Writes the statements of one function.

    A value of the IR is a list of operands, one for each register: variables, or literals. A buffer
    is a pointer to local memory. Long fragments are rows (`rows.py`), over which loops go: arrays,
    or expressions that are written where they are wanted.
    """

    def __init__(self, source: Source, function: Function, rules: dict[OpDef, Rule]) -> None:
        self.source = source
        self.function = function
        self.rules = rules
        self.names = Names(source.symbols)
        self.lines: list[Line] = []
        self.values: dict[Value, Registers] = {}
        self.depth = 1
        self.reach = Reach()
        self._rolling = Rolling(short_enough(function, source.device))
        self._known: ChainMap[tuple[object, ...], str] = ChainMap()  # what this C block computed
        self._loc: Loc | None = None

    # -- values

    def of(self, value: Value) -> Registers:
        """The registers of a value."""
        return self.values[value]

    def scalar(self, value: Value) -> str:
        """The only register of a value."""
        return self.values[value][0]

    def set(self, op: Operation, registers: Registers) -> None:
        """Say what an operation's only result is."""
        self.values[op.results[0]] = registers

    def carrier(self, value: Value) -> str:
        """The C type of each register of a value."""
        return self.source.carrier(value.type.element)

    def use(self, name: str) -> str:
        """A function of the library."""
        return self.source.use(name)

    # -- statements

    def line(self, text: str) -> None:
        """A line as it is, at the depth of the block."""
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
        """End a block, and begin the one for the other case."""
        self.close("} else {")
        self._enter()

    def _enter(self) -> None:
        self.depth += 1
        self._known = self._known.new_child()

    def _leave(self) -> None:
        self.depth -= 1
        self._known = self._known.parents

    def barrier(self) -> None:
        """All threads of the program meet."""
        self.line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")

    def when(self, condition: str, statement: str) -> None:
        """A statement under a condition, which may be `true`."""
        if condition != "false":
            self.line(statement if condition == "true" else f"if ({condition}) {statement}")

    # -- rows

    def rolled(self, value: Value) -> bool:
        """Whether a value is a row."""
        return self._rolling.is_row(value)

    @contextmanager
    def loop(
        self, count: int, step: int = 1, hint: str = "r", *, free: bool = False
    ) -> Iterator[Index]:
        """A loop over `count` numbers; `step` times its variable. In one line if it fits.

        Unless it is `free` or short, the device's capabilities say whether the runtime may unroll
        it.
        """
        variable = self.names.loop(hint)
        head, start = f"{FOR_EACH}({variable}, {count})", len(self.lines)
        if free or count <= SHORT:
            head = f"for (uint {variable} = 0; {variable} < {count}; {variable}++)"
        self.open(head)
        yield Index.of(variable, count, step)
        self._leave()
        self.names.done(variable)
        inside = self.lines[start + 1 :]
        joined = f"{'  ' * self.depth}{head} {inside[0].text.strip()}" if inside else ""
        if len(inside) == 1 and len(joined) <= WIDTH:
            self.lines[start:] = [Line(joined, inside[0].loc)]
        else:
            self.lines.append(Line("  " * self.depth + "}", self._loc))

    def row(self, value: Value) -> Row:
        """The registers of a value as a row; those in variables go into an array here."""
        registers = self.values[value]
        if isinstance(registers, Row):
            return registers
        first, *rest = registers
        if all(x == first for x in rest):
            return same(len(registers), first)
        known = self._known.get((value,))
        if known is None:
            known = self._known[value,] = self.names.new(self._hint(value) + "s")
            self.array(self.carrier(value), known, len(registers), registers)
        return array_row(known, len(registers))

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
        self.joined("", [f"{value}," for value in values], " ", "")
        self.depth -= 1
        self.line("};")

    def fill_array(self, value: Value, element: Callable[[Index], str]) -> Row:
        """An array for the registers of a value, each as `element` says."""
        count = count_of(value.type)
        name = self.names.new(self._hint(value))
        self.array(self.carrier(value), name, count)
        with self.loop(count) as index:
            target = array_row(name, count).at(index)
            text = element(index)
            self.line(f"{target} = {text};")
        return array_row(name, count)

    def compute(
        self,
        op: Operation,
        element: Callable[[Index], str],
        sources: Iterable[Row] = (),
        *,
        pure: bool = True,
    ) -> None:
        """Give an operation's result its registers, each as `element` says, from `sources`.

        What is cheap, or wanted by one other operation alone, is computed where it is wanted.
        """
        cost = 1 + sum(source.cost for source in sources)
        if pure and self._rolling.is_late(op, cost):
            self.defer(op, element, cost)
        else:
            self.values[op.result] = self.fill_array(op.result, element)

    def defer(self, op: Operation, element: Callable[[Index], str], cost: int) -> None:
        """Give an operation's result registers that are computed where they are wanted."""
        result = op.result
        held, hint, loc = self.carrier(result), self._hint(result), op.loc

        def late(index: Index) -> str:
            known = self._known.get((result, index))
            if known is None:
                here, self._loc = self._loc, loc or self._loc
                text = element(index)
                known = text if once(text) else self.temporary(held, text, hint)
                self._loc = here
                self._known[result, index] = known
            return known

        self.values[result] = Row(count_of(result.type), late, cost=cost)

    # -- variables

    def _hint(self, value: Value) -> str:
        name = value.name
        return (name.rstrip("0123456789").rstrip("_") if name[:2] == "v_" else name) or "v"

    def fresh(self, value: Value) -> Registers:
        """Names for the registers of a value."""
        return self.named(self._hint(value), value.type)

    def named(self, hint: str, ty: Type) -> Registers:
        """Names of registers."""
        if ty.shape:
            return self.names.registers(hint, count_of(ty))
        return [self.names.new(hint)]

    def declare(self, ty: str, names: Sequence[str], values: Sequence[str] | None) -> None:
        """Variables of one type, in as few lines as they fit."""
        base, star = (ty[:-1].rstrip(), "*") if ty.endswith("*") else (ty, "")
        if values is None:
            parts = [star + name for name in names]
        else:
            parts = [f"{star}{name} = {value}" for name, value in zip(names, values, strict=True)]
        self.joined(base + " ", parts, ", ", ";")

    def joined(self, start: str, parts: Iterable[str], between: str, end: str) -> None:
        """Statements of several parts, as many to a line as fit."""
        room = WIDTH - 2 * self.depth - len(end)
        text = start
        count = 0
        for part in parts:
            if count and len(text) + len(between) + len(part) > room:
                self.line(text + end)
                text, count = start, 0
            text += (between if count else "") + part
            count += 1
        if count:
            self.line(text + end)

    def let(self, op: Operation, values: Sequence[str], *, pure: bool = True) -> None:
        """Give an operation's only result its registers, as variables with these values.

        Registers with the same text are one variable if it is `pure`.
        """
        result = op.results[0]
        self.values[result] = self.bind(result, values, pure=pure)

    def bind(self, value: Value, values: Sequence[str], *, pure: bool = True) -> Registers:
        """Variables for the registers of a value."""
        if not pure:
            names = self.fresh(value)
            self.declare(self.carrier(value), names, values)
            return names
        literal = value.type.element.bits == 32  # others' have types of their own
        known = {x: x for x in values if x.isidentifier() or (literal and is_literal(x))}
        different = [x for x in dict.fromkeys(values) if x not in known]
        if not different:
            return list(values)
        names = self.fresh(value) if len(different) > 1 else self._single(value)
        self.declare(self.carrier(value), names[: len(different)], different)
        known.update(zip(different, names, strict=False))
        return [known[text] for text in values]

    def _single(self, value: Value) -> Registers:
        hint = value.name if value.name[:2] != "v_" else "v"
        return [self.names.new(hint or "v")]

    def temporary(self, ty: str, text: str, hint: str = "t") -> str:
        """A variable for a part of an expression."""
        name = self.names.new(hint)
        self.declare(ty, [name], [text])
        return name

    def settled(self, ty: str, text: str) -> str:
        """An operand that is to be chosen under a condition; an element of an array is read now.

        Intel's runtime of 2026.2 gets elements of private arrays wrong that are read under a
        condition in a loop.
        """
        return self.temporary(ty, text) if "[" in text else text

    # -- operations

    def emit(self, block: Block) -> None:
        """Write the operations of a block, all but what ends it."""
        for op in block:
            if op.defn.terminator:
                self.locate(op)
                return
            self.operation(op)

    def operation(self, op: Operation) -> None:
        """Write one operation."""
        self.locate(op)
        rule = self.rules.get(op.defn)
        if rule is None:
            raise UnsupportedError(f"the opencl backend has no code for `{op.name}`", loc=op.loc)
        with stamp(op.loc):
            rule(self, op)

    def locate(self, op: Operation) -> None:
        """Lines from here on are of this operation; one without a place is of the last one's."""
        self._loc = op.loc or self._loc or self.function.loc


def each(body: Body, op: Operation, compute: Callable[..., str], *, pure: bool = True) -> None:
    """The result's registers, one at a time; `compute` takes a register of each operand."""
    if body.rolled(op.result):
        rows = [body.row(value) for value in op.inputs]
        body.compute(op, lambda index: compute(*(row.at(index) for row in rows)), rows, pure=pure)
        return
    columns = [body.of(value) for value in op.inputs]
    body.let(op, [compute(*registers) for registers in zip(*columns, strict=True)])
