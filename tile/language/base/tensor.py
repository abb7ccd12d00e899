"""`Tensor`, a runtime value in a kernel: a scalar or tile.

`BlockPointer` is a block of an array. `DescriptorParts` are the fields of a tensor descriptor that
was made on the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tile.errors import CompilationError
from tile.ir.types import Pointer, Scalar, Tile, Type

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


@dataclass(frozen=True)
class BlockPointerType:
    """The type of a block pointer, `p.type`: `element_ty` is the type of the block it points to."""

    element_ty: Tile

    @property
    def scalar(self) -> Pointer:
        """The type of a pointer to one element."""
        return Pointer(self.element_ty.of)

    def is_ptr(self) -> bool:
        return True

    def is_block(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"block pointer to {self.element_ty}"


class BlockPointer(NamedTuple):
    """A block of an array, as `tl.make_block_ptr` makes it: a value of several runtime values.

    `base` is a pointer; `shape` and `offsets` are scalars of i32, `strides` of i64, in elements.
    """

    base: Tensor
    shape: tuple[Tensor, ...]
    strides: tuple[Tensor, ...]
    offsets: tuple[Tensor, ...]
    type: BlockPointerType

    @property
    def dtype(self) -> Pointer:
        """The type of a pointer to one element."""
        return self.type.scalar

    def __repr__(self) -> str:
        return f"a {self.type}"


@dataclass(frozen=True)
class Im2colWindow:
    """The compile-time values of an im2col descriptor.

    block: pixels and channels that a load reads. lower, upper: the corners of the pixels of an
    image, along its spatial axes, from the first and the last index. steps: between pixels.
    """

    block: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    element: Scalar

    def __str__(self) -> str:
        return f"im2col descriptor of {'x'.join(map(str, self.block))}x{self.element}"


class Im2colDescriptor(NamedTuple):
    """Images and a window, as `tl.make_im2col_descriptor` makes it: several runtime values.

    `base` is a pointer; `shape` are scalars of i32, `strides` of i64 without the last, which is 1.
    """

    base: Tensor
    shape: tuple[Tensor, ...]
    strides: tuple[Tensor, ...]
    window: Im2colWindow

    def __repr__(self) -> str:
        return f"an {self.window}"


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
