"""Random kernels lowered to threads for random machines, against the tile-level interpreter."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.fuzz import dot_loops, matmuls, row_loops
from tests.fuzz.generate import Case, drawn, make, modules
from tests.fuzz.random_kernels import SIZES
from tests.fuzz.running import assert_same
from tests.fuzz.sizes import LARGE, SMALL, UNPADDED, Sizes
from tests.sampling import examples
from tile import backends
from tile.backends.base import Options, Target
from tile.config import config
from tile.errors import OutOfResourcesError

# Loops that wait by a plain load are among random ones.
pytestmark = pytest.mark.filterwarnings("ignore:a GPU may never observe the change")

EXAMPLES = examples(8)


@dataclass(frozen=True)
class Configuration:
    """A machine, and how a kernel is to use it."""

    machine: str
    num_warps: int
    num_stages: int


CONFIGURATIONS = st.builds(
    Configuration,
    st.sampled_from(["generic", "plain", "cp_async", "mma", "wgmma", "warp64"]),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 4),
)


def run(case: Case, target: str, options: Options) -> Sequence[Any]:
    """The arguments after a run of the kernel, compiled for a target."""
    backend = backends.get("interp")
    arguments = case.arguments()
    artifact = backend.compile(case.module.clone(), Target.parse(target), options)
    with config.scope(interp_races=True):
        backend.load(artifact).launch(case.grid, arguments)
    return arguments


def check(case: Case, where: Configuration) -> None:
    options = Options(num_warps=where.num_warps, num_stages=where.num_stages)
    wanted = run(case, "interp", options)
    try:
        actual = run(case, f"interp:{where.machine}", options)
    except OutOfResourcesError:
        reject()  # nothing says that all tiles fit the shared memory of each machine
    assert_same(case, actual, wanted)


@EXAMPLES
@given(case=modules(sizes=SMALL), where=CONFIGURATIONS)
def test_small_tiles(case: Case, where: Configuration) -> None:
    """Fewer elements than threads: most of them hold copies, or nothing to store."""
    check(case, where)


@EXAMPLES
@given(case=modules(sizes=UNPADDED), where=CONFIGURATIONS)
def test_padded_tiles(case: Case, where: Configuration) -> None:
    check(case, where)


@EXAMPLES
@given(case=modules(sizes=LARGE), where=CONFIGURATIONS)
def test_tiles_that_warps_share(case: Case, where: Configuration) -> None:
    check(case, where)


@EXAMPLES
@given(
    seed=st.integers(0, (1 << 32) - 1),
    sizes=st.sampled_from(list(SIZES.values())),
    where=CONFIGURATIONS,
)
def test_random_kernels(seed: int, sizes: Sizes, where: Configuration) -> None:
    """Hypothesis prefers simple kernels; dice do not, but what they make does not shrink."""
    generator = random.Random(seed)
    check(make(generator.randrange, sizes=sizes), where)


@EXAMPLES
@given(case=drawn(dot_loops.make), where=CONFIGURATIONS)
def test_loops_of_dots(case: Case, where: Configuration) -> None:
    check(case, where)


@EXAMPLES
@given(case=drawn(row_loops.make), where=CONFIGURATIONS)
def test_loops_over_rows(case: Case, where: Configuration) -> None:
    check(case, where)


# Some loops cannot do what they are asked for.
@pytest.mark.filterwarnings("ignore:the option|this loop is not warp-specialized:RuntimeWarning")
@EXAMPLES
@given(case=drawn(matmuls.make), where=CONFIGURATIONS)
def test_matmuls(case: Case, where: Configuration) -> None:
    check(case, where)
