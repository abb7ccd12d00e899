"""Objects that claim to be arrays, by dictionaries, capsules and methods of any kind."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.fake_cuda import CudaArray
from tile.errors import ArgumentError, ArgumentTypeError

HOST = "__array_interface__"
CUDA = "__cuda_array_interface__"
MEMORY = np.zeros(8, np.int32)
LEFT_OUT = object()


@tile.jit
def store(out, value):
    tl.store(out, value)


@tile.jit
def nothing(C: tl.constexpr):
    pass


def holder(protocol, **changes):
    """An object with a dictionary that is right but for changes."""
    entries = {**MEMORY.__array_interface__, **changes}
    entries = {name: value for name, value in entries.items() if value is not LEFT_OUT}
    return SimpleNamespace(**{protocol: entries}, get=MEMORY.copy, set=lambda host: None)


WRONG = {
    "typestr": [3, "<q9", "nonsense", None, LEFT_OUT, "|O"],
    "shape": [(-1,), "ab", None, LEFT_OUT, (1.5,), 8, (1 << 80,), ("8",)],
    "strides": ["a", (4, 4), 4, (4.5,), (1 << 80,), ()],
    "data": [5, "x", (1,), ("a", "b"), (-8, False), (1 << 80, False), (0, False), (8, False, 3)],
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.mark.parametrize("protocol", [HOST, CUDA])
@pytest.mark.parametrize("name, value", CASES, ids=map(str, range(len(CASES))))
def test_dictionaries_are_checked_before_memory_is_touched(protocol, name, value):
    with pytest.raises(ArgumentTypeError) as caught:
        store[1,](holder(protocol, **{name: value}), 3)
    assert "argument 'out' of store()" in caught.value.message


@pytest.mark.parametrize("data", [None, LEFT_OUT])
def test_the_cuda_protocol_has_no_other_way_to_say_where(data):
    with pytest.raises(ArgumentTypeError, match="'data'"):
        store[1,](holder(CUDA, data=data), 3)


def test_a_null_pointer_to_nothing_is_an_array():
    empty = CudaArray(np.zeros(0, np.int32))
    with tile.backend("interp"):
        store.warmup(empty, 3)


@pytest.mark.parametrize("protocol", [HOST, CUDA])
def test_a_mask_is_refused(protocol):
    with pytest.raises(ArgumentTypeError, match=r"'out' of store\(\) has a mask, which kernels wo"):
        store[1,](holder(protocol, mask=np.zeros(8, bool)), 3)


@pytest.mark.parametrize("stream", [0, -1, "x", 1.5, 1 << 80])
def test_a_stream_that_is_none(stream):
    with pytest.raises(ArgumentTypeError, match=r"'stream' in .* is .*; it is None, 1 for the de"):
        store[1,](holder(CUDA, stream=stream), 3)


def test_what_is_right_is_taken():
    changed = np.zeros(8, np.int32)
    object_ = SimpleNamespace(__array_interface__=changed.__array_interface__, keep=changed)
    store[1,](object_, 7)
    assert changed[0] == 7


@pytest.mark.parametrize("protocol", [HOST, CUDA])
@pytest.mark.parametrize("value", [None, 3, [], "x", {}])
def test_no_dictionary(protocol, value):
    with pytest.raises(ArgumentTypeError, match=protocol):
        store[1,](SimpleNamespace(**{protocol: value}), 3)


@pytest.mark.parametrize("protocol", [HOST, CUDA, "__dlpack__", "data_ptr"])
@pytest.mark.parametrize("error", [RuntimeError, KeyError, MemoryError, OSError, ZeroDivisionError])
def test_properties_that_raise(protocol, error):
    def raising(self):
        raise error("boom")

    with pytest.raises(ArgumentTypeError, match=r"argument 'out' of store\(\)"):
        store[1,](type("Array", (), {protocol: property(raising)})(), 3)


def packed(pack=lambda self, **_: MEMORY.__dlpack__(), device=lambda self: (1, 0)):
    return type("Packed", (), {"__dlpack__": pack, "__dlpack_device__": device})()


def capsule(name):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return make(MEMORY.ctypes.data, name, None)


def fails(*_, **__):
    raise OSError("boom")


NAME = b"no tensor"
USED = MEMORY.__dlpack__()
np.from_dlpack(packed(lambda self, **_: USED))
PACKED = {
    "a device that raises": packed(device=fails),
    "no device": type("Packed", (), {"__dlpack__": lambda self: None})(),
    "a device that is None": packed(device=lambda self: None),
    "a device that is text": packed(device=lambda self: "ab"),
    "another device": packed(device=lambda self: (2, 0)),
    "a device of no known kind": packed(device=lambda self: ("x", "y")),
    "a capsule of another name": packed(lambda self, **_: capsule(NAME)),
    "a capsule used up": packed(lambda self, **_: USED),
    "no capsule": packed(lambda self, **_: None),
    "a method that raises": packed(fails),
    "a method of no arguments": packed(lambda: None),
    "complex numbers": packed(lambda self, **_: np.zeros(3, complex).__dlpack__()),
}


@pytest.mark.parametrize("value", PACKED.values(), ids=PACKED)
def test_capsules(value):
    with pytest.raises(ArgumentTypeError, match=r"argument 'out' of store\(\)"):
        store[1,](value, 3)


class Nowhere:
    __module__ = None


class NotTorch:
    __module__ = "torch"
    data_ptr = 3


class Unequal:
    def __eq__(self, other):
        raise RuntimeError("boom")

    def __hash__(self):
        return 3


class Unhashable:
    def __hash__(self):
        raise RuntimeError("boom")


class Unprintable:
    def __repr__(self):
        raise RuntimeError("boom")


def test_objects_of_any_class_are_refused_or_taken_for_constants():
    for value in (Nowhere(), NotTorch(), Unprintable()):
        with pytest.raises(ArgumentTypeError):
            store[1,](value, 3)
    with pytest.raises(ArgumentTypeError):
        nothing[1,](Unhashable())
    nothing[1,](Unequal())
    with pytest.raises(ArgumentTypeError, match="boom"):
        nothing[1,](Unequal())
    nothing[1,](Unprintable())
    nothing[1,]((Unprintable(), 3))
    nothing[1,](1 << 100_000)


HUGE = 1 << 100_000
LAUNCHES = {
    "an argument": lambda: store[1,](MEMORY, HUGE),
    "a grid": lambda: store[HUGE,](MEMORY, 1),
    "a grid that cannot be shown": lambda: store[Unprintable()](MEMORY, 1),
    "an option": lambda: store[1,](MEMORY, 1, num_warps=HUGE),
    "an option that cannot be shown": lambda: store[1,](MEMORY, 1, num_stages=Unprintable()),
    "a name": lambda: store[1,](MEMORY, 1, **{"x" * 10**7: 1}),
    "a signature": lambda: tile.compile(store, None),
    "a type": lambda: tile.compile(store, {"out": Unprintable(), "value": "i32"}),
    "a type of any length": lambda: tile.compile(store, {"out": "*x" * 10**6, "value": "i32"}),
    "options": lambda: tile.compile(store, {"out": "*i32", "value": "i32"}, options=3),
    "a target": lambda: tile.compile(store, {"out": "*i32", "value": "i32"}, target=3),
    "a function": lambda: tile.compile(Unprintable(), {}),
    "an array": lambda: tile.empty(10**15),
    "pointers": lambda: tile.pointers([Unprintable()]),
}


@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_what_is_huge_or_cannot_be_shown(launch):
    with pytest.raises(ArgumentError) as caught:
        launch()
    assert len(str(caught.value)) < 10_000
