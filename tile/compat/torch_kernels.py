"""Tell PyTorch's compiler which tensors a kernel writes.

Dynamo and Inductor ask `identify_accessed_tensors` of a kernel that a program launches, which reads
the answer from Triton's IR in MLIR. `tile` has another IR, so the function is replaced by one that
asks the compiled kernel. Without it PyTorch would warn, and take every tensor for written.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tile._import_hooks import followed_spec
from tile.errors import TileError
from tile.runtime.arguments.adapt import MockArray
from tile.runtime.autotuning.autotuner import Autotuner
from tile.runtime.autotuning.configs import innermost

MODULE = "torch._higher_order_ops.triton_kernel_wrap"
FUNCTION = "identify_accessed_tensors"
EXTENT = 16  # stands for an integer that is not known yet


def accessed_tensors(
    original: Callable[..., Any], kernel: Any, kwargs: Mapping[str, Any], descriptors: Any
) -> Any:
    """Return what PyTorch's function returns: dependences on the tensors read and written.

    original: that function, which answers for what `tile` cannot compile without a launch.
    descriptors: the arguments that are tensor descriptors.
    """
    named = dict(kwargs)
    if isinstance(kernel, Autotuner) and kernel.configs:
        named.update(kernel.configs[0].kwargs)
    if descriptors:
        return original(kernel, kwargs, descriptors)
    tensors = [name for name, value in named.items() if _dtype(value) is not None]
    try:
        written = innermost(kernel).written_arguments(
            **{name: _placeholder(value) for name, value in named.items()}
        )
    except TileError:
        return original(kernel, kwargs, descriptors)
    dependencies = importlib.import_module("torch._inductor.dependencies")
    ordered = importlib.import_module("torch.utils._ordered_set").OrderedSet
    accesses = dependencies.ReadWrites(
        reads=ordered(map(dependencies.StarDep, tensors)),
        writes=ordered(dependencies.StarDep(name) for name in tensors if name in written),
        index_exprs=ordered(),
    )
    made = getattr(sys.modules[MODULE], "TensorAccesses", None)
    return accesses if made is None else made(read_writes=accesses, can_fuse_epilogue=False)


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
    """Replace the function of PyTorch's module, if it has it; do nothing for None."""
    original = getattr(module, FUNCTION, None)
    if original is not None and not isinstance(original, functools.partial):
        setattr(module, FUNCTION, functools.partial(accessed_tensors, original))


def restore(module: ModuleType | None) -> None:
    """Undo `replace`."""
    replaced = getattr(module, FUNCTION, None)
    if isinstance(replaced, functools.partial):
        setattr(module, FUNCTION, replaced.args[0])
