"""Loads move above dots where the target gains by that; files in `hoist_loads` have other cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tile.ir.op_definition import Level
from tile.ir.parser import parse_module
from tile.ir.passes import PASSES, Pass, run_pipeline
from tile.ir.printer import print_module
from tile.simt.target import GENERIC

LOOPS = Path(__file__).with_name("hoist_loads") / "loops.tile"


@pytest.mark.parametrize("above", [True, False])
def test_loads_move_above_dots_by_choice_of_the_target(above: bool) -> None:
    module = parse_module(LOOPS.read_text())
    before = print_module(module)
    target = replace(GENERIC, tuning=replace(GENERIC.tuning, loads_above_dots=above))
    run_pipeline(module, [Pass(PASSES["hoist-loads"], {"target": target})], Level.LAID_OUT)
    assert (print_module(module) != before) == above
