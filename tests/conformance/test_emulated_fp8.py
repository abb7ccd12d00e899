"""The 8-bit floats that no machine has: all values loaded, cast, selected, stored, multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.running import Device, assert_close
from tile.ir import semantics
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import BF16, EMULATED_FP8, F8E4M3, F16, F32, F64, I32, Scalar

Array = np.ndarray[Any, Any]

SIZE = 256
WIDER = {"fp16": F16, "bf16": BF16, "fp32": F32, "i32": I32, "fp8e4nv": F8E4M3}


@tile.jit
def widen(x_ptr, f16_ptr, bf16_ptr, f32_ptr, i32_ptr, e4m3_ptr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    x = tl.load(x_ptr + i)
    tl.store(f16_ptr + i, x.to(tl.float16))
    tl.store(bf16_ptr + i, x.to(tl.bfloat16))
    tl.store(f32_ptr + i, x.to(tl.float32))
    tl.store(i32_ptr + i, x.to(tl.int32))
    tl.store(e4m3_ptr + i, x.to(tl.float8e4nv))


@tile.jit
def narrow(f16_ptr, bf16_ptr, f32_ptr, i32_ptr, out_ptr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    to: tl.constexpr = out_ptr.dtype.element_ty
    x = tl.load(f32_ptr + i)
    tl.store(out_ptr + i, tl.load(f16_ptr + i).to(to))
    tl.store(out_ptr + SIZE + i, tl.load(bf16_ptr + i).to(to))
    tl.store(out_ptr + 2 * SIZE + i, x.to(to))
    tl.store(out_ptr + 3 * SIZE + i, x.to(to, fp_downcast_rounding="rtz"))
    tl.store(out_ptr + 4 * SIZE + i, tl.load(i32_ptr + i).to(to))


@tile.jit
def multiply(a_ptr, b_ptr, out_ptr, mask_ptr):
    i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    a, b = tl.load(a_ptr + i), tl.load(b_ptr + i)
    a = tl.where(tl.load(mask_ptr + i) != 0, a, tl.zeros_like(a))
    tl.store(out_ptr + i, tl.dot(a, tl.trans(b)))


def compiled(function: Any, device: Device, types: dict[str, str], **constants: Any) -> Any:
    options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    return tile.compile(function, types, constants, options, device.target)


def every(element: Scalar) -> Array:
    return np.arange(SIZE, dtype=np.uint8).view(numpy_dtype(element))


def around_ties(element: Scalar) -> Array:
    """The ties between positive numbers, both sides of them, and numbers beyond the range."""
    with semantics.quiet():
        numbers = semantics.cast(every(element)[:128], F64)
    numbers = numbers[np.isfinite(numbers)]
    ties = ((numbers[1:] + numbers[:-1]) / 2).astype(np.float32)
    sides = (ties[::4], np.nextafter(ties, np.float32(0))[1::2], np.nextafter(ties, np.inf)[::2])
    ends = np.array([np.inf, np.nan, 2.0**20, 0.0], np.float32)
    x = np.resize(np.concatenate([ends, *sides]), SIZE)
    return x * np.where(np.arange(SIZE) % 3 == 0, np.float32(-1), np.float32(1))


@pytest.mark.parametrize("element", EMULATED_FP8, ids=str)
def test_all_values_in_other_types(device: Device, element: Scalar) -> None:
    x = every(element)
    names = ("f16_ptr", "bf16_ptr", "f32_ptr", "i32_ptr", "e4m3_ptr")
    types = {"x_ptr": f"*{element.alias}"}
    types |= {name: f"*{alias}" for name, alias in zip(names, WIDER, strict=True)}
    out = [np.zeros(SIZE, numpy_dtype(to)) for to in WIDER.values()]
    compiled(widen, device, types, SIZE=SIZE)[1,](x, *out)
    for to, actual in zip(WIDER.values(), out, strict=True):
        with semantics.quiet():
            assert_close(actual, semantics.cast(x, to), 0, f"{element} to {to}")


@pytest.mark.parametrize("element", EMULATED_FP8, ids=str)
def test_roundings(device: Device, element: Scalar) -> None:
    x = around_ties(element)
    with semantics.quiet():
        sources = [semantics.cast(x, ty) for ty in (F16, BF16, F32, I32)]
        expected = [semantics.cast(source, element) for source in sources]
        expected.insert(3, semantics.cast(x, element, "rtz"))
    types = {"f16_ptr": "*fp16", "bf16_ptr": "*bf16", "f32_ptr": "*fp32", "i32_ptr": "*i32"}
    types["out_ptr"] = f"*{element.alias}"
    out = np.zeros(5 * SIZE, numpy_dtype(element))
    compiled(narrow, device, types, SIZE=SIZE)[1,](*sources, out)
    actual = out.view(np.uint8).reshape(5, SIZE)
    np.testing.assert_array_equal(actual, [row.view(np.uint8) for row in expected])


@pytest.mark.parametrize("element", EMULATED_FP8, ids=str)
def test_dots(device: Device, element: Scalar) -> None:
    """Small numbers, whose sums are exact; some operands are replaced by zeros."""
    rng = np.random.default_rng(9)
    with semantics.quiet():
        a, b = (
            semantics.cast(rng.integers(-3, 4, (16, 16)) * 0.5, element).reshape(16, 16)
            for _ in range(2)
        )
        wide = [semantics.cast(x, F64) for x in (a, b)]
    mask = rng.integers(0, 2, (16, 16), np.int32)
    types = {"a_ptr": f"*{element.alias}", "b_ptr": f"*{element.alias}"}
    types |= {"out_ptr": "*fp32", "mask_ptr": "*i32"}
    out = np.zeros((16, 16), np.float32)
    compiled(multiply, device, types)[1,](a, b, out, mask)
    np.testing.assert_array_equal(out, (wide[0] * mask) @ wide[1].T)
