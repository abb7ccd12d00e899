"""The functions that XLA calls, with call frames that a test makes, and on a GPU that is posed.

No program of JAX runs on a GPU here: what is tested is what a handler does with XLA's buffers and
stream, and that programs are lowered for CUDA.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

import numpy as np
import pytest

import tile
from tests.jax import kernels

jax = pytest.importorskip("jax")
pytest.importorskip("cuda.bindings")
jnp = jax.numpy
frames = importlib.import_module("tile.jax.call_frame")
handlers = importlib.import_module("tile.jax.handlers")
launches = importlib.import_module("tile.jax.launches")
FakeDriver = importlib.import_module("tests.backends.nvptx.fake_driver").FakeDriver

STREAM = 77
ERROR = 5  # the address of an error, as XLA might return it
X = np.arange(100, dtype=np.float32)


class Xla:
    """XLA's side of a call: its functions, buffers and attribute."""

    def __init__(self, launch: str, inputs: list[Any], outputs: list[Any]) -> None:
        self.messages: list[str] = []
        self.destroyed: list[int] = []
        self.has_stream = True
        self._alive: list[Any] = []
        self.api = frames._Api()
        self.api.version.minor = 9
        for name in ("error_create", "error_destroy", "stream_get"):
            function = frames._Function(getattr(self, name))
            self._alive.append(function)
            setattr(self.api, name, ctypes.cast(function, ctypes.c_void_p))
        self.frame = frames._CallFrame(stage=frames.EXECUTE, api=ctypes.pointer(self.api))
        self.frame.arguments = self.buffers(inputs)
        self.frame.results = self.buffers(outputs)
        text = launch.encode()
        span = frames._Bytes(ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p), len(text))
        values = (ctypes.POINTER(frames._Bytes) * 1)(ctypes.pointer(span))
        self.frame.attributes.values = values
        self._alive += [text, span, values]

    def buffers(self, arrays: list[Any]) -> Any:
        made = [
            frames._Buffer(
                data=array.ctypes.data,
                rank=array.ndim,
                dims=(ctypes.c_int64 * max(1, array.ndim))(*array.shape),
            )
            for array in arrays
        ]
        items = (ctypes.POINTER(frames._Buffer) * len(made))(*map(ctypes.pointer, made))
        self._alive += [arrays, made, items]
        return frames._Buffers(size=len(made), items=items)

    def stream_get(self, address: int) -> int | None:
        asked = frames._StreamGet.from_address(address)
        assert asked.struct_size == ctypes.sizeof(frames._StreamGet)
        asked.stream = STREAM
        return None if self.has_stream else ERROR

    def error_create(self, address: int) -> int:
        asked = frames._ErrorCreate.from_address(address)
        assert asked.code == frames.INTERNAL
        self.messages.append(asked.message.decode())
        return ERROR

    def error_destroy(self, address: int) -> None:
        self.destroyed.append(frames._ErrorDestroy.from_address(address).error)

    def call(self, handler: Any) -> int | None:
        result: int | None = handler(ctypes.addressof(self.frame))
        return result


def scale(x, **options):
    return tile.jax.call(
        x,
        kernel=kernels.scale,
        out_shape={"out_ptr": x},
        grid=(tile.cdiv(x.size, 64),),
        n=x.size,
        factor=2.0,
        BLOCK=64,
        **options,
    )["out_ptr"]


def launch_of(function, *arguments) -> str:
    """Return the name of the launch in a function."""
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in arguments]
    anew = jax.jit(lambda *arrays: function(*arrays))  # JAX remembers what it has traced
    text = anew.trace(*shapes).lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.custom_call @tile_launch" in text
    return text.partition('launch = "')[2].partition('"')[0]


@pytest.fixture
def posed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("TILE_BACKEND", raising=False)
    kernels.scale.cache.clear()  # it has kernels of the drivers of other tests
    return FakeDriver((9, 0)).install(monkeypatch)


# -- on a CPU


def test_buffers_of_the_host_are_used_in_place() -> None:
    out = np.empty_like(X)
    xla = Xla(launch_of(scale, X), [X], [out])
    assert xla.call(handlers.on_cpu) is None
    np.testing.assert_array_equal(out, X * 2)


def test_empty_buffers_have_no_address() -> None:
    empty = np.zeros((0, 3), np.float32)
    xla = Xla(launch_of(scale, empty), [empty], [empty])
    for buffers in (xla.frame.arguments, xla.frame.results):
        buffers.items[0].contents.data = None
    assert xla.call(handlers.on_cpu) is None


def test_a_launch_that_was_not_traced() -> None:
    xla = Xla("scale_0000", [X], [X.copy()])
    assert xla.call(handlers.on_cpu) == ERROR
    assert "a launch scale_0000, which this process has not traced" in xla.messages[0]


def test_an_exception_that_is_no_error_of_tile() -> None:
    def grid(meta):
        raise KeyboardInterrupt("a\0b")

    name = launch_of(
        lambda x: tile.jax.call(x, kernel=kernels.copy, out_shape=x, grid=grid, BLOCK=64),
        X[:64],
    )
    xla = Xla(name, [X[:64]], [np.empty(64, np.float32)])
    assert xla.call(handlers.on_cpu) == ERROR
    assert xla.messages == ["KeyboardInterrupt: a?b"]


def test_the_question_for_the_version() -> None:
    metadata = frames._Metadata()
    extension = frames._Extension(type=frames.METADATA, metadata=ctypes.pointer(metadata))
    other = frames._Extension(type=99, next=ctypes.addressof(extension))
    xla = Xla("", [], [])
    xla.frame.extension = ctypes.addressof(other)
    assert xla.call(handlers.on_cpu) is None
    assert (metadata.version.major, metadata.version.minor) == (0, 9)
    xla.frame.api = None  # as of XLA in JAX 0.6
    assert xla.call(handlers.on_cpu) is None
    assert metadata.version.major == 0 and 0 < metadata.version.minor < 9


def test_other_stages_do_nothing() -> None:
    xla = Xla("not traced", [], [])
    for stage in range(frames.EXECUTE):
        xla.frame.stage = stage
        assert xla.call(handlers.on_cpu) is None
    assert xla.messages == []


def test_names_of_launches() -> None:
    """Equal launches have equal names; other constants, types and settings make others."""
    names = [
        launch_of(scale, X),
        launch_of(lambda x: scale(x), X),
        launch_of(scale, X[:50]),
        launch_of(scale, X.astype(np.int32)),
        launch_of(lambda x: scale(x, num_warps=8), X),
    ]
    assert names[0] == names[1] and len(set(names)) == 4
    with tile.backend("interp:mma"):
        assert launch_of(scale, X) not in names
    assert all(name.startswith("scale_") for name in names)


class Odd:
    """A constant without an exact text."""

    def __call__(self, meta) -> tuple[int]:
        return (2,)


def test_what_has_no_exact_text_makes_a_name_unique() -> None:
    def function(x):
        return tile.jax.call(x, kernel=kernels.copy, out_shape=x, grid=grid, BLOCK=64)

    grid = Odd()
    assert launch_of(function, X[:64]) != launch_of(function, X[:64])


# -- on a GPU that is posed


def test_a_launch_is_on_the_stream_of_the_call(posed) -> None:
    with tile.backend("nvptx"):
        name = launch_of(scale, X)
    assert posed.loaded == []  # tracing compiles and loads nothing
    out = np.empty_like(X)
    for _ in range(2):
        xla = Xla(name, [X], [out])
        assert xla.call(handlers.on_gpu) is None, xla.messages
    assert posed.launches == [(0, (2, 1, 1))] * 2
    assert posed.streams == [STREAM, STREAM] and posed.waits == []
    assert len(posed.loaded) == 1 and posed.contexts == [] and posed.memory == {}


def test_types_that_the_interface_of_cuda_arrays_lacks(posed) -> None:
    x = X.astype(jnp.bfloat16)
    with tile.backend("nvptx"):
        name = launch_of(scale, x)
    xla = Xla(name, [x], [np.empty_like(x)])
    assert xla.call(handlers.on_gpu) is None, xla.messages
    assert posed.streams == [STREAM]


def test_a_call_without_a_stream(posed) -> None:
    with tile.backend("nvptx"):
        xla = Xla(launch_of(scale, X), [X], [X.copy()])
    xla.has_stream = False
    assert xla.call(handlers.on_gpu) == ERROR
    assert xla.destroyed == [ERROR] and "no stream" in xla.messages[0]
    assert posed.launches == []


def test_another_backend_cannot_have_the_memory_of_a_gpu(posed) -> None:
    with tile.backend("interp"):
        xla = Xla(launch_of(scale, X), [X], [X.copy()])
    assert xla.call(handlers.on_gpu) == ERROR
    assert "JAX runs this program on a GPU, and the kernel was to run elsewhere" in xla.messages[0]


def test_an_error_of_the_driver(posed) -> None:
    real = importlib.import_module("cuda.bindings.driver")
    with tile.backend("nvptx"):
        xla = Xla(launch_of(scale, X), [X], [X.copy()])
    posed.fails["cuLaunchKernel"] = real.CUresult.CUDA_ERROR_INVALID_VALUE
    assert xla.call(handlers.on_gpu) == ERROR
    assert "launching `scale" in xla.messages[0]
