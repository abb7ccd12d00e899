"""Kernels on NVIDIA GPUs: THREAD IR to LLVM IR to PTX, run by the CUDA driver.

backend           the backend as the registry sees it
architectures     names of architectures, also for LLVM
target            capabilities of each architecture
compiler          lowering, emission, and PTX by llvmlite
libdevice         mathematical functions of NVIDIA's library; LLVM's initialization
emit              THREAD IR to the text of an LLVM module
launch_metadata   what the launcher must know of a kernel
toolkit           files of the CUDA toolkit: libdevice, ptxas
ptxas             cubins by ptxas, and their disk cache
aot               a kernel for C programs
aot_maps          the tensor maps of its launches
driver            the CUDA driver: devices, modules, memory, launches, errors
tensor_maps       tensor maps of a launch's arguments
host_staging      host arrays copied to the device and back; the current stream
launch            a loaded kernel
fast_launch       the same launch again, with other arguments
launch_stub       built-in functions that convert arguments and launch
inline_cache      built-in functions that first test that a call is like an earlier one
descriptor_maker  built-in functions that make tensor descriptors
address_reader    built-in functions that compare addresses of tensors
host_code         built-in functions of LLVM IR
host_compiler     their machine code, by LLVM for this CPU
loaded_module     modules on a device; the record of a false assertion
event_timer       timers for `do_bench` and the autotuner
survey            the findings of `tile info`
"""

from __future__ import annotations

from tile.backends.base import Backend
from tile.backends.nvptx.backend import NvptxBackend

BACKEND: Backend = NvptxBackend()
