"""Launches made again in other ways: what they change is found, and nothing of it stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.backends.interp.launch import reordered
from tile.config import config
from tile.diagnostics.differential import CheckOptions, DifferentialRun, Findings


@tile.jit
def last_wins(o_ptr):
    tl.store(o_ptr, tl.program_id(0))


@tile.jit
def total(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o_ptr, tl.sum(tl.load(x_ptr + i, i < n, other=0), 0))


@tile.jit
def first_tile_only(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + i, i < n, other=0), 0))


@tile.jit
def over_the_end(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i))


@tile.jit
def add_one(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + 1)


@tile.jit
def only_in_reverse(flag_ptr, o_ptr, n):
    pid = tl.program_id(0)
    if pid == n - 1:
        seen = tl.atomic_add(flag_ptr, 0)
        tl.device_assert(seen != 0, "the first program has not run yet")
    if pid == 0:
        tl.atomic_add(flag_ptr, 1)


def rehearse(launch: Any, **plan: Any) -> Findings:
    rehearsal = DifferentialRun(CheckOptions(**plan))
    with rehearsal.watching() as findings:
        launch()
    return findings


def by_blocks(n: int) -> Any:
    return lambda meta: (tile.cdiv(n, meta["B"]),)


def test_a_result_that_depends_on_the_order_is_detected() -> None:
    outcome = rehearse(lambda: last_wins[(4,)](np.zeros(1, np.int32)), checks=frozenset())
    (dependence,) = outcome.dependences
    assert dependence.way == "TILE_INTERP_ORDER=reverse"
    difference = dependence.difference
    assert difference is not None
    assert (difference.label, difference.here, difference.there) == ("o_ptr", "3", "0")
    assert outcome and not dependence.harmless


def test_the_way_that_is_named_brings_the_other_result_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILE_INTERP_ORDER", "reverse")
    out = np.zeros(1, np.int32)
    last_wins[(4,)](out)
    assert out[0] == 0


def test_sums_of_integers_are_the_same_in_any_order_and_by_any_block() -> None:
    x, out = np.arange(100, dtype=np.int32), np.zeros(1, np.int32)
    outcome = rehearse(lambda: total[by_blocks(100)](x, out, 100, B=8), varied={"B": [8, 16, 64]})
    assert not outcome and not outcome.dependences
    assert out[0] == x.sum()
    (tally,) = outcome.tallies.values()
    assert {"B=16", "B=64"} < set(tally.ways) and "B=8" not in tally.ways


def test_sums_of_floats_round_and_that_is_no_fault() -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    outcome = rehearse(
        lambda: total[by_blocks(1000)](x, np.zeros(1, np.float32), 1000, B=16), seeds=4
    )
    assert not outcome and outcome.dependences
    assert all(one.harmless for one in outcome.dependences)


def test_a_result_that_depends_on_a_block_is_detected() -> None:
    x = np.ones(20, np.int32)
    outcome = rehearse(
        lambda: first_tile_only[by_blocks(1)](x, np.zeros(1, np.int32), 20, B=32),
        varied={"B": [16]},
    )
    (dependence,) = outcome.dependences
    assert dependence.way == "B=16"
    assert dependence.difference is not None
    assert (dependence.difference.here, dependence.difference.there) == ("20", "16")


def test_a_fixed_grid_is_unchanged_and_reported() -> None:
    x = np.ones(20, np.int32)
    outcome = rehearse(
        lambda: first_tile_only[(1,)](x, np.zeros(1, np.int32), 20, B=32), varied={"B": [16]}
    )
    (tally,) = outcome.tallies.values()
    assert not outcome and tally.not_varied == {"B"}


def test_faults_of_a_variation_are_reported_with_it() -> None:
    x, out = np.zeros(32, np.int32), np.zeros(32, np.int32)
    outcome = rehearse(lambda: over_the_end[by_blocks(1)](x, out, B=32), varied={"B": [64]})
    assert not outcome.report
    assert {(way, group.check.value) for way, group in outcome.elsewhere} == {("B=64", "bounds")}


def test_a_failure_of_a_variation_is_reported_and_the_launch_stays() -> None:
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    with config.scope(chunk_bytes=1):
        outcome = rehearse(lambda: only_in_reverse[(4,)](flag, out, 4), checks=frozenset(), seeds=1)
    failures = [one for one in outcome.dependences if one.difference is None]
    assert [one.way for one in failures] == ["TILE_INTERP_ORDER=reverse"]
    assert "has not run yet" in failures[0].failure
    assert flag[0] == 1


def test_effects_are_those_of_one_launch() -> None:
    x = np.zeros(1, np.int32)
    outcome = rehearse(lambda: [add_one[(1,)](x) for _ in range(5)], launches=2)
    assert x[0] == 5 and not outcome
    (tally,) = outcome.tallies.values()
    assert tally.launches == 5


def test_all_configurations_of_a_tuned_kernel_are_tried() -> None:
    configs = [tile.Config({"B": b}) for b in (32, 16)]
    tuned = tile.autotune(configs, key=["n"])(first_tile_only)
    x, out = np.ones(20, np.int32), np.zeros(1, np.int32)
    outcome = rehearse(lambda: tuned[(1,)](x, out, 20))
    (dependence,) = outcome.dependences
    assert dependence.way.startswith("B: 16")
    assert out[0] == 20


def test_what_was_never_written_stays_so_for_the_other_ways() -> None:
    x, out = tile.empty(32, np.int32), np.zeros(32, np.int32)
    outcome = rehearse(lambda: over_the_end[(1,)](x, out, B=32))
    assert [group.check.value for group in outcome.report.groups] == ["undef"]
    assert x.written is not None and not x.written.any()


@pytest.mark.parametrize("order", ["reverse", 0, 1, 2])
@pytest.mark.parametrize(("programs", "size"), [(1, 4), (7, 100), (1000, 3), (100, 64)])
def test_an_order_has_every_program_once(order: str | int, programs: int, size: int) -> None:
    batches = [batch.tolist() for batch in reordered(programs, size, order)]
    assert all(batch == sorted(batch) and 0 < len(batch) <= size for batch in batches)
    assert sorted(row for batch in batches for row in batch) == list(range(programs))
    assert programs == 1 or batches != [list(range(programs))]
