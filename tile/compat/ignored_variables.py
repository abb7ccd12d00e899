"""Variables of Triton that ask for what `tile` does in another way, or does not have."""

from __future__ import annotations

from tile.config import read_environment
from tile.tracebacks import warn
from tile.triton_variables import OFF

_ONE_CACHE = "the cache is files in a folder, TRITON_CACHE_DIR"
_CHECKS = "TILE_SANITIZE and `tile check` find faults of kernels without a GPU"
_LLVM = "MLIR_ENABLE_DUMP and LLVM_IR_ENABLE_DUMP print the IR; LLVM itself says nothing"
_LLVM_PASSES = (
    "LLVM gets optimized code, of which it inlines only the functions of libdevice; the passes of "
    "tile are those that optimize"
)
_TARGET = "the architecture decides which instructions of matrices kernels take"
_PLUGINS = "the passes of plugins work on Triton's IR in MLIR"
_PARTITIONS = "MLIR_ENABLE_DUMP prints the IR after the pass that gives warps their parts"
_MIR = "LLVM's machine code is neither written nor read; NVPTX_ENABLE_DUMP prints the PTX"

IGNORED = {
    "LLVM_ENABLE_TIMING": "MLIR_ENABLE_TIMING prints the time of each pass; LLVM's are not timed",
    "LLVM_PASS_PLUGIN_PATH": _LLVM_PASSES,
    "DISABLE_LLVM_OPT": _LLVM_PASSES,
    "TRITON_ENABLE_LLVM_DEBUG": _LLVM,
    "TRITON_LLVM_DEBUG_ONLY": _LLVM,
    "MLIR_ENABLE_DIAGNOSTICS": "errors have their place in the source and a note in any case",
    "TRITON_ENABLE_PYTHON_STACKTRACE": "PYTHONFAULTHANDLER=1 prints the stack at a crash",
    "TRITON_CACHE_MANAGER": _ONE_CACHE,
    "TRITON_REMOTE_CACHE_BACKEND": _ONE_CACHE,
    "TRITON_STORE_BINARY_ONLY": "the cache has all stages; TILE_CACHE_LIMIT limits its size",
    "TRITON_ENABLE_ASAN": _CHECKS,
    "TRITON_ENABLE_EXPERIMENTAL_CONSAN": _CHECKS,
    "TRITON_CONSAN_INIT_ALLOCATIONS": _CHECKS,
    "TRITON_FPSAN_HOMOMORPHIC_CASTS": _CHECKS,
    "TRITON_INSTRUMENTATION_MODE": _CHECKS,
    "TRITON_OVERRIDE_ARCH": "kernels are compiled for the GPU that their arguments are on",
    "TRITON_MOCK_PTX_VERSION": "the architecture decides the version of the PTX",
    "TRITON_DISABLE_LINE_INFO": "code has line numbers, which change no instruction",
    "USE_IR_LOC": "line numbers are those of the Python source",
    "LLVM_EXTRACT_DI_LOCAL_VARIABLES": "`tile debug` shows the variables of kernels",
    "DISABLE_MMA_V3": _TARGET,
    "DISABLE_MMA_V5": _TARGET,
    "ALLOW_LHS_TMEM_LAYOUT_CONVERSION": _TARGET,
    "TRITON_PREFER_TMEM_16x256_LAYOUT": _TARGET,
    "TRITON_PLUGIN_PATHS": _PLUGINS,
    "TRITON_PLUGIN_VERSION_CHECK": _PLUGINS,
    "TRITON_PARTITION_SCHEDULING_DUMP_DATA_ONLY": _PARTITIONS,
    "TRITON_PARTITION_SCHEDULING_DUMP_LOOP_ONLY": _PARTITIONS,
    "TRITON_PARTITION_SCHEDULING_ENABLE_DUMP_DOT": _PARTITIONS,
    "TRITON_DUMP_MIR": _MIR,
    "TRITON_SWAP_MIR": _MIR,
    "TRITON_SWAP_MIR_ENABLE_MISCHED": _MIR,
}
"""By name, the reason why a variable has no effect, or what has the effect."""

NEEDLESS = {
    "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS": "kernels may read globals in any case",
    "MLIR_DISABLE_MULTITHREADING": "passes run in one thread",
    "TRITON_PTXAS_BLACKWELL_PATH": "one ptxas, TRITON_PTXAS_PATH, assembles for all architectures",
    "TRITON_LIBCUDA_PATH": "the system's loader finds the driver; no launcher is linked to it",
    "TRITON_CUOBJDUMP_PATH": "no tool is called to disassemble",
    "TRITON_NVDISASM_PATH": "no tool is called to disassemble",
    "CC": "no launcher is compiled",
    "TRITON_CUDACRT_PATH": "no launcher is compiled",
    "TRITON_CUDART_PATH": "no launcher is compiled",
    "TRITON_SANITIZE_OVERFLOW": "the check overflow of TILE_SANITIZE finds integers that wrap",
    "TRITON_REDIS_HOST": "there is no remote cache",
    "TRITON_REDIS_KEY_FORMAT": "there is no remote cache",
    "TRITON_REDIS_PORT": "there is no remote cache",
}
"""By name, why a variable that has no effect asks for nothing, so that no warning is due."""

ELSEWHERE = (
    *("AMDGCN_", "TRITON_AMD_", "TRITON_HIP_", "TRITON_HSA_", "TRITON_LIBHIP_"),
    *("TRITON_ROCPROFILER_", "TRITON_ROCTRACER_", "TRITON_ROCTX_"),
)
"""How the names of variables of AMD's backend begin, which `tile` does not have."""

PROFILER = (
    "TRITON_CUPTI_LIB_BLACKWELL_PATH",
    "TRITON_CUPTI_LIB_PATH",
    "TRITON_ENABLE_HW_TRACE",
    "TRITON_ENABLE_NVTX",
    "TRITON_PROFILE_BUFFER_SIZE",
    "TRITON_PROFILE_METRIC_BUFFER_SIZE",
    "TRITON_PROTON_DISABLE",
)
"""Variables of the profiler Proton, which is part of Triton."""


def warn_of_ignored() -> None:
    """Warn of each variable that is set and has no effect."""
    for name, reason in IGNORED.items():
        if (read_environment(name) or "").lower() not in OFF:
            warn(f"{name} has no effect where tile is Triton: {reason}")
