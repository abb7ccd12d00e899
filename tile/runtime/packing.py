"""From adapted arguments to those of a launch: arrays, and NumPy scalars of the right types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tile.brief import brief
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.dtypes import numpy_dtype
from tile.ir.types import F32, Kind, Pointer, Scalar
from tile.language.descriptor_parts import DescriptorParts
from tile.runtime.arguments import MockArray, adapt
from tile.runtime.device_arrays import DeviceArray
from tile.runtime.pointers import PointerArray
from tile.runtime.signature import ParameterType, spell_type
from tile.runtime.specialise import Constant, Leaf, Rule, runtime_key, spell_described

Pack = Callable[[Any], Any]


class Slot(NamedTuple):
    """One launch argument: whose parameter it is, what errors call it, and how it is made."""

    parameter: int
    label: str
    pack: Pack


def slots(parameter: int, name: str, leaf: Leaf) -> Iterator[Slot]:
    """The launch arguments that one parameter makes: none for a constant, several for a tuple."""
    if isinstance(leaf, ParameterType):
        yield Slot(parameter, name, _packer(leaf.type))
    elif isinstance(leaf, tuple):
        for index, part in enumerate(leaf):
            for slot in slots(parameter, f"{name}[{index}]", part):
                yield slot._replace(pack=functools.partial(_pack_item, slot.pack, index))


def _pack_item(pack: Pack, index: int, values: tuple[Any, ...]) -> Any:
    return pack(values[index])


def _packer(ty: Scalar | Pointer) -> Pack:
    if isinstance(ty, Pointer):
        return _memory
    if ty == F32:
        return _float32
    number = numpy_dtype(ty).type
    return functools.partial(_rounded, number) if ty.is_floating() else number


def _memory(value: Any) -> Any:
    if type(value) is MockArray:
        raise ArgumentTypeError(
            f"{brief(value)} stands for an array in kernel.warmup; a launch needs an array"
        )
    return value


def _rounded(number: Callable[[Any], Any], value: Any) -> Any:
    # Out of range means infinite, as in the conversion of a wider float: no cause for a warning.
    with np.errstate(over="ignore"):
        return number(value)


_F32_MAX = float(np.finfo(np.float32).max)


def _float32(value: Any) -> Any:
    number = float(value)  # as NumPy compares an np.float16 with others in 16 bits
    return np.float32(number) if -_F32_MAX <= number <= _F32_MAX else _rounded(np.float32, number)


def writeable(array: Any) -> bool:
    """Whether a kernel may write to an array, and to all that it points to."""
    if type(array) is DeviceArray:
        return array.writeable
    targets = array.targets if isinstance(array, PointerArray) else ()
    return bool(array.flags.writeable) and all(map(writeable, targets))


# -- arguments of a kernel that was compiled before they were seen


def fit(value: Any, leaf: Leaf, label: str) -> Any:
    """`value`, adapted, if it is what a kernel was compiled for.

    Numbers fit any type of their kind that holds them, and integers any float. Raises
    `ArgumentTypeError` for another type, and `ArgumentValueError` for a value out of range or not
    divisible as promised.
    """
    if isinstance(leaf, Constant):
        return leaf.value
    if isinstance(leaf, DescriptorParts):
        value = _fit_described(value, leaf, label)
    if isinstance(leaf, ParameterType):
        fitting = _fit_pointer if isinstance(leaf.type, Pointer) else _fit_number
        return fitting(adapt(value, label), leaf, label)
    if not isinstance(value, tuple) or len(value) != len(leaf):
        raise ArgumentTypeError(
            f"{label} is {brief(value)}, and the kernel was compiled for a tuple of {len(leaf)}"
        )
    parts = enumerate(zip(value, leaf, strict=True))
    return tuple(fit(item, part, f"item {i} of {label}") for i, (item, part) in parts)


def _fit_described(value: Any, leaf: DescriptorParts, label: str) -> DescriptorParts:
    """The parts of a descriptor with the block and padding that a kernel was compiled for."""
    given = adapt(value, label)
    wanted = spell_described(leaf)
    if not isinstance(given, DescriptorParts):
        raise ArgumentTypeError(
            f"{label} is {_spoken(value)}, and the kernel was compiled for {wanted}"
        )
    block, padding = given.block_shape.value, given.padding.value
    if (block, padding) != (leaf.block_shape.value, leaf.padding.value):
        raise ArgumentValueError(
            f"{label} has blocks of shape {list(block)} and {padding} outside the array, and the "
            f"kernel was compiled for {wanted}"
        )
    return given


def _fit_pointer(value: Any, wanted: ParameterType, label: str) -> Any:
    key = runtime_key(value, Rule(label, ones=False))
    plain = spell_type(wanted.type)
    if key not in (plain, str(ParameterType(wanted.type, 16))):
        raise ArgumentTypeError(f"{label} is {_spoken(value)}, {_compiled_for(wanted)}")
    if wanted.divisible > 1 and key == plain:
        raise ArgumentValueError(
            f"{label} lies at an address that is not divisible by {wanted.divisible}, "
            f"{_compiled_for(wanted)}"
        )
    return value


def _fit_number(value: Any, wanted: ParameterType, label: str) -> Any:
    ty = wanted.type
    assert isinstance(ty, Scalar)
    number = value.item() if isinstance(value, np.generic) else value
    if type(number) not in _NUMBERS[ty.kind]:
        raise ArgumentTypeError(f"{label} is {_spoken(value)}, {_compiled_for(wanted)}")
    if ty.kind is Kind.INT and not ty.min_value <= number <= ty.max_value:
        raise ArgumentValueError(
            f"{label} is {number}, {_compiled_for(wanted)}, which holds {ty.min_value} to "
            f"{ty.max_value}"
        )
    if wanted.divisible > 1 and number % wanted.divisible:
        raise ArgumentValueError(
            f"{label} is {number}, {_compiled_for(wanted)}: a multiple of {wanted.divisible}"
        )
    return number


_NUMBERS: dict[Kind, tuple[type, ...]] = {
    Kind.BOOL: (bool,),
    Kind.INT: (int,),
    Kind.FLOAT: (int, float),
}


def _spoken(value: Any) -> str:
    is_array = isinstance(value, np.ndarray | DeviceArray)
    return f"an array of {value.dtype}" if is_array else repr(value)


def _compiled_for(wanted: ParameterType) -> str:
    return f"and the kernel was compiled for {wanted}"
