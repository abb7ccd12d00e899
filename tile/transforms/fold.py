"""Constant folding by the reference semantics of operations, as the interpreter computes them."""

from __future__ import annotations

import math
from typing import Any

from tile.ir import semantics
from tile.ir.builder import Builder
from tile.ir.core import Operation
from tile.ir.effects import constant_of
from tile.ir.module import Module
from tile.ir.op_definition import Trait
from tile.ir.overflow import overflows
from tile.ir.passes import module_pass
from tile.ir.types import Scalar


@module_pass("fold", before=None)
def fold_constants(module: Module) -> None:
    """Replace operations on constants by constants.

        %a = const {value = 3} : i32              %a = const {value = 3} : i32
        %b = splat %a {shape = (8)} : tile<8xi32> %b = const {value = 3} : tile<8xi32>
        %c = add %b, %b : tile<8xi32>             %c = const {value = 6} : tile<8xi32>

    Division of integers by zero, and signed arithmetic of up to 32 bits that wraps, are not folded,
    so that the interpreter's checks report them.
    """
    for function in module:
        for op in function.walk():
            number = fold(op)
            if number is not None:
                value = Builder.before(op).constant(number, op.result.type)
                op.replace_by([value])


def fold(op: Operation) -> bool | int | float | None:
    """Return the number that all elements of the only result have, if the operands are constants.

    None if an operand is not a constant, if elements differ, or if the result is undefined or has
    bits that no constant represents (a NaN with a payload). Signed arithmetic that wraps is not
    folded, so that the overflow check reports it.
    """
    defn = op.defn
    if (
        defn.semantics is None
        or not defn.unit_axes_broadcast
        or len(op.results) != 1
        or op.has_trait(Trait.CONSTANT)
    ):
        return None
    element = op.result.type.element
    if not isinstance(element, Scalar):
        return None
    arrays = []
    for value in op.inputs:
        number = constant_of(value)
        if number is None:
            return None
        arrays.append(_array(number, value.type.element, value.type.rank))
    if op.has_trait(Trait.DIVISION) and element.is_int() and not arrays[1].any():
        return None
    if overflows(op, arrays):
        return None
    with semantics.quiet():
        result = defn.semantics(*arrays, **op.attributes)
    return _number(result, element) if result.size == 1 else None


def _array(number: bool | int | float, element: Any, rank: int) -> Any:
    """Return a constant as an array with a program axis, all axes of extent 1."""
    return semantics.constant(number, element).reshape((1,) * (1 + rank))


def _number(array: Any, element: Scalar) -> bool | int | float | None:
    """Return the only element as a Python number of the same bits, or None."""
    number: bool | int | float = array.item()
    if element.is_floating():
        number = math.nan if number != number else float(number)
    same = semantics.constant(number, element).tobytes() == array.tobytes()
    return number if same else None
