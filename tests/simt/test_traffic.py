"""The examples' accesses: no bank conflicts, and no wasted sectors where rows are aligned."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.traffic import EXAMPLES, SMALL, as_markdown, measure
from tests.sampling import sample

# Those whose warps hand each other tiles of many layouts, on another kind of machine, too.
DOTS = ("matmul", "matmul_nt", "attention", "shift_conv")
CASES = [*((name, "mma") for name in SMALL), *sample(DOTS, ["generic", "cp_async"])]

# The second row of an array of odd length; images of 8 x 8, and of 16 x 16, that are shifted by one.
UNALIGNED = {"vector_add", "shift_conv", "triton_c"}


@pytest.mark.parametrize(("name", "machine"), CASES)
def test_accesses_of_examples_cost_the_least(name: str, machine: str) -> None:
    kernels = measure(name, SMALL[name], machine)
    assert kernels
    for kernel, counters in kernels.items():
        assert counters.global_total().sectors > 0, kernel
        assert counters.shared_total().conflicts == 0, kernel
        if name not in UNALIGNED:
            assert counters.global_total().efficiency == 1.0, kernel


@pytest.mark.parametrize(
    ("machine", "name"), sample(["mma", "generic", "cp_async"], ["matmul", "matmul_nt"])
)
def test_rows_of_any_length_have_no_conflicts(name: str, machine: str) -> None:
    """Copies then are word by word, or there are none."""
    (counters,) = measure(name, ["--sizes", "75", "70", "50"], machine).values()
    assert counters.shared_total().wavefronts > 0
    assert counters.shared_total().conflicts == 0


def test_all_examples_are_measured() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} - {"report"} == {*SMALL}


def test_a_wrong_example_is_no_measurement() -> None:
    with pytest.raises(SystemExit, match="softmax: 2"):
        measure("softmax", ["--nothing"], "generic")


def test_the_command_prints_a_table() -> None:
    script = Path(EXAMPLES.parent, "benchmarks", "traffic.py")
    command = [sys.executable, str(script), "--small", "--markdown", "--by-line", "softmax"]
    path = {"PYTHONPATH": str(EXAMPLES.parent), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=path, check=True)
    assert "| softmax | softmax_kernel | 3,072 | 100.0% | 640 | 0 | 32 |" in done.stdout
    assert "powers = tl.exp(x - tl.max(x, axis=0))" in done.stdout


def test_markdown() -> None:
    assert as_markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
