"""PoCL 3.0 on CPUs that are newer than it.

Its LLVM 14 calls a CPU that it does not know `generic`, and its Clang then refuses every program
("unknown target CPU 'generic'"). No option or variable of PoCL names another CPU, so tests write
one into the device that PoCL keeps in this process: `cl_device_id` points to a struct, one of whose
fields, `llvm_cpu`, is a pointer to that name.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tile.backends import required_packages

UNKNOWN = b"generic\0"
DEVICE_BYTES = 2048  # of the struct, of which `llvm_cpu` is at byte 640 in PoCL 3.0
# CPUs that LLVM 14 knows, by a flag of /proc/cpuinfo; PoCL picks its built-in library by such flags.
KNOWN = {"avx512bw": b"skylake-avx512", "avx2": b"haswell", "lm": b"x86-64"}


@functools.cache
def name_cpus() -> bool:
    """Name this machine's CPU in all of PoCL's devices that do not know it; True if there are any."""
    with required_packages("opencl"):
        import pyopencl as cl

        from tile.backends.opencl.devices import POCL, all_devices

    devices = [d for d in all_devices() if d.platform.name == POCL and d.type & cl.device_type.CPU]
    renamed = [_name_cpu(device) for device in devices]
    return any(renamed)


def _name_cpu(device: Any) -> bool:
    """Replace the name of a device's CPU if it is `generic`; return True if it was."""
    fields = list(_pointers_to(UNKNOWN, device.int_ptr))
    for address in fields:
        ctypes.c_void_p.from_address(address).value = ctypes.addressof(_cpu())
    return bool(fields)


@functools.cache  # the device refers to it for as long as the process runs
def _cpu() -> ctypes.Array[ctypes.c_char]:
    flags = set(Path("/proc/cpuinfo").read_text("utf-8").split())
    return ctypes.create_string_buffer(next(cpu for flag, cpu in KNOWN.items() if flag in flags))


def _pointers_to(text: bytes, start: int) -> Iterator[int]:
    """The addresses from `start` on at which there is a pointer to a text.

    The kernel reads what pointers point to, since most of the words are none.
    """
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        memory.seek(start)
        words = memory.read(DEVICE_BYTES)
        for at, (word,) in enumerate(struct.iter_unpack("Q", words[: len(words) & ~7])):
            try:
                memory.seek(word)
                if memory.read(len(text)) == text:
                    yield start + 8 * at
            except (OSError, OverflowError, ValueError):
                continue
