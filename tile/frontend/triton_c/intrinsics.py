"""The functions that every Triton-C program can call, by their names in C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.language import debug, linalg, math, memory, program, python_builtins, reductions, shape
from tile.language.base.builtin import Builtin
from tile.language.base.promotion import describe
from tile.language.base.tensor import Tensor


@dataclass(frozen=True)
class Intrinsic:
    """A function of Triton-C. `masked` ones take a predicate as their `mask`."""

    emit: Callable[..., Any]
    masked: bool = False


def _dot(build: Builder, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """`dot(a, b)` and `dot(a, b, c)`: `a * b`, and added to `c`, in the precision of `float`."""
    product: Tensor = linalg.dot.emit(build, a, b, acc=c, input_precision="ieee")
    return product


def _trans(build: Builder, x: Any, *axes: int) -> Tensor:
    """`trans(x)` exchanges the last two axes, `trans(x, d)` axis d and the last; else permutes."""
    rank = len(x.shape) if isinstance(x, Tensor) else 0
    if len(axes) == rank and rank > 1:
        order = list(axes)
    else:
        order = list(range(rank))
        first = axes[0] if axes else rank - 2
        if len(axes) > 1 or rank < 2 or not 0 <= first < rank:
            raise CompilationError(
                f"trans takes a tile of two or more axes and none, one or all of its axes, not "
                f"{describe(x)} and {list(axes)}"
            )
        order[first], order[-1] = order[-1], order[first]
    transposed: Tensor = shape.permute.emit(build, x, *order)
    return transposed


def _reduce(builtin: Builtin[..., Any], build: Builder, x: Tensor, axis: int | None = None) -> Any:
    return builtin.emit(build, x, axis)


# Functions of real numbers: their names in C, and in `tile.language.math`.
REAL = {
    **{
        name: name
        for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf")
    },
    **{name: name for name in ("floor", "ceil", "fma", "abs")},
    "fabs": "abs",
}

INTRINSICS: Mapping[str, Intrinsic] = {
    "dot": Intrinsic(_dot),
    "trans": Intrinsic(_trans),
    "get_program_id": Intrinsic(program.program_id.emit),
    "get_num_programs": Intrinsic(program.num_programs.emit),
    **{name: Intrinsic(getattr(math, function).emit) for name, function in REAL.items()},
    "min": Intrinsic(python_builtins.min_.emit),
    "max": Intrinsic(python_builtins.max_.emit),
    "fmin": Intrinsic(python_builtins.min_.emit),
    "fmax": Intrinsic(python_builtins.max_.emit),
    "sum": Intrinsic(partial(_reduce, reductions.sum)),
    "amax": Intrinsic(partial(_reduce, reductions.max)),
    "amin": Intrinsic(partial(_reduce, reductions.min)),
    **{
        f"atomic_{name}": Intrinsic(getattr(memory, f"atomic_{name}").emit, masked=True)
        for name in ("add", "and", "max", "min", "or", "xchg", "xor")
    },
    "atomic_cas": Intrinsic(memory.atomic_cas.emit),
    "printf": Intrinsic(debug.device_print.emit),
    "assert": Intrinsic(debug.device_assert.emit),
}
