"""A report of packages, libdevice, ptxas, the driver and devices on this machine."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from tile._lazy import lazy_import
from tile.backends.capabilities import Requirement
from tile.backends.nvptx import ptxas
from tile.backends.nvptx.toolkit import find_libdevice
from tile.errors import TileError

if TYPE_CHECKING:
    from tile.backends.nvptx.driver import describe_devices
else:  # without cuda-python there are no devices to report
    describe_devices = lazy_import("tile.backends.nvptx.driver", "describe_devices")

PACKAGES = ("llvmlite", "cuda-python")


def survey() -> list[Requirement]:
    """Report packages, libdevice, ptxas, the driver, and its devices."""
    versions = tuple(f"{name} {metadata.version(name)}" for name in PACKAGES if _installed(name))
    missing = "" if versions else "to compile kernels: pip install 'tile-compiler[nvptx]'"
    return [
        Requirement("packages", versions, missing),
        _file("libdevice", find_libdevice(), "for exp, log, sin: pip install nvidia-nvvm"),
        _file("ptxas", ptxas.find(), "for cubins: pip install nvidia-cuda-nvcc"),
        _devices(),
    ]


def _installed(name: str) -> bool:
    return next(iter(metadata.distributions(name=name)), None) is not None


def _file(part: str, path: object, remedy: str) -> Requirement:
    return Requirement(part, missing=remedy) if path is None else Requirement(part, (str(path),))


def _devices() -> Requirement:
    try:
        return Requirement("devices", tuple(describe_devices()))
    except TileError as error:
        return Requirement(
            "devices",
            missing=f"{error.message}. Without a GPU and NVIDIA's driver, kernels compile for an "
            "architecture that is named: nvptx:sm_90a",
        )
