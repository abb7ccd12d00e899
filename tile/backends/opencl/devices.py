"""The OpenCL devices that are there, which one is used, and what it can do."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from tile.backends.opencl.capabilities import FEW, WARP, Capabilities
from tile.backends.opencl.runtimes import visible
from tile.config import config
from tile.errors import BackendError

INSTALL = "pip install 'tile-compiler[opencl]' brings one that runs on the CPU"
# CPUs keep arrays where GPUs have registers; unrolled, a large program takes minutes to build.
_CPU: dict[str, Any] = {"unrolled": FEW, "loops": "unroll 1", "vector_bits": 8}
_INT64 = frozenset({"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"})


@dataclass(frozen=True, eq=False)
class Device:
    """An OpenCL device with a context and a queue of its own."""

    raw: Any
    context: Any
    queue: Any
    capabilities: Capabilities
    host_memory: bool  # kernels can access the host's memory at its addresses

    @property
    def name(self) -> str:
        return self.capabilities.name


@functools.cache
def all_devices() -> tuple[Any, ...]:
    """The devices of all platforms, GPUs first, else in the platforms' order."""
    try:
        with visible():
            platforms = cl.get_platforms()
    except cl.Error as error:
        raise BackendError(f"there is no OpenCL platform ({error}); {INSTALL}") from error
    found = [device for platform in platforms for device in _devices_of(platform)]
    return tuple(sorted(found, key=_preference))


def _devices_of(platform: Any) -> list[Any]:
    try:
        return list(platform.get_devices())
    except cl.Error:  # a platform without devices
        return []


def _preference(device: Any) -> int:
    """GPUs, then CPUs; a simulator, which is there to check and not to run, last."""
    if "oclgrind" in device.platform.name.lower():
        return 3
    order = {cl.device_type.GPU: 0, cl.device_type.ACCELERATOR: 1}
    return order.get(device.type & ~cl.device_type.DEFAULT, 2)


def describe(device: Any) -> str:
    """A device as messages have it."""
    return f"{device.name.strip()} ({device.platform.name.strip()})"


def chosen() -> Device:
    """The device that launches use: TILE_OPENCL_DEVICE, by index or part of its name, or the first.

    Raises `BackendError` where there is none, or none such.
    """
    return opened(_index(config.opencl_device))


def _index(wanted: str) -> int:
    devices = all_devices()
    if not devices:
        raise BackendError(f"there is no OpenCL device; {INSTALL}")
    if not wanted:
        return 0
    if wanted.isdecimal():
        if int(wanted) < len(devices):
            return int(wanted)
        raise BackendError(
            f"TILE_OPENCL_DEVICE is {wanted}, and there are {len(devices)} devices: {_listed()}"
        )
    for index, device in enumerate(devices):
        if wanted.lower() in describe(device).lower():
            return index
    raise BackendError(f"no OpenCL device is called {wanted!r}; there are {_listed()}")


def _listed() -> str:
    return ", ".join(f"{i}: {describe(device)}" for i, device in enumerate(all_devices()))


@functools.cache
def opened(index: int) -> Device:
    """A device by its number in `all_devices`, with a context."""
    raw = all_devices()[index]
    try:
        context = cl.Context([raw])
        queue = cl.CommandQueue(context)
    except cl.Error as error:
        raise BackendError(f"OpenCL device {describe(raw)} cannot be used: {error}") from error
    return Device(raw, context, queue, capabilities(raw), _host_memory(raw))


def capabilities(device: Any) -> Capabilities:
    """What a device says of itself."""
    extensions = set(device.extensions.split())
    version = _version(device.opencl_c_version)
    fences = version >= (2, 0) and _has_feature(device, "__opencl_c_atomic_order_acq_rel")
    warp = _subgroup(device, extensions)
    return Capabilities(
        name=describe(device),
        local_bytes=device.local_mem_size,
        max_threads=1 << (device.max_work_group_size.bit_length() - 1),
        fp16="cl_khr_fp16" in extensions,
        fp64="cl_khr_fp64" in extensions,
        atomics64=extensions >= _INT64,
        fences=fences,
        exact_division=bool(
            device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        ),
        warp=warp or WARP,
        shuffles=bool(warp),
        fixed_subgroups=bool(warp),
        c_version=version,
        **_CPU if device.type & cl.device_type.CPU else {},
    )


def _version(text: str) -> tuple[int, int]:
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (1, 2)


def _has_feature(device: Any, name: str) -> bool:
    try:
        return any(feature.name == name for feature in device.opencl_c_features)
    except (AttributeError, cl.Error):
        return False


def _subgroup(device: Any, extensions: set[str]) -> int:
    """The size of sub-groups on GPUs with shuffles, where programs can ask for one; else 0.

    On CPUs local memory is as fast, and Intel's runtime takes seconds to build such programs.
    """
    needed = {"cl_khr_subgroup_shuffle", "cl_intel_required_subgroup_size"}
    return 16 if needed <= extensions and device.type & cl.device_type.GPU else 0


def _host_memory(device: Any) -> bool:
    """CPU devices whose SVM is the system's; a kernel then takes any address of the host."""
    try:
        found = device.svm_capabilities
    except (AttributeError, cl.Error):
        return False
    return bool(found & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)
