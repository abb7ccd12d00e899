"""The modules that `import triton` gives: for each, where its names come from.

A name is that of the same name in a module of `tile`, or of another: `"tile.errors:TileError"`.
After its own names, a view has the public names of the modules that it `shows`, so that it follows
`tile.language` as that grows. Submodules are names of their parents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class View:
    """A module: its summary, its own names with their sources, and the modules that it shows."""

    summary: str
    names: Mapping[str, str] = field(default_factory=dict)
    shows: tuple[str, ...] = ()
    package: bool = False


def _of(module: str, names: str) -> dict[str, str]:
    """Return a table of names that come from one module."""
    return dict.fromkeys(names.split(), module)


_ERRORS = {
    "TritonError": "tile.errors:TileError",
    "CompilationError": "tile.errors",
    "CompileTimeAssertionFailure": "tile.errors:StaticAssertionError",
    "UnsupportedLanguageConstruct": "tile.errors:UnsupportedSyntaxError",
    "InterpreterError": "tile.errors:ExecutionError",
    "OutOfResources": "tile.errors:OutOfResourcesError",
    "PTXASError": "tile.errors:BackendError",
    "AutotunerError": "tile.errors",
}


def _errors(names: str) -> dict[str, str]:
    return {name: _ERRORS[name] for name in names.split()}


_TUNING = {
    **_of("tile.compat.jit", "autotune heuristics Config"),
    **_of("tile", "Autotuner Heuristics"),
}
_TENSORS = _of("tile.compat.tensors", "TensorWrapper reinterpret") | {
    "MockTensor": "tile:MockArray"
}
_JIT = {
    **_of("tile", "JITFunction constexpr_function"),
    **_of("tile.compat.jit", "jit"),
    **_of("tile.runtime.interface", "KernelInterface"),
}
_ALLOCATION = _of("tile.compat.allocation", "set_allocator")
_ASYNC = _of("tile.compat.async_compile", "AsyncCompileMode FutureKernel")
_COMPILER = {
    **_of("tile.compat.compiler", "ASTSource IRSource compile make_backend get_cache_key"),
    **_of("tile.compat.compiler", "max_shared_mem"),
    **_of("tile.runtime.kernel_metadata", "LazyDict"),
    "CompiledKernel": "tile",
}
_CACHE = "CacheManager FileCacheManager RemoteCacheBackend get_cache_manager"
_CACHE_NAMES = _of(
    "tile.compat.cache",
    f"{_CACHE} get_dump_manager get_override_manager make_so_cache_key triton_key _base32",
)
_LIBDEVICE = View(
    "The functions of libdevice.",
    shows=("tile.language.extra.libdevice", "tile.language.math"),
)

MODULES: Mapping[str, View] = {
    "triton": View(
        "The compiler, under the name of Triton.",
        {
            **_of("tile", "cdiv next_power_of_2"),
            **_TENSORS,
            **_JIT,
            **_TUNING,
            **_ALLOCATION,
            **_ASYNC,
            **_errors("CompilationError InterpreterError OutOfResources TritonError"),
            **_of("tile.compat.compiler", "compile"),
            **_of("tile.compat.language", "must_use_result"),
            **_of("tile", "aggregate"),
        },
        package=True,
    ),
    "triton.errors": View("The base of all errors.", _errors("TritonError")),
    "triton._utils": View(
        "Helpers of nested tuples and types.",
        shows=("tile.compat.nested",),
    ),
    # -- the runtime
    "triton.runtime": View(
        "Kernels, autotuning and the driver.",
        {
            **_TUNING,
            **_TENSORS,
            **{name: source for name, source in _JIT.items() if name[0] in "JK"},
            **_errors("InterpreterError OutOfResources"),
            **_of("tile.compat.driver", "driver"),
            **_of("tile.compat.cache", "RemoteCacheBackend"),
        },
        package=True,
    ),
    "triton.runtime.jit": View(
        "Kernels.",
        {
            **_JIT,
            **_TENSORS,
            **_of("tile.runtime.function_description", "KernelParam"),
            **_of("tile.compat.hooks", "JitFunctionInfo"),
            **_of("tile.compat.jit", "get_full_name mangle_type"),
            "JITCallable": "tile.frontend.python.source:DeviceFunction",
            "ConstexprFunction": "tile.frontend.python.constexpr_function:StaticFunction",
        },
    ),
    "triton.runtime.autotuner": View(
        "Autotuning.",
        {
            **_TUNING,
            **_errors("OutOfResources PTXASError AutotunerError"),
            **_of("tile.runtime.interface", "KernelInterface"),
            "JITFunction": "tile",
        },
    ),
    "triton.runtime.driver": View(
        "The driver of the devices.", _of("tile.compat.driver", "driver DriverConfig")
    ),
    "triton.runtime.cache": View(
        "Folders of files by key.",
        {**_CACHE_NAMES, **_of("tile.compat.compiler", "get_cache_key")},
    ),
    "triton.runtime.errors": View(
        "Errors of launches.",
        _errors("TritonError InterpreterError OutOfResources PTXASError AutotunerError"),
    ),
    "triton.runtime.interpreter": View(
        "The interpreter.", _of("tile.compat.jit", "InterpretedFunction")
    ),
    "triton.runtime._allocation": View(
        "Allocators of scratch memory.",
        _of("tile.compat.allocation", "Allocator Buffer NullAllocator set_allocator"),
    ),
    "triton.runtime._async_compile": View("Compilation by an executor.", _ASYNC),
    # -- the compiler
    "triton.compiler": View(
        "Compilation ahead of time.", {**_COMPILER, **_errors("CompilationError")}, package=True
    ),
    "triton.compiler.compiler": View(
        "Compilation ahead of time.",
        {
            **_COMPILER,
            **_of("tile.compat.cache", "triton_key get_cache_manager"),
            **_of("tile.compat.driver", "GPUTarget driver"),
            "AsmDict": "tile.runtime.kernel_metadata:Stages",
        },
    ),
    "triton.compiler.errors": View(
        "Errors of compilations.",
        _errors("CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct"),
    ),
    # -- backends
    "triton.backends": View(
        "The backends of the devices.",
        _of("tile.compat.driver", "Backend BaseBackend DriverBase backends"),
        package=True,
    ),
    "triton.backends.compiler": View(
        "What a backend compiles for.", _of("tile.compat.driver", "BaseBackend GPUTarget Language")
    ),
    "triton.backends.driver": View(
        "What a driver provides.", _of("tile.compat.driver", "Benchmarker DriverBase GPUDriver")
    ),
    # -- settings, benchmarks and tools
    "triton.knobs": View(
        "Settings.",
        {
            **_of("tile.runtime.callbacks", "HookChain"),
            **_of("tile.compat.hooks", "CompileTimes"),
        },
        shows=("tile.compat.knobs",),
    ),
    "triton.testing": View(
        "Benchmarks and comparisons.",
        {
            **_of("tile.testing", "Benchmark Mark assert_close do_bench perf_report"),
            **_of("tile.compat.testing", "do_bench_cudagraph get_dram_gbps nvsmi set_gpu_clock"),
            **_of("tile.compat.testing", "get_max_simd_tflops get_max_tensorcore_tflops"),
            **_of("tile.compat.testing", "cuda_graph_without_gc"),
        },
    ),
    "triton.tools": View("Tools.", package=True),
    "triton.tools.tensor_descriptor": View(
        "Descriptors of arrays, made by the host.", _of("tile", "TensorDescriptor")
    ),
    "triton.tools.mxfp": View(
        "Elements and scales of microscaling formats.", shows=("tile.compat.mxfp",)
    ),
    "triton.tools.ragged_tma": View(
        "Slices of unequal sizes along an axis.", shows=("tile.compat.ragged_tma",)
    ),
    # -- the language
    "triton.language": View(
        "The language of kernels.",
        _of("tile.language.base.tensor", "tensor") | _of("tile", "aggregate_replace"),
        shows=("tile.language", "tile.compat.language"),
        package=True,
    ),
    "triton.language.core": View(
        "The language of kernels.",
        {
            **_of("tile", "aggregate_replace"),
            **_of("tile.compat.language", "builtin"),
            "_aggregate": "tile:aggregate",
            "extern": "tile.compat.language:builtin",
            "item": "tile.language.reductions:item_",
        },
        shows=("tile.language.core", "tile.compat.language"),
    ),
    "triton.language.standard": View(
        "Functions of the language that are made of others.",
        _of("tile.compat.language", "_log2"),
        shows=("tile.language.standard",),
    ),
    "triton.language.math": View("Mathematical functions.", shows=("tile.language.math",)),
    "triton.language.random": View(
        "Random numbers.",
        _of("tile.compat.language", "N_ROUNDS_DEFAULT"),
        shows=("tile.language.random",),
    ),
    "triton.language.target_info": View(
        "The target, at compile time.",
        _of(
            "tile.compat.target_info",
            "current_target is_cuda cuda_capability_geq is_hip is_hip_cdna3 is_hip_cdna4 "
            "is_hip_gfx1250",
        ),
    ),
    "triton.language.extra": View(
        "Functions that not all devices have.", shows=("tile.language.extra",), package=True
    ),
    "triton.language.extra.libdevice": _LIBDEVICE,
    "triton.language.extra.cuda": View(
        "Functions of NVIDIA's devices.", shows=("tile.language.extra.cuda",), package=True
    ),
    "triton.language.extra.cuda.libdevice": _LIBDEVICE,
}
