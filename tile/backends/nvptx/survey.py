"""A report of packages, libdevice, ptxas, the driver and devices on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import metadata

from cuda import pathfinder
from cuda.bindings import driver as cuda

from tile.backends.base import Requirement
from tile.backends.nvptx.architectures import native
from tile.backends.nvptx.driver import check
from tile.errors import TileError

PACKAGES = ("llvmlite", "cuda-python", "cuda-pathfinder")
_Attribute = cuda.CUdevice_attribute


def survey() -> list[Requirement]:
    """Report packages, libdevice, ptxas, the driver, and its devices."""
    versions = tuple(f"{name} {metadata.version(name)}" for name in PACKAGES if _installed(name))
    return [Requirement("packages", versions), _libdevice(), _assembler(), _devices()]


def _installed(name: str) -> bool:
    return next(iter(metadata.distributions(name=name)), None) is not None


def _libdevice() -> Requirement:
    try:
        return Requirement("libdevice", (str(pathfinder.find_bitcode_lib("device")),))
    except pathfinder.BitcodeLibNotFoundError:
        return Requirement("libdevice", missing="for exp, log, sin: pip install nvidia-nvvm")


def _assembler() -> Requirement:
    path = pathfinder.find_nvidia_binary_utility("ptxas") or shutil.which("ptxas")
    if path is None:
        return Requirement("ptxas", missing="for tests only: pip install nvidia-cuda-nvcc")
    return Requirement("ptxas", (str(path),))


def _devices() -> Requirement:
    try:
        (status,) = cuda.cuInit(0)
        check((status,), "starting the NVIDIA driver")
        version = int(check(cuda.cuDriverGetVersion(), "asking for the driver's version"))
        driver = f"driver for CUDA {version // 1000}.{version % 1000 // 10}"
        return Requirement("devices", (driver, *_devices_text()))
    except (TileError, RuntimeError, ImportError, OSError) as error:
        reason = str(error).splitlines()[0]
        return Requirement(
            "devices",
            missing=f"{reason}; a GPU and NVIDIA's driver. Without them kernels compile for an "
            "architecture that is named: nvptx:sm_90a",
        )


def _devices_text() -> Iterator[str]:
    for ordinal in range(int(check(cuda.cuDeviceGetCount(), "counting devices"))):
        device = check(cuda.cuDeviceGet(ordinal), "opening a device")

        def ask(attribute: object, device: object = device) -> int:
            return int(check(cuda.cuDeviceGetAttribute(attribute, device), "asking a device"))

        name = check(cuda.cuDeviceGetName(96, device), "asking a device").rstrip(b"\0").decode()
        major = ask(_Attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = ask(_Attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        shared = ask(_Attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        memory = int(check(cuda.cuDeviceTotalMem(device), "asking a device"))
        yield (
            f"{ordinal}: {name}, {native(major, minor)}, {memory >> 30} GiB, "
            f"{shared >> 10} KiB of shared memory for a program"
        )
