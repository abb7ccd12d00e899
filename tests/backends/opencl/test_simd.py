"""Text for CPUs whose runtimes run work-items as SIMD lanes: contiguous accesses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import tile
import tile.language as tl
from tests.backends.opencl.conftest import REASON
from tile.backends.base import Options
from tile.backends.opencl.compiler import emit_module
from tile.backends.opencl.emit.registers import of_thread
from tile.backends.opencl.target import NAMED, SIMD_CPU
from tile.codegen.emitter import is_operand_load
from tile.ir.core import Operation
from tile.ir.ops import arith
from tile.ir.parser import parse_module
from tile.simt import ops
from tile.simt.lower.xor_to_add import ANY, KnownBits, xor_to_add

CPU = replace(NAMED["generic"], name="cpu", **SIMD_CPU)

# Operands of 8 x 2 and 2 x 1, of which the first is read at an offset that only a bit is added to.
OPERANDS = """
#a = #linear{register = [[32],[64],[128],[256]], lane = [[1],[2],[4],[8],[16]], warp = [] ->
  offset = 512}
#m = #linear{offset = [[1],[2],[4],[8],[16],[32],[64],[128],[256],[512]] -> dim0 = 1024}

kernel @operands_kernel(%x: ptr<f32>, %n: i32) {
  %i = layout_index {layout = #a} : frag<16xi32>
  %one = const {value = 1} : i32
  %nine = const {value = 9} : i32
  %bit = and %n, %one : i32
  %half = shl %bit, %nine : i32
  %halves = frag_splat %half {count = 16} : frag<16xi32>
  %at = xor %i, %halves : frag<16xi32>
  %mem = local_alloc {offset = 0} : shared<1024xf32, #m>
  %a = shared_load %mem, %at : frag<16xf32>
  BETWEEN
  %f = load %x : f32
  %b = frag_splat %f {count = 2} : frag<2xf32>
  %c = frag_splat %f {count = 8} : frag<8xf32>
  %turned = frag_shuffle %a {registers = linear[2, 4, 8, 1]}
    : frag<16xf32>
  %d = fma_dot %turned, %b, %c {sizes = (1, 8, 1, 2)} : frag<8xf32>
  BEHIND
  %p = frag_splat %x {count = 8} : frag<8xptr<f32>>
  store %p, %d
  return
}
"""
AGAIN = """%s = mul %turned, %turned : frag<16xf32>
  %q = frag_splat %x {count = 16} : frag<16xptr<f32>>
  store %q, %s"""


def operands_kernel(between: str = "", behind: str = "") -> str:
    return OPERANDS.replace("BETWEEN", between).replace("BEHIND", behind)


def emitted(text: str) -> str:
    module = parse_module(text)
    xor_to_add(module, simd_width=CPU.simd_width)
    return emit_module(module, CPU, Options(num_warps=1))[0]


def test_adjacent_registers_differ_by_the_addend() -> None:
    text = emitted(operands_kernel())
    assert "uint lane = get_local_id(0), part = get_local_id(1);" in text
    assert "uint at = (thread + ((h & 4) * 8 + (h & 3) * 128 + k * 64)) + v_half_;" in text
    assert "^" not in text
    assert "|" not in text
    assert "mem[(int)at]" in text


@pytest.mark.parametrize(
    ("images", "text"),
    [
        ((2, 1, 4, 8), "((lane & 2) >> 1) + (lane & 12) + max(((lane & 1) << 1), 0u)"),
        ((8, 4, 0, 0), "((lane & 2) << 1) + max(((lane & 1) << 3), 0u)"),
        ((8, 1, 2, 4), "((lane & 14) >> 1) + ((lane & 1) << 3)"),
        ((1, 4, 2, 8), "((lane & 4) >> 1) + (lane & 9) + ((lane & 2) << 1)"),
    ],
)
def test_a_reversal_of_bits_is_hidden(images: tuple[int, ...], text: str) -> None:
    assert of_thread(images, 16, without_bit_reversal=True) == text
    assert "max" not in of_thread(images, 16)


def test_operands_are_multiplied_in_place() -> None:
    text = emitted(operands_kernel())
    assert text.index("for (uint k = 0") < text.index("mem[(int)at]") < text.index("= dot_f32(a")
    assert "a[16]" not in text
    copied = replace(CPU, dot_from_local=False)
    assert "a[16]" in emit_module(parse_module(operands_kernel()), copied, Options(num_warps=1))[0]


@pytest.mark.parametrize(
    ("between", "behind", "still"),
    [
        ("", "", True),
        ("%other = local_alloc {offset = 4096} : shared<1024xf32, #m>", "", True),
        ("%other = shared_load %mem, %i : frag<16xf32>", "", True),
        ("barrier", "", False),  # behind it another thread may write
        ("shared_store %mem, %at, %a", "", False),
        ("", "barrier", True),
        ("", AGAIN, False),  # which may be anywhere, even in a loop
    ],
)
def test_what_can_be_read_in_place(between: str, behind: str, still: bool) -> None:
    module = parse_module(operands_kernel(between, behind))
    (load,) = (op for op in module.walk() if op.defn is ops.thread.shared_load and _is(op, "a"))
    assert is_operand_load(load) == still


def _is(op: Operation, name: str) -> bool:
    return op.result.name == name


REACHED = {
    "const {value = 12} : i32": 12,
    "const {value = -1} : i32": ANY,
    "and %n, %c : i32": 12,
    "shl %c, %two : i32": 48,
    "shl %c, %c : i32": 12 << 12,
    "shl %c, %n : i32": ANY,
    "shl %c, %far : i32": 0,
    "xor %c, %two : i32": 14,
    "or %c, %two : i32": 14,
    "add %c, %two : i32": ANY,
}


@pytest.mark.parametrize("text", REACHED)
def test_bits_that_numbers_can_have(text: str) -> None:
    module = parse_module(
        f"""
kernel @reached(%x: ptr<i32>, %n: i32) {{
  %c = const {{value = 12}} : i32
  %two = const {{value = 2}} : i32
  %far = const {{value = 40}} : i32
  %found = {text}
  store %x, %found
  return
}}
"""
    )
    reach = KnownBits()
    (found,) = (op.result for op in module.walk() if op.results and _is(op, "found"))
    assert reach.of(found) == REACHED[text]
    assert reach.of(module.kernel.args[1]) == ANY


def test_operands_without_a_bit_in_common() -> None:
    (op,) = (op for op in parse_module(operands_kernel()).walk() if op.defn is arith.xor)
    assert KnownBits().disjoint(op)
    inside = operands_kernel().replace("%nine = const {value = 9}", "%nine = const {value = 8}")
    (op,) = (op for op in parse_module(inside).walk() if op.defn is arith.xor)
    assert not KnownBits().disjoint(op)
    assert "^" in emitted(inside)


@tile.jit
def sums_kernel(a_ptr, b_ptr, bias_ptr, out_ptr, K, M: tl.constexpr, BK: tl.constexpr):
    rows, inner = tl.arange(0, M), tl.arange(0, BK)
    bias = tl.sum(tl.load(bias_ptr + rows[:, None] * M + rows[None, :]), axis=1)
    total = tl.zeros((M, M), dtype=tl.float32)
    for first in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + first + inner[None, :])
        b = tl.load(b_ptr + (first + inner)[:, None] * M + rows[None, :])
        step = tl.dot(a, b, input_precision="ieee")
        total += step - bias[:, None]
    tl.store(out_ptr + rows[:, None] * M + rows[None, :], total)


@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_a_value_that_is_no_operand_is_read_before_it_is_overwritten() -> None:
    """Rows of sums go through the memory in which operands come to be."""
    rng = np.random.default_rng(0)
    a, b, bias = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(3))
    out = np.zeros((64, 64), np.float32)
    with tile.backend("opencl"):
        sums_kernel[(1,)](a, b, bias, out, 64, M=64, BK=16)
    np.testing.assert_allclose(out, a @ b - 4 * bias.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)
