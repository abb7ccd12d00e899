"""The interpreter against the straightforward evaluator, on random kernels."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.generate import Case, modules
from tests.fuzz.running import assert_same, expected, interpret

LARGE = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@LARGE
@given(case=modules())
def test_raw_ir_means_what_it_says(case: Case) -> None:
    assert_same(case, interpret(case.module, case), expected(case))


@LARGE
@given(case=modules(), chunk=st.sampled_from([1, 256, 2048]))
def test_any_chunk_size_gives_the_same(case: Case, chunk: int) -> None:
    assert_same(case, interpret(case.module, case, chunk), interpret(case.module, case))
