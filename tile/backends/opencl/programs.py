"""Building programs, each once for a device."""

from __future__ import annotations

import warnings
from typing import Any

import pyopencl as cl

from tile.backends.opencl.devices import Device
from tile.backends.opencl.emit.functions import Emitted
from tile.errors import BackendError


class Programs:
    """The kernels that were built, by device and text."""

    def __init__(self) -> None:
        self._built: dict[tuple[Any, Any, str, tuple[str, ...]], Any] = {}

    def kernel(self, device: Device, emitted: Emitted) -> Any:
        """A kernel, whose program is built now if need be.

        Raises `BackendError` with the runtime's log, which names lines of the Python source.
        """
        key = (device.context, device.raw, emitted.numbered, emitted.build_options)
        if key not in self._built:
            self._built[key] = _build(device, emitted)
        try:
            return cl.Kernel(self._built[key], emitted.kernel)
        except cl.Error as error:  # some runtimes find only now that they cannot build it
            raise BackendError(
                f"OpenCL device {device.name} makes no kernel of the program of "
                f"`{emitted.kernel}`: {error}"
            ) from error


def _build(device: Device, emitted: Emitted) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)
            program = cl.Program(device.context, emitted.numbered)
            # pyopencl's own cache on disk fails where the home folder cannot be written.
            options = list(emitted.build_options)
            return program.build(options, [device.raw], cache_dir=False)  # type: ignore[arg-type]
    except cl.RuntimeError as error:
        raise BackendError(
            f"OpenCL device {device.name} refuses the program of `{emitted.kernel}`:\n{error}"
        ) from error


PROGRAMS = Programs()
