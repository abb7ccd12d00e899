"""A stand-in for NVIDIA's driver: devices of some architectures, whose memory is the host's.

It answers as the driver does, statuses first, runs nothing, and notes what it is asked. A test says
in `fails` what a function shall return instead, by name.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as real

import tile
import tile.language as tl
from tile.backends.nvptx import driver, loaded_module, ptxas

OK = real.CUresult.CUDA_SUCCESS
_A = real.CUdevice_attribute
_F = real.CUfunction_attribute
_L = real.CUlaunchAttributeID

STREAM = 4  # the position of the stream among the arguments of a launch after the grid

FUNCTION = {
    _F.CU_FUNC_ATTRIBUTE_NUM_REGS: 40,
    _F.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: 8,
    _F.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: 16,
    _F.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: 1024,
    _F.CU_FUNC_ATTRIBUTE_BINARY_VERSION: 90,
}


class FakeDriver:
    """A stand-in for `cuda.bindings.driver`; what it lacks comes from the real one."""

    def __init__(self, *capabilities: tuple[int, int], version: int = 13000) -> None:
        self.capabilities = capabilities
        self.version = version
        self.fails: dict[str, Any] = {}
        self.contexts: list[int] = []  # the current one last; device d has 100 + d
        self.assembled: list[str] = []  # PTX given to ptxas
        self.loaded: list[tuple[int, bytes]] = []  # device and cubin
        self.launches: list[tuple[int, tuple[int, int, int]]] = []  # device and grid
        self.streams: list[int] = []  # of launches without clusters
        self.waits: list[int] = []  # streams that were waited for
        self.clustered: list[Any] = []  # of clusters: their extents, and whether all run at once
        self.dependent: list[int] = []  # flags of launches that may overlap the one before
        self.allowed: list[Any] = []  # attributes that functions were given
        self.memory: dict[int, Any] = {}
        self.events: list[tuple[int, int, int]] = []  # device, event and stream
        self.cleared: list[tuple[int, int, int, int]] = []  # device, size, stream, events before
        self.says = b""  # in the log of the loader
        self.takes = b""  # what is in all code that it loads
        self._handles = itertools.count(1000)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
        for module in (driver, loaded_module):
            monkeypatch.setattr(module, "cuda", self)
        monkeypatch.setattr(ptxas, "find", lambda: "ptxas")
        monkeypatch.setattr(ptxas, "Assembly", self.assembly)
        monkeypatch.setattr(driver, "_DEVICES", {})
        monkeypatch.setattr(driver, "direct", lambda name: None)
        monkeypatch.setattr(driver, "_open", functools.cache(driver._open.__wrapped__))
        return self

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("cu") and name in self.fails:
            return lambda *arguments: self._failing(name, arguments)
        return object.__getattribute__(self, name)

    def _failing(self, name: str, arguments: Any) -> Any:
        logs = arguments[-1] if isinstance(arguments[-1], list) else []
        for log in logs:
            if isinstance(log, bytearray):
                log[: len(self.says)] = self.says
        return (self.fails[name],)

    def __getattr__(self, name: str) -> Any:
        return getattr(real, name)

    @property
    def here(self) -> int:
        return self.contexts[-1] - 100 if self.contexts else -1

    # -- devices

    def cuInit(self, flags: int) -> Any:
        return (OK,)

    def cuGetErrorString(self, status: Any) -> Any:
        return OK, b"in words"

    def cuDriverGetVersion(self) -> Any:
        return OK, self.version

    def cuDeviceGetCount(self) -> Any:
        return OK, len(self.capabilities)

    def cuDeviceGet(self, ordinal: int) -> Any:
        return OK, ordinal

    def cuDeviceGetName(self, size: int, device: int) -> Any:
        return OK, b"A fake\0"

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return OK, 100 + device

    def cuDeviceGetAttribute(self, attribute: Any, device: int) -> Any:
        major, minor = self.capabilities[device]
        results = {
            _A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: major,
            _A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: minor,
            _A.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: 1 << 17,
            _A.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: 2048,
            _A.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: 10,
            _A.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: 1000,
        }
        return OK, results[attribute]

    def cuCtxGetCurrent(self) -> Any:
        return OK, self.contexts[-1] if self.contexts else 0

    def cuCtxGetDevice(self) -> Any:
        return OK, self.here

    def cuCtxPushCurrent(self, context: int) -> Any:
        self.contexts.append(context)
        return (OK,)

    def cuCtxPopCurrent(self) -> Any:
        return OK, self.contexts.pop()

    # -- modules

    def assembly(self, ptx: str, arch: str, program: str) -> Any:
        """Return what stands for a run of ptxas."""
        self.assembled.append(ptx)
        result = f"cubin {len(self.assembled)} for {arch}".encode(), ""
        return SimpleNamespace(result=lambda: result)

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> Any:
        self.loaded.append((self.here, image))
        if self.takes not in image:
            return (real.CUresult.CUDA_ERROR_INVALID_IMAGE,)
        return OK, next(self._handles)

    def cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        return OK, next(self._handles)

    def cuFuncSetAttribute(self, function: Any, attribute: Any, value: int) -> Any:
        self.allowed.append(attribute)
        return (OK,)

    def cuFuncGetAttribute(self, attribute: Any, function: Any) -> Any:
        return OK, FUNCTION[attribute]

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *arguments: Any) -> Any:
        return OK, 12

    def cuLaunchKernel(self, function: Any, x: int, y: int, z: int, *rest: Any) -> Any:
        if len(rest) > STREAM:
            self.streams.append(rest[STREAM])
        self.launches.append((self.here, (x, y, z)))
        return (OK,)

    def cuLaunchCooperativeKernel(self, function: Any, x: int, y: int, z: int, *rest: Any) -> Any:
        return self.cuLaunchKernel(function, x, y, z, *rest)

    def cuLaunchKernelEx(self, config: Any, function: Any, *rest: Any) -> Any:
        attributes = {one.id: one.value for one in config.attrs}
        overlap = attributes.get(_L.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        if overlap is not None:
            self.dependent.append(overlap.programmaticStreamSerializationAllowed)
        if _L.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION not in attributes:
            return self.cuLaunchKernel(function, config.gridDimX, config.gridDimY, config.gridDimZ)
        extents = attributes[_L.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION].clusterDim
        together = _L.CU_LAUNCH_ATTRIBUTE_COOPERATIVE in attributes
        self.clustered.append(((extents.x, extents.y, extents.z), together))
        return self.cuLaunchKernel(function, config.gridDimX, config.gridDimY, config.gridDimZ)

    def cuOccupancyMaxActiveClusters(self, function: Any, config: Any) -> Any:
        return OK, 7

    # -- memory

    def cuMemAlloc(self, size: int) -> Any:
        block = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(block)] = block
        return OK, ctypes.addressof(block)

    def cuMemFree(self, address: int) -> Any:
        del self.memory[address]
        return (OK,)

    def cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> Any:
        self.cleared.append((self.here, size, stream, len(self.events)))
        ctypes.memset(address, value, size)
        return (OK,)

    def cuMemcpyHtoDAsync(self, to: int, source: int, size: int, stream: int) -> Any:
        ctypes.memmove(to, source, size)
        return (OK,)

    def cuMemcpyDtoHAsync(self, to: int, source: int, size: int, stream: int) -> Any:
        return self.cuMemcpyHtoDAsync(to, source, size, stream)

    def cuEventCreate(self, flags: int) -> Any:
        return OK, next(self._handles)

    def cuEventRecord(self, event: int, stream: int) -> Any:
        self.events.append((self.here, event, stream))
        return (OK,)

    def cuEventElapsedTime(self, start: int, stop: int) -> Any:
        return OK, float(stop - start)

    def cuEventDestroy(self, event: int) -> Any:
        self.events = [one for one in self.events if one[1] != event]
        return (OK,)

    def cuPointerGetAttribute(self, attribute: Any, address: int) -> Any:
        return OK, 0

    def cuStreamSynchronize(self, stream: int) -> Any:
        self.waits.append(stream)
        return (OK,)


def new_kernel() -> Any:
    """Return a kernel that nothing has compiled yet: it doubles an array."""

    @tile.jit
    def scale(x_ptr, y_ptr, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2.0, mask=i < n)

    return scale
