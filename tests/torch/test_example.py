"""The example of PyTorch."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch" / "sin.py"


def test_sin_replaces_that_of_pytorch_and_saves_its_plot(tmp_path) -> None:
    command = [sys.executable, str(EXAMPLE), "--rows", "8", "--columns", "32", "64"]
    done = subprocess.run([*command, "--plot", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "results and gradients are those of PyTorch" in done.stdout
    assert (tmp_path / "sin-performance.png").read_bytes().startswith(b"\x89PNG")
    header, *rows = (tmp_path / "sin-performance.csv").read_text("utf-8").splitlines()
    assert header.startswith("N,tile,") and len(rows) == 2
