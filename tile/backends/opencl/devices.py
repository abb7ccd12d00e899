"""Enumerate OpenCL devices, select one, and query its capabilities.

The ICD loader does not find all runtimes by itself. The loader in pyopencl's wheel reads `*.icd`
files, each with the path of a library, from the folder that OCL_ICD_VENDORS names, else from
/etc/OpenCL/vendors. PoCL and Oclgrind from pip install theirs where the loader looks anyway. It
never finds Intel's runtime from pip, whose own file holds a path of the machine that it was built
on, and NVIDIA's driver may come without a file. We therefore create a temporary folder with the
system's files and files for the other runtimes, which lives as long as the loader reads it.

PoCL calls `ld` for every kernel, and ends the process if there is none, or no C compiler with
libraries to link. Machines without them have no device of PoCL.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pyopencl as cl

from tile.backends.opencl import tuning
from tile.backends.opencl.target import NAMED, SIMD_CPU, WARP, Capabilities
from tile.config import config
from tile.errors import BackendError

VARIABLE = "OCL_ICD_VENDORS"
SYSTEM = Path("/etc/OpenCL/vendors")
INTEL = ("intel-opencl-rt", "libintelocl.so")
NVIDIA = "libnvidia-opencl.so.1"
POCL = "Portable Computing Language"  # platform names
INTEL_OPENCL = "Intel(R) OpenCL"
OCLGRIND = "Oclgrind"
# The variable with the folder where PoCL looks for `ld` first.
TOOLS = "COMPILER_PATH"
# PoCL tells LLVM that iterations of its work-item loops are independent. LLVM 14 then vectorizes
# 3 of 5,440 random kernels wrongly, and none with plain loops. A matmul is as fast.
WORK_ITEMS = ("POCL_WORK_GROUP_METHOD", "loops")
# Three passes of Intel's compiler 2026.2 are skipped. `x86-scalar-to-vector` miscompiles a scalar
# bitwise not on CPUs with AVX-512: for VPCMPEQD, which sets all bits of a vector register, it
# selects the opcode whose result is a mask. `sycl-kernel-reduce-cross-barrier-values` crashes on
# some kernels. `jump-threading` lets a load run whose condition is false, where a branch on the
# loaded value follows. A matmul is as fast without the three.
# Its `licm` hoists loads from local memory out of a loop, over barriers, although the loop stores
# there: a query for clobbering stores misses the store. Without queries (at most 0 per loop), any
# store in the loop clobbers a load. Matmuls, sorts and scans are as fast.
# Copies of private arrays stay loops: its vectorizer gives a memcpy of one the address zero.
# Its register allocator splits no live range across blocks: of registers that were split so, it
# hoists spills, and dereferenced a null pointer where it did. Matmuls are as fast.
_OPTIONS = {
    "opt-disable": "x86-scalar-to-vector,sycl-kernel-reduce-cross-barrier-values,jump-threading",
    "licm-mssa-optimization-cap": "0",
    "disable-loop-idiom-memcpy": "true",
    "grow-region-complexity-budget": "0",
    "opt-bisect-verbose": "false",  # otherwise `opt-disable` prints every pass
}
PASSES = (
    "CL_CONFIG_LLVM_OPTIONS",
    " ".join(f"-{option}={value}" for option, value in _OPTIONS.items()),
)


# The private arrays of a work-group's items lie on the stack of one of PoCL's threads. One of 8,849
# random kernels needed 8.6 MiB, where threads have 8 by default.
STACK_BYTES = 1 << 26


@contextmanager
def visible() -> Iterator[None]:
    """Let the loader see all runtimes while it enumerates them. A user's own settings win."""
    os.environ.setdefault(*WORK_ITEMS)  # noqa: TID251 - PoCL's variable, not ours
    if VARIABLE in os.environ:  # noqa: TID251 - the loader's variable, not ours
        _skip_passes(Path(os.environ[VARIABLE]))  # noqa: TID251
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tile-opencl-") as folder:
        _write_icd_files(Path(folder))
        _skip_passes(Path(folder))
        os.environ[VARIABLE] = folder  # noqa: TID251
        try:
            yield
        finally:
            del os.environ[VARIABLE]  # noqa: TID251


def settings() -> list[str]:
    """Return the environment variables that affect runtimes' machine code, with their values."""
    names = (WORK_ITEMS[0], PASSES[0])
    return [f"{name}={os.environ.get(name, '')}" for name in names]  # noqa: TID251


def _skip_passes(folder: Path) -> None:
    """Let Intel's compiler skip faulty passes. A user's own options win.

    The compiler ends the process on an unknown option, so each library must contain all of them.
    """
    libraries = _intel_libraries(folder)
    if libraries and all(map(_knows_options, libraries)):
        os.environ.setdefault(*PASSES)  # noqa: TID251 - Intel's variable, not ours


def _intel_libraries(folder: Path) -> list[Path]:
    """Return the libraries of Intel's runtime that the `*.icd` files of a folder name."""
    lines = [line.strip() for file in folder.glob("*.icd") for line in file.read_text().split("\n")]
    return [Path(line) for line in lines if Path(line).name.startswith(INTEL[1])]


def _knows_options(library: Path) -> bool:
    """Return True if the names of all options are among a library's strings."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
            return all(m.find(b"\0%s\0" % option.encode()) >= 0 for option in _OPTIONS)
    except OSError:
        return False


def has_linker() -> bool:
    """Return True if PoCL will find what it links kernels by."""
    named = TOOLS in os.environ  # noqa: TID251 - PoCL's variable, not ours
    return named or all(map(shutil.which, ("ld", "cc")))


def _write_icd_files(folder: Path) -> None:
    """Copy the system's `*.icd` files, and add those of Intel's runtime and NVIDIA's driver."""
    for file in SYSTEM.glob("*.icd") if SYSTEM.is_dir() else ():
        shutil.copy(file, folder / file.name)
    libraries = "".join(file.read_text() for file in folder.iterdir())
    intel = installed(*INTEL)
    if intel is not None and intel.name not in libraries:
        (folder / "pip-intel.icd").write_text(f"{intel}\n")
    if "nvidia" not in libraries and _loads(NVIDIA):
        (folder / "nvidia.icd").write_text(f"{NVIDIA}\n")


def installed(distribution: str, library: str) -> Path | None:
    """Return the path of a library in a distribution that pip installed; None without it."""
    try:
        files = metadata.files(distribution) or ()
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == library)
    return next(paths, None)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


INSTALL = "pip install 'tile-compiler[opencl]' brings one that runs on the CPU"
# Reasons for PoCL's settings:
# - PoCL does not vectorize a work-item loop that contains another loop. Work-items are faster with
#   vectors of their own and with registers in variables: a matmul then runs six times as fast.
# - With very many variables, PoCL takes seconds to build programs that are slower than with arrays.
# - Each load or store of a `half` becomes up to 70 instructions, with branches.
# - PoCL compiles every kernel three times: by itself, and inlined into two functions that call it.
# - Its pass BarrierTailReplication copies the rest of a kernel for every barrier that does not
#   dominate it: a barrier in a branch, or in a loop that LLVM has rotated into `if (test) do ...
#   while`. Each such barrier doubles the copies: with nine the build never finishes, and some loops
#   overflow its stack. Copies with branches are wrong: stores run whose condition is false. On some
#   nested loops its pass ImplicitConditionalBarriers never ends. A barrier in the header of a loop
#   keeps LLVM from rotating the loop, and dominates what follows.
# - Optimized programs with a barrier in a branch are wrong all the same (8 of 5,440 random kernels;
#   unoptimized, none), so they are built without optimization.
_POCL_CPU: dict[str, Any] = {
    "tuning": tuning.POCL,
    "f16_by_bits": True,
    "inlines_kernels": True,
    "header_barriers": True,
    "branch_barriers_unoptimized": True,
}
# Intel's CPU runtime 2026.2 keeps values of a vectorized kernel wrongly across a barrier:
# - It takes the result of LLVM's `fneg` to be the same in all work-items of a work-group, and so
#   everything that is computed from such values alone, as exp(-x). It keeps one such value for the
#   work-group instead of one for each work-item: all read that of the last work-item. LLVM makes
#   `fneg` of -x, x * -1, x / -1, -0.0 - x, and of a sign bit that is flipped or set in the bits of
#   a float.
# - It spills a vector of 2-bit, 3-bit or 4-bit integers as packed bits, and reloads it as bytes.
#   LLVM makes such integers of the indices ((lane & 2) >> 1) + ((lane & 1) << 1), which are those
#   of a layout after two bits were exchanged: it narrows a reversal of bits to the bits reversed.
# - It moves loads from global memory up over a call of a function, although the function contains a
#   barrier: a load then misses what other work-items stored before it.
# And it vectorizes some kernels by a call of such a function for one work-item after the other, so
# that its barriers do nothing. Neither happens where all such calls are inlined.
_INTEL_CPU = SIMD_CPU | {
    "without_fneg": True,
    "without_bit_reversal": True,
    "inlined_barriers": True,
}
_CPU = {POCL: _POCL_CPU, INTEL_OPENCL: _INTEL_CPU}
# Oclgrind's optimizer emits instructions that it cannot run, such as the reversal of two bits.
_FLAGS = {OCLGRIND: ("-cl-opt-disable",)}
# The common names of platforms that report another name. Either name selects the platform.
_SHORT_NAMES = {POCL: "PoCL, "}
_INT64 = frozenset({"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"})
# Extensions that became optional features of OpenCL C 3.0, which devices list by another name.
_FEATURES = {"cl_khr_subgroups": "__opencl_c_subgroups"}
_HANDLES = 1 << 20  # a number of at least this is a device handle, as arrays have, and no index


@dataclass(frozen=True, eq=False)
class Device:
    """An OpenCL device with a context and a queue."""

    raw: Any
    context: Any
    queue: Any
    capabilities: Capabilities
    host_memory: bool  # kernels can access host memory by its addresses

    @property
    def name(self) -> str:
        return self.capabilities.name

    @property
    def resident(self) -> int:
        """Return the number of work-groups that are certain to be co-resident.

        OpenCL guarantees none. GPUs keep a work-group on each free compute unit, and PoCL hands
        one to each of its threads. Intel's CPU runtime may run two work-groups one after the other
        on one thread while other threads idle, and Oclgrind runs all work-groups one by one.
        """
        kind, platform = self.raw.type, self.raw.platform.name
        one_per_unit = kind & cl.device_type.GPU or platform == POCL
        return int(self.raw.max_compute_units) if one_per_unit and platform != OCLGRIND else 1

    @property
    def shares_memory(self) -> bool:
        """True if device memory is host memory, so that a buffer need not be a copy."""
        return bool(self.raw.host_unified_memory)


@functools.cache
def all_devices() -> tuple[Any, ...]:
    """Return the devices of all platforms: GPUs first, then in the order of `_preference`.

    Raises `BackendError` if there is no platform.
    """
    try:
        # PoCL starts its threads here.
        with visible(), thread_stacks(STACK_BYTES):
            devices = [
                device for platform in cl.get_platforms() for device in _devices_of(platform)
            ]
    except cl.Error as error:
        raise BackendError(f"there is no OpenCL platform ({error}); {INSTALL}") from error
    return tuple(sorted(devices, key=_preference))


def _devices_of(platform: Any) -> list[Any]:
    if platform.name == POCL and not has_linker():
        return []
    try:
        return list(platform.get_devices())
    except cl.Error:  # a platform without devices
        return []


def _preference(device: Any) -> int:
    """Rank GPUs first, then other accelerators, CPUs by speed of the runtime, and simulators."""
    if device.platform.name == OCLGRIND:
        return 4
    if device.type & cl.device_type.CPU:
        return 3 if device.platform.name == POCL else 2
    return 0 if device.type & cl.device_type.GPU else 1


def describe(device: Any) -> str:
    """Return a device's name as messages print it."""
    platform = device.platform.name.strip()
    return f"{device.name.strip()} ({_SHORT_NAMES.get(platform, '')}{platform})"


def chosen(name: str = "") -> Device:
    """Return the device that the architecture of a target selects.

    name: an index into `all_devices`, or part of a device's name. If it is empty or names a class
        of devices, TILE_OPENCL_DEVICE selects the device, else it is the first one. An `@` makes
        the name of a class part of a device's name: `@intel`.

    Raises `BackendError` if there is no device, or none that matches.
    """
    return opened(index_of(name))


def index_of(name: str = "") -> int:
    """Return the index of that device in `all_devices`; raises as `chosen` does."""
    if not name or name in NAMED:
        return _index(config.opencl_device, "TILE_OPENCL_DEVICE is")
    return _index(name.removeprefix("@"), "the target asks for device")


def versions(name: str = "") -> list[str]:
    """Return names and versions that identify that device and its runtime."""
    return versions_of(all_devices()[index_of(name)])


def versions_of(raw: Any) -> list[str]:
    """Return names and versions that identify a device and its runtime."""
    platform = raw.platform
    return [platform.name, platform.version, raw.name, raw.version, raw.driver_version]


def _index(name: str, origin: str) -> int:
    """Return the index of a device; `origin` begins the message of an error."""
    devices = all_devices()
    if not devices:
        raise BackendError(f"there is no OpenCL device; {INSTALL}")
    if not name:
        return 0
    if not name.isdecimal():
        for index, device in enumerate(devices):
            if name.lower() in describe(device).lower():
                return index
        raise BackendError(
            f"{origin} {name!r}, which is part of no OpenCL device's name; there are "
            f"{_all_names()}; and as targets, {', '.join(NAMED)}"
        )
    number = int(name)
    if number >= _HANDLES:
        number = next((i for i, d in enumerate(devices) if d.int_ptr == number), number)
    if number >= len(devices):
        raise BackendError(f"{origin} {name}, and there are {len(devices)} devices: {_all_names()}")
    return number


def _all_names() -> str:
    return ", ".join(f"{i}: {describe(device)}" for i, device in enumerate(all_devices()))


@functools.cache
def opened(index: int) -> Device:
    """Return a device by its index in `all_devices`, with a context and a queue of its own."""
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
class UserDevices:
    """Devices with the contexts and queues that users created."""

    _devices: dict[tuple[Any, Any], Device]

    def of(self, context: Any, queue: Any) -> Device:
        """Return the device of a queue, or the first device of the context without a queue."""
        device = self._devices.get((context, queue))
        if device is None:
            raw = context.devices[0] if queue is None else queue.device
            device = self._devices[context, queue] = _in_context(raw, context, queue)
        return device


USERS = UserDevices({})


def extensions_of(device: Any) -> frozenset[str]:
    """Return a device's extensions, including those that it lists as features of OpenCL C."""
    features = {name for name, feature in _FEATURES.items() if _has_feature(device, feature)}
    return frozenset(device.extensions.split()) | features


def capabilities(device: Any) -> Capabilities:
    """Return the capabilities that a device reports."""
    extensions = extensions_of(device)
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
    """Return the settings of a CPU's runtime; none for other devices."""
    if not device.type & cl.device_type.CPU:
        return {}
    return _CPU.get(device.platform.name, SIMD_CPU)


def _version(text: str) -> tuple[int, int]:
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (1, 2)


def _has_feature(device: Any, name: str) -> bool:
    try:
        return any(feature.name == name for feature in device.opencl_c_features)
    except (AttributeError, cl.Error):
        return False


def _subgroup(device: Any, extensions: frozenset[str]) -> int:
    """Return the sub-group size of a GPU with shuffles that lets programs require one; else 0.

    On CPUs local memory is as fast, and Intel's runtime takes seconds to build such programs. In a
    kernel that it does not vectorize, a sub-group is one work-item, whatever size is required.
    """
    needed = {"cl_khr_subgroup_shuffle", "cl_intel_required_subgroup_size"}
    return 16 if needed <= extensions and device.type & cl.device_type.GPU else 0


def _assembly(device: Any, extensions: frozenset[str]) -> int:
    """Return the compute capability of a device whose compiler accepts PTX; else 0."""
    if "cl_nv_device_attribute_query" not in extensions:
        return 0
    return 10 * int(device.compute_capability_major_nv) + int(device.compute_capability_minor_nv)


def _host_memory(device: Any) -> bool:
    """Return True if kernels can access any host address, as with fine-grained system SVM.

    PoCL runs kernels in this process, although it does not report system SVM.
    """
    if device.platform.name == POCL and device.type & cl.device_type.CPU:
        return True
    try:
        svm = device.svm_capabilities
    except (AttributeError, cl.Error):
        return False
    return bool(svm & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)


_ATTRIBUTES_BYTES = 64  # pthread_attr_t has 56 on x86-64, 64 on AArch64


@contextmanager
def thread_stacks(size: int) -> Iterator[None]:
    """Give threads that start meanwhile at least so many bytes of stack, if they ask for no size.

    Libraries that start threads in C often ask for none. Elsewhere than with glibc, or where it
    refuses the size, nothing changes.

    size: bytes, of which the operating system takes the pages that are written.
    """
    library = ctypes.CDLL(None)
    before = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
    if not hasattr(library, "pthread_setattr_default_np"):
        yield
        return
    if library.pthread_getattr_default_np(before):
        yield
        return
    default = ctypes.c_size_t()
    library.pthread_attr_getstacksize(before, ctypes.byref(default))
    _set(library, max(size, default.value))
    try:
        yield
    finally:
        _set(library, default.value)
        library.pthread_attr_destroy(before)


def _set(library: ctypes.CDLL, size: int) -> None:
    attributes = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
    if library.pthread_getattr_default_np(attributes):
        return
    library.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
    library.pthread_setattr_default_np(attributes)
    library.pthread_attr_destroy(attributes)
