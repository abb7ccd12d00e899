"""A `breakpoint()` costs nothing where nothing stops at it: the code is what it would be without."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile
from tests.debugger.programs import CALLS
from tests.debugger.sessions import HEAD
from tile.config import config

SOURCE = HEAD + CALLS.lstrip("\n").partition("x = np.arange")[0]
SIGNATURE = {"x_ptr": "*fp32:16", "o_ptr": "*fp32:16", "n": "i32"}
BACKENDS = {
    "nvptx:sm_90a": "llvmlite",
    "opencl:generic": "pyopencl",
    "interp": "",
    "interp:generic": "",
}


def kernel(folder: Path, line: str) -> Any:
    """The kernel with a line in front of its store, in a file of one name whatever the line is."""
    namespace: dict[str, Any] = {"__name__": "kernel"}
    path = folder / "kernel.py"
    path.write_text(SOURCE.replace("    tl.store", f"    {line}\n    tl.store"), encoding="utf-8")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
    return namespace["kernel"]


def code(folder: Path, line: str, target: str) -> dict[str, Any]:
    """The stages behind the first, in which the breakpoint still stands."""
    made = tile.compile(kernel(folder, line), SIGNATURE, {"B": 4}, target=target)
    stages = list(made.asm.items())
    return dict(stages[2:])


@pytest.mark.parametrize("target", BACKENDS)
def test_the_code_is_the_same(tmp_path: Path, target: str) -> None:
    needed = BACKENDS[target]
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    plain = code(tmp_path, "pass", target)
    with pytest.warns(RuntimeWarning, match=r"kernel\.py:22:5 is ignored: the debugger opens"):
        stopping = code(tmp_path, "breakpoint()", target)
    assert plain and stopping == plain


def test_nothing_is_said_where_breakpoints_are_switched_off(tmp_path: Path) -> None:
    with config.scope(python_breakpoint="0"):
        out = np.zeros(14, np.float32)
        kernel(tmp_path, "breakpoint()")[(4,)](np.ones(14, np.float32), out, 14, B=4)
    assert out.sum() > 0


def test_steps_can_be_asked_for_and_change_no_result(tmp_path: Path) -> None:
    x = np.arange(14, dtype=np.float32)
    results = []
    for target in ("interp", "interp:steps"):
        results.append(np.zeros(14, np.float32))
        made = tile.compile(kernel(tmp_path, "pass"), SIGNATURE, {"B": 4}, target=target)
        made[(4,)](x, results[-1], 14)
    np.testing.assert_array_equal(*results)
    assert "debug_step " in str(made.asm["tile"])
