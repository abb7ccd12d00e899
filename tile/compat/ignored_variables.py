"""Variables of Triton that ask for what `tile` does in another way, or does not have."""

from __future__ import annotations

from tile.config import read_environment
from tile.tracebacks import warn

_DUMPS = "TILE_DUMP=folder writes the IR after every pass, and the PTX"
_TIMES = "TILE_TIMINGS=1 prints the time of each pass"
_ONE_CACHE = "the cache is files in a folder, TRITON_CACHE_DIR"
_CHECKS = "TILE_SANITIZE and `tile check` find faults of kernels without a GPU"
_PTXAS = "ptxas runs with the options of `tile`"

IGNORED = {
    "TRITON_KERNEL_DUMP": _DUMPS,
    "MLIR_ENABLE_DUMP": _DUMPS,
    "LLVM_IR_ENABLE_DUMP": _DUMPS,
    "NVPTX_ENABLE_DUMP": _DUMPS,
    "TRITON_KERNEL_OVERRIDE": "the stages of compilation cannot be replaced",
    "TRITON_REPRODUCER_PATH": "a pass that fails under TILE_DUMP writes a reproducer",
    "MLIR_ENABLE_TIMING": _TIMES,
    "LLVM_ENABLE_TIMING": _TIMES,
    "TRITON_CACHE_MANAGER": _ONE_CACHE,
    "TRITON_REMOTE_CACHE_BACKEND": _ONE_CACHE,
    "TRITON_ENABLE_ASAN": _CHECKS,
    "TRITON_INSTRUMENTATION_MODE": _CHECKS,
    "TRITON_OVERRIDE_ARCH": "kernels are compiled for the GPU that their arguments are on",
    "DISABLE_LLVM_OPT": "LLVM's passes always run",
    "DISABLE_PTXAS_OPT": _PTXAS,
    "PTXAS_OPTIONS": _PTXAS,
    "TRITON_DUMP_PTXAS_LOG": _PTXAS,
}
"""By name, the reason why a variable has no effect, or what has the effect."""

OFF = ("", "0", "false", "off", "no")


def warn_of_ignored() -> None:
    """Warn of each variable that is set and has no effect."""
    for name, reason in IGNORED.items():
        if (read_environment(name) or "").lower() not in OFF:
            warn(f"{name} has no effect where tile is Triton: {reason}")
