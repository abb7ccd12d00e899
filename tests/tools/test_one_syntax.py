"""One syntax of arguments and targets for `tile compile`, `tile explain` and `tile check`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import tile
import tile.language as tl
from tile.backends.base import Target
from tile.errors import ArgumentTypeError, ArgumentValueError, BackendError
from tile.tools import explain
from tile.tools.arguments import (
    HELP,
    is_type,
    parse_arguments,
    parse_signature,
    parse_target,
    parse_types,
)
from tile.tools.cli import main

KERNEL = """
import tile
import tile.language as tl

@tile.jit
def scale(x_ptr, y_ptr, n, factor, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, factor * tl.load(x_ptr + i, i < n), i < n)
"""
ARGUMENTS = ["x_ptr=fp32[100]", "y_ptr=fp32[100]:0", "n=98", "factor=0.5", "B=128"]
COMMANDS = ("compile", "explain", "check")


@tile.jit
def scale(x_ptr, y_ptr, n, factor, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, factor * tl.load(x_ptr + i, i < n), i < n)


@tile.jit(do_not_specialize=["n"])
def exempt(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr, n)


@tile.jit
def annotated(x, n: tl.int64, flag, B: tl.constexpr = 4):
    x.store([0], tl.zeros([B], tl.float32) + n)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scaling.py").write_text(KERNEL)
    return "scaling.py:scale"


def test_every_command_takes_the_same(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", kernel, *ARGUMENTS, "--target", "mma"]) == 0
    assert main(["compile", kernel, *ARGUMENTS, "--target", "mma", "-o", "out"]) == 0
    assert main(["check", kernel, *ARGUMENTS]) == 0
    printed = capsys.readouterr().out
    assert "scale on the mma machine" in printed and "scale.json" in printed


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert HELP in capsys.readouterr().out


@pytest.mark.parametrize("command", ["explain", "check"])
def test_a_kernel_does_not_run_with_types(
    command: str, kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, kernel, "x_ptr=*fp32", *ARGUMENTS[1:]]) == 1
    assert "x_ptr=*fp32 is a type, and the kernel runs with values" in capsys.readouterr().err


TYPED = ["x_ptr=*fp32:16", "y_ptr=*fp32:16", "n=i32", "factor=fp32", "B=128"]
OLD = [
    ["--signature", "*fp32:16, *fp32:16, i32, fp32", "--constants", "B=128"],
    ["-s", "y_ptr=*fp32:16, x_ptr=*fp32:16, n=i32, factor=fp32", "-c", "B=128"],
    ["x_ptr=*fp32:16", "n=i32", "-s", "y_ptr=*fp32:16, factor=fp32", "-c", "B=128"],
]


@pytest.mark.parametrize("spelling", [ARGUMENTS, *OLD])
def test_spellings_compile_the_same(kernel: str, spelling: list[str]) -> None:
    for folder, arguments in (("one", TYPED), ("other", spelling)):
        assert main(["compile", kernel, *arguments, "--target", "mma", "-o", folder]) == 0
    names = sorted(path.name for path in Path("one").iterdir())
    assert names == sorted(path.name for path in Path("other").iterdir()) and names
    for name in names:
        assert Path("one", name).read_text() == Path("other", name).read_text()


@pytest.mark.parametrize(
    ("kernel", "arguments", "types", "constants"),
    [
        (scale, ["n=784", "B=16"], {"n": "i32:16"}, {"B": 16}),
        (scale, ["n=1", "factor=2"], {"n": "i32:1", "factor": "i32"}, {}),
        (scale, ["n=1000000000000", "factor=true"], {"n": "i64:16", "factor": "i1"}, {}),
        (scale, ["factor=none"], {}, {"factor": None}),
        (scale, ["x_ptr=i8[5]"], {"x_ptr": "*i8:16"}, {}),
        (scale, ["other=3", "n=*fp33"], {"n": "*fp33"}, {"other": 3}),  # refused by tile.compile
        (exempt, ["n=1"], {"n": "i32"}, {}),  # neither a constant nor divisible by 16
        (annotated, ["n=3", "flag=(i32, i64:16)"], {"n": "i64", "flag": "(i32, i64:16)"}, {}),
        (annotated, ["x=fp32[8]/4"], {"x": "tensordesc<fp32[4]>"}, {}),
        (annotated, ["x=tensordesc<fp32[4],nan>"], {"x": "tensordesc<fp32[4],nan>"}, {}),
    ],
)
def test_types_and_constants(
    kernel: Any, arguments: list[str], types: dict[str, str], constants: dict[str, Any]
) -> None:
    found_types, found_constants = parse_signature(kernel, arguments)
    assert {n: str(t) for n, t in found_types.items()} == types and found_constants == constants


def test_as_a_launch_is_specialized() -> None:
    values = parse_arguments(["x=fp32[9]/4", "n=32", "flag=true"])
    launched = annotated.warmup(**values, grid=(1,))
    types, constants = parse_signature(annotated, ["x=fp32[9]/4", "n=32", "flag=true"])
    assert tile.compile(annotated, types, constants).leaves == launched.leaves


def test_types_are_told_from_values() -> None:
    assert is_type("*fp32") and is_type("*fp32:16") and is_type("bf16") and is_type("i32:1")
    assert is_type("tensordesc<fp16[64,32]>") and is_type("(i32, i64)") and is_type("**fp32")
    assert not any(map(is_type, ("fp32[8]", "781", "0.5", "true", "none", "fp32[8,8]/4,4", "x")))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("sm_90a", Target("nvptx", "sm_90a")),
        ("nvptx:sm_80", Target("nvptx", "sm_80")),
        ("opencl:amd", Target("opencl", "amd")),
        ("mma", Target("interp", "mma")),
        ("interp:wgmma", Target("interp", "wgmma")),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    ("text", "message"), [("nvptx", "has no architecture"), ("metal:m1", "no backend 'metal'")]
)
def test_wrong_targets(text: str, message: str) -> None:
    with pytest.raises((ArgumentValueError, BackendError), match=message):
        parse_target(text)


def test_too_many_types() -> None:
    with pytest.raises(ArgumentTypeError, match="5 types, and the kernel 4 parameters"):
        parse_types("i32, " * 5, scale.parameters, [])


MATMUL = [
    f"{Path(__file__).parents[1] / 'simt' / 'kernels.py'}:matmul",
    *("a_ptr=fp16[128,64]", "b_ptr=fp16[64,64]", "c_ptr=fp32[128,64]:0"),
    *("M=128", "N=64", "K=64", "BM=128", "BN=64", "BK=32"),
]


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        ("sm_75", "mma %"),
        ("sm_80", "mma %"),
        ("nvptx:sm_90a", "wgmma %"),
        ("sm_100", "mma %"),
        ("opencl:nvidia", "fma_dot %"),
        ("opencl:amd", "fma_dot %"),
    ],
)
def test_explain_knows_real_targets(
    target: str, instruction: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel is lowered as for the target: what multiplies shows."""
    if target.startswith("opencl") and importlib.util.find_spec("pyopencl") is None:
        pytest.skip("pyopencl is not installed")
    assert main(["explain", *MATMUL, "--target", target, "--ir"]) == 0
    printed = capsys.readouterr().out
    assert f"matmul on the {target.rpartition(':')[2]} machine" in printed
    assert f"= {instruction}" in printed


def test_explain_takes_kernels_of_python_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kernel.txt"
    path.write_text("", encoding="utf-8")
    assert main(["explain", f"{path}:f"]) == 1
    assert f"{path} is not a Python file" in capsys.readouterr().err


def test_explain_takes_backends_that_lower_to_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain.backends, "get", lambda name: object())
    with pytest.raises(ArgumentValueError, match="the backend nvptx does not lower kernels to th"):
        explain.lowering_target("sm_80")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("sm_10", "no architecture 'sm_10'"),
        ("interp:sm_80", "no target is named 'sm_80'"),
        ("interp", "has no architecture"),
    ],
)
def test_explain_refuses(target: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *MATMUL, "--target", target]) == 1
    assert message in capsys.readouterr().err
