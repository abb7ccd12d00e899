"""Specialization keys of arguments, and the leaves (types and constants) that they stand for.

A runtime argument's key is its type as in signatures, `"*fp32:16"` or `"i32"`. The key of a
constant is a tuple of its type and value, and that of a tuple the tuple of its items' keys. Two
launches with equal keys run the same compiled kernel, so a key includes everything about an
argument that the compiler uses. Computing a key is cheap: a table lookup by the argument's type,
without allocation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.descriptor_type import Padding
from tile.ir.numpy_dtypes import SCALAR_OF_DTYPE, numpy_dtype
from tile.ir.types import F32, I1, I32, I64, U64, Kind, Pointer, Scalar
from tile.language.base.constexpr import constexpr
from tile.language.base.tensor import DescriptorParts
from tile.runtime.arguments.adapt import MockArray, retuple
from tile.runtime.arguments.device_arrays import (
    Array,
    DeviceArray,
    DType,
    PointerArray,
    element_type,
)
from tile.runtime.arguments.storage_view import StorageView
from tile.runtime.arguments.tensor_descriptor import part_types, spell_descriptor
from tile.runtime.arguments.uninitialized import EmptyArray
from tile.runtime.signature import (
    DIVISOR,
    DIVISORS,
    ParameterType,
    parse_signature_type,
    spell_type,
)
from tile.short_repr import join_values, short_repr

Key: TypeAlias = Hashable


@dataclass(frozen=True)
class Constant:
    """A compile-time value of a parameter."""

    value: Any


Leaf: TypeAlias = "ParameterType | Constant | tuple[Leaf, ...]"


@dataclass(frozen=True, slots=True)
class Rule:
    """The specialization rule for the arguments of one parameter.

    label: the name of the parameter in errors.
    ones: True if the integer 1 becomes a constant.
    alignment: True to specialize on divisibility, of integers by `DIVISORS`, of addresses by 16.
    type: the annotated type; it is the type of a number of any value.
    """

    label: str
    ones: bool = True
    alignment: bool = True
    type: Scalar | Pointer | None = None


# -- runtime arguments


def runtime_key(value: Any, rule: Rule) -> Key:
    """Return the key of an adapted argument of a runtime parameter.

    Raises `ArgumentTypeError` for dtypes that kernels do not support and for arguments that do not
    match the annotation, and `ArgumentValueError` for a number that is out of range of its type.
    """
    if rule.type is not None and value is not None and not isinstance(value, constexpr):
        return _annotated(value, rule.type, rule)
    return _unannotated(value, rule)


def _unannotated(value: Any, rule: Rule) -> Key:
    key_function = _KEY_FUNCTIONS.get(type(value))
    return key_function(value, rule) if key_function is not None else _rare_key(value, rule)


def _integer(value: int, rule: Rule) -> Key:
    if value == 1 and rule.ones:
        return _ONE
    residue = value % DIVISOR if rule.alignment else UNALIGNED
    if -0x8000_0000 <= value <= 0x7FFF_FFFF:
        return _I32[residue]
    for scalar in (I64, U64):
        if scalar.min_value <= value <= scalar.max_value:
            return _integer_texts(scalar)[residue]
    raise ArgumentValueError(
        f"{rule.label} is {short_repr(value)}, which no integer type holds: they go from "
        f"{I64.min_value} (i64) to {U64.max_value} (u64)"
    )


def _array(array: Array, rule: Rule) -> Key:
    address = array.__array_interface__["data"][0]
    return _pointer(array.dtype, rule)[rule.alignment and address % DIVISOR == 0]


def _device_array(array: DeviceArray, rule: Rule) -> Key:
    return _pointer(array.dtype, rule)[rule.alignment and array.address % DIVISOR == 0]


def _pointer_array(array: PointerArray, rule: Rule) -> Key:
    aligned = array.ctypes.data % DIVISOR == 0
    return _type_texts(Pointer(Pointer(array.pointee)))[rule.alignment and aligned]


def _pointer(dtype: DType, rule: Rule) -> tuple[str, str]:
    return _POINTERS.get(dtype) or _type_texts(Pointer(element_type(dtype, rule.label)))


def _rare_key(value: Any, rule: Rule) -> Key:
    if isinstance(value, np.generic):
        return _numpy_scalar(value, rule)
    if isinstance(value, tuple):
        return type(value), *(runtime_key(item, rule) for item in value)
    assert isinstance(value, constexpr), f"{value!r} was not adapted"
    return constant_key(constant(value, rule.label))


def _numpy_scalar(value: np.generic, rule: Rule) -> Key:
    """Return the key of a NumPy scalar: integers have their own type, floats are float32."""
    scalar = element_type(value.dtype, rule.label)
    if scalar.kind is Kind.FLOAT:
        return _FLOAT
    if scalar.kind is not Kind.INT:
        return _type_texts(scalar)[False]
    return _integer_texts(scalar)[int(value) % DIVISOR if rule.alignment else UNALIGNED]


def _annotated(value: Any, ty: Scalar | Pointer, rule: Rule) -> Key:
    """Return the key of an argument of an annotated parameter, if it converts to that type."""
    if isinstance(ty, Pointer):
        if not isinstance(value, _POINTING):
            raise _mismatch(value, ty, rule)
        key = _unannotated(value, rule)
        if key not in _type_texts(ty):
            raise _mismatch(value, ty, rule)
        return key
    check_passable(ty, rule.label)
    number = value.item() if isinstance(value, np.generic) else value
    accepted = (int, float) if ty.kind is Kind.FLOAT else (int,)
    if not isinstance(number, accepted):
        raise _mismatch(value, ty, rule)
    if not holds(ty, number):
        raise ArgumentValueError(
            f"{rule.label} is annotated {spell_type(ty)}, which does not hold {number!r}"
        )
    if ty.kind is not Kind.INT:
        return _type_texts(ty)[False]
    return _integer_texts(ty)[int(number) % DIVISOR if rule.alignment else UNALIGNED]


def check_passable(ty: Scalar, label: str) -> None:
    """Raise `ArgumentTypeError` for a type that NumPy has no numbers of: f8e4m3b15."""
    if numpy_dtype(ty).names is not None:
        raise ArgumentTypeError(
            f"{label} is a number of type {spell_type(ty)}, which only arrays can hold; pass fp32, "
            "and cast it in the kernel"
        )


def holds(ty: Scalar, number: float) -> bool:
    """Return True if a number of the type's kind, or an integer for a float, is in its range.

    Floats round; a finite number that rounds to infinity is out of range, infinity itself is not.
    """
    if ty.kind is not Kind.FLOAT:
        least, most = (0, 1) if ty == I1 else (ty.min_value, ty.max_value)
        return least <= number <= most
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = float(numpy_dtype(ty).type(float(number)))
    except OverflowError:
        return False
    return math.isfinite(rounded) or not math.isfinite(number)


def _mismatch(value: Any, ty: Scalar | Pointer, rule: Rule) -> ArgumentTypeError:
    array = getattr(value, "dtype", None) is not None and not isinstance(value, np.generic)
    text = f"an array of {value.dtype}" if array else f"{value!r} ({type(value).__name__})"
    return ArgumentTypeError(f"{rule.label} is annotated {spell_type(ty)}, and was given {text}")


@functools.cache
def _type_texts(ty: Scalar | Pointer) -> tuple[str, str]:
    """Return the text of a type, without and with divisibility by 16."""
    return str(ParameterType(ty)), str(ParameterType(ty, DIVISOR))


UNALIGNED = 1  # a residue modulo `DIVISOR` that says nothing


def divisor_of(residue: int) -> int:
    """Return the greatest of `DIVISORS` that divides numbers with a residue modulo 16, or 1."""
    return next((divisor for divisor in DIVISORS if residue % divisor == 0), 1)


@functools.cache
def _integer_texts(ty: Scalar) -> tuple[str, ...]:
    """Return the text of an integer type for each residue modulo 16."""
    return tuple(str(ParameterType(ty, divisor_of(residue))) for residue in range(DIVISOR))


_ONE = str(ParameterType(I32, one=True))
_I32 = _integer_texts(I32)
_FLOAT = str(ParameterType(F32))
_POINTING = (np.ndarray, DeviceArray, MockArray)
_POINTERS: dict[DType, tuple[str, str]] = {
    dtype: _type_texts(Pointer(scalar)) for dtype, scalar in SCALAR_OF_DTYPE.items()
}
_KEY_FUNCTIONS: dict[type, Callable[[Any, Rule], Key]] = {
    int: _integer,
    bool: lambda value, rule: "i1",
    float: lambda value, rule: _FLOAT,
    type(None): lambda value, rule: _NONE,
    np.ndarray: _array,
    PointerArray: _pointer_array,
    EmptyArray: _array,
    StorageView: _array,
    DeviceArray: _device_array,
    MockArray: lambda value, rule: _type_texts(Pointer(value.element))[rule.alignment],
}


# -- constants

PLAIN = frozenset({int, str, bool, type(None)})


def constant(value: Any, label: str) -> Any:
    """Return the value of a constexpr argument, without `tl.constexpr` and NumPy wrappers.

    Raises `ArgumentTypeError` for arrays and for objects that are not hashable.
    """
    if isinstance(value, constexpr):
        return constant(value.value, label)
    if isinstance(value, np.generic) and not isinstance(value.item(), np.generic):
        return constant(value.item(), label)
    if isinstance(value, tuple):
        return retuple(value, [constant(item, label) for item in value])
    if not isinstance(value, type) and _is_array(value):
        raise ArgumentTypeError(
            f"{label} is a tl.constexpr, known when the kernel is compiled, and was given an array "
            f"({type(value).__name__}); pass a number, or tl.constexpr(array) as a "
            "table of constants, or drop the annotation to pass arrays"
        )
    try:
        hash(value)
    except Exception:  # noqa: BLE001 - whatever the user's `__hash__` raises
        raise ArgumentTypeError(
            f"{label} is a tl.constexpr and was given a {type(value).__name__}; it takes a "
            "hashable constant: a number, text, dtype, function, None, or tuple of these"
        ) from None
    return value


ARRAY_PROTOCOLS = ("data_ptr", "__array_interface__", "__cuda_array_interface__", "__dlpack__")


def _is_array(value: object) -> bool:
    """Return True if an object implements an array protocol; its attributes may raise."""
    try:
        return any(hasattr(value, name) for name in ARRAY_PROTOCOLS)
    except Exception:  # noqa: BLE001 - whatever the user's properties raise
        return False


def constant_key(value: Any) -> Key:
    """Return a key of a constant that distinguishes type and value: 1, 1.0 and True differ."""
    if isinstance(value, float):
        return type(value), value.hex()
    if isinstance(value, tuple):
        return type(value), *map(constant_key, value)
    return type(value), value


_NONE: Key = constant_key(None)


# -- leaves


def leaf_of(value: Any, key: Key) -> Leaf:
    """Return the leaf of a runtime argument, from its adapted value and its key."""
    if isinstance(key, str):
        ty = parse_signature_type(key)
        return Constant(1) if ty.one else ty
    if isinstance(value, tuple):
        assert isinstance(key, tuple)
        parts = [leaf_of(item, part) for item, part in zip(value, key[1:], strict=True)]
        leaves: tuple[Leaf, ...] = retuple(value, parts)
        return leaves
    return Constant(value.value if isinstance(value, constexpr) else value)


def with_noalias(leaf: Leaf) -> Leaf:
    """Return a leaf whose pointers are `noalias`; descriptors stay as they are."""
    if isinstance(leaf, ParameterType) and isinstance(leaf.type, Pointer):
        return replace(leaf, noalias=True)
    if isinstance(leaf, tuple) and not isinstance(leaf, DescriptorParts):
        leaves: tuple[Leaf, ...] = retuple(leaf, list(map(with_noalias, leaf)))
        return leaves
    return leaf


def with_aliased(leaf: Leaf, *, unordered: bool = False) -> Leaf:
    """Return a leaf whose pointers are `aliased`, those of descriptors included.

    unordered: they are `unordered`, too.
    """
    if isinstance(leaf, ParameterType):
        pointer = isinstance(leaf.type, Pointer)
        return replace(leaf, aliased=pointer, unordered=pointer and unordered)
    if isinstance(leaf, tuple):
        parts = [with_aliased(part, unordered=unordered) for part in leaf]
        leaves: tuple[Leaf, ...] = retuple(leaf, parts)
        return leaves
    return leaf


def keep_noalias(
    leaves: Mapping[str, Leaf], parameters: Sequence[str], relied: Collection[str]
) -> dict[str, Leaf]:
    """Return leaves that are `noalias` only where a kernel relies on it.

    parameters: the names of the kernel's IR parameters, which `relied` has some of.
    """
    names = iter(parameters)

    def keep(leaf: Leaf) -> Leaf:
        if isinstance(leaf, ParameterType):
            relies = next(names) in relied
            return replace(leaf, noalias=leaf.noalias and relies)
        if isinstance(leaf, tuple):
            items: tuple[Leaf, ...] = retuple(leaf, list(map(keep, leaf)))
            return items
        return leaf

    return {name: keep(leaf) for name, leaf in leaves.items()}


def spell_leaf(leaf: Leaf) -> Any:
    """Return a leaf as in signatures: text, `constexpr`, or a tuple."""
    if isinstance(leaf, DescriptorParts):
        return spell_descriptor_leaf(leaf)
    if isinstance(leaf, tuple):
        return retuple(leaf, list(map(spell_leaf, leaf)))
    return str(leaf) if isinstance(leaf, ParameterType) else "constexpr"


def spell_descriptor_leaf(leaf: DescriptorParts) -> str:
    """Return a descriptor's leaf as in signatures."""
    base = replace(leaf.base, aliased=False, unordered=False)  # not part of the spelling
    return spell_descriptor(str(base), leaf.block_shape.value, leaf.padding.value)


def descriptor_leaf(element: Scalar, block: tuple[int, ...], padding: Padding) -> DescriptorParts:
    """Return the leaf of a descriptor with this element type, block and padding."""
    base, extents, strides = part_types(element, len(block))
    return DescriptorParts(
        ParameterType(base, DIVISOR),
        tuple(map(ParameterType, extents)),
        (*map(ParameterType, strides), Constant(1)),
        Constant(block),
        Constant(padding.value),
    )


def spell_specialized(name: str, leaves: Mapping[str, Leaf]) -> str:
    """Return the text of a kernel with its types and constants: `add(n: i32, BLOCK=64)`."""
    words = [
        f"{n}={short_repr(leaf.value)}"
        if isinstance(leaf, Constant)
        else f"{n}: {_leaf_text(leaf)}"
        for n, leaf in leaves.items()
    ]
    return f"{name}({', '.join(words)})"


def _leaf_text(leaf: Leaf) -> str:
    if isinstance(leaf, DescriptorParts):
        return spell_descriptor_leaf(leaf)
    if isinstance(leaf, tuple):
        return f"({join_values(leaf, _leaf_text)})"
    return str(leaf) if isinstance(leaf, ParameterType) else short_repr(leaf.value)
