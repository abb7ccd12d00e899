"""Launch a compiled kernel on the device that its target and its arguments select.

Timers for `do_bench` and for tuning use OpenCL events, or the host's clock.

Programs are built once for a device, and their binaries cached on disk with the kernels.
"""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import Any, cast

import numpy as np
import pyopencl as cl

from tile.backends.base import Grid, LaunchArgument
from tile.backends.capabilities import KernelInfo, Timer
from tile.backends.opencl import devices
from tile.backends.opencl.devices import Device, versions_of
from tile.backends.opencl.host_staging import (
    Memory,
    Staging,
    finish_other_queues,
    in_place,
    launch_device,
    opencl_memory,
)
from tile.backends.opencl.launch_metadata import LaunchMetadata
from tile.backends.opencl.target import NAMED
from tile.cache import CacheEntry, current_cache
from tile.errors import (
    ArgumentTypeError,
    BackendError,
    ExecutionError,
    OutOfResourcesError,
    UnsupportedError,
)

_BINARY = "opencl"


class Programs:
    """The programs that this process has built, by device and text."""

    def __init__(self) -> None:
        self._built: dict[tuple[Any, Any, str, tuple[str, ...]], Any] = {}

    def kernel(self, device: Device, metadata: LaunchMetadata) -> Any:
        """Return a kernel, building its program if this process has not built it yet.

        Raises `BackendError` with the runtime's log, which names lines of the Python source.
        """
        key = (device.context, device.raw, metadata.numbered, metadata.build_options)
        if key not in self._built:
            self._built[key] = _build(device, metadata)
        try:
            return cl.Kernel(self._built[key], metadata.kernel)
        except cl.Error as error:  # some runtimes report only here that they cannot build it
            raise BackendError(
                f"OpenCL device {device.name} cannot create kernel `{metadata.kernel}` from its "
                f"program: {error}"
            ) from error


def _build(device: Device, metadata: LaunchMetadata) -> Any:
    """Return a program, built from its cached binary if the runtime accepts that."""
    cache = current_cache()
    if cache is None:
        return _build_text(device, metadata)
    raw = device.raw
    made_by = [*versions_of(raw), *devices.settings(), *metadata.build_options]
    key = "\n".join([_BINARY, *made_by, metadata.numbered])
    entry = cache.get(key)
    if entry is not None and _BINARY in entry.parts:
        try:
            program = cl.Program(device.context, [raw], [entry.parts[_BINARY]])
            return _without_warnings(lambda: program.build(list(metadata.build_options), [raw]))
        except cl.Error:  # build it again and replace the entry
            cache.drop(key)
    program = _build_text(device, metadata)
    binary = _binary_of(program)
    if binary:
        title = f"{metadata.kernel}, built for {device.name}"
        cache.put(key, CacheEntry(title, {}, {_BINARY: binary}))
    return program


def _binary_of(program: Any) -> bytes:
    """Return the binary of a program, or b"" if the runtime provides none."""
    try:
        (binary,) = program.get_info(cl.program_info.BINARIES)
    except (cl.Error, ValueError):
        return b""
    return bytes(binary)


def _build_text(device: Device, metadata: LaunchMetadata) -> Any:
    try:
        program = cl.Program(device.context, metadata.numbered)
        # pyopencl's own cache on disk fails where the home folder cannot be written.
        options = list(metadata.build_options)
        no_cache = cast(Any, False)
        return _without_warnings(lambda: program.build(options, [device.raw], cache_dir=no_cache))
    except cl.RuntimeError as error:
        raise BackendError(
            f"OpenCL device {device.name} refuses the program of `{metadata.kernel}`:\n"
            f"{add_python_lines(str(error), metadata.numbered)}"
        ) from error


# The locations in logs of compilers that ignore `#line`: NVIDIA's and Oclgrind's.
_LOCATION = re.compile(r"(?:<\w+>|input\.cl):(\d+):\d+")
_DIRECTIVE = re.compile(r'#line (\d+) "(.*)"')


def add_python_lines(log: str, numbered: str) -> str:
    """Return a build log with the Python line after each location that ignores `#line`.

    <kernel>:2:22: error: ...    <kernel>:2:22 (kernel.py:7): error: ...
    """
    lines = numbered.split("\n")

    def add_line(location: re.Match[str]) -> str:
        number = int(location[1])
        for distance, text in enumerate(reversed(lines[: number - 1])):
            directive = _DIRECTIVE.fullmatch(text)
            if directive is not None:
                return f"{location[0]} ({directive[2]}:{int(directive[1]) + distance})"
        return location[0]

    return _LOCATION.sub(add_line, log)


def _without_warnings(build: Callable[[], Any]) -> Any:
    """Suppress pyopencl's warning about every log that is not empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return build()


PROGRAMS = Programs()


_LAUNCHED: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("launches", default=None)


def record_launch(queue: Any, event: Any) -> None:
    """Record a kernel's event with the timer that is running, if any."""
    launches = _LAUNCHED.get()
    if launches is not None:
        launches.append((queue, event))


class EventTimer:
    """A timer that measures kernels on a queue by the device's clock.

    It is a `tile.testing.Timer`: `do_bench(call, timer=EventTimer())` returns the time on the
    device from the start of a call's first kernel to the end of its last one, without the host's
    work before it. For a call without kernels of this project it is the time between markers that
    are enqueued before and after the call.

    queue: the queue of the call's arrays, with profiling on. Without it, the queue on which calls
        with NumPy arrays run.
    """

    def __init__(self, queue: Any = None) -> None:
        self._queue = devices.chosen().queue if queue is None else queue
        self._calls: list[list[Any]] = []  # for each call: its kernels and two marker events
        self._running: Token[Any] | None = None

    def start(self) -> None:
        """Begin a call."""
        kernels: list[tuple[Any, Any]] = []
        self._calls.append([kernels, cl.enqueue_marker(self._queue)])
        self._running = _LAUNCHED.set(kernels)

    def stop(self) -> None:
        """End the call."""
        if self._running is not None:
            _LAUNCHED.reset(self._running)
        self._calls[-1].append(cl.enqueue_marker(self._queue))

    def elapsed(self) -> list[float]:
        """Wait for the queue; return the ms of each start-stop pair since the last `elapsed`."""
        self._queue.finish()
        calls, self._calls = self._calls, []
        return [self._span(*call) / 1e6 for call in calls]

    def _span(self, kernels: list[tuple[Any, Any]], first: Any, last: Any) -> int:
        own = [event.profile for queue, event in kernels if queue == self._queue]
        if not own:
            return int(last.profile.end - first.profile.end)
        return int(max(kernel.end for kernel in own) - min(kernel.start for kernel in own))


class FinishTimer:
    """A timer by the host's clock, which waits for a queue without profiling to finish."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._times: list[int] = []  # ns, of starts and stops in turn

    def start(self) -> None:
        """Wait for earlier work on the queue and begin a call."""
        self._record_time()

    def stop(self) -> None:
        """Wait for the call and end it."""
        self._record_time()

    def _record_time(self) -> None:
        self._queue.finish()
        self._times.append(time.perf_counter_ns())

    def elapsed(self) -> list[float]:
        """Return the milliseconds of each start-stop pair since the last `elapsed`."""
        times, self._times = self._times, []
        return [(stop - start) / 1e6 for start, stop in zip(times[::2], times[1::2], strict=True)]


def timer_of(queue: Any) -> Timer:
    """Return a timer by events if the queue has PROFILING_ENABLE, else one by the host's clock."""
    profiling = queue.properties & cl.command_queue_properties.PROFILING_ENABLE
    return EventTimer(queue) if profiling else FinishTimer(queue)


# 32-bit words of the record of a failed assertion: its number from 1 or 0 for none, the program
# along x, y, z, the thread; three are unused.
_WORDS = 8


class LoadedKernel:
    """A kernel that is ready to run.

    A launch returns when the kernel has finished, unless all its arrays are OpenCL memory: then it
    returns when the kernel is enqueued on the queue of the first of them.
    """

    def __init__(
        self,
        name: str,
        metadata: LaunchMetadata,
        parameters: Sequence[str],
        written: Sequence[bool],
        device_name: str = "",
        *,
        cooperative: bool = False,
    ) -> None:
        """Load a kernel.

        device_name: selects the device, as in `devices.chosen`.
        cooperative: refuse a grid whose programs are not certain to be co-resident.
        """
        self.name = name
        self.metadata = metadata
        self._parameters = list(parameters)
        self._written = list(written)
        self._device_name = device_name
        self._cooperative = cooperative
        self._kernels: dict[Any, Any] = {}  # by context and device
        self._queue: Any = None  # of the last launch

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run the kernel over a grid.

        Raises `ArgumentError` for arguments that cannot be passed to the device, `BackendError` for
        a program that the runtime refuses, `OutOfResourcesError`, `UnsupportedError` for types that
        the device lacks, and `DeviceAssertionError`.
        """
        memory = opencl_memory(self._parameters, arguments)
        device = launch_device(list(memory.values()), self._device_name, self.name)
        self._check_resident(device, grid)
        kernel = self._kernel(device)
        self._check_pointers(device, arguments)
        try:
            self._run(device, kernel, grid, arguments, memory)
        except cl.MemoryError as error:
            raise OutOfResourcesError(
                f"launching `{self.name}` on {device.name}: {error}"
            ) from error
        except cl.Error as error:
            raise ExecutionError(f"running `{self.name}` on {device.name}: {error}") from error

    def info(self) -> KernelInfo:
        """Return the runtime's figures of the kernel, which is built for the device if need be."""
        device = devices.chosen(self._device_name)
        kernel, names = self._kernel(device), cl.kernel_work_group_info

        def query(name: int) -> int:
            return int(kernel.get_work_group_info(name, device.raw))

        return KernelInfo(
            device=device.name,
            threads=self.metadata.threads,
            max_threads=query(names.WORK_GROUP_SIZE),
            local_bytes=query(names.PRIVATE_MEM_SIZE),
            shared_bytes=query(names.LOCAL_MEM_SIZE),
        )

    def timer(self) -> Timer:
        """Return a timer on the queue of the last launch, or else of the selected device."""
        return timer_of(self._queue or devices.chosen(self._device_name).queue)

    def _kernel(self, device: Device) -> Any:
        """Return the kernel on a device, checking the device and building it the first time."""
        key = device.context, device.raw
        if key not in self._kernels:
            self._check(device)
            self._kernels[key] = PROGRAMS.kernel(device, self.metadata)
        return self._kernels[key]

    def _check(self, device: Device) -> None:
        """Refuse a device that lacks what the program needs."""
        metadata, can = self.metadata, device.capabilities
        if metadata.threads > can.max_threads or metadata.shared_bytes > can.local_bytes:
            raise OutOfResourcesError(
                f"`{self.name}` takes {metadata.threads} work-items and {metadata.shared_bytes} "
                f"bytes of local memory; device {can.name} has {can.max_threads} and "
                f"{can.local_bytes}"
            )
        missing = sorted(metadata.extensions - devices.extensions_of(device.raw))
        if missing:
            raise self._unsupported(f"{', '.join(missing)}, which device {can.name} lacks")
        if metadata.subgroup and (metadata.subgroup, True) != (can.warp, can.subgroups):
            raise self._unsupported(
                f"sub-groups of {metadata.subgroup} work-items, which device {can.name} is not "
                "certain to have"
            )
        if metadata.assembly > can.assembly:
            raise self._unsupported(
                f"PTX of compute capability {metadata.assembly / 10} as inline assembly, which "
                f"device {can.name} does not accept"
            )

    def _unsupported(self, need: str) -> UnsupportedError:
        device = self.metadata.device
        described = device in NAMED
        return UnsupportedError(
            f"`{self.name}` was compiled for {device}, and needs {need}",
            notes=[
                f"opencl:{device} is a description; the target opencl compiles for the device that "
                f"runs the kernel, and opencl:@{device} for one with {device!r} in its name"
            ]
            * described,
        )

    def _check_resident(self, device: Device, grid: Grid) -> None:
        """Refuse a cooperative grid with more programs than are certain to be co-resident."""
        if self._cooperative and math.prod(grid) > device.resident:
            raise OutOfResourcesError(
                f"`{self.name}` is launched cooperatively, so all its programs must run at once; a "
                f"grid of {grid} has {math.prod(grid)}, and device {device.name} is certain to run "
                f"{device.resident}"
            )

    def _check_pointers(self, device: Device, arguments: Sequence[LaunchArgument]) -> None:
        if device.host_memory:
            return
        for name, value in zip(self._parameters, arguments, strict=True):
            if getattr(value, "targets", None) is not None:
                raise ArgumentTypeError(
                    f"argument {name!r} of {self.name}() is an array of pointers, which need "
                    f"memory that host and device share; {device.name} has none"
                )

    def _run(
        self,
        device: Device,
        kernel: Any,
        grid: Grid,
        arguments: Sequence[LaunchArgument],
        memory: dict[int, Memory],
    ) -> None:
        arrays = [(i, x) for i, x in enumerate(arguments) if isinstance(x, np.ndarray)]
        values: list[Any] = [_scalar(value) for value in arguments]
        for i, argument in memory.items():
            values[i] = argument.argument(device)
        staging = Staging(device)
        if device.host_memory:
            for i, array in arrays:
                values[i] = in_place(array)
        else:
            staging.stage([array for _, array in arrays], [self._written[i] for i, _ in arrays])
            for i, array in arrays:
                values[i] = staging.argument(array, self._parameters[i])
        faults = None
        if self.metadata.reports:
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            record = np.zeros(_WORDS, np.int32)
            faults = cl.Buffer(device.context, flags, hostbuf=record)
            values.append(faults)
        finish_other_queues(list(memory.values()), device)
        for index, value in enumerate(values):
            kernel.set_arg(index, value)
        extents = self.metadata.extents
        size = tuple(count * extent for count, extent in zip(grid, extents, strict=True))
        event = cl.enqueue_nd_range_kernel(device.queue, kernel, size, extents)
        record_launch(device.queue, event)
        self._queue = device.queue
        staging.fetch()
        if arrays or not memory or faults is not None:
            device.queue.finish()
        if faults is not None:
            cl.enqueue_copy(device.queue, record, faults)
            number, *program, thread = map(int, record[:5])
            if number:
                assertion = self.metadata.assertions[number - 1]
                raise assertion.failure(self.name, program, f"work-item {thread}")


def _scalar(value: Any) -> Any:
    """Return a scalar as its bytes, the form that `set_arg` accepts for every dtype (bool too)."""
    return np.frombuffer(value.tobytes(), np.uint8) if isinstance(value, np.generic) else value
