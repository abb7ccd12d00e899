"""The backend of OpenCL devices.

Modules that only a compilation needs are imported lazily, and so are those that only devices need:
without `pyopencl`, kernels compile for the class of devices that a target names.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from tile._lazy import lazy_import
from tile.backends import required_packages
from tile.backends.base import Artifact, DeviceMemory, Options, Target
from tile.backends.capabilities import Requirement
from tile.backends.opencl.launch_metadata import LaunchMetadata
from tile.backends.opencl.target import NAMED, Capabilities
from tile.ir.module import Module

if TYPE_CHECKING:
    from tile.backends.opencl.compiler import compile_module
    from tile.backends.opencl.emit import lowering_target as emitter_target
    from tile.backends.opencl.launch import LoadedKernel
    from tile.backends.opencl.survey import survey
    from tile.simt.target import SimtTarget
else:
    emitter_target = lazy_import("tile.backends.opencl.emit", "lowering_target")
    compile_module = lazy_import("tile.backends.opencl.compiler", "compile_module")
    LoadedKernel = lazy_import("tile.backends.opencl.launch", "LoadedKernel")
    survey = lazy_import("tile.backends.opencl.survey", "survey")


def _devices() -> ModuleType:
    """Return the module that finds devices."""
    with required_packages("opencl"):
        return importlib.import_module("tile.backends.opencl.devices")


class OpenclBackend:
    """Compile for a device or for a class of devices.

    The architecture of a target names either one: a class, as in `opencl:amd`, or a device by its
    index or a part of its name, as in `opencl:1` and `opencl:pocl`.
    """

    name = "opencl"
    devices: frozenset[str] = frozenset({"opencl"})
    specializes_noalias = True

    def resolve(self, target: Target, arrays: Iterable[DeviceMemory] = ()) -> Target:
        """Return the target with its device as an index. A class of devices is returned unchanged.

        Raises `BackendError` if there is no device, or none that matches.
        """
        if target.arch in NAMED:
            return target
        return Target(self.name, str(_devices().index_of(target.arch)))

    def identity(self, target: Target) -> str:
        """Return a key of everything that the emitted text depends on.

        For a device: its name, its driver's version and its capabilities. For a class: its
        capabilities.
        """
        if target.arch in NAMED:
            return repr(NAMED[target.arch])
        return "\n".join([*_devices().versions(target.arch), repr(self._capabilities(target))])

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        """Lower a TILE module to OpenCL C; the module is modified in place.

        Raises `BackendError` if there is no device to query for its capabilities,
        `OutOfResourcesError` for more local memory or work-items than it has, and
        `UnsupportedError` for types and atomic operations that it lacks.
        """
        options.refuse_checks(target)
        return compile_module(module, target, options, self._capabilities(target))

    def _capabilities(self, target: Target) -> Capabilities:
        if target.arch in NAMED:
            return NAMED[target.arch]
        capabilities: Capabilities = _devices().chosen(target.arch).capabilities
        return capabilities

    def lowering_target(self, target: Target) -> SimtTarget:
        """Return the description by which passes lower kernels for a device or class."""
        return emitter_target(self._capabilities(target))

    def device_names(self, target: Target) -> list[str]:
        """Return the names and versions of the platform, the device and its driver."""
        return [] if target.arch in NAMED else [*_devices().versions(target.arch)]

    def survey(self) -> Sequence[Requirement]:
        """Return the installed runtimes and the capabilities of their devices."""
        with required_packages(self.name):
            return survey()

    def load(self, artifact: Artifact) -> LoadedKernel:
        """Return the kernel. Its device is selected, and its program built, at the first launch."""
        with required_packages(self.name):
            return LoadedKernel(
                artifact.kernel,
                LaunchMetadata.of(artifact.launch_metadata),
                artifact.parameters,
                [name in artifact.written for name in artifact.parameters],
                artifact.target.arch,
                cooperative=artifact.options.launch_cooperative_grid,
            )
