"""OpenCL devices as a backend: the lowering for one thread, and OpenCL C."""

from __future__ import annotations

from dataclasses import dataclass

from tile.analysis.alias import written_arguments
from tile.backends.base import Artifact, Options, Target
from tile.backends.opencl import devices
from tile.backends.opencl.capabilities import Capabilities, named
from tile.backends.opencl.emit.functions import Emitted, emit_module
from tile.backends.opencl.launch import LoadedKernel
from tile.errors import OutOfResourcesError
from tile.ir.core import Module
from tile.ir.passes import run_pipeline
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.simt.pipeline import lower
from tile.transforms.pipeline import TILE


@dataclass(frozen=True, eq=False)
class OpenclArtifact(Artifact):
    """A kernel in OpenCL C, with what the launcher must know of it."""

    emitted: Emitted | None = None


class OpenclBackend:
    """Compiles for the device that is chosen, or for a class of devices that the target names."""

    name = "opencl"
    devices: frozenset[str] = frozenset()

    def compile(self, module: Module, target: Target, options: Options) -> OpenclArtifact:
        """Lower a TILE module, which changes, to OpenCL C.

        Raises `BackendError` if no device is there to be asked what it can do,
        `OutOfResourcesError` for more local memory or work-items than it has, and
        `UnsupportedError` for types and atomic operations that it lacks.
        """
        can = named(target.arch) if target.arch else devices.chosen().capabilities
        verify(module)
        stages: dict[str, str | bytes] = {"tile": print_module(module)}
        run_pipeline(module, TILE)
        stages["tile-optimized"] = print_module(module)
        written = written_arguments(module, module.kernel)
        _check_threads(module, can, options)
        lower(module, can.simt, num_warps=options.num_warps, num_stages=options.num_stages)
        stages["thread"] = print_module(module)
        emitted = emit_module(module, can, options)
        _check_memory(module, can, options, emitted)
        stages["opencl"] = emitted.text
        return OpenclArtifact(
            kernel=module.kernel.name,
            target=target,
            options=options,
            stages=stages,
            module=module,
            written=written,
            emitted=emitted,
        )

    def load(self, artifact: Artifact) -> LoadedKernel:
        """The kernel for the device that is chosen at its first launch."""
        assert isinstance(artifact, OpenclArtifact) and artifact.emitted is not None
        parameters = artifact.module.kernel.args
        written = [value.name in artifact.written for value in parameters]
        names = [value.name for value in parameters]
        return LoadedKernel(artifact.kernel, artifact.emitted, names, written)


def _check_threads(module: Module, can: Capabilities, options: Options) -> None:
    threads = can.warp * options.num_warps
    if threads > can.max_threads:
        raise OutOfResourcesError(
            f"`{module.kernel.name}` is compiled for {options.num_warps} warps of {can.warp}, "
            f"{threads} work-items, and device {can.name!r} has {can.max_threads} in a work-group; "
            f"num_warps of up to {can.max_threads // can.warp} fits",
            loc=module.kernel.loc,
        )


def _check_memory(module: Module, can: Capabilities, options: Options, emitted: Emitted) -> None:
    if emitted.shared_bytes > can.local_bytes:
        raise OutOfResourcesError(
            f"`{module.kernel.name}` takes {emitted.shared_bytes} bytes of local memory, and "
            f"device {can.name!r} has {can.local_bytes} for a work-group; fewer stages "
            f"(num_stages = {options.num_stages}) or smaller tiles take less",
            loc=module.kernel.loc,
        )
