"""The compiler is imported before TorchInductor needs it."""

import subprocess
import sys

import pytest

pytest.importorskip("llvmlite")

PROGRAM = """
import gc, sys
from tile.compat import preload

gc.disable()
{before}
old = len(gc.get_objects(generation=2))
preload.import_compiler()
assert "tile.backends.nvptx.compiler" in sys.modules
young = sum(len(gc.get_objects(generation=one)) for one in (0, 1))
promoted = len(gc.get_objects(generation=2)) - old
print(gc.get_freeze_count() > 1_000, young < 100, promoted > 10_000)
"""


def run(before: str) -> str:
    program = PROGRAM.format(before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_objects_of_the_compiler_are_old_and_can_be_collected() -> None:
    assert run("pass") == "False True True"


def test_objects_that_the_program_has_frozen_stay_frozen() -> None:
    assert run("gc.freeze()") == "True False False"
