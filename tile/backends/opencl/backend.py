"""OpenCL devices as a backend: the lowering for one thread, and OpenCL C."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tile.backends.base import Artifact, DeviceMemory, Finding, Options, Target
from tile.backends.opencl import devices
from tile.backends.opencl.capabilities import NAMED
from tile.backends.opencl.emit.functions import Emitted, emit_module
from tile.backends.opencl.launch import LoadedKernel
from tile.backends.opencl.survey import survey
from tile.backends.optimised import optimise
from tile.ir.core import Module
from tile.ir.printer import print_module
from tile.simt.pipeline import lower


@dataclass(frozen=True, eq=False)
class OpenclArtifact(Artifact):
    """A kernel in OpenCL C, with what the launcher must know of it."""

    emitted: Emitted | None = None


class OpenclBackend:
    """Compiles for a device, or for a class of devices.

    A target names either as its architecture: the class, as in `opencl:amd`, or the device by its
    index or a part of its name, as in `opencl:1` and `opencl:pocl`.
    """

    name = "opencl"
    devices: frozenset[str] = frozenset({"opencl"})

    def resolve(self, target: Target, arrays: Iterable[DeviceMemory] = ()) -> Target:
        """The target as it is."""
        return target

    def identity(self, target: Target) -> None:
        """Nothing: artifacts are not kept on disk."""

    def compile(self, module: Module, target: Target, options: Options) -> OpenclArtifact:
        """Lower a TILE module, which changes, to OpenCL C.

        Raises `BackendError` if no device is there to be asked what it can do,
        `OutOfResourcesError` for more local memory or work-items than it has, and
        `UnsupportedError` for types and atomic operations that it lacks.
        """
        options.refuse_checks(self.name)
        can = NAMED.get(target.arch) or devices.chosen(target.arch).capabilities
        tiles = optimise(module)
        stages = tiles.stages
        lower(module, can.simt, **options.lowering)
        stages["thread"] = print_module(module)
        emitted = emit_module(module, can, options)
        stages["opencl"] = emitted.text
        return OpenclArtifact(
            kernel=module.kernel.name,
            target=target,
            options=options,
            stages=stages,
            parameters=tiles.parameters,
            written=tiles.written,
            facts={
                "kernel": emitted.kernel,
                "threads": emitted.threads,
                "shared_bytes": emitted.shared_bytes,
                "build_options": list(emitted.build_options),
            },
            emitted=emitted,
        )

    def survey(self) -> Sequence[Finding]:
        """The runtimes that are there, and what their devices can do."""
        return survey()

    def load(self, artifact: Artifact) -> LoadedKernel:
        """The kernel for the device that is chosen at its first launch."""
        assert isinstance(artifact, OpenclArtifact) and artifact.emitted is not None
        written = [name in artifact.written for name in artifact.parameters]
        wanted = artifact.target.arch
        return LoadedKernel(artifact.kernel, artifact.emitted, artifact.parameters, written, wanted)
