"""Functions of the language for NVIDIA GPUs.

`convert_custom_float8_sm70` and `convert_custom_float8_sm80` cast to and from `float8e4b15`, as
`x.to(dtype)` does on any device.

`gdc_wait` and `gdc_launch_dependents` order kernels whose launches overlap (programmatic dependent
launch). With the option `launch_pdl`, the compiler places the wait, and the other where the kernel
does not (docs/running.md); without it a kernel is launched when the one before it in the stream is
complete, and both emit nothing.

The other functions work on every backend, as far as it has what they return.
"""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import arith, memory, program, shape
from tile.ir.types import F8E4M3B15, F16, F32, I32, Scalar
from tile.language.base import compile_options
from tile.language.base.builtin import builtin
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import Operand, convert, to_tensor
from tile.language.base.static_args import compile_time_int
from tile.language.base.tensor import Tensor
from tile.language.creation import element_type
from tile.language.extra import libdevice
from tile.language.memory import pointee

__all__ = [
    "cluster_gather",
    "convert_custom_float8_sm70",
    "convert_custom_float8_sm80",
    "gdc_launch_dependents",
    "gdc_wait",
    "globaltimer",
    "launder",
    "libdevice",
    "num_threads",
    "num_warps",
    "prefetch",
    "smid",
]

_WARP = 32  # the lanes of a warp of NVIDIA's GPUs


@builtin
def gdc_wait(build: Builder) -> None:
    """Wait until the launch before is complete: the compiler does, before the first access."""


@builtin
def gdc_launch_dependents(build: Builder) -> None:
    """Let the launch after this one start, once all programs have come here or ended.

    It concerns launches with `launch_pdl`. The compiler does so at the first access of a kernel
    that never does. The next launch waits for this one all the same before it accesses memory; but
    its programs take the places that are free, few on some multiprocessors. So a launch that is to
    be spread evenly should start when this one ends.
    """
    build.op(program.launch_dependents)


@builtin
def prefetch(build: Builder, pointer: Tensor, count: Operand) -> None:
    """Bring `count` elements from a scalar pointer on to the L2 cache: a hint.

    Programs of a launch with `launch_pdl` do it before they wait for the launch before, so that
    what that one has not written, such as weights, is there when they load it. It is
    `cp.async.bulk.prefetch.L2` from compute capability 9.0 on, and nothing elsewhere.
    """
    name = "tl.extra.cuda.prefetch"
    element = pointee(name, pointer)
    elements = convert(build, to_tensor(build, count, f"the count of {name}"), I32)
    size = build(arith.mul, elements.value, build.constant(element.itemsize, I32))
    build.op(memory.prefetch, pointer.value, size)


@builtin
def cluster_gather(build: Builder, input: Operand | tuple[Operand, ...], size: Any) -> Any:
    """Return a number of each program of this one's cluster: a tuple of `size` scalars.

    Each `size` consecutive programs along axis 0 of the grid are a cluster, if the launch has
    `num_ctas` equal to `size`: 2, 4, 8 or 16. All of them call this function as often, with scalars
    of one type of 32 or 64 bits. A program waits for the others; accesses of memory are not ordered
    by that. Of a tuple of scalars, which are exchanged at once, the result has such a tuple for
    each. Programs can so share a row that is too long for one: each computes the sum of a part, and
    adds up those of all.

    Raises `CompilationError` for other arguments, and `UnsupportedError` without such clusters,
    which NVIDIA's GPUs have from compute capability 9.0 on, and the interpreter.
    """
    name = "tl.extra.cuda.cluster_gather"
    inputs = input if isinstance(input, tuple) else (input,)
    values = [to_tensor(build, x, f"the input of {name}") for x in inputs]
    count = compile_time_int(size, f"the size of {name}")
    types = {x.type for x in values}
    if len(types) != 1 or any(x.shape or x.dtype.bits not in program.GATHERED_BITS for x in values):
        listed = ", ".join(str(x.type) for x in values)
        raise CompilationError(f"{name} takes scalars of one type of 32 or 64 bits, not ({listed})")
    op = build.op(program.cluster_gather, *(x.value for x in values), size=count)
    numbers = tuple(map(Tensor, op.results))
    groups = tuple(numbers[at : at + count] for at in range(0, len(numbers), count))
    return groups if isinstance(input, tuple) else groups[0]


@builtin
def launder(build: Builder, input: Operand, after: Operand) -> Tensor:
    """Return `input`, of which the compiler of the target knows nothing before the scalar `after`.

    It computes what depends on the result anew, behind `after`, in place of keeping what it
    computed of `input` before: a row of 16-bit floats, which is summed up and read again by the
    result, takes half the registers that it does as float32. `after` has 32 bits. Raises
    `CompilationError` for other arguments.
    """
    name = "tl.extra.cuda.launder"
    x = to_tensor(build, input, f"the input of {name}")
    number = to_tensor(build, after, f"the after of {name}")
    if number.shape or number.dtype.bits != I32.bits or not isinstance(number.dtype, Scalar):
        raise CompilationError(f"{name} waits for a scalar of 32 bits, not for {number.type}")
    if x.dtype not in arith.NUMBERS:
        raise CompilationError(f"{name} takes numbers, not {x.type}")
    bits = number.value
    if number.dtype is not I32:
        bits = build(arith.bitcast, bits, to=I32)
    if x.shape:
        bits = build(shape.splat, bits, shape=x.shape)
    return Tensor(build(arith.launder, x.value, bits))


@builtin
def globaltimer(build: Builder) -> Tensor:
    """The nanoseconds of a clock that all programs share, as `tl.int64`; it never goes back.

    It is PTX's `%globaltimer`, whose resolution is the device's (often 32 ns or 1 us). The
    interpreter reads the host's monotonic clock. OpenCL devices other than NVIDIA's have no clock
    that kernels can read: compilation raises `UnsupportedError`.
    """
    return Tensor(build(program.global_timer))


@builtin
def smid(build: Builder) -> Tensor:
    """The number of the multiprocessor that runs this program, as `tl.int32`.

    It is PTX's `%smid`, and 0 on the interpreter and on OpenCL devices other than NVIDIA's.
    """
    return Tensor(build(program.multiprocessor_id))


@builtin
def num_warps(build: Builder) -> int:
    """The warps of a program, as a compile-time integer: the option `num_warps` of the launch."""
    return compile_options.num_warps()


@builtin
def num_threads(build: Builder) -> int:
    """The threads of a program, as a compile-time integer: 32 for each warp."""
    return _WARP * compile_options.num_warps()


@builtin
def convert_custom_float8_sm70(
    build: Builder, arg: Operand, dst_ty: Any, fp_downcast_rounding: str | None = None
) -> Tensor:
    """Cast `arg` from `float8e4b15` to float16 or float32, or from these to `float8e4b15`.

    Ties are rounded away from zero, whatever `fp_downcast_rounding` is. Raises `CompilationError`
    for other types.
    """
    return _custom_float8(build, arg, dst_ty, "tl.extra.cuda.convert_custom_float8_sm70")


@builtin
def convert_custom_float8_sm80(
    build: Builder, arg: Operand, dst_ty: Any, fp_downcast_rounding: str | None = None
) -> Tensor:
    """The same as `convert_custom_float8_sm70`."""
    return _custom_float8(build, arg, dst_ty, "tl.extra.cuda.convert_custom_float8_sm80")


def _custom_float8(build: Builder, arg: Operand, dst_ty: Any, name: str) -> Tensor:
    x, to = to_tensor(build, arg, f"the input of {name}"), element_type(dst_ty, name)
    types = {x.dtype, to}
    if F8E4M3B15 not in types or not types & {F16, F32}:
        raise CompilationError(
            f"{name} casts between tl.float8e4b15 and tl.float16 or tl.float32, not "
            f"{spelled(x.dtype)} to {spelled(to)}"
        )
    return convert(build, x, to)


for _function in (
    convert_custom_float8_sm70,
    convert_custom_float8_sm80,
    gdc_wait,
    gdc_launch_dependents,
    prefetch,
    cluster_gather,
    globaltimer,
    smid,
    num_warps,
    num_threads,
):
    _function.name = f"extra.cuda.{_function.name}"
