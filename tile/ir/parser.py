"""Parser of IR text, the inverse of the printer.

A syntax error shows its line with a caret under the token. Attribute values are parsed by the
annotation in the declaration; result types are inferred by the type rule and compared with those in
the text. The parser itself knows only the three operations with custom syntax.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tile.errors import TypeRuleError
from tile.ir import predication
from tile.ir.builder import Builder, create
from tile.ir.compilation_context import nesting_error
from tile.ir.core import SCHEDULE, Block, Function, Operation, Value
from tile.ir.declare import OPS
from tile.ir.module import Module
from tile.ir.op_definition import OpDef
from tile.ir.ops import control
from tile.ir.parameters import Argument
from tile.ir.types import (
    SCALARS,
    Type,
    listed,
    without_layout,
)
from tile.ir.value_parser import Token, ValueParser
from tile.location import Loc


def parse_module(text: str, file: str = "<tile>") -> Module:
    """Parse a module. An operation without `loc` gets its position in the text.

    Raises `ParseError`.
    """
    parser = _Parser(text, file)
    try:
        return parser.module()
    except RecursionError as error:
        raise nesting_error(parser.loc()) from error


class _Parser(ValueParser):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self.values: dict[str, Value] = {}
        self.build = Builder(Block())  # at the end of the block that is being parsed

    # -- attributes

    def attributes(self, defn: OpDef) -> dict[str, Any]:
        """Parse `{name = value, ...}`, or nothing."""
        attributes: dict[str, Any] = {}
        if not self.accept("{"):
            return attributes
        for _ in self.until("}"):
            token = self.expect_kind("word", "an attribute's name")
            spec = defn.attributes.get(token.text)
            if spec is None and token.text != SCHEDULE:
                self.fail(f"{defn.name} has no attribute `{token.text}`", token)
            self.expect("=")
            attributes[token.text] = (
                self.schedule() if spec is None else self.attribute(spec.annotation)
            )
        return attributes

    def schedule(self) -> tuple[int, int]:
        """Parse the stage and order of an operation, as in `(-2, 0)`."""
        start = self.token
        numbers = self.attribute(tuple[int, ...])
        if len(numbers) != 2:
            self.fail(f"a schedule is (stage, order), not {numbers}", start)
        return numbers[0], numbers[1]

    @staticmethod
    def create(
        defn: OpDef,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        regions: Sequence[Block],
        loc: Loc | None,
    ) -> Operation:
        """Create an operation from attributes of its text, which may include a schedule."""
        schedule = attributes.pop(SCHEDULE, None)
        op = create(defn, operands, attributes, regions, loc)
        op.schedule = schedule
        return op

    # -- values

    def use(self) -> Value | None:
        token = self.token
        if self.accept("_"):
            return None
        self.expect_kind("value", "a value, such as %x")
        if token.text not in self.values:
            self.fail(f"{token.text} is not defined here", token)
        return self.values[token.text]

    def uses(self, name: Token) -> list[Value | None]:
        """Parse the operands after an operation's name.

        A value on a later line is the result of the next operation.
        """
        operands: list[Value | Token | None] = []
        kinds = ("value", "number")
        if self.token.line == name.line and (self.token.kind in kinds or self.at("_")):
            operands.append(self.operand())
            while self.accept(","):
                operands.append(self.operand())
        like = next((operand for operand in operands if isinstance(operand, Value)), None)
        return [self.constant(x, like) if isinstance(x, Token) else x for x in operands]

    def operand(self) -> Value | Token | None:
        return self.take() if self.token.kind == "number" else self.use()

    def constant(self, number: Token, like: Value | None) -> Value:
        """Emit a number among the operands as a constant of the type of the others."""
        if like is None:
            self.fail("a number takes the type of another operand, and there is none", number)
        text = number.text
        value = int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        return predication.immediate(self.build, value, like)

    # -- predicated SSA

    def predicate(self) -> Value | None:
        """Parse `@%p` in front of an operation."""
        if self.token.kind != "predicate":
            return None
        token = self.take()
        name = token.text[1:]
        if name not in self.values:
            self.fail(f"{name} is not defined here", token)
        return self.values[name]

    def vector_type(self, name: Token) -> list[Type]:
        """Parse a type in front of the operands, as in `mul i32<8, 8> %x, 2`; [] without one."""
        is_type = self.token.kind == "word" and self.token.text in SCALARS
        if not is_type or self.token.line != name.line:
            return []
        element = SCALARS[self.take().text]
        extents = []
        if self.accept("<"):
            for _ in self.until(">"):
                extents.append(self.integer())
        return [predication.vector_type(element, extents)]

    def predicated_ssa(self, name: Token, results: Sequence[Token]) -> None:
        """Parse the rest of `icmpp`, `fcmpp` or `psi`."""
        try:
            if name.text == predication.PSI:
                stated = self.vector_type(name)
                values: tuple[Value, ...] = (predication.psi(self.build, self.pairs()),)
                if stated and stated[0] != values[0].type:
                    self.fail(f"psi merges values of {values[0].type}, not {stated[0]}", name)
            else:
                predicate = self.expect_kind("word", "a predicate, such as slt").text
                a, b, *more = self.uses(name)
                if a is None or b is None or more:
                    self.fail(f"{name.text} takes two operands", name)
                values = predication.compare(self.build, name.text, predicate, a, b)
        except TypeRuleError as error:
            self.fail(error.message, name)
        if len(results) != len(values):
            self.fail(f"{name.text} has {len(values)} results, not {len(results)}", name)
        for token, value in zip(results, values, strict=True):
            self.define(token, value)

    def pairs(self) -> list[tuple[Value, Value]]:
        """Parse `[%p, %x], [%q, %y], ...`."""
        pairs = []
        while True:
            self.expect("[")
            predicate = self.required()
            self.expect(",")
            pairs.append((predicate, self.required()))
            self.expect("]")
            if not self.accept(","):
                return pairs

    def required(self) -> Value:
        token = self.token
        value = self.use()
        if value is None:
            self.fail("a value is needed here", token)
        return value

    def define(self, token: Token, value: Value) -> None:
        if token.text in self.values:
            self.fail(f"{token.text} is defined twice", token)
        self.values[token.text] = value
        value.name = token.text[1:]

    # -- structure

    def module(self) -> Module:
        module = Module()
        self.layout_names()
        while self.token.kind != "end":
            token = self.token
            function = self.head()
            tables = {"defined": module.functions, "declared": module.declarations}
            present = "defined" if self.at("{") else "declared"
            for verb, table in tables.items():
                if function.name in table:
                    twice = f"{verb} twice" if verb == present else "declared and defined here"
                    self.fail(f"{function} is {twice}", token)
            tables[present][function.name] = function
            if present == "defined":
                self.body(function.body)
            else:
                self.declaration(function, token)
        return module

    def declaration(self, function: Function, start: Token) -> None:
        """Check that a function without a body can be declared."""
        if self.token.kind != "end" and self.token.text not in ("func", "kernel"):
            self.fail(f"expected the body of {function} in braces, found `{self.token.text}`")
        if function.kernel:
            self.fail(f"kernel {function} has no body; only a `func` can be declared", start)
        if function.noinline:
            self.fail(f"`noinline` belongs to the definition of {function}", start)

    def head(self) -> Function:
        """Parse a function up to its body."""
        start = self.token
        kernel = self.accept("kernel")
        if not kernel:
            self.expect("func")
        noinline = self.accept("noinline")
        name = self.expect_kind("symbol", "a function's name, such as @f").text[1:]
        self.values = {}
        self.expect("(")
        names: list[Token] = []
        arg_types: list[Type] = []
        arguments: list[Argument] = []
        for _ in self.until(")"):
            names.append(self.expect_kind("value", "a parameter, such as %x"))
            self.expect(":")
            arg_types.append(self.type_())
            arguments.append(self.argument())
        results: list[Type] = []
        if self.accept("->"):
            self.expect("(")
            results = self.types()
            self.expect(")")
        loc = self.location(start)
        function = Function(
            name, arg_types, [""] * len(names), results, kernel=kernel, noinline=noinline, loc=loc
        )
        function.arguments = arguments
        for token, value in zip(names, function.args, strict=True):
            self.define(token, value)
        return function

    def argument(self) -> Argument:
        """Parse the attributes of a parameter, as in `{divisible = 16, readonly}`."""
        argument, seen = Argument(), set[str]()
        for _ in self.until("}") if self.accept("{") else ():
            token = self.expect_kind("word", "an attribute of a parameter")
            if token.text in seen:
                self.fail(f"`{token.text}` is stated twice", token)
            seen.add(token.text)
            if token.text in Argument.FLAGS:
                setattr(argument, token.text, True)
            elif token.text == "divisible":
                self.expect("=")
                argument.divisible = self.divisor()
            elif token.text == "disjoint":
                self.expect("=")
                self.expect("(")
                argument.disjoint = tuple(self.integer() for _ in self.until(")"))
            else:
                names = ", ".join(["divisible", *Argument.FLAGS, "disjoint"])
                self.fail(f"a parameter has no attribute `{token.text}`; it has {names}", token)
        return argument

    def divisor(self) -> int:
        token = self.token
        divisible = self.integer()
        if divisible < 1:
            self.fail(f"`divisible` is positive, not {divisible}", token)
        return divisible

    def body(self, block: Block) -> None:
        """Parse `{ operations }`; names defined inside are not visible after it."""
        outer = dict(self.values)
        self.expect("{")
        around, self.build = self.build, Builder(block)
        while not self.accept("}"):
            operation = self.operation()
            if operation is not None:
                block.append(operation)
        self.build = around
        self.values = outer

    def operation(self) -> Operation | None:
        """Parse an operation; None if it was predicated SSA, which is in the block already."""
        predicate = self.predicate()
        results: list[Token] = []
        if self.token.kind == "value":
            results.append(self.take())
            while self.accept(","):
                results.append(self.expect_kind("value", "a result, such as %r"))
            self.expect("=")
        name = self.expect_kind("word", "an operation")
        self.build.loc = self.loc(name)
        if name.text in (*predication.COMPARISONS, predication.PSI):
            self.predicated_ssa(name, results)
            return None
        defn = OPS.get(name.text)
        if defn is None:
            self.fail(f"unknown operation `{name.text}`", name)
        sugar = {"for": self.for_, "while": self.while_, "if": self.if_}.get(defn.name)
        try:
            if sugar is not None and predicate is not None:
                self.fail(f"`{defn.name}` cannot be predicated; its condition can be", name)
            op, stated = sugar(name) if sugar is not None else self.plain(defn, name, predicate)
        except TypeRuleError as error:
            self.fail(error.message, name)
        inferred = [value.type for value in op.results]
        if [without_layout(ty) for ty in stated] != [without_layout(ty) for ty in inferred]:
            self.fail(
                f"{defn.name} has results ({listed(inferred)}), but the text says "
                f"({listed(stated)})",
                name,
            )
        for value, ty in zip(op.results, stated, strict=True):
            value.type = ty  # the text has the layout, which type rules do not see
        if len(results) != len(inferred):
            self.fail(f"{defn.name} has {len(inferred)} results, not {len(results)}", name)
        for token, value in zip(results, op.results, strict=True):
            self.define(token, value)
        return op

    def stated(self) -> list[Type]:
        return self.types() if self.accept(":") else []

    def plain(
        self, defn: OpDef, name: Token, predicate: Value | None
    ) -> tuple[Operation, list[Type]]:
        in_front = self.vector_type(name)
        operands = self.uses(name)
        if predicate is not None:
            operands = predication.masked(self.build, defn, operands, predicate)
        attributes = self.attributes(defn)
        stated = in_front or self.stated()
        if defn.explicit == "result":
            if len(stated) != 1:
                self.fail(f"{defn.name} states one result type after a colon", name)
            attributes["result"] = stated[0]
        elif defn.explicit == "results":
            attributes["results"] = tuple(stated)
        loc = self.location(name)
        regions = [self.named_region(region_name) for region_name in defn.regions]
        op = self.create(defn, operands, attributes, regions, loc)
        if predicate is not None and not stated:  # the paper's text leaves types out
            stated = [value.type for value in op.results]
        return op, stated

    def named_region(self, name: str) -> Block:
        """Parse `region name(%argument: type, ...) { operations }`."""
        self.expect("region")
        token = self.expect_kind("word", "a region's name")
        if token.text != name:
            self.fail(f"expected region `{name}`, found `{token.text}`", token)
        names, arg_types = self.region_arguments()
        return self.region(names, arg_types)

    def region_arguments(self) -> tuple[list[Token], list[Type]]:
        """Parse `(%argument: type, ...)` of a region."""
        names: list[Token] = []
        arg_types: list[Type] = []
        self.expect("(")
        for _ in self.until(")"):
            names.append(self.expect_kind("value", "an argument, such as %a"))
            self.expect(":")
            arg_types.append(self.type_())
        return names, arg_types

    def carried(self) -> tuple[list[Token], list[Value]]:
        names: list[Token] = []
        inits: list[Value] = []
        if self.accept("iter"):
            self.expect("(")
            for _ in self.until(")"):
                names.append(self.expect_kind("value", "a carried value, such as %a"))
                self.expect("=")
                inits.append(self.required())
        return names, inits

    def region(self, names: Sequence[Token], arg_types: Sequence[Type]) -> Block:
        block = Block(arg_types)
        outer = dict(self.values)
        for token, value in zip(names, block.args, strict=True):
            self.define(token, value)
        self.body(block)
        self.values = outer
        return block

    def for_(self, name: Token) -> tuple[Operation, list[Type]]:
        index = self.expect_kind("value", "the count, such as %i")
        self.expect("=")
        lower = self.required()
        self.expect("to")
        upper = self.required()
        self.expect("step")
        step = self.required()
        names, inits = self.carried()
        stated = self.stated()
        body = self.region([index, *names], [lower.type, *(v.type for v in inits)])
        attributes = self.attributes(control.for_)
        loc = self.location(name)
        op = self.create(control.for_, [lower, upper, step, *inits], attributes, [body], loc)
        return op, stated

    def while_(self, name: Token) -> tuple[Operation, list[Type]]:
        names, inits = self.carried()
        stated = self.stated()
        arg_types = [v.type for v in inits]
        test = self.region(names, arg_types)
        self.expect("do")
        body = self.region(names, arg_types)
        attributes = self.attributes(control.while_)
        loc = self.location(name)
        return self.create(control.while_, inits, attributes, [test, body], loc), stated

    def if_(self, name: Token) -> tuple[Operation, list[Type]]:
        condition = self.required()
        stated = self.stated()
        then = self.region((), ())
        if self.accept("else"):
            orelse = self.region((), ())
        else:
            orelse = Block()
            orelse.append(create(control.yield_, loc=self.loc(name)))
        attributes = self.attributes(control.if_)
        loc = self.location(name)
        return self.create(control.if_, [condition], attributes, [then, orelse], loc), stated
