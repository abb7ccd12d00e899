"""Adapt launch arguments to the few kinds of values that the runtime handles.

An argument becomes, without copying: a NumPy array, a `DeviceArray`, a `MockArray` (a placeholder
for an array in a warmup), a Python or NumPy scalar, None, or a tuple of these. The adapter follows
from the argument's type and is cached by type; other libraries' arrays are recognized by the array
protocol that they implement: `__array_interface__` and `__cuda_array_interface__` are dictionaries
with an unchecked address, type and shape. No memory is read before NumPy has validated one.
"""

from __future__ import annotations

import functools
import operator
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError, TileError
from tile.frontend.python.source import DeviceFunction
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import Pointer, Scalar
from tile.language.base.constexpr import constexpr
from tile.runtime.arguments.device_arrays import (
    Array,
    DeviceArray,
    PointerArray,
    element_type,
    pointer_array,
)
from tile.runtime.arguments.jax_arrays import is_jax, jax_array
from tile.runtime.arguments.opencl_buffers import is_opencl, opencl_array
from tile.runtime.arguments.pointer_objects import is_pointer_object, pointer_object_array
from tile.runtime.arguments.storage_view import StorageView
from tile.runtime.arguments.torch_tensors import is_torch, torch_array, torch_dtype
from tile.runtime.arguments.uninitialized import EmptyArray
from tile.runtime.signature import parse_type
from tile.short_repr import short_repr
from tile.tracebacks import public_function

HOST = "__array_interface__"
CUDA = "__cuda_array_interface__"
ADDRESS_BITS = 64


def described(value: object, protocol: str, label: str) -> tuple[Array, Mapping[str, Any]]:
    """Return the array that an object's dictionary describes, and the dictionary.

    NumPy refuses what describes no array. The memory of one of CUDA's is not the host's, and must
    not be read. Raises `ArgumentTypeError`.
    """
    fields = getattr(value, protocol)
    whose = f"`{protocol}` of {label} ({type(value).__name__})"
    if not isinstance(fields, Mapping):
        raise ArgumentTypeError(f"{whose} is {short_repr(fields)}; it must be a dictionary")
    if fields.get("mask") is not None:
        raise ArgumentTypeError(f"{label} has a mask, which kernels would ignore")
    try:
        array = np.asarray(value if protocol == HOST else _on_host(fields))
        address = operator.index(array.ctypes.data)
        if address >> (ADDRESS_BITS - 1):
            raise ValueError(f"there is no memory at {address:#x}")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArgumentTypeError(f"{whose} is {short_repr(dict(fields))}: {error}") from error
    element_type(array.dtype, label)
    return array, fields


def _on_host(fields: Mapping[str, Any]) -> SimpleNamespace:
    """Return an object whose array on the host is described as one of CUDA's is.

    CUDA's protocol has None for the address of an array without elements.
    """
    axes = {
        name: tuple(fields[name]) for name in ("shape", "strides") if fields.get(name) is not None
    }
    address, read_only = fields["data"]
    if not address and 0 not in axes["shape"]:
        raise ValueError("its address is null")
    data = address or 0, bool(read_only)
    interface = {"typestr": fields["typestr"], "data": data, "version": 3, **axes}
    return SimpleNamespace(__array_interface__=interface)


def _stream(stream: Any, whose: str) -> int | None:
    """Return the stream for which a consumer waits; 1 is the default stream."""
    try:
        number = None if stream is None else operator.index(stream)
    except TypeError:
        number = 0
    if number is not None and not 0 < number < 1 << ADDRESS_BITS:
        raise ArgumentTypeError(
            f"'stream' in {whose} is {short_repr(stream)}; it is None, 1 for the default stream, 2 "
            "for that of the thread, or the address of another"
        )
    return number


DLPACK_CPU = 1

# Methods with which libraries copy an array from a device to the host and back.
FETCH = ("get", "copy_to_host", "__array__")
PUT = ("set", "copy_to_device")


class MockArray:
    """A placeholder for an array of a dtype in `kernel.warmup`, where nothing is launched.

    `dtype` is one of `tile.language`, NumPy or torch, or its name in signatures (`"fp32"`).
    """

    @public_function
    def __init__(self, dtype: Any, shape: tuple[int, ...] = ()) -> None:
        self.dtype = dtype
        self.shape = shape
        self.element = _mock_element(dtype)

    def __repr__(self) -> str:
        return (
            f"MockArray({self.element.alias if isinstance(self.element, Scalar) else self.element})"
        )


def _mock_element(dtype: Any) -> Scalar | Pointer:
    if isinstance(dtype, Scalar | Pointer):
        return dtype
    if isinstance(dtype, str):
        return parse_type(dtype)
    if is_torch(type(dtype)):
        dtype = torch_dtype(dtype, "a MockArray")
    try:
        numpy_dtype = np.dtype(dtype)
    except TypeError:
        raise ArgumentTypeError(f"a MockArray takes a dtype, not {short_repr(dtype)}") from None
    return element_type(numpy_dtype, "a MockArray")


class Adaptable(ABC):
    """An object that adapts itself to a kernel argument."""

    @abstractmethod
    def adapted(self, label: str) -> Any:
        """Return one of the kinds above; `label` names the argument in errors."""


# Types that need no adapting; the launch path tests the type of each argument here first.
ARRAYS = (np.ndarray, PointerArray, EmptyArray, StorageView, DeviceArray, MockArray)
DIRECT = frozenset({*ARRAYS, int, float, bool, type(None)})


def adapt(value: Any, label: str) -> Any:
    """Return `value` as one of the kinds above; `label` names it in errors.

    Raises `ArgumentTypeError` for an object that cannot be a kernel argument.
    """
    kind: type = type(value)
    return value if kind in DIRECT else _adapter(kind)(value, label)


def retuple(pattern: tuple[Any, ...], items: Sequence[Any]) -> Any:
    """Return a tuple of other items, of the same class if `pattern` is a named tuple."""
    make: Callable[[Sequence[Any]], Any] = getattr(type(pattern), "_make", tuple)
    return make(items)


Adapter = Callable[[Any, str], Any]


def _itself(value: Any, label: str) -> Any:
    return value


def _each(values: Any, label: str) -> Any:
    return retuple(values, [_item(value, f"item {i} of {label}") for i, value in enumerate(values)])


def _item(value: Any, label: str) -> Any:
    """Return an item of a tuple; a function is a constant there."""
    return constexpr(value) if isinstance(value, DeviceFunction) else adapt(value, label)


def _mock(dtype: Any, label: str) -> MockArray:
    try:
        return MockArray(dtype)
    except ArgumentTypeError as error:
        error.notes.append(f"it stands for {label}")
        raise


def _mock_numpy_class(kind: Any, label: str) -> MockArray:
    if not issubclass(kind, np.generic):
        raise ArgumentTypeError(
            f"{label} is the class {kind.__name__}, which cannot be a kernel argument"
        )
    return _mock(kind, label)


def _masked(value: Any, label: str) -> Any:
    raise ArgumentTypeError(
        f"{label} is a masked array, whose mask kernels would ignore; pass x.data"
    )


def _torch(value: Any, label: str) -> Any:
    if hasattr(value, "data_ptr"):
        return torch_array(value, label)
    return (_mock if type(value).__name__ == "dtype" else _foreign)(value, label)


# The first matching base class decides: np.float64 is also a float.
_ADAPTERS: tuple[tuple[type, Adapter], ...] = (
    (PointerArray, _itself),
    (EmptyArray, _itself),
    (StorageView, _itself),
    (np.ndarray, lambda value, label: np.asarray(value)),
    (np.generic, _itself),
    (bool, _itself),
    (int, lambda value, label: int(value)),
    (float, lambda value, label: float(value)),
    (tuple, _each),
    (Adaptable, lambda value, label: value.adapted(label)),
    (constexpr, _itself),
    (Scalar, _mock),
    (Pointer, _mock),
    (np.dtype, _mock),
    (type, _mock_numpy_class),
)


@functools.cache
def _adapter(kind: type) -> Adapter:
    if any(str(base.__module__).startswith("numpy.ma") for base in kind.__mro__):
        return _masked  # recognized by its module, since importing it is slow
    for base, adapter in _ADAPTERS:
        if issubclass(kind, base):
            return adapter
    if is_opencl(kind):
        return _guarded(opencl_array)
    if is_jax(kind):
        return _guarded(jax_array)
    return _guarded(_torch if is_torch(kind) else _foreign)


def _guarded(adapter: Adapter) -> Adapter:
    """Return an adapter that raises the exceptions of other libraries as `ArgumentTypeError`."""

    def adapt_foreign(value: Any, label: str) -> Any:
        try:
            return adapter(value, label)
        except TileError:
            raise
        except Exception as error:
            raise ArgumentTypeError(
                f"{label}, a {type(value).__name__}, cannot be taken as an array: "
                f"{type(error).__name__}: {short_repr(error, show=str)}"
            ) from error

    return adapt_foreign


def _foreign(value: Any, label: str) -> Any:
    """Adapt an array of another library by the protocol that it implements."""
    if hasattr(value, CUDA):
        return _cuda_array(value, label)
    if hasattr(value, HOST):
        return described(value, HOST, label)[0]
    if hasattr(value, "__dlpack__"):
        return _dlpack(value, label)
    if is_pointer_object(value):
        element = _mock_element(value.dtype)
        assert isinstance(element, Scalar), "a dtype is not a pointer"
        return pointer_object_array(value, numpy_dtype(element), label)
    raise ArgumentTypeError(
        f"{label} is of type {type(value).__name__}; a kernel takes arrays (of NumPy, torch, CuPy "
        f"or another library), numbers, None, and tuples of these{_hint(value)}"
    )


def is_addressed(value: object) -> bool:
    """Return True for an object that launches take by its address and dtype alone.

    No protocol of arrays says more about its memory, and it wraps no tensor of torch.
    """
    others = (CUDA, HOST, "__dlpack__", "base")
    return (
        is_pointer_object(value)
        and not is_torch(type(value))
        and not any(issubclass(type(value), base) for base, _ in _ADAPTERS)
        and not any(hasattr(value, name) for name in others)
    )


def _hint(value: Any) -> str:
    if isinstance(value, str):
        return "; only tl.constexpr parameters take text"
    if isinstance(value, Sequence):
        return "; np.array(...) makes an array of it"
    if hasattr(value, "__array__"):
        return "; np.asarray(...) makes an array of it"
    if callable(value):
        return "; only tl.constexpr parameters take functions"
    return ""


def _dlpack(value: Any, label: str) -> Array:
    device = value.__dlpack_device__()
    if not (isinstance(device, tuple) and len(device) == 2):
        raise ArgumentTypeError(
            f"`__dlpack_device__` of {label} ({type(value).__name__}) returns "
            f"{short_repr(device)}; it must be a pair of a device's type and its number"
        )
    if device[0] != DLPACK_CPU:
        raise ArgumentTypeError(
            f"{label} is a {type(value).__name__} in the memory of a device (DLPack's type "
            f"{short_repr(device[0])}) that cannot be copied from here; copy it to the host first"
        )
    return np.from_dlpack(value)


def _cuda_array(value: Any, label: str) -> DeviceArray:
    """Adapt an array that implements `__cuda_array_interface__`."""
    array, fields = described(value, CUDA, label)
    shape = array.shape
    stream = _stream(fields.get("stream"), f"`{CUDA}` of {label} ({type(value).__name__})")
    fetch = _method(value, FETCH)
    put = _putter(value, len(shape), contiguous=array.flags.c_contiguous)
    if fetch is None:
        raise ArgumentTypeError(
            f"{label} is a {type(value).__name__} in a device's memory without a method to copy it "
            f"to the host ({', '.join(FETCH)}); copy it yourself"
        )
    return DeviceArray(
        source=value,
        device="cuda",
        dtype=array.dtype,
        shape=shape,
        strides=array.strides,
        address=fields["data"][0] or 0,
        writeable=put is not None and bool(array.flags.writeable),
        fetch=lambda: np.asarray(fetch()),
        put=lambda host: None if put is None else put(np.ascontiguousarray(host).reshape(shape)),
        stream=stream,
    )


def _putter(value: Any, rank: int, *, contiguous: bool) -> Callable[[Array], object] | None:
    """Return the function that copies a host array to a device array; None if there is none."""
    whole = _method(value, PUT)
    if whole is None or contiguous:
        return whole
    if not hasattr(value, "__setitem__"):
        return None
    # Libraries copy only contiguous memory to the device; copy there first, then scatter.
    library = sys.modules.get(type(value).__module__.partition(".")[0])
    to_device = getattr(library, "asarray", lambda host: host)
    return lambda host: value.__setitem__((slice(None),) * rank, to_device(host))


def _method(value: Any, names: tuple[str, ...]) -> Callable[..., Any] | None:
    return next((getattr(value, name) for name in names if hasattr(value, name)), None)


@public_function
def pointers(arrays: Sequence[Any]) -> PointerArray:
    """Return an array of pointers to `arrays`, which a kernel takes as a pointer to pointers.

    `arrays` are in host memory (of NumPy, torch on the CPU, or another library) and have one dtype.
    The result keeps them alive as its `targets`. Raises `ArgumentTypeError` for anything else, and
    `ArgumentValueError` if there are no arrays.
    """
    targets: list[Array] = []
    if not isinstance(arrays, Sequence):
        raise ArgumentTypeError(
            f"tile.pointers takes a list of arrays, not a {type(arrays).__name__}"
        )
    for index, value in enumerate(arrays):
        label = f"array {index} of tile.pointers"
        target = adapt(value, label)
        if not isinstance(target, np.ndarray):
            text = (
                "an array in a device's memory" if isinstance(target, DeviceArray) else repr(value)
            )
            raise ArgumentTypeError(f"{label} is {text}; it takes arrays in the host's memory")
        targets.append(target)
    return pointer_array(targets)
