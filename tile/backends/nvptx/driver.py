"""The CUDA driver: devices, modules, memory, launches. It is opened at its first use.

The status of every call is checked here, and a failure becomes one of this package's errors, which
says what to do. Contexts are the primary ones, which torch, CuPy and the CUDA runtime use too.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tile.backends.base import DeviceMemory
from tile.backends.nvptx.architectures import has_clusters, has_dependent_launches, native
from tile.backends.nvptx.launch_metadata import (
    MAP_ALIGNMENT,
    MAP_BYTES,
    MAP_ELEMENTS,
    MAP_STRIDE,
)
from tile.errors import BackendError, ExecutionError, OutOfResourcesError, TileError

try:
    from cuda.bindings import driver as cuda
except ModuleNotFoundError as missing:
    raise BackendError(
        "kernels are launched on NVIDIA GPUs through the package 'cuda-python', which is not "
        "installed; pip install 'tile-compiler[cuda]' brings it"
    ) from missing

_R = cuda.CUresult

_OUT_OF_RESOURCES = frozenset({_R.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, _R.CUDA_ERROR_OUT_OF_MEMORY})

# Faults of a running kernel, which the next call of any kind reports.
_ASYNCHRONOUS = frozenset(
    {
        _R.CUDA_ERROR_ILLEGAL_ADDRESS,
        _R.CUDA_ERROR_MISALIGNED_ADDRESS,
        _R.CUDA_ERROR_ILLEGAL_INSTRUCTION,
        _R.CUDA_ERROR_INVALID_ADDRESS_SPACE,
        _R.CUDA_ERROR_INVALID_PC,
        _R.CUDA_ERROR_HARDWARE_STACK_ERROR,
        _R.CUDA_ERROR_ASSERT,
        _R.CUDA_ERROR_LAUNCH_FAILED,
        _R.CUDA_ERROR_LAUNCH_TIMEOUT,
        _R.CUDA_ERROR_ECC_UNCORRECTABLE,
    }
)

# Faults of a machine or its driver, and their remedies.
_MACHINE = {
    _R.CUDA_ERROR_NO_DEVICE: (
        "the NVIDIA driver finds no device; CUDA_VISIBLE_DEVICES may hide it, and in a container "
        "it must be passed in"
    ),
    _R.CUDA_ERROR_STUB_LIBRARY: (
        "libcuda is the stub of a CUDA toolkit, which programs are only linked with; the one of "
        "the driver must be found before it"
    ),
    _R.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: (
        "libcuda and the NVIDIA driver of the system are of different versions; after an update "
        "of the driver the machine must be restarted"
    ),
    _R.CUDA_ERROR_UNSUPPORTED_PTX_VERSION: (
        "the NVIDIA driver is older than the PTX that this architecture needs; update the driver"
    ),
    _R.CUDA_ERROR_NO_BINARY_FOR_GPU: "the code is for another architecture than the device's",
    _R.CUDA_ERROR_DEVICE_UNAVAILABLE: "the device is taken by another process alone",
}


def error(status: Any, doing: str) -> TileError:
    """Return the error for an unsuccessful status of a call that was `doing` something."""
    _, text = cuda.cuGetErrorString(status)
    description = text.decode() if isinstance(text, bytes) else str(text)
    code = getattr(status, "name", str(status))
    if status in _MACHINE:
        return BackendError(f"{doing} failed: {_MACHINE[status]} ({code})")
    if status in _ASYNCHRONOUS:
        return ExecutionError(
            f"{doing} found that a kernel failed on the device: {description} ({code})",
            notes=[
                "launches do not wait, so it may be any kernel that was launched before, of any "
                "library; with CUDA_LAUNCH_BLOCKING=1 each launch waits for its own",
                "the process cannot use the device any more; run the program under "
                "TILE_BACKEND=interp, or compute-sanitizer, to find the line",
            ],
        )
    message = f"{doing} failed: {description} ({code})"
    return OutOfResourcesError(message) if status in _OUT_OF_RESOURCES else ExecutionError(message)


SUCCESS = cuda.CUresult.CUDA_SUCCESS
OLDEST = 12_040  # the first with PTX 8.4, the oldest version that the backend emits
_Attribute = cuda.CUdevice_attribute


def check(returned: Any, doing: str) -> Any:
    """Return the results of a driver call after its status, which must be success.

    Raises `OutOfResourcesError`, `BackendError` for a fault of the machine, or `ExecutionError`;
    the message says what failed (`doing`) and how.
    """
    status, *values = returned
    if status != SUCCESS:
        raise error(status, doing)
    if len(values) < 2:
        return values[0] if values else None
    return tuple(values)


@functools.cache
def _open() -> int:
    """Initialize the driver, and return the number of devices.

    Raises `BackendError` if there is none.
    """
    try:
        (status,) = cuda.cuInit(0)
    except (RuntimeError, ImportError, OSError) as missing:
        raise BackendError(
            "there is no NVIDIA driver on this machine, so the nvptx backend cannot run kernels "
            "here"
        ) from missing
    if status != SUCCESS:
        raise BackendError(error(status, "starting the NVIDIA driver").message)
    installed = version()
    if installed < OLDEST:
        raise BackendError(
            f"the NVIDIA driver is too old: it is for CUDA {version_text(installed)}, and kernels "
            f"need one for CUDA {version_text(OLDEST)} or later"
        )
    count = int(check(cuda.cuDeviceGetCount(), "counting devices"))
    if not count:
        raise error(cuda.CUresult.CUDA_ERROR_NO_DEVICE, "starting the NVIDIA driver")
    return count


def version() -> int:
    """Return the version of CUDA that the driver supports: 12040 for 12.4."""
    return int(check(cuda.cuDriverGetVersion(), "asking for the driver's version"))


def version_text(number: int) -> str:
    """Return a version in the usual form, such as 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


class Device:
    """A GPU and its primary context."""

    def __init__(self, ordinal: int) -> None:
        count = _open()
        if not 0 <= ordinal < count:
            devices = f"there are {count}, from 0" if count > 1 else f"there is {count}"
            raise BackendError(f"there is no device {ordinal}; {devices}")
        self.ordinal = ordinal
        self.handle = check(cuda.cuDeviceGet(ordinal), f"opening device {ordinal}")
        self.major = self.attribute(_Attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        self.minor = self.attribute(_Attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        self.shared_bytes = self.attribute(
            _Attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        )

    @property
    def has_clusters(self) -> bool:
        """True if launches on the device may use clusters."""
        return has_clusters(10 * self.major + self.minor)

    @property
    def has_dependent_launches(self) -> bool:
        """True if a launch on the device may overlap the one before."""
        return has_dependent_launches(10 * self.major + self.minor)

    @functools.cached_property
    def name(self) -> str:
        """The product name."""
        name = check(cuda.cuDeviceGetName(128, self.handle), "asking about a device")
        return bytes(name).partition(b"\0")[0].decode(errors="replace")

    @functools.cached_property
    def max_threads(self) -> int:
        """The most threads that a multiprocessor runs at once."""
        return self.attribute(_Attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)

    @functools.cached_property
    def multiprocessors(self) -> int:
        return self.attribute(_Attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)

    @functools.cached_property
    def l2_bytes(self) -> int:
        """The size of the L2 cache in bytes."""
        return self.attribute(_Attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)

    def attribute(self, attribute: Any) -> int:
        """Return an attribute of the device, by the driver's enumeration."""
        return int(
            check(cuda.cuDeviceGetAttribute(attribute, self.handle), "asking about a device")
        )

    @functools.cached_property
    def context(self) -> int:
        """The handle of its context."""
        doing = f"opening device {self.ordinal}"
        return int(check(cuda.cuDevicePrimaryCtxRetain(self.handle), doing))

    @property
    def architecture(self) -> str:
        """The name of its architecture."""
        return native(self.major, self.minor)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make its context current in this thread, and restore the previous one afterwards."""
        before = check(cuda.cuCtxGetCurrent(), "asking for the current device")
        if int(before) == self.context:
            yield
            return
        check(cuda.cuCtxPushCurrent(self.context), "choosing a device")
        try:
            yield
        finally:
            check(cuda.cuCtxPopCurrent(), "leaving a device")


_DEVICES: dict[int, Device] = {}
_LOCK = threading.Lock()


def device(ordinal: int) -> Device:
    """Return a device by its ordinal."""
    with _LOCK:
        if ordinal not in _DEVICES:
            _DEVICES[ordinal] = Device(ordinal)
        return _DEVICES[ordinal]


def current_device() -> Device:
    """Return this thread's current device: the first one unless another was selected."""
    _open()
    context = check(cuda.cuCtxGetCurrent(), "asking for the current device")
    if not int(context):
        return device(0)
    return device(int(check(cuda.cuCtxGetDevice(), "asking for the current device")))


def current_architecture() -> str:
    """Return the architecture of the current device. Raises `BackendError` if there is none."""
    return current_device().architecture


def current_names() -> list[str]:
    """Return the name of the current device, and the driver's version."""
    return [current_device().name, f"driver {version()}"]


def device_of(array: DeviceMemory) -> Device:
    """Return the device whose memory holds an array."""
    number = array.device.partition(":")[2]
    return device(int(number) if number else ordinal_of(array.address))


def ordinal_of(address: int) -> int:
    """Return the ordinal of the device whose memory holds an address."""
    _open()
    attribute = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(check(cuda.cuPointerGetAttribute(attribute, address), "finding an array's device"))


def describe_devices() -> list[str]:
    """Describe the driver and every device, a line each, without making contexts.

    Raises `BackendError` if there are none.
    """

    def describe(each: Device) -> str:
        memory = int(check(cuda.cuDeviceTotalMem(each.handle), "asking about a device"))
        return (
            f"{each.ordinal}: {each.name}, {each.architecture}, {memory >> 30} GiB, "
            f"{each.shared_bytes >> 10} KiB of shared memory for a program"
        )

    devices = [describe(device(ordinal)) for ordinal in range(_open())]
    return [f"driver for CUDA {version_text(version())}", *devices]


# -- functions that the launch fast path calls without the wrapper of cuda.bindings


@functools.cache
def direct(name: str) -> Any:
    """Return a function of the driver by its C name, which returns a status; None if it is missing.

    ctypes releases the GIL during the call: a launch waits when many are pending.
    """
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return getattr(ctypes.CDLL(library), name, None)
    except OSError:
        return None


# -- tensor maps

_Map = cuda.CUtensorMapDataType
_SWIZZLES = {
    0: cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
    32: cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
    64: cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    128: cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
}


def tensor_map(
    element: str,
    base: int,
    extents: Sequence[int],
    strides: Sequence[int],
    box_dim: Sequence[int],
    swizzle: int,
    window: Sequence[Sequence[int]] = (),
) -> Any:
    """Encode the tensor map of an array for TMA copies; elements outside of it read as zero.

    Axes start with the outermost; `strides`, in bytes, lack the last one. The map of images for
    loads in im2col mode has a `window`; see `TensorMap.window`.
    """
    if window:
        lower, upper, steps = window
        encode, pixels, channels = cuda.cuTensorMapEncodeIm2col, *box_dim
        boxes = [list(reversed(lower)), list(reversed(upper)), channels, pixels]
        steps = (1, *reversed(steps), 1)
    else:
        encode, steps = cuda.cuTensorMapEncodeTiled, (1,) * len(extents)
        boxes = [[cuda.cuuint32_t(n) for n in reversed(box_dim)]]
    return check(
        encode(
            getattr(_Map, f"CU_TENSOR_MAP_DATA_TYPE_{MAP_ELEMENTS[element][0]}"),
            len(extents),
            base,
            [cuda.cuuint64_t(n) for n in reversed(extents)],
            # The driver refuses an array of no strides, which it does not read for one axis.
            [cuda.cuuint64_t(n) for n in reversed(strides)] or [cuda.cuuint64_t(MAP_STRIDE)],
            *boxes,
            [cuda.cuuint32_t(n) for n in steps],
            cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            _SWIZZLES[swizzle],
            cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ),
        f"encoding a tensor map of an array of extents {list(extents)}",
    )


def with_base(address: int, base: int) -> tuple[int, Any] | None:
    """Copy the tensor map at `address` for an array at `base`; None if the driver is too old.

    Return the address of the copy, and an object that keeps it alive. `base` is a multiple of 16.
    """
    replace = direct("cuTensorMapReplaceAddress")
    if replace is None:
        return None
    memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    copy = ctypes.addressof(memory)
    copy += -copy % MAP_ALIGNMENT
    ctypes.memmove(copy, address, MAP_BYTES)
    status = replace(ctypes.c_void_p(copy), ctypes.c_void_p(base))
    return None if status else (copy, memory)


# -- memory and waiting


def allocate(size: int) -> int:
    """Allocate memory on the current device."""
    return int(check(cuda.cuMemAlloc(size), f"allocating {size} bytes on the device"))


def zeroed(size: int) -> int:
    """Allocate zeroed memory on the current device."""
    address = allocate(size)
    check(cuda.cuMemsetD8(address, 0, size), "clearing memory")
    return address


def clear(address: int, size: int, stream: int) -> None:
    """Clear memory, in stream order."""
    check(cuda.cuMemsetD8Async(address, 0, size, stream), "clearing memory")


def free(address: int) -> None:
    """Free memory."""
    cuda.cuMemFree(address)


def to_device(address: int, host: int, size: int, stream: int) -> None:
    """Copy from the host to the device, in stream order."""
    check(cuda.cuMemcpyHtoDAsync(address, host, size, stream), "copying an array to the device")


def to_host(host: int, address: int, size: int, stream: int) -> None:
    """Copy from the device to the host, in stream order."""
    check(cuda.cuMemcpyDtoHAsync(host, address, size, stream), "copying an array from the device")


def write_variable(address: int, value: int, bits: int) -> None:
    """Set a 32-bit or 64-bit variable in the current device's memory."""
    data = ctypes.c_uint64(value)
    check(cuda.cuMemcpyHtoD(address, ctypes.addressof(data), bits // 8), "setting a variable")


def wait(stream: int, doing: str) -> None:
    """Wait until a stream has finished all its work."""
    (status,) = cuda.cuStreamSynchronize(stream)
    if status != SUCCESS:
        raise error(status, doing)


def shared_with_host(size: int) -> tuple[int, int]:
    """Allocate zeroed memory that host and device share; return its address on either side."""
    flags = cuda.CU_MEMHOSTALLOC_PORTABLE | cuda.CU_MEMHOSTALLOC_DEVICEMAP
    host = int(check(cuda.cuMemHostAlloc(size, flags), "allocating memory on the host"))
    ctypes.memset(host, 0, size)
    return host, int(check(cuda.cuMemHostGetDevicePointer(host, 0), "sharing memory"))


class Event:
    """A point in a stream of the current device."""

    def __init__(self, stream: int) -> None:
        """Record the event after all work that is in the stream now."""
        doing = "recording an event"
        self._event = check(cuda.cuEventCreate(0), doing)
        check(cuda.cuEventRecord(self._event, stream), doing)

    def since(self, earlier: Event) -> float:
        """Return the milliseconds since an earlier event; both have completed."""
        returned = cuda.cuEventElapsedTime(earlier._event, self._event)
        return float(check(returned, "asking for the time between events"))

    def destroy(self) -> None:
        """Destroy the event."""
        cuda.cuEventDestroy(self._event)


# By the names that Triton's driver gives them.
_PROPERTIES = {
    "max_shared_mem": _Attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    "max_num_regs": _Attribute.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
    "multiprocessor_count": _Attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    "warpSize": _Attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE,
    "sm_clock_rate": _Attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
    "mem_clock_rate": _Attribute.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
    "mem_bus_width": _Attribute.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
}


def device_properties(ordinal: int) -> dict[str, int]:
    """Return the properties of a device. Raises `BackendError` if there is no such device."""
    asked = device(ordinal)
    return {name: asked.attribute(attribute) for name, attribute in _PROPERTIES.items()}
