"""Kernels beyond the random ones, through all passes, against the tile-level interpreter.

Races for global memory among a program's threads are looked for in all of them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.sampling import sample
from tests.simt.edge_kernels import EDGES, dot_of, kernel, ramp, streamed, zeros
from tests.simt.kernels import Kernel
from tile import backends
from tile.config import config
from tile.errors import DeviceAssertionError, OutOfResourcesError

# Machine, warps, stages.
CONFIGURATIONS = [
    ("plain", 4, 2),
    ("generic", 8, 3),
    ("cp_async", 2, 4),
    ("mma", 4, 3),
    ("warp64", 1, 1),
    ("mma", 32, 2),
]


def run(of: Kernel, target: str, **options: Any) -> list[Any]:
    """The arrays after a launch, those behind pointers too."""
    compiled = of.compile(target, **options)
    arguments = of.arguments()
    with config.scope(interp_races=True):
        backends.get("interp").load(compiled.artifact).launch(of.grid, arguments)
    arrays = []
    for argument in arguments:
        targets = getattr(argument, "targets", None)
        arrays += [argument] if targets is None else targets
    return [array for array in arrays if isinstance(array, np.ndarray)]


def agree(actual: list[Any], wanted: list[Any]) -> None:
    for x, y in zip(actual, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("name", "machine", "warps", "stages"), sample(EDGES, CONFIGURATIONS, each=2)
)
def test_threads_do_what_tiles_say(name: str, machine: str, warps: int, stages: int) -> None:
    of = EDGES[name]
    actual = run(of, f"interp:{machine}", num_warps=warps, num_stages=stages)
    agree(actual, wanted(name))


@cache
def wanted(name: str) -> list[Any]:
    return run(EDGES[name], "interp")


@pytest.mark.parametrize(
    ("stages", "machine"), sample([1, 2, 3, 4, 5], ["generic", "cp_async", "mma"])
)
def test_loops_of_few_iterations(machine: str, stages: int) -> None:
    """More stages than iterations, and loops that do not run at all."""
    for count in (0, 1, 2, 3, 7):
        of = kernel(
            dot_of,
            lambda count=count: [
                ramp(32, 128, dtype=np.float16),
                ramp(128, 32, dtype=np.float16),
                zeros(32, 32),
                np.int32(count),
            ],
            M=32,
            K=16,
        )
        agree(
            run(of, f"interp:{machine}", num_warps=4, num_stages=stages),
            run(of, "interp"),
        )
    for bounds in ((0, 0, 1), (5, 2, 1), (3, 4, 9), (6, 0, -2), (0, 7, 3)):
        of = kernel(
            streamed,
            lambda bounds=bounds: [
                ramp(7, 256, dtype=np.int32),
                zeros(256, dtype=np.int32),
                *(np.int32(bound) for bound in bounds),
            ],
            N=256,
        )
        agree(
            run(of, f"interp:{machine}", num_warps=4, num_stages=stages),
            run(of, "interp"),
        )


# -- what a program says


@tile.jit
def talking(x_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * N + tl.arange(0, N))
    tl.device_print("x", x, pid)
    tl.device_print("square", tl.trans(tl.reshape(x, (N // 4, 4))))
    if pid == 1:
        tl.device_print("sum", tl.sum(x, axis=0), hex=True)


@tile.jit
def claiming(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    y = tl.trans(tl.reshape(x, (N // 4, 4)))
    tl.device_assert(y < 90, "below 90", mask=y > 0)


@tile.jit
def claiming_of_all(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.device_assert(tl.sum(x, axis=0) < 90, "a small sum")


WORDS = [("plain", 4), ("generic", 8), ("mma", 1), ("warp64", 2)]


@pytest.mark.parametrize(("machine", "warps"), WORDS)
@pytest.mark.parametrize("extent", [4, 64, 512])
def test_prints_are_those_of_tiles(
    machine: str, warps: int, extent: int, capfd: pytest.CaptureFixture[str]
) -> None:
    of = kernel(talking, lambda: [ramp(2, extent, dtype=np.int32)], (2, 1, 1), N=extent)
    run(of, "interp")
    printed = capfd.readouterr().out
    run(of, f"interp:{machine}", num_warps=warps)
    assert capfd.readouterr().out == printed
    assert "square" in printed


@pytest.mark.parametrize(("machine", "warps"), WORDS)
@pytest.mark.parametrize("function", [claiming, claiming_of_all])
def test_assertions_are_those_of_tiles(function: Any, machine: str, warps: int) -> None:
    def make() -> list[Any]:
        x = np.zeros((3, 256), np.int32)
        x[1, 77], x[2, 3] = 95, 95
        return [x]

    of = kernel(function, make, (3, 1, 1), N=256)
    errors = []
    for target in ("interp", f"interp:{machine}"):
        with pytest.raises(DeviceAssertionError) as caught:
            run(of, target, num_warps=warps)
        errors.append(caught.value)
    tiles, threads = errors
    assert (threads.message, threads.loc) == (tiles.message, tiles.loc)
    # Where it failed: an element of the tile, or a register of a thread.
    assert "in program (1, 0, 0) of grid (3, 1, 1)" in tiles.notes[0]
    assert "in program (1, 0, 0) of grid (3, 1, 1), thread " in threads.notes[0]


# -- what does not fit


@tile.jit
def large_dot(a_ptr, b_ptr, c_ptr, n, M: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, K)
    total = tl.zeros((M, M), dtype=tl.float32)
    for step in range(n):
        a = tl.load(a_ptr + step * M * K + i[:, None] * K + k[None, :])
        b = tl.load(b_ptr + step * M * K + k[:, None] * M + i[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i[:, None] * M + i[None, :], total)


def test_more_stages_than_fit() -> None:
    """A loop has as many stages as fit."""
    half = {"dtype": np.float16}
    of = kernel(
        large_dot,
        lambda: [ramp(256, 64, **half), ramp(128, 128, **half), zeros(128, 128), np.int32(2)],
        M=128,
        K=64,
    )
    module = of.compile("interp:mma", num_warps=8, num_stages=12).artifact.module
    multi_buffers = [op.result.type for op in module.walk() if op.name == "local_alloc"]
    assert any(2 < multi_buffer.stages < 12 for multi_buffer in multi_buffers)
    agree(run(of, "interp:mma", num_warps=8, num_stages=12), run(of, "interp"))


@tile.jit
def dot_in_a_dot(a_ptr, b_ptr, c_ptr, n, M: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, K)
    total = tl.zeros((M, M), dtype=tl.float32)
    for outer in range(n):
        c = tl.load(c_ptr + outer * M * M + i[:, None] * M + i[None, :])
        for step in range(n):
            a = tl.load(a_ptr + step * M * K + i[:, None] * K + k[None, :])
            b = tl.load(b_ptr + step * M * K + k[:, None] * M + i[None, :])
            total = tl.dot(a, b, total)
        total = tl.dot(c.to(tl.float16), tl.trans(c).to(tl.float16), total)
    tl.store(c_ptr + i[:, None] * M + i[None, :], tl.sort(total))


def test_loops_in_loops_that_do_not_fit() -> None:
    """The passes decide if they fit, and following the advice of the error makes them fit."""
    half = {"dtype": np.float16}

    def of(m: int, k: int) -> Kernel:
        def make() -> list[Any]:
            return [ramp(2 * m, k, **half), ramp(2 * m, k, **half), zeros(2, m, m), np.int32(2)]

        return kernel(dot_in_a_dot, make, M=m, K=k)

    helped = 0
    for m, k in ((128, 64), (128, 128), (256, 64)):
        try:
            of(m, k).compile("interp:mma", num_warps=8, num_stages=3)
        except OutOfResourcesError as error:
            stages = re.search(r"num_stages=(\d+)", error.message)
            smaller = re.search(r"tiles of 1/(\d+)", error.message)
            assert stages or smaller, error.message
            less = int(smaller[1]) if smaller else 1
            options = {"num_stages": int(stages[1])} if stages else {}
            of(m // less, k).compile("interp:mma", num_warps=8, **options)
            helped += 1
    assert helped > 0


@tile.jit
def large_transpose(x_ptr, y_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(y_ptr + i * N + j, tl.trans(tl.load(x_ptr + i * N + j)))


def test_tiles_that_never_fit() -> None:
    def of(extent: int) -> Kernel:
        return kernel(large_transpose, lambda: [ramp(8), zeros(8)], N=extent)

    with pytest.raises(OutOfResourcesError) as caught:
        of(256).compile("interp:generic", num_warps=8)
    hint = re.search(r"tiles of 1/(\d+) of their size would take (\d+)", str(caught.value))
    assert hint is not None, str(caught.value)
    assert int(hint[2]) <= 49152
    # A tile of a 16th has a quarter of the rows and of the columns.
    extent = 256
    while (256 // extent) ** 2 < int(hint[1]):
        extent //= 2
    of(extent).compile("interp:generic", num_warps=8)


def test_more_threads_than_a_machine_has() -> None:
    with pytest.raises(OutOfResourcesError, match="2048 threads") as caught:
        EDGES["masks"].compile("interp:warp64", num_warps=32)
    hint = re.search(r"num_warps ?= ?(\d+)", caught.value.message)
    assert hint is not None
    EDGES["masks"].compile("interp:warp64", num_warps=int(hint[1]))
