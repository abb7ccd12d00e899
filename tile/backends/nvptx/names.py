"""The names of architectures, and which devices run what was compiled for one."""

from __future__ import annotations

import re

_NAME = re.compile(r"sm_(\d{2,3})([af]?)")


def parse(name: str) -> tuple[int, str]:
    """The capability in a name, and the letter behind it; 0 for what is no such name."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), match[2]) if match else (0, "")


def native(major: int, minor: int) -> str:
    """The name of the architecture of a device, with the instructions that only it has."""
    capability = major * 10 + minor
    return f"sm_{capability}{'a' if capability >= 90 else ''}"


def runs(device: str, compiled: str) -> bool:
    """Whether a device of one architecture runs PTX for another.

    PTX is for that capability and later ones; with an `a` for that one alone, and with an `f` for
    later ones of its family, which is those of the same major number.
    """
    has, _ = parse(device)
    needs, letter = parse(compiled)
    if letter == "a":
        return has == needs
    return has >= needs and (letter != "f" or has // 10 == needs // 10)


def has_clusters(capability: int) -> bool:
    """Whether launches on devices of a compute capability, such as 90 for 9.0, can be clustered."""
    return capability >= 90
