"""Registers of the lanes of a few warps, as an array, and conversions done on them step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.simt.layouts.layouts import elements
from tile.simt.layouts.conversion import Conversion, Renaming, SharedConversion
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import SharedAccess
from tile.simt.layouts.warp_shuffle import ShufflePlan

UNSET = -1


def convert(plan: Conversion, src: LinearLayout, registers: int) -> Any:
    """Return the element of each (register, lane, warp) after a conversion of the tile in `src`."""
    values = elements(src)
    result = np.full((registers, *values.shape[1:]), UNSET)
    if isinstance(plan, Renaming):
        return values[list(plan.registers)]
    if isinstance(plan, ShufflePlan):
        shuffle(plan, values, result)
    else:
        stage(plan, values, result)
    return result


def shuffle(plan: ShufflePlan, values: Any, result: Any) -> None:
    """Step by step: each lane sends one word, and reads the word that one lane sends."""
    _, lanes, warps = values.shape
    lane, warp = np.arange(lanes)[:, None], np.arange(warps)
    send, source, receive, coset = (
        next(iter(layout.table().values()))
        for layout in (plan.send, plan.source, plan.receive, plan.coset)
    )
    for step in plan.steps:
        chosen = coset == step.coset
        for sent, filled in plan.packed:
            word = values[send ^ step.send ^ sent, lane, warp]
            got = word[source ^ step.source, warp]
            into = (receive ^ step.receive ^ filled, lane, warp)
            assert np.all(result[into][chosen] == UNSET), "a register is filled twice"
            result[into] = np.where(chosen, got, result[into])
    for register, of in plan.copies:
        assert np.all(result[register] == UNSET)
        result[register] = result[of]


def stage(plan: SharedConversion, values: Any, result: Any) -> None:
    """Store all, then load all."""
    memory = np.full(plan.layout.in_size("offset"), UNSET)
    for vector, places in accesses(plan.store):
        for register, place in zip(vector, places, strict=True):
            held = memory[place]
            assert np.all((held == UNSET) | (held == values[register])), "two values for a place"
            memory[place] = values[register]
    assert np.all(memory != UNSET)
    for vector, places in accesses(plan.load):
        for register, place in zip(vector, places, strict=True):
            result[register] = memory[place]
    for register, of in plan.load.copies:
        result[register] = result[of]


def accesses(access: SharedAccess) -> Any:
    """Each instruction's registers, and the places of each one's element by (lane, warp)."""
    lanes, warps = (np.arange(access.offsets.in_size(name)) for name in ("lane", "warp"))
    for vector in access.registers:
        assert len(vector) == access.vector
        first = access.offsets.apply(
            register=np.int64(vector[0]), lane=lanes[:, None], warp=warps[None]
        )["offset"]
        assert np.all(first % access.vector == 0), "a vector that is not aligned"
        yield vector, [first + position for position in range(access.vector)]
