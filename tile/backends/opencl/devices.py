"""The OpenCL devices that are there, which one is used, and what it can do."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

from tile.backends.opencl.capabilities import ABREAST, NAMED, WARP, Capabilities
from tile.backends.opencl.runtimes import INTEL_OPENCL, OCLGRIND, POCL, visible
from tile.config import config
from tile.errors import BackendError

INSTALL = "pip install 'tile-compiler[opencl]' brings one that runs on the CPU"
# PoCL vectorises no loop with another inside, so work-items do better with vectors of their own and
# with what they keep in variables: a product of matrices is then six times as fast.
# It would compile every kernel three times: for itself, and in two functions that call it.
# Of very many variables, it takes seconds to make programs that are slower than with arrays.
# Of a `half` that is loaded or stored it makes up to 70 instructions, with branches.
# Its pass BarrierTailReplication copies the rest of a kernel for every barrier that does not
# dominate it: one under a condition, or in a loop that LLVM has rotated into `if (test) do ...
# while`. Each such barrier doubles the copies: nine never finish, and some loops overflow its
# stack. Copies with branches are wrong: stores are made whose condition is false. On some nested
# loops its pass ImplicitConditionalBarriers never ends. A barrier in the header of a loop keeps
# LLVM from rotating it, and dominates what follows. Optimized programs with a barrier in a branch
# are wrong all the same (8 of 5,440 random kernels; unoptimized, none), so they are not optimized.
_POCL_CPU: dict[str, Any] = {
    "unrolled": 64,
    "variables": 3500,
    "half_bits": True,
    "copied": True,
    "header_barriers": True,
    "branch_barriers_unoptimized": True,
}
# Intel's CPU runtime 2026.2 stores a vector of 2-bit integers that is live across barriers in bits
# and loads it in bytes (1 of 2,760 random kernels; unoptimized, none). LLVM narrows integers so in
# programs with a barrier in a branch.
_INTEL_CPU = ABREAST | {"branch_barriers_unoptimized": True}
_CPU = {POCL: _POCL_CPU, INTEL_OPENCL: _INTEL_CPU}
# Oclgrind's optimiser makes instructions that it cannot run, such as the reversal of two bits.
_FLAGS = {OCLGRIND: ("-cl-opt-disable",)}
# Platforms that are known by another name than the one they give, and are chosen by either.
_SHORT_NAMES = {POCL: "PoCL, "}
_INT64 = frozenset({"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"})
# Extensions that became features of the language, under whose names later devices list them.
_FEATURES = {"cl_khr_subgroups": "__opencl_c_subgroups"}
_HANDLES = 1 << 20  # numbers from here on are handles, as arrays name their devices


@dataclass(frozen=True, eq=False)
class Device:
    """An OpenCL device with a context and a queue."""

    raw: Any
    context: Any
    queue: Any
    capabilities: Capabilities
    host_memory: bool  # kernels can access the host's memory at its addresses

    @property
    def name(self) -> str:
        return self.capabilities.name

    @property
    def resident(self) -> int:
        """The number of work-groups that are certain to run at the same time.

        OpenCL promises nothing. GPUs keep a work-group on each free compute unit, and PoCL hands
        one to each of its threads. Intel's CPU runtime may run two in turn on one thread while
        others idle, and Oclgrind runs one after the other.
        """
        kind, platform = self.raw.type, self.raw.platform.name
        spreads = kind & cl.device_type.GPU or platform == POCL
        return int(self.raw.max_compute_units) if spreads and platform != OCLGRIND else 1

    @property
    def shares_memory(self) -> bool:
        """Whether its memory is the host's, so that a buffer need not be a copy."""
        return bool(self.raw.host_unified_memory)


@functools.cache
def all_devices() -> tuple[Any, ...]:
    """The devices of all platforms, GPUs first, else in the platforms' order.

    Raises `BackendError` where there is no platform.
    """
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
    """GPUs, then CPUs, the faster runtime first; a simulator, which is there to check, last."""
    if device.platform.name == OCLGRIND:
        return 4
    if device.type & cl.device_type.CPU:
        return 3 if device.platform.name == POCL else 2
    return 0 if device.type & cl.device_type.GPU else 1


def describe(device: Any) -> str:
    """A device as messages have it."""
    platform = device.platform.name.strip()
    return f"{device.name.strip()} ({_SHORT_NAMES.get(platform, '')}{platform})"


def chosen(wanted: str = "") -> Device:
    """A device by its index, or by part of its name; of TILE_OPENCL_DEVICE, or the first.

    `wanted` is what a target names. The name of a class of devices chooses none, unless `@` stands
    before it. Raises `BackendError` where there is no device, or none such.
    """
    return opened(index_of(wanted))


def index_of(wanted: str = "") -> int:
    """The number of such a device in `all_devices`; raises as `chosen` does."""
    if not wanted or wanted in NAMED:
        return _index(config.opencl_device, "TILE_OPENCL_DEVICE is")
    return _index(wanted.removeprefix("@"), "the target asks for device")


def versions(wanted: str = "") -> list[str]:
    """What tells such a device and its runtime from others."""
    return versions_of(all_devices()[index_of(wanted)])


def versions_of(raw: Any) -> list[str]:
    """The same of a device."""
    platform = raw.platform
    return [platform.name, platform.version, raw.name, raw.version, raw.driver_version]


def _index(wanted: str, asked: str) -> int:
    devices = all_devices()
    if not devices:
        raise BackendError(f"there is no OpenCL device; {INSTALL}")
    if not wanted:
        return 0
    if not wanted.isdecimal():
        found = (i for i, d in enumerate(devices) if wanted.lower() in describe(d).lower())
        index = next(found, None)
        if index is None:
            raise BackendError(
                f"{asked} {wanted!r}, which is part of no OpenCL device's name; there are "
                f"{_listed()}; and as targets, {', '.join(NAMED)}"
            )
        return index
    number = int(wanted)
    if number >= _HANDLES:
        number = next((i for i, d in enumerate(devices) if d.int_ptr == number), number)
    if number >= len(devices):
        raise BackendError(f"{asked} {wanted}, and there are {len(devices)} devices: {_listed()}")
    return number


def _listed() -> str:
    return ", ".join(f"{i}: {describe(device)}" for i, device in enumerate(all_devices()))


@functools.cache
def opened(index: int) -> Device:
    """A device by its number in `all_devices`, with a context of its own."""
    raw = all_devices()[index]
    try:
        return _in_context(raw, cl.Context([raw]))
    except cl.Error as error:
        raise BackendError(f"OpenCL device {describe(raw)} cannot be used: {error}") from error


def _in_context(raw: Any, context: Any, queue: Any = None) -> Device:
    if queue is None:
        timed = cl.command_queue_properties.PROFILING_ENABLE
        queue = cl.CommandQueue(context, raw, properties=timed)
    return Device(raw, context, queue, capabilities(raw), _host_memory(raw))


@dataclass
class Opened:
    """Devices in contexts and with queues that users made, by what is in use."""

    _devices: dict[tuple[Any, Any], Device]

    def of(self, context: Any, queue: Any) -> Device:
        """The device of a queue; of a context, if there is no queue, the first one."""
        found = self._devices.get((context, queue))
        if found is None:
            raw = context.devices[0] if queue is None else queue.device
            found = self._devices[context, queue] = _in_context(raw, context, queue)
        return found


USERS = Opened({})


def offered(device: Any) -> frozenset[str]:
    """The extensions of a device, those too that it lists as features of OpenCL C."""
    features = {name for name, feature in _FEATURES.items() if _has_feature(device, feature)}
    return frozenset(device.extensions.split()) | features


def capabilities(device: Any) -> Capabilities:
    """What a device says of itself."""
    extensions = offered(device)
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
        subgroups=bool(warp),
        assembly=_assembly(device, extensions),
        fixed_subgroups=bool(warp),
        c_version=version,
        flags=_FLAGS.get(device.platform.name, ()),
        **_on_cpu(device),
    )


def _on_cpu(device: Any) -> dict[str, Any]:
    """What programs are made like for a CPU; nothing for another device."""
    if not device.type & cl.device_type.CPU:
        return {}
    return _CPU.get(device.platform.name, ABREAST)


def _version(text: str) -> tuple[int, int]:
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (1, 2)


def _has_feature(device: Any, name: str) -> bool:
    try:
        return any(feature.name == name for feature in device.opencl_c_features)
    except (AttributeError, cl.Error):
        return False


def _subgroup(device: Any, extensions: frozenset[str]) -> int:
    """The size of sub-groups on GPUs with shuffles, where programs can ask for one; else 0.

    On CPUs local memory is as fast, and Intel's runtime takes seconds to build such programs. Where
    it does not vectorize a kernel, a sub-group is one work-item, whatever size the kernel requires.
    """
    needed = {"cl_khr_subgroup_shuffle", "cl_intel_required_subgroup_size"}
    return 16 if needed <= extensions and device.type & cl.device_type.GPU else 0


def _assembly(device: Any, extensions: frozenset[str]) -> int:
    """The compute capability of a device whose compiler takes PTX; else 0."""
    if "cl_nv_device_attribute_query" not in extensions:
        return 0
    return 10 * int(device.compute_capability_major_nv) + int(device.compute_capability_minor_nv)


def _host_memory(device: Any) -> bool:
    """CPU devices whose SVM is the system's; a kernel then takes any address of the host.

    PoCL runs kernels in this process, though it does not say so of its memory.
    """
    if device.platform.name == POCL and device.type & cl.device_type.CPU:
        return True
    try:
        found = device.svm_capabilities
    except (AttributeError, cl.Error):
        return False
    return bool(found & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)
