"""Loads for an iteration that may not exist, and the registers that they take."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.ops import arith, memory, shape
from tile.ir.types import Scalar
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.dims import REGISTER
from tile.simt.pipeline_loops.slices import IterationView


def iteration_mask(view: IterationView, load: Operation) -> Value | None:
    """Return the mask of a load in an iteration of its loop: all false if there is none such."""
    mask = view.value(load["mask"])
    if view.exists is None:
        return mask
    exists = view.build(
        shape.splat, view.exists, shape=load.result.type.shape, layout=layout_of(load["ptr"])
    )
    return exists if mask is None else view.build(arith.and_, mask, exists)


def load_for_iteration(view: IterationView, load: Operation) -> Value:
    """Return the tile that a load reads in an iteration of its loop.

    If there is no such iteration, nothing is read, and the tile is not used.
    """
    build = view.build
    with build.at(load.loc):
        value = build(
            memory.load,
            view.value(load["ptr"]),
            iteration_mask(view, load),
            view.value(load["other"]),
            **load.attributes,
        )
    value.name = load.result.name
    return value


def registers(value: Value) -> int:
    """Return the number of 32-bit registers that a tile takes in each thread."""
    element = value.type.element
    count = layout_of(value).in_size(REGISTER)
    bits = element.bits if isinstance(element, Scalar) else 64
    return max(1, count * bits // 32)
