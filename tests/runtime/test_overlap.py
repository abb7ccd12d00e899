"""Overlap of arrays, and the launches that it concerns."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.kernels import add
from tile import triton_c
from tile.errors import ArgumentValueError
from tile.runtime.arguments.device_arrays import DeviceArray
from tile.runtime.arguments.overlap import may_overlap
from tile.runtime.kernel_cache import load_kernel, store_kernel

BASE = np.zeros((16, 16), np.float32)


def on_device(array: np.ndarray, device: str = "cuda:0") -> DeviceArray:
    """Return an array as if it were in a device's memory."""
    address = array.ctypes.data
    return DeviceArray(
        None, device, array.dtype, array.shape, array.strides, address, True, array.copy, print
    )


@pytest.mark.parametrize(
    ("x", "y", "overlap"),
    [
        (BASE, BASE, True),
        (BASE[:8], BASE[8:], False),
        (BASE[:9], BASE[8:], True),
        (BASE[::-1][:8], BASE[:8], False),
        (BASE[:, :8], BASE[:, 8:], True),  # of their ranges
        (BASE[:, :8].T, BASE[15, 8:], False),
        (BASE[:0], BASE, False),
        (BASE, np.zeros((16, 16), np.float32), False),
    ],
)
def test_overlap_of_address_ranges(x: np.ndarray, y: np.ndarray, overlap: bool) -> None:
    for one, other in ((x, y), (y, x)):
        assert may_overlap(one, other) is overlap
        assert may_overlap(on_device(one), on_device(other)) is overlap
        assert may_overlap(one, on_device(other)) is overlap


def test_memory_without_addresses_may_overlap_any() -> None:
    buffer = on_device(BASE[:8], "opencl:1")
    assert may_overlap(buffer, on_device(BASE[8:], "opencl:1"))
    assert may_overlap(BASE[8:], buffer)


# -- promises of a signature, and in C


SIGNATURE = {"x_ptr": "*fp32:noalias", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}


def test_a_promise_of_the_signature_is_checked() -> None:
    kernel = tile.compile(add, SIGNATURE, {"BLOCK": 16}, target="interp")
    assert "%x_ptr: ptr<f32> {noalias}" in kernel.asm["tile"]
    x, y, out = np.ones((3, 16), np.float32)
    kernel[1,](x, x, out, 16)
    kernel[1,](x, out, out, 16)
    np.testing.assert_array_equal(out, 3)
    with pytest.raises(ArgumentValueError, match=r"'x_ptr' of add\(\) is noalias.*'out_ptr'"):
        kernel[1,](out, y, out, 16)
    np.testing.assert_array_equal(out, 3)


C = """
kernel void scale(restrict read_only float* x, const float* y, float* out,
                  float* __restrict__ restricted) {
  int i[16] = 0 ... 16;
  *(out + i) = *(x + i) * *(y + i);
  *(restricted + i) = *(x + i);
}
"""


def test_restrict_and_read_only_are_attributes_in_the_ir() -> None:
    kernel = triton_c.compile(C).scale
    x, y, out, z = np.full((4, 16), 2, np.float32)
    compiled = kernel[1,](x, y, out, z)
    np.testing.assert_array_equal(out, 4)
    text = next(x for x in compiled.asm["tile"].splitlines() if "kernel" in x)
    flags = [part.partition("{")[2].partition("}")[0] for part in text.split("%")[1:]]
    aligned = "divisible = 16"
    assert [flag.replace(f"{aligned}, ", "").replace(aligned, "") for flag in flags] == [
        "readonly, noalias",
        "readonly",
        "",
        "noalias",
    ]


def test_a_launch_that_breaks_restrict_is_refused() -> None:
    kernel = triton_c.compile(C).scale
    x, y, out, z = np.full((4, 16), 2, np.float32)
    kernel[1,](x, x, out, z)
    kernel[1,](x, out, out, z)
    for arrays, words in (
        ((out, y, out, z), r"'x' of scale\(\) is noalias \(in C, restrict\).*overlaps.*'out'"),
        ((x, y, z, z), r"'restricted' of scale\(\) is noalias"),
    ):
        with pytest.raises(ArgumentValueError, match=words) as caught:
            kernel[1,](*arrays)
        assert "pass arrays that do not overlap" in str(caught.value)


# -- kernels that run


@tile.jit
def running_product(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i) * tl.load(w_ptr))


def product_in_order(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
    for at in range(0, len(x), 16):
        out[at : at + 16] = x[at : at + 16] * w[0]


@pytest.mark.parametrize("target", ["interp", "interp:mma"])
@pytest.mark.parametrize("shift", [0, 16, 32])
def test_launches_with_overlap_have_one_version(monkeypatch, shift: int, target: str) -> None:
    """The interpreter relies on nothing: a block reads what the block before has written."""
    monkeypatch.setenv("TILE_BACKEND", target)
    array = np.arange(96, dtype=np.float32)
    expected, w = array.copy(), np.full(1, 2, np.float32)
    product_in_order(expected[:64], w, expected[shift : shift + 64])
    kernel = running_product[1,](array[:64], w, array[shift : shift + 64], 64, BLOCK=16)
    np.testing.assert_array_equal(array, expected)
    assert "noalias" not in str(kernel.signature)


# -- threads that exchange data through arrays that overlap


@tile.jit
def shifted(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in tl.range(0, n, BLOCK, num_stages=2):
        i = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + i + 1, tl.load(x_ptr + i) * 2)


@tile.jit
def reverse(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + (BLOCK - 1 - i), tl.load(x_ptr + i))


@tile.jit
def double(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * 2)


def numbers(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(1, 9, count).astype(np.float32)


@pytest.mark.parametrize("target", ["interp", "interp:plain", "interp:mma", "interp:wgmma"])
def test_a_loop_reads_what_it_wrote_through_another_parameter(monkeypatch, target: str) -> None:
    """A load that is prefetched before the store of the iteration before would be of old data."""
    monkeypatch.setenv("TILE_BACKEND", target)
    array = numbers(257)
    expected = array.copy()
    for start in range(0, 256, 64):
        expected[start + 1 : start + 65] = expected[start : start + 64] * 2
    x = array.copy()
    apart = shifted[1,](x, np.zeros_like(x), 256, BLOCK=64)
    for _ in range(2):
        again = array.copy()
        in_place = shifted[1,](again, again, 256, BLOCK=64)
        np.testing.assert_array_equal(again, expected)
    simulated = target != "interp"
    assert apart.artifact.disjoint == ({("x_ptr", "out_ptr")} if simulated else set())
    assert (in_place is not apart) is simulated
    assert not in_place.artifact.disjoint
    again = array.copy()
    apart[1,](again, again, 256)  # the compiled kernel itself chooses, too
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize(
    ("kernel", "relies"), [(reverse, True), (double, False)], ids=["reverse", "double"]
)
def test_only_accesses_at_different_offsets_rely_on_disjoint_arrays(
    monkeypatch, kernel, relies: bool
) -> None:
    monkeypatch.setenv("TILE_BACKEND", "interp:mma")
    array = numbers(256)
    expected = array[::-1].copy() if relies else array * 2
    compiled = kernel[1,](array, np.zeros_like(array), BLOCK=256)
    assert bool(compiled.artifact.disjoint) is relies
    assert (kernel[1,](array, array, BLOCK=256) is compiled) is not relies
    np.testing.assert_array_equal(array, expected)


def test_a_kernel_compiled_for_aliased_pointers_relies_on_nothing() -> None:
    signature = {"x_ptr": "*fp32:aliased", "out_ptr": "*fp32:aliased", "n": "i32"}
    kernel = tile.compile(shifted, signature, {"BLOCK": 64}, target="interp:mma")
    assert "{aliased}" in kernel.asm["tile"]
    assert not kernel.artifact.disjoint


def test_what_code_relies_on_is_kept_in_the_cache(monkeypatch, tmp_path) -> None:
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("TILE_CACHE", "1")
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    artifact = tile.compile(
        shifted,
        {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"},
        {"BLOCK": 64},
        target="nvptx:sm_80",
    ).artifact
    assert artifact.disjoint == {("x_ptr", "out_ptr")}
    store_kernel("some key", artifact)
    loaded = load_kernel("some key")
    assert loaded is not None and loaded.disjoint == artifact.disjoint
