"""Environment variables of Triton, which apply in programs for which `tile` is Triton.

`VARIABLES` has those that have the effect of a setting of `tile.config`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

TRITON = "TILE_TRITON"
"""Set in programs for which `tile` is Triton; its value is the version."""


def triton_flag(text: str) -> bool:
    """Return the value of a flag of Triton."""
    return text.lower() in ("1", "true", "yes", "on", "y")


OFF = ("", "0", "false", "off", "no", "n")
"""Texts that turn a variable of Triton off."""


@dataclass(frozen=True)
class TritonVariable:
    """An environment variable of Triton, and the value of a setting for its text."""

    name: str
    read: Callable[[str], Any]


def first_set(variables: Iterable[TritonVariable]) -> TritonVariable | None:
    """Return the first of some variables that is set; None in a program that is not Triton's."""
    if not os.environ.get(TRITON):
        return None
    return next((variable for variable in variables if variable.name in os.environ), None)


def triton_folder(name: str) -> str:
    """Return a folder of Triton: of the cache, of dumps, or of files that replace stages."""
    root = os.environ.get("TRITON_HOME") or os.path.expanduser("~")
    return os.path.join(root, ".triton", name)


def _folder_if(variable: str, name: str) -> Callable[[str], str]:
    """Return what reads a flag as the folder that another variable names."""

    def read(text: str) -> str:
        return (os.environ.get(variable) or triton_folder(name)) if triton_flag(text) else ""

    return read


def _all_passes(text: str) -> tuple[str, ...]:
    return () if text.lower() in OFF else ("all",)


def _only_kernel(text: str) -> str:
    return "" if text.lower() in OFF or triton_flag(text) else text


def _ptxas_options(text: str) -> str:
    """Return `PTXAS_OPTIONS` and, as Triton does, what `DISABLE_PTXAS_OPT` adds."""
    disabled = triton_flag(os.environ.get("DISABLE_PTXAS_OPT", ""))
    return " ".join(filter(None, [text, "--opt-level 0" if disabled else ""]))


VARIABLES: Mapping[str, tuple[TritonVariable, ...]] = {
    "cache": (TritonVariable("TRITON_ALWAYS_COMPILE", lambda text: not triton_flag(text)),),
    "cache_dir": (
        TritonVariable("TRITON_CACHE_DIR", str),
        TritonVariable("TRITON_HOME", lambda _: triton_folder("cache")),
    ),
    "libdevice": (TritonVariable("TRITON_LIBDEVICE_PATH", str),),
    "ptxas": (TritonVariable("TRITON_PTXAS_PATH", str),),
    "ptxas_options": (
        TritonVariable("PTXAS_OPTIONS", _ptxas_options),
        TritonVariable("DISABLE_PTXAS_OPT", lambda _: _ptxas_options("")),
    ),
    "print_ptxas": (TritonVariable("TRITON_DUMP_PTXAS_LOG", triton_flag),),
    "print_after": (TritonVariable("MLIR_ENABLE_DUMP", _all_passes),),
    "print_kernel": (TritonVariable("MLIR_ENABLE_DUMP", _only_kernel),),
    "print_file": (TritonVariable("MLIR_DUMP_PATH", str),),
    "print_llvm": (TritonVariable("LLVM_IR_ENABLE_DUMP", triton_flag),),
    "print_ptx": (TritonVariable("NVPTX_ENABLE_DUMP", triton_flag),),
    "dump_stages": (TritonVariable("TRITON_KERNEL_DUMP", _folder_if("TRITON_DUMP_DIR", "dump")),),
    "override_stages": (
        TritonVariable("TRITON_KERNEL_OVERRIDE", _folder_if("TRITON_OVERRIDE_DIR", "override")),
    ),
    "reproducer": (TritonVariable("TRITON_REPRODUCER_PATH", str),),
    "timings": (TritonVariable("MLIR_ENABLE_TIMING", triton_flag),),
    "full_traceback": (TritonVariable("TRITON_FRONT_END_DEBUGGING", triton_flag),),
    "print_autotuning": (TritonVariable("TRITON_PRINT_AUTOTUNING", triton_flag),),
    "cache_autotuning": (TritonVariable("TRITON_CACHE_AUTOTUNING", triton_flag),),
}
"""For attributes of `Config`, the variables that decide where none of `tile` does, in order."""
