"""Kernels on OpenCL devices: THREAD IR as OpenCL C, built and run by the device's own runtime.

capabilities  what devices can do, and classes of them by name
emit          from THREAD IR to the text of a program
backend       what the rest of the project sees of it
compiler      from a module to the text
emitted       a program, and what the host must know of it
survey        what is there, for `tile info`
timing        the device's own clock
linker        `ld` for PoCL, where a machine has none
runtimes      runtimes that were installed by pip, and the system's own
devices       the devices that are there, the one that is chosen, and what it can do
programs      building programs, and where build errors come from
arguments     memory of OpenCL that users made
staging       arrays of the host, in place or copied to the device and back
launch        a loaded kernel
"""

from __future__ import annotations

from tile.backends.base import Backend
from tile.backends.opencl.backend import OpenclBackend

BACKEND: Backend = OpenclBackend()
