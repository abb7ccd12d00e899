"""The counts of a trace equal those of a reference that counts element by element in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile
import tile.language as tl
from tile.config import config
from tile.diagnostics.trace import Trace
from tile.trace_data import MAX_KERNELS, ArrayUse, Counts, KernelUse

# One access of one program: the elements of the array that active lanes reach, and all lanes.
Access = tuple[int, list[int], int]


def expected(accesses: Iterable[Access], lead: int, size: int) -> tuple[Counts, Counter[int], int]:
    """Counts, how far away programs touched lines before, and how many lines were new.

    The accesses of one execution by all programs are in order of programs.
    """
    counts, reuse, last = Counts(), Counter[int](), dict[int, int]()
    for program, elements, lanes in accesses:
        starts = [lead + element * size for element in elements]
        counts.add(
            Counts(
                1,
                lanes,
                lanes - len(elements),
                len(elements) * size,
                len({start // 32 for start in starts}),
                len({start // 128 for start in starts}),
            )
        )
        for line in {start // 128 for start in starts}:
            if line in last:
                reuse[abs(program - last[line]).bit_length()] += 1
            last[line] = program
    return counts, reuse, len(last)


def only(trace: Trace) -> KernelUse:
    (use,) = trace.kernels
    return use


def of(use: KernelUse, verb: str) -> Counts:
    (counts,) = (c for site, c in use.sites.items() if site.verb == verb)
    return counts


def reuse_of(array: ArrayUse) -> dict[int, int]:
    return {bits: int(n) for bits, n in enumerate(array.reuse) if n}


@tile.jit
def strided(x_ptr, o_ptr, start, pitch, step, n, trips, B: tl.constexpr):
    lane = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for iteration in range(trips):
        i = start + tl.program_id(0) * pitch + iteration * 3 + lane * step
        total += tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32)
    tl.store(o_ptr + tl.program_id(0) * B + lane, total)


@pytest.mark.parametrize("chunk", [1, 1 << 21])
@settings(max_examples=25, deadline=None)
@given(
    programs=st.integers(1, 9),
    start=st.integers(0, 40),
    pitch=st.integers(0, 40),
    step=st.integers(1, 9),
    trips=st.integers(1, 3),
    lead=st.integers(0, 70),
    size=st.sampled_from([np.int8, np.float16, np.float32, np.float64]),
    n=st.integers(0, 400),
)
def test_counts(
    chunk: int,
    programs: int,
    start: int,
    pitch: int,
    step: int,
    trips: int,
    lead: int,
    size: type,
    n: int,
) -> None:
    block = 16
    whole = np.zeros(600, size)
    x, out = whole[lead : lead + 500], np.zeros((9, block), np.float32)
    with tile.trace() as trace, config.scope(chunk_bytes=chunk):
        strided[(programs,)](x, out, start, pitch, step, n, trips, B=block)
    accesses = []
    heat = Counter[int]()
    order = [(t, p) for t in range(trips) for p in range(programs)]
    if chunk == 1:  # one program after the other
        order = [(t, p) for p in range(programs) for t in range(trips)]
    for iteration, program in order:
        indices = [start + program * pitch + iteration * 3 + k * step for k in range(block)]
        reached = [place for place in indices if place < n]
        accesses.append((program, reached, block))
        heat.update(reached)
    itemsize = whole.itemsize
    counts, reuse, lines = expected(accesses, lead * itemsize, itemsize)
    use = only(trace)
    assert vars(of(use, "reads")) == vars(counts)
    array = use.arrays[0]
    assert reuse_of(array) == reuse
    assert array.first == array.lines == lines
    assert array.sectors == len({(lead + place) * itemsize // 32 for place in heat})
    assert array.bytes_read == counts.bytes
    cells = array.reads.counts.ravel()
    counted = Counter[int]()
    for place, times in heat.items():
        counted[int(array.reads.raster.cell(np.array([place]))[0])] += times
    assert {cell: int(n) for cell, n in enumerate(cells) if n} == counted


@tile.jit
def mixed(x_ptr, at_ptr, count_ptr, o_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid % 2 == 0:
        place = tl.load(at_ptr + i)
        x = tl.load(x_ptr + place)
        tl.store(o_ptr + pid * B + i, x)
    tl.atomic_add(count_ptr + i // 4, 1, mask=i < n)


def test_gathers_branches_and_atomics() -> None:
    at = np.array([5, 5, 90, 7, 1, 0, 33, 64], np.int32)
    x, count, out = np.arange(100, dtype=np.float64), np.zeros(2, np.int32), np.zeros(40)
    with tile.trace() as trace:
        mixed[(5,)](x, at, count, out, 6, B=8)
    use = only(trace)
    by_line = {site.loc.line: (site.verb, counts) for site, counts in use.by_line()}
    start = mixed.fn.__code__.co_firstlineno
    verbs = [by_line[line][0] for line in sorted(by_line)]
    assert verbs == ["reads", "reads", "writes", "updates"]
    counts = [by_line[line][1] for line in sorted(by_line)]
    assert [c.executions for c in counts] == [3, 3, 3, 5]
    gathered = expected([(p, list(map(int, at)), 8) for p in (0, 2, 4)], 0, 8)[0]
    assert vars(counts[1]) == vars(gathered)
    assert vars(counts[3]) == vars(
        expected([(p, [0, 0, 0, 0, 1, 1], 8) for p in range(5)], 0, 4)[0]
    )
    assert min(by_line) > start
    np.testing.assert_array_equal(count, [20, 10])  # it ran
    names = [array.view.argument for array in use.arrays]
    counter = use.arrays[names.index("count_ptr")]
    assert counter.bytes_read == counter.bytes_written == 5 * 6 * 4
    assert reuse_of(counter) == {1: 4}


@tile.jit
def block_copy(x_ptr, o_ptr, m, n, M: tl.constexpr, N: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [M, N])
    o = tl.make_tensor_descriptor(o_ptr, [m, n], [n, 1], [M, N])
    o.store([tl.program_id(0) * M, 0], x.load([tl.program_id(0) * M, 0]))


def test_descriptor_accesses_are_masked_accesses() -> None:
    x, out = np.ones((10, 12), np.float32), np.zeros((10, 12), np.float32)
    with tile.trace() as trace:
        block_copy[(3,)](x, out, 10, 12, M=4, N=16)
    np.testing.assert_array_equal(out, x)
    read = of(only(trace), "reads")
    assert (read.elements, read.masked, read.bytes) == (3 * 64, 192 - 120, 480)
    np.testing.assert_array_equal(only(trace).arrays[1].writes.counts, np.ones((10, 12)))


@tile.jit
def far(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i))


def test_with_checks() -> None:
    """Elements that checks dropped are not counted; without a report a fault ends the launch."""
    x, out = np.ones(30, np.float32), np.zeros(32, np.float32)
    with tile.sanitize(collect=True) as report, tile.trace() as trace:
        far[(4,)](x, out, B=8)
    assert len(report) > 0
    assert of(only(trace), "reads").bytes == 120
    with tile.trace() as trace, pytest.raises(tile.errors.OutOfBoundsError):
        far[(4,)](x, out, B=8)
    assert only(trace).launches == 1
    assert not only(trace).sites  # the first access failed


def test_launches_add_up_and_kinds_of_them_are_bounded() -> None:
    with tile.trace() as trace:
        for n in [*range(1, MAX_KERNELS + 5), 3]:
            far[(n,)](np.ones(8 * n, np.float32), np.ones(8 * n, np.float32), B=8)
    assert (trace.launches, trace.left_out, len(trace.kernels)) == (MAX_KERNELS + 5, 4, MAX_KERNELS)
    assert trace.kernels[2].launches == 2
    assert of(trace.kernels[2], "reads").bytes == 2 * 3 * 32


def test_nothing_is_recorded_outside() -> None:
    with tile.trace() as trace:
        pass
    far[(1,)](np.ones(8, np.float32), np.ones(8, np.float32), B=8)
    assert not trace
    assert str(trace) == "no launches"


def uses(make: Callable[[], None]) -> int:
    import tracemalloc

    tracemalloc.start()
    try:
        make()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@tile.jit
def touch(x_ptr, iterations, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    for _ in range(iterations):
        tl.store(x_ptr + i, 1.0)


def test_memory_does_not_grow_with_the_run() -> None:
    x = np.zeros(1 << 20, np.float32)

    def run(iterations: int) -> Callable[[], None]:
        def make() -> None:
            with tile.trace() as trace, config.scope(chunk_bytes=1 << 16):
                touch[(1024,)](x, iterations, B=1024)
            assert of(only(trace), "writes").executions == 1024 * iterations

        return make

    run(1)()
    few, many = uses(run(2)), uses(run(8))
    assert many < 1.5 * few + (4 << 20)
