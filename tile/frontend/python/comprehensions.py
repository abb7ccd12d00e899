"""Compile list comprehensions and generator expressions, to tuples."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from tile.errors import CompilationError
from tile.frontend.python.assignment import assign
from tile.frontend.python.lowering_context import Expression, Lowering
from tile.frontend.python.value_trees import describe
from tile.language import python_builtins
from tile.language.base.static_args import (
    MOST_ITEMS,
    compile_time_int,
    constant_value,
    static_truth,
    too_large,
)
from tile.language.base.tensor import Tensor


def comprehension(low: Lowering, node: ast.ListComp | ast.GeneratorExp) -> tuple[object, ...]:
    """Return the tuple of a comprehension, whose element is compiled once for each item.

    Its names are bound only inside, as in Python.
    """
    targets = {
        name.id
        for generator in node.generators
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name)
    }
    outer = {name: low.scope[name] for name in targets if name in low.scope}
    results: list[object] = []
    for _ in _combinations(low, node.generators):
        if len(results) == MOST_ITEMS:
            raise too_large("the tuple of this comprehension", "items")
        results.append(low.expression(node.elt))
    for name in targets:
        low.scope.pop(name, None)
    low.scope.update(outer)
    return tuple(results)


def _combinations(low: Lowering, generators: Sequence[ast.comprehension]) -> Iterator[None]:
    """Bind the names of the generators to each combination of items that the conditions admit."""
    if not generators:
        yield
        return
    first, *others = generators
    for value in _items(low, first.iter):
        assign(low, first.target, value, weak=True)
        if all(_admits(low, condition) for condition in first.ifs):
            yield from _combinations(low, others)


def _items(low: Lowering, node: ast.expr) -> Sequence[object]:
    """Return the items over which a generator iterates, all known when the kernel is compiled."""
    iterable = low.expression(node)
    if isinstance(iterable, tuple):
        return iterable
    if isinstance(iterable, python_builtins.static_range):
        return iterable.values
    if isinstance(iterable, python_builtins.range):
        with low.errors_at(node):
            subject = "a bound of the range of a comprehension"
            bounds = (iterable.start, iterable.stop, iterable.step)
            start, stop, step = (compile_time_int(bound, subject) for bound in bounds)
            return range(start, stop, step)
    low.fail(
        node, f"a comprehension iterates over a tuple or a range, not over {describe(iterable)}"
    )


def _admits(low: Lowering, node: ast.expr) -> bool:
    condition = low.expression(node)
    with low.errors_at(node):
        value = constant_value(condition)
        if value is None and isinstance(condition, Tensor):
            raise CompilationError(
                "the condition of a comprehension must be known when the kernel is compiled, and "
                f"this is {describe(condition)}"
            )
        return static_truth(value, "the condition of a comprehension")


COMPREHENSIONS: Mapping[type[ast.expr], Expression] = {
    ast.GeneratorExp: comprehension,
    ast.ListComp: comprehension,
}
