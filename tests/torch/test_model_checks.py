"""The program that checks models refuses results that are no numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import torch
from tests.libraries.models import worst
one, nan = torch.ones(2), torch.tensor([1.0, float("nan")])
print(worst([one, one], [one, 2 * one]), worst([one, nan], [one, one]))
"""


def test_a_nan_is_a_difference(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "tile", "triton", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.split() == ["0.5", "nan"], done.stderr
