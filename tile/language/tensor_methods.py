"""Attributes and methods of values in a kernel: `x.name`."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.descriptor_type import Descriptor
from tile.ir.ops import descriptor as ops
from tile.language import (
    block_pointer,
    composed,
    creation,
    descriptor,
    im2col,
    indexing,
    math,
    memory,
    reductions,
    selection,
    shape,
)
from tile.language.base.builtin import DESCRIPTOR_MEMBERS, MEMBERS, Bound, suggestion
from tile.language.base.tensor import BlockPointer, Im2colDescriptor, Tensor
from tile.language.replacements import METHODS

# The modules whose functions are also methods of values: importing them fills the method tables.
DECLARING = (
    block_pointer,
    composed,
    creation,
    descriptor,
    indexing,
    math,
    memory,
    reductions,
    selection,
    shape,
)

PROPERTIES = ("type", "dtype", "shape", "numel")


BLOCK_POINTER_MEMBERS = ("advance", "store")


def tensor_attribute(
    build: Builder, tensor: Tensor | BlockPointer | Im2colDescriptor, name: str
) -> Any:
    """Return `tensor.name` in a kernel: a Python value, a `Bound` method or a `Tensor`.

    Raises `CompilationError`, suggesting similar names, if there is no such attribute.
    """
    if isinstance(tensor, BlockPointer):
        return _block_pointer_attribute(tensor, name)
    if isinstance(tensor, Im2colDescriptor):
        return _im2col_attribute(tensor, name)
    if isinstance(tensor.type, Descriptor):
        return _descriptor_attribute(build, tensor, tensor.type, name)
    if name in PROPERTIES:
        return getattr(tensor, name)
    if name == "T":
        return MEMBERS["trans"].emit(build, tensor)
    member = MEMBERS.get(name)
    if member is None:
        near = (
            f"; write {METHODS[name]}"
            if name in METHODS
            else suggestion(name, [*PROPERTIES, "T", *MEMBERS])
        )
        raise CompilationError(f"a value of type {tensor.type} has no attribute `{name}`{near}")
    return Bound(member, tensor)


def _block_pointer_attribute(pointer: BlockPointer, name: str) -> Any:
    """Return `pointer.name` of a block pointer."""
    if name in ("type", "dtype"):
        return getattr(pointer, name)
    if name not in BLOCK_POINTER_MEMBERS:
        near = suggestion(name, ["type", "dtype", *BLOCK_POINTER_MEMBERS])
        raise CompilationError(f"a {pointer.type} has no attribute `{name}`{near}")
    return Bound(MEMBERS[name], pointer)


def _im2col_attribute(desc: Im2colDescriptor, name: str) -> Any:
    """Return `desc.name` of an im2col descriptor."""
    properties = {"dtype": desc.window.element, "block_shape": desc.window.block}
    if name in properties:
        return properties[name]
    if name != "load":
        near = suggestion(name, [*properties, "load"])
        raise CompilationError(f"an {desc.window} has no attribute `{name}`{near}")
    return Bound(im2col.load_im2col, desc)


DESCRIPTOR_PROPERTIES = ("type", "dtype", "shape", "strides", "block_shape", "block_type")


def _descriptor_attribute(build: Builder, tensor: Tensor, ty: Descriptor, name: str) -> Any:
    """Return `desc.name` of a descriptor; its shape and strides are runtime values."""
    properties = {"type": ty, "dtype": ty.of, "block_shape": ty.dims, "block_type": ty.block_type}
    if name in properties:
        return properties[name]
    parts = {"shape": ops.descriptor_shape, "strides": ops.descriptor_stride}
    if name in parts:
        axes = range(len(ty.dims))
        return tuple(Tensor(build(parts[name], tensor.value, axis=axis)) for axis in axes)
    member = DESCRIPTOR_MEMBERS.get(name)
    if member is None:
        near = suggestion(name, [*DESCRIPTOR_PROPERTIES, *DESCRIPTOR_MEMBERS])
        raise CompilationError(f"a descriptor of type {ty} has no attribute `{name}`{near}")
    return Bound(member, tensor)
