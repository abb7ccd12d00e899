"""Conversions of narrow floats on every OpenCL runtime, bit by bit, against NumPy's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import pyopencl as cl

from tile.backends.base import Options
from tile.backends.opencl import devices
from tile.backends.opencl.emit.helper_functions import entry
from tile.backends.opencl.emit.module import Source
from tile.backends.opencl.target import NAMED
from tile.errors import BackendError
from tile.ir import semantics
from tile.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, Scalar

try:
    DEVICES = {devices.describe(device): device for device in devices.all_devices()}
except BackendError:
    DEVICES = {}

# What a compiler has to say is no concern of these tests.
pytestmark = pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")

NARROW = {"f16": F16, "bf16": BF16, "f8e4m3": F8E4M3, "f8e5m2": F8E5M2}
HELD = {1: "uchar", 2: "ushort"}
CHOICE = re.compile(r"\? \w+ : \w+\b(?! ?[(+|&])")
NAN_BITS = (0x7F800001, 0x7F801FFF, 0x7FA00000, 0x7FC00000, 0x7FFFFFFF)


def program(name: str, f16_by_bits: bool, of: str, to: str) -> str:
    """A kernel that calls the function on elements."""
    wanted, texts = [name], []
    while wanted:
        actual = entry(wanted.pop(), f16_by_bits)
        wanted += actual.needs
        texts.insert(0, actual.text)
    body = f"out[get_global_id(0)] = {name}(x[get_global_id(0)]);"
    kernel = f"__kernel void each(__global const {of} *x, __global {to} *out) {{ {body} }}"
    return "\n".join(["#pragma OPENCL FP_CONTRACT OFF", *texts, kernel])


def on(device: cl.Device, text: str, x: np.ndarray, to: type[np.generic]) -> np.ndarray:
    """Run the kernel on these elements."""
    context = cl.Context([device])
    queue = cl.CommandQueue(context, device)
    flags = cl.mem_flags
    input_buffer = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
    out = np.empty(x.shape, to)
    taken = cl.Buffer(context, flags.WRITE_ONLY, out.nbytes)
    options = list(devices.capabilities(device).build_options)
    built = cl.Program(context, text).build(options, cache_dir=False)
    cl.Kernel(built, "each")(queue, x.shape, None, input_buffer, taken)
    cl.enqueue_copy(queue, out, taken)
    return out


def keeps_subnormals(device: cl.Device) -> bool:
    """Return True if a device has subnormal f32, which the bits of subnormal f16 become."""
    return bool(device.single_fp_config & cl.device_fp_config.DENORM)


def edges(ty: Scalar) -> Iterator[np.ndarray]:
    """Bits of f32 at which rounding to a type changes.

    Those of its numbers, those half-way between adjacent ones, what is next to both, and what is
    beyond the greatest.
    """
    held = np.arange(1 << (ty.bits - 1), dtype=f"u{ty.itemsize}")  # without a sign
    numbers = semantics.cast(held.view(semantics.numpy_dtype(ty)), F32)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    beyond = numbers[-1] + (numbers[-1] - numbers[-2]) / 2
    between = numbers[:-1] + (numbers[1:] - numbers[:-1]) / 2
    tops = np.array([beyond, np.finfo(np.float32).max, np.inf], np.float32)
    bits = np.concatenate([numbers, between, tops]).view(np.uint32).astype(np.int64)
    for step in (-1, 0, 1):
        moved = np.clip(bits + step, 0, 0x7F800000).astype(np.uint32)
        yield moved
        yield moved | np.uint32(1 << 31)


def same(actual: np.ndarray, expected: np.ndarray) -> None:
    """NaNs have no certain bits, but stay NaNs."""
    missing = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(actual), missing)
    bits = f"u{actual.itemsize}"
    np.testing.assert_array_equal(actual.view(bits)[~missing], expected.view(bits)[~missing])


@pytest.mark.parametrize("name", [f"{n}_to_f32" for n in NARROW] + [f"f32_to_{n}" for n in NARROW])
def test_nothing_branches(name: str) -> None:
    """Clang makes a branch of `?:` with expressions behind it, which PoCL then does not unmake."""
    text = entry(name, f16_by_bits=True).text
    assert "if" not in text and "half" not in text
    assert len(CHOICE.findall(text)) == text.count("?")


@pytest.mark.parametrize("name", NAMED)
def test_f16_is_emulated_by_bits_on_cpus_only(name: str) -> None:
    assert not NAMED[name].f16_by_bits
    cpu = replace(NAMED[name], fp16=False, f16_by_bits=True)
    texts = []
    for device in (cpu, replace(cpu, f16_by_bits=False)):
        source = Source(device, Options(), 0, False, frozenset())
        source.use("f8e5m2_to_f32")
        source.use("f32_to_f16")
        texts.append("\n".join(line.text for line in source.lines()))
    bits, words = texts
    assert "vload_half" in words and "vstore_half_rte" in words
    assert "half" not in bits


@pytest.mark.parametrize("device", DEVICES)
def test_what_a_device_is_asked_for(device: str) -> None:
    raw = DEVICES[device]
    actual = devices.capabilities(raw)
    assert actual.f16_by_bits == bool(raw.type & cl.device_type.CPU)
    assert not actual.f16_by_bits or keeps_subnormals(raw)


@pytest.mark.parametrize("f16_by_bits", [False, True])
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("device", DEVICES)
def test_narrow_floats_become_f32(device: str, name: str, f16_by_bits: bool) -> None:
    if f16_by_bits and not keeps_subnormals(DEVICES[device]):
        pytest.skip("the device takes subnormal numbers for zeros")
    ty = NARROW[name]
    x = np.arange(1 << ty.bits, dtype=f"u{ty.itemsize}")
    text = program(f"{name}_to_f32", f16_by_bits, HELD[ty.itemsize], "float")
    with semantics.quiet():
        expected = semantics.cast(x.view(semantics.numpy_dtype(ty)), F32)
    same(on(DEVICES[device], text, x, np.float32), expected)


@pytest.mark.parametrize("f16_by_bits", [False, True])
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("device", DEVICES)
def test_f32_is_rounded_to_nearest_even(device: str, name: str, f16_by_bits: bool) -> None:
    ty = NARROW[name]
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    nans = np.array([sign | nan for sign in (0, 1 << 31) for nan in NAN_BITS], np.uint32)
    bits = np.concatenate([*edges(ty), random, nans])
    x = bits.view(np.float32)
    text = program(f"f32_to_{name}", f16_by_bits, "float", HELD[ty.itemsize])
    actual = on(DEVICES[device], text, x, np.dtype(f"u{ty.itemsize}").type)
    with semantics.quiet():
        expected = semantics.cast(x, ty)
    same(actual.view(expected.dtype), expected)
