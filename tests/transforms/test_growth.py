"""Passes and analyses take time linear in the size of the function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tile.analysis.axis_info import axis_info
from tile.analysis.liveness import liveness
from tile.analysis.ranges import ranges
from tile.ir.module import Module
from tile.ir.parser import parse_module
from tile.ir.passes import PassManager
from tile.ir.verifier import verify
from tile.transforms import pass_pipeline

HEAD = """\
kernel @k(%p: tile<64xptr<f32>>, %n: i32, %x: tile<64xf32>, %o: tile<64xi32>) {
  %c0 = const {value = 0} : i32
  %c1 = const {value = 1} : i32
"""
# Operations of which some fold, some are common subexpressions, some are dead and some remain.
STEP = """\
  %c{i} = const {{value = {i}}} : i32
  %s{i} = splat %c{i} {{shape = (64)}} : tile<64xi32>
  %o{i} = add {o}, %s{i} : tile<64xi32>
  %one{i} = const {{value = 1.0}} : tile<64xf32>
  %m{i} = mul {v}, %one{i} : tile<64xf32>
  %d{i} = exp %m{i} : tile<64xf32>
  %f{i} = add %m{i}, %x : tile<64xf32>
  %n{i} = splat %n {{shape = (64)}} : tile<64xi32>
  %k{i} = cmp %o{i}, %n{i} {{predicate = lt}} : tile<64xi1>
  %v{i} = select %k{i}, %f{i}, %x : tile<64xf32>
"""


def body(steps: int) -> str:
    lines, o, v = [], "%o", "%x"
    for i in range(2, steps + 2):
        lines.append(STEP.format(i=i, o=o, v=v))
        o, v = f"%o{i}", f"%v{i}"
    return "".join(lines) + f"  store %p, {v}\n"


def straight(steps: int) -> str:
    return f"{HEAD}{body(steps)}  return\n}}\n"


def inside_loops(steps: int) -> str:
    loops = "".join(f"  for %i{d} = %c0 to %n step %c1 {{\n" for d in range(3))
    ends = "  yield\n  }\n" * 3
    return f"{HEAD}{loops}{body(steps)}{ends}  return\n}}\n"


def in_branches(steps: int) -> str:
    branches = "".join(
        f"  %t{i} = cmp %n, %c{i} {{predicate = lt}} : i1\n"
        f"  if %t{i} {{\n    store %p, %x\n    yield\n  }}\n"
        for i in range(2, steps + 2)
    )
    return f"{HEAD}{body(steps)}{branches}  return\n}}\n"


def run_tile(module: Module) -> None:
    PassManager(pass_pipeline.TILE, verify_each=False).run(module)


WORK: list[Callable[[Module], Any]] = [
    run_tile,
    verify,
    lambda module: ranges(module.kernel),
    lambda module: axis_info(module.kernel),
    lambda module: liveness(module.kernel),
]


def calls(work: Callable[[Module], Any], text: str) -> int:
    """Return the number of Python function calls, a deterministic measure of time."""
    module = parse_module(text)
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work(module)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("work", WORK, ids=["TILE", "verify", "ranges", "axis_info", "liveness"])
@pytest.mark.parametrize("make", [straight, inside_loops, in_branches])
def test_work_grows_with_the_function(
    make: Callable[[int], str], work: Callable[[Module], Any]
) -> None:
    few, many = calls(work, make(10)), calls(work, make(80))
    assert many < 10 * few, f"8 times the operations take {many / few:.1f} times the calls"
