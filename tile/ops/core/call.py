"""The arguments of one call of an op, checked before anything is launched or written.

    call = Call("softmax")
    x = call.array("x", x)                           an Operand: shape, strides, dtype
    out = call.output("out", out, x.shape, x.dtype)  the caller's array, or a new one

Every check raises an `ArgumentError` that names the op and the argument, says what is wrong with
it and what would be right.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tile import backends
from tile.backends.capabilities import ThreadLowering
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ops.core.call_records import ALIGNMENT, recorder
from tile.ops.core.new_arrays import DType, Shape, new_array, row_major
from tile.runtime.arguments.adapt import adapt
from tile.runtime.arguments.device_arrays import DeviceArray
from tile.runtime.arguments.overlap import address_range, may_overlap, overlapping
from tile.runtime.target_selection import target_of, target_text
from tile.short_repr import short_repr

HOST = "host memory"
MOST_INTEGER = 2**31 - 1  # of extents and counts, which kernels take as 32-bit integers
MOST_BYTES = 2**48  # of an array
MAX_WORK: Any = 10_000  # of `np.shares_memory`, whose worst case is exponential
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
BF16 = np.dtype(ml_dtypes.bfloat16)
I8, I32, I64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.int64)
FLOATS: tuple[DType, ...] = (F16, BF16, F32, F64)
INDICES: tuple[DType, ...] = (I32, I64)


@dataclass(frozen=True)
class Rows:
    """An array as a matrix whose rows are its last axis; `stride` is in elements."""

    count: int
    length: int
    stride: int


@dataclass(frozen=True)
class Operand:
    """An array argument: `value` as it was passed, and its properties; strides are in elements."""

    op: str
    name: str
    value: Any
    shape: Shape
    strides: tuple[int, ...]
    dtype: DType
    device: str
    memory: np.ndarray[Any, Any] | None  # on the host

    @property
    def host(self) -> np.ndarray[Any, Any] | None:
        """The array in host memory, or None. What it contains is no part of a call plan's key."""
        if self.memory is not None and (recording := recorder()) is not None:
            recording.refuse()
        return self.memory

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def span(self) -> int:
        """The bytes from its first element to the end of its last one; negative if not so."""
        if self.size == 0:
            return 0
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        return -1 if min(steps, default=0) < 0 else (sum(steps) + 1) * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        return self.size == 0 or all(
            extent == 1 or stride == step
            for extent, stride, step in zip(
                self.shape, self.strides, row_major(self.shape), strict=True
            )
        )

    def rows(self) -> Rows:
        """Return the array as rows along its last axis, which must be contiguous.

        Raises `ArgumentValueError` if one stride does not lead from each row to the next.
        """
        *leading, length = self.shape
        rows = [(n, s) for n, s in zip(leading, self.strides, strict=False) if n != 1]
        regular = all(outer[1] == inner[0] * inner[1] for outer, inner in itertools.pairwise(rows))
        if self.size and not (regular and (length == 1 or self.strides[-1] == 1)):
            raise ArgumentValueError(
                f"{self.op}: `{self.name}` has shape {self.shape} and strides {self.strides} in "
                "elements; its last axis must be contiguous, and its rows one stride apart: pass "
                "a contiguous copy"
            )
        return Rows(math.prod(leading), length, rows[-1][1] if rows else length)

    def contiguous(self) -> Operand:
        """Return the operand; raise `ArgumentValueError` unless it is contiguous, row-major."""
        if not self.is_contiguous:
            raise ArgumentValueError(
                f"{self.op}: `{self.name}` has shape {self.shape} and strides {self.strides} in "
                "elements; it must be contiguous: pass a contiguous copy"
            )
        return self

    def last_contiguous(self) -> Operand:
        """Return the operand; raise `ArgumentValueError` unless its last axis is contiguous."""
        if self.size and self.shape[-1] != 1 and self.strides[-1] != 1:
            raise ArgumentValueError(
                f"{self.op}: `{self.name}` has shape {self.shape} and strides {self.strides} in "
                "elements; its last axis must be contiguous: pass a contiguous copy"
            )
        return self

    def within(self, low: int, high: int, besides: int | None = None) -> Operand:
        """Return the operand; raise `ArgumentValueError` for elements outside low to high - 1.

        besides: another value that elements may have. Arrays in device memory are not read: kernels
        assert the same (`tl.device_assert`).
        """
        elements = self.host
        if elements is not None:
            wrong = (elements < low) | (elements >= high)
            if besides is not None:
                wrong &= elements != besides
            if wrong.any():
                range_text = f"{low} to {high - 1}" if low < high else "none (the range is empty)"
                raise ArgumentValueError(
                    f"{self.op}: `{self.name}` contains {elements[wrong].flat[0]}; its elements "
                    f"must be {range_text}" + f" or {besides}" * (besides is not None)
                )
        return self


class Call:
    """The operands of one call of an op; all are in the memory of one device."""

    def __init__(self, op: str) -> None:
        self.op = op
        self.operands: list[Operand] = []
        self._adapted: list[Any] = []

    def array(
        self,
        name: str,
        value: Any,
        *,
        dtypes: Sequence[DType] = FLOATS,
        rank: int | None = None,
        shape: Shape | None = None,
    ) -> Operand:
        """Return an array argument.

        dtypes: those that the op takes. rank: the number of axes; None is at least one. shape: the
        shape that it must have. Raises `ArgumentError` for anything else.
        """
        adapted = adapt(value, f"`{name}` of {self.op}")
        if not isinstance(adapted, np.ndarray | DeviceArray):
            raise ArgumentTypeError(f"{self.op}: `{name}` is {short_repr(value)}; it is an array")
        dtype, extents = adapted.dtype, tuple(adapted.shape)
        if dtype not in dtypes:
            raise ArgumentTypeError(
                f"{self.op}: `{name}` has dtype {dtype}; it takes {_names(dtypes)}"
            )
        if len(extents) != rank if rank is not None else not extents:
            axes = "1 axis or more" if rank is None else f"{rank} axes"
            raise ArgumentValueError(
                f"{self.op}: `{name}` has shape {extents}; it must have {axes}"
            )
        if shape is not None and extents != shape:
            raise ArgumentValueError(f"{self.op}: `{name}` has shape {extents}; it must be {shape}")
        device = adapted.device if isinstance(adapted, DeviceArray) else HOST
        strides = tuple(step // dtype.itemsize for step in adapted.strides)
        host = adapted if isinstance(adapted, np.ndarray) else None
        operand = Operand(self.op, name, value, extents, strides, dtype, device, host)
        self._require_same_device(operand)
        self.operands.append(operand)
        self._adapted.append(adapted)
        recording = recorder()
        if recording is not None:
            recording.add_operand(value, operand.span)
        return operand

    def like(self, first: Operand, **arrays: Any) -> list[Operand]:
        """Return contiguous arrays, by name, of the shape and type of the first one."""
        options: Any = {"dtypes": (first.dtype,), "rank": len(first.shape), "shape": first.shape}
        return [self.array(name, x, **options).contiguous() for name, x in arrays.items()]

    def vectors(self, count: int, dtypes: Sequence[DType] = FLOATS, **arrays: Any) -> list[Operand]:
        """Return contiguous arrays, by name, of one axis of `count` elements."""
        options: Any = {"dtypes": dtypes, "rank": 1, "shape": (count,)}
        return [self.array(name, x, **options).contiguous() for name, x in arrays.items()]

    def matching(
        self, dtypes: Sequence[DType] = FLOATS, **arrays: tuple[Any, str]
    ) -> list[Operand]:
        """Return arrays of one type, whose axes of one name have one extent.

        arrays: each with its axes, as in `a=(a, "M x K"), b=(b, "K x N")`. dtypes: of the first.
        """
        operands: list[Operand] = []
        extents: dict[str, int] = {}
        for name, (value, axes) in arrays.items():
            kinds = (operands[0].dtype,) if operands else dtypes
            operands.append(self.array(name, value, dtypes=kinds, rank=len(axes.split(" x "))))
        texts = [axes for _, axes in arrays.values()]
        if not all(
            extents.setdefault(axis, extent) == extent
            for operand, axes in zip(operands, texts, strict=True)
            for axis, extent in zip(axes.split(" x "), operand.shape, strict=True)
        ):
            shapes = [f"`{operand.name}` {operand.shape}" for operand in operands]
            raise ArgumentValueError(
                f"{self.op}: {_listed(shapes).replace('` ', '` has shape ', 1)}; they must be "
                f"{_listed(texts)}"
            )
        return operands

    def output(
        self, name: str, value: Any, shape: Shape, dtype: DType, in_place: Sequence[str] = ()
    ) -> Operand:
        """Return an array to write: `value`, or if that is None a new one, like the first operand.

        in_place: the operands that it may be. Raises `ArgumentError` unless `value` is a writable
        array of this shape and dtype, which shares no memory with other operands.
        """
        if value is None:
            return self.new(shape, dtype, name)
        operand = self._writable(name, value, shape, dtype)
        self._require_apart({len(self.operands) - 1: in_place})
        return operand

    def outputs(
        self, name: str, values: Any, like: Sequence[Operand], in_place: Sequence[str] = ()
    ) -> list[Operand]:
        """Return a list of arrays to write, with the shapes and dtypes of `like`, as `output` does.

        in_place: the lists of operands whose arrays at the same places they may be.
        """
        if values is None:
            return [self.new(one.shape, one.dtype, f"{name}[{at}]") for at, one in enumerate(like)]
        first = len(self.operands)
        operands = [
            self._writable(f"{name}[{at}]", value, one.shape, one.dtype)
            for at, (value, one) in enumerate(zip(values, like, strict=True))
        ]
        self._require_apart(
            {first + at: [f"{other}[{at}]" for other in in_place] for at in range(len(operands))}
        )
        return operands

    def _writable(self, name: str, value: Any, shape: Shape, dtype: DType) -> Operand:
        operand = self.array(name, value, dtypes=(dtype,), rank=len(shape), shape=shape)
        adapted = self._adapted[-1]
        writable = adapted.flags.writeable if isinstance(adapted, np.ndarray) else adapted.writeable
        if not writable:
            raise ArgumentValueError(f"{self.op}: `{name}` is read-only")
        return operand

    def new(self, shape: Shape, dtype: DType, name: str = "a temporary array") -> Operand:
        """Return a new array like the first operand: a result, or one between kernels."""
        like = self.operands[0]
        if math.prod(shape) * dtype.itemsize > MOST_BYTES:
            raise ArgumentValueError(f"{self.op}: `{name}` would have the shape {shape}, too large")
        value = new_array(like.value, shape, dtype, self.op)
        recording = recorder()
        if recording is not None:
            recording.add_new(like.value, value, shape, dtype)
        return Operand(self.op, name, value, shape, row_major(shape), dtype, like.device, None)

    def number(
        self, name: str, value: Any, low: float = -math.inf, high: float = math.inf
    ) -> float:
        """Return a finite number from `low` to `high`, or raise `ArgumentError`."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ArgumentTypeError(
                f"{self.op}: `{name}` is {short_repr(value)}; it is a number"
            ) from None
        if not (math.isfinite(number) and low <= number <= high):
            raise ArgumentValueError(
                f"{self.op}: `{name}` is {short_repr(value)}; it must be {_interval(low, high)}"
            )
        return number

    def integer(
        self, name: str, value: Any, low: int = -MOST_INTEGER - 1, high: int = MOST_INTEGER
    ) -> int:
        """Return an integer from `low` to `high`, or raise `ArgumentError`."""
        try:
            integer = operator.index(value)
        except TypeError:
            raise ArgumentTypeError(
                f"{self.op}: `{name}` is {short_repr(value)}; it is an integer"
            ) from None
        if not low <= integer <= high:
            ends = f"{low} or more" if high == MOST_INTEGER else f"{low} to {high}"
            raise ArgumentValueError(
                f"{self.op}: `{name}` is {short_repr(value)}; it must be {ends}"
            )
        return integer

    def choice(self, name: str, value: Any, choices: Sequence[Any]) -> Any:
        """Return `value` if it is among `choices`; raise `ArgumentValueError` otherwise."""
        if value not in choices:
            raise ArgumentValueError(
                f"{self.op}: `{name}` is {short_repr(value)}; it must be one of "
                f"{', '.join(map(repr, choices))}"
            )
        return value

    def float_type(self, name: str, value: Any) -> DType:
        """Return the float type of this name, or raise `ArgumentValueError`."""
        kinds = {kind.name: kind for kind in FLOATS}
        return kinds[self.choice(name, value, tuple(kinds))]

    @property
    def backend(self) -> str:
        """The name of the backend that runs the kernels of this call."""
        return target_text(self._adapted).partition(":")[0]

    def describes(self, *operands: Operand) -> bool:
        """Return True if kernels can copy blocks of these arrays by TMA.

        One axis of each is contiguous then, the other strides and the addresses are multiples of 16
        bytes. A plan of this call is for such arrays. New arrays have such addresses.
        """
        numbers = {id(operand): number for number, operand in enumerate(self.operands)}
        for operand in operands:
            new = id(operand) not in numbers
            address = 0 if new else _address(self._adapted[numbers[id(operand)]])
            strides = list(operand.strides)
            if 1 not in strides:
                return False
            strides.remove(1)
            distances = [stride * operand.dtype.itemsize for stride in strides]
            if any(number % ALIGNMENT for number in (address, *distances)):
                return False
        if not self._has_tma():
            return False
        recording = recorder()
        if recording is not None:
            for operand in operands:
                if id(operand) in numbers:
                    recording.add_aligned(operand.value)
        return True

    def _has_tma(self) -> bool:
        target = target_of(self._adapted)
        backend = backends.get(target.backend)
        if not (target.arch and isinstance(backend, ThreadLowering)):  # the interpreter of tiles
            return False
        return backend.lowering_target(target).has_tma

    def _require_apart(self, outputs: Mapping[int, Sequence[str]]) -> None:
        """Raise `ArgumentValueError` if an array to write shares memory with another operand.

        outputs: by the numbers of operands to write, the names of those that they may be.
        """
        numbers: dict[str, int] = {}
        for number, operand in enumerate(self.operands):
            numbers.setdefault(operand.name, number)
        same = {
            output: {
                numbers[name]
                for name in in_place
                if name in numbers
                and self.operands[numbers[name]].strides == self.operands[output].strides
            }
            for output, in_place in outputs.items()
        }
        for one, other in sorted(self._overlaps()):
            output, read = (other, one) if other in outputs else (one, other)
            if output not in outputs:
                continue
            a, b = self._adapted[output], self._adapted[read]
            if not (read in same[output] and _address(a) == _address(b)) and _overlap(b, a):
                raise ArgumentValueError(
                    f"{self.op}: `{self.operands[output].name}` shares memory with "
                    f"`{self.operands[read].name}`, which programs may still read"
                )
        recording = recorder()
        if recording is not None:
            for output, others in same.items():
                values = [self.operands[other].value for other in others]
                recording.add_output(self.operands[output].value, values)

    def _overlaps(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of each two operands whose address ranges overlap, in their order."""
        ranges = [address_range(array) or (0, 0) for array in self._adapted]
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        return ((min(pair), max(pair)) for pair in overlapping(starts, ends))

    def _require_same_device(self, operand: Operand) -> None:
        for other in self.operands[:1]:
            if not _same_device(other.device, operand.device):
                raise ArgumentValueError(
                    f"{self.op}: `{operand.name}` is in {operand.device}, and `{other.name}` in "
                    f"{other.device}; the arrays of a call are on one device"
                )


def _same_device(a: str, b: str) -> bool:
    """Return True for equal devices; libraries that do not number theirs say only the kind."""
    kinds = a.partition(":")[0], b.partition(":")[0]
    return a == b or (kinds[0] == kinds[1] and (a in kinds or b in kinds))


def _address(array: Any) -> int:
    address: int = array.ctypes.data if isinstance(array, np.ndarray) else array.address
    return address


def _overlap(a: Any, b: Any) -> bool:
    """Return True if two arrays share memory, as far as that is known.

    Of OpenCL buffers it is not, nor of interleaved arrays in the memory of a device.
    """
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        try:
            return np.shares_memory(a, b, max_work=MAX_WORK)
        except np.exceptions.TooHardError:
            return True
    arrays = [array for array in (a, b) if isinstance(array, DeviceArray)]
    dense = all(x.span[1] - x.span[0] == x.size * x.dtype.itemsize for x in arrays)
    opencl = any(array.device.startswith("opencl") for array in arrays)
    return dense and not opencl and may_overlap(a, b)


def _names(dtypes: Sequence[DType]) -> str:
    *most, last = (dtype.name for dtype in dtypes)
    return f"{', '.join(most)} or {last}" if most else last


def _listed(texts: Sequence[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} and {last}"


def _interval(low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return "finite"
    if math.isinf(high):
        return f"{low:g} or more"
    if math.isinf(low):
        return f"at most {high:g}"
    return f"{low:g} to {high:g}"


def accumulator(dtype: DType) -> DType:
    """Return the type of the arithmetic on elements of `dtype`, as `widen` has it in kernels."""
    return F64 if dtype == F64 else F32
