from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import tile

ROOT = Path(__file__).parents[2]
HEAVY = ["llvmlite", "cuda", "pyopencl", "torch", "matplotlib"]


def in_new_process(code: str, folder: Path) -> object:
    """Return what `code` prints as JSON in a new interpreter that keeps compiled modules in `folder`."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> dict[str, Any]:
    """Return the modules loaded before and after `import tile`, and its least time of eight.

    It is the CPU time of the importing thread, which other processes do not change.
    """
    code = (
        "import json, sys, time; before = sorted(sys.modules); start = time.thread_time();"
        "import tile; seconds = time.thread_time() - start;"
        "print(json.dumps([seconds, before, sorted(sys.modules)]))"
    )
    folder = tmp_path_factory.mktemp("bytecode")
    runs = [in_new_process(code, folder) for _ in range(8)]
    return {"seconds": min(run[0] for run in runs), "before": runs[0][1], "modules": runs[0][2]}


def test_loads_nothing_heavy(imported) -> None:
    packages = {name.partition(".")[0] for name in imported["modules"] if "cython" not in name}
    assert packages.isdisjoint(HEAVY)
    ours = set(sys.stdlib_module_names) | {"tile", "numpy", "ml_dtypes", "platformdirs"}
    # What an installation loads by itself, before any import, is not for this to judge.
    assert packages - ours <= {name.partition(".")[0] for name in imported["before"]}


def test_takes_less_than_three_tenths_of_a_second(imported) -> None:
    assert imported["seconds"] < 0.3


def test_no_backend_is_loaded_before_it_is_used(imported) -> None:
    loaded = {name for name in imported["modules"] if name.startswith("tile.backends.")}
    # Interfaces, and what arguments are read by.
    shared = ("base", "capabilities", "tensor_handles")
    assert loaded == {f"tile.backends.{name}" for name in shared}


def test_public_names() -> None:
    for name in tile.__all__:
        assert hasattr(tile, name), name
    for name in (
        "jit",
        "autotune",
        "heuristics",
        "Config",
        "compile",
        "backend",
        "cdiv",
        "language",
    ):
        assert name in tile.__all__
    assert tile.TileError is tile.errors.TileError


def test_submodules_are_not_hidden_by_functions() -> None:
    import tile.config
    import tile.runtime.autotuning.decorator
    import tile.runtime.compile
    import tile.runtime.jit

    assert tile.runtime.jit.JITFunction is tile.JITFunction
    assert tile.runtime.compile.compile is tile.compile
    assert tile.runtime.autotuning.decorator.autotune is tile.autotune
    assert tile.config.config.verify in (True, False)


def test_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tile.__version__ == project.get("version", tile.__version__)
