"""The OpenCL backend: emits OpenCL C from THREAD IR and launches it through the device's runtime.

capabilities  device capabilities, and named device classes
emit          THREAD IR to OpenCL C
backend       the backend's public interface
compiler      lowers a module and emits it
emitted       launch metadata: the program and what the host must know to launch it
survey        the findings of `tile info`
timing        timing by device events
linker        a minimal `ld` for PoCL on machines without one
runtimes      discovery of OpenCL runtimes, installed by pip or by the system
devices       device enumeration, selection and capability queries
programs      program builds, the binary cache, and source lines in build logs
arguments     OpenCL buffers and SVM pointers as kernel arguments
staging       host arrays: accessed in place, or copied to the device and back
launch        a loaded kernel
"""

from __future__ import annotations

from tile.backends.base import Backend
from tile.backends.opencl.backend import OpenclBackend

BACKEND: Backend = OpenclBackend()
