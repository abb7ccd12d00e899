"""Building programs, each once for a device; binaries of them are kept on disk with the kernels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, cast

import pyopencl as cl

from tile import store
from tile.backends.opencl import runtimes
from tile.backends.opencl.devices import Device, versions_of
from tile.backends.opencl.emitted import Emitted
from tile.errors import BackendError

_BINARY = "opencl"


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
    """A program, from its binary on disk if there is one that the runtime takes."""
    kept = store.current()
    if kept is None:
        return _from_text(device, emitted)
    raw = device.raw
    made_by = [*versions_of(raw), *runtimes.settings(), *emitted.build_options]
    key = "\n".join([_BINARY, *made_by, emitted.numbered])
    found = kept.get(key)
    if found is not None and _BINARY in found.parts:
        try:
            program = cl.Program(device.context, [raw], [found.parts[_BINARY]])
            return _quietly(lambda: program.build(list(emitted.build_options), [raw]))
        except cl.Error:  # it is built again, and what was kept is replaced
            kept.drop(key)
    program = _from_text(device, emitted)
    binary = _binary_of(program)
    if binary:
        title = f"{emitted.kernel}, built for {device.name}"
        kept.put(key, store.Entry(title, {}, {_BINARY: binary}))
    return program


def _binary_of(program: Any) -> bytes:
    """What a runtime gives of a program to be kept; nothing where it gives none."""
    try:
        (binary,) = program.get_info(cl.program_info.BINARIES)
    except (cl.Error, ValueError):
        return b""
    return bytes(binary)


def _from_text(device: Device, emitted: Emitted) -> Any:
    try:
        program = cl.Program(device.context, emitted.numbered)
        # pyopencl's own cache on disk fails where the home folder cannot be written.
        options = list(emitted.build_options)
        return _quietly(lambda: program.build(options, [device.raw], cache_dir=cast(Any, False)))
    except cl.RuntimeError as error:
        raise BackendError(
            f"OpenCL device {device.name} refuses the program of `{emitted.kernel}`:\n"
            f"{placed(str(error), emitted.numbered)}"
        ) from error


# Where compilers that do not heed `#line` say that something is wrong: NVIDIA's and Oclgrind's.
_COUNTED = re.compile(r"(?:<\w+>|input\.cl):(\d+):\d+")
_DIRECTIVE = re.compile(r'#line (\d+) "(.*)"')


def placed(log: str, numbered: str) -> str:
    """A log with the lines of Python beside those of the program that a runtime has counted itself.

    <kernel>:2:22: error: ...    <kernel>:2:22 (kernel.py:7): error: ...
    """
    lines = numbered.split("\n")

    def place(found: re.Match[str]) -> str:
        count = int(found[1])
        for back, text in enumerate(reversed(lines[: count - 1])):
            directive = _DIRECTIVE.fullmatch(text)
            if directive is not None:
                return f"{found[0]} ({directive[2]}:{int(directive[1]) + back})"
        return found[0]

    return _COUNTED.sub(place, log)


def _quietly(build: Callable[[], Any]) -> Any:
    """Without a warning for every log that is not empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return build()


PROGRAMS = Programs()
