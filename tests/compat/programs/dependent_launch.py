"""Order two kernels whose launches may overlap by programmatic dependent launch."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr, PDL: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = offsets < n_elements
    if PDL:
        # What the kernel before has written can be read after this.
        tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    if PDL:
        # The next kernel may begin; it waits before it reads what this one writes.
        tl.extra.cuda.gdc_launch_dependents()
    tl.store(output_ptr + offsets, x + y, mask=inside)


def add(x, y, pdl):
    output = np.empty_like(x)
    add_kernel[triton.cdiv(x.size, 256),](
        x, y, output, x.size, BLOCK_SIZE=256, PDL=pdl, launch_pdl=pdl
    )
    return output


if __name__ == "__main__":
    x, y = np.random.default_rng(0).random((2, 3000), dtype=np.float32)
    for pdl in (False, True):
        np.testing.assert_array_equal(add(add(x, y, pdl), y, pdl), (x + y) + y)
    print("dependent launch: equal")
