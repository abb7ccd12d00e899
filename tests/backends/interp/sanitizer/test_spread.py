"""All wrong elements of a fault are counted: by tile, program and address."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tile.faults import FaultGroup


def only(report: tile.faults.FaultLog) -> FaultGroup:
    (group,) = report.groups
    return group


@tile.jit
def write_rows(o_ptr, n, stride, M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    tl.store(o_ptr + r * stride + tl.arange(0, N)[None, :], 1.0)


def test_a_view_with_gaps() -> None:
    view = np.zeros((10, 8), np.float32)[:, 1:7]
    with tile.sanitize("bounds", collect=True) as report:
        write_rows[(3,)](view, 6, 8, M=4, N=8)
    spreads = only(report).extents
    # The place of each element, and whether it is of the view.
    rows, columns = np.arange(12)[:, None], np.arange(8)[None, :]
    wrong = (rows >= 10) | (columns >= 6)
    np.testing.assert_array_equal(
        spreads.tiles[(4, 8)].counts, wrong.reshape(3, 4, 8).sum(0), "tile"
    )
    np.testing.assert_array_equal(
        spreads.grids[(3, 1, 1)].counts, wrong.reshape(3, -1).sum(1)[None], "grid"
    )
    (landing,) = spreads.array_heatmaps.values()
    margin = landing.heatmap.raster.margin
    np.testing.assert_array_equal(landing.heatmap.counts[margin : margin + 12], wrong, "array")
    np.testing.assert_array_equal(landing.inside[margin : margin + 10], ~wrong[:10], "view")
    assert only(report).elements == wrong.sum()
    assert landing.before.count == landing.after.count == 0


def test_the_host_is_not_written(capsys: object) -> None:
    whole = np.zeros((10, 8), np.float32)
    with tile.sanitize("bounds", collect=True):
        write_rows[(3,)](whole[:, 1:7], 6, 8, M=4, N=8)
    assert not whole[:, [0, 7]].any()
    assert whole[:, 1:7].all()


@tile.jit
def mirrored(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr - i))


def test_a_reversed_view_and_far_addresses() -> None:
    x = np.arange(5000, dtype=np.int32)
    with tile.sanitize("bounds", collect=True) as report:
        mirrored[(1,)](x[99::-1], np.zeros(4096, np.int32), 1, B=4096)
    (landing,) = only(report).extents.array_heatmaps.values()
    assert (landing.view.low, landing.view.high) == (-99, 1)
    near = landing.heatmap.counts.sum()
    assert near + landing.before.count == 4096 - 100
    assert landing.before.farthest == -4095
    assert landing.after.count == 0


@tile.jit
def count_up(o_ptr, B: tl.constexpr):
    p = o_ptr + tl.arange(0, B)
    tl.store(p, tl.load(p) + 1)


def test_both_programs_of_a_race() -> None:
    with tile.sanitize("race", collect=True) as report:
        count_up[(5,)](np.zeros(8, np.int32), B=8)
    assert len(report.groups) == 2  # of the load with the store, and of the store with itself
    for group in report.groups:
        assert group.elements == group.executions == 8
        (landing,) = group.extents.array_heatmaps.values()
        (met,) = set(map(int, landing.heatmap.counts[landing.heatmap.raster.margin]))
        assert group.extents.tiles[(8,)].counts.sum() == 8 * met


@tile.jit
def weigh(x_ptr, o_ptr, B: tl.constexpr):
    r = tl.arange(0, B)
    w = tl.load(x_ptr + r, mask=r < B - 2)[:, None]
    tl.store(o_ptr + r[:, None] * B + r[None, :], w + tl.zeros((B, B), tl.float32))


def test_values_alike_along_an_axis_count_in_full() -> None:
    with tile.sanitize("undef", collect=True) as report:
        weigh[(3,)](np.ones(8, np.float32), np.zeros((8, 8), np.float32), B=8)
    group = next(g for g in report.groups if g.check == "undef")
    assert [fault.count for fault in group.faults] == [2 * 8] * 3
    assert group.elements == 3 * 2 * 8
    np.testing.assert_array_equal(group.extents.tiles[(8, 8)].counts, [[0] * 8] * 6 + [[3] * 8] * 2)


def test_launches_of_other_shapes_are_apart() -> None:
    with tile.sanitize("bounds", collect=True) as report:
        for n in range(1, 8):
            write_rows[(n,)](np.zeros((1, 1), np.float32), 1, 1, M=n and 2, N=2)
    spreads = only(report).extents
    assert len(spreads.grids) == 4  # the first ones; all are counted
    assert list(spreads.tiles) == [(2, 2)]
    assert len(report.faults) == 1 + 2 + 3 + 4 + 5 + 6 + 7
    assert len(report.to_json()) < 25_000
