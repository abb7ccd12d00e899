"""Pack adapted arguments for a launch: as arrays, and NumPy scalars of the parameter's types."""

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
from tile.runtime.specialise import Constant, Leaf, Rule, runtime_key, spell_descriptor_leaf

Pack = Callable[[Any], Any]


class LaunchArgument(NamedTuple):
    """One launch argument: the index of its parameter, its label in errors, and its packer."""

    parameter: int
    label: str
    pack: Pack


def launch_arguments_of(parameter: int, name: str, leaf: Leaf) -> Iterator[LaunchArgument]:
    """Yield the launch arguments of one parameter: none for a constant, several for a tuple."""
    if isinstance(leaf, ParameterType):
        yield LaunchArgument(parameter, name, _packer(leaf.type))
    elif isinstance(leaf, tuple):
        for index, part in enumerate(leaf):
            for argument in launch_arguments_of(parameter, f"{name}[{index}]", part):
                yield argument._replace(pack=functools.partial(_pack_item, argument.pack, index))


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
    # Overflow gives infinity, as in the conversion of a wider float; do not warn.
    with np.errstate(over="ignore"):
        return number(value)


_F32_MAX = float(np.finfo(np.float32).max)


def _float32(value: Any) -> Any:
    number = float(value)  # NumPy would compare an np.float16 in 16 bits
    return np.float32(number) if -_F32_MAX <= number <= _F32_MAX else _rounded(np.float32, number)


def writeable(array: Any) -> bool:
    """Return True if a kernel may write to an array and to the arrays that it points to."""
    if type(array) is DeviceArray:
        return array.writeable
    targets = array.targets if isinstance(array, PointerArray) else ()
    return bool(array.flags.writeable) and all(map(writeable, targets))


# -- arguments of a kernel that was compiled ahead of time


def fit(value: Any, leaf: Leaf, label: str) -> Any:
    """Return `value`, adapted, if it matches the type for which a kernel was compiled.

    Numbers match any type of their kind that can represent them, and integers any float. Raises
    `ArgumentTypeError` for another type, and `ArgumentValueError` for a value that is out of range
    or lacks the divisibility of the type.
    """
    if isinstance(leaf, Constant):
        return leaf.value
    if isinstance(leaf, DescriptorParts):
        value = _fit_descriptor(value, leaf, label)
    if isinstance(leaf, ParameterType):
        fitting = _fit_pointer if isinstance(leaf.type, Pointer) else _fit_number
        return fitting(adapt(value, label), leaf, label)
    if not isinstance(value, tuple) or len(value) != len(leaf):
        raise ArgumentTypeError(
            f"{label} is {brief(value)}, and the kernel was compiled for a tuple of {len(leaf)}"
        )
    parts = enumerate(zip(value, leaf, strict=True))
    return tuple(fit(item, part, f"item {i} of {label}") for i, (item, part) in parts)


def _fit_descriptor(value: Any, leaf: DescriptorParts, label: str) -> DescriptorParts:
    """Return the parts of a descriptor, whose block and padding must match the kernel's."""
    parts = adapt(value, label)
    expected = spell_descriptor_leaf(leaf)
    if not isinstance(parts, DescriptorParts):
        raise ArgumentTypeError(
            f"{label} is {_description(value)}, and the kernel was compiled for {expected}"
        )
    block, padding = parts.block_shape.value, parts.padding.value
    if (block, padding) != (leaf.block_shape.value, leaf.padding.value):
        raise ArgumentValueError(
            f"{label} has blocks of shape {list(block)} and {padding} outside the array, and the "
            f"kernel was compiled for {expected}"
        )
    return parts


def _fit_pointer(value: Any, expected: ParameterType, label: str) -> Any:
    key = runtime_key(value, Rule(label, ones=False))
    plain = spell_type(expected.type)
    if key not in (plain, str(ParameterType(expected.type, 16))):
        raise ArgumentTypeError(f"{label} is {_description(value)}, {_compiled_for(expected)}")
    if expected.divisible > 1 and key == plain:
        raise ArgumentValueError(
            f"{label} lies at an address that is not divisible by {expected.divisible}, "
            f"{_compiled_for(expected)}"
        )
    return value


def _fit_number(value: Any, expected: ParameterType, label: str) -> Any:
    ty = expected.type
    assert isinstance(ty, Scalar)
    number = value.item() if isinstance(value, np.generic) else value
    if type(number) not in _NUMBERS[ty.kind]:
        raise ArgumentTypeError(f"{label} is {_description(value)}, {_compiled_for(expected)}")
    if ty.kind is Kind.INT and not ty.min_value <= number <= ty.max_value:
        raise ArgumentValueError(
            f"{label} is {number}, {_compiled_for(expected)}, which holds {ty.min_value} to "
            f"{ty.max_value}"
        )
    if expected.divisible > 1 and number % expected.divisible:
        raise ArgumentValueError(
            f"{label} is {number}, {_compiled_for(expected)}: a multiple of {expected.divisible}"
        )
    return number


_NUMBERS: dict[Kind, tuple[type, ...]] = {
    Kind.BOOL: (bool,),
    Kind.INT: (int,),
    Kind.FLOAT: (int, float),
}


def _description(value: Any) -> str:
    is_array = isinstance(value, np.ndarray | DeviceArray)
    return f"an array of {value.dtype}" if is_array else repr(value)


def _compiled_for(expected: ParameterType) -> str:
    return f"and the kernel was compiled for {expected}"
