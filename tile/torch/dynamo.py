"""Let TorchDynamo trace launches of kernels.

`register` runs when TorchDynamo is imported. It adds the classes of variables for kernels to its
table by type, so launches outside of compiled functions pay nothing.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch._dynamo import trace_rules, variables
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import AttrSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.functions import TritonKernelVariable

import tile
from tile.compat import installed
from tile.frontend.python.constexpr_function import StaticFunction
from tile.runtime import grid
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.autotuning.autotuner import Autotuner
from tile.runtime.autotuning.heuristics import Heuristics
from tile.runtime.jit import JITFunction
from tile.torch import traced_functions
from tile.torch.traced_descriptors import DescriptorClassVariable
from tile.torch.traced_kernels import KernelVariable
from tile.tracebacks import GENERATED

TRACED = (grid, traced_functions)
"""The modules whose functions compiled functions call."""


def register() -> None:
    """Let TorchDynamo trace launches of `tile`'s kernels, and skip the functions of `tile`."""
    for trace_numpy in (True, False):  # PyTorch has a table for each value of this setting
        VariableBuilder._type_dispatch_impl(trace_numpy).update(WRAPPERS)
    VariableBuilder._id_dispatch()[id(TensorDescriptor)] = _wrap_descriptor_class
    # A launch that is left out of the graph runs these functions, which must not be traced.
    trace_rules.SKIP_DIRS += [GENERATED, *skipped(tile)]
    trace_rules.add("tile.torch.dynamo")  # takes the others into account


def skipped(package: ModuleType) -> list[str]:
    """Return the paths of the modules and packages that contain none of `TRACED`."""
    paths = []
    for finder, name, is_package in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        path = os.path.join(getattr(finder, "path", ""), name.rpartition(".")[2])
        if not any(f"{one.__name__}.".startswith(f"{name}.") for one in TRACED):
            paths.append(f"{path}{os.sep}" if is_package else f"{path}.py")
        elif is_package:
            paths += skipped(sys.modules[name])
    return paths


def _wrap_kernel(builder: Any, kernel: Any) -> VariableTracker:
    builder.install_guards(GuardBuilder.ID_MATCH)
    if installed() is not None and not isinstance(kernel, Heuristics):
        # As Triton's kernel it becomes part of the code that TorchInductor generates.
        return TritonKernelVariable(kernel, None, None, source=builder.source)
    return KernelVariable(kernel, source=builder.source)


def _wrap_static_function(builder: Any, function: Any) -> VariableTracker:
    builder.install_guards(GuardBuilder.ID_MATCH)
    source = builder.source and AttrSource(builder.source, "fn")
    return variables.UserFunctionVariable(function.fn, source=source)


def _wrap_descriptor_class(builder: Any, kind: Any) -> VariableTracker:
    return DescriptorClassVariable(source=builder.source)


WRAPPERS: dict[object, Callable[..., Any]] = {
    JITFunction: _wrap_kernel,
    Autotuner: _wrap_kernel,
    Heuristics: _wrap_kernel,
    StaticFunction: _wrap_static_function,
}
