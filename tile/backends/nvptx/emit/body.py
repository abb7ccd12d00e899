"""A function under construction: its lines, and what became of the values of the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tile.backends.nvptx.emit.module import ModuleText
from tile.backends.nvptx.emit.types import llvm_type
from tile.errors import UnsupportedError, stamp
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.opdef import OpDef

Registers = list[str]
Rule = Callable[["Body", Operation], None]


@dataclass(frozen=True)
class Place:
    """Where a buffer is in shared memory: `moving`, an operand of i32, plus `at` bytes.

    `unit` is a power of two that divides `moving`.
    """

    moving: str
    at: int
    unit: int = 1 << 30


class Body:
    """Writes the lines of one function.

    A value of the IR is a list of operands of LLVM, one for each register: names such as `%v7`, or
    constants. A buffer is a `Place`.
    """

    def __init__(self, module: ModuleText, function: Function, rules: dict[OpDef, Rule]) -> None:
        self.module = module
        self.function = function
        self.rules = rules
        self.lines: list[str] = []
        self.values: dict[Value, Registers] = {}
        self.buffers: dict[Value, Place] = {}
        self.sums: dict[str, tuple[str, int]] = {}  # names that are another and a constant
        self.crossed: dict[
            str, tuple[str, int]
        ] = {}  # names that are another, XORed with a constant
        self.moving: set[str] = set()  # pointers that a loop carries; see `moving.py`
        # In rounds that multiply by groups: by how many bytes those move; see `moving.py`.
        self.steps: dict[tuple[str, int], str] | None = None
        self.turns: dict[tuple[str, int], str] = {}  # counts modulo others; see `turns.py`
        self._known: dict[str, str] = {}  # what was computed, by its text
        self._order: list[str] = []  # the same in order, so that it can be forgotten
        self.whole: dict[tuple[str, ...], str] = {}  # vectors by the names of all of their elements
        self.bytes: dict[str, tuple[str, int]] = {}  # of words, which these are, and the number
        self._later: dict[str, list[str]] = {}  # lines to be written when a register is needed
        self.top: list[str] = []  # lines at the start of the function
        self.early: list[str] = []  # lines behind those, and the thread's number
        self.block = "entry"  # the label of the block that lines go to
        self.scope: int | None = None
        self._home = function.loc.file if function.loc else ""
        self.place = ""  # where lines are from, as they have it at their end
        self._count = 0

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

    # -- lines

    def name(self) -> str:
        """A name that is not taken."""
        self._count += 1
        return f"%v{self._count}"

    def new(self, text: str) -> str:
        """An instruction that computes its result from its operands alone.

        Where the same was computed before, on every way that leads here, that is the result.
        """
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self.fresh(text)
            self._order.append(text)
        return found

    def first(self, text: str) -> str:
        """An instruction on the thread's number, and what was made so, at the function's start.

        What loops would compute again in each round is so computed once.
        """
        found = self._known.get(text)
        if found is None:
            self._count += 1
            found = self._known[text] = f"%v{self._count}"
            self.early.append(f"  {found} = {text}{self.place}")
        return found

    def once(self, what: str, make: Callable[[], str]) -> str:
        """What `make` gives, where it was not made before, on every way that leads here."""
        found = self._known.get(what)
        if found is None:
            found = self._known[what] = make()
            self._order.append(what)
        return found

    def fresh(self, text: str) -> str:
        """An instruction with a result that depends on more than its operands."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}{self.place}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}{self.place}")

    def label(self, what: str) -> str:
        """A label that is not taken."""
        self._count += 1
        return f"{what}{self._count}"

    def start(self, label: str) -> None:
        """Begin a block of LLVM's."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """End a block."""
        self.do(f"br label %{label}")

    def branch(self, condition: str, then: str, orelse: str, suffix: str = "") -> None:
        """End a block by a condition."""
        self.do(f"br i1 {condition}, label %{then}, label %{orelse}{suffix}")

    def phi(self, ty: str, incoming: Iterable[tuple[str, str]]) -> str:
        """A value that depends on the block that control comes from."""
        choices = ", ".join(f"[ {value}, %{label} ]" for value, label in incoming)
        return self.fresh(f"phi {ty} {choices}")

    def call(self, name: str, result: str, *operands: tuple[str, str], pure: bool = True) -> str:
        """Call a function outside the module, which is declared unless it is known.

        It is `pure` if it computes its result from its operands alone.
        """
        types = ", ".join([ty for ty, _ in operands])
        self.module.declare(name, f"declare {result} {name}({types})")
        given = ", ".join([f"{ty} {value}" for ty, value in operands])
        text = f"call {result} {name}({given})"
        if result == "void":
            self.do(text)
            return ""
        return self.new(text) if pure else self.fresh(text)

    def defer(self, since: int, registers: Sequence[str]) -> None:
        """Take back the lines from number `since` on, until one of the registers is needed."""
        lines = self.lines[since:]
        del self.lines[since:]
        self._later.update(dict.fromkeys(registers, lines))

    def need(self, registers: Iterable[str]) -> None:
        """Write the lines that have been deferred until one of these registers is needed."""
        for register in registers:
            lines = self._later.pop(register, None)
            if lines:
                self.lines += lines
                lines.clear()

    # -- operations

    def emit(self, block: Block) -> None:
        """Write the operations of a block, all but what ends it."""
        for op in block:
            if op.defn.terminator:
                self.locate(op)
                return
            self.operation(op)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Lines that not every way leads through: what they compute is not known outside."""
        before = len(self._order)
        yield
        for text in self._order[before:]:
            del self._known[text]
        del self._order[before:]

    def operation(self, op: Operation) -> None:
        """Write one operation."""
        self.locate(op)
        rule = self.rules.get(op.defn)
        if rule is None:
            raise UnsupportedError(f"the nvptx backend has no code for `{op.name}`", loc=op.loc)
        with stamp(op.loc):
            rule(self, op)

    def locate(self, op: Operation) -> None:
        """Lines from here on are of this operation."""
        loc = op.loc or self.function.loc
        if self.scope is None or loc is None:
            return
        self.place = f", !dbg !{self.module.place(loc, self.scope, self._home)}"


def types_of(values: Sequence[Value]) -> list[str]:
    """The LLVM type of every register of some values, in order."""
    types: list[str] = []
    for value in values:
        element = llvm_type(value.type.element)
        types += [element] * getattr(value.type, "count", 1)
    return types
