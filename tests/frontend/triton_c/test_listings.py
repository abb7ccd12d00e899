"""Listings 1 and 8 of the Triton paper, verbatim, and the corrected listing 1."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tile
import tile.language as tl
from tile import triton_c
from tile.frontend.python.code_generator import compile_function
from tile.ir.parameters import Argument
from tile.ir.types import F32, I32, Pointer
from tile.transforms.pass_pipeline import optimize

EXAMPLES = Path(__file__).parents[3] / "examples"
FOLDER = EXAMPLES / "triton_c"
TILES = {"TM": 32, "TN": 16, "TK": 8}


def optimized(function, types, constants):
    """The optimized IR of a kernel, without names, and without promises of its parameters."""
    module = compile_function(function, types, constants)
    module.kernel.arguments = [Argument(a.divisible) for a in module.kernel.arguments]
    module.kernel.name = "kernel"
    for op in module.walk():
        for value in [*op.results, *(arg for region in op.regions for arg in region.args)]:
            value.name = ""
    for value in module.kernel.args:
        value.name = ""
    return optimize(module).stages["tile-optimized"]


def port_of_listing_1():
    spec = importlib.util.spec_from_file_location("matmul_nt", EXAMPLES / "matmul_nt.py")
    sys.path.insert(0, str(EXAMPLES))
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLES))
    return module.matmul_nt_kernel.fn


@tile.jit
def port_of_listing_8(
    a, b, c, M, N, K, delta, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr
):
    rxa = tl.program_id(0) * TM + tl.arange(0, TM)
    ryb = tl.program_id(1) * TN + tl.arange(0, TN)
    rka = tl.arange(0, TK)
    C = tl.zeros([TM, TN], tl.float32)
    pxa = tl.broadcast_to(a + rxa[:, None], [TM, TK])
    pb = b + ryb[:, None] + rka * N
    pd = delta + rka
    for _ in range(K, 0, -TK):
        offsets = tl.load(pd)
        pa = pxa + offsets[None, :]
        C = tl.dot(tl.load(pa), tl.trans(tl.load(pb)), C, input_precision="ieee")
        pb = pb + TK * N
        pd = pd + TK
    pc = c + rxa[:, None] + ryb * M
    check_rows = rxa < M
    check_columns = ryb < N
    tl.store(pc, C, check_rows[:, None] & check_columns)


def shift_program(**values):
    with pytest.warns(RuntimeWarning, match="hides"):
        return triton_c.load(FOLDER / "listing8.tc", **values)


def test_ir_of_the_corrected_listing_is_that_of_the_python_port():
    kernel = triton_c.load(FOLDER / "matmul_nt.tc").matmul_nt.jit
    types = {**dict.fromkeys("abc", Pointer(F32)), **dict.fromkeys("MNK", I32)}
    assert optimized(kernel, types, TILES) == optimized(port_of_listing_1(), types, TILES)


def test_ir_of_listing_8_is_that_of_the_python_port():
    zeros = np.zeros(8, np.int32)
    kernel = shift_program(C=8, H=4, W=4, shift_h=zeros, shift_w=zeros).shift_conv.jit
    types = {
        **dict.fromkeys("abc", Pointer(F32)),
        **dict.fromkeys("MNK", I32),
        "delta": Pointer(I32),
    }
    assert optimized(kernel, types, TILES) == optimized(port_of_listing_8, types, TILES)


def test_listing_1_multiplies_square_matrices():
    n = 48
    rng = np.random.default_rng(0)
    a, b = (np.asfortranarray(rng.integers(-4, 5, (n, n)).astype(np.float32)) for _ in "ab")
    c = np.empty((n, n), np.float32, order="F")
    kernel = triton_c.load(FOLDER / "listing1.tc").matmul_nt
    kernel[lambda meta: (tile.cdiv(n, meta["TM"]), tile.cdiv(n, meta["TN"]))](
        a, b, c, n, n, n, **TILES
    )
    np.testing.assert_array_equal(c, a @ b.T)


def test_tunables_that_are_left_out_are_tuned():
    n = 32
    a = np.asfortranarray(np.arange(n * n, dtype=np.float32).reshape(n, n) % 7)
    c = np.empty((n, n), np.float32, order="F")
    kernel = triton_c.load(FOLDER / "matmul_nt.tc").matmul_nt
    seen = []

    def grid(meta):
        seen.append((meta["TM"], meta["TN"], meta["TK"]))
        return tile.cdiv(n, meta["TM"]), tile.cdiv(n, meta["TN"])

    kernel[grid](a, a, c, n, n, n, TN=32)
    np.testing.assert_array_equal(c, a @ a.T)
    assert {tiles[0] for tiles in seen} == {32, 128}
    assert {tiles[1:] for tiles in seen} == {(32, 16)}


def test_tunables_are_dimensions_of_the_space():
    a, c = np.zeros((64, 64), np.float32, order="F"), np.zeros((64, 64), np.float32, order="F")
    kernel = triton_c.load(FOLDER / "matmul_nt.tc").matmul_nt
    with tile.backend("interp:generic"):
        space = kernel.space(a, a, c, 64, 64, 64, TN=32)
    values = {dimension.name: dimension.values for dimension in space.dimensions}
    assert (values["TM"], values["TK"]) == ((32, 128), (16,)) and "TN" not in values
    assert {"num_warps", "thread_tile", "warp_rows"} <= {*values}


def test_many_choices_of_tunables_are_searched():
    texts = [f"const tunable int {name} = {{1, 2, 4, 8, 16}};" for name in ("TM", "TN", "TK")]
    program = triton_c.compile(
        "\n".join(texts) + "\nkernel void fill(float* x, int n) "
        "{ int i[TM] = 0 ... TM; int j[TN] = 0 ... TN; int k[TK] = 0 ... TK; *(x + i) = 3; }"
    )
    tuner = program.fill._tuner(frozenset({"TM", "TN", "TK"}))
    assert (tuner.search, len(tuner.configs)) == ("auto", 125)
    assert program.fill._tuner(frozenset({"TM", "TN"})).search == "exhaustive"


def test_host_statements_fill_the_constant_array():
    rng = np.random.default_rng(0)
    heights, widths = rng.integers(0, 3, (2, 20))
    program = shift_program(C=20, H=5, W=7, shift_h=heights, shift_w=widths)
    delta = program.shift_conv.constants["delta"]
    assert delta.dtype == np.int32 and delta.shape == (512,)
    np.testing.assert_array_equal(delta[:20], np.arange(20) * 35 + heights * 7 + widths)
    np.testing.assert_array_equal(delta[20:], 0)


def test_listing_8_convolves():
    channels, size, filters = 16, 8, 16
    rng = np.random.default_rng(0)
    shifts = rng.integers(0, 2, (2, channels))
    program = shift_program(C=channels, H=size, W=size, shift_h=shifts[0], shift_w=shifts[1])
    image = rng.integers(-4, 5, channels * size * size + size * size).astype(np.float32)
    b = rng.integers(-4, 5, (channels, filters)).astype(np.float32)
    pixels = 32
    out = np.empty((filters, pixels), np.float32)
    program.shift_conv[(2, 1)](image, b, out, pixels, filters, channels, TM=16, TN=16, TK=8)
    starts = np.arange(channels) * size * size + shifts[0] * size + shifts[1]
    shifted = np.stack([image[start : start + pixels] for start in starts])
    np.testing.assert_array_equal(out, b.T @ shifted)


def test_importing_tile_does_not_load_lark():
    code = "import sys, tile, tile.language; assert 'lark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
