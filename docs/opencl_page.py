"""Writes `opencl.md`: kernels, and the OpenCL C that becomes of them.

python docs/opencl_page.py > docs/opencl.md
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import opencl_kernels as kernels

import tile

TARGET = "opencl:generic"

HEAD = """\
# OpenCL

Made by `python docs/opencl_page.py > docs/opencl.md`.

The backend `opencl` prints the threads of the lowering as OpenCL C 1.2, and launches it on any
device that a runtime offers. `pip install 'tile-compiler[opencl]'` brings a runtime for the CPU,
Intel's; GPUs are found where the system has them, and `tile info` lists all with what each can do.

It has run on NVIDIA's OpenCL (an H200), on Intel's CPU runtime, on PoCL (CPU) and on the simulator
Oclgrind, whose results are in [performance.md](performance.md). It has not run on GPUs of AMD,
Intel, Arm or Apple: tests hold the text for them, and no more is known.

```python
with tile.backend("opencl"):  # the first GPU, else the CPU
    kernel[grid](x, y, n, BLOCK=1024)  # arrays of NumPy
with tile.backend("opencl:1"):  # a device by its number in `tile info`
    ...
with tile.backend("opencl:pocl"):  # or by part of its name
    ...
```

`TILE_OPENCL_DEVICE` says the same for a whole process. Arrays of pyopencl need neither: a kernel
runs in their context and on the queue of the first of them, and returns when it is enqueued.
Buffers are arrays of bytes to a kernel. Arrays of NumPy are accessed in place on CPUs, go through
buffers without copies where device and host share memory, and are copied elsewhere; such a launch
returns when it is over.

PoCL 3.0 gets some kernels wrong that have a barrier in a branch, such as a reduction in an `if`.
Their programs are built without optimization there, which is right and slow (a matrix product
takes 80 times as long so); other kernels are not affected. LLVM 14 vectorizes PoCL's loops over
work-items wrongly, if rarely: this backend sets `POCL_WORK_GROUP_METHOD=loops` unless it is set.

Of Intel's CPU runtime 2026.2, this backend skips two compiler passes by `CL_CONFIG_LLVM_OPTIONS`,
unless you set that variable: `x86-scalar-to-vector` makes some `~x` wrong on CPUs with AVX-512, and
`sycl-kernel-reduce-cross-barrier-values` crashes on some kernels. Nothing becomes slower. It stores
some vectors of 2-bit integers wrongly that are live across a barrier in a branch, so programs with
such a barrier are built without optimization there, too.

`launch_cooperative_grid=True` refuses a grid of more programs than are certain to run at the same
time: on a GPU and on PoCL one for each compute unit, which supposes that nothing else runs there.
Intel's CPU runtime may run two work-groups in turn while other threads idle, so that one that
waits for the other never ends, and Oclgrind runs one after the other: with them it is one program.

| a target | is |
| --- | --- |
| `opencl` | the device that is chosen as above, with what it says it can do |
| `opencl:1`, `opencl:pocl` | that device |
| `opencl:generic` | any device: OpenCL C 1.2, 32 KiB of local memory, doubles, 64-bit atomics |
| `opencl:amd`, `opencl:intel`, `opencl:nvidia`, `opencl:arm`, `opencl:apple` | a class of \
devices, to see its text |

An `@` before a name makes it a device's: `opencl:@intel` is Intel's runtime, and `opencl:intel`
text for Intel's GPUs, with sub-groups of 16. A CPU refuses that text: in a kernel that it does not
vectorize, Intel's CPU runtime has sub-groups of one work-item, whatever the kernel requires.

What a device lacks is made of what it has: half precision by `vload_half` and `vstore_half`, or by
bits on CPUs; bfloat16 and 8-bit floats by bits; atomic sums of floats by compare-and-swap; shuffles
through local memory. What cannot be so made is refused with the line that asks for it.

NVIDIA's runtime has no extension for sub-groups, but its compiler takes PTX as inline assembly.
There a few functions at the head of a program, of a statement each, are shuffles and reductions of
the 32 lanes of a warp, asynchronous copies to local memory, and quotients and roots that are
rounded to nearest; `float v6 = as_float(lane_shuffle_xor(as_uint(v5), 1u));` is a line that calls
one. Which of them there are, the device's compute capability says.

Programs and what the compiler made are kept on disk, by device, driver and what the device can do
([running.md](running.md)). `tile.testing.do_bench` and tuning time kernels by their own events,
if the queue keeps times (`PROFILING_ENABLE`), else by the host's clock when the queue is done.

## Reading the text

A program of the grid is a work-group, of 32 work-items for each of `num_warps`. A tile becomes
the registers that each work-item has of it: a few are variables `x_0`, `x_1`; many are an array,
over which loops go. Integers have unsigned types, whose arithmetic wraps, and a cast where
their sign matters. The Python line stands above what became of it, and the text that is built
names these lines, so that a runtime's errors do. `kernel.warmup(...).asm["opencl"]` has the text
of any kernel.
"""

FEW = {"num_warps": 4, "num_stages": 1}
CASES = (
    (
        "Vector addition",
        kernels.add,
        {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32"},
        {"BLOCK": 1024},
    ),
    (
        "Softmax",
        kernels.softmax,
        {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "columns": "i32"},
        {"BLOCK": 1024},
    ),
    (
        "Matrix product",
        kernels.matmul,
        {"a_ptr": "*fp32:16", "b_ptr": "*fp32:16", "c_ptr": "*fp32:16"}
        | dict.fromkeys("MNK", "i32:16"),
        {"BM": 64, "BN": 64, "BK": 16},
    ),
)


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for title, function, signature, constants in CASES:
        compiled = tile.compile(function, signature, constants, FEW, TARGET)
        python, text = compiled.asm["source"], compiled.asm["opencl"]
        assert isinstance(python, str) and isinstance(text, str)
        sizes = ", ".join(f"`{name} = {value}`" for name, value in constants.items())
        parts.append(f"## {title}\n\nWith {sizes}.\n")
        parts.append(f"```python\n{python.strip()}\n```\n\n```c\n{text.strip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
