"""Why names of Triton are absent: by module, and by name."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path

_MLIR = "it works on Triton's IR in MLIR, and `tile` has an IR of its own (docs/ir.md)"
_GLUON = (
    "Gluon programs choose Triton's layouts themselves; `tile` chooses layouts, so it has no "
    "language for them"
)
_PROTON = "the profiler Proton is part of Triton; use the profiler of the device's vendor"

ABSENT_MODULES: Mapping[str, str] = {
    "triton.experimental": _GLUON,
    "triton.profiler": _PROTON,
    "triton._C": _MLIR,
    "triton._internal_testing": "Triton's own tests use it",
    "triton._filecheck": "Triton's own tests use it",
    "triton.compiler.code_generator": _MLIR,
    "triton.language.semantic": _MLIR,
    "triton.language.extra.hip": "`tile` has no backend for AMD's devices",
    "triton.backends.amd": "`tile` has no backend for AMD's devices",
    "triton.backends.nvidia": "the passes of Triton's backend are not those of `tile`",
    "triton.runtime.build": "`tile` has no launchers in C to build",
    "triton.tools.build_extern": "it generates Triton's own sources",
    "triton.tools.compile": "use `tile compile`, which writes kernels for programs without Python",
    "triton.tools.link": "use `tile link`, which writes one launcher for several kernels",
    "triton.tools.disasm": "use NVIDIA's cuobjdump on `kernel.asm['ptx']` assembled by ptxas",
    "triton.tools.gsan": "use `tile check`, which finds races without a GPU",
    "triton.tools.triton_to_gluon_translator": _GLUON,
}

_INTERNAL = "only Triton's own modules use it"

# For the names of a module without a reason of their own.
INTERNAL: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "triton._utils",
            "triton.compiler.compiler",
            "triton.knobs",
            "triton.runtime._allocation",
            "triton.runtime._async_compile",
            "triton.runtime.jit",
        ),
        _INTERNAL,
    ),
    "triton.runtime.interpreter": "the interpreter of `tile` has other parts",
}

_INTERNAL_OF_THE_LANGUAGE = """
    base_type base_value binary_op_type_legalization builtin_max
    builtin_min check_bit_width dispatch is_negative_zero slice_type
    tensor_descriptor_base tensor_descriptor_base_type tensor_descriptor_type tuple_type
"""

ABSENT_NAMES: Mapping[str, str] = {
    "triton.compiler.compiler.parse": _MLIR,
    "triton.compiler.compiler.filter_traceback": "tracebacks have no frames of `tile` anyway",
    "triton.compiler.compiler.CompileTimer": "`TILE_TIMINGS=1` prints the time of each pass",
    "triton.runtime.jit.DependenciesFinder": "`tile` finds captured variables in its own way",
    "triton.testing.cuda_memcheck": "use `tile check`, which finds faults without a GPU",
    "triton.testing.do_bench_proton": _PROTON,
    "triton.testing.do_bench_cudagraph_proton": _PROTON,
    "triton.testing.cublas": "it is a binding of Triton's C++ code to cuBLAS",
    "triton.runtime.RedisRemoteCacheBackend": "`tile` has no remote cache",
    "triton.runtime.cache.RedisRemoteCacheBackend": "`tile` has no remote cache",
    "triton.runtime.cache.RemoteCacheManager": "`tile` has no remote cache",
    **dict.fromkeys(
        [f"triton.language.core.{name}" for name in _INTERNAL_OF_THE_LANGUAGE.split()], _INTERNAL
    ),
    "triton.language.standard.sort_impl": _INTERNAL,
    "triton.tools.ragged_tma.to_ragged_indices": "the functions that access slices make "
    "descriptors, and need no indices of Triton's trick",
    "triton.tools.LinearLayout": "layouts of `tile` are its own (docs/layouts.md)",
}

DIFFERENT: Mapping[str, str] = {
    "jit": "a kernel is compiled again if a global that it reads changes, and Triton raises",
    "Autotuner": "arrays that the kernel writes are restored after each trial without "
    "`restore_value`; an exception of a hook is the cause of a `HookError`",
    "autotune": "arrays that the kernel writes are restored after each trial",
    "CompiledKernel": "launches are on the current stream; `asm` has the stages of `tile`, and "
    "`ttir`, `ttgir` and `llir` are its tile IR, thread IR and LLVM IR",
    "PTXASError": "it is an error of any backend",
    "CompilationError": "it is made of a text and a location, not of a node of the source",
    "OutOfResources": "it is made of a text too",
    "AutotunerError": "it is made of a text and a location",
    "JITFunction": "its options are keyword arguments",
    "FutureKernel": "`cleanup_compile` is its last parameter",
    **dict.fromkeys(("tensor", "tensor_descriptor"), "the compiler makes them, of its own values"),
    "tuple": "it is Python's",
    "KernelParam": "it is a record that kernels make",
    "pointer_type": "types do not tell that a pointer is only read through; the annotation "
    "`tl.const` of a parameter does",
    "TensorDescriptor": "`round_f32_to_tf32=True` raises: loads have no rounding; that of "
    'dots with `input_precision` "tf32" is to the nearest',
    "create_ragged_descriptor": "it returns a tuple, and each access makes a descriptor, which on "
    "a GPU reads and writes without TMA",
    "InterpreterError": "it is a fault of a run on any backend",
    "AsyncCompileMode": "`warmup` in it compiles at once; functions passed to `submit` do not",
    "IRSource": "it raises: `tile` compiles functions, not MLIR or PTX",
    "compile": "it takes functions, not files of MLIR or PTX",
    "make_backend": "the stages of compilation cannot be replaced",
    "must_use_result": "unused results are not reported",
    "set_allocator": "the allocator is never called: no kernel needs scratch memory",
    "do_bench_cudagraph": "launches are timed one by one if PyTorch uses no GPU",
    "cuda_graph_without_gc": "launches are timed one by one",
    "backends": "the names are `nvidia` and `cpu`",
    **dict.fromkeys(
        ("triton.knobs.nvidia", "triton.knobs.amd", "triton.knobs.proton", "triton.knobs.redis"),
        "the values are stored and decide nothing",
    ),
}

NAMES = Path(__file__).parent / "names.json"
"""The public names of Triton by module, each with the versions that have it."""


@functools.cache
def triton_names() -> Mapping[str, Mapping[str, str]]:
    """Return the versions, as text, by name, by module."""
    modules = json.loads(NAMES.read_text(encoding="utf-8"))
    return {
        module: {name: versions for versions, names in groups.items() for name in names.split()}
        for module, groups in modules.items()
    }


def absent_module(name: str) -> str:
    """Return why a module is absent, or an empty string if there is no reason."""
    while name:
        if name in ABSENT_MODULES:
            return ABSENT_MODULES[name]
        name = name.rpartition(".")[0]
    return ""


def absent_reason(module: str, name: str) -> str:
    """Return why a module does not have a name, or an empty string if Triton's has not either."""
    qualified = f"{module}.{name}"
    reason = ABSENT_NAMES.get(qualified) or ABSENT_MODULES.get(qualified) or ""
    if reason or name not in triton_names().get(module, {}):
        return reason
    return INTERNAL.get(module, "Triton has it, and this version of `tile` does not")


def absent_name(module: str, name: str, version: str) -> str:
    """Return the message for a name that a module does not have."""
    reason = absent_reason(module, name)
    said = f": {reason}" if reason else f"; it shows what `tile` has of Triton {version}"
    return f"module {module!r} has no attribute {name!r}{said}"
