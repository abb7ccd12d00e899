"""Call functions of libdevice under both import paths."""

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice


@triton.jit
def asin_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(y_ptr + offsets, libdevice.asin(x), mask=inside)


@triton.jit
def angle_kernel(x_ptr, y_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    y = tl.load(y_ptr + offsets)
    tl.store(out_ptr + offsets, cuda_libdevice.atan2(y, x) + cuda_libdevice.log1p(x * x))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
        x = rng.uniform(-1, 1, 1000).astype(dtype)
        y = np.empty_like(x)
        asin_kernel[triton.cdiv(x.size, 256),](x, y, x.size, BLOCK_SIZE=256)
        np.testing.assert_allclose(y, np.arcsin(x), rtol=tolerance)
        x, y = rng.standard_normal((2, 256)).astype(dtype)
        out = np.empty_like(x)
        angle_kernel[1,](x, y, out, BLOCK_SIZE=256)
        np.testing.assert_allclose(out, np.arctan2(y, x) + np.log1p(x * x), rtol=10 * tolerance)
    print("libdevice: equal")
