"""Every example runs with its defaults, checks itself and says so; a wrong result is noticed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.sampling import sample

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

# What an example prints next to its table, by name; and how many lines its table has.
EXPECTED = {
    "vector_add": (3, r"Of the block sizes 256, 1024, 4096, 16384, \d+ was fastest\."),
    "sin": (1, r"sin-performance:\n +N +tile .* NumPy"),
    "softmax": (2, r"softmax of 1823 rows of 781"),
    "matmul": (4, r"Tiles of \d+ x \d+ x \d+ were fastest\."),
    "matmul_descriptor": (2, r"float16"),
    "layer_norm": (6, r"backward .* dx .*\n.* dweight .*\n.* dbias "),
    "dropout": (1, r"the same seed drops the same of another array: ok"),
    "attention": (16, r"backward, float16, causal"),
    "matmul_nt": (1, r"Tiles of \d+ x \d+ were fastest\."),
    "triton_c": (3, r"listing 8, shift convolution"),
    "convolution": (1, r"2 images of 14 x 14 x 32, 64 filters of 3 x 3"),
    "shift_conv": (1, r"4 images, 512 channels of 7 x 7, 512 filters"),
}

ROW = re.compile(r"^.* (\S+) +(\S+)  (ok|WRONG)$", re.MULTILINE)


def run(
    name: str, *options: str, timeout: float = 180, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run an example with this checkout's `tile`, and these variables in the environment."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *options],
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
    )


def test_all_examples_are_tested_and_listed():
    programs = {path.stem for path in EXAMPLES.glob("*.py")} - {"report"}
    assert programs == set(EXPECTED)
    listed = re.findall(
        r"^\| \[(\w+)\.py\]\(\1\.py\)", (EXAMPLES / "README.md").read_text("utf-8"), re.M
    )
    assert sorted(listed) == sorted(programs)


# The interpreter checks all that it can; other backends have no checks.
OTHER_BACKEND = {"TILE_BACKEND", "TILE_INTERP_LEVEL"} & os.environ.keys()
CHECKS = {} if OTHER_BACKEND else {"TILE_SANITIZE": "all"}


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name):
    done = run(name, **CHECKS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines, also = EXPECTED[name]
    rows = ROW.findall(done.stdout)
    assert len(rows) == lines, done.stdout
    for error, allowed, verdict in rows:
        assert float(error) <= float(allowed), done.stdout
        assert verdict == "ok"
    assert re.search(also, done.stdout), done.stdout
    assert re.search(r"^\d+ checks? passed, against NumPy in float64\.$", done.stdout, re.M)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        # Sizes that fill no block, a single one, and more than one block.
        ("softmax", ["--rows", "3", "--columns", "1"]),
        ("softmax", ["--rows", "1", "--columns", "1025"]),
        ("matmul", ["--sizes", "1", "65", "33"]),
        ("matmul_descriptor", ["--sizes", "1", "65", "33"]),
        ("matmul_nt", ["--sizes", "129", "1", "17"]),
        ("layer_norm", ["--rows", "1", "--columns", "5"]),
        ("layer_norm", ["--rows", "67", "--columns", "129"]),
        ("dropout", ["--elements", "1025", "--p", "0.5", "--seed", str(2**40 + 7)]),
        ("attention", ["--context", "100", "--heads", "1", "--head", "16"]),
        ("convolution", ["--batch", "1", "--size", "7", "--channels", "8", "--stride", "2"]),
        ("convolution", ["--edge", "2", "--padding", "0", "--filters", "72", "--dilation", "3"]),
        ("shift_conv", ["--batch", "1", "--channels", "9", "--filters", "65", "--size", "5"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value[1::2]),
)
def test_example_with_other_sizes(name, options):
    done = run(name, *options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_sin_saves_its_plot(tmp_path):
    done = run("sin", "--rows", "8", "--columns", "32", "64", "--plot", str(tmp_path / "plots"))
    assert done.returncode == 0, done.stdout + done.stderr
    saved = tmp_path / "plots"
    assert (saved / "sin-performance.png").read_bytes().startswith(b"\x89PNG")
    header, *rows = (saved / "sin-performance.csv").read_text("utf-8").splitlines()
    assert header.startswith("N,tile,")
    assert [row.split(",")[0] for row in rows] == ["32", "64"]


@pytest.mark.parametrize(("name", "asked"), sample(EXPECTED, [False, True]))
def test_options_are_named_and_others_are_errors(name, asked):
    done = run(name, *(["--help"] if asked else ["--no-such-option", "-5"]))
    if asked:
        assert done.returncode == 0
        # The example of the first page has no options.
        assert name == "vector_add" or "--" in done.stdout.replace("--help", "")
    else:
        assert done.returncode == 2
        assert done.stderr.startswith(f"usage: {name}.py ")
        assert "unrecognized arguments: --no-such-option -5" in done.stderr
        assert done.stdout == ""


WRONG = {
    "too far off": np.array([1.0, 2.0, 3.1], np.float32),
    "not a number": np.array([1.0, np.nan, 3.0], np.float32),
    "another shape": np.array([[1.0, 2.0, 3.0]], np.float32),
}


@pytest.mark.parametrize("result", WRONG.values(), ids=WRONG.keys())
def test_report_notices_a_wrong_result(result, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from report import Report

    report = Report("nothing")
    report.measure("right", lambda: {"a": np.ones(2, np.float32)}, {"a": np.ones(2)}, 0.0)
    report.measure("wrong", lambda: {"a": result}, {"a": np.array([1.0, 2.0, 3.0])}, 0.05)
    assert report.finish() == 1
    printed = capsys.readouterr().out
    assert [row[2] for row in ROW.findall(printed)] == ["ok", "WRONG"]
    assert "1 of 2 checks failed." in printed


@pytest.mark.parametrize("values", [(0, 1), (1, 0), (np.nan, 1), (1, np.nan)])
def test_report_notices_a_wrong_call(values, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from report import Report

    results = iter([{"a": np.full(1, value, np.float32)} for value in values])
    report = Report("nothing")
    report.measure("differs", lambda: next(results), {"a": np.ones(1)}, 0.5)
    assert report.finish() == 1
    assert "WRONG" in capsys.readouterr().out


@pytest.mark.parametrize("size", ["0", "many"])
def test_sizes_that_are_none(size: str) -> None:
    done = run("matmul", "--sizes", "64", size, "8")
    assert done.returncode == 2
    assert f"{size!r} is no size; sizes are numbers from 1 on" in done.stderr
