"""The OpenCL backend: emits OpenCL C from THREAD IR and launches it through the device's runtime.

target           device capabilities, and named device classes
tuning           limits of registers and unrolling, by kind of device
emit             THREAD IR to OpenCL C
backend          the backend's public interface
compiler         lowers a module, and emits its functions and program
launch_metadata  the program and what the host must know to launch it
survey           the findings of `tile info`
devices          discovery of runtimes; device enumeration, selection and capability queries
host_staging     arguments: OpenCL memory, and host arrays in place or copied
launch           builds of programs, the cache of binaries; a loaded kernel, and its timers
"""

from __future__ import annotations

from tile.backends.base import Backend
from tile.backends.opencl.backend import OpenclBackend

BACKEND: Backend = OpenclBackend()
