"""The CUDA driver: devices, modules, memory, launches. Opened at the first use.

Every call is checked here, and what fails is one of this package's errors, in words. Contexts are
the primary ones, which torch, CuPy and the CUDA runtime use too.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cuda.bindings import driver as cuda

from tile.backends.base import DeviceMemory
from tile.backends.nvptx.errors import error
from tile.backends.nvptx.names import has_clusters, native
from tile.errors import BackendError, OutOfResourcesError, TileError

SUCCESS = cuda.CUresult.CUDA_SUCCESS
OLDEST = 12_040  # the first that knows PTX 8.4, which is the oldest that is written
_LOG_BYTES = 1 << 14
_Attribute = cuda.CUdevice_attribute


def check(returned: Any, doing: str) -> Any:
    """What a call of the driver returned besides its status, which must be success.

    Raises `OutOfResourcesError`, `BackendError` for what is wrong with the machine, or
    `ExecutionError` that says what `doing` failed how.
    """
    status, *values = returned
    if status != SUCCESS:
        raise error(status, doing)
    if len(values) < 2:
        return values[0] if values else None
    return tuple(values)


@functools.cache
def _open() -> int:
    """Start the driver; how many devices there are. Raises `BackendError` where there are none."""
    try:
        (status,) = cuda.cuInit(0)
    except (RuntimeError, ImportError, OSError) as missing:
        raise BackendError(
            "there is no NVIDIA driver on this machine, so the nvptx backend cannot run kernels "
            "here"
        ) from missing
    if status != SUCCESS:
        raise BackendError(error(status, "starting the NVIDIA driver").message)
    found = version()
    if found < OLDEST:
        raise BackendError(
            f"the NVIDIA driver is too old: it is for CUDA {spelled(found)}, and kernels need one "
            f"for CUDA {spelled(OLDEST)} or later"
        )
    count = int(check(cuda.cuDeviceGetCount(), "counting devices"))
    if not count:
        raise error(cuda.CUresult.CUDA_ERROR_NO_DEVICE, "starting the NVIDIA driver")
    return count


def version() -> int:
    """The version of CUDA that the driver is for: 12040 for 12.4."""
    return int(check(cuda.cuDriverGetVersion(), "asking for the driver's version"))


def spelled(number: int) -> str:
    """A version as people write it."""
    return f"{number // 1000}.{number % 1000 // 10}"


class Device:
    """A GPU and its primary context."""

    def __init__(self, ordinal: int) -> None:
        count = _open()
        if not 0 <= ordinal < count:
            there = f"there are {count}, from 0" if count > 1 else f"there is {count}"
            raise BackendError(f"there is no device {ordinal}; {there}")
        self.ordinal = ordinal
        self._device = check(cuda.cuDeviceGet(ordinal), f"opening device {ordinal}")
        self._context = check(
            cuda.cuDevicePrimaryCtxRetain(self._device), f"opening device {ordinal}"
        )
        self.major = self._attribute(_Attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        self.minor = self._attribute(_Attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        self.shared_bytes = self._attribute(
            _Attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        )

    @property
    def has_clusters(self) -> bool:
        """Whether launches there may be clustered."""
        return has_clusters(10 * self.major + self.minor)

    @functools.cached_property
    def name(self) -> str:
        """What its maker calls it."""
        name = check(cuda.cuDeviceGetName(128, self._device), "asking about a device")
        return bytes(name).partition(b"\0")[0].decode(errors="replace")

    @functools.cached_property
    def max_threads(self) -> int:
        """How many threads one of its multiprocessors runs at once."""
        return self._attribute(_Attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)

    @functools.cached_property
    def multiprocessors(self) -> int:
        return self._attribute(_Attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)

    def _attribute(self, attribute: Any) -> int:
        return int(
            check(cuda.cuDeviceGetAttribute(attribute, self._device), "asking about a device")
        )

    @property
    def context(self) -> int:
        """The handle of its context."""
        return int(self._context)

    @property
    def architecture(self) -> str:
        """The name of its architecture."""
        return native(self.major, self.minor)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make its context that of this thread; the one before comes back afterwards."""
        before = check(cuda.cuCtxGetCurrent(), "asking for the current device")
        if int(before) == int(self._context):
            yield
            return
        check(cuda.cuCtxPushCurrent(self._context), "choosing a device")
        try:
            yield
        finally:
            check(cuda.cuCtxPopCurrent(), "leaving a device")


_DEVICES: dict[int, Device] = {}
_LOCK = threading.Lock()


def device(ordinal: int) -> Device:
    """A device by number."""
    with _LOCK:
        if ordinal not in _DEVICES:
            _DEVICES[ordinal] = Device(ordinal)
        return _DEVICES[ordinal]


def current_device() -> Device:
    """The device that this thread works on: the first one unless somebody chose another."""
    _open()
    context = check(cuda.cuCtxGetCurrent(), "asking for the current device")
    if not int(context):
        return device(0)
    return device(int(check(cuda.cuCtxGetDevice(), "asking for the current device")))


def current_architecture() -> str:
    """The architecture of the current device. Raises `BackendError` where there is none."""
    return current_device().architecture


def device_of(array: DeviceMemory) -> Device:
    """The device in whose memory an array is."""
    number = array.device.partition(":")[2]
    return device(int(number) if number else ordinal_of(array.address))


def ordinal_of(address: int) -> int:
    """The device in whose memory an address lies."""
    _open()
    attribute = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(check(cuda.cuPointerGetAttribute(attribute, address), "finding an array's device"))


# -- what repeat launches call, without the wrapper of cuda.bindings


@functools.cache
def direct(name: str) -> Any:
    """A function of the driver by its name in C, which returns its status; None if it has none.

    Python's other threads run meanwhile: a launch waits where many are under way.
    """
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return getattr(ctypes.CDLL(library), name, None)
    except OSError:
        return None


# -- modules


class Loaded:
    """A function of a module on the current device."""

    def __init__(
        self, code: bytes, kernel: str, shared_bytes: int, *, cooperative: bool = False
    ) -> None:
        """Load a cubin or an `image` of PTX.

        A `cooperative` kernel's programs all run at once, or the launch is refused.
        """
        self._cooperative = cooperative
        self._start = cuda.cuLaunchCooperativeKernel if cooperative else cuda.cuLaunchKernel
        self._last = () if cooperative else (0,)  # what only a plain launch takes: no `extra`
        self.module = _load(code, kernel)
        self.function = check(
            cuda.cuModuleGetFunction(self.module, kernel.encode()), f"finding `{kernel}`"
        )
        self.kernel = kernel
        self.shared_bytes = shared_bytes
        if shared_bytes:
            attribute = cuda.CUfunction_attribute
            check(
                cuda.cuFuncSetAttribute(
                    self.function,
                    attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    shared_bytes,
                ),
                f"giving `{kernel}` {shared_bytes} bytes of shared memory",
            )

    def global_address(self, name: str) -> int:
        """Where a global variable of the module is."""
        address, _ = check(cuda.cuModuleGetGlobal(self.module, name.encode()), f"finding `{name}`")
        return int(address)

    def allow_clusters_of(self, size: int) -> None:
        """Let clusters have more programs than every device that has clusters can run."""
        attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        check(
            cuda.cuFuncSetAttribute(self.function, attribute, 1),
            f"allowing clusters of {size} programs of `{self.kernel}`",
        )

    def launch(
        self,
        grid: tuple[int, int, int],
        threads: int,
        stream: int,
        parameters: int,
        cluster: int = 1,
    ) -> None:
        """Start the kernel; `parameters` is the address of an array of addresses of values.

        Every `cluster` programs in a row along the first axis, which has a multiple of them, are
        one cluster.
        """
        if cluster > 1:
            config = self._config(grid, threads, stream, cluster)
            (status,) = cuda.cuLaunchKernelEx(config, self.function, parameters, 0)
        else:
            extents = (*grid, threads, 1, 1)
            (status,) = self._start(
                self.function, *extents, self.shared_bytes, stream, parameters, *self._last
            )
        if status != SUCCESS:
            raise self.refused(status, grid, threads, cluster)

    def _config(self, grid: tuple[int, int, int], threads: int, stream: int, cluster: int) -> Any:
        """What a launch in clusters is like."""
        config = cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes, config.hStream = self.shared_bytes, stream
        extents, together = cuda.CUlaunchAttributeValue(), cuda.CUlaunchAttributeValue()
        extents.clusterDim.x, extents.clusterDim.y, extents.clusterDim.z = cluster, 1, 1
        together.cooperative = 1
        attributes = [_attribute("CLUSTER_DIMENSION", extents)]
        if self._cooperative:
            attributes.append(_attribute("COOPERATIVE", together))
        config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def refused(
        self, status: Any, grid: tuple[int, int, int], threads: int, cluster: int
    ) -> TileError:
        """The error for a launch that returned this status."""
        if status == cuda.CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
            most = self.programs(threads) * current_device().multiprocessors
            if cluster > 1:
                most = self.clusters(threads, cluster) * cluster
            return OutOfResourcesError(
                f"`{self.kernel}` is launched cooperatively, so all its programs must run at once; "
                f"a grid of {grid} has {math.prod(grid)}, and the device runs {most}"
            )
        return error(
            status, f"launching `{self.kernel}` on a grid of {grid} with {threads} threads"
        )

    def attribute(self, name: str) -> int:
        """A fact of the function, such as `NUM_REGS` or `LOCAL_SIZE_BYTES`."""
        attribute = getattr(cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(check(cuda.cuFuncGetAttribute(attribute, self.function), f"asking for {name}"))

    def programs(self, threads: int) -> int:
        """How many programs of that many threads a multiprocessor runs at once."""
        most = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            self.function, threads, self.shared_bytes
        )
        return int(check(most, "asking how many programs run at once"))

    def clusters(self, threads: int, size: int) -> int:
        """How many clusters of that many programs the device runs at once; 0: none that large."""
        config = self._config((size, 1, 1), threads, 0, size)
        most = cuda.cuOccupancyMaxActiveClusters(self.function, config)
        return int(check(most, "asking how many clusters run at once"))


def _attribute(name: str, value: Any) -> Any:
    """What a launch is asked for besides its extents."""
    made = cuda.CUlaunchAttribute()
    made.id = getattr(cuda.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
    made.value = value
    return made


def image(ptx: str) -> bytes:
    """PTX as what `Loaded` takes."""
    return ptx.encode() + b"\0"


def _load(code: bytes, kernel: str) -> Any:
    """A module of a cubin, or of PTX, which is compiled now."""
    log = _Log()
    return log.check(cuda.cuModuleLoadDataEx(code, *log.options), f"loading `{kernel}`")


class _Log:
    """What the driver's compiler says of errors. It is asked for places in the source, too."""

    def __init__(self) -> None:
        self._said = bytearray(_LOG_BYTES)
        option = cuda.CUjit_option
        chosen: dict[Any, Any] = {
            option.CU_JIT_ERROR_LOG_BUFFER: self._said,
            option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
            option.CU_JIT_GENERATE_LINE_INFO: 1,
        }
        self.options = (len(chosen), list(chosen), list(chosen.values()))

    def check(self, returned: Any, doing: str) -> Any:
        """As `check`, with the log in the notes of an error."""
        try:
            return check(returned, doing)
        except TileError as raised:
            said = bytes(self._said).partition(b"\0")[0].decode(errors="replace")
            raised.notes.extend(said.splitlines()[:8])
            raise


# -- tensor maps

_Map = cuda.CUtensorMapDataType
# The elements of maps, and their bytes.
MAP_ELEMENTS = {
    "f16": (_Map.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2),
    "bf16": (_Map.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2),
    "f32": (_Map.CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4),
    "i16": (_Map.CU_TENSOR_MAP_DATA_TYPE_UINT16, 2),
    "u16": (_Map.CU_TENSOR_MAP_DATA_TYPE_UINT16, 2),
    **dict.fromkeys(("i8", "u8", "f8e4m3", "f8e5m2"), (_Map.CU_TENSOR_MAP_DATA_TYPE_UINT8, 1)),
}
_SWIZZLES = {
    32: cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
    64: cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    128: cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
}


def tensor_map(
    element: str,
    base: int,
    extents: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    swizzle: int,
) -> Any:
    """The map of an array of which boxes are copied to shared memory; zeros are outside of it.

    Axes are from the outermost on; strides, in bytes, lack the last one.
    """
    rank = len(extents)
    return check(
        cuda.cuTensorMapEncodeTiled(
            MAP_ELEMENTS[element][0],
            rank,
            base,
            [cuda.cuuint64_t(n) for n in reversed(extents)],
            [cuda.cuuint64_t(n) for n in reversed(strides)],
            [cuda.cuuint32_t(n) for n in reversed(box)],
            [cuda.cuuint32_t(1)] * rank,
            cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            _SWIZZLES[swizzle],
            cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ),
        f"describing an array of extents {list(extents)} for copies of boxes",
    )


# -- memory and waiting


def allocate(size: int) -> int:
    """Memory of the current device."""
    return int(check(cuda.cuMemAlloc(size), f"allocating {size} bytes on the device"))


def zeroed(size: int) -> int:
    """Memory of the current device that is zero."""
    address = allocate(size)
    check(cuda.cuMemsetD8(address, 0, size), "clearing memory")
    return address


def free(address: int) -> None:
    """Give memory back."""
    cuda.cuMemFree(address)


def to_device(address: int, host: int, size: int, stream: int) -> None:
    """Copy from the host, in the order of a stream."""
    check(cuda.cuMemcpyHtoDAsync(address, host, size, stream), "copying an array to the device")


def to_host(host: int, address: int, size: int, stream: int) -> None:
    """Copy to the host, in the order of a stream."""
    check(cuda.cuMemcpyDtoHAsync(host, address, size, stream), "copying an array from the device")


def write_word(address: int, value: int, bits: int) -> None:
    """Set a variable of 32 or 64 bits in the current device's memory."""
    data = ctypes.c_uint64(value)
    check(cuda.cuMemcpyHtoD(address, ctypes.addressof(data), bits // 8), "setting a variable")


def wait(stream: int, doing: str) -> None:
    """Wait for all that was put in a stream."""
    (status,) = cuda.cuStreamSynchronize(stream)
    if status != SUCCESS:
        raise error(status, doing)


def shared_with_host(size: int) -> tuple[int, int]:
    """Zeroed memory that host and device both see: its address on either side."""
    flags = cuda.CU_MEMHOSTALLOC_PORTABLE | cuda.CU_MEMHOSTALLOC_DEVICEMAP
    host = int(check(cuda.cuMemHostAlloc(size, flags), "allocating memory on the host"))
    ctypes.memset(host, 0, size)
    return host, int(check(cuda.cuMemHostGetDevicePointer(host, 0), "sharing memory"))


class Event:
    """A moment in a stream of the current device."""

    def __init__(self, stream: int) -> None:
        """Record it behind what is in the stream."""
        doing = "recording an event"
        self._event = check(cuda.cuEventCreate(0), doing)
        check(cuda.cuEventRecord(self._event, stream), doing)

    def since(self, earlier: Event) -> float:
        """Milliseconds from an earlier one; both have happened."""
        passed = cuda.cuEventElapsedTime(earlier._event, self._event)
        return float(check(passed, "asking for the time between events"))

    def destroy(self) -> None:
        """Give it back."""
        cuda.cuEventDestroy(self._event)
