"""Random kernels that PoCL 3.0 got wrong, and how their programs are built."""

from __future__ import annotations

import pytest

pytest.importorskip("pyopencl")

from tests.fuzz.random_kernels import Drawn, Verdict, exact
from tile import backends
from tile.backends.base import Target
from tile.backends.opencl import devices
from tile.backends.opencl.devices import POCL
from tile.errors import BackendError

# By number and sizes. Optimized, programs with barriers in branches were wrong; those of the large
# kernels were where LLVM vectorized the loops over work-items. One has `abs` of the least integer, one
# a masked store right after the exit test of a loop with barriers, one such a store before the call of
# a function with barriers, and one an `fma` of f16 that was rounded twice. One ended the process: its
# work-groups need more stack than a thread has by default. One carried a value out of a loop whose test
# LLVM splits into two.
BRANCHES = [41204, 41284, 41327, 41763]
VECTORIZED = [40181, 41996, 42706]
MAGNITUDE = 40795
EXIT_TEST = 322431
CALL = 904874
ROUNDED_TWICE = 907880
STACK = 948338
SEVERAL_EXITS = 955927
WRONG = [
    *((number, "small") for number in [*BRANCHES, MAGNITUDE, EXIT_TEST, CALL, SEVERAL_EXITS]),
    *((number, "large") for number in [*VECTORIZED, ROUNDED_TWICE, STACK]),
]


@pytest.fixture
def pocl(runtime: None, earlier_makers: None) -> None:
    try:
        devices.index_of("pocl")
    except BackendError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("number, sizes", WRONG)
def test_results_are_the_interpreters(pocl: None, number: int, sizes: str) -> None:
    verdict, message = Drawn.of(number, sizes).judge("opencl:pocl")
    assert verdict is Verdict.SAME, message


@pytest.mark.parametrize("number, sizes", WRONG)
def test_barriers_in_branches_are_not_optimized(pocl: None, number: int, sizes: str) -> None:
    drawn = Drawn.of(number, sizes)
    target = backends.get("opencl").resolve(Target("opencl", "pocl"))
    artifact = backends.get("opencl").compile(exact(drawn.case.module), target, drawn.options)
    assert devices.all_devices()[devices.index_of("pocl")].platform.name == POCL
    options = artifact.launch_metadata["build_options"]
    assert ("-cl-opt-disable" in options) == (number in BRANCHES)
