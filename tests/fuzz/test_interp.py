"""The interpreter against the straightforward evaluator, on random kernels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.generate import Case, modules
from tests.fuzz.running import EXAMPLES, assert_same, expected, interpret
from tests.fuzz.sizes import UNPADDED
from tile import backends
from tile.backends.base import Options, Target

# Loops that wait by a plain load are among random ones.
pytestmark = pytest.mark.filterwarnings("ignore:a GPU may never observe the change")


@EXAMPLES
@given(case=modules())
def test_raw_ir_means_what_it_says(case: Case) -> None:
    assert_same(case, interpret(case.module, case), expected(case))


@EXAMPLES
@given(case=modules(sizes=UNPADDED))
def test_extents_that_are_no_powers_of_two(case: Case) -> None:
    assert_same(case, interpret(case.module, case), expected(case))


@EXAMPLES
@given(case=modules())
def test_compiled_kernels_mean_what_they_say(case: Case) -> None:
    wanted = expected(case)
    backend = backends.get("interp")
    arguments = case.arguments()
    artifact = backend.compile(case.module, Target("interp"), Options())
    backend.load(artifact).launch(case.grid, arguments)
    assert_same(case, arguments, wanted)
    changed = {
        name
        for name, before, after in zip(case.names, case.inputs, arguments, strict=True)
        if getattr(before, "shape", ()) and before.tobytes() != after.tobytes()
    }
    assert changed <= artifact.written


@EXAMPLES
@given(case=modules(), chunk=st.sampled_from([1, 256, 2048]))
def test_any_chunk_size_gives_the_same(case: Case, chunk: int) -> None:
    assert_same(case, interpret(case.module, case, chunk), interpret(case.module, case))
