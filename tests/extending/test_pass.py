"""A pass on tiles, added from outside of `tile/`: a product with two becomes a sum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tile
import tile.language as tl
from tests.analysis.random_ir import functions
from tests.filecheck import check
from tests.transforms.test_semantics import arguments, results
from tile.errors import PassError
from tile.ir.builder import Builder
from tile.ir.effects import constant_of
from tile.ir.module import Module
from tile.ir.ops import arith
from tile.ir.parser import parse_module
from tile.ir.passes import PASSES, module_pass, parse_pipeline, run_pipeline
from tile.ir.printer import print_module
from tile.ir.types import I8, I32, U32, Scalar
from tile.ir.verifier import verify
from tile.tools.cli import main
from tile.transforms import pass_pipeline

NAME = "double-by-adding"


def double_by_adding(module: Module, *, floats: bool = True) -> None:
    """Replace products with the constant two by sums; those of floats with `floats` only.

    %y = mul %x, %c2 : i32                %y = add %x, %x : i32
    """
    for op in list(module.walk()):
        if op.defn is arith.mul and constant_of(op["y"]) == 2:
            if floats or not op.result.type.element.is_floating():
                op.replace_by([Builder.before(op)(arith.add, op["x"], op["x"])])
                op.erase()


@pytest.fixture(scope="module", autouse=True)
def declared() -> Iterator[None]:
    with PASSES.scope():
        module_pass(NAME)(double_by_adding)
        yield


@pytest.fixture
def in_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the pass after all others on tiles, for every backend."""
    pipeline = (*pass_pipeline.TILE, *parse_pipeline(f"{NAME},dce"))
    monkeypatch.setattr(pass_pipeline, "TILE", pipeline)


TEXT = """\
// CHECK-LABEL: func @f
// CHECK: [[a:%\\w+]] = add %x, %x : i32
// CHECK: [[b:%\\w+]] = add %y, %y : f32
// CHECK: return [[a]], [[b]]
// CHECK-LABEL: func @g
// CHECK: mul %x
// CHECK: mul %y
func @f(%x: i32, %y: f32) -> (i32, f32) {
  %c2 = const {value = 2} : i32
  %d2 = const {value = 2.0} : f32
  %a = mul %x, %c2 : i32
  %b = mul %y, %d2 : f32
  return %a, %b
}
func @g(%x: i32, %y: i32) -> (i32, i32) {
  %c3 = const {value = 3} : i32
  %a = mul %x, %c3 : i32
  %b = mul %y, %x : i32
  return %a, %b
}
"""


def test_text() -> None:
    module = parse_module(TEXT)
    run_pipeline(module, NAME)
    verify(module)
    check(TEXT, print_module(module))


def test_option(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    """`tile opt` takes the pass with its option, and lists it."""
    (tmp_path / "f.tile").write_text(TEXT)
    assert main(["opt", str(tmp_path / "f.tile"), "-p", f"{NAME}{{floats=false}}"]) == 0
    printed = capsys.readouterr().out
    assert "add %x, %x : i32" in printed and "mul %y, %d2 : f32" in printed
    assert main(["opt", "--list"]) == 0
    assert f"{NAME}{{floats=true}}" in capsys.readouterr().out


@pytest.mark.parametrize("element", [I32, I8, U32], ids=str)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_results_are_the_same(element: Scalar, data: Any) -> None:
    module = Module([data.draw(functions(element, returning=True))])
    numbers, program = arguments(data, module["f"]), data.draw(st.integers(0, 20))
    expected = results(module["f"], numbers, program)
    run_pipeline(module, f"canonicalize,{NAME}")
    verify(module)
    actual = results(module["f"], numbers, program)
    assert all(np.array_equal(x, y) for x, y in zip(expected, actual, strict=True))


@tile.jit
def doubled(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, 2 * tl.load(x_ptr + i))


def test_kernel(in_pipeline: None, target: str) -> None:
    x = np.arange(128, dtype=np.float32)
    y = np.zeros_like(x)
    with tile.backend(target):
        compiled = doubled[(1,)](x, y, B=128)
    np.testing.assert_array_equal(y, 2 * x)
    assert "mul" not in compiled.asm["tile-optimized"]


def test_ptx(in_pipeline: None, architecture: str) -> None:
    from tests.backends.nvptx.assembling import assemble

    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32"}
    compiled = tile.compile(doubled, signature, {"B": 128}, target=f"nvptx:{architecture}")
    assert "fadd" in compiled.asm["llvm"] and "fmul" not in compiled.asm["llvm"]
    assemble(compiled.asm["ptx"], architecture)


def test_nothing_is_left_behind() -> None:
    with PASSES.scope():
        module_pass("only-here")(lambda module: None)
        assert PASSES["only-here"].name == "only-here"
    with pytest.raises(PassError, match="no pass is named `only-here`"):
        parse_pipeline("only-here")
    assert all(item.defn.name != NAME for item in pass_pipeline.TILE)
