"""A function under construction: its statements, and what became of the values of the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tile.backends.opencl.emit.names import Names
from tile.backends.opencl.emit.source import Line, Source
from tile.backends.opencl.emit.types import count_of, is_literal
from tile.errors import Loc, UnsupportedError, stamp
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.types import Type

Registers = list[str]
Rule = Callable[["Body", Operation], None]

WIDTH = 100


class Body:
    """Writes the statements of one function.

    A value of the IR is a list of operands, one for each register: variables, or literals. A buffer
    is a pointer to local memory.
    """

    def __init__(self, source: Source, function: Function, rules: dict[OpDef, Rule]) -> None:
        self.source = source
        self.function = function
        self.rules = rules
        self.names = Names(source.symbols)
        self.lines: list[Line] = []
        self.values: dict[Value, Registers] = {}
        self.depth = 1
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
        self.depth += 1

    def close(self, text: str = "}") -> None:
        """End a block."""
        self.depth -= 1
        self.line(text)

    def otherwise(self) -> None:
        """End a block, and begin the one for the other case."""
        self.close("} else {")
        self.depth += 1

    def when(self, condition: str, statement: str) -> None:
        """A statement under a condition, which may be `true`."""
        if condition != "false":
            self.line(statement if condition == "true" else f"if ({condition}) {statement}")

    # -- variables

    def fresh(self, value: Value) -> Registers:
        """Names for the registers of a value."""
        hint = value.name.rstrip("0123456789").rstrip("_") if value.name[:2] == "v_" else value.name
        return self.named(hint or "v", value.type)

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
        """Lines from here on are of this operation."""
        self._loc = op.loc or self.function.loc


def each(body: Body, op: Operation, compute: Callable[..., str]) -> None:
    """The result's registers, one at a time; `compute` takes a register of each operand."""
    columns = [body.of(value) for value in op.inputs]
    body.let(op, [compute(*registers) for registers in zip(*columns, strict=True)])
