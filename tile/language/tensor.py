"""A value in a kernel as the language sees it: a scalar or tile, there when the kernel runs."""

from __future__ import annotations

import math
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.ops import descriptor
from tile.ir.types import Descriptor, Pointer, Scalar, Type
from tile.language.builtin import DESCRIPTOR_MEMBERS, MEMBERS, Bound, suggestion


class Tensor:
    """A handle on an IR value of a scalar, pointer, tile or descriptor type.

    A scalar has shape `()`. The value itself exists when the kernel runs; its type is known before.
    """

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def type(self) -> Type:
        """The IR type: `tl.float32`, `tl.pointer_type(...)` or a tile of them."""
        return self.value.type

    @property
    def dtype(self) -> Scalar | Pointer:
        """The type of one element."""
        return self.value.type.element

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.type.shape

    @property
    def numel(self) -> int:
        """How many elements it has; 1 for a scalar."""
        return math.prod(self.shape)

    def __bool__(self) -> bool:
        raise CompilationError(
            f"a value of type {self.type} is known only when the kernel runs; here one is "
            "needed that "
            f"is known when it is compiled"
        )

    def __repr__(self) -> str:
        return f"<value of type {self.type}>"


tensor = tensor_descriptor = Tensor  # as annotations spell it

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
    parts = {"shape": descriptor.descriptor_extent, "strides": descriptor.descriptor_stride}
    if name in parts:
        axes = range(len(ty.dims))
        return tuple(Tensor(build(parts[name], tensor.value, axis=axis)) for axis in axes)
    found = DESCRIPTOR_MEMBERS.get(name)
    if found is None:
        near = suggestion(name, [*DESCRIPTOR_PROPERTIES, *DESCRIPTOR_MEMBERS])
        raise CompilationError(f"a descriptor of type {ty} has no attribute `{name}`{near}")
    return Bound(found, tensor)
