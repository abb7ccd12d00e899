"""A kernel that was compiled, on the device that is chosen when it is launched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from tile.backends.base import Grid, KernelInfo, LaunchArgument, Timer
from tile.backends.opencl import devices
from tile.backends.opencl.arguments import Memory, memories, place, settle
from tile.backends.opencl.devices import Device
from tile.backends.opencl.emitted import Emitted
from tile.backends.opencl.programs import PROGRAMS
from tile.backends.opencl.staging import Staging, in_place
from tile.backends.opencl.timing import launched, timer_of
from tile.errors import (
    ArgumentTypeError,
    DeviceAssertionError,
    ExecutionError,
    OutOfResourcesError,
    UnsupportedError,
)

_WORDS = 8  # the assertion's number from 1 or 0 for none, the program along x, y, z, the thread


class LoadedKernel:
    """A kernel ready to run.

    A launch waits until it is over, unless all its arrays are memory of OpenCL: then it is
    enqueued on the queue of the first of them.
    """

    def __init__(
        self,
        name: str,
        emitted: Emitted,
        parameters: Sequence[str],
        written: Sequence[bool],
        wanted: str = "",
        *,
        cooperative: bool = False,
    ) -> None:
        """`wanted` names the device, as `devices.chosen` takes it.

        A `cooperative` kernel's programs all run at the same time, or the launch is refused.
        """
        self.name = name
        self.emitted = emitted
        self._parameters = list(parameters)
        self._written = list(written)
        self._wanted = wanted
        self._cooperative = cooperative
        self._on: dict[Any, Any] = {}
        self._queue: Any = None  # of the last launch

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run over the grid.

        Raises `ArgumentError` for arguments that the device cannot have, `BackendError` for a
        program that the runtime refuses, `OutOfResourcesError`, `UnsupportedError` for types that
        the device lacks, and `DeviceAssertionError`.
        """
        own = memories(self._parameters, arguments)
        device = place(list(own.values()), self._wanted, self.name)
        self._check_resident(device, grid)
        kernel = self._kernel(device)
        self._check_pointers(device, arguments)
        try:
            self._run(device, kernel, grid, arguments, own)
        except cl.MemoryError as error:
            raise OutOfResourcesError(
                f"launching `{self.name}` on {device.name}: {error}"
            ) from error
        except cl.Error as error:
            raise ExecutionError(f"running `{self.name}` on {device.name}: {error}") from error

    def info(self) -> KernelInfo:
        """What the chosen device's runtime says of the kernel, which is built there now."""
        device = devices.chosen(self._wanted)
        kernel, of = self._kernel(device), cl.kernel_work_group_info

        def asked(what: int) -> int:
            return int(kernel.get_work_group_info(what, device.raw))

        return KernelInfo(
            device=device.name,
            threads=self.emitted.threads,
            max_threads=asked(of.WORK_GROUP_SIZE),
            local_bytes=asked(of.PRIVATE_MEM_SIZE),
            shared_bytes=asked(of.LOCAL_MEM_SIZE),
        )

    def timer(self) -> Timer:
        """A clock on the queue of the last launch, or of the device that is chosen."""
        return timer_of(self._queue or devices.chosen(self._wanted).queue)

    def _kernel(self, device: Device) -> Any:
        """The kernel on a device, checked and built now if need be."""
        here = device.context, device.raw
        if here not in self._on:
            self._check(device)
            self._on[here] = PROGRAMS.kernel(device, self.emitted)
        return self._on[here]

    def _check(self, device: Device) -> None:
        """Refuse a device that lacks what the program needs."""
        emitted, can = self.emitted, device.capabilities
        if emitted.threads > can.max_threads or emitted.shared_bytes > can.local_bytes:
            raise OutOfResourcesError(
                f"`{self.name}` takes {emitted.threads} work-items and {emitted.shared_bytes} "
                f"bytes of local memory; device {can.name} has {can.max_threads} and "
                f"{can.local_bytes}"
            )
        lacking = sorted(emitted.extensions - devices.offered(device.raw))
        if lacking:
            raise UnsupportedError(
                f"`{self.name}` was compiled for {emitted.device}, and needs {', '.join(lacking)}, "
                f"which device {can.name} has not"
            )
        if emitted.subgroup and (emitted.subgroup, True) != (can.warp, can.subgroups):
            raise UnsupportedError(
                f"`{self.name}` was compiled for {emitted.device}, and needs sub-groups of "
                f"{emitted.subgroup} work-items, which device {can.name} is not certain to have"
            )
        if emitted.assembly > can.assembly:
            raise UnsupportedError(
                f"`{self.name}` was compiled for {emitted.device}, and needs PTX of compute "
                f"capability {emitted.assembly / 10} as inline assembly, which device {can.name} "
                "does not take"
            )

    def _check_resident(self, device: Device, grid: Grid) -> None:
        """Refuse a cooperative grid whose programs might wait for one that has not started."""
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
        own: dict[int, Memory],
    ) -> None:
        arrays = [(i, x) for i, x in enumerate(arguments) if isinstance(x, np.ndarray)]
        values: list[Any] = [_scalar(value) for value in arguments]
        for i, memory in own.items():
            values[i] = memory.argument(device)
        staging = Staging(device)
        if device.host_memory:
            for i, array in arrays:
                values[i] = in_place(array)
        else:
            staging.stage([array for _, array in arrays], [self._written[i] for i, _ in arrays])
            for i, array in arrays:
                values[i] = staging.argument(array, self._parameters[i])
        faults = None
        if self.emitted.reports:
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            record = np.zeros(_WORDS, np.int32)
            faults = cl.Buffer(device.context, flags, hostbuf=record)
            values.append(faults)
        settle(list(own.values()), device)
        for index, value in enumerate(values):
            kernel.set_arg(index, value)
        extents = self.emitted.extents
        size = tuple(count * extent for count, extent in zip(grid, extents, strict=True))
        launched(device.queue, cl.enqueue_nd_range_kernel(device.queue, kernel, size, extents))
        self._queue = device.queue
        staging.fetch()
        if arrays or not own or faults is not None:
            device.queue.finish()
        if faults is not None:
            cl.enqueue_copy(device.queue, record, faults)
            self._raise_fault(record)

    def _raise_fault(self, record: np.ndarray[Any, Any]) -> None:
        number, x, y, z, thread = (int(word) for word in record[:5])
        if not number:
            return
        assertion = self.emitted.assertions[number - 1]
        message = f": {assertion.message}" if assertion.message else ""
        raise DeviceAssertionError(
            f"device_assert failed in `{self.name}`{message}",
            loc=assertion.loc,
            notes=[f"in program ({x}, {y}, {z}), work-item {thread}"],
        )


def _scalar(value: Any) -> Any:
    """A number as the kernel takes it: its bytes, of which a truth has one."""
    return np.frombuffer(value.tobytes(), np.uint8) if isinstance(value, np.generic) else value
