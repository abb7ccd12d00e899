"""Type checkers accept what the compiler accepts: the README's kernel, examples, documentation.

A checker that is not installed skips its tests, and says so with `-rs`; the extra `dev` has both.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What precedes the kernels that a page shows.
IMPORTS = "import numpy as np\nimport tile\nimport tile.language as tl\n"

Lines = set[tuple[str, int]]
Checker = Callable[[Path], tuple[str, Lines]]
PLACE = re.compile(r"([^\s:]+\.pyi?):(\d+)(?::\d+)?(?: -|:) error")


def run(name: str, *command: str | Path) -> tuple[str, Lines]:
    """Return what a checker wrote, and the lines with errors by file name."""
    here = str(Path(sys.executable).parent)
    program = shutil.which(name, path=os.pathsep.join([here, os.environ.get("PATH", "")]))
    if program is None:
        pytest.skip(f"{name} is not installed: python -m pip install {name}")
    done = subprocess.run(
        [program, *map(str, command)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    output = done.stdout + done.stderr
    errors = {(Path(file).name, int(line)) for file, line in PLACE.findall(output)}
    assert done.returncode in (0, 1) and bool(errors) == bool(done.returncode), output
    return output, errors


def mypy(folder: Path) -> tuple[str, Lines]:
    options = ["--config-file=", "--check-untyped-defs", f"--python-executable={sys.executable}"]
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'kernels'}"
    return run("mypy", *options, cache, "--follow-imports=silent", folder)


def basedpyright(folder: Path) -> tuple[str, Lines]:
    config = folder / "pyrightconfig.json"
    settings = {"typeCheckingMode": "basic", "extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    config.write_text(json.dumps(settings))
    options = ["--level", "error", "--pythonpath", sys.executable, "--project", config]
    return run("basedpyright", *options)


# Its programs import JAX, which the extra `dev` lacks, and go on from one another: tests/jax runs them.
UNCHECKED = {"jax.md"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every program that is to be accepted, and the one that is not."""
    folder = tmp_path_factory.mktemp("programs")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        if page.name in UNCHECKED:
            continue
        for number, block in enumerate(BLOCK.findall(page.read_text("utf-8"))):
            if "@tile.jit" in block:
                text = block if "import tile" in block else IMPORTS + block
                (folder / f"{page.stem}_{number}.py").write_text(text, "utf-8")
    for path in (*(ROOT / "examples").glob("*.py"), *HERE.glob("[!t]*.py")):
        shutil.copy(path, folder)
    names = {path.stem for path in folder.glob("*.py")}
    assert names >= {"README_0", "opencl_1", "debugging_0", "matmul", "correct", "idioms", "wrong"}
    return folder


@pytest.fixture(scope="module", params=[mypy, basedpyright])
def checked(request: pytest.FixtureRequest, programs: Path) -> tuple[str, Lines]:
    return request.param(programs)


def wrong_lines() -> Lines:
    lines = (HERE / "wrong.py").read_text("utf-8").splitlines()
    return {
        ("wrong.py", number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")
    }


def test_correct_kernels_are_accepted(checked: tuple[str, Lines]) -> None:
    output, errors = checked
    assert {file for file, _ in errors} <= {"wrong.py"}, output


def test_mistakes_are_detected(checked: tuple[str, Lines]) -> None:
    output, errors = checked
    assert {place for place in errors if place[0] == "wrong.py"} == wrong_lines(), output
