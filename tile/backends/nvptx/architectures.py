"""Names of architectures, what LLVM calls them, and which devices run code compiled for them."""

from __future__ import annotations

import re

# Pointers to shared, constant and local memory have 32 bits; see `prepare_llvm`.
DATA_LAYOUT = (
    "e-p:64:64:64-p3:32:32:32-p4:32:32:32-p5:32:32:32-p6:32:32:32-p7:32:32:32-i1:8:8-i8:8:8-"
    "i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-"
    "v32:32:32-n16:32:64"
)
TRIPLE = "nvptx64-nvidia-cuda"


BLACKWELL = 10  # the major number of its compute capability
PORTABLE_CLUSTER = 8  # programs of a cluster that all devices with clusters support; some more

_NAME = re.compile(r"sm_(\d{2,3})([af]?)")


def parse(name: str) -> tuple[int, str]:
    """Return the compute capability in a name and the letter after it; 0 for an invalid name."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), match[2]) if match else (0, "")


def native(major: int, minor: int) -> str:
    """Return the architecture of a device, with the instructions that only it has."""
    capability = major * 10 + minor
    return f"sm_{capability}{'a' if capability >= 90 else ''}"


def runs(device: str, compiled: str) -> bool:
    """Return True if a device of one architecture runs PTX for another.

    PTX runs on its capability and later ones; with an `a` on that capability alone, and with an `f`
    on later ones of its family, which have the same major number.
    """
    has, _ = parse(device)
    needs, letter = parse(compiled)
    if letter == "a":
        return has == needs
    return has >= needs and (letter != "f" or has // 10 == needs // 10)


def has_clusters(capability: int) -> bool:
    """Return True if devices of a compute capability, such as 90 for 9.0, support clusters."""
    return capability >= 90


def may_run_on_blackwell(compiled: str) -> bool:
    """Return True if some device of compute capability 10 or more runs code for an architecture."""
    return parse(compiled)[0] >= 10 * BLACKWELL or runs(f"sm_{10 * BLACKWELL}", compiled)


def has_dependent_launches(capability: int) -> bool:
    """Return True if launches on such devices may overlap the one before (`griddepcontrol`)."""
    return capability >= 90
