"""Translate a Triton-C file: functions and statements to AST nodes, with predicates and loops.

A `for` loop of C that counts becomes one as the IR has it.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Container, Sequence

from lark import Token, Tree

from tile.frontend.triton_c.c_types import CType
from tile.frontend.triton_c.expressions import ALL_RULE, ExpressionTranslator
from tile.frontend.triton_c.nodes import (
    NEWAXIS,
    SLICED,
    Assign,
    Binary,
    Call,
    Cast,
    CountedLoop,
    For,
    Literal,
    Store,
    Test,
    Unary,
    at,
)
from tile.frontend.triton_c.parser import Text, parse
from tile.frontend.triton_c.unit import Function, Parameter, Unit, Variable, as_tree, trees

TYPE_PARTS = ("qualifier", "type", "pointer", "shape")


class _AnyName(Container[str]):
    """Every name, for a file whose host values are not known."""

    def __contains__(self, name: object) -> bool:
        return True


def functions(file: str, text: str) -> list[ast.FunctionDef]:
    """Return the functions of a file, whatever values the host gives to it.

    Raises `CompilationError` as `translate` does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unit = translate(Text(file, text), _AnyName())
    return [function.node for function in unit.functions.values() if function.node is not None]


def translate(source: Text, host_names: Container[str]) -> Unit:
    """Parse and translate a file; `host_names` are the values that the host gives to it.

    Raises `CompilationError` for a syntax error, an undeclared name and a wrong declaration.
    """
    unit = Unit(source)
    host = Translator(unit, host_names, None)
    for tree in parse(source).children:
        assert isinstance(tree, Tree)
        if tree.data == "tunable":
            host.tunable(tree)
        elif tree.data == "function":
            host.signature(tree)
        else:
            unit.statements += host.statement(tree)
    _find_kernels(unit)
    for function in unit.functions.values():
        Translator(unit, host_names, function).body()
    return unit


def _find_kernels(unit: Unit) -> None:
    """Find what each function calls and needs; without `kernel`, void functions are kernels.

    Listing 8 of the paper has no `kernel`. A function that another one calls is none.
    """
    shared = [*unit.arrays, *unit.tunables]
    tokens: dict[str, set[str]] = {}
    for name, function in unit.functions.items():
        tokens[name] = set(map(str, function.tree.scan_values(_is_name_token)))
        function.calls = frozenset((tokens[name] & unit.functions.keys()) - {name})
    called = frozenset().union(*(function.calls for function in unit.functions.values()))
    if not any(function.is_kernel for function in unit.functions.values()):
        for name, function in unit.functions.items():
            function.is_kernel = function.result.is_void and name not in called
    for name, function in unit.functions.items():
        reached = {name}
        while more := set().union(*(unit.functions[f].calls for f in reached)) - reached:
            reached |= more
        needed = set().union(*(tokens[f] for f in reached))
        function.uses = tuple(n for n in shared if n in needed)


class Translator(ExpressionTranslator):
    """The translation of one function, or, if `function` is None, of what the host runs."""

    # -- the file

    def tunable(self, tree: Tree[Token]) -> None:
        """Record a parameter for the autotuner and its values."""
        name = next(c for c in tree.children if isinstance(c, Token) and c.type == "NAME")
        if str(name) in self.unit.tunables or str(name) in self.unit.constants:
            self.fail(name, f"`{name}` is declared twice")
        values = [c for c in tree.children if isinstance(c, Tree) and c.data not in TYPE_PARTS]
        self.unit.tunables[str(name)] = [self.expression(value) for value in values]

    def signature(self, tree: Tree[Token]) -> None:
        """Record a function, before its body is translated."""
        name = next(c for c in tree.children if isinstance(c, Token) and c.type == "NAME")
        if str(name) in self.unit.functions:
            self.fail(name, f"`{name}` is defined twice", f"see {self.unit.functions[name].loc}")
        result = self.type(tree)
        lists = [c for c in trees(tree) if c.data == "parameters"]
        parameters = [self.parameter(p) for part in lists for p in trees(part)]
        loc = self.loc(name)
        self.unit.functions[str(name)] = Function(
            str(name), result, "kernel" in result.qualifiers, parameters, tree, loc
        )

    def parameter(self, tree: Tree[Token]) -> Parameter:
        ty = self.type(tree)
        name = next(c for c in tree.children if isinstance(c, Token))
        if ty.is_void:
            self.fail(tree, f"`{name}` is of type void, which has no values")
        return Parameter(str(name), ty)

    def body(self) -> None:
        """Translate the function's body."""
        function = self.function
        assert function is not None
        arguments = []
        for declared, token in zip(function.parameters, _parameter_names(function), strict=True):
            if declared.name in self.scopes[0]:
                self.fail(token, f"two parameters are called `{token}`")
            variable = Variable(declared.name, declared.type, self.loc(token))
            self.scopes[0][declared.name] = variable
            arguments.append(self.place(ast.arg(declared.name), token))
        compound = next(c for c in trees(function.tree) if c.data == "compound")
        name_token = next(c for c in function.tree.children if isinstance(c, Token))
        arguments += [self.place(ast.arg(name), name_token) for name in function.uses]
        with self.scope():
            statements = [s for child in compound.children for s in self.statement(as_tree(child))]
        node = ast.FunctionDef(
            name=function.name,
            args=ast.arguments([], arguments, None, [], [], None, []),
            body=statements,
            decorator_list=[],
            returns=None,
            type_comment=None,
        )
        function.node = self.place(node, name_token)

    # -- statements

    def statement(self, tree: Tree[Token]) -> list[ast.stmt]:
        """Translate a statement to statements."""
        method = getattr(self, f"on_{tree.data}")
        statements: list[ast.stmt] = method(tree)
        return statements

    def block(self, tree: Tree[Token]) -> list[ast.stmt]:
        """Translate a statement that has a scope of its own; `pass` if it is empty."""
        with self.scope():
            return self.statement(tree) or [self.place(ast.Pass(), tree)]

    def on_compound(self, tree: Tree[Token]) -> list[ast.stmt]:
        with self.scope():
            return [s for child in tree.children for s in self.statement(as_tree(child))]

    def on_empty(self, tree: Tree[Token]) -> list[ast.stmt]:
        return []

    def on_declaration(self, tree: Tree[Token]) -> list[ast.stmt]:
        base = self.type(tree)
        return [self.declarator(base, part) for part in trees(tree) if part.data == "declarator"]

    def declarator(self, base: CType, tree: Tree[Token]) -> ast.stmt:
        """Translate one declared name with its initializer."""
        name = next(c for c in tree.children if isinstance(c, Token))
        own = self.type(tree, base)
        if own.is_void:
            self.fail(tree, f"`{name}` is of type void, which has no values")
        initializers = [c for c in trees(tree) if c.data not in TYPE_PARTS]
        value: ast.expr | None = None
        if initializers:
            outer, self.extent = self.extent, own.shape[0] if len(own.shape) == 1 else None
            value = self.initializer(initializers[0], own)
            self.extent = outer
        if self.function is None and len(self.scopes) == 1:
            if str(name) in self.unit.constants or str(name) in self.unit.tunables:
                self.fail(name, f"`{name}` is declared twice")
            self.unit.constants[str(name)] = own
        unique = self.declare(name, own).unique
        target = self.place(ast.Name(unique, ast.Store()), name)
        return self.place(Assign(target, own, value, list(self.predicates)), tree)

    def initializer(self, tree: Tree[Token], declared: CType) -> ast.expr:
        if tree.data != "allocation":
            return self.expression(tree)
        if self.function is not None:
            self.fail(tree, "`alloc_const` allocates outside functions only")
        extent = next(c for c in trees(tree) if c.data != "type")
        name = self.place(ast.Name("alloc_const", ast.Load()), tree)
        return self.place(Call(name, [self.expression(extent)], []), tree)

    def on_expression_statement(self, tree: Tree[Token]) -> list[ast.stmt]:
        return [s for child in tree.children for s in self.effect(as_tree(child))]

    def effect(self, tree: Tree[Token]) -> list[ast.stmt]:
        """Translate an expression that is a statement: an assignment, a step or a call."""
        if tree.data == "assign":
            target, operator, value = tree.children
            return self.assignment(tree, as_tree(target), str(operator)[:-1], as_tree(value))
        if tree.data in ("step_before", "step_after"):
            operand = next(trees(tree))
            step = next(str(c) for c in tree.children if isinstance(c, Token))
            one: Tree[Token] = Tree("number", [Token("NUMBER", "1")], tree.meta)
            return self.assignment(tree, operand, step[0], one)
        if tree.data == "group":
            return self.effect(as_tree(tree.children[0]))
        if tree.data == "call":
            return [self.place(ast.Expr(self.expression(tree)), tree)]
        self.fail(tree, "this statement has no effect; assign its value, or leave it out")

    def assignment(
        self, tree: Tree[Token], target: Tree[Token], operator: str, value: Tree[Token]
    ) -> list[ast.stmt]:
        """Translate `target operator= value`; `a = b = c` assigns from the right to the left."""
        if value.data == "assign" and not operator:
            first = self.effect(value)
            return [*first, *self.assignment(tree, target, "", as_tree(value.children[0]))]
        while target.data == "group":
            target = as_tree(target.children[0])
        if target.data == "name":
            token = target.children[0]
            assert isinstance(token, Token)
            variable = self.variable(token)
            new = self.combined(tree, target, operator, value)
            store = self.place(ast.Name(variable.unique, ast.Store()), target)
            return [self.place(Assign(store, variable.type, new, list(self.predicates)), tree)]
        if target.data == "dereference":
            pointer = self.expression(as_tree(target.children[0]))
        elif target.data == "subscript":
            pointer = self.element_pointer(target)
        else:
            self.fail(target, "only a variable, `*pointer` and `pointer[index]` can be assigned")
        new = self.combined(tree, target, operator, value)
        return [self.place(Store(pointer, new, list(self.predicates)), tree)]

    def combined(
        self, tree: Tree[Token], target: Tree[Token], operator: str, value: Tree[Token]
    ) -> ast.expr:
        """Return the value of `target operator= value`."""
        right = self.expression(value)
        if not operator:
            return right
        return self.place(Binary(operator, self.expression(target), right), tree)

    def element_pointer(self, tree: Tree[Token]) -> ast.expr:
        """Return the pointer `p + i` of `p[i]`."""
        owner, *index = (as_tree(child) for child in tree.children)
        if len(index) != 1 or index[0].data in (ALL_RULE, NEWAXIS):
            self.fail(tree, SLICED)
        return self.place(Binary("+", self.expression(owner), self.expression(index[0])), tree)

    def on_predicated(self, tree: Tree[Token]) -> list[ast.stmt]:
        """Translate `@predicate statement`: the predicate is computed once, before."""
        predicate, statement = (as_tree(child) for child in tree.children)
        name = self.hidden()
        value = self.expression(predicate)
        target = self.place(ast.Name(name, ast.Store()), predicate)
        first = self.place(ast.Assign([target], value, None), predicate)
        with self.under(at(ast.Name(name, ast.Load()), target)):
            return [first, *self.block(statement)]

    def on_if_statement(self, tree: Tree[Token]) -> list[ast.stmt]:
        test, then, *orelse = (as_tree(child) for child in tree.children)
        other = self.block(orelse[0]) if orelse else []
        return [self.place(ast.If(self.test(test, "if"), self.block(then), other), tree)]

    def test(self, tree: Tree[Token], statement: str) -> ast.expr:
        return self.place(Test(self.expression(tree), statement), tree)

    def on_while_statement(self, tree: Tree[Token]) -> list[ast.stmt]:
        test, body = (as_tree(child) for child in tree.children)
        return [self.place(ast.While(self.test(test, "while"), self.block(body), []), tree)]

    def on_do_statement(self, tree: Tree[Token]) -> list[ast.stmt]:
        body, test = (as_tree(child) for child in tree.children)
        always = self.place(ast.Constant(True), tree)
        ends = self.place(Unary("!", self.test(test, "while")), test)
        leave = self.place(ast.If(ends, [self.place(ast.Break(), test)], []), test)
        return [self.place(For(always, self.block(body), [], [leave]), tree)]

    def on_for_statement(self, tree: Tree[Token]) -> list[ast.stmt]:
        init, test, step, body = (as_tree(child) for child in tree.children)
        with self.scope():
            first = self.statement(init)
            condition = (
                self.expression(as_tree(test.children[0]))
                if test.children
                else self.place(ast.Constant(True), tree)
            )
            steps = [s for child in step.children for s in self.effect(as_tree(child))]
            inner = self.block(body)
        loop = (
            counted(first, condition, steps, inner, self.is_constant)
            if self.function is not None and init.data == "declaration"
            else None
        )
        if loop is not None:
            return [self.place(loop, tree)]
        if test.children:
            condition = self.place(Test(condition, "for"), as_tree(test.children[0]))
        return [*first, self.place(For(condition, inner, [], steps), tree)]

    def leaving(self, tree: Tree[Token], node: ast.stmt) -> list[ast.stmt]:
        if self.predicates:
            self.fail(
                tree,
                f"`{self.text(tree).rstrip(';')}` under a predicate: a predicate selects elements, "
                "and this leaves for the whole program",
                "write `if (condition)` with a scalar condition",
            )
        return [self.place(node, tree)]

    def on_break_statement(self, tree: Tree[Token]) -> list[ast.stmt]:
        return self.leaving(tree, ast.Break())

    def on_continue_statement(self, tree: Tree[Token]) -> list[ast.stmt]:
        return self.leaving(tree, ast.Continue())

    def on_return_statement(self, tree: Tree[Token]) -> list[ast.stmt]:
        if self.function is None:
            self.fail(tree, "`return` outside a function")
        result = self.function.result
        if not tree.children:
            if not result.is_void:
                self.fail(
                    tree, f"`{self.function.name}` returns {result}, and this returns nothing"
                )
            return self.leaving(tree, ast.Return(None))
        value = as_tree(tree.children[0])
        if result.is_void:
            self.fail(value, f"`{self.function.name}` is void and returns no value")
        cast = self.place(Cast(result, self.expression(value)), value)
        return self.leaving(tree, ast.Return(cast))


def _parameter_names(function: Function) -> list[Token]:
    parts = function.tree.find_data("parameter")
    return [next(c for c in part.children if isinstance(c, Token)) for part in parts]


def _is_name_token(part: object) -> bool:
    return isinstance(part, Token) and part.type == "NAME"


MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def counted(
    init: Sequence[ast.stmt],
    test: ast.expr,
    steps: Sequence[ast.stmt],
    body: list[ast.stmt],
    is_constant: Callable[[ast.expr], bool],
) -> CountedLoop | None:
    """Return a C `for` as a counted loop, or None if it is not known to be one.

    It declares a signed integer, compares it with a bound that the body does not change, and moves
    it towards the bound by constants and tunables, which are positive.
    """
    if len(init) != 1 or len(steps) != 1 or not isinstance(test, Binary):
        return None
    first, step = init[0], steps[0]
    if not isinstance(first, Assign) or not isinstance(step, Assign) or first.value is None:
        return None
    name, ty = first.target.id, first.type
    if (
        ty.pointers
        or ty.shape
        or ty.element is None
        or ty.element.is_floating()
        or not ty.element.signed
    ):
        return None
    op, bound = test.op, test.right
    if not _is_name(test.left, name):
        if not _is_name(test.right, name) or op not in MIRRORED:
            return None
        op, bound = MIRRORED[op], test.left
    stride, upwards = _stride(step, name, is_constant)
    if op not in ("<", "<=", ">", ">=") or stride is None or upwards != (op[0] == "<"):
        return None
    assigned = {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    read = {node.id for node in ast.walk(bound) if isinstance(node, ast.Name)}
    if name in assigned or assigned & read or name in read or not _is_plain(bound):
        return None
    offset = 0 if len(op) == 1 else (1 if upwards else -1)
    if not upwards:
        stride = at(Unary("-", stride), stride)
    return CountedLoop(first.target, bound, first.value, offset, stride, ty, body, [])


def _stride(
    step: Assign, name: str, is_constant: Callable[[ast.expr], bool]
) -> tuple[ast.expr | None, bool]:
    """Return the stride of `k = k + stride` or `k = k - stride`, and whether it is added."""
    value = step.value
    if step.target.id != name or not isinstance(value, Binary) or value.op not in ("+", "-"):
        return None, False
    if not _is_name(value.left, name) or not is_constant(value.right):
        return None, False
    return value.right, value.op == "+"


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_plain(node: ast.expr) -> bool:
    """Return True for integer arithmetic on names and literals, without memory accesses."""
    return all(
        isinstance(n, Literal | ast.Name | Unary | Binary | ast.expr_context)
        for n in ast.walk(node)
    ) and not any(isinstance(n, Literal) and isinstance(n.value, float) for n in ast.walk(node))
