"""A value in a kernel as the language sees it: a scalar or tile, there when the kernel runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tile.errors import CompilationError
from tile.ir.types import Pointer, Scalar, Type

if TYPE_CHECKING:  # what a process that finds its kernels on disk does not import
    from tile.ir.core import Value


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


# As annotations spell it.
tensor = Tensor
tensor_descriptor = Tensor
