"""Kernels on NVIDIA's GPUs: THREAD IR as LLVM IR, as PTX, run by the driver.

names       of architectures
target      what each architecture can do
emit        from THREAD IR to the text of an LLVM module
ptx         from that text to PTX, by llvmlite
libdevice   functions of real numbers, from NVIDIA's library
compiler    all of these, one after the other
facts       what the launcher must know of a kernel
backend     what others see of this folder
ptxas       NVIDIA's assembler, where it is installed
ahead       a kernel for C programs
driver      the CUDA driver: devices, modules, memory, launches
errors      what its statuses mean
binaries    what ptxas makes of PTX, kept on disk
staging     arrays of the host, copied to the device and back
launch      a loaded kernel
repeat      the same launch again, with other addresses and numbers
timing      the device's own clock
streams     the stream that the arrays' library works on
kernel_info what the driver says of a loaded kernel
faults      what a kernel says when an assertion is false
"""

from __future__ import annotations

from tile.backends.base import Backend
from tile.backends.nvptx.backend import NvptxBackend

BACKEND: Backend = NvptxBackend()
