"""Every op computes what its reference does, on each backend, under all checks."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tests import needs
from tests.ops.cases import CASES, EVERYWHERE, FIRST, Case, reference_of
from tile.ops.core.tables import Table

# One dtype each: they compile for seconds.
OTHERS = {"opencl": ("opencl", "float32"), "wgmma": ("interp:wgmma", "float16")}


def names(case: Case) -> str:
    return f"{case.op}-{case.label}"


def in_dtypes() -> Iterator[Any]:
    """Yield each case in each dtype: one in rotation, and nightly all; an op runs in each dtype."""
    rotated = [case.dtypes[index % len(case.dtypes)] for index, case in enumerate(CASES)]
    tested = {(case.op, dtype) for case, dtype in zip(CASES, rotated, strict=True)}
    for case, chosen in zip(CASES, rotated, strict=True):
        for dtype in case.dtypes:
            missing = case in FIRST and (case.op, dtype) not in tested
            marks = () if dtype == chosen or missing else pytest.mark.nightly
            yield pytest.param(case, dtype, id=f"{names(case)}-{dtype}", marks=marks)


@pytest.mark.parametrize(("case", "dtype"), list(in_dtypes()))
def test_op(case: Case, dtype: str) -> None:
    with tile.backend("interp"), tile.sanitize():
        case.check(dtype)


def on_others() -> Iterator[Any]:
    """Yield each case on other backends; on OpenCL the first one of each op, and nightly all."""
    for case, (label, other) in itertools.product(EVERYWHERE, OTHERS.items()):
        marks = [needs.pyopencl] if label == "opencl" else []
        if label == "opencl" and case not in FIRST:
            marks.append(pytest.mark.nightly)
        yield pytest.param(case, *other, id=f"{names(case)}-{label}", marks=marks)


@pytest.mark.parametrize(("case", "backend", "dtype"), list(on_others()))
def test_op_on_other_backends(
    case: Case, backend: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "interp:wgmma":  # a simulated H100, with the configurations of a real one
        select = Table.select
        monkeypatch.setattr(
            Table, "select", lambda table, _, *sizes: select(table, "nvptx", *sizes)
        )
    with tile.backend(backend):
        case.check(dtype if dtype in case.dtypes else case.dtypes[0])


def test_every_op_is_tested_and_has_a_reference_with_its_parameters() -> None:
    ops = set(tile.ops.__all__) - {"enable", "use"}  # tests/torch has their tests
    assert {case.op for case in CASES} == ops
    for name in ops:
        function = inspect.signature(getattr(tile.ops, name)).parameters
        reference = inspect.signature(reference_of(name)).parameters
        assert [p for p in function if p != "out"] == list(reference), name


def test_cross_entropy_of_logits_that_are_minus_infinity_in_the_first_block() -> None:
    x = np.full((2, 5000), -np.inf, np.float32)
    x[0, 4999], x[1, 4000:] = 1, 0
    with tile.backend("interp"):
        loss = tile.ops.cross_entropy(x, np.array([4999, 4500]))
    np.testing.assert_allclose(loss, [0, np.log(1000)], rtol=1e-6)
