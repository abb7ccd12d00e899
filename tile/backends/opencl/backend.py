"""OpenCL devices as a backend. What only compiling needs is imported when something is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tile.backends.base import Artifact, DeviceMemory, Finding, Options, Target
from tile.backends.opencl import devices
from tile.backends.opencl.capabilities import NAMED, Capabilities
from tile.backends.opencl.emitted import Emitted
from tile.backends.opencl.launch import LoadedKernel
from tile.ir.core import Module
from tile.late import late

if TYPE_CHECKING:
    from tile.backends.opencl.compiler import compile_module
    from tile.backends.opencl.survey import survey
else:
    compile_module = late("tile.backends.opencl.compiler", "compile_module")
    survey = late("tile.backends.opencl.survey", "survey")


class OpenclBackend:
    """Compiles for a device, or for a class of devices.

    A target names either as its architecture: the class, as in `opencl:amd`, or the device by its
    index or a part of its name, as in `opencl:1` and `opencl:pocl`.
    """

    name = "opencl"
    devices: frozenset[str] = frozenset({"opencl"})

    def resolve(self, target: Target, arrays: Iterable[DeviceMemory] = ()) -> Target:
        """The target with the device by its index; a class of devices stays what it is.

        Raises `BackendError` where there is no device, or none such.
        """
        if target.arch in NAMED:
            return target
        return Target(self.name, str(devices.index_of(target.arch)))

    def identity(self, target: Target) -> str:
        """The device and its driver, and what it says it can do, which all of the text comes of."""
        if target.arch in NAMED:
            return repr(NAMED[target.arch])
        return "\n".join([*devices.versions(target.arch), repr(self._capabilities(target))])

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        """Lower a TILE module, which changes, to OpenCL C.

        Raises `BackendError` if no device is there to be asked what it can do,
        `OutOfResourcesError` for more local memory or work-items than it has, and
        `UnsupportedError` for types and atomic operations that it lacks.
        """
        options.refuse_checks(target)
        return compile_module(module, target, options, self._capabilities(target))

    def _capabilities(self, target: Target) -> Capabilities:
        return NAMED.get(target.arch) or devices.chosen(target.arch).capabilities

    def survey(self) -> Sequence[Finding]:
        """The runtimes that are there, and what their devices can do."""
        return survey()

    def load(self, artifact: Artifact) -> LoadedKernel:
        """The kernel for the device that is chosen at its first launch."""
        written = [name in artifact.written for name in artifact.parameters]
        emitted, wanted = Emitted.of(artifact.facts), artifact.target.arch
        return LoadedKernel(
            artifact.kernel,
            emitted,
            artifact.parameters,
            written,
            wanted,
            cooperative=artifact.options.launch_cooperative_grid,
        )
