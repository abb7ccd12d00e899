"""The position of a program in its grid."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import program as ops
from tile.language.builtin import builtin
from tile.language.known import (
    compile_time_int,
)
from tile.language.tensor import Tensor


@builtin
def program_id(build: Builder, axis: Any) -> Tensor:
    """The index of this program along `axis` (0, 1 or 2) of the grid: a scalar `tl.int32`."""
    return Tensor(build(ops.program_id, axis=_axis(axis, "tl.program_id")))


@builtin
def num_programs(build: Builder, axis: Any) -> Tensor:
    """The extent of the grid along `axis` (0, 1 or 2): a scalar `tl.int32`."""
    return Tensor(build(ops.num_programs, axis=_axis(axis, "tl.num_programs")))


def _axis(axis: Any, name: str) -> int:
    number = compile_time_int(axis, f"the axis of {name}")
    if not 0 <= number < ops.MAX_AXES:
        raise CompilationError(f"the axis of {name} is 0, 1 or 2, not {number}")
    return number
