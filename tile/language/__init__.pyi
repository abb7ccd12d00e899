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
        """A value known when the kernel is compiled.

        As an annotation, `BLOCK: tl.constexpr` makes a parameter one that the kernel is compiled for,
        and `x: tl.constexpr = 3` keeps a local name a plain number. As a wrapper, `LIMIT =
        tl.constexpr(8)` lets kernels read a global. Arithmetic outside kernels gives wrapped results.
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
    """An annotation: the kernel only reads through this pointer."""

class Tensor(_Value):
    """A handle on an IR value of a scalar, pointer, tile or descriptor type.

    A scalar has shape `()`. The value itself exists when the kernel runs; its type is known before.
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
        """The magnitude of floats and integers of any width; of the least integer that integer.

        A compile-time number gives a compile-time number.
        """
    def argmax(self, axis: Any, tie_break_left: bool = True, keep_dims: bool = False) -> Tensor:
        """The int32 index of the greatest element along `axis`; the lowest one, if so asked."""
    def argmin(self, axis: Any, tie_break_left: bool = True, keep_dims: bool = False) -> Tensor:
        """The int32 index of the least element along `axis`; the lowest one, if so asked."""
    def associative_scan(self, axis: Any, combine_fn: Any, reverse: bool = False) -> Tensor:
        """Each element of a tile, or of each of a tuple of tiles, combined with all before it.

        `combine_fn` is as in `tl.reduce`, and must be associative; it need not be commutative. Its
        first argument, or the first half of them, stands for what is before the second along `axis`; if
        `reverse`, for what is behind it. How elements are grouped is not defined.
        """
    def atomic_add(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Add `val` to memory in one step, and give what was there.

        Elements are int32, uint32, int64, uint64 or floats of 16 to 64 bits.
        `val` and `mask` are broadcast to the shape of `pointer` and `val` is cast to its element type;
        where the mask is false memory is left alone and the result is undefined. `sem` orders the
        accesses around it: "relaxed", "acquire", "release" or "acq_rel" (the default). `scope` says
        among whom it is atomic: "cta", "gpu" (the default) or "sys". Raises `CompilationError` or
        `TypeRuleError` for other arguments.
        """
    def atomic_and(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write memory `& val` (integers of 32 or 64 bits); else as `tl.atomic_add`."""
    def atomic_cas(
        self,
        cmp: Tensor | float,
        val: Tensor | float,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write `val` if memory holds `cmp` (the same bits), in one step, and give what was there.

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
        """Write the greater of memory and `val` (32 or 64 bits wide); else as `tl.atomic_add`."""
    def atomic_min(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write the lesser of memory and `val` (32 or 64 bits wide); else as `tl.atomic_add`."""
    def atomic_or(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write memory `| val` (integers of 32 or 64 bits); else as `tl.atomic_add`."""
    def atomic_xchg(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write `val` (32 or 64 bits wide), and give what was there; else as `tl.atomic_add`."""
    def atomic_xor(
        self,
        val: Tensor | float,
        mask: Tensor | float | None = None,
        sem: str | None = None,
        scope: str | None = None,
    ) -> Tensor:
        """Write memory `^ val` (integers of 32 or 64 bits); else as `tl.atomic_add`."""
    def broadcast_to(self, *shape: Any) -> Tensor:
        """`input` repeated to `shape`, given as one tuple or as several ints.

        A scalar takes any shape; a tile keeps its number of axes, and only extents of 1 may grow.
        Raises `CompilationError` for anything else.
        """
    def cast(
        self,
        dtype: Any,
        fp_downcast_rounding: str | None = None,
        bitcast: bool = False,
    ) -> Tensor:
        """`input` with elements of type `dtype`.

        Floats round to nearest even when they lose bits, or as `fp_downcast_rounding` says ("rtne",
        "rtz"). Casts to 8-bit floats saturate: what is larger, infinity too, becomes the largest finite
        number (448 in float8e4nv, 57344 in float8e5), where PyTorch and ml_dtypes give NaN or infinity;
        NaN stays NaN. To integers floats are cut off towards zero and saturate, and NaN becomes 0.
        Integers wrap; anything but zero is true.
        `bitcast` keeps the bits instead, between types of one width. Pointers convert to other pointers
        and to and from `tl.int64` and `tl.uint64`. Raises `CompilationError` for other conversions.
        """
    @overload
    def cdiv(self, div: Tensor | float) -> Tensor:
        """`x` divided by `div` and rounded up, for `x >= 0` and `div > 0`.

        Compile-time integers give a compile-time integer.
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
        """`x` limited to `min` up to `max`, of which `min` must not be the greater.

        A NaN in `x` gives `min`, or NaN with `tl.PropagateNan.ALL`. Types are as in `tl.minimum`.
        """
    def cos(self) -> Tensor:
        """The cosine of `x` radians."""
    def cumprod(self, axis: Any = 0, reverse: bool = False) -> Tensor:
        """The product of each element and all before it along `axis`, or all after it if `reverse`.

        Integers keep their type and wrap; bfloat16 is computed and given as float32.
        """
    def cumsum(self, axis: Any = 0, reverse: bool = False, dtype: Any = None) -> Tensor:
        """The sum of each element and all before it along `axis`, or all after it if `reverse`.

        Computed in `dtype` if given; else in the type that `tl.sum` takes, and float32 for bfloat16.
        """
    def erf(self) -> Tensor:
        """The error function."""
    def exp(self) -> Tensor:
        """E to the power `x`."""
    def exp2(self) -> Tensor:
        """2 to the power `x`. What is less than the least normal number may come out as zero."""
    def expand_dims(self, axis: Any) -> Tensor:
        """`input` with a new axis of extent 1 at each position of `axis`, an int or a tuple of ints.

        Positions count in the result, negative ones from its end. A scalar becomes a tile of one
        element. Raises `CompilationError` for a position outside the result or given twice.
        """
    def flip(self, dim: Any = None) -> Tensor:
        """`x` with its elements along axis `dim` (None: the last) in reverse."""
    def floor(self) -> Tensor:
        """The greatest integer not above `x`, as a float."""
    def gather(self, index: Tensor, axis: Any) -> Tensor:
        """The elements of `src` at positions `index` along `axis`, as `numpy.take_along_axis`.

        `index` is a tile of integers with as many axes as `src` and the same extents, but for `axis`;
        the result has its shape. What a position outside 0 to extent - 1 gives is not defined. Raises
        `CompilationError` or `TypeRuleError` for anything else.
        """
    def histogram(self, num_bins: Any, mask: Tensor | float | None = None) -> Tensor:
        """How often each of 0 to `num_bins` - 1 is an element of `input`, as an int32 tile.

        `num_bins` is a compile-time power of two, `input` a tile of integers with any axes, and `mask`,
        broadcast to its shape, says which elements count. Those outside the bins count nowhere. Raises
        `CompilationError` or `TypeRuleError` for anything else.
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
        """The greatest element along `axis`, NaNs passed over; if `return_indices` its index too.

        Types narrower than 32 bits are widened to float32 or int32, with indices only bfloat16 is. Of
        equal elements the index is the lowest, unless `return_indices_tie_break_left` is false, where
        any may be it.
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
        """The least element along `axis`, NaNs passed over; if `return_indices` its index too.

        Types narrower than 32 bits are widened to float32 or int32, with indices only bfloat16 is. Of
        equal elements the index is the lowest, unless `return_indices_tie_break_left` is false, where
        any may be it.
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
        """`input` with its axes in the order `dims`: axis k of the result is axis `dims[k]`.

        Raises `CompilationError` if `dims` is not a permutation of the axes.
        """
    def ravel(self, can_reorder: bool = False) -> Tensor:
        """The elements of `x` in row-major order as a tile of one axis."""
    def reduce(self, axis: Any, combine_fn: Any, keep_dims: bool = False) -> Tensor:
        """The elements of a tile, or of each of a tuple of tiles, combined along `axis` by a function.

        `combine_fn` is a `@tile.jit` function or one of the language. It takes two scalars, or for n
        tiles two groups of n, and returns one scalar or n, of the types of the tiles. It computes:
        arithmetic, comparisons, `tl.where`, `if`, but no memory and no loops. It must be associative
        and commutative: how elements are grouped and in which order is not defined. With axis None all
        elements are combined; `keep_dims` leaves the reduced axes with extent 1. The tiles of a tuple
        have one shape, and give a tuple. Raises `CompilationError` for anything else.
        """
    def reduce_or(self, axis: Any, keep_dims: bool = False) -> Tensor:
        """The bits of integers along `axis` combined by or; of booleans, whether any is true."""
    def reshape(self, *shape: Any, can_reorder: bool = False) -> Tensor:
        """The elements of `input` in row-major order as a tile of `shape`: one tuple or several ints.

        `can_reorder` allows another order; the order is kept all the same. Raises `CompilationError` or
        `TypeRuleError` if the number of elements would change.
        """
    def rsqrt(self) -> Tensor:
        """One over the square root."""
    def sigmoid(self) -> Tensor:
        """`1 / (1 + exp(-x))` of float32 or float64."""
    def sin(self) -> Tensor:
        """The sine of `x` radians."""
    def softmax(
        self,
        dim: Any = None,
        keep_dims: bool = False,
        ieee_rounding: bool = False,
    ) -> Tensor:
        """`exp(x)` scaled to sum 1 along axis `dim` (None: the first), as float32 or float64.

        The greatest element is taken off first, so nothing overflows. The result has the shape of `x`
        whatever `keep_dims` is; `ieee_rounding` asks for a division rounded to nearest.
        """
    def sort(self, dim: Any = None, descending: bool = False) -> Tensor:
        """`x` with its elements along axis `dim` (None: the last) in ascending or descending order.

        A NaN counts as greater than every number. Which of equal elements comes first, of the two zeros
        too, is not defined.
        """
    def split(self) -> tuple[Tensor, Tensor]:
        """The first and the second elements along the last axis, whose extent must be 2.

        Raises `CompilationError` for another extent.
        """
    def sqrt(self) -> Tensor:
        """The square root."""
    def sqrt_rn(self) -> Tensor:
        """The square root, rounded to nearest."""
    def squeeze(self, dim: Any) -> Tensor:
        """`input` without its axis `dim`, whose extent must be 1.

        Raises `CompilationError` for another extent, and for the only axis of a tile.
        """
    def sum(self, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> Tensor:
        """The sum along `axis`, computed in `dtype` if that is given.

        Else narrow integers are summed in int32 or uint32 by their signedness, booleans in int32, and
        every other type in its own; float16 and bfloat16 are better summed in `dtype=tl.float32`. The
        order in which elements are added is not defined.
        """
    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
    def to(
        self,
        dtype: Any,
        fp_downcast_rounding: str | None = None,
        bitcast: bool = False,
    ) -> Tensor:
        """`tl.cast` as a method."""
    def trans(self, *dims: Any) -> Tensor:
        """`input` with its axes in the order `dims`; without them the last two are exchanged.

        Raises `CompilationError` if `dims` is not a permutation, or is absent for fewer than two axes.
        """
    def unsqueeze(self, dim: Any) -> Tensor:
        """`input` with a new axis of extent 1 at position `dim` of the result."""
    def view(self, *shape: Any) -> Tensor:
        """`tl.reshape` under its older name."""
    def xor_sum(self, axis: Any = None, keep_dims: bool = False) -> Tensor:
        """The bits of integers along `axis` combined by exclusive or; the type stays."""

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
        """Combine `value` with a box of the array by `tl.atomic_add`, relaxed.

        Each element is combined in one step. Nothing is given back, and what is outside the array is
        left alone.
        """
    def atomic_and(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a box of the array by `tl.atomic_and`, relaxed.

        Each element is combined in one step. Nothing is given back, and what is outside the array is
        left alone.
        """
    def atomic_max(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a box of the array by `tl.atomic_max`, relaxed.

        Each element is combined in one step. Nothing is given back, and what is outside the array is
        left alone.
        """
    def atomic_min(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a box of the array by `tl.atomic_min`, relaxed.

        Each element is combined in one step. Nothing is given back, and what is outside the array is
        left alone.
        """
    def atomic_or(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a box of the array by `tl.atomic_or`, relaxed.

        Each element is combined in one step. Nothing is given back, and what is outside the array is
        left alone.
        """
    def atomic_xor(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Combine `value` with a box of the array by `tl.atomic_xor`, relaxed.

        Each element is combined in one step. Nothing is given back, and what is outside the array is
        left alone.
        """
    def gather(self, x_offsets: Tensor, y_offset: Tensor | float) -> Tensor:
        """Read parts of rows that need not be neighbours.

        The descriptor is of an array with two axes and has a block of shape (1, N). `x_offsets` is a
        tile of M integers, the rows, and `y_offset` the first of N columns; the result is of shape
        (M, N). What is outside the array is as for `load`.
        """
    def load(self, offsets: Sequence[Tensor | float]) -> Tensor:
        """Read the box of a descriptor whose first element has the index `offsets`.

        Also `desc.load(offsets)`. Offsets are integers, one for each axis; they may be negative.
        Elements outside the array are zero, or NaN if the descriptor was made so.
        """
    def scatter(self, value: Tensor, x_offsets: Tensor, y_offset: Tensor | float) -> None:
        """Write parts of rows that need not be neighbours; see `desc.gather`.

        `value` is of shape (M, N). Of several rows with one index any may be the one that stays.
        """
    def store(self, offsets: Sequence[Tensor | float], value: Tensor | float) -> None:
        """Write the box of a descriptor whose first element has the index `offsets`.

        Also `desc.store(offsets, value)`. `value` is cast to the element type and broadcast to the
        block's shape; what is outside the array is not written.
        """

class range:
    """`for i in tl.range(start, stop, step)`: a loop that runs in the kernel, with wishes about it.

    Bounds and step are integers, known at compile time or not. `num_stages` is the depth of
    software pipelining (None: the launch's), `loop_unroll_factor` how many turns become one. Called
    as Python's `range`: `tl.range(stop)`, `tl.range(start, stop)`. `flatten`, `warp_specialize` and
    `disallow_acc_multi_buffer` have no effect yet, nor has any of these in a loop that `break` or
    `return` may leave; a warning says so once. Raises `CompilationError` for a step of 0.
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
    """`for i in tl.static_range(start, stop, step)`: a loop unrolled while the kernel is compiled.

    All three must be known then, and `i` is a plain integer. Raises `CompilationError` otherwise.
    """
    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None: ...
    def __iter__(self) -> Iterator[int]: ...

class condition:
    """`while tl.condition(c)`: the condition of a loop with a wish about its form.

    `disable_licm` has no effect on such a loop; a warning says so once.
    """
    def __init__(self, arg1: Any, disable_licm: Any = False) -> None: ...

@overload
def abs(x: Tensor) -> Tensor:
    """The magnitude of floats and integers of any width; of the least integer that integer.

    A compile-time number gives a compile-time number.
    """
@overload
def abs(x: float) -> Any: ...
@overload
def add(x: Tensor, y: Tensor | float, sanitize_overflow: bool = True) -> Tensor:
    """`x + y`. Integers wrap; `sanitize_overflow` is accepted and changes nothing."""
@overload
def add(x: Tensor | float, y: Tensor, sanitize_overflow: bool = True) -> Tensor: ...
@overload
def add(x: float, y: float, sanitize_overflow: bool = True) -> Any: ...
def arange(start: Any, end: Any) -> Tensor:
    """The integers from `start` up to and without `end`, as a `tl.int32` tile of one axis.

    Both must be known at compile time and `end - start` must be a power of two. Raises
    `CompilationError` or `TypeRuleError` otherwise.
    """
def argmax(
    input: Tensor,
    axis: Any,
    tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor:
    """The int32 index of the greatest element along `axis`; the lowest one, if so asked."""
def argmin(
    input: Tensor,
    axis: Any,
    tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor:
    """The int32 index of the least element along `axis`; the lowest one, if so asked."""
def associative_scan(input: _T, axis: Any, combine_fn: Any, reverse: bool = False) -> _T:
    """Each element of a tile, or of each of a tuple of tiles, combined with all before it.

    `combine_fn` is as in `tl.reduce`, and must be associative; it need not be commutative. Its
    first argument, or the first half of them, stands for what is before the second along `axis`; if
    `reverse`, for what is behind it. How elements are grouped is not defined.
    """
def assume(cond: Any) -> None:
    """Promise that a scalar condition holds from here on, to the end of the block.

    A comparison, or several joined by `&`, tells the range of what it compares, so that index
    arithmetic on it may be known not to be negative; a remainder of zero tells a multiple, so that
    behind `tl.assume(n % 8 == 0)` rows of that length are accessed in wide pieces. If the promise
    is false nothing is defined.
    Raises `CompilationError` for a tile, and for a condition that is false at compile time.
    """
def atomic_add(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Add `val` to memory in one step, and give what was there.

    Elements are int32, uint32, int64, uint64 or floats of 16 to 64 bits.
    `val` and `mask` are broadcast to the shape of `pointer` and `val` is cast to its element type;
    where the mask is false memory is left alone and the result is undefined. `sem` orders the
    accesses around it: "relaxed", "acquire", "release" or "acq_rel" (the default). `scope` says
    among whom it is atomic: "cta", "gpu" (the default) or "sys". Raises `CompilationError` or
    `TypeRuleError` for other arguments.
    """
def atomic_and(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write memory `& val` (integers of 32 or 64 bits); else as `tl.atomic_add`."""
def atomic_cas(
    pointer: Tensor,
    cmp: Tensor | float,
    val: Tensor | float,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write `val` if memory holds `cmp` (the same bits), in one step, and give what was there.

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
    """Write the greater of memory and `val` (32 or 64 bits wide); else as `tl.atomic_add`."""
def atomic_min(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write the lesser of memory and `val` (32 or 64 bits wide); else as `tl.atomic_add`."""
def atomic_or(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write memory `| val` (integers of 32 or 64 bits); else as `tl.atomic_add`."""
def atomic_xchg(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write `val` (32 or 64 bits wide), and give what was there; else as `tl.atomic_add`."""
def atomic_xor(
    pointer: Tensor,
    val: Tensor | float,
    mask: Tensor | float | None = None,
    sem: str | None = None,
    scope: str | None = None,
) -> Tensor:
    """Write memory `^ val` (integers of 32 or 64 bits); else as `tl.atomic_add`."""
def block_type(element_ty: Any, shape: Sequence[int]) -> _Type:
    """The type of a tile of `shape`: what `x.type` is of such a tile `x`."""
def broadcast(input: Tensor | float, other: Tensor | float) -> tuple[Tensor, ...]:
    """Both inputs repeated to their common shape, by NumPy's rules; a tuple of two."""
def broadcast_to(input: Tensor | float, *shape: Any) -> Tensor:
    """`input` repeated to `shape`, given as one tuple or as several ints.

    A scalar takes any shape; a tile keeps its number of axes, and only extents of 1 may grow.
    Raises `CompilationError` for anything else.
    """
def cast(
    input: Tensor | float,
    dtype: Any,
    fp_downcast_rounding: str | None = None,
    bitcast: bool = False,
) -> Tensor:
    """`input` with elements of type `dtype`.

    Floats round to nearest even when they lose bits, or as `fp_downcast_rounding` says ("rtne",
    "rtz"). Casts to 8-bit floats saturate: what is larger, infinity too, becomes the largest finite
    number (448 in float8e4nv, 57344 in float8e5), where PyTorch and ml_dtypes give NaN or infinity;
    NaN stays NaN. To integers floats are cut off towards zero and saturate, and NaN becomes 0.
    Integers wrap; anything but zero is true.
    `bitcast` keeps the bits instead, between types of one width. Pointers convert to other pointers
    and to and from `tl.int64` and `tl.uint64`. Raises `CompilationError` for other conversions.
    """
def cat(input: Tensor, other: Tensor, can_reorder: bool = False, dim: Any = 0) -> Tensor:
    """`input` and behind it `other` along axis `dim`, which is twice as long.

    Both must have one type and shape, since extents are powers of two. `can_reorder` allows another
    order; the order is kept all the same.
    """
@overload
def cdiv(x: Tensor, div: Tensor | float) -> Tensor:
    """`x` divided by `div` and rounded up, for `x >= 0` and `div > 0`.

    Compile-time integers give a compile-time integer.
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
    """`x` limited to `min` up to `max`, of which `min` must not be the greater.

    A NaN in `x` gives `min`, or NaN with `tl.PropagateNan.ALL`. Types are as in `tl.minimum`.
    """
def cos(x: Tensor | float) -> Tensor:
    """The cosine of `x` radians."""
def cumprod(input: Tensor, axis: Any = 0, reverse: bool = False) -> Tensor:
    """The product of each element and all before it along `axis`, or all after it if `reverse`.

    Integers keep their type and wrap; bfloat16 is computed and given as float32.
    """
def cumsum(
    input: Tensor,
    axis: Any = 0,
    reverse: bool = False,
    dtype: Any = None,
) -> Tensor:
    """The sum of each element and all before it along `axis`, or all after it if `reverse`.

    Computed in `dtype` if given; else in the type that `tl.sum` takes, and float32 for bfloat16.
    """
def debug_barrier() -> None:
    """Let all threads that work on this program wait for each other."""
def device_assert(cond: Any, msg: Any = '', mask: Any = None) -> None:
    """Stop the launch with `DeviceAssertionError` where `cond` is false and `mask` is true.

    `cond` and `mask` are scalars or tiles, broadcast together; anything but zero is true.
    """
def device_print(prefix: Any, *args: Any, hex: bool = False) -> None:
    """Print a compile-time text and values from every program, integers in base 16 if `hex`."""
def div_rn(x: Tensor | float, y: Tensor | float) -> Tensor:
    """`x / y` of `tl.float32` or `tl.float64`, rounded to nearest."""
def dot(
    input: Tensor,
    other: Tensor,
    acc: Tensor | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: Any = float32,
) -> Tensor:
    """The matrix product `input @ other`, added to `acc` if that is given.

    `input` has shape MxK and `other` KxN, or with a third axis in front, a batch, BxMxK and BxKxN.
    Both have one element type: float16, bfloat16, float32, float64, int8, uint8 or an 8-bit float
    (of which two different ones may meet). The result has the type of `acc`; without it, it starts
    from zero and is int32 for integers, float64 for float64 and else `out_dtype`: float32, for
    float16 and 8-bit floats also float16.

    `input_precision` says how float32 factors are rounded: "ieee" (the default: not at all),
    "tf32", "tf32x3", "bf16x3" or "bf16x6". `allow_tf32=True` is the older way to say "tf32", which
    keeps 10 bits of mantissa: each factor is off by less than 2^-10 of itself, as some machines cut
    off what is behind them instead of rounding.

    A sum is off by at most K units in the last place, of the type of `acc`, of the sum of all
    products' magnitudes. Of 8-bit floats, some machines (sm_90a) add up products twice as fast if
    13 bits of mantissa will do for sums of them. `max_num_imprecise_acc` says of how many: from K
    on, a product is computed so and then added to `acc` in float32; from 2^30 on, so is the sum of
    all products in a loop. Without it, or with 0, no sum is.

    Raises `CompilationError` or `TypeRuleError` where types or shapes do not fit.
    """
def erf(x: Tensor | float) -> Tensor:
    """The error function."""
def exp(x: Tensor | float) -> Tensor:
    """E to the power `x`."""
def exp2(x: Tensor | float) -> Tensor:
    """2 to the power `x`. What is less than the least normal number may come out as zero."""
def expand_dims(input: Tensor | float, axis: Any) -> Tensor:
    """`input` with a new axis of extent 1 at each position of `axis`, an int or a tuple of ints.

    Positions count in the result, negative ones from its end. A scalar becomes a tile of one
    element. Raises `CompilationError` for a position outside the result or given twice.
    """
def fdiv(x: Tensor | float, y: Tensor | float, ieee_rounding: bool = False) -> Tensor:
    """`x / y` of floats, in their own type; rounded to nearest if `ieee_rounding`.

    Raises `CompilationError` if neither is a float.
    """
def flip(x: Tensor, dim: Any = None) -> Tensor:
    """`x` with its elements along axis `dim` (None: the last) in reverse."""
def floor(x: Tensor | float) -> Tensor:
    """The greatest integer not above `x`, as a float."""
def fma(x: Tensor | float, y: Tensor | float, z: Tensor | float) -> Tensor:
    """`x * y + z` of floats, rounded once; the operands are promoted and broadcast together."""
def full(shape: Any, value: Tensor | float, dtype: Any) -> Tensor:
    """A tile of `shape` (compile-time ints) filled with a number or scalar, cast to `dtype`.

    Shape `()` gives a scalar. Raises `CompilationError` if `value` is a tile.
    """
def gather(src: Tensor, index: Tensor, axis: Any) -> Tensor:
    """The elements of `src` at positions `index` along `axis`, as `numpy.take_along_axis`.

    `index` is a tile of integers with as many axes as `src` and the same extents, but for `axis`;
    the result has its shape. What a position outside 0 to extent - 1 gives is not defined. Raises
    `CompilationError` or `TypeRuleError` for anything else.
    """
def histogram(input: Tensor, num_bins: Any, mask: Tensor | float | None = None) -> Tensor:
    """How often each of 0 to `num_bins` - 1 is an element of `input`, as an int32 tile.

    `num_bins` is a compile-time power of two, `input` a tile of integers with any axes, and `mask`,
    broadcast to its shape, says which elements count. Those outside the bins count nowhere. Raises
    `CompilationError` or `TypeRuleError` for anything else.
    """
def interleave(a: Tensor | float, b: Tensor | float) -> Tensor:
    """The elements of `a` and `b` in turns along the last axis, which is twice as long.

    Types and shapes are as in `tl.join`; two scalars give a tile of two elements.
    """
def join(a: Tensor | float, b: Tensor | float) -> Tensor:
    """The elements of `a` and `b` in pairs, along a new last axis of extent 2.

    Both are broadcast together and must have one type; a Python number takes that of the other.
    Two scalars give a tile of two elements. Raises `CompilationError` for two types.
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

    `mask` (`tl.int1`) and `other` are broadcast with the pointers, `other` is cast to the element
    type. Where the mask is false nothing is read: the element is `other`'s, or undefined without
    it. `cache_modifier` is "", ".ca", ".cg" or ".cv"; `eviction_policy` "", "evict_first" or
    "evict_last": hints, which a loop's copies to shared memory keep as far as the machine has them,
    and which OpenCL has no words for. A volatile load is never merged or moved. Raises
    `CompilationError` if `pointer` is none, if a scalar pointer meets a tile as mask or other, for
    `other` without `mask` and for a mask that is no truth value.
    """
def load_tensor_descriptor(
    desc: tensor_descriptor,
    offsets: Sequence[Tensor | float],
) -> Tensor:
    """Read the box of a descriptor whose first element has the index `offsets`.

    Also `desc.load(offsets)`. Offsets are integers, one for each axis; they may be negative.
    Elements outside the array are zero, or NaN if the descriptor was made so.
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
    """A descriptor of the array at `base`, of 1 to 5 axes, accessed in boxes of `block_shape`.

    `shape` and `strides` are the array's, in elements. The last stride is 1, and the others and the
    address are multiples of 16 bytes. The extents of a box are powers of two and known when the
    kernel is compiled; along the last axis it has 16 bytes or more. `padding_option` says what
    loads give outside the array: "zero", or for floats "nan".

    The result has `load(offsets)`, `store(offsets, value)`, `gather(x_offsets, y_offset)`,
    `scatter(value, x_offsets, y_offset)`, `atomic_add(offsets, value)` and so on for `min`, `max`,
    `and`, `or`, `xor`; and `shape`, `strides`, `block_shape`, `dtype`. Raises `CompilationError`
    for arguments that break these rules.
    """
@overload
def max(
    input: Tensor,
    axis: Any = None,
    return_indices: Literal[False] = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor:
    """The greatest element along `axis`, NaNs passed over; if `return_indices` its index too.

    Types narrower than 32 bits are widened to float32 or int32, with indices only bfloat16 is. Of
    equal elements the index is the lowest, unless `return_indices_tie_break_left` is false, where
    any may be it.
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
    """`input`, with the promise that along axis k each run of `values[k]` elements is constant.

    Runs start at multiples of that number. `values` is a compile-time int or a tuple with one for
    each axis; of a false promise nothing is defined.
    """
def max_contiguous(input: Tensor | float, values: Any) -> Tensor:
    """`input`, with the promise that along axis k each run of `values[k]` elements counts up by 1.

    Runs start at multiples of that number. `values` is a compile-time int or a tuple with one for
    each axis; of a false promise nothing is defined.
    """
def maximum(
    x: Tensor | float,
    y: Tensor | float,
    propagate_nan: PropagateNan = PropagateNan.NONE,
) -> Tensor:
    """The greater of `x` and `y`; of a number and a NaN the number, unless NaNs propagate.

    Python numbers count as int32 or float32 here, and bfloat16 is computed and given as float32.
    """
@overload
def min(
    input: Tensor,
    axis: Any = None,
    return_indices: Literal[False] = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tensor:
    """The least element along `axis`, NaNs passed over; if `return_indices` its index too.

    Types narrower than 32 bits are widened to float32 or int32, with indices only bfloat16 is. Of
    equal elements the index is the lowest, unless `return_indices_tie_break_left` is false, where
    any may be it.
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

    Python numbers count as int32 or float32 here, and bfloat16 is computed and given as float32.
    """
@overload
def mul(x: Tensor, y: Tensor | float, sanitize_overflow: bool = True) -> Tensor:
    """`x * y`; for `sanitize_overflow` see `tl.add`."""
@overload
def mul(x: Tensor | float, y: Tensor, sanitize_overflow: bool = True) -> Tensor: ...
@overload
def mul(x: float, y: float, sanitize_overflow: bool = True) -> Any: ...
def multiple_of(input: Tensor | float, values: Any) -> Tensor:
    """`input`, with the promise that along axis k it consists of multiples of `values[k]`.

    Of elements that count up, it is the first of each run that is the multiple. `values` is a
    compile-time int or a tuple with one for each axis; of a false promise nothing is defined.
    """
def num_programs(axis: Any) -> Tensor:
    """The extent of the grid along `axis` (0, 1 or 2): a scalar `tl.int32`."""
def pair_uniform_to_normal(u1: Tensor, u2: Tensor) -> tuple[Tensor, Tensor]:
    """Two standard normal numbers from two uniform in [0, 1), by Box and Muller's transform."""
def permute(input: Tensor, *dims: Any) -> Tensor:
    """`input` with its axes in the order `dims`: axis k of the result is axis `dims[k]`.

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

    Counters are integers of one width: 32 bits give `tl.uint32` and take the seed's 64 bits as key,
    64 bits give `tl.uint64` and take the seed as the low word of the key. Raises `CompilationError`
    for others.
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
    """`n_rounds` rounds of Philox on counter (`c0`, `c1`, `c2`, `c3`) with key (`k0`, `k1`).

    All are `tl.uint32`, or all `tl.uint64`; the results have that type and the common shape.
    """
def program_id(axis: Any) -> Tensor:
    """The index of this program along `axis` (0, 1 or 2) of the grid: a scalar `tl.int32`."""
def rand(seed: Tensor | float, offset: Tensor | float, n_rounds: Any = 10) -> Tensor:
    """A block of `tl.float32` uniform in [0, 1), of the shape of `offset`."""
def rand4x(
    seed: Tensor | float,
    offset: Tensor | float,
    n_rounds: Any = 10,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four blocks of `tl.float32` uniform in [0, 1), each of the shape of `offset`."""
def randint(seed: Tensor | float, offset: Tensor | float, n_rounds: Any = 10) -> Tensor:
    """A block of random `tl.uint32`, of the shape of `offset`."""
def randint4x(
    seed: Tensor | float,
    offset: Tensor | float,
    n_rounds: Any = 10,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four blocks of random `tl.uint32`, of the shape of `offset`: the cheapest way to many.

    Each offset is a counter of its own; one of 64 bits gives two words of the counter, its low one
    first.
    """
def randn(seed: Tensor | float, offset: Tensor | float, n_rounds: Any = 10) -> Tensor:
    """A block of standard normal `tl.float32`, of the shape of `offset`."""
def randn4x(
    seed: Tensor | float,
    offset: Tensor | float,
    n_rounds: Any = 10,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four blocks of standard normal `tl.float32`, each of the shape of `offset`."""
def ravel(x: Tensor | float, can_reorder: bool = False) -> Tensor:
    """The elements of `x` in row-major order as a tile of one axis."""
def reduce(input: _T, axis: Any, combine_fn: Any, keep_dims: bool = False) -> _T:
    """The elements of a tile, or of each of a tuple of tiles, combined along `axis` by a function.

    `combine_fn` is a `@tile.jit` function or one of the language. It takes two scalars, or for n
    tiles two groups of n, and returns one scalar or n, of the types of the tiles. It computes:
    arithmetic, comparisons, `tl.where`, `if`, but no memory and no loops. It must be associative
    and commutative: how elements are grouped and in which order is not defined. With axis None all
    elements are combined; `keep_dims` leaves the reduced axes with extent 1. The tiles of a tuple
    have one shape, and give a tuple. Raises `CompilationError` for anything else.
    """
def reduce_or(input: Tensor, axis: Any, keep_dims: bool = False) -> Tensor:
    """The bits of integers along `axis` combined by or; of booleans, whether any is true."""
def reshape(input: Tensor | float, *shape: Any, can_reorder: bool = False) -> Tensor:
    """The elements of `input` in row-major order as a tile of `shape`: one tuple or several ints.

    `can_reorder` allows another order; the order is kept all the same. Raises `CompilationError` or
    `TypeRuleError` if the number of elements would change.
    """
def rsqrt(x: Tensor | float) -> Tensor:
    """One over the square root."""
@overload
def sigmoid(x: Tensor) -> Tensor:
    """`1 / (1 + exp(-x))` of float32 or float64."""
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
    """`exp(x)` scaled to sum 1 along axis `dim` (None: the first), as float32 or float64.

    The greatest element is taken off first, so nothing overflows. The result has the shape of `x`
    whatever `keep_dims` is; `ieee_rounding` asks for a division rounded to nearest.
    """
@overload
def softmax(
    x: float,
    dim: Any = None,
    keep_dims: bool = False,
    ieee_rounding: bool = False,
) -> Any: ...
def sort(x: Tensor, dim: Any = None, descending: bool = False) -> Tensor:
    """`x` with its elements along axis `dim` (None: the last) in ascending or descending order.

    A NaN counts as greater than every number. Which of equal elements comes first, of the two zeros
    too, is not defined.
    """
def split(a: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second elements along the last axis, whose extent must be 2.

    Raises `CompilationError` for another extent.
    """
def sqrt(x: Tensor | float) -> Tensor:
    """The square root."""
def sqrt_rn(x: Tensor | float) -> Tensor:
    """The square root, rounded to nearest."""
def squeeze(input: Tensor, dim: Any) -> Tensor:
    """`input` without its axis `dim`, whose extent must be 1.

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
    """Print while the kernel is compiled; of a value that exists only when it runs, its type."""
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
    `pointer` is none, or if the shape of `value` or `mask` does not broadcast to that of the
    pointers.
    """
def store_tensor_descriptor(
    desc: tensor_descriptor,
    offsets: Sequence[Tensor | float],
    value: Tensor | float,
) -> None:
    """Write the box of a descriptor whose first element has the index `offsets`.

    Also `desc.store(offsets, value)`. `value` is cast to the element type and broadcast to the
    block's shape; what is outside the array is not written.
    """
@overload
def sub(x: Tensor, y: Tensor | float, sanitize_overflow: bool = True) -> Tensor:
    """`x - y`; for `sanitize_overflow` see `tl.add`."""
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
    """The sum along `axis`, computed in `dtype` if that is given.

    Else narrow integers are summed in int32 or uint32 by their signedness, booleans in int32, and
    every other type in its own; float16 and bfloat16 are better summed in `dtype=tl.float32`. The
    order in which elements are added is not defined.
    """
def swizzle2d(
    i: Tensor | float,
    j: Tensor | float,
    size_i: Tensor | float,
    size_j: Tensor | float,
    size_g: Tensor | float,
) -> tuple[Any, Any]:
    """The place in another order of cell (`i`, `j`) of a grid of `size_i` by `size_j` cells.

    Row by row order becomes column by column order within each group of `size_g` rows, so that
    programs that run at one time share more of their data. The last group may have fewer rows.
    """
def tanh(x: Tensor | float) -> Tensor:
    """The hyperbolic tangent."""
def to_tensor(x: Tensor | float) -> Tensor:
    """A number as a scalar of the first type that holds it: int32, uint32, int64, ..., float32."""
def topk(x: Tensor, k: Any, dim: Any = None) -> Tensor:
    """The `k` greatest elements along axis `dim` (None: the last), the greatest first.

    `k` is a compile-time power of two. NaNs are as in `tl.sort`: greatest of all.
    """
def trans(input: Tensor, *dims: Any) -> Tensor:
    """`input` with its axes in the order `dims`; without them the last two are exchanged.

    Raises `CompilationError` if `dims` is not a permutation, or is absent for fewer than two axes.
    """
def uint_to_uniform_float(x: Tensor) -> Tensor:
    """Random integers of 32 or 64 bits as `tl.float32` uniform in [0, 1).

    The sign bit is folded away and the rest scaled, so that every value is as likely as its
    neighbours.
    """
def umulhi(x: Tensor | float, y: Tensor | float) -> Tensor:
    """The high half of the product of `x` and `y` as unsigned integers of 32 or 64 bits.

    Signed operands are taken by their bits, and so is the result.
    """
def unsqueeze(input: Tensor | float, dim: Any) -> Tensor:
    """`input` with a new axis of extent 1 at position `dim` of the result."""
def view(input: Tensor | float, *shape: Any) -> Tensor:
    """`tl.reshape` under its older name."""
def where(condition: Tensor | float, x: Tensor | float, y: Tensor | float) -> Tensor:
    """`x` where the condition holds, else `y`.

    `x` and `y` are promoted to one type, and all three are broadcast together. A condition that is
    not `tl.int1` counts as true where it is not zero. Both `x` and `y` are computed everywhere:
    what must not be loaded is left out by the mask of the load.
    """
def xor_sum(input: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """The bits of integers along `axis` combined by exclusive or; the type stays."""
def zeros(shape: Any, dtype: Any) -> Tensor:
    """A tile of `shape` (compile-time ints, each a power of two) and type `dtype` filled with 0."""
def zeros_like(input: Tensor | float) -> Tensor:
    """A tile filled with 0 of the shape and type of `input`."""
__all__ = ['PYTHON_BUILTINS', 'PropagateNan', 'Tensor', 'abs', 'add', 'arange', 'argmax', 'argmin', 'associative_scan', 'assume', 'atomic_add', 'atomic_and', 'atomic_cas', 'atomic_max', 'atomic_min', 'atomic_or', 'atomic_xchg', 'atomic_xor', 'bfloat16', 'block_type', 'broadcast', 'broadcast_to', 'cast', 'cat', 'cdiv', 'ceil', 'clamp', 'condition', 'const', 'constexpr', 'cos', 'cumprod', 'cumsum', 'debug_barrier', 'device_assert', 'device_print', 'div_rn', 'dot', 'dtype', 'erf', 'exp', 'exp2', 'expand_dims', 'fdiv', 'flip', 'float8e4nv', 'float8e5', 'float16', 'float32', 'float64', 'floor', 'fma', 'full', 'gather', 'histogram', 'int1', 'int8', 'int16', 'int32', 'int64', 'interleave', 'join', 'load', 'load_tensor_descriptor', 'log', 'log2', 'make_tensor_descriptor', 'math', 'max', 'max_constancy', 'max_contiguous', 'maximum', 'min', 'minimum', 'mul', 'multiple_of', 'num_programs', 'pair_uniform_to_normal', 'permute', 'philox', 'philox_impl', 'pi32_t', 'pointer_type', 'program_id', 'rand', 'rand4x', 'randint', 'randint4x', 'randn', 'randn4x', 'range', 'ravel', 'reduce', 'reduce_or', 'reshape', 'rsqrt', 'sigmoid', 'sin', 'softmax', 'sort', 'split', 'sqrt', 'sqrt_rn', 'squeeze', 'static_assert', 'static_print', 'static_range', 'store', 'store_tensor_descriptor', 'sub', 'sum', 'swizzle2d', 'tanh', 'tensor', 'tensor_descriptor', 'to_tensor', 'topk', 'trans', 'uint8', 'uint16', 'uint32', 'uint64', 'uint_to_uniform_float', 'umulhi', 'unsqueeze', 'view', 'where', 'xor_sum', 'zeros', 'zeros_like']
