"""Run a straight-line function of pure operations in NumPy, by their declared meanings.

A region of a combining operation may hold an `if`, which is run here as a selection.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tile.ir import semantics
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.ops import control

Array = npt.NDArray[np.generic]


def evaluate(function: Function, *arguments: npt.ArrayLike) -> list[Array]:
    """Evaluate `function` on arguments: arrays of its parameters' shapes and dtypes.

    Raises `AssertionError` if the function holds an operation with an effect or with regions.
    """
    values: dict[Value, Array] = {}
    for value, argument in zip(function.args, arguments, strict=True):
        _keep(values, value, np.asarray(argument)[None])
    with semantics.quiet():
        for op in function.body:
            if op.defn is control.return_:
                return [values[value][0] for value in op.inputs]
            for value, result in zip(op.results, _results(op, values), strict=True):
                _keep(values, value, result)
    raise AssertionError(f"{function} does not return")


def _results(op: Operation, values: dict[Value, Array]) -> tuple[Array, ...]:
    semantics = op.defn.semantics
    assert semantics is not None, f"{op.name} has no meaning without memory or control flow"
    pairs = zip(op.defn.regions, op.regions, strict=True)
    regions = {name: partial(region, block) for name, block in pairs}
    computed = semantics(*(values[value] for value in op.inputs), **op.attributes, **regions)
    return computed if isinstance(computed, tuple) else (computed,)


def region(block: Block, *arguments: Array) -> list[Array]:
    """Evaluate a region on arrays of any shape in place of its scalars."""
    return _scalars(block, dict(zip(block.args, arguments, strict=True)))


def _scalars(block: Block, values: dict[Value, Array]) -> list[Array]:
    for op in block:
        operands = [values[value] for value in op.inputs]
        if op.defn.terminator:
            return operands
        results: Any
        if op.defn is control.if_:
            then, orelse = (_scalars(region, dict(values)) for region in op.regions)
            results = [np.where(operands[0], x, y) for x, y in zip(then, orelse, strict=True)]
        else:
            results = _results(op, values)
        values.update(zip(op.results, results, strict=True))
    raise AssertionError("a region without a terminator")


def _keep(values: dict[Value, Array], value: Value, result: Array) -> None:
    """Note a value in full, so that every meaning takes it; its dtype must be that of its type."""
    wanted = semantics.numpy_dtype(value.type.element)
    assert result.dtype == wanted, f"{value!r} came as {result.dtype}, not {wanted}"
    values[value] = np.broadcast_to(result, (1, *value.type.shape))
