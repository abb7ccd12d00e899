"""Assignments: plain, unpacking, augmented and annotated."""

from __future__ import annotations

import ast

from tile.errors import ArgumentTypeError, CompilationError, stamp
from tile.frontend.python.aggregates import Aggregate, aggregate_replace
from tile.frontend.python.calls import with_tensors
from tile.frontend.python.expressions import operate
from tile.frontend.python.lowering_context import Binding, Lowering
from tile.frontend.python.source import is_constexpr_annotation
from tile.frontend.python.value_trees import (
    compile_time_only,
    describe,
    is_number,
    leaves,
    like,
)
from tile.ir.types import Scalar
from tile.language.base import promotion
from tile.language.base.dtypes import spelled
from tile.language.base.static_args import compile_time_int
from tile.language.base.tensor import Tensor


def assign(low: Lowering, target: ast.expr, value: object, *, weak: bool = False) -> None:
    """Bind a target to a value.

    A Python number becomes a runtime constant of the first type that can represent it. If `weak`,
    it stays a Python number.
    """
    if isinstance(target, ast.Name):
        if is_number(value) and not weak:
            value = promotion.to_tensor(low.build, value)
        low.bind(target.id, value, low.loc(target))
    elif isinstance(target, ast.Tuple | ast.List):
        unpack(low, target, value, weak)
    elif isinstance(target, ast.Subscript):
        assign_item(low, target, value)
    elif isinstance(target, ast.Attribute):
        assign_field(low, target, value)
    else:
        low.fail(target, "cannot assign to this; only names and tuples of names take values")


def assign_item(low: Lowering, target: ast.Subscript, value: object) -> None:
    """Bind the name in `name[index]` to the tuple with another item at a compile-time index."""
    owner = low.expression(target.value)
    if not isinstance(owner, tuple):
        low.fail(
            target,
            "elements cannot be assigned; make a new tile with tl.where, or write to memory with "
            "tl.store",
        )
    with low.errors_at(target):
        index = compile_time_int(low.expression(target.slice), "an index into a tuple")
        if not -len(owner) <= index < len(owner):
            low.fail(target, f"index {index} is out of range: the tuple has {len(owner)} items")
    items = list(owner)
    items[index] = promotion.to_tensor(low.build, value) if is_number(value) else value
    assign(low, target.value, like(owner, items), weak=True)


def assign_field(low: Lowering, target: ast.Attribute, value: object) -> None:
    """Bind the name in `name.field` to the aggregate with another value of the field."""
    owner = low.expression(target.value)
    if not isinstance(owner, Aggregate):
        low.fail(
            target,
            f"cannot assign to this, an attribute of {describe(owner)}; only names, tuples of "
            "names and fields of aggregates take values",
        )
    try:
        changed = aggregate_replace(owner, **{target.attr: value})
    except ArgumentTypeError as error:
        low.fail(target, error.message)
    assign(low, target.value, with_tensors(low, changed), weak=True)


def unpack(low: Lowering, target: ast.Tuple | ast.List, value: object, weak: bool) -> None:
    """Assign the items of a tuple to the same number of targets."""
    if not isinstance(value, tuple):
        low.fail(target, f"only a tuple can be unpacked, not {describe(value)}")
    stars = [index for index, item in enumerate(target.elts) if isinstance(item, ast.Starred)]
    if len(stars) == 1 and len(value) >= len(target.elts) - 1:
        start, end = stars[0], stars[0] + len(value) - len(target.elts) + 1
        value = (*value[:start], tuple(value[start:end]), *value[end:])
    if len(value) != len(target.elts):
        low.fail(target, f"{len(target.elts)} names for {len(value)} values {describe(value)}")
    for item, part in zip(target.elts, value, strict=True):
        assign(low, item.value if isinstance(item, ast.Starred) else item, part, weak=weak)


def augmented(low: Lowering, node: ast.AugAssign) -> None:
    """Compile `x += value`."""
    target = node.target
    if isinstance(target, ast.Name):
        read: ast.expr = ast.Name(target.id, ast.Load())
    elif isinstance(target, ast.Attribute):
        read = ast.Attribute(target.value, target.attr, ast.Load())
    else:
        if not isinstance(low.expression(target.value), tuple):
            assign(low, target, None)  # which is refused
            return
        read = ast.Subscript(target.value, target.slice, ast.Load())
    before = low.expression(ast.copy_location(read, target))
    value = low.expression(node.value)
    assign(low, target, operate(low, node, node.op, before, value))


def annotated(low: Lowering, node: ast.AnnAssign) -> None:
    """Compile an annotated assignment.

    `x: tl.constexpr = 3` keeps the value a compile-time constant. No other annotation changes a
    value.
    """
    if node.value is None:
        return
    value = low.expression(node.value)
    loc = low.at(node.value)
    target = node.target
    constant = names_constexpr(node.annotation)
    may_run = low.function.loose_annotations and leaves(value)
    if not isinstance(target, ast.Name) or (constant and may_run):
        assign(low, target, value)
    elif constant:
        subject = f"`{target.id}` is annotated tl.constexpr, so its value"
        with stamp(loc):
            low.bind(target.id, compile_time_only(value, subject), low.loc(target))
    else:
        assign(low, target, value)
        if not low.function.loose_annotations:
            check_annotation(low, node, target.id)


def names_constexpr(annotation: ast.expr) -> bool:
    """Return True if an annotation is `tl.constexpr`."""
    if isinstance(annotation, ast.Constant):
        return is_constexpr_annotation(annotation.value)
    name = annotation.attr if isinstance(annotation, ast.Attribute) else None
    return (annotation.id if isinstance(annotation, ast.Name) else name) == "constexpr"


def check_annotation(low: Lowering, node: ast.AnnAssign, name: str) -> None:
    """Raise `CompilationError` if an annotation names another dtype than the value has.

    An annotation does not convert the value.
    """
    try:
        dtype = low.expression(node.annotation)
    except CompilationError:  # Python does not evaluate the annotations of local names either
        return
    bound = low.scope[name]
    assert isinstance(bound, Binding)
    if isinstance(dtype, Scalar) and isinstance(bound.value, Tensor) and bound.value.dtype != dtype:
        low.fail(
            node.annotation,
            f"`{name}` is annotated {spelled(dtype)} and its value is {describe(bound.value)}; "
            f"an annotation does not convert, so write tl.cast(..., {spelled(dtype)})",
        )
