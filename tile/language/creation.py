"""Creation of tiles from ranges and constants, and casts."""

from __future__ import annotations

from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.ops import arith
from tile.ir.ops import shape as shapes
from tile.ir.ops.arith import Rounding
from tile.ir.types import Pointer, Scalar, Tile, with_shape
from tile.language.base.builtin import builtin, member
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import (
    Operand,
    as_number,
    check_constant,
    constant,
    convert,
    convert_shape,
    describe,
)
from tile.language.base.promotion import to_tensor as make_tensor
from tile.language.base.static_args import (
    compile_time,
    compile_time_bool,
    compile_time_int,
    compile_time_shape,
)
from tile.language.base.tensor import Tensor
from tile.short_repr import short_repr


@builtin
def arange(build: Builder, start: Any, end: Any) -> Tensor:
    """The integers from `start` (inclusive) to `end` (exclusive), as a 1-d `tl.int32` tile.

    Both must be compile-time values. Raises `CompilationError` or `TypeRuleError` otherwise.
    """
    low = compile_time_int(start, "the start of tl.arange")
    high = compile_time_int(end, "the end of tl.arange")
    return Tensor(build(shapes.arange, start=low, end=high))


@builtin
def full(build: Builder, shape: Any, value: Operand, dtype: Any) -> Tensor:
    """A tile of `shape` (compile-time ints) filled with a number or scalar, cast to `dtype`.

    Shape `()` makes a scalar. Raises `CompilationError` if `value` is a tile, or a number that an
    integer `dtype` cannot have.
    """
    extents = compile_time_shape(shape, "the shape of tl.full")
    element = element_type(dtype, "tl.full")
    number = as_number(value)
    if number is not None:
        if isinstance(element, Scalar):
            check_constant(number, element, "the value of tl.full")
        return constant(build, number, with_shape(extents, element))
    scalar = make_tensor(build, value, "the value of tl.full")
    if scalar.shape:
        raise CompilationError(f"the value of tl.full is a scalar, not {scalar.type}")
    return convert_shape(build, convert(build, scalar, element), extents)


@builtin
def zeros(build: Builder, shape: Any, dtype: Any) -> Tensor:
    """A tile of `shape` (compile-time ints) and type `dtype` filled with 0."""
    extents = compile_time_shape(shape, "the shape of tl.zeros")
    return constant(build, 0, with_shape(extents, element_type(dtype, "tl.zeros")))


@builtin
def zeros_like(build: Builder, input: Operand) -> Tensor:
    """A tile filled with 0 of the shape and type of `input`."""
    x = make_tensor(build, input, "the input of tl.zeros_like")
    return constant(build, 0, x.type)


@builtin
def to_tensor(build: Builder, x: Operand) -> Tensor:
    """A number as a scalar of the first type that can represent it: int32, uint32, ..., float32."""
    return make_tensor(build, x, "the input of tl.to_tensor")


@member
def cast(
    build: Builder,
    input: Operand,
    dtype: Any,
    fp_downcast_rounding: str | None = None,
    bitcast: bool = False,
) -> Tensor:
    """Convert the elements of `input` to type `dtype`.

    A cast to a narrower float rounds to nearest even, or as `fp_downcast_rounding` specifies
    ("rtne", "rtz"). Casts to 8-bit floats saturate: larger magnitudes, including infinity, become
    the largest finite number (448 in float8e4nv, 57344 in float8e5 and float8e5b16, 240 in
    float8e4b8), where PyTorch and ml_dtypes give NaN or infinity; NaN stays NaN. As in Triton,
    float8e4b15 saturates at 1.75, one step below its largest number, its ties are rounded away from
    zero, and NaN, which it lacks, becomes 1.75. No machine has float8e4b15, float8e4b8 and
    float8e5b16: their casts take 5 to 30 integer instructions. Casts from float to integer
    truncate towards zero and saturate, and NaN becomes 0. Casts between integers wrap; nonzero
    values become true.

    `bitcast` reinterprets the bits instead, between types of equal width. Pointers convert to other
    pointers and to and from `tl.int64` and `tl.uint64`. A type of tiles, such as the `element_ty`
    of a block pointer's type, stands for the type of their elements. Raises `CompilationError` for
    other conversions.
    """
    x = make_tensor(build, input, "the input of tl.cast")
    element = element_type(dtype, "tl.cast")
    rounding = _rounding(fp_downcast_rounding, x.dtype, element)
    if not compile_time_bool(bitcast, "the bitcast of tl.cast"):
        return convert(build, x, element, rounding)
    if x.dtype == element:
        return x
    if isinstance(x.dtype, Pointer) or isinstance(element, Pointer):
        return convert(build, x, element)
    if x.dtype.bits != element.bits:
        raise CompilationError(
            f"a bitcast needs types of equal width: {spelled(x.dtype)} has {x.dtype.bits} bits and "
            f"{spelled(element)} has {element.bits}"
        )
    return Tensor(build(arith.bitcast, x.value, to=element))


@member
def to_(
    build: Builder,
    input: Operand,
    dtype: Any,
    fp_downcast_rounding: str | None = None,
    bitcast: bool = False,
) -> Tensor:
    """The method form of `tl.cast`."""
    return cast.emit(build, input, dtype, fp_downcast_rounding, bitcast)


def element_type(dtype: Any, function: str) -> Scalar | Pointer:
    """Return the element type of a `dtype` argument, or raise `CompilationError`."""
    element = compile_time(dtype, f"the dtype of {function}")
    if isinstance(element, Tile):
        element = element.of
    if not isinstance(element, Scalar | Pointer):
        raise CompilationError(
            f"the dtype of {function} is a type such as tl.float32, not {describe(element)}"
        )
    return element


def _rounding(mode: Any, source: Scalar | Pointer, to: Scalar | Pointer) -> Rounding:
    mode = compile_time(mode, "the fp_downcast_rounding of tl.cast")
    if mode is None:
        return Rounding.RTNE
    if mode not in list(Rounding):
        raise CompilationError(f'fp_downcast_rounding is "rtne" or "rtz", not {short_repr(mode)}')
    if source == to:  # nothing is rounded; kernels cast to the type of an argument, whatever it is
        return Rounding(mode)
    if not (source.is_floating() and to.is_floating() and to.bits < source.bits):
        raise CompilationError(
            f"fp_downcast_rounding is for casts to a narrower float, not for {spelled(source)} to "
            f"{spelled(to)}"
        )
    return Rounding(mode)
