"""Drop elements by a seed that is drawn again in the backward pass instead of a stored mask."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=inside)
    keep = tl.rand(seed, offsets) > p
    tl.store(output_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def dropout(x, p, seed):
    output = np.empty_like(x)
    grid = (triton.cdiv(x.size, 256),)
    dropout_kernel[grid](x, output, x.size, p, seed, BLOCK_SIZE=256)
    return output


if __name__ == "__main__":
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    first, again, other = dropout(x, 0.25, 123), dropout(x, 0.25, 123), dropout(x, 0.25, 512)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert abs((first == 0).mean() - 0.25) < 0.05
    np.testing.assert_allclose(first[first != 0], (x / np.float32(0.75))[first != 0], rtol=1e-6)
    print("dropout: equal")
