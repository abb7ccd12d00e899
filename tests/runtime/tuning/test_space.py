"""Search spaces: values, rules, and what is no space."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tile
from tile.errors import ArgumentTypeError, ArgumentValueError, AutotunerError, HookError
from tile.runtime.autotuning.space import Space, point_of


def test_the_space_of_the_paper_is_one_line() -> None:
    paper = Space(TM=(32, ..., 128), TN=(32, ..., 128), TK=(8, ..., 32), thread_tile=(1, ..., 4))
    assert [d.values for d in paper.dimensions] == [(32, 64, 128)] * 2 + [(8, 16, 32), (1, 2, 4)]
    assert len(paper) == len(paper.configs) == 81
    first, *_, last = paper
    assert first == tile.Config({"TM": 32, "TN": 32, "TK": 8, "thread_tile": 1})
    assert last.kwargs == {"TM": 128, "TN": 128, "TK": 32, "thread_tile": 4}


def test_options_are_options_of_configurations() -> None:
    (config,) = Space({"BLOCK": [64]}, num_warps=[8], num_stages=[2])
    assert config == tile.Config({"BLOCK": 64}, num_warps=8, num_stages=2)
    assert point_of(config) == {"BLOCK": 64, "num_warps": 8, "num_stages": 2, "num_ctas": 1}
    assert [d.is_option for d in Space(BLOCK=[1], num_warps=[1]).dimensions] == [False, True]


def test_sizes_of_tiles_are_one_option() -> None:
    space = Space(dot0_thread=["2x4"], load1_width=[4], dot0_warps=[2], dot1_warps=[1], BM=[16])
    (config,) = space
    assert config.kwargs == {"BM": 16, "tile_sizes": "dot0:2x4@2+dot1:@1+load1:4"}
    assert point_of(config) == {
        "BM": 16,
        "num_warps": 4,
        "num_stages": 3,
        "num_ctas": 1,
        "dot0_rows": 2,
        "dot0_columns": 4,
        "dot0_warp_rows": 2,
        "dot1_warp_rows": 1,
        "load1_columns": 4,
    }
    assert all(d.is_option for d in space.dimensions if d.name != "BM")


def test_rules_permit_points() -> None:
    space = Space(BM=(16, ..., 64), num_warps=(1, ..., 8))
    some = space.where(lambda BM, num_warps: BM >= 16 * num_warps)
    points = [(config.kwargs["BM"], config.num_warps) for config in some]
    assert points == [(16, 1), (32, 1), (32, 2), (64, 1), (64, 2), (64, 4)]
    assert len(space) == 12 and len(some.where(lambda BM: BM == 64)) == 3
    assert some.fixed(num_warps=4).configs == [tile.Config({"BM": 64}, num_warps=4)]
    with pytest.raises(HookError, match=r"a rule of a space, on \{'BM': 16.*ZeroDivisionError"):
        list(space.where(lambda BM: BM // 0))


def test_values_may_be_any_constants_and_are_taken_once() -> None:
    space = Space(PRECISION=("ieee", "tf32", "ieee"), BLOCK=(8, ..., 32, 48))
    assert [d.values for d in space.dimensions] == [("ieee", "tf32"), (8, 16, 32, 48)]
    assert str(space) == "PRECISION: ieee, tf32\nBLOCK: 8, 16, 32, 48"
    assert repr(space) == "<Space of 8 configurations: PRECISION, BLOCK>"


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ((), ArgumentValueError, "the dimension BM has no values: BM=(32, ..., 128)"),
        (64, ArgumentTypeError, "the dimension BM is a sequence of values, not 64"),
        ("64", ArgumentTypeError, "the dimension BM is a sequence of values, not '64'"),
        ((..., 64), ArgumentValueError, "stands between two powers of two"),
        ((32, ...), ArgumentValueError, "stands between two powers of two"),
        ((48, ..., 128), ArgumentValueError, "stands between two powers of two"),
        ((128, ..., 32), ArgumentValueError, "the smaller one first, not in (128, Ellipsis, 32)"),
        (([1], [2]), ArgumentTypeError, "are hashable constants"),
    ],
)
def test_values_that_are_refused(values: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        Space(BM=values)


def test_spaces_that_are_refused() -> None:
    none = Space(BM=(16, 32)).where(lambda BM: BM > 64)
    with pytest.raises(AutotunerError, match="no configuration satisfies the 1 rules of this spa"):
        none.configs
    with pytest.raises(ArgumentTypeError, match="a rule of where takes 'BN', which is no dimensi"):
        Space(BM=(16, 32)).where(lambda BN: True)
    with pytest.raises(ArgumentTypeError, match="a rule of a space is a Python function with name"):
        Space(BM=(16, 32)).where(max)
    with pytest.raises(ArgumentTypeError, match="where takes a function"):
        Space(BM=(16, 32)).where("BM > 16")  # type: ignore[arg-type]
    with pytest.raises(
        ArgumentValueError, match="at most 1048576 points, and this one has 10000000"
    ):
        Space(x=range(10**4), y=range(10**3)).configs


def test_a_configuration_has_a_source() -> None:
    config = tile.Config({"BM": 64, "PRECISION": "tf32"}, num_warps=8, maxnreg=128)
    assert config.source == (
        "tile.Config({'BM': 64, 'PRECISION': 'tf32'}, num_warps=8, maxnreg=128)"
    )
    assert eval(config.source, {"tile": tile}) == config
    assert tile.Config({}).source == "tile.Config({})"
