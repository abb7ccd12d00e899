"""`Tensor`, a runtime value in a kernel: a scalar or tile.

`DescriptorParts` are the fields of a tensor descriptor that was made on the host.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from tile.errors import CompilationError
from tile.ir.types import Pointer, Scalar, Type

if TYPE_CHECKING:
    from tile.ir.core import Value


class Tensor:
    """A handle on an IR value of a scalar, pointer, tile or descriptor type.

    A scalar has shape `()`. The value exists at run time, its type at compile time.
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
        """The number of elements; 1 for a scalar."""
        return math.prod(self.shape)

    def __bool__(self) -> bool:
        raise CompilationError(
            f"a value of type {self.type} is known only when the kernel runs; this needs a value "
            "that is known when it is compiled"
        )

    def __repr__(self) -> str:
        return f"<value of type {self.type}>"


# The names for annotations.
tensor = Tensor
tensor_descriptor = Tensor


class DescriptorParts(NamedTuple):
    """A descriptor that was made on the host, as an argument of a kernel.

    `base` is a pointer; extents and strides are integers, in elements. The last stride is 1. It,
    the block's shape and the padding ("zero" or "nan") are compile-time values.
    """

    base: Any
    shape: Any
    strides: Any
    block_shape: Any
    padding: Any
