"""Build programs, each once for a device, and cache their binaries on disk with the kernels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, cast

import pyopencl as cl

from tile.backends.opencl import devices
from tile.backends.opencl.devices import Device, versions_of
from tile.backends.opencl.launch_metadata import LaunchMetadata
from tile.cache import CacheEntry, current_cache
from tile.errors import BackendError

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
