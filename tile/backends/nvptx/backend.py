"""The backend for NVIDIA GPUs.

Modules that only compilation needs are imported lazily, and so are those that only launches need:
without `cuda-python`, kernels compile for the architecture that a target names.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tile._lazy import lazy_import
from tile.backends import required_packages
from tile.backends.base import Artifact, DeviceMemory, Options, Target
from tile.backends.capabilities import ExportedParameter, Requirement, Timer
from tile.backends.nvptx.launch_metadata import LaunchMetadata
from tile.errors import BackendError, TileError

if TYPE_CHECKING:
    from tile.backends.nvptx.aot import files
    from tile.backends.nvptx.aot_maps import can_encode
    from tile.backends.nvptx.compiler import compile_module, without_maps
    from tile.backends.nvptx.driver import current_architecture, current_names, device_of
    from tile.backends.nvptx.emit import lowering_target as emitter_target
    from tile.backends.nvptx.event_timer import current_timer
    from tile.backends.nvptx.launch import LoadedKernel
    from tile.backends.nvptx.survey import survey
    from tile.backends.nvptx.target import architecture
    from tile.ir.module import Module
    from tile.simt.target import SimtTarget
else:
    architecture = lazy_import("tile.backends.nvptx.target", "architecture")
    emitter_target = lazy_import("tile.backends.nvptx.emit", "lowering_target")
    current_timer = lazy_import("tile.backends.nvptx.event_timer", "current_timer")
    files = lazy_import("tile.backends.nvptx.aot", "files")
    can_encode = lazy_import("tile.backends.nvptx.aot_maps", "can_encode")
    compile_module = lazy_import("tile.backends.nvptx.compiler", "compile_module")
    without_maps = lazy_import("tile.backends.nvptx.compiler", "without_maps")
    current_architecture = lazy_import("tile.backends.nvptx.driver", "current_architecture")
    current_names = lazy_import("tile.backends.nvptx.driver", "current_names")
    device_of = lazy_import("tile.backends.nvptx.driver", "device_of")
    LoadedKernel = lazy_import("tile.backends.nvptx.launch", "LoadedKernel")
    survey = lazy_import("tile.backends.nvptx.survey", "survey")


class NvptxBackend:
    """Compiles for any architecture that a target names, without a device."""

    name = "nvptx"
    devices = frozenset({"cuda"})
    # Loads by `ld.global.nc` gained nothing on an H200 (notes/fast-path.md).
    specializes_noalias = False

    def resolve(self, target: Target, arrays: Iterable[DeviceMemory] = ()) -> Target:
        """Add an architecture to a target: of the first array's device, else of the current one.

        Raises `BackendError` if the target names none and there is no device, or no `cuda-python`.
        """
        if target.arch:
            return target
        try:
            for array in arrays:
                if array.device.partition(":")[0] in self.devices:
                    return Target(self.name, device_of(array).architecture)
            return Target(self.name, current_architecture())
        except BackendError as error:
            error.notes.append(
                "to compile without a device, name an architecture: tile.compile(..., "
                "target='nvptx:sm_90a')"
            )
            raise

    def identity(self, target: Target) -> str:
        """Return the version of llvmlite, which determines that of LLVM."""
        return _llvmlite()

    def preload(self) -> None:
        """Load LLVM and libdevice in a thread, while the first kernel of a process is lowered.

        The dynamic linker and LLVM release the GIL for nearly all of that time.
        """
        _loading()

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        """Lower a TILE module, in place, to PTX.

        Raises `OutOfResourcesError` if it needs more shared memory than the architecture has, and
        `UnsupportedError` for what the architecture lacks altogether.
        """
        options.refuse_checks(target)
        with required_packages(self.name):
            return compile_module(module, target, options)

    def lowering_target(self, target: Target) -> SimtTarget:
        """Return the description by which passes lower kernels for an architecture."""
        return emitter_target(architecture(target.arch))

    def device_names(self, target: Target) -> list[str]:
        """Return the current device's name and the driver's version."""
        return current_names()

    def timer(self) -> Timer:
        """Return a timer on the current stream of the current device."""
        return current_timer()

    def survey(self) -> Sequence[Requirement]:
        """Report packages, the driver and its devices."""
        return survey()

    def load(self, artifact: Artifact) -> LoadedKernel:
        """Return the kernel, for any device that it is launched on."""
        return LoadedKernel(
            artifact,
            LaunchMetadata.of(artifact.launch_metadata),
            lambda: self.load(without_maps(artifact)),
        )

    def exported_form(self, artifact: Artifact) -> Artifact:
        """Return the kernel, or its form without tensor maps that a C header cannot encode."""
        metadata = LaunchMetadata.of(artifact.launch_metadata)
        return artifact if can_encode(metadata, artifact.target.arch) else without_maps(artifact)

    def export(
        self, artifact: Artifact, name: str, parameters: Sequence[ExportedParameter]
    ) -> Mapping[str, str | bytes]:
        """Return a C header, and a cubin if ptxas is installed."""
        has_maps = bool(LaunchMetadata.of(artifact.launch_metadata).maps)
        plain = without_maps(artifact) if has_maps else None
        return files(artifact, plain, name, parameters)


@functools.cache
def _llvmlite() -> str:
    """Return the version of llvmlite without importing it or `importlib.metadata`.

    Either takes longer than finding a kernel on disk.
    """
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return "no llvmlite"
    try:
        return Path(spec.origin).with_name("_version.py").read_text(encoding="utf-8")
    except OSError:
        return spec.origin


@functools.cache
def _loading() -> threading.Thread:
    """Start the thread that loads what compilations share, once a process."""
    thread = threading.Thread(target=_load, name="tile-llvm")
    thread.start()
    if hasattr(os, "register_at_fork"):
        # A child would not have the thread, and wait for its lock forever.
        os.register_at_fork(before=thread.join)
    return thread


def _load() -> None:
    """Load it; what fails is reported where a kernel needs it."""
    try:
        importlib.import_module("tile.backends.nvptx.libdevice").load()
    except (ImportError, OSError, TileError):
        return
