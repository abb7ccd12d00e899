"""Printer of IR text. Only functions, `for`, `while` and `if` have custom syntax.

    kernel @add(%x: ptr<f32> {divisible = 16, readonly}, %n: i32) {
      %pid = program_id {axis = 0} : i32
      %acc = for %i = %lo to %n step %c1 iter(%a = %zero) : f32 {
        yield %a
      } {num_stages = 3}
      return
    }

Attributes of parameters are `divisible`, which divides the value or a pointer's address in bytes,
and for pointers `readonly`, `noalias`, `aliased` and `disjoint`, the positions of other parameters
(`Argument` in `tile/ir/core.py`).

An operation prints its operands, then `{attributes}` that differ from their defaults, then
`: result types`, then an optional location `loc("file":line:column-end "function" at ...)`, then
the regions by name, each with its arguments. An operation that is scheduled (`expand-schedules`)
has its stage and order as a last attribute, `schedule = (-2, 0)`:

    %r = scan_region %x {axis = -1} : tile<8xf32> region combine(%a: f32, %b: f32) {
      %c = add %a, %b : f32
      yield %c
    }

A function without a body is a declaration: another module defines the function, and `tile link`
joins the two. Declarations print at the top of a module, as in `func @scale(%x: f32) -> (f32)`.

A tuple of 16 or more integers that is an affine map over F2 from the bits of the index prints as
this map: `16 ^ linear[0, 4, 1, 2]` has at index i the xor of 16 and the entries at the set bits of
i, so it is (16, 16, 20, 20, 17, ...). `linear[1, 2, 4, 8]` is (0, 1, ..., 15).

A module with layouts begins with aliases for them, as in `#a = #linear{...}`.

Predicated SSA (`@%p`, `icmpp`, `psi`) is text only: parsing desugars it (`tile/ir/predication.py`).

An absent optional operand prints as `_`. A value is named after its Python variable, with a number
if the name is taken. Printing is therefore deterministic, and parsed text prints as the same text.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from tile.ir.core import SCHEDULE, Block, Function, Operation, Symbol, Value
from tile.ir.layout_kinds import is_layout
from tile.ir.module import Module
from tile.ir.types import Type, listed
from tile.location import Loc

# The text of a layout within IR text.
LAYOUT = re.compile(r"#[a-z]+\{[^{}]*\}")

# Returns the comment printed after an operation (None: the function). The second argument returns
# the name under which a value is printed.
Note = Callable[[Operation | None, Callable[[Value], str]], str]

MIN_MAP_BITS = 4  # shorter tuples, such as shapes, are easier to read as they are


def print_module(module: Module, *, locations: bool = False) -> str:
    """Return the text of a module, ending in a newline, with aliases for layouts at its top."""
    declared = "".join(_Printer(locations).declaration(f) for f in module.declarations.values())
    functions = [print_function(f, locations=locations) for f in module]
    text = "\n".join([declared, *functions] if declared else functions)
    names: dict[str, str] = {}
    text = LAYOUT.sub(lambda m: names.setdefault(m.group(), f"#{_letters(len(names))}"), text)
    aliases = "".join(f"{name} = {layout}\n" for layout, name in names.items())
    return f"{aliases}\n{text}" if aliases else text


def _letters(number: int) -> str:
    """Return a, b, ..., z, aa, ab, and so on for 0, 1, ..."""
    rest, letter = divmod(number, 26)
    return (_letters(rest - 1) if rest else "") + chr(ord("a") + letter)


def print_function(function: Function, *, locations: bool = False, note: Note | None = None) -> str:
    """Return the text of a function, ending in a newline; `note` adds comments to operations."""
    return _Printer(locations, note).function(function)


def print_op(op: Operation) -> str:
    """Return the text of one operation for messages; values are named by their hints."""
    printer = _Printer(locations=False)
    printer.op(op, 0)
    return "\n".join(printer.lines)


def print_value(value: object) -> str:
    """Return the text of an attribute's value."""
    if type(value) is int:  # the common case, in register tables
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, enum.Enum):
        return str(value.value) or '""'
    if isinstance(value, Symbol):
        return f"@{value}"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        return _as_map(value) or "(" + ", ".join(map(print_value, value)) + ")"
    if isinstance(value, Type | int | float) or is_layout(value):
        return str(value)
    raise TypeError(f"{value!r} is not an attribute value")


def affine_map(offset: int, images: Sequence[int]) -> tuple[int, ...]:
    """Return the map of 0 to 2**n - 1 that xors `offset` with the images of an index's set bits."""
    values = [offset]
    for image in images:
        values += [value ^ image for value in values]
    return tuple(values)


def _as_map(values: tuple[object, ...]) -> str:
    """Return the text of a long tuple of integers as an affine map, or "" if it is none."""
    bits = len(values).bit_length() - 1
    if bits < MIN_MAP_BITS or len(values) != 1 << bits or any(type(v) is not int for v in values):
        return ""
    numbers = cast("tuple[int, ...]", values)
    offset = numbers[0]
    images = [numbers[1 << bit] ^ offset for bit in range(bits)]
    if min(numbers) < 0 or affine_map(offset, images) != numbers:
        return ""
    return f"{f'{offset} ^ ' if offset else ''}linear[{', '.join(map(str, images))}]"


def print_loc(loc: Loc) -> str:
    """Return the text of a location with its chain of calls."""
    chain = []
    for call in loc.chain():
        function = f" {json.dumps(call.function)}" if call.function else ""
        end = f"-{call.end_column}" if call.end_column else ""
        chain.append(f"{json.dumps(call.file)}:{call.line}:{call.column}{end}{function}")
    return f"loc({' at '.join(chain)})"


class _Printer:
    def __init__(self, locations: bool, note: Note | None = None) -> None:
        self.locations = locations
        self.note = note
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: dict[str, int] = {}

    def name(self, value: Value | None) -> str:
        if value is None:
            return "_"
        assigned = self.names.get(value)
        if assigned is not None:
            return assigned
        base = value.name or "v"
        count = self.taken.get(base)
        name = base
        while count is not None or name in self.taken:
            count = (count or 0) + 1
            name = f"{base}_{count}"
            if name not in self.taken:
                self.taken[base] = count
                break
        self.taken.setdefault(name, 0)
        self.names[value] = f"%{name}"
        return self.names[value]

    def list(self, values: Iterable[Value | None]) -> str:
        return ", ".join(map(self.name, values))

    def put(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def loc(self, loc: Loc | None) -> str:
        if not self.locations:
            return ""
        return f" {print_loc(loc)}" if loc is not None else " loc(unknown)"

    def declaration(self, function: Function) -> str:
        return f"{self.head(function)}\n"

    def function(self, function: Function) -> str:
        self.put(0, f"{self.head(function)} {{{self.noted(None)}")
        self.block(function.body, 1)
        self.put(0, "}")
        return "\n".join(self.lines) + "\n"

    def head(self, function: Function) -> str:
        """Return the text of a function before its body."""
        parameters = []
        for value, argument in zip(function.args, function.arguments, strict=True):
            parameters.append(f"{self.name(value)}: {value.type}{argument}")
        results = f" -> ({listed(function.result_types)})" if function.result_types else ""
        keyword = "kernel" if function.kernel else "func"
        noinline = " noinline" if function.noinline else ""
        head = f"{keyword}{noinline} @{function.name}({', '.join(parameters)}){results}"
        return head + self.loc(function.loc)

    def block(self, block: Block, depth: int) -> None:
        for op in block:
            self.op(op, depth)

    def op(self, op: Operation, depth: int) -> None:
        results = f"{self.list(op.results)} = " if op.results else ""
        if op.regions:
            custom = {"for": self.for_, "while": self.while_, "if": self.if_}.get(op.name)
            if custom is not None:
                self.custom(op, results, depth, *custom(op))
                return
        operands = list(op.operands)
        while operands and operands[-1] is None:
            operands.pop()
        text = results + op.name
        if operands:
            text += f" {self.list(operands)}"
        text += self.attributes(op) + self.types(op) + self.loc(op.loc)
        if op.regions:
            self.regions(op, text, depth)
        else:
            self.put(depth, text + self.noted(op))

    def regions(self, op: Operation, text: str, depth: int) -> None:
        """Print the regions of an operation without custom syntax after its first line, `text`."""
        note = self.noted(op)
        for name, region in zip(op.defn.regions, op.regions, strict=True):
            args = ", ".join(f"{self.name(value)}: {value.type}" for value in region.args)
            self.put(depth, f"{text} region {name}({args}) {{{note}")
            self.block(region, depth + 1)
            text, note = "}", ""
        self.put(depth, text)

    def noted(self, op: Operation | None) -> str:
        text = "" if self.note is None else self.note(op, self.name)
        return f" // {text}" if text else ""

    def attributes(self, op: Operation) -> str:
        shown = []
        for name, spec in op.defn.attributes.items():
            value = op.attributes[name]
            if name != op.defn.explicit and not (value == spec.default and not spec.required):
                shown.append(f"{name} = {print_value(value)}")
        if op.schedule is not None:
            shown.append(f"{SCHEDULE} = {print_value(op.schedule)}")
        return f" {{{', '.join(shown)}}}" if shown else ""

    def types(self, op: Operation) -> str:
        return f" : {listed(v.type for v in op.results)}" if op.results else ""

    def carried(self, args: Sequence[Value], inits: Sequence[Value | None]) -> str:
        if not args:
            return ""
        pairs = (f"{self.name(a)} = {self.name(i)}" for a, i in zip(args, inits, strict=True))
        return f" iter({', '.join(pairs)})"

    def custom(
        self, op: Operation, results: str, depth: int, head: str, regions: dict[str, Block]
    ) -> None:
        """Print an operation with custom syntax; `regions` by the keyword before their brace."""
        text = f"{results}{head}{self.types(op)} {{{self.noted(op)}"
        for keyword, region in regions.items():
            self.put(depth, f"}} {keyword} {{" if keyword else text)
            self.block(region, depth + 1)
        self.put(depth, "}" + self.attributes(op) + self.loc(op.loc))

    def for_(self, op: Operation) -> tuple[str, dict[str, Block]]:
        (body,) = op.regions
        lower, upper, step, *inits = op.operands
        bounds = f"{self.name(lower)} to {self.name(upper)} step {self.name(step)}"
        head = f"for {self.name(body.args[0])} = {bounds}{self.carried(body.args[1:], inits)}"
        return head, {"": body}

    def while_(self, op: Operation) -> tuple[str, dict[str, Block]]:
        test, body = op.regions
        head = f"while{self.carried(test.args, op.operands)}"
        # Both regions take the carried values; the text names them once for both.
        for outer, inner in zip(test.args, body.args, strict=True):
            self.names[inner] = self.names[outer]
        return head, {"": test, "do": body}

    def if_(self, op: Operation) -> tuple[str, dict[str, Block]]:
        then, orelse = op.regions
        empty = orelse.last is None or (orelse.first is orelse.last and not orelse.last.inputs)
        return f"if {self.list(op.operands)}", {"": then} if empty else {"": then, "else": orelse}
