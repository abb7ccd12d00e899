"""Host-side tensor descriptors: arrays with bounds that a kernel reads and writes in blocks.

    a = tile.TensorDescriptor.from_tensor(x, [64, 32])
    kernel[grid](a, ...)

A kernel is specialized on the element type, the block's shape and the padding; the base, extents
and strides are runtime arguments. In signatures a descriptor is `tensordesc<fp16[64,32]>`, or with
NaN outside the array `tensordesc<fp16[64,32],nan>`.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.backends.capabilities import DescriptorMaker, MakerOf
from tile.errors import ArgumentTypeError, ArgumentValueError, TypeRuleError
from tile.ir.descriptor_type import Descriptor, Padding
from tile.ir.types import I32, I64, Pointer, Scalar
from tile.language.base.constexpr import constexpr
from tile.language.base.tensor import DescriptorParts
from tile.runtime.arguments.adapt import Adaptable, MockArray, adapt
from tile.runtime.arguments.device_arrays import DeviceArray, PointerArray, element_type
from tile.runtime.arguments.torch_tensors import is_plain_tensor, torch_dtype
from tile.short_repr import short_repr
from tile.tracebacks import public_class, trim

ALIGNMENT = Descriptor.ALIGNMENT
SIGNATURE = re.compile(r"tensordesc<(\w+)\[([\d,]*)\](?:,(\w+))?>")


@public_class
@dataclass(slots=True)  # which machine code reads, and writes in those that it makes
class TensorDescriptor(Adaptable):
    """An array of 1 to 5 axes that is contiguous along the last axis.

    base: an array, of which the address of the first element and the dtype are used.
    shape, strides: those of the described array, in elements.
    block_shape: the shape of the block that a kernel reads or writes at a time.
    padding: the value that it reads outside the array, "zero", or for floats "nan".
    round_f32_to_tf32: False; loads have no rounding, and True raises.

    The address and all strides except the last, which is 1, are multiples of 16 bytes. The extents
    of a block are powers of two, and its last axis has at least 16 bytes.

    Raises `ArgumentError` if one of these rules is violated, also at a launch, since fields are
    mutable.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        checked(self, "a TensorDescriptor")
        _check_rounding(self.round_f32_to_tf32)

    @classmethod
    def from_tensor(
        cls,
        tensor: Any,
        block_shape: Sequence[int],
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:
        """Return the descriptor of a whole array of NumPy, torch, CuPy or another library."""
        if cls is TensorDescriptor and not round_f32_to_tf32:
            made: TensorDescriptor | None = _making.make(tensor, block_shape, padding)
            if made is not None:
                return made
        bounds = _tensor_bounds(tensor, block_shape, padding)
        if bounds is None or round_f32_to_tf32 or cls is not TensorDescriptor:
            try:
                _check_rounding(round_f32_to_tf32)
                array = adapt(tensor, "the tensor of a TensorDescriptor")
                array = _memory(array, "a TensorDescriptor")
                return cls(tensor, array.shape, _strides_of(array), block_shape, padding)
            except Exception as error:
                trim(error)
                raise
        descriptor = cls.__new__(cls)  # `bounds` are checked, as `__init__` would check them again
        descriptor.base = tensor
        descriptor.shape, descriptor.strides = bounds
        descriptor.block_shape = block_shape
        descriptor.padding = padding
        descriptor.round_f32_to_tf32 = False
        _making.remember(tensor, block_shape, padding, bounds)
        return descriptor

    def adapted(self, label: str) -> DescriptorParts:
        """Return the descriptor as a launch argument; `label` names it in errors.

        Raises `ArgumentTypeError` for a base that is not an array, and `ArgumentValueError` for one
        that does not match the other fields.
        """
        return _parts(self, adapt(self.base, f"the base of {label}"), label)


def _check_rounding(rounded: bool) -> None:
    """Raise `ArgumentValueError` for loads that would be rounded."""
    if rounded:
        raise ArgumentValueError(
            "loads through a TensorDescriptor have no rounding: leave round_f32_to_tf32 out; "
            'that of dots with input_precision="tf32" is to the nearest tf32'
        )


Bounds = tuple[tuple[int, ...], tuple[int, ...]]


class _Making:
    """Makes descriptors of plain tensors by a backend's maker, if there is one."""

    def __init__(self) -> None:
        self.maker_of: MakerOf | None = None
        self.make: Callable[[Any, Any, Any], TensorDescriptor | None] = _make_none
        self._maker: DescriptorMaker | None = None

    def remember(self, tensor: Any, block: Any, padding: str, bounds: Bounds) -> None:
        """Let the maker make the next descriptor like that of a tensor, block and padding."""
        if self.maker_of is None:
            return
        if self._maker is None or self._maker.is_full:
            torch = sys.modules["torch"]
            tensors = torch.Tensor, torch.nn.Parameter
            self._maker = self.maker_of(TensorDescriptor, tensors, tensor)
            if self._maker is None:
                self.maker_of = None
                return
            self.make = self._maker.make
        self._maker.add(tensor, block, padding, bounds)


def _make_none(tensor: Any, block: Any, padding: str) -> None:
    """Leave all descriptors to `from_tensor`."""


_making = _Making()


def make_descriptors_by(maker_of: MakerOf, arguments: Sequence[Any]) -> None:
    """Make descriptors by a backend's maker, if one is among the arguments of a launch."""
    if _making.maker_of is None and any(type(one) is TensorDescriptor for one in arguments):
        _making.maker_of = maker_of


def _tensor_bounds(tensor: Any, block_shape: Sequence[int], padding: str) -> Bounds | None:
    """Return the shape and strides of the descriptor of a torch tensor, in under 2 us.

    Programs that make their descriptors in each call spend most of the launch here. None for any
    other array, and for a tensor that no descriptor describes.
    """
    if not is_plain_tensor(type(tensor)):
        return None
    try:
        facts = (tensor.dtype, tensor.layout, tensor.is_meta, tensor.shape, tensor.stride())
        return _checked_bounds(*facts, tuple(block_shape), padding)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None


@functools.lru_cache(maxsize=1024)
def _checked_bounds(
    dtype: Any,
    layout: Any,
    is_meta: bool,
    shape: Sequence[int],
    strides: Sequence[int],
    block: tuple[int, ...],
    padding: str,
) -> Bounds:
    """Return the shape and strides of a descriptor of such a tensor, in elements.

    Raises `ValueError` or an `ArgumentError` if there is no such descriptor.
    """
    if is_meta or str(layout) != "torch.strided":
        raise ValueError("the tensor has no plain memory")
    torch_dtype(dtype, "a TensorDescriptor")
    extents = tuple(map(int, shape))
    bounds = extents, _valid_strides(extents, tuple(map(int, strides)))
    check_fields(*bounds, block, padding, "a TensorDescriptor")
    return bounds


def _strides_of(array: Any) -> tuple[int, ...]:
    """Return the strides of an array in elements; those of axes of extent 1 are made valid."""
    size = array.dtype.itemsize
    for axis, step in enumerate(array.strides):
        if step % size:
            raise ArgumentValueError(
                f"a TensorDescriptor takes an array whose strides are whole elements; along axis "
                f"{axis} this one's is {step} bytes, and an element has {size}"
            )
    return _valid_strides(array.shape, [step // size for step in array.strides])


def _valid_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return strides with those of axes of extent 0 and 1, which are never used, made valid."""
    last = len(shape) - 1
    return tuple(
        stride if extent > 1 else 1 if axis == last else ALIGNMENT
        for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True))
    )


def checked(desc: TensorDescriptor, label: str) -> tuple[Padding, tuple[tuple[int, ...], ...]]:
    """Return the padding, and the shape, strides and block shape as plain integers.

    Raises `ArgumentError`, naming `label`, for fields that are inconsistent.
    """
    return check_fields(desc.shape, desc.strides, desc.block_shape, desc.padding, label)


def check_fields(
    shape: Sequence[int],
    strides: Sequence[int],
    block_shape: Sequence[int],
    padding: str,
    label: str,
) -> tuple[Padding, tuple[tuple[int, ...], ...]]:
    """Check the fields of a descriptor: see `checked`."""
    shape = _integers(shape, f"the shape of {label}")
    strides = _integers(strides, f"the strides of {label}")
    block = _integers(block_shape, f"the block_shape of {label}")
    if not len(shape) == len(strides) == len(block):
        raise ArgumentValueError(
            f"{label} has {len(shape)} extents, {len(strides)} strides and {len(block)} extents of "
            "a block; there must be one of each per axis"
        )
    if padding not in list(Padding):
        raise ArgumentValueError(
            f'the padding of {label} is "zero" or "nan", not {short_repr(padding)}'
        )
    if any(not 0 <= extent <= I32.max_value for extent in shape):
        raise ArgumentValueError(
            f"the extents of {label} are 0 to {I32.max_value}, not {list(shape)}"
        )
    if strides and strides[-1] != 1:
        raise ArgumentValueError(
            f"the last stride of {label} is 1, not {strides[-1]}: elements along the last axis are "
            "contiguous in memory"
        )
    return Padding(padding), (shape, strides, block)


def _integers(values: Any, name: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, values))
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"{name} is a sequence of integers, not {short_repr(values)}"
        ) from None


def _parts(desc: TensorDescriptor, base: Any, label: str) -> DescriptorParts:
    padding, (shape, strides, block) = checked(desc, label)
    _check_rounding(desc.round_f32_to_tf32)
    mock = isinstance(base, MockArray)
    element = base.element if mock else element_type(_memory(base, label).dtype, label)
    if isinstance(base, PointerArray) or not isinstance(element, Scalar):
        raise ArgumentTypeError(f"{label}: a descriptor has elements of a number type, no pointers")
    itemsize = element.itemsize
    descriptor_type(element, block, padding, label)
    for axis, stride in enumerate(strides[:-1]):
        if stride < 0 or stride * itemsize % ALIGNMENT:
            raise ArgumentValueError(
                f"the stride of {label} along axis {axis} is {stride} elements of {element.alias}, "
                f"{stride * itemsize} bytes; it is a multiple of {ALIGNMENT} bytes, "
                f"{ALIGNMENT // itemsize} elements, and not negative"
            )
    if not mock:
        _check_memory(base, shape, strides, label)
    return DescriptorParts(base, shape, strides, constexpr(block), constexpr(padding.value))


def _memory(base: Any, label: str) -> Any:
    """Return an adapted array, or raise `ArgumentTypeError` for anything else."""
    if not isinstance(base, np.ndarray | DeviceArray):
        raise ArgumentTypeError(f"the base of {label} is an array, not {short_repr(base)}")
    return base


def _check_memory(base: Any, shape: tuple[int, ...], strides: tuple[int, ...], label: str) -> None:
    """Raise `ArgumentValueError` for a misaligned address or bounds beyond the array's memory."""
    is_host = isinstance(base, np.ndarray)
    address = base.ctypes.data if is_host else base.address
    if address % ALIGNMENT:
        raise ArgumentValueError(
            f"the base of {label} lies at address {address:#x}, which is not a multiple of "
            f"{ALIGNMENT} bytes"
        )
    steps = zip(shape, strides, strict=True)
    needed = 0 if 0 in shape else 1 + sum((extent - 1) * step for extent, step in steps)
    steps = zip(base.shape, base.strides, strict=True)
    last_element = sum(max(0, (extent - 1) * step) for extent, step in steps) // base.dtype.itemsize
    available = 0 if base.size == 0 else 1 + last_element
    if needed > available:
        raise ArgumentValueError(
            f"{label} of shape {list(shape)} and strides {list(strides)} reaches {needed} elements "
            f"from its base, which has {available}"
        )


def descriptor_type(
    element: Scalar, block: tuple[int, ...], padding: Padding, label: str
) -> Descriptor:
    """Return the IR type, or raise `ArgumentValueError`, naming `label`, if it is invalid."""
    try:
        return _described(element, block, padding)
    except TypeRuleError as error:
        raise ArgumentValueError(f"{label}: {error.message}") from error


@functools.lru_cache(maxsize=1024)
def _described(element: Scalar, block: tuple[int, ...], padding: Padding) -> Descriptor:
    return Descriptor(block, element, padding)


# -- types in signatures


def spell_descriptor(pointer: str, block: Sequence[int], padding: str) -> str:
    """Return a descriptor's type as in signatures, from the type of a pointer to its elements."""
    element = pointer.lstrip("*").partition(":")[0]
    suffix = "" if padding == Padding.ZERO else f",{padding}"
    return f"tensordesc<{element}[{','.join(map(str, block))}]{suffix}>"


def signature_parts(text: str) -> tuple[str, tuple[int, ...], Padding] | None:
    """Parse a descriptor's type to element, block and padding; return None for any other text.

    Raises `ArgumentValueError` for a malformed one.
    """
    plain = text.replace(" ", "")
    if not plain.startswith("tensordesc"):
        return None
    match = SIGNATURE.fullmatch(plain)
    if match is None or match[3] not in (None, *Padding) or not all(match[2].split(",")):
        raise ArgumentValueError(
            f"{text!r}: a descriptor's type is written tensordesc<fp16[64,32]>, or with NaN "
            "outside the array tensordesc<fp16[64,32],nan>"
        )
    block = tuple(map(int, match[2].split(",")))
    return match[1], block, Padding(match[3] or Padding.ZERO)


def part_types(
    element: Scalar, rank: int
) -> tuple[Pointer, tuple[Scalar, ...], tuple[Scalar, ...]]:
    """Return the types of base, extents and strides (except the last) as kernel parameters."""
    return Pointer(element), (I32,) * rank, (I64,) * (rank - 1)
