"""Stubs on their own, of machine code and of Python, with a driver's function of this process."""

from __future__ import annotations

import ctypes
import gc
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tile.backends.nvptx import launch_stub
from tile.backends.nvptx.host_code import host_code
from tile.backends.nvptx.launch_metadata import MAP_ALIGNMENT, MAP_BYTES
from tile.backends.nvptx.launch_stub import CONFIG, MAP, Block, Driver, Move

LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
KINDS = ("Python", "machine code")


class Launches:
    """A driver's function, and what it was called with."""

    def __init__(self) -> None:
        self.streams: list[int] = []
        self.data: list[bytes] = []
        self.status = 0
        self.function = LAUNCH(self._launch)
        self.report = (ctypes.c_int32 * 1)()

    def _launch(self, config: int, function: int, parameters: int, extra: int | None) -> int:
        assert function == 1234 and extra is None
        addresses = (ctypes.c_void_p * self.count).from_address(parameters)
        self.data.append(b"".join([ctypes.string_at(at, 8) for at in addresses]))
        self.streams.append(CONFIG.unpack(ctypes.string_at(config, CONFIG.size))[7])
        return self.status

    count = 1  # of the parameters

    def stub(self, kind: str, *formats: str, stream: Callable[[], Any] = lambda: 7) -> Any:
        """Return a stub that takes a parameter of each format."""
        self.count = count = len(formats)
        config = 8 * count
        first = config + CONFIG.size
        offsets = [first + 8 * at for at in range(count)]
        moves = [Move(form, at, -1, offsets[at]) for at, form in enumerate(formats)]
        content = struct.pack(f"={count}Q", *offsets) + bytes(CONFIG.size + 8 * count)
        return self.make(kind, Block(count, content, count, config, tuple(moves)), stream)

    def make(self, kind: str, block: Block, stream: Callable[[], Any] = lambda: 7) -> Any:
        driver = Driver(self.function, 1234, stream, self.report, None)
        if kind == "Python":
            return launch_stub._python_stub(block, driver)
        assert host_code("launch_stub", *launch_stub._API) is not None
        return launch_stub.launch_stub(block, driver)


@pytest.fixture
def launches() -> Launches:
    return Launches()


LEAST, MOST = -(2**63), 2**63 - 1
CASES = [
    ("q", (0, -1, LEAST, MOST), (LEAST - 1, MOST + 1, 1.0, "1", None)),
    ("Q", (0, 1, 2**47 + 3, 2**64 - 1), (-1, 2**64, 1.0, "1", None)),
    ("i", (0, -1, -(2**31), 2**31 - 1), (-(2**31) - 1, 2**31, 2**64, 1.0, None)),
    (
        "f",
        (0.0, -0.0, -1.0, 1, 1e-50, 3.4028235e38, float("inf"), -float("inf")),
        (1e39, -1e300, "1", None),
    ),
    ("?", (True, False, 1, 0), ()),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form, right, wrong", CASES, ids=[case[0] for case in CASES])
def test_values(launches: Launches, kind: str, form: str, right: Any, wrong: Any) -> None:
    """A value that does not fit is refused, and leaves no error."""
    stub = launches.stub(kind, form)
    for value in right:
        assert stub(value) is True
        assert launches.data.pop() == struct.pack(f"={form}", value).ljust(8, b"\0")
    for value in wrong:
        assert stub(value) is False
    assert not launches.data


@pytest.mark.parametrize("kind", KINDS)
def test_a_float_that_is_no_number(launches: Launches, kind: str) -> None:
    assert launches.stub(kind, "f")(float("nan"))
    (number,) = struct.unpack("=f4x", launches.data[0])
    assert number != number


@pytest.mark.parametrize("kind", KINDS)
def test_items_and_addresses(launches: Launches, kind: str) -> None:
    """Items of tuples, an address that the call has, and what is fixed."""
    launches.count = 4
    word = ctypes.create_string_buffer(b"of a map", 8)
    first = 32 + CONFIG.size
    relative = struct.pack("=4Q", first + 8, first, first + 16, 0)
    content = relative + bytes(CONFIG.size + 16) + b"fixed   "
    moves = (Move("Q", 0, 1, first), Move("i", 0, 0, first + 8), Move("Q", 1, -1, 24))
    stub = launches.make(kind, Block(2, content, 3, 32, moves))
    assert stub((5, 2**40), ctypes.addressof(word))
    assert launches.data == [struct.pack("=i4xQ", 5, 2**40) + b"fixed   of a map"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_stream(launches: Launches, kind: str) -> None:
    """It is read at each launch; an error of the reader is the caller's."""
    streams = iter([3, 2**47, 2**64 - 1])
    stub = launches.stub(kind, "q", stream=lambda: next(streams))
    for _ in range(3):
        assert stub(1)
    assert launches.streams == [3, 2**47, 2**64 - 1]
    with pytest.raises(StopIteration):
        stub(1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_status_and_a_report(launches: Launches, kind: str) -> None:
    stub = launches.stub(kind, "q")
    launches.status = 400
    assert stub(1) is False and len(launches.data) == 1
    launches.status, launches.report[0] = 0, 1
    assert stub(1) is False and len(launches.data) == 1
    launches.report[0] = 0
    assert stub(1) is True


REPLACE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def test_tensor_maps(launches: Launches) -> None:
    """A parameter is a map in the block, in which the driver writes the address of an array."""
    replaced: list[tuple[int, int]] = []
    status = [0]

    def replace(copy: int, address: int) -> int:
        assert copy % MAP_ALIGNMENT == 0
        replaced.append((copy, address))
        ctypes.c_uint64.from_address(copy).value = address
        return status[0]

    config, first = 8, 8 + CONFIG.size
    at = first + -first % MAP_ALIGNMENT
    content = (
        struct.pack("=Q", at) + bytes(at - 8) + bytes(range(MAP_BYTES)) + struct.pack("=q", -64)
    )
    moves = (Move(MAP, 0, -1, at),)
    block = Block(1, content, 1, config, moves)
    replacing = REPLACE(replace)
    driver = Driver(launches.function, 1234, lambda: 7, launches.report, None, replacing)
    stub = launch_stub.launch_stub(block, driver)
    for address in (0x1000, 2**47):
        assert stub(address) is True and replaced[-1][1] == address - 64
        assert launches.data.pop() == struct.pack("=Q", address - 64)
    count = len(replaced)
    assert not any(map(stub, (0x1008, -1, 2**64, 1.0, None)))  # not aligned, or no address
    assert len(replaced) == count
    status[0] = 1
    assert not stub(0x1000) and not launches.data


def test_another_number_of_arguments_is_refused(launches: Launches) -> None:
    stub = launches.stub("machine code", "q", "q")
    assert not stub(1) and not stub(1, 2, 3) and not stub() and stub(1, 2)
    with pytest.raises(TypeError, match="keyword"):
        stub(1, b=2)


def test_references(launches: Launches) -> None:
    """A stub holds its functions while it lives, and none of its arguments."""
    stream = 2**50 + 7
    read = [lambda: stream]
    stub = launches.stub("machine code", "q", "Q", "f", stream=read[0])
    values = 2**40 + 1, 2**41 + 1, 0.25
    before = [sys.getrefcount(value) for value in (*values, stream, True, launches.report)]
    for _ in range(1000):
        stub(*values)
        stub("no", 1, 2.0)
    after = [sys.getrefcount(value) for value in (*values, stream, True, launches.report)]
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) < 100
    launches.data.clear()
    references = [sys.getrefcount(launches.report)]
    del stub
    gc.collect()
    references.append(sys.getrefcount(launches.report))
    assert references == [3, 2]


def test_other_threads_run_during_a_launch(launches: Launches) -> None:
    """And launch by the same stub: each has its own block."""
    inside, release = threading.Barrier(4, timeout=20), threading.Barrier(4, timeout=20)

    def wait(config: int, function: int, parameters: int, extra: int | None) -> int:
        inside.wait()  # until all threads have written their blocks
        release.wait()
        return ordinary(config, function, parameters, extra)

    ordinary = launches._launch
    launches.function = LAUNCH(wait)
    stub = launches.stub("machine code", "q")
    threads = [threading.Thread(target=stub, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(launches.data) == [struct.pack("=q", number) for number in range(4)]
