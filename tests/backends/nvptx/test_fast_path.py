"""Launches that repeat an earlier one, with the driver's functions posed by Python's."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.fake_torch import Tensor, aligned, install
from tests.runtime.test_fast_path import Buffer
from tile.backends.capabilities import Item, Passed
from tile.backends.nvptx import driver, launch, launch_stub, loaded_module
from tile.errors import ExecutionError
from tile.runtime.fast_path import FastPathEntry
from tile.testing import do_bench

CONTEXT, FUNCTION = 77, 0x7FFF_0000_1234
ADDRESS = ctypes.c_void_p


@tile.jit
def scale(x_ptr, n, m, factor, wide, flag, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(x_ptr + i, x * factor + m, mask=(i < wide) & flag)


@tile.jit
def claim(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_assert(tl.load(x_ptr + i, mask=i < n, other=0.0) >= 0, "no negative numbers")


class Posing:
    """A driver with one device that records launches: grid, stream, parameters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status = 0
        self.context = CONTEXT
        self.ordinary: list[Any] = []
        self.repeats: list[Any] = []
        self.clusters: list[int] = []  # of repeats
        self.dependent: list[bool] = []  # of repeats: whether they may overlap the launch before
        self.during: Any = None  # called in the midst of a launch
        start = ctypes.CFUNCTYPE(ctypes.c_int, *[ADDRESS] * 4)(self.start)
        self.functions = {"cuLaunchKernelEx": start}
        where = SimpleNamespace(
            ordinal=0,
            major=9,
            context=CONTEXT,
            shared_bytes=1 << 17,
            architecture="sm_90a",
            current=nullcontext,
            has_clusters=True,
            has_dependent_launches=True,
            l2_bytes=1000,
        )
        monkeypatch.setattr(driver, "device", lambda ordinal: where)
        monkeypatch.setattr(driver, "version", lambda: 13000)
        monkeypatch.setattr(driver, "direct", self.functions.get)

        def load(loaded: Any, code: bytes, kernel: str, shared_bytes: int, **options: Any) -> None:
            loaded.kernel, loaded.shared_bytes, loaded.function = kernel, shared_bytes, FUNCTION
            loaded._start, loaded._last = self.ordinarily, ()

        monkeypatch.setattr(loaded_module.Loaded, "__init__", load)
        monkeypatch.setattr(loaded_module.Loaded, "clusters", lambda *given: 5)
        monkeypatch.setattr(loaded_module.Loaded, "_config", lambda loaded, *given, **more: given)
        monkeypatch.setattr(driver.cuda, "cuLaunchKernelEx", self.clustered)
        self.fields = (ctypes.c_int32 * 1)()  # as a `FaultRecord` has them
        monkeypatch.setattr(launch, "FaultRecord", lambda loaded, emitted: self)

    def check(self) -> None:
        """As a `FaultRecord` has it."""
        self.fields[0] = 0

    def ordinarily(self, function: int, *given: Any) -> tuple[Any]:
        """In place of `cuLaunchKernel`."""
        self.ordinary.append((given[:3], given[7]))
        return (driver.cuda.CUresult(self.status),)

    def clustered(self, config: Any, *given: Any) -> tuple[Any]:
        """In place of `cuLaunchKernelEx` as ordinary launches call it."""
        self.ordinary.append((config[0], config[2]))
        return (driver.cuda.CUresult(self.status),)

    def start(self, config: int, function: int, parameters: int, extra: int | None) -> int:
        during, self.during = self.during, None
        if during is not None:
            during()
        config_fields = struct.unpack("=7I4xQQI4x", ctypes.string_at(config, 56))
        grid, block, shared, (stream, *attributes) = (
            config_fields[:3],
            config_fields[3:6],
            config_fields[6],
            config_fields[7:],
        )
        assert function == FUNCTION and extra is None
        assert block == (128, 1, 1) and shared == 0
        given = attributes_of(*attributes)
        self.clusters.append(given.pop(CLUSTER, (1, 1, 1))[0])
        self.dependent.append(given.pop(DEPENDENT, (0, 0, 0)) == (1, 0, 0))
        assert not given
        count = len(self.formats)
        addresses = (ADDRESS * count).from_address(parameters)
        values = tuple(
            struct.unpack_from(f"={form}", ctypes.string_at(at, 8))[0]
            for form, at in zip(self.formats, addresses, strict=True)
        )
        if self.context != CONTEXT:
            return int(driver.cuda.CUresult.CUDA_ERROR_INVALID_CONTEXT)
        if not self.status:
            self.repeats.append((grid, stream, values))
        return self.status

    formats = "Qiifq?"  # of the parameters; an i32 is followed by zeros


CLUSTER, DEPENDENT = 4, 6  # ids of attributes


def attributes_of(address: int, count: int) -> dict[int, tuple[int, int, int]]:
    """The first numbers of the attributes of a launch, by id."""
    assert bool(address) == bool(count)
    texts = [ctypes.string_at(address + 72 * number, 20) for number in range(count)]
    numbers = [struct.unpack("=I4x3I", text) for text in texts]
    return {identity: (x, y, z) for identity, x, y, z in numbers}


@pytest.fixture(params=["machine code", "Python"])
def posing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Posing]:
    """Pose for stubs of either kind."""
    if request.param == "Python":
        monkeypatch.setattr(launch_stub, "host_code", lambda *names, **how: None)
    monkeypatch.setenv("TILE_BACKEND", "nvptx:sm_90a")
    posing = Posing(monkeypatch)
    install(monkeypatch).streams[0] = 0xABC0_0000_0001
    yield posing
    scale.cache.clear()
    claim.cache.clear()


def test_every_parameter_at_its_address(posing: Posing) -> None:
    x, y = Tensor(aligned(64)), Tensor(aligned(64))
    scale[3, 2](x, 5, -7, 0.1, 2**40 + 1, True, B=64)
    assert posing.ordinary == [((3, 2, 1), 0xABC0_0000_0001)]
    scale[4, 2, 5](y, 9, -9, -0.7, 2**41 + 1, False, B=64)
    values = (y.data_ptr(), 9, -9, np.float32(-0.7), 2**41 + 1, False)
    assert posing.repeats == [((4, 2, 5), 0xABC0_0000_0001, values)]


def entry_of(x: Tensor) -> FastPathEntry:
    """Launch `scale` on an array, and return what launches it again."""
    call = (x, 5, -7, 0.5, 2**40 + 1, True)
    scale[3, 2](*call, B=64)
    planned = scale.planned(call, {"B": 64})
    assert planned is not None
    return planned[1]


def test_a_fixed_grid_and_fixed_numbers(posing: Posing) -> None:
    """Each value is written once, for all of its parameters."""
    x, y = Tensor(aligned(64)), Tensor(aligned(64))
    entry = entry_of(x)
    values = [Passed(1), Passed(0), 9, -0.0, 2**41 + 1, False]
    launch = entry.fixed((4, 2, 5), values)
    assert launch(8, y.data_ptr()) and launch(-8, y.data_ptr())
    for (grid, stream, values), number in zip(posing.repeats, (8, -8), strict=True):
        assert (grid, stream) == ((4, 2, 5), 0xABC0_0000_0001)
        assert values == (y.data_ptr(), number, 9, 0.0, 2**41 + 1, False)
        assert math.copysign(1.0, values[3]) == -1.0
    same = entry.fixed((1, 1, 1), [Passed(0), Passed(1), Passed(1), 1.0, 2, True])
    assert same(x.data_ptr(), 3)
    assert posing.repeats[-1][2] == (x.data_ptr(), 3, 3, 1.0, 2, True)
    assert not entry.fixed((1, 1, 1), [Passed(0), 1 << 40, 1, 1.0, 2, True])(x.data_ptr())


def test_constants_have_no_parameter(posing: Posing) -> None:
    x, posing.formats = Tensor(aligned(64)), "Qifq?"
    for factor in (2.0, 3.0):
        scale[(1,)](x, 1, 7, factor, 9, True, B=64)
    assert [values for _, _, values in posing.repeats] == [(x.data_ptr(), 7, 3, 9, True)]


def test_the_current_stream_is_asked_for_each_time(posing: Posing, monkeypatch) -> None:
    torch = install(monkeypatch)
    x = Tensor(aligned(64))
    for stream in (1, 2, 3):
        torch.streams[0] = stream
        scale[(1,)](x, 2, 7, 2.0, 9, True, B=64)
    assert [stream for _, stream, _ in posing.repeats] == [2, 3]


def test_objects_with_an_address_are_on_the_current_stream(posing: Posing, monkeypatch) -> None:
    torch = install(monkeypatch)
    x = Buffer(Tensor(aligned(64)))
    for stream in (1, 2, 3):
        torch.streams[0] = stream
        scale[(1,)](x, 2, 7, 2.0, 9, True, B=64)
    assert [stream for _, stream, _ in posing.repeats] == [2, 3]
    torch.cuda.is_initialized = lambda: False
    scale.cache.clear()
    for _ in range(2):
        scale[(1,)](x, 2, 7, 2.0, 9, True, B=64)
    assert len(posing.repeats) == 2


def test_another_context_takes_an_ordinary_launch(posing: Posing) -> None:
    x = Tensor(aligned(64))
    for context in (CONTEXT, 0, 78, CONTEXT):
        posing.context = context
        scale[(1,)](x, 2, 7, 2.0, 9, True, B=64)
    assert (len(posing.ordinary), len(posing.repeats)) == (3, 1)


def test_a_float_that_is_infinite_in_32_bits(posing: Posing) -> None:
    x = Tensor(aligned(64))
    for factor in (2.0, 1e300, float("inf")):
        scale[(1,)](x, 2, 7, factor, 9, True, B=64)
    assert (len(posing.ordinary), len(posing.repeats)) == (2, 1)


def test_an_integer_that_no_type_holds(posing: Posing) -> None:
    x = Tensor(aligned(64))
    scale[(1,)](x, 2, 7, 2.0, 2**63 + 1, True, B=64)
    with pytest.raises(tile.errors.ArgumentValueError, match="no integer type holds"):
        scale[(1,)](x, 2, 7, 2.0, 2**64 + 1, True, B=64)


def test_a_refused_launch(posing: Posing, monkeypatch) -> None:
    monkeypatch.setattr(driver.cuda, "cuGetErrorString", lambda status: (0, b"in words"))
    x = Tensor(aligned(64))
    scale[(1,)](x, 2, 7, 2.0, 9, True, B=64)
    posing.status = int(driver.cuda.CUresult.CUDA_ERROR_INVALID_VALUE)
    message = r"launching `scale.*` on a grid of \(7, 1, 1\) with 128 threads failed: in words"
    for _ in range(2):
        with pytest.raises(ExecutionError, match=message):
            scale[(7,)](x, 2, 7, 2.0, 9, True, B=64)
    posing.status = 0
    scale[(1,)](x, 2, 7, 2.0, 9, True, B=64)
    assert (len(posing.ordinary), len(posing.repeats)) == (3, 1)


def test_a_launch_amid_another(posing: Posing) -> None:
    """As a finaliser may start one: each has its own block."""
    x, y = Tensor(aligned(64)), Tensor(aligned(64))
    scale[(1,)](x, 2, 7, 2.0, 9, True, B=64)
    posing.during = lambda: scale[(2,)](y, 3, 7, 2.0, 9, True, B=64)
    scale[(3,)](x, 5, 7, 2.0, 9, True, B=64)
    assert [(grid[0], values[1]) for grid, _, values in posing.repeats] == [(2, 3), (3, 5)]


def test_clusters(posing: Posing) -> None:
    """Clusters that do not fill the grid are left out, with one warning."""
    x = Tensor(aligned(64))

    def repeated(*grid: int) -> int:
        scale[grid](x, 2, 7, 2.0, 9, True, B=64, num_ctas=4)
        return posing.clusters[-1]

    scale[8, 3](x, 2, 7, 2.0, 9, True, B=64, num_ctas=4)
    assert posing.ordinary == [((8, 3, 1), 0xABC0_0000_0001)]
    assert [repeated(8), repeated(4, 7, 2)] == [4, 4]
    with pytest.warns(RuntimeWarning, match=r"without clusters: 6 programs.*num_ctas=4"):
        assert repeated(6, 4) == 1
    assert [repeated(6), repeated(12)] == [1, 4]
    assert len(posing.ordinary) == 1 and [grid[0] for grid, *_ in posing.repeats][-1] == 12


def test_dependent_launches(posing: Posing) -> None:
    """Alone, and in clusters, which not all grids have."""
    x = Tensor(aligned(64))
    for options in ({}, {"num_ctas": 4}):
        for grid in (8, 8, 4):
            scale[(grid,)](x, 2, 7, 2.0, 9, True, B=64, launch_pdl=True, **options)
    with pytest.warns(RuntimeWarning, match="without clusters: 6 programs"):
        scale[(6,)](x, 2, 7, 2.0, 9, True, B=64, launch_pdl=True, num_ctas=4)
    assert posing.clusters == [1, 1, 4, 4, 1] and all(posing.dependent)


def test_a_false_assertion_is_left_to_an_ordinary_launch(posing: Posing) -> None:
    """It raises what the kernel has reported; other launches are repeats."""
    x, posing.formats = Tensor(aligned(64)), "Qi"
    for _ in range(3):
        claim[(1,)](x, 60, B=64, debug=True)
    assert (len(posing.ordinary), len(posing.repeats)) == (1, 2)
    posing.fields[0] = 1
    for _ in range(3):
        claim[(1,)](x, 60, B=64, debug=True)
    assert (len(posing.ordinary), len(posing.repeats)) == (2, 4)


def test_programs_that_run_together_go_the_longer_way(posing: Posing) -> None:
    x = Tensor(aligned(64))
    for _ in range(3):
        scale[(1,)](x, 2, 7, 2.0, 9, True, B=64, launch_cooperative_grid=True)
    assert (len(posing.ordinary), posing.repeats) == (3, [])


def test_what_is_timed_is_timed_on_its_stream(posing: Posing, monkeypatch) -> None:
    """By the device, of launches that repeat; that the first of them was one before is no matter."""
    moments: list[int] = []

    class Event:
        def __init__(self, stream: int) -> None:
            moments.append(stream)
            self.at = len(moments)

        def since(self, earlier: Event) -> float:
            return float(self.at - earlier.at)

        def destroy(self) -> None:
            self.at = -1

    monkeypatch.setattr(driver, "Event", Event)
    monkeypatch.setattr(driver, "wait", lambda stream, doing: None)
    monkeypatch.setattr(driver, "allocate", lambda size: 1 << 40)
    monkeypatch.setattr(driver, "clear", lambda address, size, stream: moments.append(stream))
    monkeypatch.setattr(driver, "free", lambda address: None)
    x = Tensor(aligned(64))

    def call() -> None:
        scale[(1,)](x, 2, 7, 2.0, 9, True, B=64)

    call()
    call()
    assert (len(posing.ordinary), len(posing.repeats)) == (1, 1)
    assert set(do_bench(call, 1, 2, return_mode="all")) == {1.0}
    assert set(moments) == {0xABC0_0000_0001}
    assert len(posing.ordinary) == 2 and len(posing.repeats) == 1 + len(moments) // 3


def test_an_old_driver_goes_the_longer_way(posing: Posing) -> None:
    del posing.functions["cuLaunchKernelEx"]
    x = Tensor(aligned(64))
    for _ in range(3):
        scale[(1,)](x, 2, 7, 2.0, 9, True, B=64)
    assert (len(posing.ordinary), posing.repeats) == (3, [])


def test_items_of_tuples_are_written_once(posing: Posing) -> None:
    x, y = Tensor(aligned(64)), Tensor(aligned(64))
    entry = entry_of(x)
    values = [Item(0, 1), 8, Item(1, 0), 1.0, Passed(0), False]
    launch = entry.fixed((4, 1, 1), values)
    first, second, three, four = (0, x.data_ptr()), (0, y.data_ptr()), (3,), (4,)
    calls = [(first, three, 5), (first, three, 6), (second, three, 7), (second, four, 8)]
    for addresses, numbers, number in calls:
        assert launch(addresses, numbers, number)
        assert posing.repeats[-1][2] == (addresses[1], 8, *numbers, 1.0, number, False)
