"""Replace functions of PyTorch's compiler that ask for what only Triton has.

Dynamo and Inductor ask `identify_accessed_tensors` of a kernel that a program launches (PyTorch
2.11 `identify_mutated_tensors`), which reads the answer from Triton's IR in MLIR. `tile` has
another IR, so the function is replaced by one that asks the compiled kernel. Without it PyTorch
would warn, and take every tensor for written.

Inductor compiles kernels early, and their configurations at the same time (`early_compile.py`),
times those of a kernel alone (`kernel_timing.py`), and repeats launches without the work of a first
one (`repeated_launch.py`).

AOTInductor and `cpp_wrapper` put machine code of kernels for a CPU into a library; the interpreter
has none, and the error says so.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tile._import_hooks import followed_spec
from tile.compat.early_compile import HEURISTICS, EarlyCompile, compile_configurations
from tile.compat.kernel_timing import bench
from tile.compat.repeated_launch import forget, in_older_versions, launch
from tile.errors import TileError, UnsupportedError
from tile.runtime.arguments.adapt import MockArray
from tile.runtime.autotuning.autotuner import Autotuner
from tile.runtime.autotuning.configs import innermost

MODULE = "torch._higher_order_ops.triton_kernel_wrap"
GRAPH = "torch._inductor.graph"
CODEGEN = "torch._inductor.codegen.triton"
EXTENT = 16  # stands for an integer that is not known yet


def accessed_tensors(
    original: Callable[..., Any], kernel: Any, kwargs: Mapping[str, Any], descriptors: Any
) -> Any:
    """Return what PyTorch's function returns: dependences on the tensors read and written.

    original: that function, which answers for what `tile` cannot compile without a launch.
    descriptors: the arguments that are tensor descriptors.
    """
    answer = None if descriptors else _accesses(kernel, kwargs)
    if answer is None:
        return original(kernel, kwargs, descriptors)
    tensors, written = answer
    dependencies = importlib.import_module("torch._inductor.dependencies")
    ordered = importlib.import_module("torch.utils._ordered_set").OrderedSet
    accesses = dependencies.ReadWrites(
        reads=ordered(map(dependencies.StarDep, tensors)),
        writes=ordered(map(dependencies.StarDep, written)),
        index_exprs=ordered(),
    )
    made = getattr(sys.modules[MODULE], "TensorAccesses", None)
    return accesses if made is None else made(read_writes=accesses, can_fuse_epilogue=False)


def mutated_tensors(
    original: Callable[..., Any], kernel: Any, kwargs: Mapping[str, Any], descriptors: Any
) -> list[str]:
    """Return what the function of older versions returns: the names of the tensors written."""
    answer = None if descriptors else _accesses(kernel, kwargs)
    if answer is None:
        names: list[str] = original(kernel, kwargs, descriptors)
        return names
    return answer[1]


def wrapper_codegen(
    original: Callable[..., Any], device: str, cpp_wrapper: bool = False, *args: Any, **kwargs: Any
) -> Any:
    """Return what PyTorch's function does: the class that writes the calls of a graph's kernels.

    Refuse calls from C++ if the kernels are for a CPU.
    """
    config = importlib.import_module("torch._inductor.config")
    if not (cpp_wrapper and device == "cpu" and config.cpu_backend == "triton"):
        return original(device, cpp_wrapper, *args, **kwargs)
    raise UnsupportedError(
        "AOTInductor and cpp_wrapper call kernels from C++, as machine code, and tile runs kernels "
        "for a CPU on its interpreter, which makes none",
        notes=[
            "let TorchInductor write C++ for the CPU: tile.torch.inductor(cpu=False), or "
            'torch._inductor.config.cpu_backend = "cpp"; without AOTInductor, cpp_wrapper = False '
            "serves too"
        ],
    )


REPLACEMENTS: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    MODULE: {
        "identify_accessed_tensors": functools.partial(functools.partial, accessed_tensors),
        "identify_mutated_tensors": functools.partial(functools.partial, mutated_tensors),
    },
    GRAPH: {
        "get_wrapper_codegen_for_device": functools.partial(functools.partial, wrapper_codegen)
    },
    HEURISTICS: {
        "CachingAutotuner._precompile_worker": functools.partial(
            functools.partialmethod, compile_configurations
        ),
        "CachingAutotuner.bench": functools.partial(functools.partialmethod, bench),
        "CachingAutotuner.run": functools.partial(in_older_versions, launch),
        "CachingAutotuner.prepare_for_pickle": functools.partial(in_older_versions, forget),
    },
    CODEGEN: {"async_compile": EarlyCompile},
}
"""By module, the names that are replaced, where it has them, and what makes the replacements."""


def _accesses(kernel: Any, kwargs: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """Return the names of the tensors, and of those written; None without an answer."""
    named = dict(kwargs)
    if isinstance(kernel, Autotuner) and kernel.configs:
        named.update(kernel.configs[0].kwargs)
    tensors = [name for name, value in named.items() if _dtype(value) is not None]
    try:
        written = innermost(kernel).written_arguments(
            **{name: _placeholder(value) for name, value in named.items()}
        )
    except TileError:
        return None
    return tensors, [name for name in tensors if name in written]


def _dtype(value: Any) -> Any:
    """Return the element type of a tensor, or of Inductor's node of one; None for other values."""
    if hasattr(value, "get_dtype"):
        return value.get_dtype()
    return value.dtype if hasattr(value, "data_ptr") else None


def _placeholder(value: Any) -> Any:
    """Return a value that stands for an argument whose tensors and sizes do not exist yet."""
    dtype = _dtype(value)
    if dtype is not None:
        return MockArray(dtype)
    module = type(value).__module__.partition(".")[0]
    symbolic = module in ("torch", "sympy") and type(value).__name__ != "dtype"
    return EXTENT if symbolic else value


def spec_of(name: str, path: Any, target: ModuleType | None) -> ModuleSpec | None:
    """Return the spec with which PyTorch's module is imported and its function replaced."""
    return followed_spec(name, path, target, replace)


def replace(module: ModuleType | None) -> None:
    """Replace the names of PyTorch's module that it has; do nothing for None."""
    for owner, name, replacement in _replaced(module):
        original = vars(owner).get(name)
        if original is not None and original_of(original) is None:
            setattr(owner, name, replacement(original))


def restore(module: ModuleType | None) -> None:
    """Undo `replace`."""
    for owner, name, _ in _replaced(module):
        original = original_of(vars(owner).get(name))
        if original is not None:
            setattr(owner, name, original)


def original_of(replacement: Any) -> Any:
    """Return what something replaces, or None if it is no replacement."""
    if isinstance(replacement, functools.partial | functools.partialmethod):
        return replacement.args[0]
    return replacement.original if isinstance(replacement, EarlyCompile) else None


def _replaced(module: ModuleType | None) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """Yield the owners of names that are replaced, the names, and what makes the replacements."""
    if module is None:
        return
    for path, replacement in REPLACEMENTS[module.__name__].items():
        *classes, name = path.split(".")
        owner: Any = module
        for one in classes:
            owner = getattr(owner, one, None)
        if owner is not None:
            yield owner, name, replacement
