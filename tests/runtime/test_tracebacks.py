"""Tracebacks of errors: the frames of the user alone, in scripts, pytest and IPython."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import (
    ArgumentError,
    CompilationError,
    HookError,
    OutOfBoundsError,
    TileError,
)
from tile.runtime import jit
from tile.runtime.fast_path import build_launch_plan
from tile.runtime.specialize import Rule

HERE = Path(__file__).name


@tile.jit
def undefined(x_ptr, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), missing)  # noqa: F821


@tile.jit
def fill(x_ptr, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), 1.0)


@tile.constexpr_function
def fails(value: int) -> int:
    return value // 0


@tile.jit
def calls(x_ptr, B: tl.constexpr):
    tl.store(x_ptr, fails(B))


def hook(arguments: dict[str, Any]) -> None:
    raise ValueError("of the hook")


def tuned(*configs: tile.Config) -> tile.Autotuner:
    return tile.autotune(configs, key=[], warmup=0, rep=1)(fill)


def x() -> np.ndarray:
    return np.zeros(4, np.float32)


SMALL, LARGE = tile.Config({"B": 4}), tile.Config({"B": 8})
HOOKED = tile.Config({"B": 8}, pre_hook=hook)

CASES: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "launch": (CompilationError, lambda: undefined[(1,)](x(), B=4)),
    "run": (CompilationError, lambda: undefined.run(x(), grid=(1,), B=4)),
    "warmup": (CompilationError, lambda: undefined.warmup(np.float32, B=4)),
    "compile": (CompilationError, lambda: tile.compile(undefined, {"x_ptr": "*fp32"}, {"B": 4})),
    "signature": (ArgumentError, lambda: tile.compile(fill, {"x_ptr": "*f"}, {"B": 4})),
    "no signature": (TypeError, lambda: tile.compile(fill)),
    "constexpr": (CompilationError, lambda: calls[(1,)](x(), B=4)),
    "fault": (OutOfBoundsError, lambda: fill[(1,)](x(), B=8)),
    "arguments": (ArgumentError, lambda: fill[(1,)]("text", B=8)),
    "grid": (ArgumentError, lambda: fill[(-1,)](x(), B=4)),
    "no grid": (ArgumentError, lambda: fill(x(), B=4)),
    "grid function": (KeyError, lambda: fill[lambda meta: meta["N"]](x(), B=4)),
    "compiled": (OutOfBoundsError, lambda: fill.warmup(x(), B=8)[(1,)](x())),
    "compiled, arguments": (ArgumentError, lambda: fill.warmup(x(), B=8)[(1,)]()),
    "tuned": (OutOfBoundsError, lambda: tuned(SMALL, LARGE)[(1,)](x())),
    "tuned, key": (ArgumentError, lambda: tile.autotune([SMALL], key=["n"])(fill)),
    "hook": (HookError, lambda: tuned(SMALL, HOOKED)[(1,)](x())),
    "heuristics": (
        HookError,
        lambda: tile.heuristics({"B": lambda arguments: arguments["N"]})(fill)[(1,)](x()),
    ),
    "benchmark": (
        OutOfBoundsError,
        lambda: tile.testing.do_bench(lambda: fill[(1,)](x(), B=8)),
    ),
    "jit": (ArgumentError, lambda: tile.jit(3)),
    "jit with options": (ArgumentError, lambda: tile.jit(debug=True)(3)),
    "Config": (ArgumentError, lambda: tile.Config(3)),
    "TensorDescriptor": (ArgumentError, lambda: tile.TensorDescriptor(x(), [4], [2], [4])),
    "pointers": (ArgumentError, lambda: tile.pointers(3)),
    "MockArray": (ArgumentError, lambda: tile.MockArray("f")),
    "outside a kernel": (CompilationError, lambda: tl.load(3)),
}


def raised(case: str) -> Exception:
    kind, call = CASES[case]
    with pytest.raises(kind) as caught:
        call()
    return caught.value


def files(error: BaseException) -> list[str]:
    return [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("case", CASES)
def test_only_frames_of_the_user_are_left(case: str) -> None:
    error = raised(case)
    assert set(files(error)) == {HERE}
    text = "".join(traceback.format_exception(error))
    assert str(Path(tile.__file__).parent) not in text
    assert "<launch fast path>" not in text and '"<string>"' not in text
    if isinstance(error, TileError):
        assert text.endswith(f"{error}\n")  # the message is what is read last


@pytest.mark.parametrize("case", ["launch", "compile", "tuned", "constexpr", "hook"])
def test_a_setting_keeps_all_frames(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_FULL_TRACEBACK", "1")
    assert {"jit.py", "compile.py", "autotuner.py"} & set(files(raised(case)))


def test_errors_keep_what_they_know() -> None:
    error = raised("tuned")
    assert isinstance(error, OutOfBoundsError)
    assert error.fault is not None and error.loc is not None
    assert error.loc.function == "fill" and error.loc.file == __file__
    cause = raised("hook").__cause__
    assert isinstance(cause, ValueError)
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "hook"


def test_frames_of_the_user_below_those_of_the_package_stay() -> None:
    names = [frame.name for frame in traceback.extract_tb(raised("benchmark").__traceback__)]
    assert names == ["raised", "<lambda>", "<lambda>"]


def test_a_failure_of_the_package_keeps_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "target_of", None)
    with pytest.raises(TypeError) as caught:
        fill[(1,)](x(), B=4)
    assert "jit.py" in files(caught.value)


def test_the_handled_exception_is_printed() -> None:
    def handles() -> None:
        try:
            {}["key"]
        except KeyError:
            undefined[(1,)](x(), B=4)

    with pytest.raises(CompilationError) as caught:
        handles()
    text = "".join(traceback.format_exception(caught.value))
    assert "KeyError: 'key'" in text
    assert str(Path(tile.__file__).parent) not in text


def test_errors_of_other_threads() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(CompilationError) as caught:
        pool.submit(undefined[(1,)], x(), B=4).result()
    assert str(Path(tile.__file__).parent) not in "".join(traceback.format_exception(caught.value))


def test_launches_that_are_repeated() -> None:
    """`launch` calls `slow_path` for what it cannot do; both leave the frames of the caller alone."""

    def slow_path(*_: Any, **__: Any) -> Any:
        raise CompilationError("from inside")

    plan = build_launch_plan(
        (3,),
        {"B": 4},
        fill.parameters,
        [Rule(parameter.name) for parameter in fill.parameters],
        hooks=[],
        cache={},
        current=None,
        slow_path=slow_path,
    )
    assert plan is not None
    with pytest.raises(CompilationError) as caught:
        plan.launch((1,), 3, B=4)
    assert set(files(caught.value)) == {HERE}


PROGRAM = """\
import numpy as np
import tile
import tile.language as tl


@tile.jit
def scale(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + undefined_name, mask=i < n)


def test_main():
    scale[(4,)](np.ones(100, np.float32), 100, B=32)


if __name__ == "__main__":
    test_main()
"""
MESSAGE = """\
CompilationError: `undefined_name` is not defined
  at {place}, in scale
    10 |     tl.store(x_ptr + i, x + undefined_name, mask=i < n)
       |                             ^^^^^^^^^^^^^^
  note: compiling scale(x_ptr: *fp32:16, n: i32:4, B=32) for interp
"""


def output_of(folder: Path, *command: str) -> str:
    (folder / "test_program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={
            **os.environ,
            "TILE_BACKEND": "interp",
            "IPYTHONDIR": str(folder / ".ipython"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def test_a_script_prints_ten_lines(tmp_path: Path) -> None:
    text = output_of(tmp_path, "test_program.py")
    assert text.endswith("tile.errors." + MESSAGE.format(place=f"{tmp_path}/test_program.py:10:29"))
    underlined = [
        line for line in text.splitlines() if set(line.strip()) <= set("~^")
    ]  # added by Python 3.13
    assert len(text.splitlines()) - len(underlined) == 10


def test_pytest_shows_the_test_and_the_message(tmp_path: Path) -> None:
    text = output_of(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "-q", "test_program.py")
    message = MESSAGE.format(place=f"{tmp_path}/test_program.py:10:29").splitlines()
    assert "\n".join(f"E       {line}" for line in ["tile.errors." + message[0]]) in text
    assert all(f"E         {line[2:]}".rstrip() in text for line in message[1:])
    assert len(text.splitlines()) < 22


CELLS = """\
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="NoColor")
for cell in {cells!r}:
    shell.run_cell(cell, store_history=True)
"""
needs_ipython = pytest.mark.skipif(
    importlib.util.find_spec("IPython") is None, reason="IPython is not installed"
)


def ipython(folder: Path, *cells: str) -> str:
    (folder / "cells.py").write_text(CELLS.format(cells=list(cells)))
    return output_of(folder, "cells.py")


@needs_ipython
def test_ipython_shows_the_cell_and_the_message(tmp_path: Path) -> None:
    text = ipython(tmp_path, "import test_program", "test_program.test_main()")
    assert text.endswith(MESSAGE.format(place=f"{tmp_path}/test_program.py:10:29"))
    assert len(text.splitlines()) < 16


@needs_ipython
def test_cells_are_named_as_ipython_names_them(tmp_path: Path) -> None:
    kernel = "@tile.jit\ndef k(x_ptr):\n    tl.store(x_ptr + 5, {})\n"
    text = ipython(
        tmp_path,
        "import numpy as np, tile, tile.language as tl",
        kernel.format("missing"),
        "k[(1,)](np.zeros(1))",
        kernel.format("1.0"),
        "k[(1,)](np.zeros(1))",
        "with tile.sanitize(collect=True) as report:\n    k[(1,)](np.zeros(1))",
        "assert 'Cell In[4], line 3' in report.to_html()",
    )
    assert "AssertionError" not in text
    assert "Cell In[3], line 1" in text and "Cell In[5], line 1" in text  # IPython's own lines
    assert "  at Cell In[2], line 3, in k\n    3 |     tl.store(x_ptr + 5, missing)\n" in text
    assert "  at Cell In[4], line 3, in k\n    3 |     tl.store(x_ptr + 5, 1.0)\n" in text
    assert "ipython-input" not in text
