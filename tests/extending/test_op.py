"""An elementwise operation, the cube root, added from outside of `tile/`.

It takes what CONTRIBUTING.md lists: a declaration with reference semantics, a function of the
language, and a rule in the table of each emitter.
"""

from __future__ import annotations

import importlib.util
import linecache
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.running import Device
from tests.conformance.test_pure import check_all, elementwise
from tile.errors import ParseError, UnsupportedError
from tile.ir.builder import Builder
from tile.ir.declare import OPS
from tile.ir.op_definition import OpDef
from tile.ir.ops import math
from tile.ir.parser import parse_module
from tile.ir.passes import run_pipeline
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.language.base.builtin import builtin
from tile.language.base.tensor import Tensor


@builtin
def cbrt(build: Builder, x: Tensor) -> Tensor:
    """The cube root."""
    return Tensor(build(OPS["cbrt"], x.value))


@tile.jit
def cube_roots(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, cbrt(tl.load(x_ptr + i, i < n)), i < n)


@pytest.fixture
def defn(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpDef]:
    """The operation, with a rule for every emitter whose packages are installed."""
    with OPS.scope():
        declared = math.declare("cbrt", "The cube root.", np.cbrt, ulp=2, domain=(-1e30, 1e30))
        for table, rule in rules():
            monkeypatch.setitem(table, declared, rule)
        yield declared


def rules() -> Iterator[tuple[dict[OpDef, Any], Any]]:
    """Yield the tables of emitters, and the rule for each."""
    from tile.backends.nvptx.emit import RULES as NVPTX_RULES
    from tile.backends.nvptx.emit.math import real

    yield NVPTX_RULES, real  # a call of libdevice's function of that name
    if importlib.util.find_spec("pyopencl") is not None:
        from tile.backends.opencl.emit import RULES as OPENCL_RULES
        from tile.backends.opencl.emit.arith import each

        yield OPENCL_RULES, lambda builder, op: each(builder, op, lambda x: f"cbrt({x})")


def test_kernel(defn: OpDef, target: str) -> None:
    """A kernel that calls the function, in two programs, the second of them masked."""
    x = np.linspace(-3, 1e6, 200, dtype=np.float32) ** 3
    y = np.zeros_like(x)
    with tile.backend(target):
        cube_roots[(2,)](x, y, x.size, B=128)
    np.testing.assert_array_max_ulp(y, np.cbrt(x.astype(np.float64)).astype(np.float32), 2)


def test_conformance(defn: OpDef, target: str) -> None:
    """The conformance suite's cases: all ranks and dtypes, with infinities and NaNs."""
    check_all(Device(target), elementwise(defn))


def test_ptx(defn: OpDef, architecture: str) -> None:
    from tests.backends.nvptx.assembling import assemble

    for dtype in ("fp32", "fp64"):
        signature = {"x_ptr": f"*{dtype}", "y_ptr": f"*{dtype}", "n": "i32"}
        compiled = tile.compile(cube_roots, signature, {"B": 128}, target=f"nvptx:{architecture}")
        assert "cbrt" in compiled.asm["llvm"]
        assemble(compiled.asm["ptx"], architecture)


TEXT = """\
func @f(%x: tile<8xf32>) -> (tile<8xf32>) {
  %y = cbrt %x : tile<8xf32>
  return %y
}
"""


def test_text_and_folding(defn: OpDef) -> None:
    """Parser, printer and verifier know the operation; constants are folded, splats sink."""
    module = parse_module(TEXT)
    verify(module)
    assert print_module(module) == TEXT
    folded = canonical("""
        func @f(%x: f32) -> (f64, tile<8xf32>) {
          %c = const {value = 27.0} : f64
          %s = splat %x {shape = (8)} : tile<8xf32>
          %y = cbrt %c : f64
          %z = cbrt %s : tile<8xf32>
          return %y, %z
        }""")
    assert "value = 3.0" in folded and "= cbrt %x : f32" in folded


def canonical(text: str) -> str:
    module = parse_module(text)
    run_pipeline(module, "canonicalize,dce")
    return print_module(module)


def test_type_rule(defn: OpDef) -> None:
    with pytest.raises(ParseError, match="cbrt is not defined on i32; it takes f32, f64"):
        parse_module(TEXT.replace("f32", "i32"))


def test_an_emitter_without_a_rule(defn: OpDef, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the operation and the user's line."""
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    for table, _ in rules():
        monkeypatch.delitem(table, defn)
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    with pytest.raises(UnsupportedError, match="cbrt") as caught:
        tile.compile(cube_roots, signature, {"B": 128}, target="nvptx:sm_80")
    loc = caught.value.loc
    assert loc is not None and "cbrt(" in linecache.getline(loc.file, loc.line)


def test_nothing_is_left_behind() -> None:
    """After a test the operation is unknown again."""
    assert "cbrt" not in OPS
    assert all(not any(d.name == "cbrt" for d in table) for table, _ in rules())
    with pytest.raises(ParseError, match="cbrt"):
        parse_module(TEXT)
