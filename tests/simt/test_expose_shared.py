"""Values survive their way through shared memory, and only those that need it take it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.simt.shared_machine import Machine
from tile.ir.core import Function
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import control
from tile.ir.passes import run_pipeline
from tile.ir.types import F16, F32, F64, I1, I8, Tile, with_layout
from tile.ir.verifier import verify
from tile.simt import ops
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.conversion import Renaming, plan_conversion, through_shared
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.warp_shuffle import ShufflePlan
from tile.simt.memory import allocate_shared, insert_barriers
from tile.simt.memory.expose_shared import (
    expose_shared,
    plan_tile_conversion,
    shared_cost,
    shuffle_cost,
)
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.target import GENERIC, PLAIN

assert insert_barriers and allocate_shared  # they declare the passes

# Eight threads hold 8x8 elements, or hold copies of each other's.
LAYOUTS = [
    blocked([8, 8], [1, 8], [4, 1], [2, 1]),
    blocked([8, 8], [8, 1], [1, 4], [1, 2], [0, 1]),
    blocked([8, 8], [2, 4], [2, 2], [2, 1]),
    blocked([8, 8], [8, 1], [1, 4], [2, 1], [0, 1]),
    blocked([8, 8], [1, 8], [2, 2], [1, 2]),
]
PAIRS = list(itertools.permutations(LAYOUTS, 2))


def converting(src: LinearLayout, dst: LinearLayout, element: Any) -> Module:
    """A function that converts a tile, and exchanges its halves along both axes."""
    ty = Tile((8, 8), element, src)
    function = Function("f", [ty], ["x"], [with_layout(ty, dst), ty, ty])
    build = LayoutBuilder(function.body)
    (x,) = function.args
    results = [build.convert(x, dst)]
    results += [build(ops.layout.butterfly, x, axis=axis, mask=5) for axis in (-1, -2)]
    build.op(control.return_, *results)
    return Module([function])


@pytest.mark.parametrize("target", [PLAIN, GENERIC], ids=str)
@pytest.mark.parametrize("element", [I1, I8, F16, F32, F64], ids=str)
def test_values_arrive(element: Any, target: Any) -> None:
    for pair, layouts in enumerate(PAIRS):
        module = converting(*layouts, element)
        run_pipeline(
            module,
            f"expose-shared{{target={target},num_warps=2}},allocate-shared,insert-barriers",
            Level.LAID_OUT,
        )
        verify(module, Level.LAID_OUT)
        random = np.random.default_rng(pair)
        x = random.integers(0, 2 if element is I1 else 100, (1, 8, 8)).astype(dtype(element))
        machine = Machine(module, np.zeros(0, np.uint8))
        results = machine.run(module["f"], [x])
        rows = np.arange(8) ^ 5
        for found, wanted in zip(results, (x, x[:, :, rows], x[:, rows]), strict=True):
            np.testing.assert_array_equal(found, wanted, "{} to {}".format(*layouts))
        assert machine.races == [], "{} to {}".format(*layouts)


def dtype(element: Any) -> Any:
    return {I1: np.bool_, I8: np.int8, F16: np.float16, F32: np.float32, F64: np.float64}[element]


@pytest.mark.parametrize("target", [PLAIN, GENERIC], ids=str)
def test_only_what_cannot_stay_in_its_warp_goes_there(target: Any) -> None:
    """So does what would take 16 shuffles or more, which none of these tiles is worth."""
    for src, dst in PAIRS:
        module = converting(src, dst, F32)
        expose_shared(module, target=target, num_warps=2)
        plan = plan_conversion(src, dst, 32, shuffles=target.shuffles)
        stays = isinstance(plan, Renaming) or (isinstance(plan, ShufflePlan) and plan.shuffles < 16)
        converts = [op for op in module.walk() if op.defn is ops.layout.convert_layout]
        assert bool(converts) is stays, f"{src} to {dst}"


def test_many_shuffles_give_way_to_shared_memory() -> None:
    """A warp that holds 32x32 elements by columns, to hold rows: 32 of each thread."""
    columns = blocked([32, 32], [32, 1], [1, 32], [1, 1], [0, 1])
    rows = blocked([32, 32], [1, 32], [32, 1], [1, 1])
    plan = plan_conversion(columns, rows, 32)
    instead = through_shared(columns, rows, 32)
    assert isinstance(plan, ShufflePlan)
    assert shared_cost(instead, 32, GENERIC) < shuffle_cost(plan, 32, GENERIC)
    assert plan_tile_conversion(columns, rows, 32, GENERIC) == instead
    small = replace(GENERIC, shared_bytes=4096)
    assert plan_tile_conversion(columns, rows, 32, small) == plan, (
        "a tile of half the memory stays outside"
    )


def test_few_shuffles_stay() -> None:
    columns = blocked([8, 32], [8, 1], [1, 32], [1, 1], [0, 1])
    rows = blocked([8, 32], [1, 8], [8, 4], [1, 1])
    plan = plan_conversion(columns, rows, 32)
    assert isinstance(plan, ShufflePlan)
    assert plan_tile_conversion(columns, rows, 32, GENERIC) == plan
