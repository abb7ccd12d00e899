"""What stands after the dot of a value in a kernel."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import descriptor as ops
from tile.ir.types import Descriptor
from tile.language import (
    atomics,
    combine,
    creation,
    descriptor,
    index,
    math,
    reductions,
    selection,
    shape,
    standard,
)
from tile.language.builtin import DESCRIPTOR_MEMBERS, MEMBERS, Bound, suggestion
from tile.language.tensor import Tensor

# The modules whose functions are methods of values, too: importing them fills the tables of those.
DECLARING = (
    atomics,
    combine,
    creation,
    descriptor,
    index,
    math,
    reductions,
    selection,
    shape,
    standard,
)

PROPERTIES = ("type", "dtype", "shape", "numel")


def tensor_attribute(build: Builder, tensor: Tensor, name: str) -> Any:
    """What `tensor.name` means in a kernel: a Python value, a `Bound` method or a `Tensor`.

    Raises `CompilationError`, with the names that are close, for one that a tensor does not have.
    """
    if isinstance(tensor.type, Descriptor):
        return _descriptor_attribute(build, tensor, tensor.type, name)
    if name in PROPERTIES:
        return getattr(tensor, name)
    if name == "T":
        return MEMBERS["trans"].emit(build, tensor)
    found = MEMBERS.get(name)
    if found is None:
        near = suggestion(name, [*PROPERTIES, "T", *MEMBERS])
        raise CompilationError(f"a value of type {tensor.type} has no attribute `{name}`{near}")
    return Bound(found, tensor)


DESCRIPTOR_PROPERTIES = ("type", "dtype", "shape", "strides", "block_shape", "block_type")


def _descriptor_attribute(build: Builder, tensor: Tensor, ty: Descriptor, name: str) -> Any:
    """What `desc.name` means: extents and strides are known when the kernel runs."""
    known = {"type": ty, "dtype": ty.of, "block_shape": ty.dims, "block_type": ty.box}
    if name in known:
        return known[name]
    parts = {"shape": ops.descriptor_extent, "strides": ops.descriptor_stride}
    if name in parts:
        axes = range(len(ty.dims))
        return tuple(Tensor(build(parts[name], tensor.value, axis=axis)) for axis in axes)
    found = DESCRIPTOR_MEMBERS.get(name)
    if found is None:
        near = suggestion(name, [*DESCRIPTOR_PROPERTIES, *DESCRIPTOR_MEMBERS])
        raise CompilationError(f"a descriptor of type {ty} has no attribute `{name}`{near}")
    return Bound(found, tensor)
