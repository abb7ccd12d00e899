"""Dots: every mma instruction of every architecture, and dots of one thread."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import (
    ARCHITECTURES,
    Use,
    accept,
    around,
    assemble,
    check,
    fragment,
)
from tile import backends
from tile.backends.base import Options, Target
from tile.backends.nvptx.target import architecture
from tile.ir.declare import OPS
from tile.ir.ops.dot import ACCUMULATORS
from tile.ir.parser import parse_module
from tile.ir.types import BF16, F16, F32, F64, FP8, I8, U8, Precision, Scalar
from tile.simt.layouts.mma_fragments import MmaShape
from tile.simt.lower.reassociate_xor import reassociate_xor

OPERANDS: dict[int, tuple[Scalar, ...]] = {
    8: (I8, U8, *FP8),
    16: (F16, BF16),
    32: (F32,),
    64: (F64,),
}


def multiply(
    shape: MmaShape,
    left: Scalar,
    right: Scalar,
    acc: Scalar,
    repeats: tuple[int, int, int],
    **more: object,
) -> Use:
    m, n, k = repeats
    a = fragment(left, shape.m * shape.k // 32 * m * k)
    b = fragment(right, shape.n * shape.k // 32 * n * k)
    c = fragment(acc, shape.m * shape.n // 32 * m * n)
    attributes = {"shape": tuple(shape), "repeats": repeats, **more}
    return Use(OPS["mma"], (a, b, c), attributes)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("repeats", [(1, 1, 1), (2, 4, 2)])
def test_matrix_instructions(repeats: tuple[int, int, int], arch: str) -> None:
    target = architecture(arch)
    for shape in target.simt.mma_shapes:
        for element in OPERANDS[shape.bits]:
            if not target.simt.has_mma(shape, element):
                continue
            for acc in ACCUMULATORS[element]:
                more = {"input_precision": Precision.TF32} if element is F32 else {}
                ptx = check(around([multiply(shape, element, element, acc, repeats, **more)]), arch)
                m, n, k = repeats
                if element in FP8 and not target.has_fp8_mma:
                    name, k = "mma.sync.aligned.m16n8k16.row.col.f32.f16", 2 * k
                else:
                    name = f"mma.sync.aligned.m{shape.m}n{shape.n}k{shape.k}.row.col."
                assert ptx.count(name) == m * n * k


def test_operands_of_two_types_of_8_bit_floats() -> None:
    shape = MmaShape(16, 8, 32, 8)
    ptx = check(around([multiply(shape, FP8[0], FP8[1], F32, (1, 1, 1))]), "sm_89")
    assert "f32.e4m3.e5m2.f32" in ptx


def test_8_bit_floats_without_mma_are_converted_in_pairs() -> None:
    """From sm_90 to sm_110 the assembler would convert them, too, and add up apart."""
    for arch in ("sm_80", "sm_90a", "sm_100"):
        shape = MmaShape(16, 8, 32, 8)
        uses = [multiply(shape, FP8[0], FP8[1], F32, (2, 2, 1))]
        ptx = check(around(uses), arch)
        assert "call" not in ptx
        assert ptx.count("mma.sync.aligned.m16n8k16.row.col.f32.f16") == 8
        words = (
            8 + 8
        )  # of a left operand, and of a right one, for each instruction's rows or columns
        assert ptx.count("cvt.rn.f16x2.e4m3x2") == (0 if arch == "sm_80" else words)


STEPS = """
#i = #linear{register = [], lane = [[8],[16],[32],[64],[128]], warp = [] -> dim0 = 256}
#r = #linear{register = [[256]], lane = [[8],[16],[32],[64],[128]], warp = [] -> dim0 = 512}
#s = #linear{offset = [[1],[2],[4],[8],[16],[32],[64],[128],[256]] -> dim0 = 512}
kernel @steps(%p: ptr<f32>, %x: f16) {
  %m = local_alloc {offset = 0} : shared<512xf16, #s>
  %i = layout_index {layout = #i} : frag<1xi32>
  %j = layout_index {layout = #r} : frag<2xi32>
  %f = frag_splat %x {count = 1} : frag<1xf16>
  %c = const {value = 0.0} : frag<4xf32>
  %b = ldmatrix %m, %i : frag<8xf16>
  %a = ldmatrix %m, %j : frag<16xf16>
  BETWEEN
  %d = mma %a, %b, %c {shape = (16, 8, 16, 16), repeats = (1, 1, 2)} : frag<4xf32>
  %q = frag_splat %p {count = 4} : frag<4xptr<f32>>
  store %q, %d
  return
}
"""


@pytest.mark.parametrize(
    ("between", "order"),
    [
        ("%y = add %f, %f : frag<1xf16>", "ldmatrix ldmatrix mma ldmatrix mma"),
        ("shared_store %m, %i, %f", "ldmatrix ldmatrix ldmatrix st mma mma"),
    ],
)
def test_operands_are_loaded_just_before_their_mma(between: str, order: str) -> None:
    """An operand of two steps of k, and one that one load yields; no load moves above a store."""
    ptx = check(STEPS.replace("BETWEEN", between), "sm_80", num_warps=1)
    opcodes = re.findall(r"^\t(ldmatrix|mma)\.sync|^\t(st)\.shared", ptx, re.MULTILINE)
    assert " ".join(a or b for a, b in opcodes) == order


ALONE = """
#j = #linear{register = [REGISTERS], lane = [[0],[0],[0],[0],[0]], warp = [[0],[0]] -> dim0 = SUMS}
#i = #linear{register = [[36],[72]], lane = [[4],[8],[16],[32],[64]], warp = [[128],[256]] -> dim0 = 1024}
#s = #linear{offset = [[1],[2],[4],[8],[16],[32],[64],[128],[256],[512]] -> dim0 = 1024}
kernel @alone(%o: ptr<f32>, %n: i32, %x: f32) {
  %m = local_alloc {offset = 0} : shared<1024xf32, #s>
  %i = layout_index {layout = #i} : frag<4xi32>
  %a = frag_splat %x {count = ROWS} : frag<ROWSxf32>
  %zero = const {value = 0} : i32
  %one = const {value = 1} : i32
  %c = const {value = 0.0} : frag<SUMSxf32>
  %r = for %k = %zero to %n step %one iter(%acc = %c) : frag<SUMSxf32> {
    %f = frag_splat %k {count = 4} : frag<4xi32>
    %there = xor %i, %f : frag<4xi32>
    %b = shared_load %m, %there {vector = 1} : frag<4xf32>
    %d = fma_dot %a, %b, %acc {sizes = (1, ROWS, 4, 1)} : frag<SUMSxf32>
    yield %d
  } {num_stages = 1}
  %j = layout_index {layout = #j} : frag<SUMSxi32>
  %of = frag_splat %o {count = SUMS} : frag<SUMSxptr<f32>>
  %q = addptr %of, %j {stride = 4} : frag<SUMSxptr<f32>>
  store %q, %r
  return
}
"""


@cache
def alone(rows: int) -> list[str]:
    """The instructions of the loop of that kernel, whose threads multiply so many rows."""
    sums = 4 * rows
    bits = ", ".join(f"[{1 << bit}]" for bit in range(sums.bit_length() - 1))
    text = ALONE.replace("ROWS", str(rows)).replace("SUMS", str(sums)).replace("REGISTERS", bits)
    module = parse_module(text)
    reassociate_xor(module, target=architecture("sm_75").simt)
    ptx = check(module, "sm_75", num_warps=4)
    (loop,) = re.findall(r"^(\$L__BB\d+_\d+):(.*?)bra[^\n]*\1;", ptx, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\t(\S+.*?);", loop[1], re.MULTILINE)


@pytest.mark.parametrize(("rows", "registers"), [(4, 4), (32, 1)])
def test_indices_of_an_iteration_share_a_register_if_accumulators_take_most(
    rows: int, registers: int
) -> None:
    """Indices without the iteration: one for all that differ by constants, or each."""
    used = [re.findall(r"%r\d+", line) for line in alone(rows)]
    made = {names[0] for names in used if names}
    moved = [line for line in alone(rows) if line.startswith("xor")]
    outside = {name for line in moved for name in re.findall(r"%r\d+", line)} - made
    assert len(outside) == registers


# What makes addresses in shared memory.
INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add.s32": operator.add,
    "xor.b32": operator.xor,
    "or.b32": operator.or_,
    "and.b32": operator.and_,
    "shl.b32": operator.lshift,
}


@given(thread=st.integers(0, 127), iteration=st.integers(0, 127))
@settings(max_examples=30, deadline=None)
def test_indices_of_an_iteration_keep_their_values(thread: int, iteration: int) -> None:
    """The loop's addresses, computed from its instructions: one word for each of four registers."""
    lines = alone(32)
    (outside,) = re.findall(r"xor\.b32 \t%r\d+, (%r\d+), %r", "\n".join(lines))
    count = re.findall(r"%r\d+", lines[0])[0]
    values = {outside: 4 * thread, count: iteration - 1, "tile_shared_memory": 0}

    def number(operand: str) -> int:
        return values[operand] if operand in values else int(operand)

    opcodes = []
    for line in lines:
        kind, _, rest = line.partition(" ")
        operands = rest.strip().split(", ")
        if kind in INTEGERS:
            values[operands[0]] = INTEGERS[kind](*map(number, operands[1:]))
        elif kind == "mov.b32":
            values[operands[0]] = number(operands[1])
        elif kind == "ld.shared.b32":
            base, _, offset = operands[1].strip("[]").partition("+")
            opcodes.append(number(base) + int(offset or 0))
    assert opcodes == [4 * (4 * thread ^ moved ^ iteration) for moved in (0, 36, 72, 36 ^ 72)]


@pytest.mark.parametrize(
    ("precision", "instructions"),
    [
        (Precision.TF32, 1),
        (Precision.TF32X3, 3),
        (Precision.BF16X3, 3),
        (Precision.BF16X6, 6),
        (Precision.IEEE, 6),
    ],
)
@pytest.mark.parametrize("shape", [MmaShape(16, 8, 8, 32), MmaShape(16, 8, 16, 16)], ids=str)
def test_precisions(shape: MmaShape, precision: Precision, instructions: int) -> None:
    use = multiply(shape, F32, F32, F32, (1, 1, 1), input_precision=precision)
    assert check(around([use]), "sm_80").count("mma.sync") == instructions


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_fma_dots(arch: str) -> None:
    uses = []
    for element, accumulators in ACCUMULATORS.items():
        for acc in accumulators:
            sizes = (2, 2, 4, 4)
            a, b, c = fragment(element, 16), fragment(element, 32), fragment(acc, 16)
            uses.append(Use(OPS["fma_dot"], (a, b, c), {"sizes": sizes}))
    for precision in Precision:
        more = {"sizes": (1, 1, 2, 2), "input_precision": precision}
        uses.append(Use(OPS["fma_dot"], (fragment(F32, 2), fragment(F32, 4), fragment(F32)), more))
    check(around(uses), arch)


def test_accumulators_stay_in_registers() -> None:
    """A loop of 64 accumulators: no moves of them, and none in memory."""
    text = """
    kernel @loop(%x: ptr<f16>, %o: ptr<f32>, %n: i32) {
      %t = thread_id : i32
      %zero = const {value = 0} : i32
      %one = const {value = 1} : i32
      %c = const {value = 0.0} : frag<64xf32>
      %r = for %k = %zero to %n step %one iter(%acc = %c) : frag<64xf32> {
        %q = addptr %x, %k {stride = 2} : ptr<f16>
        %v = load %q : f16
        %a = frag_splat %v {count = 32} : frag<32xf16>
        %b = frag_splat %v {count = 16} : frag<16xf16>
        %d = mma %a, %b, %acc {shape = (16, 8, 16, 16), repeats = (4, 4, 1)} : frag<64xf32>
        yield %d
      }
      %of = frag_splat %o {count = 64} : frag<64xptr<f32>>
      %tf = frag_splat %t {count = 64} : frag<64xi32>
      %p = addptr %of, %tf {stride = 4} : frag<64xptr<f32>>
      store %p, %r
      return
    }
    """
    ptx = check(text, "sm_90a")
    loop = ptx[ptx.index("$L__BB0_2:") :] if "$L__BB0_2:" in ptx else ptx
    assert "nounroll" in ptx
    assert "spill" not in assemble(ptx, "sm_90a").replace("0 bytes spill", "")


# What multiplies tiles of 32 by 32 by 32, by the architecture.
_LATER = {F16: "m16n8k16", BF16: "m16n8k16", F32: "m16n8k8", I8: "m16n8k32", U8: "m16n8k32"}
CHOSEN: dict[str, dict[Scalar, str]] = {
    "sm_75": {F16: "m16n8k8", I8: "m8n8k16", U8: "m8n8k16"},
    "sm_80": _LATER | {F64: "m8n8k4"} | dict.fromkeys(FP8, "m16n8k16"),
    "sm_89": _LATER | {F64: "m8n8k4"} | dict.fromkeys(FP8, "m16n8k32"),
    "sm_90a": _LATER | {F64: "m16n8k16"} | dict.fromkeys(FP8, "m16n8k16"),
}

DOT = """
kernel @product(%x: ptr<{a}>, %y: ptr<{c}>) {{
  %i = arange {{start = 0, end = 1024}} : tile<1024xi32>
  %n = reshape %i {{shape = (32, 32)}} : tile<32x32xi32>
  %xs = splat %x {{shape = (32, 32)}} : tile<32x32xptr<{a}>>
  %p = addptr %xs, %n {{stride = {a_size}}} : tile<32x32xptr<{a}>>
  %ys = splat %y {{shape = (32, 32)}} : tile<32x32xptr<{c}>>
  %q = addptr %ys, %n {{stride = {c_size}}} : tile<32x32xptr<{c}>>
  %a = load %p : tile<32x32x{a}>
  %zero = const {{value = {zero}}} : tile<32x32x{c}>
  %c = dot %a, %a, %zero {{input_precision = tf32}} : tile<32x32x{c}>
  store %q, %c
  return
}}
"""


@pytest.mark.parametrize("element", ACCUMULATORS, ids=str)
@pytest.mark.parametrize("arch", CHOSEN)
def test_choice_of_instructions(arch: str, element: Scalar) -> None:
    """Whole kernels: a dot uses the widest instruction of the architecture, if it has one."""
    into = ACCUMULATORS[element][0]
    zero = "0.0" if into.is_floating() else "0"
    sizes = {"a_size": element.itemsize, "c_size": into.itemsize}
    module = parse_module(DOT.format(a=element, c=into, zero=zero, **sizes))
    artifact = backends.get("nvptx").compile(module, Target("nvptx", arch), Options())
    ptx = str(artifact.stages["ptx"])
    accept(ptx, arch)
    opcodes = re.findall(r"mma\.sync\.aligned\.(m\d+n\d+k\d+)", ptx)
    wanted = CHOSEN[arch].get(element)
    assert set(opcodes) == ({wanted} if wanted else set())


@tile.jit
def float_dots(a_ptr, b_ptr, c_ptr, m, n, k, N: tl.constexpr, K: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((N, N), tl.float32)
    a_ptrs = a_ptr + i[:, None] + j * m
    b_ptrs = b_ptr + i[:, None] + j * n
    for rest in range(k, 0, -K):
        a = tl.load(a_ptrs, mask=(i < m)[:, None] & (j < rest), other=0.0)
        b = tl.load(b_ptrs, mask=(i < n)[:, None] & (j < rest), other=0.0)
        acc += tl.dot(a, tl.trans(b), input_precision="ieee")
        a_ptrs += K * m
        b_ptrs += K * n
    tl.store(c_ptr + i[:, None] * N + i, acc)


def test_operands_of_fma_dots_are_loaded_before_them():
    """Operands are in registers by ldmatrix, too; only the rule of `mma` loads them part by part."""
    types = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32"), **dict.fromkeys("mnk", "i32")}
    kernel = tile.compile(float_dots, types, {"N": 32, "K": 16}, target="nvptx:sm_80")
    assert "ldmatrix" in kernel.asm["ptx"]
    assert "fma.rn.f32" in kernel.asm["ptx"]
