"""Casts to 8-bit floats: what is beyond their range becomes the largest finite number."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.running import Device

SIZE = 16
LARGEST = {
    "float8e4nv": (ml_dtypes.float8_e4m3fn, 448.0),
    "float8e5": (ml_dtypes.float8_e5m2, 57344.0),
}
SOURCES = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp32": np.float32,
    "fp64": np.float64,
    "i32": np.int32,
}


@tile.jit
def narrow(x_ptr, o_ptr, SIZE: tl.constexpr, TO: tl.constexpr, ROUNDING: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(o_ptr + i, tl.cast(tl.load(x_ptr + i), TO, fp_downcast_rounding=ROUNDING))


@pytest.mark.parametrize("rounding", [None, "rtz"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("to", LARGEST)
def test_casts_to_8_bit_floats_saturate(
    device: Device, to: str, source: str, rounding: str | None
) -> None:
    if source == "i32" and rounding:
        pytest.skip("only floats take a rounding")
    dtype, largest = LARGEST[to]
    finite = [1.0, largest, largest + 64, 65280, 1 << 30]
    ends = [np.inf, np.nan] if source != "i32" else [0, 0]
    with np.errstate(over="ignore"):
        x = np.array([*finite, *ends, 0.0], np.float64)
        x = np.concatenate([x, -x]).astype(SOURCES[source])
    types = {"x_ptr": f"*{source}", "o_ptr": "*fp8e4nv" if to == "float8e4nv" else "*fp8e5"}
    options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    constants = {"SIZE": SIZE, "TO": getattr(tl, to), "ROUNDING": rounding}
    kernel = tile.compile(narrow, types, constants, options, device.target)
    out = np.zeros(SIZE, dtype)
    kernel[1,](x, out)
    wide = x.astype(np.float64)
    expected = np.where(np.isnan(wide), np.nan, np.clip(wide, -largest, largest)).astype(dtype)
    np.testing.assert_array_equal(out.astype(np.float32), expected.astype(np.float32))
