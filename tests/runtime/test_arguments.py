from __future__ import annotations

import collections
import enum

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.fake_cuda import CudaArray, CudaArrayWithoutCopies, CudaArrayWithoutSetter
from tile.errors import ArgumentTypeError
from tile.runtime.arguments.adapt import MockArray, adapt
from tile.runtime.arguments.device_arrays import DeviceArray
from tile.runtime.specialize import Rule, runtime_key

LABEL = "argument 'x' of add()"
Point = collections.namedtuple("Point", "x y")


class Interface:
    """An array of an unknown library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array  # keeps the memory alive
        self.__array_interface__ = array.__array_interface__


class DLPack:
    """An array of an unknown library that can be handed over by DLPack."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class Size(tuple):
    """A tuple of a class of its own, as torch.Size is one."""

    def __new__(cls, items):
        return super().__new__(cls, items)


class Color(enum.IntEnum):
    RED = 3


def refusal(value, *words: str) -> None:
    """The value is refused, when it is adapted or when its key is made, with these words."""
    with pytest.raises(ArgumentTypeError) as caught:
        runtime_key(adapt(value, LABEL), Rule(LABEL))
    for word in (LABEL, *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("value", [1, 1.5, True, None, np.float32(1), np.bool_(True), np.int8(-1)])
def test_scalars_stay_what_they_are(value) -> None:
    assert adapt(value, LABEL) is value


def test_numpy_arrays_stay_what_they_are() -> None:
    array = np.arange(12).reshape(3, 4)[::-1, ::2]
    assert adapt(array, LABEL) is array


@pytest.mark.parametrize("wrap", [Interface, DLPack])
def test_other_arrays_share_their_memory(wrap) -> None:
    array = np.arange(12, dtype=np.float32)
    view = adapt(wrap(array), LABEL)
    assert type(view) is np.ndarray
    assert (
        view.flags.writeable or wrap is DLPack
    )  # before version 2.1, NumPy takes all for read-only
    array[3] = 99
    assert view[3] == 99


def test_subclasses_share_their_memory(tmp_path) -> None:
    array = np.memmap(tmp_path / "data", np.int32, "w+", shape=(4,))
    view = adapt(array, LABEL)
    assert type(view) is np.ndarray
    view[0] = 7
    assert array[0] == 7


def test_subclasses_of_numbers_become_plain() -> None:
    assert type(adapt(Color.RED, LABEL)) is int


def test_tuples_are_adapted_inside() -> None:
    array = np.zeros(3)
    value = adapt((Interface(array), (1, None)), LABEL)
    assert type(value[0]) is np.ndarray
    assert value[1] == (1, None)


def test_named_tuples_keep_their_class_and_others_become_plain() -> None:
    assert adapt(Point(1, Color.RED), LABEL) == Point(1, 3)
    assert type(adapt(Point(1, 2), LABEL)) is Point
    assert type(adapt(Size((1, 2)), LABEL)) is tuple


def test_the_item_at_fault_is_named() -> None:
    refusal((1, [2]), "item 1 of", "list")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2], "type list; a kernel takes arrays"),
        ([1, 2], "np.array(...) makes an array of it"),
        ("text", "only tl.constexpr parameters take text"),
        (len, "only tl.constexpr parameters take functions"),
        ({1: 2}, "type dict"),
        (1j, "type complex"),
        (int, "class int, which cannot be a kernel argument"),
        (np.ma.masked_array([1, 2], [True, False]), "masked array"),
    ],
)
def test_what_is_no_argument(value, words: str) -> None:
    refusal(value, words)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([1, None]), "dtype object; kernels work on numbers"),
        (np.arange(3, dtype=">i4"), "newbyteorder('=')"),
        (np.arange(3, dtype=np.dtype("f8").newbyteorder("S")), "other order"),
        (
            np.zeros(2, [("a", "f4"), ("b", "i4")]),
            "structured arrays: pass a field of it, as in x['a']",
        ),
        (
            np.zeros(2, np.complex64),
            "complex numbers: pass x.real and x.imag, or x.view(np.float32)",
        ),
        (np.zeros(2, np.complex128), "x.view(np.float64)"),
        (np.array(["a"]), "dtype <U1; kernels work on bool, int8,"),
        (np.zeros(2, "M8[s]"), "dtype datetime64[s]"),
        (np.zeros(2, np.longdouble), "x.astype(np.float32)"),
        (np.zeros(2, ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3fn, float8_e5m2"),
        (np.complex64(1), "complex numbers"),
        (np.str_("a"), "dtype <U1"),
    ],
)
def test_refused_dtypes(array, words: str) -> None:
    refusal(array, "dtype", words)
    if isinstance(array, np.ndarray):
        refusal(Interface(array) if array.dtype.kind != "V" else array, words)


def test_a_dlpack_array_of_another_device() -> None:
    refusal(DLPack(np.zeros(3), device=(2, 0)), "DLPack's type 2", "copy it to the host")


def test_a_dlpack_array_that_numpy_refuses() -> None:
    class Broken(DLPack):
        def __dlpack__(self, **kwargs):
            raise BufferError("no such thing")

    refusal(Broken(np.zeros(3)), "cannot be taken as an array: BufferError: no such thing")


# -- what stands for an array


@pytest.mark.parametrize(
    ("dtype", "alias"),
    [
        (tl.float32, "fp32"),
        (np.float16, "fp16"),
        (np.dtype("i4"), "i32"),
        ("bf16", "bf16"),
        (bool, "i1"),
    ],
)
def test_mock_arrays(dtype, alias: str) -> None:
    mock = MockArray(dtype)
    assert repr(mock) == f"MockArray({alias})"
    assert runtime_key(mock, Rule(LABEL)) == f"*{alias}:16"


@pytest.mark.parametrize("dtype", [tl.float32, np.float32, np.dtype(np.float32)])
def test_dtypes_stand_for_arrays(dtype) -> None:
    assert runtime_key(adapt(dtype, LABEL), Rule(LABEL)) == "*fp32:16"


def test_a_mock_of_no_dtype() -> None:
    with pytest.raises(ArgumentTypeError, match="takes a dtype, not 3"):
        MockArray(3)
    with pytest.raises(ArgumentTypeError, match="object"):
        MockArray(np.dtype(object))


# -- arrays of a device


def test_device_arrays() -> None:
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    array = adapt(CudaArray(host), LABEL)
    assert type(array) is DeviceArray
    assert (array.shape, array.strides, array.dtype) == (host.shape, host.strides, host.dtype)
    assert array.span == (host.ctypes.data, host.ctypes.data + host.nbytes)
    assert array.writeable


def test_contiguous_strides_are_filled_in() -> None:
    for shape in [(), (0,), (3,), (2, 3), (2, 0, 3), (4, 1, 2)]:
        array = adapt(CudaArray(np.zeros(shape, np.int16)), LABEL)
        assert len(array.strides) == len(shape)
        assert array.size == np.prod(shape, dtype=int)
        low, high = array.span
        assert high - low == array.size * 2


def test_device_arrays_that_cannot_be_written() -> None:
    assert not adapt(CudaArray(np.zeros(3), read_only=True), LABEL).writeable
    assert not adapt(CudaArrayWithoutSetter(np.zeros(3)), LABEL).writeable


def test_a_device_array_that_cannot_be_read() -> None:
    refusal(CudaArrayWithoutCopies(np.zeros(3)), "without a method to copy it to the host")


def test_a_device_array_of_a_refused_dtype() -> None:
    refusal(CudaArray(np.zeros(3, np.complex64)), "complex numbers")


# -- pointers to pointers


def test_pointers_know_their_arrays() -> None:
    arrays = [np.arange(n, dtype=np.float32) for n in (3, 5)]
    made = tile.pointers(arrays)
    assert made.tolist() == [array.ctypes.data for array in arrays]
    assert made.dtype.itemsize == 8
    assert all(kept is array for kept, array in zip(made.targets, arrays, strict=True))
    assert made[1:].targets is made.targets
    assert runtime_key(adapt(made, LABEL), Rule(LABEL)).startswith("**fp32")
    assert (
        runtime_key(made[1:], Rule(LABEL)) == "**fp32" if made[1:].ctypes.data % 16 else "**fp32:16"
    )


def test_pointers_to_pointers_to_pointers() -> None:
    inner = tile.pointers([np.zeros(3, np.int8)])
    assert runtime_key(tile.pointers([inner, inner]), Rule(LABEL, alignment=False)) == "***i8"


def test_pointers_take_other_libraries_arrays() -> None:
    array = np.zeros(3)
    assert tile.pointers((Interface(array),)).targets[0].ctypes.data == array.ctypes.data


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (np.zeros((2, 3)), "takes a list of arrays, not a ndarray"),
        (3, "takes a list of arrays, not a int"),
        ([np.zeros(3), 7], "array 1 of tile.pointers is 7"),
        ([np.zeros(3), None], "array 1 of tile.pointers is None"),
        ([CudaArray(np.zeros(3))], "array 0 of tile.pointers is an array in a device's memory"),
        ([np.zeros(3), np.zeros(3, np.float32)], "array 0 is float64, array 1 is float32"),
        ([np.zeros(3, object)], "array 0 of tile.pointers has dtype object"),
        ([np.zeros(3, np.float32), [1]], "array 1 of tile.pointers is of type list"),
    ],
)
def test_refused_pointers(arrays, words: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        tile.pointers(arrays)
    assert words in str(caught.value)


def test_pointers_to_nothing() -> None:
    with pytest.raises(tile.errors.ArgumentValueError, match="at least one array"):
        tile.pointers([])
