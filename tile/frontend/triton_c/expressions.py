"""Translate expressions and types of Triton-C to AST nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lark import Token, Tree

from tile.frontend.triton_c.c_types import CType, scalar_named
from tile.frontend.triton_c.intrinsics import INTRINSICS
from tile.frontend.triton_c.nodes import (
    ALL,
    NEWAXIS,
    Binary,
    Call,
    Cast,
    Conditional,
    Dereference,
    GlobalRange,
    Literal,
    Logical,
    Range,
    Subscript,
    Unary,
    at,
)
from tile.frontend.triton_c.unit import Function, Scopes, as_tree, name_of, trees
from tile.ir.types import F16, F32, F64, I32, I64, U32, U64, Scalar

SUFFIXES: dict[str, Scalar | None] = {
    "": None,
    "l": I64,
    "ll": I64,
    "u": U32,
    "ul": U64,
    "lu": U64,
    "ull": U64,
    "llu": U64,
}
FLOAT_SUFFIXES = {"": F64, "l": F64, "f": F32, "h": F16}
GLOBAL_RANGE = "get_global_range"
ALL_RULE = "all"


class ExpressionTranslator(Scopes):
    """The translation of expressions and types."""

    # -- types

    def type(self, tree: Tree[Token], base: CType | None = None) -> CType:
        """Return the type that a declaration says: qualifiers, words, stars and shape.

        `base` is the type in front of a list of declarators, which have stars and shapes only.
        """
        element = base.element if base is not None else None
        qualifiers = set(base.qualifiers if base is not None else ())
        pointers = 0
        shape: tuple[ast.expr, ...] = ()
        for part in trees(tree):
            if part.data == "qualifier":
                qualifiers.add(str(part.children[0]))
            elif part.data == "type":
                element = self.scalar(part)
            elif part.data == "pointer" and not part.meta.empty:
                pointers = self.text(part).count("*")
                qualifiers.update(str(q.children[0]) for q in trees(part))
            elif part.data == "shape":
                shape = tuple(self.expression(extent) for extent in part.children)
        return CType(element, pointers, shape, frozenset(qualifiers))

    def scalar(self, tree: Tree[Token]) -> Scalar | None:
        words = [str(word) for word in tree.children]
        try:
            return scalar_named(words)
        except KeyError:
            self.fail(tree, f"`{' '.join(words)}` is not a type")

    @contextmanager
    def under(self, predicate: ast.expr) -> Iterator[None]:
        """Make memory accesses and assignments inside conditional."""
        self.predicates.append(predicate)
        yield
        self.predicates.pop()

    # -- expressions

    def expression(self, tree: Any) -> ast.expr:
        """Translate an expression."""
        tree = as_tree(tree)
        method = getattr(self, f"of_{tree.data}", None)
        if method is None:
            self.fail(tree, "an assignment is a statement of its own in Triton-C")
        node: ast.expr = method(tree)
        return self.place(node, tree)

    def of_group(self, tree: Tree[Token]) -> ast.expr:
        return self.expression(tree.children[0])

    def of_name(self, tree: Tree[Token]) -> ast.expr:
        token = tree.children[0]
        assert isinstance(token, Token)
        variable = self.visible(str(token))
        if variable is not None:
            return ast.Name(variable.unique, ast.Load())
        if not self.at_file_scope(str(token)):
            if str(token) in self.unit.functions or str(token) in INTRINSICS:
                self.fail(token, f"`{token}` is a function; call it")
            self.undeclared(token)
        name = ast.Name(str(token), ast.Load())
        declared = self.unit.constants.get(str(token))
        if declared is None or declared.pointers or declared.dtype == I32:
            return name
        return Cast(declared, self.place(name, tree))

    def of_number(self, tree: Tree[Token]) -> ast.expr:
        text = str(tree.children[0])
        digits = text.rstrip("uUlLfFhH") if text[:2].lower() != "0x" else text.rstrip("uUlL")
        suffix = text[len(digits) :].lower()
        is_float = text[:2].lower() != "0x" and (
            any(c in digits for c in ".eE") or suffix in ("f", "h")
        )
        types: dict[str, Any] = FLOAT_SUFFIXES if is_float else SUFFIXES
        if suffix not in types:
            self.fail(tree, f"`{text}` is not a number: no type has the suffix `{suffix}`")
        if is_float:
            return Literal(float(digits), types[suffix])
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        try:
            value = int(digits, 8 if octal else 0)
        except ValueError:
            self.fail(tree, f"`{text}` is not a number: an octal number has the digits 0 to 7")
        if value > U64.max_value:
            self.fail(tree, f"{text} does not fit any type; the widest are 64 bits wide")
        ty = types[suffix]
        if ty is None and value > I32.max_value:
            ty = I64 if value <= I64.max_value else U64
        return Literal(value, ty)

    def of_truth(self, tree: Tree[Token]) -> ast.expr:
        return Literal(str(tree.children[0]) == "true", None)

    def of_string(self, tree: Tree[Token]) -> ast.expr:
        return ast.Constant(ast.literal_eval(str(tree.children[0])))

    def of_binary(self, tree: Tree[Token]) -> ast.expr:
        left, operator, right = tree.children
        return Binary(str(operator), self.expression(left), self.expression(right))

    def of_logical(self, tree: Tree[Token]) -> ast.expr:
        left, operator, right = tree.children
        first, name = self.expression(left), self.hidden()
        predicate: ast.expr = at(ast.Name(name, ast.Load()), first)
        if operator == "||":
            predicate = at(Unary("!", predicate), first)
        with self.under(predicate):
            second = self.expression(right)
        return Logical(str(operator), first, second, name)

    def of_conditional(self, tree: Tree[Token]) -> ast.expr:
        test, then, orelse = tree.children
        condition, name = self.expression(test), self.hidden()
        holds = at(ast.Name(name, ast.Load()), condition)
        with self.under(holds):
            first = self.expression(then)
        with self.under(at(Unary("!", holds), condition)):
            second = self.expression(orelse)
        return Conditional(condition, first, second, name)

    def of_range(self, tree: Tree[Token]) -> ast.expr:
        first, last = tree.children
        return Range(self.expression(first), self.expression(last))

    def of_unary(self, tree: Tree[Token]) -> ast.expr:
        operator, operand = tree.children
        return Unary(str(operator), self.expression(operand))

    def of_dereference(self, tree: Tree[Token]) -> ast.expr:
        return Dereference(self.expression(tree.children[0]), list(self.predicates))

    def of_address(self, tree: Tree[Token]) -> ast.expr:
        self.fail(tree, "variables have no address in Triton-C; only memory of pointers has")

    def of_cast(self, tree: Tree[Token]) -> ast.expr:
        kind, operand = (as_tree(child) for child in tree.children)
        return Cast(self.type(kind), self.expression(operand))

    def of_sizeof(self, tree: Tree[Token]) -> ast.expr:
        ty = self.type(as_tree(tree.children[0]))
        bits = 64 if ty.pointers else getattr(ty.element, "bits", 8)
        size: ast.expr = Literal(max(bits // 8, 1), None)
        for extent in ty.shape:
            size = self.place(Binary("*", self.place(size, tree), extent), tree)
        return size

    def of_subscript(self, tree: Tree[Token]) -> ast.expr:
        owner, *index = (as_tree(child) for child in tree.children)
        items = [self.subscript(item) for item in index]
        return Subscript(self.expression(owner), items, list(self.predicates))

    def subscript(self, tree: Tree[Token]) -> ast.expr:
        if tree.data == ALL_RULE:
            return self.place(ast.Constant(ALL), tree)
        if tree.data == NEWAXIS:
            return self.place(ast.Constant(NEWAXIS), tree)
        return self.expression(tree)

    def of_call(self, tree: Tree[Token]) -> ast.expr:
        callee, *arguments = (as_tree(child) for child in tree.children)
        extent = self.extent
        if callee.data == "subscript":
            callee, *extents = (as_tree(child) for child in callee.children)
            if len(extents) != 1 or name_of(callee) != GLOBAL_RANGE:
                self.fail(tree, f"only {GLOBAL_RANGE}[N](axis) takes a number in brackets")
            extent = self.expression(extents[0])
        name = name_of(callee)
        values = [self.expression(argument) for argument in arguments]
        if name == GLOBAL_RANGE:
            return self.global_range(tree, extent, values)
        if name is None or (name not in self.unit.functions and name not in INTRINSICS):
            if name is None or self.visible(name) is not None or self.at_file_scope(name):
                self.fail(callee, "this is not a function")
            token = callee.children[0]
            assert isinstance(token, Token)
            self.undeclared(token)
        if self.function is not None and name in self.unit.functions:
            self.check_call(tree, self.unit.functions[name], len(values))
        target = self.place(ast.Name(name, ast.Load()), callee)
        return Call(target, values, list(self.predicates))

    def global_range(
        self, tree: Tree[Token], extent: ast.expr | None, axes: list[ast.expr]
    ) -> ast.expr:
        if len(axes) != 1:
            self.fail(tree, f"{GLOBAL_RANGE} takes one argument, the axis of the launch grid")
        if extent is None:
            self.fail(
                tree,
                f"{GLOBAL_RANGE} needs an extent: initialize a tile of one axis with it, as in "
                f"`int r[N] = {GLOBAL_RANGE}(0)`, or write {GLOBAL_RANGE}[N](0)",
            )
        return GlobalRange(extent, axes[0])

    def check_call(self, tree: Tree[Token], function: Function, count: int) -> None:
        """Raise for a wrong number of arguments and for recursion."""
        if count != len(function.parameters):
            self.fail(
                tree,
                f"`{function.name}` takes {len(function.parameters)} arguments, and this gives it "
                f"{count}",
                f"it is defined at {function.loc}",
            )
        reached, chain = {function.name}, [function.name]
        while chain:
            for name in self.unit.functions[chain.pop()].calls - reached:
                reached.add(name)
                chain.append(name)
        if self.function is not None and self.function.name in reached:
            self.fail(
                tree,
                f"`{self.function.name}` calls itself; recursion is not supported, write a loop",
            )
