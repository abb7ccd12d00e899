"""A compiled kernel on the devices that hold its arguments."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tile._lazy import lazy_import
from tile.backends.base import Artifact, Grid, LaunchArgument
from tile.backends.capabilities import BoundLaunch, KernelInfo, Passed, Timer
from tile.backends.nvptx import driver, ptxas
from tile.backends.nvptx.architectures import BLACKWELL, PORTABLE_CLUSTER, runs
from tile.backends.nvptx.fast_launch import FORMATS, FastLauncher, LaunchAttributes, Parameter
from tile.backends.nvptx.host_staging import current_streams, stream_reader
from tile.backends.nvptx.launch_metadata import MAP_ALIGNMENT, LaunchMetadata
from tile.backends.nvptx.loaded_module import Loaded, image
from tile.backends.nvptx.tensor_maps import MapEncoder, UnmappableError
from tile.errors import (
    ArgumentValueError,
    BackendError,
    ExecutionError,
    OutOfResourcesError,
    PerformanceWarning,
)
from tile.tracebacks import warn

if TYPE_CHECKING:
    from tile.backends.nvptx.event_timer import EventTimer, current_timer
    from tile.backends.nvptx.host_staging import Staging
    from tile.backends.nvptx.loaded_module import FaultRecord, kernel_info
else:
    FaultRecord = lazy_import("tile.backends.nvptx.loaded_module", "FaultRecord")
    kernel_info = lazy_import("tile.backends.nvptx.loaded_module", "kernel_info")
    Staging = lazy_import("tile.backends.nvptx.host_staging", "Staging")
    EventTimer = lazy_import("tile.backends.nvptx.event_timer", "EventTimer")
    current_timer = lazy_import("tile.backends.nvptx.event_timer", "current_timer")

_PARAMETER_BYTES = 8  # no type needs more
_HOST = "the host"  # among the names of memories


@dataclass(frozen=True)
class _DeviceKernel:
    """The kernel on one device."""

    loaded: Loaded
    faults: FaultRecord | None
    maps: tuple[MapEncoder, ...]
    attributes: LaunchAttributes


class LoadedKernel:
    """A kernel ready to run; it is loaded on a device at the first launch there.

    Arrays in a device's memory are accessed in place, on the current stream, and the launch does
    not wait. Arrays of the host are copied there and back, and the launch waits; so it does, before
    and after, if arrays are ready on several streams.
    """

    def __init__(
        self,
        artifact: Artifact,
        metadata: LaunchMetadata,
        without_maps: Callable[[], LoadedKernel],
    ) -> None:
        """`without_maps` returns the same kernel without tensor maps, for unmappable arrays."""
        ptx = artifact.stages["ptx"]
        assert isinstance(ptx, str)
        self.name = artifact.kernel
        self.arch = artifact.target.arch
        self.ptx = ptx
        self.metadata = metadata
        self._parameters = artifact.parameters
        self._written = [name in artifact.written for name in artifact.parameters]
        self._cooperative = artifact.options.launch_cooperative_grid
        self._cluster = artifact.options.num_ctas
        # Whether a cooperative launch may overlap another is not documented.
        self._dependent = artifact.options.launch_pdl and not self._cooperative
        self._compile_without_maps = functools.cache(without_maps)
        self._warned = False
        self._devices: dict[int, _DeviceKernel] = {}
        self._assemblies: dict[str, Callable[[], bytes | None]] = {}  # by architecture
        # device and stream of the last ordinary launch
        self._last: tuple[driver.Device, int] | None = None

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run over the grid.

        Raises `ArgumentValueError` for arrays on several devices, or on a device and on the host,
        `OutOfResourcesError`, `DeviceAssertionError` (of this launch, or, where launches do not
        wait, of an earlier one of this kernel), `ExecutionError`, and `BackendError` for a device
        that does not run what the kernel was compiled for.
        """
        device = self._device_of(arguments)
        with device.current():
            kernel = self._devices.get(device.ordinal) or self._load(device)
            if kernel.faults is not None:
                kernel.faults.check()
            stream, *others = current_streams(arguments, device.ordinal)
            self._last = device, stream
            for other in others:
                driver.wait(other, f"what the arrays of `{self.name}` are computed by")
            hosts = [i for i, value in enumerate(arguments) if isinstance(value, np.ndarray)]
            try:
                if hosts:
                    self._staged(kernel, grid, list(arguments), hosts, stream)
                else:
                    self._start(kernel, grid, arguments, stream)
            except UnmappableError as reason:
                self._without_maps(reason).launch(grid, arguments)
            if others:
                driver.wait(stream, f"running `{self.name}`")

    def bind(
        self, arguments: Sequence[LaunchArgument | None], fixed: Collection[int]
    ) -> BoundLaunch | None:
        """Return the fast path of a launch on arrays in one device's memory with a known stream.

        None for cooperative kernels, which are launched the ordinary way.
        """
        passed = [value for value in arguments if value is not None]
        arrays = [value for value in passed if not isinstance(value, np.generic)]
        if self._cooperative or not arrays or any(isinstance(a, np.ndarray) for a in arrays):
            return None
        device = self._device_of(passed)
        kernel = self._devices.get(device.ordinal)
        stream = stream_reader([getattr(a, "source", None) for a in arrays], device.ordinal)
        launch = driver.direct("cuLaunchKernelEx")
        if kernel is None or stream is None or launch is None:  # the driver is too old
            return None
        index = itertools.count()
        parameters: list[Parameter] = []
        for at, value in enumerate(arguments):
            parameter = _parameter(value, None if at in fixed else Passed(next(index)))
            if parameter is None:
                return None
            parameters.append(parameter)
        return FastLauncher(
            kernel.loaded,
            self.metadata.threads,
            launch,
            stream,
            parameters,
            kernel.maps,
            kernel.attributes,
            (ctypes.c_int32 * 1)() if kernel.faults is None else kernel.faults.fields,
            driver.direct("cuTensorMapReplaceAddress"),
        ).bound()

    def assemble(self) -> None:
        """Let ptxas make the cubin for the current device now, for the cache on disk."""
        self._assembly(driver.current_device())()

    def timer(self) -> Timer:
        """Return a timer on the stream of the last ordinary launch."""
        return EventTimer(*self._last) if self._last else current_timer()

    def info(self) -> KernelInfo:
        """Describe the kernel on the current device, where it is loaded now if it was not."""
        device = driver.current_device()
        with device.current():
            kernel = self._devices.get(device.ordinal) or self._load(device)
            return kernel_info(kernel.loaded, device, self.metadata, kernel.attributes.size)

    def _device_of(self, arguments: Sequence[LaunchArgument]) -> driver.Device:
        memories: dict[str, str] = {}  # the name of a parameter by the memory that holds it
        ordinal = -1
        for name, value in zip(self._parameters, arguments, strict=True):
            if isinstance(value, np.ndarray):
                memories.setdefault(_HOST, name)
            elif not isinstance(value, np.generic):
                kind, _, number = value.device.partition(":")
                ordinal = int(number) if number else driver.ordinal_of(value.address)
                memories.setdefault(f"{kind}:{ordinal}", name)
        if len(memories) > 1:
            arrays = ", ".join(f"`{name}` on {memory}" for memory, name in memories.items())
            one = next(memory for memory in memories if memory != _HOST)
            raise ArgumentValueError(
                f"the arrays of a launch of `{self.name}` lie in different memories: {arrays}",
                notes=[f'copy all of them to one, as x.to("{one}") does in PyTorch'],
            )
        return driver.device(ordinal) if ordinal >= 0 else driver.current_device()

    def _load(self, device: driver.Device) -> _DeviceKernel:
        metadata = self.metadata
        if not runs(device.architecture, self.arch):
            raise BackendError(
                f"`{self.name}` was compiled for {self.arch}, and device {device.ordinal} is "
                f"{device.architecture}, which does not run that; compile it for "
                f"`nvptx:{device.architecture}`, or name no architecture"
            )
        if metadata.shared_bytes > device.shared_bytes:
            raise OutOfResourcesError(
                f"`{self.name}` takes {metadata.shared_bytes} bytes of shared memory, and device "
                f"{device.ordinal} has {device.shared_bytes} for a program",
                required=metadata.shared_bytes,
                limit=device.shared_bytes,
                name="shared memory",
            )
        loaded = self._load_code(device)
        attributes = self._attributes(loaded, device)
        faults = FaultRecord(loaded, metadata) if metadata.assertions else None
        empty = functools.cache(lambda: driver.zeroed(MAP_ALIGNMENT))
        is_blackwell = device.major >= BLACKWELL
        maps = tuple([MapEncoder(each, empty, clears_bit=is_blackwell) for each in metadata.maps])
        kernel = self._devices[device.ordinal] = _DeviceKernel(loaded, faults, maps, attributes)
        return kernel

    def _load_code(self, device: driver.Device) -> Loaded:
        """Load a cubin if there is one that the driver takes, else PTX; the device is current."""
        kernel = self.metadata.kernel
        load = functools.partial(
            Loaded,
            kernel=kernel,
            shared_bytes=self.metadata.shared_bytes,
            cooperative=self._cooperative,
        )
        cubin = self._assembly(device)()
        if cubin is not None:
            try:
                return load(cubin)
            except (BackendError, ExecutionError):
                pass  # a driver that is older than ptxas may reject its cubins
        return load(image(self.ptx))

    def _assembly(self, device: driver.Device) -> Callable[[], bytes | None]:
        """Start ptxas for a device, once, and return a function that waits for the cubin."""
        arch = device.architecture
        if arch not in self._assemblies:
            started = ptxas.start_cubin(self.ptx, self.metadata.kernel, arch, driver.version())
            self._assemblies[arch] = started
        return self._assemblies[arch]

    def _attributes(self, loaded: Loaded, device: driver.Device) -> LaunchAttributes:
        """Return those of launches on a device. Raises `OutOfResourcesError` if no cluster fits."""
        attributes = LaunchAttributes.on(
            device,
            self.name,
            self._cluster,
            required=self.metadata.gathers,
            dependent=self._dependent,
        )
        size = attributes.size
        if attributes.dependent and 2 * loaded.shared_bytes > device.shared_bytes:
            loaded.prefer_shared_memory()
        if size > PORTABLE_CLUSTER:
            loaded.allow_clusters_of(size)
        if size > 1 and not loaded.clusters(self.metadata.threads, size):
            raise OutOfResourcesError(
                f"`{self.name}` asks for clusters of num_ctas={size} programs, each of "
                f"{self.metadata.threads} threads and {self.metadata.shared_bytes} bytes of shared "
                f"memory, and device {device.ordinal} cannot hold one; take a smaller num_ctas, "
                "or programs that need less"
            )
        return attributes

    def _without_maps(self, reason: UnmappableError) -> LoadedKernel:
        """Return the same kernel without tensor maps; a warning says so once."""
        if not self._warned:
            self._warned = True
            message = f"`{self.name}` accesses an array without TMA, which is slower: {reason}"
            warn(message, category=PerformanceWarning)
        return self._compile_without_maps()

    def _start(
        self, kernel: _DeviceKernel, grid: Grid, arguments: Sequence[Any], stream: int
    ) -> None:
        """Put the launch in the stream. The driver has read the parameters when it returns.

        Raises `UnmappableError` for an array that no tensor map describes.
        """
        values = [_value(value) for value in arguments]
        count = len(values)
        data = ctypes.create_string_buffer(
            b"".join([value.ljust(_PARAMETER_BYTES) for value in values])
        )
        start = ctypes.addressof(data)
        addresses = [start + _PARAMETER_BYTES * number for number in range(count)]
        if kernel.maps:
            numbers = [_number(value) for value in arguments]
            maps = [encoder.encoded(numbers) for encoder in kernel.maps]  # alive until the launch
            addresses += [encoded.address for encoded in maps]
        pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        kernel.loaded.launch(
            grid,
            self.metadata.threads,
            stream,
            ctypes.addressof(pointers),
            kernel.attributes.size_for(grid[0]),
            dependent=kernel.attributes.dependent,
        )

    def _staged(
        self,
        kernel: _DeviceKernel,
        grid: Grid,
        arguments: list[Any],
        hosts: list[int],
        stream: int,
    ) -> None:
        """Launch on copies of the host's arrays, and wait."""
        staging = Staging(stream)
        try:
            staging.stage([arguments[i] for i in hosts], [self._written[i] for i in hosts])
            for i in hosts:
                arguments[i] = np.uint64(staging.address(arguments[i]))
            self._start(kernel, grid, arguments, stream)
            driver.wait(stream, f"running `{self.name}`")
            staging.fetch()
            driver.wait(stream, "copying results back")
        finally:
            staging.close()
        if kernel.faults is not None:
            kernel.faults.check()


def _value(value: Any) -> bytes:
    """Return a parameter as the bytes that the kernel reads."""
    if isinstance(value, np.generic):
        return value.tobytes()
    address: int = value.address
    return address.to_bytes(8, "little")


def _number(value: Any) -> Any:
    """Return a parameter as a number: an address, for an array."""
    return value if isinstance(value, np.generic) else value.address


def _parameter(value: Any, passed: Passed | None) -> Parameter | None:
    """Return how the fast path passes an argument, fixed or `passed`; None if it cannot."""
    if value is None:
        return Parameter(FORMATS["int64"], passed or 0, passed=False)
    form = FORMATS.get(value.dtype.name if isinstance(value, np.generic) else "uint64")
    if form is None:
        return None
    return Parameter(form, passed or int(_number(value)))
