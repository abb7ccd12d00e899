"""Run-time values: an array over all programs, or an affine index.

The array of a value of shape (m, n) has axes (program, m, n). An axis of extent 1 stands for a
value that is constant along it, whatever extent the type has: values that are equal in all programs
are stored once, a splat costs nothing, and NumPy's broadcasting does the rest. A scalar has only
the program axis.

Most operations of a kernel are index arithmetic. Integers and pointers that are affine in the
indices of their tile are therefore represented as an `Affine`:

    value[p, i, j] = base[p, i, j] + steps[0] * i + steps[1] * j

with a `base` that has extent 1 wherever possible. `x + tl.arange(0, 1024)` is then one number per
program, whatever the size of the tile, and a load through such a pointer is a strided view instead
of a gather.

The rules in `AFFINE` keep index arithmetic affine. A rule returns None if it does not apply, and
the operation's semantics run instead. Results are exact: a rule for integers proves with the bounds
it tracks that nothing wraps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tile.backends.interp.bytecode import rule_in
from tile.ir import semantics
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, memory, shape
from tile.ir.ops.arith import Predicate
from tile.ir.types import I64, Scalar

Array: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = npt.NDArray[np.intp]


class Affine:
    """Integers or addresses that are affine in the indices of their tile; see the top of the file.

    `base` is int64; `shape` is the tile's; `dtype` is that of the array it stands for. Integers
    have inclusive bounds `low` and `high`, with which rules prove that arithmetic does not wrap;
    addresses have none.
    """

    __slots__ = ("_array", "base", "dtype", "high", "low", "shape", "steps")

    def __init__(
        self,
        base: Array,
        steps: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        low: int = 0,
        high: int = 0,
    ) -> None:
        self.base = base
        self.steps = steps
        self.shape = shape
        self.dtype = dtype
        self.low = low
        self.high = high
        self._array: Array | None = None

    def array(self) -> Array:
        """Return the elements as an array; computed once."""
        if self._array is None:
            self._array = self._expand().astype(self.dtype, copy=False)
        return self._array

    def _expand(self) -> Array:
        total = self.base
        for axis, step in enumerate(self.steps):
            if step:
                total = total + ramp(self.shape, axis, step)
        return total

    def folded(self) -> Affine:
        """Return the same value, with steps 0 along axes on which the base varies."""
        steps, base = list(self.steps), self.base
        if base.size == base.shape[0]:
            return self
        for axis, step in enumerate(steps):
            if step and base.shape[axis + 1] != 1:
                base = base + ramp(self.shape, axis, step)
                steps[axis] = 0
        if base is self.base:
            return self
        return Affine(base, tuple(steps), self.shape, self.dtype, self.low, self.high)


def ramp(shape: Sequence[int], axis: int, step: int) -> Array:
    """Return the multiples of `step` along one axis of a tile, to be broadcast along the others."""
    numbers: Array = np.arange(shape[axis], dtype=np.int64) * step
    return numbers.reshape((-1,) + (1,) * (len(shape) - axis - 1))


class CheckedValue:
    """A value with poison, which only runs with checks create (`sanitizer/poison.py`)."""

    __slots__ = ()

    def array(self) -> Array:
        raise NotImplementedError

    def take_rows(self, rows: Rows) -> CheckedValue:
        """Return the value in some of the programs."""
        raise NotImplementedError

    def merged(self, parts: Sequence[tuple[Rows, RegisterValue]], programs: int) -> RegisterValue:
        """Merge parts, of which this value is one; see `merge`."""
        raise NotImplementedError


class Repeated:
    """A value that programs share: those of a row, or of a column, of a grid of programs.

    Program `r * columns + c` has `values[r]` if the values are `along` axis 0, the rows, and
    `values[c]` if they are along axis 1. Only loads create it; see `repeated.py`.
    """

    __slots__ = ("_array", "along", "columns", "rows", "values")

    def __init__(self, values: Array, rows: int, columns: int, along: int) -> None:
        self.values = values
        self.rows = rows
        self.columns = columns
        self.along = along
        self._array: Array | None = None

    def array(self) -> Array:
        """Return the value as an array, with a copy for each program; computed once."""
        if self._array is None:
            tile = self.values.shape[1:]
            once = self.values[:, None] if self.along == 0 else self.values[None]
            spread = np.broadcast_to(once, (self.rows, self.columns, *tile))
            self._array = spread.reshape(-1, *tile)
        return self._array

    def mapped(self, function: Callable[..., Any], *values: RegisterValue) -> Any:
        """Apply a function of each program's values to some, of which this is one.

        If the others are equal in all programs, its results are repeated like this value.
        """
        others = [array_of(value) for value in values if value is not self]
        if all(len(other) == 1 for other in others):
            once = [self.values if value is self else array_of(value) for value in values]
            results = function(*once)
            if isinstance(results, np.ndarray):
                return Repeated(results, self.rows, self.columns, self.along)
            return [Repeated(result, self.rows, self.columns, self.along) for result in results]
        return function(*map(array_of, values))


RunValue: TypeAlias = Array | Affine
RegisterValue: TypeAlias = Array | Affine | CheckedValue | Repeated


def array_of(value: RegisterValue) -> Array:
    """Return the value as an array; axes of extent 1 are kept."""
    return value if isinstance(value, np.ndarray) else value.array()


def optional_array(value: RegisterValue | None) -> Array | None:
    """Return an operand that may be absent as an array."""
    return None if value is None else array_of(value)


def full(value: RegisterValue, shape: tuple[int, ...]) -> Array:
    """Return the value as an array of the tile's full shape; the program axis is kept as it is."""
    array = array_of(value)
    target = array.shape[:1] + shape
    return array if array.shape == target else np.broadcast_to(array, target)


def broadcast_rows(value: RegisterValue, shape: tuple[int, ...], programs: int) -> Array:
    """Return the value as an array of the tile's full shape over all programs (a view)."""
    array, target = array_of(value), (programs, *shape)
    return array if array.shape == target else np.broadcast_to(array, target)


def is_true(mask: Array | None) -> bool:
    """Return True if a mask is known, at no cost, to be true everywhere."""
    return mask is None or (mask.size == 1 and bool(mask.item()))


def take(value: RegisterValue, rows: Rows) -> RegisterValue:
    """Return the value in some of the programs."""
    if isinstance(value, np.ndarray):
        return value if value.shape[0] == 1 else value[rows]
    if isinstance(value, CheckedValue):
        return value.take_rows(rows)
    if isinstance(value, Repeated):
        return value.array()[rows]
    if value.base.shape[0] == 1:
        return value
    base = value.base[rows]
    return Affine(base, value.steps, value.shape, value.dtype, value.low, value.high)


def merge(parts: Sequence[tuple[Rows, RegisterValue]], programs: int) -> RegisterValue:
    """Merge the parts of a value, in disjoint sets of rows that cover all `programs`."""
    for _, value in parts:
        if isinstance(value, CheckedValue):
            return value.merged(parts, programs)
    first = parts[0][1]
    if all(value is first for _, value in parts) and _uniform(first):
        return first
    affine = [(rows, value) for rows, value in parts if isinstance(value, Affine)]
    if len(affine) == len(parts) and len({value.steps for _, value in affine}) == 1:
        model = affine[0][1]
        base = _merge_arrays([(rows, value.base) for rows, value in affine], programs)
        low = min(value.low for _, value in affine)
        high = max(value.high for _, value in affine)
        return Affine(base, model.steps, model.shape, model.dtype, low, high)
    return _merge_arrays([(rows, array_of(value)) for rows, value in parts], programs)


def _uniform(value: RegisterValue) -> bool:
    array = value.base if isinstance(value, Affine) else array_of(value)
    return bool(array.shape[0] == 1)


def _merge_arrays(parts: Sequence[tuple[Rows, Array]], programs: int) -> Array:
    arrays = [array for _, array in parts]
    shape = (
        programs,
        *(max(extents) for extents in zip(*(a.shape[1:] for a in arrays), strict=True)),
    )
    merged = np.empty(shape, arrays[0].dtype)
    for rows, array in parts:
        merged[rows] = array
    return merged


def same(a: RegisterValue, b: RegisterValue) -> bool:
    """Return True if two values are equal in every bit of every program."""
    if a is b:
        return True
    x, y = np.broadcast_arrays(array_of(a), array_of(b))
    return x.tobytes() == y.tobytes()


Rule = Callable[..., RunValue | None]
# The rules that keep index arithmetic affine; each is called when some operand is an `Affine`.
AFFINE: dict[OpDef, Rule] = {}

ADDRESS = np.dtype(np.int64)
_MOST = I64.max_value


rule = rule_in(AFFINE)


def _fits(number: int) -> bool:
    return -_MOST <= number <= _MOST


def counting(op: Operation) -> Affine:
    """Return the value of an `arange`."""
    start, end = op["start"], op["end"]
    base = np.full((1, 1), start, np.int64)
    return Affine(base, (1,), (end - start,), np.dtype(np.int32), start, end - 1)


def _bounds(value: RunValue) -> tuple[int, int]:
    if isinstance(value, Affine):
        return value.low, value.high
    if value.size == 1:
        number = int(value.item())
        return number, number
    return int(value.min()), int(value.max())


def _parts(value: RunValue, rank: int) -> tuple[Array, tuple[int, ...]]:
    """Return the base and the steps of any integer value."""
    if isinstance(value, Affine):
        return value.base, value.steps
    return value.astype(np.int64, copy=False), (0,) * rank


def _fits_base(value: RunValue) -> bool:
    """Return True if a value is affine, or small enough to become a base."""
    return isinstance(value, Affine) or value.size <= value.shape[0] * 4096


def _integer(op: Operation) -> Scalar | None:
    element = op.results[0].type.element
    return element if isinstance(element, Scalar) and element.bits >= 8 else None


def _make_affine(
    base: Array, steps: tuple[int, ...], op: Operation, low: int, high: int
) -> RunValue | None:
    """Return an affine integer if its bounds prove that it fits the result's type, else None.

    Bases and steps are int64; values that need more bits, as large u64 do, give None.
    """
    integers = _integers(op)
    if integers is None:
        return None
    least, greatest, dtype, shape = integers
    if low < least or high > greatest or high - low > _MOST or not all(map(_fits, steps)):
        return None
    return Affine(base, steps, shape, dtype, low, high).folded()


@functools.lru_cache(maxsize=1 << 12)
def _integers(op: Operation) -> tuple[int, int, np.dtype[Any], tuple[int, ...]] | None:
    """Return the bounds, dtype and shape of an operation's integers; None for other results."""
    element = _integer(op)
    if element is None or not element.is_int():
        return None
    most = min(element.max_value, _MOST)
    return element.min_value, most, semantics.numpy_dtype(element), op.results[0].type.shape


@rule(arith.add, arith.sub)
def add_or_sub(op: Operation, x: RunValue, y: RunValue) -> RunValue | None:
    if not (_fits_base(x) and _fits_base(y)):
        return None
    (a, b), (c, d) = _bounds(x), _bounds(y)
    rank = op.results[0].type.rank
    (base_x, steps_x), (base_y, steps_y) = _parts(x, rank), _parts(y, rank)
    if op.defn is arith.sub:
        base_y, steps_y, c, d = -base_y, tuple(-step for step in steps_y), -d, -c
    steps = tuple(map(int.__add__, steps_x, steps_y))
    return _make_affine(base_x + base_y, steps, op, a + c, b + d)


@rule(arith.mul)
def mul(op: Operation, x: RunValue, y: RunValue) -> RunValue | None:
    if not isinstance(x, Affine):
        x, y = y, x
    if not isinstance(x, Affine) or isinstance(y, Affine) or y.size != 1:
        return None
    scale = int(y.flat[0])
    if not _fits(scale):
        return None
    low, high = sorted((x.low * scale, x.high * scale))
    return _make_affine(x.base * scale, tuple(s * scale for s in x.steps), op, low, high)


@rule(arith.rem)
def rem(op: Operation, x: RunValue, y: RunValue) -> RunValue | None:
    if isinstance(x, Affine) and x.low >= 0 and x.high < _bounds(y)[0]:
        return x
    return None


@rule(arith.cast)
def cast(op: Operation, x: Affine) -> RunValue | None:
    to = _integer(op)
    if to is None or not to.is_int():
        return None
    return _make_affine(x.base, x.steps, op, x.low, x.high)


@rule(arith.cmp)
def cmp(op: Operation, x: RunValue, y: RunValue) -> RunValue | None:
    if not isinstance(op.inputs[0].type.element, Scalar):
        return None
    (a, b), (c, d) = _bounds(x), _bounds(y)
    always, never = _DECIDED[op["predicate"]](a, b, c, d)
    if always or never:
        return _decided(op.results[0].type.rank, always)
    return None


@functools.cache
def _decided(rank: int, always: bool) -> Array:
    """Return a boolean that is equal everywhere."""
    decided = np.full((1,) * (1 + rank), always)
    decided.flags.writeable = False
    return decided


# For x in [a, b] and y in [c, d]: (True if the comparison always holds, True if it never does).
_DECIDED: dict[Predicate, Callable[[int, int, int, int], tuple[bool, bool]]] = {
    Predicate.LT: lambda a, b, c, d: (b < c, a >= d),
    Predicate.LE: lambda a, b, c, d: (b <= c, a > d),
    Predicate.GT: lambda a, b, c, d: (a > d, b <= c),
    Predicate.GE: lambda a, b, c, d: (a >= d, b < c),
    Predicate.EQ: lambda a, b, c, d: (a == b == c == d, b < c or d < a),
    Predicate.NE: lambda a, b, c, d: (b < c or d < a, a == b == c == d),
}


@rule(memory.addptr)
def addptr(op: Operation, ptr: RunValue, offset: RunValue) -> RunValue | None:
    if not (_fits_base(ptr) and _fits_base(offset)):
        return None
    result = op.results[0].type
    base_p, steps_p = _parts(ptr, result.rank)
    base_o, steps_o = _parts(offset, result.rank)
    stride = op["stride"]
    steps = tuple([p + o * stride for p, o in zip(steps_p, steps_o, strict=True)])
    if not all(map(_fits, steps)):
        return None
    return Affine(base_p + base_o * stride, steps, result.shape, ADDRESS).folded()


@rule(shape.expand_dims)
def expand_dims(op: Operation, x: Affine) -> RunValue | None:
    axis = op["axis"] + len(x.shape) + 1
    steps = (*x.steps[:axis], 0, *x.steps[axis:])
    base = x.base[(slice(None),) * (axis + 1) + (None,)]
    return Affine(base, steps, op.results[0].type.shape, x.dtype, x.low, x.high)


@rule(shape.broadcast)
def broadcast(op: Operation, x: Affine) -> RunValue | None:
    steps = tuple(step if n > 1 else 0 for step, n in zip(x.steps, x.shape, strict=True))
    return Affine(x.base, steps, op.results[0].type.shape, x.dtype, x.low, x.high)


@rule(shape.trans)
def trans(op: Operation, x: Affine) -> RunValue | None:
    order = op["order"]
    base = x.base.transpose((0, *(axis + 1 for axis in order)))
    steps = tuple(x.steps[axis] for axis in order)
    return Affine(base, steps, op.results[0].type.shape, x.dtype, x.low, x.high)


@rule(arith.hint)
def hint(op: Operation, x: Affine) -> RunValue | None:
    return x


@rule(arith.bitcast)
def bitcast(op: Operation, x: Affine) -> RunValue | None:
    same = x.dtype == ADDRESS and op.results[0].type.element.is_ptr()
    return Affine(x.base, x.steps, x.shape, ADDRESS) if same else None
