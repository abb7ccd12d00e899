"""Add two vectors, with masks for a length that is no multiple of the block."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)


def add(x, y):
    output = np.empty_like(x)
    n = output.size
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)](x, y, output, n, BLOCK_SIZE=256)
    return output


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["size"],
        x_vals=[2**i for i in range(8, 10)],
        line_arg="provider",
        line_vals=["triton"],
        line_names=["Triton"],
        plot_name="vector-add",
        args={},
    )
)
def benchmark(size, provider):
    x = np.ones(size, np.float32)
    ms, low, high = triton.testing.do_bench(
        lambda: add(x, x), warmup=1, rep=1, quantiles=[0.5, 0.2, 0.8]
    )
    return ms, high, low


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 98432), dtype=np.float32)
    np.testing.assert_array_equal(add(a, b), a + b)
    benchmark.run(print_data=False)
    print("vector add: equal", triton.__version__)
