"""Conversions: done step by step on a model of registers and memory, and no dearer than need be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import examples
from tests.simt.layouts.layouts import distributed, elements
from tests.simt.layouts.machine import convert
from tile.simt.layouts import f2
from tile.simt.layouts.axes import slice_axis
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.conversion import Renaming, SharedConversion, plan_conversion, through_shared
from tile.simt.layouts.dims import LayoutError
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_layout
from tile.simt.layouts.shared_access import Banks
from tile.simt.layouts.warp_shuffle import ShufflePlan

EXAMPLES = examples(15)
SHAPES = st.sampled_from([[16, 16], [32, 8], [64], [4, 4, 8]])
BITS = st.sampled_from([8, 16, 32, 64])


@st.composite
def rearranged(draw: Any, src: LinearLayout, names: tuple[str, ...]) -> LinearLayout:
    """The same bases in other places of some of the inputs."""
    images = dict(src.ins)
    columns = draw(st.permutations([c for name in names for c in images[name]]))
    for name in names:
        images[name], columns = tuple(columns[: src.in_bits(name)]), columns[src.in_bits(name) :]
    return LinearLayout(tuple(images.items()), src.outs)


def distinct(layout: LinearLayout) -> int:
    """Count the registers of a thread that hold different elements."""
    return 1 << f2.rank(layout.images("register"))


def check(plan: Any, src: LinearLayout, dst: LinearLayout) -> None:
    got = convert(plan, src, dst.in_size("register"))
    assert np.array_equal(got, elements(dst))


@EXAMPLES
@given(SHAPES, BITS, st.data())
def test_any_layout_becomes_any_other(shape: list[int], bits: int, data: Any) -> None:
    warps = data.draw(st.integers(0, 2))
    src, dst = (data.draw(distributed(shape, lanes=3, warps=warps)) for _ in range(2))
    check(plan_conversion(src, dst, bits), src, dst)
    check(plan_conversion(src, dst, bits, shuffles=False), src, dst)


@EXAMPLES
@given(SHAPES, st.data())
def test_registers_alone_are_renamed(shape: list[int], data: Any) -> None:
    src = data.draw(distributed(shape, lanes=3, warps=1))
    dst = data.draw(rearranged(src, ("register",)))
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, Renaming)
    check(plan, src, dst)
    assert plan_conversion(src, src, 32) == Renaming(tuple(range(src.in_size("register"))))


@EXAMPLES
@given(SHAPES, BITS, st.data())
def test_lanes_are_shuffled(shape: list[int], bits: int, data: Any) -> None:
    src = data.draw(distributed(shape, lanes=3, warps=1, copies=False))
    dst = data.draw(rearranged(src, ("register", "lane")))
    plan = plan_conversion(src, dst, bits)
    assert isinstance(plan, Renaming | ShufflePlan)
    check(plan, src, dst)
    if isinstance(plan, ShufflePlan):
        # A lane fills a register, or a word of packed ones, in each step: no fewer would do.
        assert len(plan.steps) * len(plan.packed) == distinct(dst)
        assert len(plan.packed) <= max(1, 32 // bits)
        assert plan.coset.out_bits("coset") == 0
    without = plan_conversion(src, dst, bits, shuffles=False)
    assert isinstance(without, Renaming | SharedConversion)
    check(without, src, dst)


@EXAMPLES
@given(SHAPES, BITS, st.data())
def test_a_tile_held_several_times_is_shuffled(shape: list[int], bits: int, data: Any) -> None:
    src = data.draw(distributed(shape, lanes=4, warps=1, copies=True))
    dst = data.draw(rearranged(src, ("register", "lane")))
    plan = plan_conversion(src, dst, bits)
    assert isinstance(plan, Renaming | ShufflePlan)
    check(plan, src, dst)
    if isinstance(plan, ShufflePlan):
        # No fewer can do; where lanes hold copies, it is not always so few.
        assert len(plan.steps) * len(plan.packed) >= distinct(dst)


@EXAMPLES
@given(SHAPES, BITS, st.integers(0, 6), st.integers(0, 2), st.data())
def test_shared_memory_is_free_of_conflicts(
    shape: list[int], bits: int, lanes: int, warps: int, data: Any
) -> None:
    src, dst = (data.draw(distributed(shape, lanes=lanes, warps=warps)) for _ in range(2))
    banks = data.draw(st.sampled_from([Banks(), Banks(16), Banks(32, 64), Banks(32, 32, 64)]))
    plan = through_shared(src, dst, bits, banks)
    assert plan.layout.is_bijective()
    check(plan, src, dst)
    for access in (plan.store, plan.load):
        assert access.conflicts(bits, banks) == 0
        each, _ = access.wavefronts_each(bits, banks)
        assert (access.wavefronts(bits, banks) == each).all()  # counted, bank by bank


@EXAMPLES
@given(st.sampled_from([[32, 16], [8, 64], [4, 16, 8]]), BITS, st.data())
def test_vectors_are_as_wide_as_both_sides_allow(shape: list[int], bits: int, data: Any) -> None:
    src, dst = (
        data.draw(distributed(shape, lanes=3, warps=1, plain=True, copies=False)) for _ in range(2)
    )
    plan = through_shared(src, dst, bits)
    both = {*src.images("register")} & {*dst.images("register")}
    least = min(1 << len(both), 128 // bits)
    assert least <= plan.store.vector <= 128 // bits
    assert least <= plan.load.vector <= 128 // bits
    assert min(plan.store.vector, plan.load.vector) == least
    assert len(plan.store.registers) * plan.store.vector == src.in_size("register")
    assert len(plan.load.registers) * plan.load.vector == dst.in_size("register")


# Conversions that programs make.


def test_a_transposition_is_stored_by_word_and_loaded_in_vectors() -> None:
    """A warp stores a row of 32 words at once; four of a row are one vector of the load."""
    src = blocked([16, 32], [1, 1], [1, 32], [4, 1])
    dst = blocked([16, 32], [1, 4], [16, 2], [1, 4])
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, SharedConversion)
    assert (plan.store.vector, plan.load.vector) == (1, 4)
    assert (plan.store.conflicts(32), plan.load.conflicts(32)) == (0, 0)
    check(plan, src, dst)
    back = plan_conversion(dst, src, 32)
    assert isinstance(back, SharedConversion)
    assert {back.store.vector, back.load.vector} == {1, 4}
    check(back, dst, src)


def test_coalesced_rows_become_operands() -> None:
    """Both sides' registers walk bit 0 of k and bit 5 of m; the lanes that store walk more of k."""
    src = blocked([64, 32], [1, 8], [8, 4], [4, 1])
    dst = matrix_layout([64, 32], MmaShape(16, 8, 16, 16), Operand.LEFT, (2, 2))
    plan = plan_conversion(src, dst, 16)
    assert isinstance(plan, SharedConversion)
    assert (plan.store.vector, plan.load.vector) == (4, 8)
    assert (plan.store.conflicts(16), plan.load.conflicts(16)) == (0, 0)
    check(plan, src, dst)


def test_accumulators_become_the_operand_of_the_next_dot() -> None:
    """Two adjacent accumulators are a left operand of the next dot, as they are."""
    shape = MmaShape(16, 8, 16, 16)
    src = matrix_layout([64, 32], shape, Operand.ACCUMULATOR, (4, 1))
    dst = matrix_layout([64, 32], shape, Operand.LEFT, (4, 1))
    plan = plan_conversion(src, dst, 16)
    assert isinstance(plan, Renaming)
    check(plan, src, dst)


def test_rows_of_pairs_are_swapped_in_a_butterfly() -> None:
    """Two lanes that swap halves of their registers need one shuffle of a word, not two."""
    src = LinearLayout.of({"register": [[1]], "lane": [[2]], "warp": []}, [4])
    dst = LinearLayout.of({"register": [[2]], "lane": [[1]], "warp": []}, [4])
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, ShufflePlan)
    assert plan.is_butterfly
    assert [step.source for step in plan.steps] == [0, 1]
    assert plan.shuffles == 1
    check(plan, src, dst)


def test_narrow_elements_share_the_words_of_a_shuffle() -> None:
    src = blocked([16, 32], [1, 8], [8, 4], [1, 1])
    dst = blocked([16, 32], [1, 8], [8, 4], [1, 1], [0, 1])
    for bits, shuffles in ((64, 16), (32, 16), (16, 8), (8, 4)):
        plan = plan_conversion(src, dst, bits)
        assert isinstance(plan, ShufflePlan)
        assert plan.shuffles == shuffles
        check(plan, src, dst)


def test_sums_of_rows_spread_over_a_warp() -> None:
    """After a reduction several lanes have the same sums; each picks from adjacent lanes."""
    src = slice_axis(blocked([64, 64], [1, 4], [2, 16], [1, 1]), 1)
    dst = blocked([64], [1], [32], [1])
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, ShufflePlan)
    check(plan, src, dst)
    back = plan_conversion(dst, src, 32)
    assert isinstance(back, ShufflePlan)
    check(back, dst, src)
    assert (distinct(src), distinct(dst)) == (32, 2)
    assert (len(plan.steps), len(back.steps)) == (2, 32)


def test_lanes_that_take_the_same_element_take_it_in_one_step() -> None:
    src = LinearLayout.of({"register": [], "lane": [[1], [2], [4], [8], [0]]}, [16])
    dst = LinearLayout.of({"register": [], "lane": [[0], [4], [8], [1], [2]]}, [16])
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, ShufflePlan)
    assert len(plan.steps) == 1
    check(plan, *(LinearLayout((*x.ins, ("warp", ())), x.outs) for x in (src, dst)))


def test_senders_of_one_register_serve_a_warp_in_several_steps() -> None:
    """Each warp takes what 8 lanes have, in one register of the 32 that would hold it all."""
    src = LinearLayout.of(
        {
            "register": [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]],
            "lane": [[0, 1], [0, 2], [0, 0], [0, 0], [0, 0]],
            "warp": [[0, 0], [0, 0]],
        },
        [32, 4],
    )
    dst = LinearLayout.of(
        {
            "register": [],
            "lane": [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]],
            "warp": [[0, 1], [0, 2]],
        },
        [32, 4],
    )
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, ShufflePlan)
    assert len(plan.steps) == 4
    check(plan, src, dst)


def test_a_copy_that_every_thread_has_is_a_renaming() -> None:
    src = blocked([8], [8], [32], [4])
    dst = LinearLayout.of(
        {"register": [[4], [1], [2], [0]], "lane": [[0]] * 5, "warp": [[0]] * 2}, [8]
    )
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, Renaming)
    assert plan.registers == (0, 4, 1, 5, 2, 6, 3, 7) * 2


def test_each_lane_picks_its_own_of_what_it_has() -> None:
    """No lane needs another, but which register a lane takes is its own: steps without shuffle."""
    src = blocked([32], [32], [32], [1])
    dst = blocked([32], [1], [32], [1])
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, ShufflePlan)
    check(plan, src, dst)
    assert plan.shuffles == 0


def test_blocks_may_hold_copies_but_give_none() -> None:
    inner = {"register": [[1], [2]], "lane": [[4]], "warp": []}
    src = LinearLayout.of({**inner, "block": [[0]]}, [8])
    dst = LinearLayout.of({"register": [[4], [2]], "lane": [[1]], "block": [[0]]}, [8])
    assert isinstance(plan_conversion(src, dst, 32), ShufflePlan)
    assert isinstance(plan_conversion(src, dst, 32, shuffles=False), SharedConversion)
    halves = LinearLayout.of({**inner, "block": [[8]]}, [16])
    swapped = LinearLayout.of({"register": [[8], [2]], "lane": [[4]], "block": [[1]]}, [16])
    with pytest.raises(LayoutError, match="would have to change blocks"):
        plan_conversion(halves, swapped, 32)
    other = LinearLayout.of({"register": [[4], [2]], "lane": [[1]], "block": [[8]]}, [16])
    assert isinstance(plan_conversion(halves, other, 32), ShufflePlan)
    with pytest.raises(LayoutError, match="a block does not hold all of"):
        plan_conversion(halves, other, 32, shuffles=False)


ROWS = blocked([8, 8], [1, 2], [8, 4], [1, 1])


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("elements have 8 to 64 bits, not 1", lambda: plan_conversion(ROWS, ROWS, 1)),
        (
            r"a conversion keeps the lanes, and does not make \(32, 16\)",
            lambda: plan_conversion(ROWS, blocked([8, 8], [1, 4], [8, 2], [1, 1]), 32),
        ),
        (
            r"a conversion keeps the warps, and does not make \(1, 2\)",
            lambda: plan_conversion(ROWS, blocked([8, 8], [1, 2], [8, 4], [1, 2]), 32),
        ),
        (
            "are not",
            lambda: plan_conversion(ROWS, blocked([8, 16], [1, 4], [8, 4], [1, 1]), 32),
        ),
        (
            "is in no index of",
            lambda: plan_conversion(ROWS.select_ins("lane", "warp"), ROWS, 32),
        ),
        (
            "registers, lanes, warps and blocks hold a tile, but not .'offset'.",
            lambda: plan_conversion(LinearLayout.of({"offset": [[1]]}, [2]), ROWS, 32),
        ),
    ],
)
def test_conversions_that_are_refused(message: str, wrong: Any) -> None:
    with pytest.raises(LayoutError, match=message):
        wrong()
