"""Modules that are loaded on a device, launches of their kernels, and the driver's facts.

**Assertions.** A false assertion is reported in a record in memory that host and device share. The
next launch of the kernel raises it. A report that no launch has seen is printed when the program
ends, or when the kernel is collected: the assertion must not stay unnoticed, and PyTorch, which may
be what waited for the device, cannot be told.
"""

from __future__ import annotations

import ctypes
import math
import sys
import weakref
from typing import Any, TypeAlias

from cuda.bindings import driver as cuda

from tile.backends.capabilities import KernelInfo
from tile.backends.nvptx import driver
from tile.backends.nvptx.launch_metadata import RECORD, REPORTED, LaunchMetadata
from tile.errors import DeviceAssertionError, OutOfResourcesError, TileError

_LOG_BYTES = 1 << 14


class Loaded:
    """A function of a module that is loaded on the current device."""

    def __init__(
        self, code: bytes, kernel: str, shared_bytes: int, *, cooperative: bool = False
    ) -> None:
        """Load a cubin or an `image` of PTX.

        The programs of a `cooperative` kernel all run at once, or its launch fails.
        """
        self._cooperative = cooperative
        self._start = cuda.cuLaunchCooperativeKernel if cooperative else cuda.cuLaunchKernel
        self._last = () if cooperative else (0,)  # `extra`, which only a plain launch takes
        self.module = _load(code, kernel)
        self.function = driver.check(
            cuda.cuModuleGetFunction(self.module, kernel.encode()), f"finding `{kernel}`"
        )
        self.kernel = kernel
        self.shared_bytes = shared_bytes
        if shared_bytes:
            attribute = cuda.CUfunction_attribute
            driver.check(
                cuda.cuFuncSetAttribute(
                    self.function,
                    attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    shared_bytes,
                ),
                f"giving `{kernel}` {shared_bytes} bytes of shared memory",
            )

    def global_address(self, name: str) -> int:
        """Return the address of a global variable of the module."""
        address, _ = driver.check(
            cuda.cuModuleGetGlobal(self.module, name.encode()), f"finding `{name}`"
        )
        return int(address)

    def allow_clusters_of(self, size: int) -> None:
        """Allow clusters of more programs than every device with clusters supports."""
        attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        driver.check(
            cuda.cuFuncSetAttribute(self.function, attribute, 1),
            f"allowing clusters of {size} programs of `{self.kernel}`",
        )

    def prefer_shared_memory(self) -> None:
        """Let a multiprocessor that runs the kernel have as much shared memory as it can.

        Else it has as little as holds the programs that it runs of this kernel, so that few of the
        next launch are co-resident with them, although each may take a KB only.
        """
        attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        most = int(cuda.CUshared_carveout.CU_SHAREDMEM_CARVEOUT_MAX_SHARED)
        driver.check(
            cuda.cuFuncSetAttribute(self.function, attribute, most),
            f"giving multiprocessors that run `{self.kernel}` shared memory",
        )

    def launch(
        self,
        grid: tuple[int, int, int],
        threads: int,
        stream: int,
        parameters: int,
        cluster: int = 1,
        *,
        dependent: bool = False,
    ) -> None:
        """Launch the kernel; `parameters` is the address of an array of addresses of values.

        Every `cluster` consecutive programs along the first axis, whose extent is a multiple of
        that, form a cluster. Programs of a `dependent` launch may start before the launch that
        precedes it is complete.
        """
        if cluster > 1 or dependent:
            config = self._config(grid, threads, stream, cluster, dependent=dependent)
            (status,) = cuda.cuLaunchKernelEx(config, self.function, parameters, 0)
        else:
            extents = (*grid, threads, 1, 1)
            (status,) = self._start(
                self.function, *extents, self.shared_bytes, stream, parameters, *self._last
            )
        if status != driver.SUCCESS:
            raise self.launch_error(status, grid, threads, cluster)

    def _config(
        self,
        grid: tuple[int, int, int],
        threads: int,
        stream: int,
        cluster: int,
        *,
        dependent: bool = False,
    ) -> Any:
        """Return the configuration of a launch with attributes."""
        config = cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes, config.hStream = self.shared_bytes, stream
        attributes = []
        if cluster > 1:
            extents = cuda.CUlaunchAttributeValue()
            extents.clusterDim.x, extents.clusterDim.y, extents.clusterDim.z = cluster, 1, 1
            attributes.append(_attribute("CLUSTER_DIMENSION", extents))
        if self._cooperative:
            cooperative = cuda.CUlaunchAttributeValue()
            cooperative.cooperative = 1
            attributes.append(_attribute("COOPERATIVE", cooperative))
        if dependent:
            overlap = cuda.CUlaunchAttributeValue()
            overlap.programmaticStreamSerializationAllowed = 1
            attributes.append(_attribute("PROGRAMMATIC_STREAM_SERIALIZATION", overlap))
        config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def launch_error(
        self, status: Any, grid: tuple[int, int, int], threads: int, cluster: int
    ) -> TileError:
        """Return the error for a launch that returned this status."""
        if status == cuda.CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
            resident = self.programs(threads) * driver.current_device().multiprocessors
            if cluster > 1:
                resident = self.clusters(threads, cluster) * cluster
            return OutOfResourcesError(
                f"`{self.kernel}` is launched cooperatively, so all its programs must run at once; "
                f"a grid of {grid} has {math.prod(grid)}, and the device runs {resident}"
            )
        return driver.error(
            status, f"launching `{self.kernel}` on a grid of {grid} with {threads} threads"
        )

    def attribute(self, name: str) -> int:
        """Return an attribute of the function, such as `NUM_REGS` or `LOCAL_SIZE_BYTES`."""
        attribute = getattr(cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(
            driver.check(cuda.cuFuncGetAttribute(attribute, self.function), f"asking for {name}")
        )

    def programs(self, threads: int) -> int:
        """Return the most programs of that many threads that a multiprocessor runs at once."""
        returned = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            self.function, threads, self.shared_bytes
        )
        return int(driver.check(returned, "asking how many programs run at once"))

    def clusters(self, threads: int, size: int) -> int:
        """Return the most clusters of `size` programs that the device runs at once; may be 0."""
        config = self._config((size, 1, 1), threads, 0, size)
        returned = cuda.cuOccupancyMaxActiveClusters(self.function, config)
        return int(driver.check(returned, "asking how many clusters run at once"))


def _attribute(name: str, value: Any) -> Any:
    """Return a launch attribute."""
    attribute = cuda.CUlaunchAttribute()
    attribute.id = getattr(cuda.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
    attribute.value = value
    return attribute


def image(ptx: str) -> bytes:
    """Return PTX in the form that `Loaded` takes."""
    return ptx.encode() + b"\0"


def _load(code: bytes, kernel: str) -> Any:
    """Load a module from a cubin, or from PTX, which is compiled now."""
    log = _Log()
    return log.check(cuda.cuModuleLoadDataEx(code, *log.options), f"loading `{kernel}`")


class _Log:
    """The error log of the driver's compiler, with source locations."""

    def __init__(self) -> None:
        self._buffer = bytearray(_LOG_BYTES)
        option = cuda.CUjit_option
        options: dict[Any, Any] = {
            option.CU_JIT_ERROR_LOG_BUFFER: self._buffer,
            option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
            option.CU_JIT_GENERATE_LINE_INFO: 1,
        }
        self.options = (len(options), list(options), list(options.values()))

    def check(self, returned: Any, doing: str) -> Any:
        """Check a call as `check` does, and add the log to the notes of its error."""
        try:
            return driver.check(returned, doing)
        except TileError as raised:
            log = bytes(self._buffer).partition(b"\0")[0].decode(errors="replace")
            raised.notes.extend(log.splitlines()[:8])
            raise


def kernel_info(
    loaded: Loaded, device: driver.Device, metadata: LaunchMetadata, cluster: int
) -> KernelInfo:
    """Query the driver; the device is the current one. `cluster` programs form a cluster."""
    programs = loaded.programs(metadata.threads)
    return KernelInfo(
        device=f"cuda:{device.ordinal} ({device.name}, {device.architecture})",
        threads=metadata.threads,
        max_threads=loaded.attribute("MAX_THREADS_PER_BLOCK"),
        registers=loaded.attribute("NUM_REGS"),
        local_bytes=loaded.attribute("LOCAL_SIZE_BYTES"),
        shared_bytes=loaded.attribute("SHARED_SIZE_BYTES") + metadata.shared_bytes,
        programs=programs,
        cluster=cluster,
        clusters=loaded.clusters(metadata.threads, cluster) if cluster > 1 else None,
        occupancy=programs * metadata.threads / device.max_threads,
        binary_version="{}.{}".format(*divmod(loaded.attribute("BINARY_VERSION"), 10)),
    )


# i32s: the assertion's number from 1, or 0 for none; the program along x, y, z; the thread
_FIELDS = 8
_WARP = 32

Fields: TypeAlias = "ctypes.Array[ctypes.c_int32]"


class FaultRecord:
    """The record of one kernel on one device, which must be current when the record is created.

    fields: the first is not 0 if a completed launch reported a false assertion.
    """

    def __init__(self, loaded: Loaded, metadata: LaunchMetadata) -> None:
        self._metadata = metadata
        self._reported = loaded.global_address(REPORTED)
        host, device = driver.shared_with_host(4 * _FIELDS)
        self.fields: Fields = (ctypes.c_int32 * _FIELDS).from_address(host)
        driver.write_variable(loaded.global_address(RECORD), device, 64)
        weakref.finalize(self, _print_unseen, self.fields, metadata)

    def check(self) -> None:
        """Raise `DeviceAssertionError` if a completed launch reported a false assertion."""
        error = _reported(self.fields, self._metadata)
        if error is not None:
            driver.write_variable(self._reported, 0, 32)
            raise error


def _reported(fields: Fields, metadata: LaunchMetadata) -> DeviceAssertionError | None:
    """Return the error of the assertion in a record, and clear it; None if there is none."""
    number = fields[0]
    if not number:
        return None
    *program, thread = fields[1:5]
    fields[0] = 0
    warp, lane = divmod(thread, _WARP)
    where = f"thread {thread} (warp {warp}, lane {lane})"
    return metadata.assertions[number - 1].failure(metadata.kernel, program, where)


def _print_unseen(fields: Fields, metadata: LaunchMetadata) -> None:
    error = _reported(fields, metadata)
    if error is not None:
        sys.stderr.write(f"tile: {error}\nnote: nothing raised this: no launch of it followed\n")
