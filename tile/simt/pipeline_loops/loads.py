"""Loads that are done for a round which may not be, and what they take."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.ops import arith, memory, shape
from tile.ir.types import Scalar
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.dims import REGISTER
from tile.simt.pipeline_loops.slices import Round


def mask_in(round_: Round, load: Operation) -> Value | None:
    """The mask of a load in a round of its loop: false throughout if there is no such round."""
    mask = round_.of(load["mask"])
    if round_.exists is None:
        return mask
    exists = round_.build(
        shape.splat, round_.exists, shape=load.result.type.shape, layout=layout_of(load["ptr"])
    )
    return exists if mask is None else round_.build(arith.and_, mask, exists)


def load_in(round_: Round, load: Operation) -> Value:
    """What a load reads in a round of its loop; nothing that matters if there is no such round."""
    build = round_.build
    with build.at(load.loc):
        value = build(
            memory.load,
            round_.of(load["ptr"]),
            mask_in(round_, load),
            round_.of(load["other"]),
            **load.attributes,
        )
    value.name = load.result.name
    return value


def registers(value: Value) -> int:
    """How many registers of 32 bits a tile takes in a thread."""
    element = value.type.element
    count = layout_of(value).in_size(REGISTER)
    bits = element.bits if isinstance(element, Scalar) else 64
    return max(1, count * bits // 32)
