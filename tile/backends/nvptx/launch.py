"""A kernel that was compiled, on whatever devices its arguments lie."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.backends.base import Artifact, Grid, KernelInfo, LaunchArgument, Repeat, Timer
from tile.backends.nvptx import binaries, driver
from tile.backends.nvptx.clusters import PORTABLE, Clusters
from tile.backends.nvptx.facts import MAP_ALIGNMENT, Facts
from tile.backends.nvptx.names import runs
from tile.backends.nvptx.repeat import FORMATS, Slot, repeat_launch
from tile.backends.nvptx.streams import current_stream, stream_reader
from tile.backends.nvptx.tensor_maps import MapMaker, UnmappableError
from tile.errors import ArgumentValueError, BackendError, OutOfResourcesError
from tile.late import late
from tile.warn import warn

if TYPE_CHECKING:
    from tile.backends.nvptx.faults import FaultRecord
    from tile.backends.nvptx.kernel_info import kernel_info
    from tile.backends.nvptx.staging import Staging
    from tile.backends.nvptx.timing import EventTimer
else:
    FaultRecord = late("tile.backends.nvptx.faults", "FaultRecord")
    kernel_info = late("tile.backends.nvptx.kernel_info", "kernel_info")
    Staging = late("tile.backends.nvptx.staging", "Staging")
    EventTimer = late("tile.backends.nvptx.timing", "EventTimer")

_SLOT = 8  # bytes that each parameter is given; no type needs more


@dataclass(frozen=True)
class _OnDevice:
    """The kernel on one device."""

    loaded: driver.Loaded
    faults: FaultRecord | None
    maps: tuple[MapMaker, ...]
    clusters: Clusters


class LoadedKernel:
    """A kernel ready to run; it is loaded on a device at the first launch there.

    Arrays in a device's memory are accessed in place, on the current stream, and the launch does
    not wait. Arrays of the host are copied there and back, and the launch waits.
    """

    def __init__(self, artifact: Artifact, facts: Facts, plain: Callable[[], LoadedKernel]) -> None:
        """`plain` gives the same kernel without tensor maps, for arrays that have none."""
        ptx = artifact.stages["ptx"]
        assert isinstance(ptx, str)
        self.name = artifact.kernel
        self.arch = artifact.target.arch
        self.ptx = ptx
        self.facts = facts
        self._parameters = artifact.parameters
        self._written = [name in artifact.written for name in artifact.parameters]
        self._cooperative = artifact.options.launch_cooperative_grid
        self._cluster = artifact.options.num_ctas
        self._plain = functools.cache(plain)
        self._warned = False
        self._on: dict[int, _OnDevice] = {}
        self._last: tuple[driver.Device, int] | None = None  # the device and stream of a launch

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run over the grid.

        Raises `ArgumentValueError` for arrays on several devices, or on a device and on the host,
        `OutOfResourcesError`, `DeviceAssertionError` (of this launch, or, where launches do not
        wait, of an earlier one of this kernel), `ExecutionError`, and `BackendError` for a device
        that does not run what the kernel was compiled for.
        """
        where = self._device_of(arguments)
        with where.current():
            here = self._on.get(where.ordinal) or self._load(where)
            if here.faults is not None:
                here.faults.check()
            sources = [getattr(value, "source", None) for value in arguments]
            stream = current_stream(sources, where.ordinal)
            self._last = where, stream
            hosts = [i for i, value in enumerate(arguments) if isinstance(value, np.ndarray)]
            try:
                if hosts:
                    self._staged(here, grid, list(arguments), hosts, stream)
                else:
                    self._start(here, grid, arguments, stream)
            except UnmappableError as reason:
                self._without_maps(reason).launch(grid, arguments)

    def bind(
        self, arguments: Sequence[LaunchArgument | None], fixed: Collection[int]
    ) -> Repeat | None:
        """How to repeat a launch: of arrays in one device's memory, that a stream is known for.

        Kernels that report false assertions, or whose programs run together, go the longer way.
        """
        given = [value for value in arguments if value is not None]
        arrays = [value for value in given if not isinstance(value, np.generic)]
        if self._cooperative or not arrays or any(isinstance(a, np.ndarray) for a in arrays):
            return None
        where = self._device_of(given)
        here = self._on.get(where.ordinal)
        stream = stream_reader([getattr(a, "source", None) for a in arrays], where.ordinal)
        slots = [_slot(value, at in fixed) for at, value in enumerate(arguments)]
        known = [slot for slot in slots if slot is not None]
        if here is None or here.faults is not None or stream is None:
            return None
        if len(known) < len(slots):
            return None
        return repeat_launch(
            here.loaded, self.facts.threads, stream, known, here.maps, here.clusters
        )

    def timer(self) -> Timer:
        """A clock on the stream of the last launch that was no repeat."""
        where, stream = self._last or (driver.current_device(), current_stream([], 0))
        return EventTimer(where, stream)

    def info(self) -> KernelInfo:
        """What the driver says of the kernel on the current device, where it is loaded now."""
        where = driver.current_device()
        with where.current():
            here = self._on.get(where.ordinal) or self._load(where)
            return kernel_info(here.loaded, where, self.facts, here.clusters.size)

    def _device_of(self, arguments: Sequence[LaunchArgument]) -> driver.Device:
        found: dict[str, str] = {}  # devices, and a parameter that lies there
        ordinal = -1
        for name, value in zip(self._parameters, arguments, strict=True):
            if isinstance(value, np.ndarray):
                found.setdefault("the host", name)
            elif not isinstance(value, np.generic):
                kind, _, number = value.device.partition(":")
                ordinal = int(number) if number else driver.ordinal_of(value.address)
                found.setdefault(f"{kind}:{ordinal}", name)
        if len(found) > 1:
            places = ", ".join(f"`{name}` on {place}" for place, name in found.items())
            raise ArgumentValueError(
                f"the arrays of a launch of `{self.name}` lie in different memories: {places}"
            )
        return driver.device(ordinal) if ordinal >= 0 else driver.current_device()

    def _load(self, where: driver.Device) -> _OnDevice:
        facts = self.facts
        if not runs(where.architecture, self.arch):
            raise BackendError(
                f"`{self.name}` was compiled for {self.arch}, and device {where.ordinal} is "
                f"{where.architecture}, which does not run that; compile it for "
                f"`nvptx:{where.architecture}`, or name no architecture"
            )
        if facts.shared_bytes > where.shared_bytes:
            raise OutOfResourcesError(
                f"`{self.name}` takes {facts.shared_bytes} bytes of shared memory, and device "
                f"{where.ordinal} has {where.shared_bytes} for a program"
            )
        loaded = binaries.load(
            self.ptx, facts.kernel, where, facts.shared_bytes, cooperative=self._cooperative
        )
        clusters = self._clusters(loaded, where)
        faults = FaultRecord(loaded, facts) if facts.assertions else None
        empty = functools.cache(lambda: driver.zeroed(MAP_ALIGNMENT))
        maps = tuple([MapMaker(wanted, empty) for wanted in facts.maps])
        here = self._on[where.ordinal] = _OnDevice(loaded, faults, maps, clusters)
        return here

    def _clusters(self, loaded: driver.Loaded, where: driver.Device) -> Clusters:
        """How launches there are clustered. Raises `OutOfResourcesError` where that cannot be."""
        clusters = Clusters.on(where, self.name, self._cluster)
        if clusters.size > PORTABLE:
            loaded.allow_clusters_of(clusters.size)
        if clusters.size > 1 and not loaded.clusters(self.facts.threads, clusters.size):
            raise OutOfResourcesError(
                f"`{self.name}` asks for clusters of num_ctas={clusters.size} programs, each of "
                f"{self.facts.threads} threads and {self.facts.shared_bytes} bytes of shared "
                f"memory, and device {where.ordinal} has no room for one; take a smaller num_ctas, "
                "or programs that need less"
            )
        return clusters

    def _without_maps(self, reason: UnmappableError) -> LoadedKernel:
        """The same kernel with ordinary copies; a warning says once that it is used."""
        if not self._warned:
            self._warned = True
            warn(f"`{self.name}` copies boxes of an array the slow way: {reason}")
        return self._plain()

    def _start(self, here: _OnDevice, grid: Grid, arguments: Sequence[Any], stream: int) -> None:
        """Put the launch in the stream. The driver has read the parameters when it returns.

        Raises `UnmappableError` for an array of which there is no tensor map.
        """
        values = [_value(value) for value in arguments]
        count = len(values)
        data = ctypes.create_string_buffer(b"".join([value.ljust(_SLOT) for value in values]))
        start = ctypes.addressof(data)
        places = [start + _SLOT * number for number in range(count)]
        if here.maps:
            numbers = [_number(value) for value in arguments]
            maps = [maker.made(numbers) for maker in here.maps]
            places += [made.address for made in maps]
        pointers = (ctypes.c_void_p * max(1, len(places)))(*places)
        cluster = here.clusters.along(grid[0])
        here.loaded.launch(grid, self.facts.threads, stream, ctypes.addressof(pointers), cluster)

    def _staged(
        self,
        here: _OnDevice,
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
            self._start(here, grid, arguments, stream)
            driver.wait(stream, f"running `{self.name}`")
            staging.fetch()
            driver.wait(stream, "copying results back")
        finally:
            staging.close()
        if here.faults is not None:
            here.faults.check()


def _value(value: Any) -> bytes:
    """A parameter as the kernel reads it."""
    if isinstance(value, np.generic):
        return value.tobytes()
    address: int = value.address
    return address.to_bytes(8, "little")


def _number(value: Any) -> Any:
    """A parameter as a number: an address, for an array."""
    return value if isinstance(value, np.generic) else value.address


def _slot(value: Any, is_fixed: bool) -> Slot | None:
    """How repeats have a number in this argument's place, if they can; see `Repeatable.bind`."""
    if value is None:
        return Slot(FORMATS["int64"], taken=False, value=0 if is_fixed else None)
    form = FORMATS.get(value.dtype.name if isinstance(value, np.generic) else "uint64")
    return None if form is None else Slot(form, value=int(_number(value)) if is_fixed else None)
