"""Functions of the language for NVIDIA GPUs.

`gdc_wait` and `gdc_launch_dependents` order kernels whose launches overlap (programmatic dependent
launch). `tile` launches a kernel when the one before it in the stream is complete, in which case
the PTX ISA defines both as doing nothing; so they emit nothing.

The other functions work on every backend, as far as it has what they return.
"""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.ir.ops import program
from tile.language.core import compile_options
from tile.language.core.builtin import builtin
from tile.language.core.tensor import Tensor
from tile.language.extra import libdevice

__all__ = [
    "gdc_launch_dependents",
    "gdc_wait",
    "globaltimer",
    "libdevice",
    "num_threads",
    "num_warps",
    "smid",
]

_WARP = 32  # the lanes of a warp of NVIDIA's GPUs


@builtin
def gdc_wait(build: Builder) -> None:
    """Wait until the kernels that this launch depends on are complete, which they are."""


@builtin
def gdc_launch_dependents(build: Builder) -> None:
    """Allow the kernels that depend on this launch to start, which they do when it is complete."""


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


for _function in (gdc_wait, gdc_launch_dependents, globaltimer, smid, num_warps, num_threads):
    _function.name = f"extra.cuda.{_function.name}"
