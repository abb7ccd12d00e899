"""The language of kernels, as type checkers and editors see it: `import tile.language as tl`.

Made by `tile reference stub` from the declarations in `tile/language/`.
"""

# mypy: disable-error-code="misc, override, overload-overlap, no-redef"
# pyright: reportRedeclaration=false, reportGeneralTypeIssues=false

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

from tile.language import _math as math
from tile.language import _random
from tile.language.python import PYTHON_BUILTINS as PYTHON_BUILTINS
from tile.language.selection import PropagateNan as PropagateNan

random = _random  # not in `__all__`, so an import under this name would be private

MYPY = False  # mypy takes it for true

_T = TypeVar("_T")
_Index: TypeAlias = slice | EllipsisType | None

# An annotation changes no value, so one of `constexpr` or of an element type takes any argument and
# any default, and what it annotates goes everywhere: in pyright it is a protocol that all satisfy,
# derived from Any. `tl.constexpr(8)` is a call of its constructor, which the decorator keeps from
# being one of a protocol. In mypy, which decorates no classes, it is Any.
class _Constexpr(Any, Protocol): ...

def _constructor(cls: object) -> type[_Constexpr]: ...

if MYPY:
    from _typeshed import Incomplete as constexpr
else:
    @_constructor
    class constexpr:
        """A compile-time value.

        As an annotation, `BLOCK: tl.constexpr` makes a parameter a compile-time constant, for each
        value of which the kernel is specialized, and `x: tl.constexpr = 3` keeps a local name a plain
        number. As a wrapper, `LIMIT = tl.constexpr(8)` lets kernels read a global. Arithmetic outside
        kernels gives wrapped results.
        """
        value: Any
        def __init__(self, value: Any) -> None: ...

# A name whose first value is a Python number has that number's type in mypy, also where a loop goes
# on to assign tensors to it; so to mypy a tensor is a number as well.
if MYPY:
    class _Value(bool, float): ...
else:
    class _Value: ...

class dtype(type):
    """The type of a value or of an element: `x.type`, `x.dtype`."""
    @property
    def alias(self) -> str: ...
    @property
    def bits(self) -> int: ...
    @property
    def element(self) -> _Type: ...
    @property
    def element_ty(self) -> _Type: ...
    @property
    def int_bitwidth(self) -> int: ...
    def is_bf16(self) -> bool: ...
    def is_block(self) -> bool: ...
    def is_bool(self) -> bool: ...
    def is_floating(self) -> bool: ...
    def is_fp16(self) -> bool: ...
    def is_fp32(self) -> bool: ...
    def is_fp64(self) -> bool: ...
    def is_fp8(self) -> bool: ...
    def is_int(self) -> bool: ...
    def is_int_signed(self) -> bool: ...
    def is_int_unsigned(self) -> bool: ...
    def is_ptr(self) -> bool: ...
    def is_standard_floating(self) -> bool: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def max_value(self) -> int: ...
    @property
    def min_value(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def numel(self) -> int: ...
    @property
    def primitive_bitwidth(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def scalar(self) -> _Type: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def signed(self) -> bool: ...
    def to(self, bits: int) -> _Type: ...

_Type: TypeAlias = dtype

class pointer_type(dtype):
    """The type of pointers to elements of type `pointee`."""
    def __init__(self, pointee: Any) -> None: ...

class bfloat16(Any, Protocol, metaclass=dtype): ...
class float8e4nv(Any, Protocol, metaclass=dtype): ...
class float8e5(Any, Protocol, metaclass=dtype): ...
class float16(Any, Protocol, metaclass=dtype): ...
class float32(Any, Protocol, metaclass=dtype): ...
class float64(Any, Protocol, metaclass=dtype): ...
class int1(Any, Protocol, metaclass=dtype): ...
class int8(Any, Protocol, metaclass=dtype): ...
class int16(Any, Protocol, metaclass=dtype): ...
class int32(Any, Protocol, metaclass=dtype): ...
class int64(Any, Protocol, metaclass=dtype): ...
class pi32_t(Any, Protocol, metaclass=dtype): ...
class uint8(Any, Protocol, metaclass=dtype): ...
class uint16(Any, Protocol, metaclass=dtype): ...
class uint32(Any, Protocol, metaclass=dtype): ...
class uint64(Any, Protocol, metaclass=dtype): ...

class const(Any, Protocol):
    """The annotation of a pointer parameter through which the kernel only reads."""

class Tensor(_Value):
    """A handle on an IR value of a scalar, pointer, tile or descriptor type.

    A scalar has shape `()`. The value exists at run time, its type at compile time.
    """
    def __getitem__(self, index: _Index | tuple[_Index, ...]) -> Tensor: ...
    def __bool__(self) -> bool: ...
    def __index__(self) -> int: ...
    def __len__(self) -> int: ...
    def __abs__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __add__(self, other: Tensor | float) -> Tensor: ...
    def __radd__(self, other: Tensor | float) -> Tensor: ...
    def __sub__(self, other: Tensor | float) -> Tensor: ...
    def __rsub__(self, other: Tensor | float) -> Tensor: ...
    def __mul__(self, other: Tensor | float) -> Tensor: ...
    def __rmul__(self, other: Tensor | float) -> Tensor: ...
    def __truediv__(self, other: Tensor | float) -> Tensor: ...
    def __rtruediv__(self, other: Tensor | float) -> Tensor: ...
    def __floordiv__(self, other: Tensor | float) -> Tensor: ...
    def __rfloordiv__(self, other: Tensor | float) -> Tensor: ...
    def __mod__(self, other: Tensor | float) -> Tensor: ...
    def __rmod__(self, other: Tensor | float) -> Tensor: ...
    def __and__(self, other: Tensor | float) -> Tensor: ...
    def __rand__(self, other: Tensor | float) -> Tensor: ...
    def __or__(self, other: Tensor | float) -> Tensor: ...
    def __ror__(self, other: Tensor | float) -> Tensor: ...
    def __xor__(self, other: Tensor | float) -> Tensor: ...
    def __rxor__(self, other: Tensor | float) -> Tensor: ...
    def __lshift__(self, other: Tensor | float) -> Tensor: ...
    def __rlshift__(self, other: Tensor | float) -> Tensor: ...
    def __rshift__(self, other: Tensor | float) -> Tensor: ...
    def __rrshift__(self, other: Tensor | float) -> Tensor: ...
    def __eq__(self, other: object) -> Condition: ...
    def __ne__(self, other: object) -> Condition: ...
    def __lt__(self, other: Tensor | float) -> Condition: ...
    def __le__(self, other: Tensor | float) -> Condition: ...
    def __gt__(self, other: Tensor | float) -> Condition: ...
    def __ge__(self, other: Tensor | float) -> Condition: ...
    @property
    def type(self) -> _Type: ...
    @property
    def dtype(self) -> _Type: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def numel(self) -> int: ...
    @property
    def T(self) -> Tensor: ...
    def abs(self) -> Tensor:
        """The absolute value of floats and integers of any width; that of the least integer is itself.

        The result of a compile-time number is a compile-time number.
        """
    def argmax(self, axis: Any, tie_break_left: bool = True, keep_dims: bool = False) -> Tensor:
        """The int32 index of the greatest element along `axis`; the lowest one if `tie_break_left`."""
    def argmin(self, axis: Any, tie_break_left: bool = True, keep_dims: bool = False) -> Tensor:
        """The int32 index of the least element along `axis`; the lowest one if `tie_break_left`."""
    def associative_scan(self, axis: Any, combine_fn: Any, reverse: bool = False) -> Tensor:
        """Compute the inclusive scan of a tile, or of each tile of a tuple, with a function.

        `combine_fn` is as in `tl.reduce`, and must be associative; it need not be commutative. Its
        first argument, or the first half of its arguments, is the combination of elements that precede
        those of the second along `axis`, or follow them if `reverse`. The grouping of elements is not
        defined.
        """
    def atomic_add(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Add `val` to memory atomically, and return the old value.

        Elements are int32, uint32, int64, uint64 or floats of 16 to 64 bits.
        `val` and `mask` are broadcast to the shape of `pointer` and `val` is cast to its element type.
        Where the mask is false, memory is not changed and the result is undefined. `sem` is the memory
        order: "relaxed", "acquire", "release" or "acq_rel" (the default). `scope` is the set of threads
        with respect to which it is atomic: "cta", "gpu" (the default) or "sys". Raises
        `CompilationError` or `TypeRuleError` for other arguments.
        """
    def atomic_and(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write memory `& val` (integers of 32 or 64 bits); see `tl.atomic_add`."""
    def atomic_cas(
        self,
        cmp: Tensor | float,
        val: Tensor | float,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write `val` atomically if memory holds `cmp` (bitwise), and return the old value.

        Elements are 32 or 64 bits wide. `cmp` and `val` are cast to the element type and broadcast to
        the shape of `pointer`; for `sem` and `scope` see `tl.atomic_add`.
        """
    def atomic_max(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write the greater of memory and `val` (32 or 64 bits wide); see `tl.atomic_add`."""
    def atomic_min(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write the lesser of memory and `val` (32 or 64 bits wide); see `tl.atomic_add`."""
    def atomic_or(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write memory `| val` (integers of 32 or 64 bits); see `tl.atomic_add`."""
    def atomic_xchg(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write `val` (32 or 64 bits wide) and return the old value; see `tl.atomic_add`."""
    def atomic_xor(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write memory `^ val` (integers of 32 or 64 bits); see `tl.atomic_add`."""
    def broadcast_to(self, *shape: Any) -> Tensor:
        """Broadcast `input` to `shape`, one tuple or several ints.

        A scalar broadcasts to any shape; a tile keeps its rank, and only extents of 1 may grow. Raises
        `CompilationError` for anything else.
        """
    def cast(
        self,
        dtype: Any,
        fp_downcast_rounding: str | None = None,
        bitcast: bool = False,
    ) -> Tensor:
        """Convert the elements of `input` to type `dtype`.

        A cast to a narrower float rounds to nearest even, or as `fp_downcast_rounding` specifies
        ("rtne", "rtz"). Casts to 8-bit floats saturate: larger magnitudes, including infinity, become
        the largest finite number (448 in float8e4nv, 57344 in float8e5), where PyTorch and ml_dtypes
        give NaN or infinity; NaN stays NaN. Casts from float to integer truncate towards zero and
        saturate, and NaN becomes 0. Casts between integers wrap; nonzero values become true.
        `bitcast` reinterprets the bits instead, between types of equal width. Pointers convert to other
        pointers and to and from `tl.int64` and `tl.uint64`. Raises `CompilationError` for other
        conversions.
        """
    @overload
    def cdiv(self, div: Tensor | float) -> Tensor:
        """The ceiling division of `x` by `div`, for `x >= 0` and `div > 0`.

        The result of compile-time integers is a compile-time integer.
        """
    @overload
    def cdiv(self, div: Tensor) -> Tensor: ...
    def ceil(self) -> Tensor:
        """The least integer not below `x`, as a float."""
    def clamp(
        self,
        min: Tensor | float,
        max: Tensor | float,
        propagate_nan: PropagateNan = PropagateNan.NONE,
    ) -> Tensor:
        """Clamp `x` to the range from `min` to `max`, where `min <= max`.

        NaN in `x` gives `min`, or NaN with `tl.PropagateNan.ALL`. Types are as in `tl.minimum`.
        """
    def cos(self) -> Tensor:
        """The cosine of `x` radians."""
    def cumprod(self, axis: Any = 0, reverse: bool = False) -> Tensor:
        """The inclusive prefix product along `axis`, or the suffix product if `reverse`.

        Integers keep their type and wrap; bfloat16 is computed and returned as float32.
        """
    def cumsum(self, axis: Any = 0, reverse: bool = False, dtype: Any = None) -> Tensor:
        """The inclusive prefix sum along `axis`, or the suffix sum if `reverse`.

        Computed in `dtype` if given, else in the type that `tl.sum` uses, and float32 for bfloat16.
        """
    def erf(self) -> Tensor:
        """The error function."""
    def exp(self) -> Tensor:
        """The exponential function, e to the power `x`."""
    def exp2(self) -> Tensor:
        """2 to the power `x`. Subnormal results may be flushed to zero."""
    def expand_dims(self, axis: Any) -> Tensor:
        """Insert an axis of extent 1 at each position of `axis`, an int or a tuple of ints.

        Positions are those of the result; negative ones count from its end. A scalar becomes a tile of
        one element. Raises `CompilationError` for a position outside the result or a repeated one.
        """
    def flip(self, dim: Any = None) -> Tensor:
        """Reverse the elements of `x` along axis `dim` (None: the last)."""
    def floor(self) -> Tensor:
        """The greatest integer not above `x`, as a float."""
    def gather(self, index: Tensor, axis: Any) -> Tensor:
        """The elements of `src` at positions `index` along `axis`, like `numpy.take_along_axis`.

        `index` is a tile of integers with as many axes as `src` and the same extents except along
        `axis`; the result has its shape. The result of an index outside 0 to extent - 1 is undefined.
        Raises `CompilationError` or `TypeRuleError` for anything else.
        """
    def histogram(self, num_bins: Any, mask: Tensor | float | None = None) -> Tensor:
        """The number of occurrences of each of 0 to `num_bins` - 1 in `input`, as an int32 tile.

        `num_bins` is a compile-time power of two, `input` a tile of integers of any rank, and `mask`,
        broadcast to its shape, selects the elements that are counted. Values outside the bins are
        ignored. Raises `CompilationError` or `TypeRuleError` for anything else.
        """
    def log(self) -> Tensor:
        """The natural logarithm."""
    def log2(self) -> Tensor:
        """The logarithm to base 2."""
    @overload
    def max(
        self,
        axis: Any = None,
        return_indices: Literal[False] = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> Tensor:
        """The greatest element along `axis`, ignoring NaN; with its index if `return_indices`.

        Types narrower than 32 bits are widened to float32 or int32; with indices, only bfloat16 is. Of
        equal elements, the lowest index is returned, or any of them if `return_indices_tie_break_left`
        is false.
        """
    @overload
    def max(
        self,
        axis: Any,
        return_indices: Literal[True],
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def max(
        self,
        axis: Any = None,
        *,
        return_indices: Literal[True],
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def min(
        self,
        axis: Any = None,
        return_indices: Literal[False] = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> Tensor:
        """The least element along `axis`, ignoring NaN; with its index if `return_indices`.

        Types narrower than 32 bits are widened to float32 or int32; with indices, only bfloat16 is. Of
        equal elements, the lowest index is returned, or any of them if `return_indices_tie_break_left`
        is false.
        """
    @overload
    def min(
        self,
        axis: Any,
        return_indices: Literal[True],
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def min(
        self,
        axis: Any = None,
        *,
        return_indices: Literal[True],
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> tuple[Tensor, Tensor]: ...
    def permute(self, *dims: Any) -> Tensor:
        """Permute the axes of `input`: axis k of the result is axis `dims[k]`.

        Raises `CompilationError` if `dims` is not a permutation of the axes.
        """
    def ravel(self, can_reorder: bool = False) -> Tensor:
        """Flatten `x` to a tile of one axis, in row-major order."""
    def reduce(self, axis: Any, combine_fn: Any, keep_dims: bool = False) -> Tensor:
        """Reduce a tile, or each tile of a tuple, along `axis` with a function.

        `combine_fn` is a `@tile.jit` function or a builtin. It takes two scalars, or for n tiles two
        groups of n scalars, and returns one scalar or n, of the element types of the tiles. It may
        contain arithmetic, comparisons, `tl.where` and `if`, but no memory accesses and no loops. It
        must be associative and commutative: the grouping and the order of elements are not defined.
        With axis None all elements are reduced; `keep_dims` keeps the reduced axes with extent 1. The
        tiles of a tuple have one shape, and the result is a tuple. Raises `CompilationError` for
        anything else.
        """
    def reduce_or(self, axis: Any, keep_dims: bool = False) -> Tensor:
        """The bitwise or of integers along `axis`; for booleans, true if any element is."""
    def reshape(self, *shape: Any, can_reorder: bool = False) -> Tensor:
        """Reshape `input` to `shape`, one tuple or several ints, in row-major order.

        `can_reorder` permits another order, but the order is always preserved. Raises
        `CompilationError` or `TypeRuleError` if the number of elements would change.
        """
    def rsqrt(self) -> Tensor:
        """The reciprocal of the square root."""
    def sigmoid(self) -> Tensor:
        """The sigmoid function `1 / (1 + exp(-x))` of float32 or float64."""
    def sin(self) -> Tensor:
        """The sine of `x` radians."""
    def softmax(
        self,
        dim: Any = None,
        keep_dims: bool = False,
        ieee_rounding: bool = False,
    ) -> Tensor:
        """The softmax along axis `dim` (None: the first), of float32 or float64.

        The greatest element is subtracted first, so nothing overflows. The result has the shape of `x`
        whatever `keep_dims` is; `ieee_rounding` selects a division rounded to nearest.
        """
    def sort(self, dim: Any = None, descending: bool = False) -> Tensor:
        """Sort the elements of `x` along axis `dim` (None: the last), ascending or descending.

        NaN sorts as greater than every number. The sort is not stable, and the order of the two zeros
        is not defined.
        """
    def split(self) -> tuple[Tensor, Tensor]:
        """Split a tile along the last axis, whose extent must be 2; the inverse of `tl.join`.

        Raises `CompilationError` for another extent.
        """
    def sqrt(self) -> Tensor:
        """The square root."""
    def sqrt_rn(self) -> Tensor:
        """The square root, rounded to nearest."""
    def squeeze(self, dim: Any) -> Tensor:
        """Remove axis `dim` of `input`, whose extent must be 1.

        Raises `CompilationError` for another extent, and for the only axis of a tile.
        """
    def sum(self, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> Tensor:
        """The sum along `axis`, computed in `dtype` if given.

        Otherwise narrow integers are summed in int32 or uint32 according to their signedness, booleans
        in int32, and every other type in its own type. Use `dtype=tl.float32` for float16 and bfloat16.
        The order of additions is not defined.
        """
    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
    def to(
        self,
        dtype: Any,
        fp_downcast_rounding: str | None = None,
        bitcast: bool = False,
    ) -> Tensor:
        """The method form of `tl.cast`."""
    def trans(self, *dims: Any) -> Tensor:
        """Permute the axes of `input` to the order `dims`; without `dims`, swap the last two.

        Raises `CompilationError` if `dims` is not a permutation, or is absent for fewer than two axes.
        """
    def unsqueeze(self, dim: Any) -> Tensor:
        """Insert an axis of extent 1 at position `dim` of the result."""
    def view(self, *shape: Any) -> Tensor:
        """The older name of `tl.reshape`."""
    def xor_sum(self, axis: Any = None, keep_dims: bool = False) -> Tensor:
        """The bitwise exclusive or of integers along `axis`, in their own type."""

tensor = Tensor

class Condition(Tensor, Any):
    """The result of a comparison, which Python's `min` and `max` of tensors take for a bool."""

class tensor_descriptor:
    """An array with bounds; see `tl.make_tensor_descriptor`."""
    @property
    def type(self) -> _Type: ...
    @property
    def dtype(self) -> _Type: ...
    @property
    def shape(self) -> tuple[Tensor, ...]: ...
    @property
    def strides(self) -> tuple[Tensor, ...]: ...
    @property
    def block_shape(self) -> tuple[int, ...]: ...
    @property
    def block_type(self) -> _Type: ...
    def atomic_add(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a block of the array by `tl.atomic_add`, relaxed.

        Each element is updated atomically. There is no result, and elements outside the array are not
        changed.
        """
    def atomic_and(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a block of the array by `tl.atomic_and`, relaxed.

        Each element is updated atomically. There is no result, and elements outside the array are not
        changed.
        """
    def atomic_max(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a block of the array by `tl.atomic_max`, relaxed.

        Each element is updated atomically. There is no result, and elements outside the array are not
        changed.
        """
    def atomic_min(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a block of the array by `tl.atomic_min`, relaxed.

        Each element is updated atomically. There is no result, and elements outside the array are not
        changed.
        """
    def atomic_or(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a block of the array by `tl.atomic_or`, relaxed.

        Each element is updated atomically. There is no result, and elements outside the array are not
        changed.
        """
    def atomic_xor(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a block of the array by `tl.atomic_xor`, relaxed.

        Each element is updated atomically. There is no result, and elements outside the array are not
        changed.
        """
    def gather(self, x_offsets: Tensor, y_offset: Tensor | float) -> Tensor:
        """Read N columns of M arbitrary rows of an array.

        The descriptor has two axes and a block of shape (1, N). `x_offsets` is a tile of M integers,
        the rows, and `y_offset` the first of N columns; the result has shape (M, N). Elements outside
        the array are as in `load`.
        """
    def load(self, offsets: Sequence[Tensor | float]) -> Tensor:
        """Read the block of a descriptor whose first element has the index `offsets`.

        Also `desc.load(offsets)`. Offsets are integers, one for each axis; they may be negative.
        Elements outside the array are zero, or NaN if the descriptor has `padding_option="nan"`.
        """
    def scatter(self, value: Tensor, x_offsets: Tensor, y_offset: Tensor | float) -> None:
        """Write N columns of M arbitrary rows of an array; see `desc.gather`.

        `value` has shape (M, N). If several rows have the same index, it is not defined which one is
        written last.
        """
    def store(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Write the block of a descriptor whose first element has the index `offsets`.

        Also `desc.store(offsets, value)`. `value` is cast to the element type and broadcast to the
        block's shape; elements outside the array are not written.
        """

class range:
    """A loop at run time, `for i in tl.range(start, stop, step)`, with compiler options.

    Bounds and step are integers, at compile time or run time. `num_stages` is the depth of software
    pipelining (None: the launch's), `loop_unroll_factor` the unroll factor. The signatures are
    those of Python's `range`: `tl.range(stop)`, `tl.range(start, stop)`. `flatten`,
    `warp_specialize` and `disallow_acc_multi_buffer` have no effect yet, and no option has an
    effect in a loop that `break` or `return` may leave; a warning says so once. Raises
    `CompilationError` for a step of 0.
    """
    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: Any = None,
        loop_unroll_factor: Any = None,
        disallow_acc_multi_buffer: Any = False,
        flatten: Any = False,
        warp_specialize: Any = False,
        disable_licm: Any = False,
    ) -> None: ...
    def __iter__(self) -> Iterator[Tensor]: ...

class static_range:
    """A loop unrolled at compile time, `for i in tl.static_range(start, stop, step)`.

    Bounds and step must be compile-time integers, and `i` is a plain integer. Raises
    `CompilationError` otherwise.
    """
    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None: ...
    def __iter__(self) -> Iterator[int]: ...

class condition:
    """The condition of a loop with an option, `while tl.condition(c)`.

    `disable_licm` has no effect on such a loop; a warning says so once.
    """
    def __init__(self, arg1: Any, disable_licm: Any = False) -> None: ...

@overload
def abs(x: Tensor) -> Tensor:
    """The absolute value of floats and integers of any width; that of the least integer is itself.

    The result of a compile-time number is a compile-time number.
    """
@overload
def abs(x: float) -> Any: ...
@overload
def add(x: Tensor, y: Tensor | float, sanitize_overflow: bool = True) -> Tensor:
    """The sum `x + y`. Integers wrap; `sanitize_overflow` is accepted and has no effect."""
@overload
def add(x: Tensor | float, y: Tensor, sanitize_overflow: bool = True) -> Tensor: ...
@overload
def add(x: float, y: float, sanitize_overflow: bool = True) -> Any: ...
def arange(start: Any, end: Any) -> Tensor:
    """The integers from `start` (inclusive) to `end` (exclusive), as a 1-d `tl.int32` tile.

    Both must be compile-time values and `end - start` must be a power of two. Raises
    `CompilationError` or `TypeRuleError` otherwise.
    """
def argmax(
    input: Tensor,
    axis: Any,
    tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor:
    """The int32 index of the greatest element along `axis`; the lowest one if `tie_break_left`."""
def argmin(
    input: Tensor,
    axis: Any,
    tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor:
    """The int32 index of the least element along `axis`; the lowest one if `tie_break_left`."""
def associative_scan(input: _T, axis: Any, combine_fn: Any, reverse: bool = False) -> _T:
    """Compute the inclusive scan of a tile, or of each tile of a tuple, with a function.

    `combine_fn` is as in `tl.reduce`, and must be associative; it need not be commutative. Its
    first argument, or the first half of its arguments, is the combination of elements that precede
    those of the second along `axis`, or follow them if `reverse`. The grouping of elements is not
    defined.
    """
def assume(cond: Any) -> None:
    """Tell the compiler that a scalar condition holds from this point to the end of the block.

    A comparison, or several joined by `&`, bounds the range of its operands, so that index
    arithmetic on them can be proved nonnegative. A remainder of zero is a divisibility: after
    `tl.assume(n % 8 == 0)`, accesses to rows of length `n` can be vectorized. If the condition is
    false, the behavior is undefined.
    Raises `CompilationError` for a tile, and for a condition that is false at compile time.
    """
def atomic_add(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Add `val` to memory atomically, and return the old value.

    Elements are int32, uint32, int64, uint64 or floats of 16 to 64 bits.
    `val` and `mask` are broadcast to the shape of `pointer` and `val` is cast to its element type.
    Where the mask is false, memory is not changed and the result is undefined. `sem` is the memory
    order: "relaxed", "acquire", "release" or "acq_rel" (the default). `scope` is the set of threads
    with respect to which it is atomic: "cta", "gpu" (the default) or "sys". Raises
    `CompilationError` or `TypeRuleError` for other arguments.
    """
def atomic_and(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write memory `& val` (integers of 32 or 64 bits); see `tl.atomic_add`."""
def atomic_cas(
    pointer: Tensor,
    cmp: Tensor | float,
    val: Tensor | float,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write `val` atomically if memory holds `cmp` (bitwise), and return the old value.

    Elements are 32 or 64 bits wide. `cmp` and `val` are cast to the element type and broadcast to
    the shape of `pointer`; for `sem` and `scope` see `tl.atomic_add`.
    """
def atomic_max(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write the greater of memory and `val` (32 or 64 bits wide); see `tl.atomic_add`."""
def atomic_min(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write the lesser of memory and `val` (32 or 64 bits wide); see `tl.atomic_add`."""
def atomic_or(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write memory `| val` (integers of 32 or 64 bits); see `tl.atomic_add`."""
def atomic_xchg(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write `val` (32 or 64 bits wide) and return the old value; see `tl.atomic_add`."""
def atomic_xor(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write memory `^ val` (integers of 32 or 64 bits); see `tl.atomic_add`."""
def block_type(element_ty: Any, shape: Sequence[int]) -> _Type:
    """The type of a tile of `shape`, equal to `x.type` of such a tile `x`."""
def broadcast(input: Tensor | float, other: Tensor | float) -> tuple[Tensor, ...]:
    """Broadcast both inputs to their common shape, by NumPy's rules; the result is a pair."""
def broadcast_to(input: Tensor | float, *shape: Any) -> Tensor:
    """Broadcast `input` to `shape`, one tuple or several ints.

    A scalar broadcasts to any shape; a tile keeps its rank, and only extents of 1 may grow. Raises
    `CompilationError` for anything else.
    """
def cast(
    input: Tensor | float,
    dtype: Any,
    fp_downcast_rounding: str | None = None,
    bitcast: bool = False,
) -> Tensor:
    """Convert the elements of `input` to type `dtype`.

    A cast to a narrower float rounds to nearest even, or as `fp_downcast_rounding` specifies
    ("rtne", "rtz"). Casts to 8-bit floats saturate: larger magnitudes, including infinity, become
    the largest finite number (448 in float8e4nv, 57344 in float8e5), where PyTorch and ml_dtypes
    give NaN or infinity; NaN stays NaN. Casts from float to integer truncate towards zero and
    saturate, and NaN becomes 0. Casts between integers wrap; nonzero values become true.
    `bitcast` reinterprets the bits instead, between types of equal width. Pointers convert to other
    pointers and to and from `tl.int64` and `tl.uint64`. Raises `CompilationError` for other
    conversions.
    """
def cat(input: Tensor, other: Tensor, can_reorder: bool = False, dim: Any = 0) -> Tensor:
    """Concatenate `input` and `other` along axis `dim`, which is twice as long.

    Both must have one type and shape, since extents are powers of two. `can_reorder` permits
    another order, but the order is always preserved.
    """
@overload
def cdiv(x: Tensor, div: Tensor | float) -> Tensor:
    """The ceiling division of `x` by `div`, for `x >= 0` and `div > 0`.

    The result of compile-time integers is a compile-time integer.
    """
@overload
def cdiv(x: Tensor | float, div: Tensor) -> Tensor: ...
@overload
def cdiv(x: float, div: float) -> Any: ...
def ceil(x: Tensor | float) -> Tensor:
    """The least integer not below `x`, as a float."""
def clamp(
    x: Tensor | float,
    min: Tensor | float,
    max: Tensor | float,
    propagate_nan: PropagateNan = PropagateNan.NONE,
) -> Tensor:
    """Clamp `x` to the range from `min` to `max`, where `min <= max`.

    NaN in `x` gives `min`, or NaN with `tl.PropagateNan.ALL`. Types are as in `tl.minimum`.
    """
def cos(x: Tensor | float) -> Tensor:
    """The cosine of `x` radians."""
def cumprod(input: Tensor, axis: Any = 0, reverse: bool = False) -> Tensor:
    """The inclusive prefix product along `axis`, or the suffix product if `reverse`.

    Integers keep their type and wrap; bfloat16 is computed and returned as float32.
    """
def cumsum(
    input: Tensor,
    axis: Any = 0,
    reverse: bool = False,
    dtype: Any = None,
) -> Tensor:
    """The inclusive prefix sum along `axis`, or the suffix sum if `reverse`.

    Computed in `dtype` if given, else in the type that `tl.sum` uses, and float32 for bfloat16.
    """
def debug_barrier() -> None:
    """Synchronize all threads of this program."""
def device_assert(cond: Any, msg: Any = '', mask: Any = None) -> None:
    """Stop the launch with `DeviceAssertionError` where `cond` is false and `mask` is true.

    `cond` and `mask` are scalars or tiles, broadcast together; nonzero is true.
    """
def device_print(prefix: Any, *args: Any, hex: bool = False) -> None:
    """Print a compile-time string and values from every program, integers in base 16 if `hex`."""
def div_rn(x: Tensor | float, y: Tensor | float) -> Tensor:
    """The quotient `x / y` of `tl.float32` or `tl.float64`, rounded to nearest."""
def dot(
    input: Tensor,
    other: Tensor,
    acc: Tensor | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: Any = float32,
) -> Tensor:
    """The matrix product `input @ other`, accumulated onto `acc` if given.

    `input` has shape MxK and `other` KxN, or with a batch axis in front, BxMxK and BxKxN. Both have
    one element type: float16, bfloat16, float32, float64, int8, uint8 or an 8-bit float (two
    different 8-bit floats may be mixed). The result has the type of `acc`. Without `acc`, it
    accumulates from zero, in int32 for integers, float64 for float64 and otherwise `out_dtype`,
    which is float32, or for float16 and 8-bit floats also float16.

    `input_precision` is the precision to which float32 operands are rounded: "ieee" (the default:
    no rounding), "tf32", "tf32x3", "bf16x3" or "bf16x6". `allow_tf32=True` is the older spelling of
    "tf32", which keeps 10 bits of mantissa: the relative error of each operand is below 2^-10, as
    some machines truncate instead of rounding.

    The error of an element is at most K units in the last place (of the type of `acc`) of the sum
    of the magnitudes of all its products. For 8-bit floats, some machines (sm_90a) are twice as
    fast if partial sums have only 13 bits of mantissa. `max_num_imprecise_acc` is the number of
    products that may be accumulated so: from K on, one dot is, and its result is added to `acc` in
    float32; from 2^30 on, all dots of a loop accumulate so. Without it, or with 0, none does.

    Raises `CompilationError` or `TypeRuleError` if types or shapes do not match.
    """
def erf(x: Tensor | float) -> Tensor:
    """The error function."""
def exp(x: Tensor | float) -> Tensor:
    """The exponential function, e to the power `x`."""
def exp2(x: Tensor | float) -> Tensor:
    """2 to the power `x`. Subnormal results may be flushed to zero."""
def expand_dims(input: Tensor | float, axis: Any) -> Tensor:
    """Insert an axis of extent 1 at each position of `axis`, an int or a tuple of ints.

    Positions are those of the result; negative ones count from its end. A scalar becomes a tile of
    one element. Raises `CompilationError` for a position outside the result or a repeated one.
    """
def fdiv(x: Tensor | float, y: Tensor | float, ieee_rounding: bool = False) -> Tensor:
    """The quotient `x / y` of floats, in their own type; rounded to nearest if `ieee_rounding`.

    Raises `CompilationError` if neither is a float.
    """
def flip(x: Tensor, dim: Any = None) -> Tensor:
    """Reverse the elements of `x` along axis `dim` (None: the last)."""
def floor(x: Tensor | float) -> Tensor:
    """The greatest integer not above `x`, as a float."""
def fma(x: Tensor | float, y: Tensor | float, z: Tensor | float) -> Tensor:
    """The fused multiply-add `x * y + z` of floats, rounded once; operands are promoted."""
def full(shape: Any, value: Tensor | float, dtype: Any) -> Tensor:
    """A tile of `shape` (compile-time ints) filled with a number or scalar, cast to `dtype`.

    Shape `()` makes a scalar. Raises `CompilationError` if `value` is a tile.
    """
def gather(src: Tensor, index: Tensor, axis: Any) -> Tensor:
    """The elements of `src` at positions `index` along `axis`, like `numpy.take_along_axis`.

    `index` is a tile of integers with as many axes as `src` and the same extents except along
    `axis`; the result has its shape. The result of an index outside 0 to extent - 1 is undefined.
    Raises `CompilationError` or `TypeRuleError` for anything else.
    """
def histogram(input: Tensor, num_bins: Any, mask: Tensor | float | None = None) -> Tensor:
    """The number of occurrences of each of 0 to `num_bins` - 1 in `input`, as an int32 tile.

    `num_bins` is a compile-time power of two, `input` a tile of integers of any rank, and `mask`,
    broadcast to its shape, selects the elements that are counted. Values outside the bins are
    ignored. Raises `CompilationError` or `TypeRuleError` for anything else.
    """
def interleave(a: Tensor | float, b: Tensor | float) -> Tensor:
    """Interleave the elements of `a` and `b` along the last axis, which is twice as long.

    Types and shapes are as in `tl.join`; two scalars give a tile of two elements.
    """
def join(a: Tensor | float, b: Tensor | float) -> Tensor:
    """Join `a` and `b` along a new last axis of extent 2.

    Both are broadcast together and must have one type; a Python number takes the type of the other
    operand. Two scalars give a tile of two elements. Raises `CompilationError` for two types.
    """
def load(
    pointer: Tensor,
    mask: Tensor | float | None = None,
    other: Tensor | float | None = None,
    boundary_check: Any = (),
    padding_option: str = '',
    cache_modifier: str = '',
    eviction_policy: str = '',
    volatile: bool = False,
) -> Tensor:
    """Read the element at `pointer`, or a tile of them through a tile of pointers.

    `mask` (`tl.int1`) and `other` are broadcast with the pointers, and `other` is cast to the
    element type. Where the mask is false, nothing is read: the element is that of `other`, or
    undefined without it. `cache_modifier` is "", ".ca", ".cg" or ".cv", and `eviction_policy` "",
    "evict_first" or "evict_last". They are hints: async copies to shared memory keep those that the
    target supports, and OpenCL has none. A volatile load is never merged or moved. Raises
    `CompilationError` if `pointer` is not a pointer, if `mask` or `other` is a tile and `pointer` a
    scalar, for `other` without `mask`, and for a mask that is not boolean.
    """
def load_tensor_descriptor(
    desc: tensor_descriptor,
    offsets: Sequence[Tensor | float],
) -> Tensor:
    """Read the block of a descriptor whose first element has the index `offsets`.

    Also `desc.load(offsets)`. Offsets are integers, one for each axis; they may be negative.
    Elements outside the array are zero, or NaN if the descriptor has `padding_option="nan"`.
    """
def log(x: Tensor | float) -> Tensor:
    """The natural logarithm."""
def log2(x: Tensor | float) -> Tensor:
    """The logarithm to base 2."""
def make_tensor_descriptor(
    base: Tensor,
    shape: Sequence[Tensor | float],
    strides: Sequence[Tensor | float],
    block_shape: Sequence[int],
    padding_option: str = 'zero',
) -> tensor_descriptor:
    """Make a descriptor of the array at `base`, of 1 to 5 axes, accessed in blocks.

    `shape` and `strides` are the array's, in elements. The last stride is 1; the other strides and
    the address are multiples of 16 bytes. The extents of `block_shape` are compile-time powers of
    two, and the last axis of a block has at least 16 bytes. `padding_option` is the value that
    loads return outside the array: "zero", or for floats "nan".

    The result has the methods `load(offsets)`, `store(offsets, value)`,
    `gather(x_offsets, y_offset)`, `scatter(value, x_offsets, y_offset)` and
    `atomic_add(offsets, value)`, also for `min`, `max`, `and`, `or`, `xor`; and the attributes
    `shape`, `strides`, `block_shape`, `dtype`. Raises `CompilationError` for arguments that violate
    these rules.
    """
@overload
def max(
    input: Tensor,
    axis: Any = None,
    return_indices: Literal[False] = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor:
    """The greatest element along `axis`, ignoring NaN; with its index if `return_indices`.

    Types narrower than 32 bits are widened to float32 or int32; with indices, only bfloat16 is. Of
    equal elements, the lowest index is returned, or any of them if `return_indices_tie_break_left`
    is false.
    """
@overload
def max(
    input: Tensor,
    axis: Any,
    return_indices: Literal[True],
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def max(
    input: Tensor,
    axis: Any = None,
    *,
    return_indices: Literal[True],
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tuple[Tensor, Tensor]: ...
def max_constancy(input: Tensor | float, values: Any) -> Tensor:
    """Tell the compiler that runs of `values[k]` elements of `input` along axis k are constant.

    Runs start at multiples of their length. `values` is a compile-time int or a tuple with one for
    each axis. If this is false, the behavior is undefined. The result is `input`.
    """
def max_contiguous(input: Tensor | float, values: Any) -> Tensor:
    """Tell the compiler that runs of `values[k]` elements of `input` along axis k are contiguous.

    The elements of a run increase by 1; runs start at multiples of their length. `values` is a
    compile-time int or a tuple with one for each axis. If this is false, the behavior is
    undefined. The result is `input`.
    """
def maximum(
    x: Tensor | float,
    y: Tensor | float,
    propagate_nan: PropagateNan = PropagateNan.NONE,
) -> Tensor:
    """The greater of `x` and `y`; of a number and a NaN the number, unless NaNs propagate.

    Python numbers are int32 or float32, and bfloat16 is computed and returned as float32.
    """
@overload
def min(
    input: Tensor,
    axis: Any = None,
    return_indices: Literal[False] = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor:
    """The least element along `axis`, ignoring NaN; with its index if `return_indices`.

    Types narrower than 32 bits are widened to float32 or int32; with indices, only bfloat16 is. Of
    equal elements, the lowest index is returned, or any of them if `return_indices_tie_break_left`
    is false.
    """
@overload
def min(
    input: Tensor,
    axis: Any,
    return_indices: Literal[True],
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def min(
    input: Tensor,
    axis: Any = None,
    *,
    return_indices: Literal[True],
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tuple[Tensor, Tensor]: ...
def minimum(
    x: Tensor | float,
    y: Tensor | float,
    propagate_nan: PropagateNan = PropagateNan.NONE,
) -> Tensor:
    """The lesser of `x` and `y`; of a number and a NaN the number, unless NaNs propagate.

    Python numbers are int32 or float32, and bfloat16 is computed and returned as float32.
    """
@overload
def mul(x: Tensor, y: Tensor | float, sanitize_overflow: bool = True) -> Tensor:
    """The product `x * y`; for `sanitize_overflow` see `tl.add`."""
@overload
def mul(x: Tensor | float, y: Tensor, sanitize_overflow: bool = True) -> Tensor: ...
@overload
def mul(x: float, y: float, sanitize_overflow: bool = True) -> Any: ...
def multiple_of(input: Tensor | float, values: Any) -> Tensor:
    """Tell the compiler that the elements of `input` along axis k are multiples of `values[k]`.

    For contiguous elements, the first of each run is the multiple. `values` is a compile-time int
    or a tuple with one for each axis. If this is false, the behavior is undefined. The
    result is `input`.
    """
def num_programs(axis: Any) -> Tensor:
    """The extent of the grid along `axis` (0, 1 or 2): a scalar `tl.int32`."""
def pair_uniform_to_normal(u1: Tensor, u2: Tensor) -> tuple[Tensor, Tensor]:
    """Two standard normal numbers from two uniform in [0, 1), by the Box-Muller transform."""
def permute(input: Tensor, *dims: Any) -> Tensor:
    """Permute the axes of `input`: axis k of the result is axis `dims[k]`.

    Raises `CompilationError` if `dims` is not a permutation of the axes.
    """
def philox(
    seed: Tensor | float,
    c0: Tensor | float,
    c1: Tensor | float,
    c2: Tensor | float,
    c3: Tensor | float,
    n_rounds: Any = 10,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four random integers for each counter (`c0`, `c1`, `c2`, `c3`), under the key `seed`.

    Counters are integers of one width. With 32 bits, the results are `tl.uint32` and the 64 bits of
    the seed are the key; with 64 bits, the results are `tl.uint64` and the seed is the low word of
    the key. Raises `CompilationError` for other widths.
    """
def philox_impl(
    c0: Tensor,
    c1: Tensor,
    c2: Tensor,
    c3: Tensor,
    k0: Tensor | float,
    k1: Tensor | float,
    n_rounds: Any = 10,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Apply `n_rounds` rounds of Philox to counter (`c0`, `c1`, `c2`, `c3`), key (`k0`, `k1`).

    All are `tl.uint32`, or all `tl.uint64`; the results have that type and the common shape.
    """
def program_id(axis: Any) -> Tensor:
    """The index of this program along `axis` (0, 1 or 2) of the grid: a scalar `tl.int32`."""
def rand(seed: Tensor | float, offset: Tensor | float, n_rounds: Any = 10) -> Tensor:
    """A tile of `tl.float32` uniform in [0, 1), of the shape of `offset`."""
def rand4x(
    seed: Tensor | float,
    offset: Tensor | float,
    n_rounds: Any = 10,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four tiles of `tl.float32` uniform in [0, 1), each of the shape of `offset`."""
def randint(seed: Tensor | float, offset: Tensor | float, n_rounds: Any = 10) -> Tensor:
    """A tile of random `tl.uint32`, of the shape of `offset`."""
def randint4x(
    seed: Tensor | float,
    offset: Tensor | float,
    n_rounds: Any = 10,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four tiles of random `tl.uint32`, of the shape of `offset`: the cheapest per number.

    Each offset is a separate counter; a 64-bit offset is two words of the counter, low word first.
    """
def randn(seed: Tensor | float, offset: Tensor | float, n_rounds: Any = 10) -> Tensor:
    """A tile of standard normal `tl.float32`, of the shape of `offset`."""
def randn4x(
    seed: Tensor | float,
    offset: Tensor | float,
    n_rounds: Any = 10,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four tiles of standard normal `tl.float32`, each of the shape of `offset`."""
def ravel(x: Tensor | float, can_reorder: bool = False) -> Tensor:
    """Flatten `x` to a tile of one axis, in row-major order."""
def reduce(input: _T, axis: Any, combine_fn: Any, keep_dims: bool = False) -> _T:
    """Reduce a tile, or each tile of a tuple, along `axis` with a function.

    `combine_fn` is a `@tile.jit` function or a builtin. It takes two scalars, or for n tiles two
    groups of n scalars, and returns one scalar or n, of the element types of the tiles. It may
    contain arithmetic, comparisons, `tl.where` and `if`, but no memory accesses and no loops. It
    must be associative and commutative: the grouping and the order of elements are not defined.
    With axis None all elements are reduced; `keep_dims` keeps the reduced axes with extent 1. The
    tiles of a tuple have one shape, and the result is a tuple. Raises `CompilationError` for
    anything else.
    """
def reduce_or(input: Tensor, axis: Any, keep_dims: bool = False) -> Tensor:
    """The bitwise or of integers along `axis`; for booleans, true if any element is."""
def reshape(input: Tensor | float, *shape: Any, can_reorder: bool = False) -> Tensor:
    """Reshape `input` to `shape`, one tuple or several ints, in row-major order.

    `can_reorder` permits another order, but the order is always preserved. Raises
    `CompilationError` or `TypeRuleError` if the number of elements would change.
    """
def rsqrt(x: Tensor | float) -> Tensor:
    """The reciprocal of the square root."""
@overload
def sigmoid(x: Tensor) -> Tensor:
    """The sigmoid function `1 / (1 + exp(-x))` of float32 or float64."""
@overload
def sigmoid(x: float) -> Any: ...
def sin(x: Tensor | float) -> Tensor:
    """The sine of `x` radians."""
@overload
def softmax(
    x: Tensor,
    dim: Any = None,
    keep_dims: bool = False,
    ieee_rounding: bool = False,
) -> Tensor:
    """The softmax along axis `dim` (None: the first), of float32 or float64.

    The greatest element is subtracted first, so nothing overflows. The result has the shape of `x`
    whatever `keep_dims` is; `ieee_rounding` selects a division rounded to nearest.
    """
@overload
def softmax(
    x: float,
    dim: Any = None,
    keep_dims: bool = False,
    ieee_rounding: bool = False,
) -> Any: ...
def sort(x: Tensor, dim: Any = None, descending: bool = False) -> Tensor:
    """Sort the elements of `x` along axis `dim` (None: the last), ascending or descending.

    NaN sorts as greater than every number. The sort is not stable, and the order of the two zeros
    is not defined.
    """
def split(a: Tensor) -> tuple[Tensor, Tensor]:
    """Split a tile along the last axis, whose extent must be 2; the inverse of `tl.join`.

    Raises `CompilationError` for another extent.
    """
def sqrt(x: Tensor | float) -> Tensor:
    """The square root."""
def sqrt_rn(x: Tensor | float) -> Tensor:
    """The square root, rounded to nearest."""
def squeeze(input: Tensor, dim: Any) -> Tensor:
    """Remove axis `dim` of `input`, whose extent must be 1.

    Raises `CompilationError` for another extent, and for the only axis of a tile.
    """
def static_assert(cond: Any, msg: Any = '') -> None:
    """Stop the compilation with `CompilationError` and `msg` if `cond` is false at compile time."""
def static_print(
    *values: Any,
    sep: str = ' ',
    end: str = '\n',
    file: Any = None,
    flush: bool = False,
) -> None:
    """Print when the kernel is compiled; a runtime value is printed as its type."""
def store(
    pointer: Tensor,
    value: Tensor | float,
    mask: Tensor | float | None = None,
    boundary_check: Any = (),
    cache_modifier: str = '',
    eviction_policy: str = '',
) -> None:
    """Write `value` at `pointer`, or a tile through a tile of pointers, where `mask` is true.

    `value` is cast to the element type; it and `mask` (`tl.int1`) are broadcast to the shape of the
    pointers. `cache_modifier` is "", ".wb", ".cg", ".cs" or ".wt". Raises `CompilationError` if
    `pointer` is not a pointer, or if the shape of `value` or `mask` does not broadcast to that of
    the pointers.
    """
def store_tensor_descriptor(
    desc: tensor_descriptor,
    offsets: Sequence[Tensor | float],
    value: Tensor | float,
) -> None:
    """Write the block of a descriptor whose first element has the index `offsets`.

    Also `desc.store(offsets, value)`. `value` is cast to the element type and broadcast to the
    block's shape; elements outside the array are not written.
    """
@overload
def sub(x: Tensor, y: Tensor | float, sanitize_overflow: bool = True) -> Tensor:
    """The difference `x - y`; for `sanitize_overflow` see `tl.add`."""
@overload
def sub(x: Tensor | float, y: Tensor, sanitize_overflow: bool = True) -> Tensor: ...
@overload
def sub(x: float, y: float, sanitize_overflow: bool = True) -> Any: ...
def sum(
    input: Tensor,
    axis: Any = None,
    keep_dims: bool = False,
    dtype: Any = None,
) -> Tensor:
    """The sum along `axis`, computed in `dtype` if given.

    Otherwise narrow integers are summed in int32 or uint32 according to their signedness, booleans
    in int32, and every other type in its own type. Use `dtype=tl.float32` for float16 and bfloat16.
    The order of additions is not defined.
    """
def swizzle2d(
    i: Tensor | float,
    j: Tensor | float,
    size_i: Tensor | float,
    size_j: Tensor | float,
    size_g: Tensor | float,
) -> tuple[Any, Any]:
    """Map cell (`i`, `j`) of a grid of `size_i` by `size_j` cells to its swizzled position.

    Row-major order becomes column-major order within each group of `size_g` rows, so that
    concurrent programs share more of their data. The last group may have fewer rows.
    """
def tanh(x: Tensor | float) -> Tensor:
    """The hyperbolic tangent."""
def to_tensor(x: Tensor | float) -> Tensor:
    """A number as a scalar of the first type that can represent it: int32, uint32, ..., float32."""
def topk(x: Tensor, k: Any, dim: Any = None) -> Tensor:
    """The `k` greatest elements along axis `dim` (None: the last), in descending order.

    `k` is a compile-time power of two. NaN is the greatest element, as in `tl.sort`.
    """
def trans(input: Tensor, *dims: Any) -> Tensor:
    """Permute the axes of `input` to the order `dims`; without `dims`, swap the last two.

    Raises `CompilationError` if `dims` is not a permutation, or is absent for fewer than two axes.
    """
def uint_to_uniform_float(x: Tensor) -> Tensor:
    """Random integers of 32 or 64 bits as `tl.float32` uniform in [0, 1).

    The sign bit is folded away and the rest scaled, so that adjacent values are equally likely.
    """
def umulhi(x: Tensor | float, y: Tensor | float) -> Tensor:
    """The high half of the product of `x` and `y` as unsigned integers of 32 or 64 bits.

    Signed operands and results are reinterpreted as unsigned.
    """
def unsqueeze(input: Tensor | float, dim: Any) -> Tensor:
    """Insert an axis of extent 1 at position `dim` of the result."""
def view(input: Tensor | float, *shape: Any) -> Tensor:
    """The older name of `tl.reshape`."""
def where(condition: Tensor | float, x: Tensor | float, y: Tensor | float) -> Tensor:
    """Select `x` where the condition is true, else `y`, elementwise.

    `x` and `y` are promoted to one type, and all three are broadcast together. A condition that is
    not `tl.int1` is true where it is nonzero. Both `x` and `y` are computed everywhere, so loads in
    them need a mask of their own.
    """
def xor_sum(input: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """The bitwise exclusive or of integers along `axis`, in their own type."""
def zeros(shape: Any, dtype: Any) -> Tensor:
    """A tile of `shape` (compile-time ints, each a power of two) and type `dtype` filled with 0."""
def zeros_like(input: Tensor | float) -> Tensor:
    """A tile filled with 0 of the shape and type of `input`."""
__all__ = ['PYTHON_BUILTINS', 'PropagateNan', 'Tensor', 'abs', 'add', 'arange', 'argmax', 'argmin', 'associative_scan', 'assume', 'atomic_add', 'atomic_and', 'atomic_cas', 'atomic_max', 'atomic_min', 'atomic_or', 'atomic_xchg', 'atomic_xor', 'bfloat16', 'block_type', 'broadcast', 'broadcast_to', 'cast', 'cat', 'cdiv', 'ceil', 'clamp', 'condition', 'const', 'constexpr', 'cos', 'cumprod', 'cumsum', 'debug_barrier', 'device_assert', 'device_print', 'div_rn', 'dot', 'dtype', 'erf', 'exp', 'exp2', 'expand_dims', 'fdiv', 'flip', 'float8e4nv', 'float8e5', 'float16', 'float32', 'float64', 'floor', 'fma', 'full', 'gather', 'histogram', 'int1', 'int8', 'int16', 'int32', 'int64', 'interleave', 'join', 'load', 'load_tensor_descriptor', 'log', 'log2', 'make_tensor_descriptor', 'math', 'max', 'max_constancy', 'max_contiguous', 'maximum', 'min', 'minimum', 'mul', 'multiple_of', 'num_programs', 'pair_uniform_to_normal', 'permute', 'philox', 'philox_impl', 'pi32_t', 'pointer_type', 'program_id', 'rand', 'rand4x', 'randint', 'randint4x', 'randn', 'randn4x', 'range', 'ravel', 'reduce', 'reduce_or', 'reshape', 'rsqrt', 'sigmoid', 'sin', 'softmax', 'sort', 'split', 'sqrt', 'sqrt_rn', 'squeeze', 'static_assert', 'static_print', 'static_range', 'store', 'store_tensor_descriptor', 'sub', 'sum', 'swizzle2d', 'tanh', 'tensor', 'tensor_descriptor', 'to_tensor', 'topk', 'trans', 'uint8', 'uint16', 'uint32', 'uint64', 'uint_to_uniform_float', 'umulhi', 'unsqueeze', 'view', 'where', 'xor_sum', 'zeros', 'zeros_like']
