"""Later calls of an op follow the plan of the first, and compute the same on other arrays."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tests.ops.cases import CASES, DTYPES, Case, Random, function_of, reference_of, several
from tests.runtime.fake_torch import Tensor
from tests.runtime.test_fast_path import Noting, install_noting
from tile.errors import ArgumentError, ArgumentValueError
from tile.ops.core.call import Call

PACKAGE = Path(tile.ops.__file__).parent
FIRST = list({case.op: case for case in reversed(CASES)}.values())
# On the host they check elements, which plans do not repeat; on a device kernels assert the same.
READS_HOST = {
    "adaptive_max_pool2d_backward",
    "bce_loss",
    "bce_loss_backward",
    "binary_cross_entropy",
    "binary_cross_entropy_backward",
    "cross_entropy",
    "cross_entropy_backward",
    "cummax_backward",
    "decode_attention",
    "embedding",
    "embedding_backward",
    "embedding_bag",
    "embedding_bag_backward",
    "grouped_matmul",
    "grouped_matmul_wgrad",
    "histogram",
    "kl_div",
    "kl_div_backward",
    "linear_cross_entropy",
    "linear_cross_entropy_backward",
    "max_pool2d_backward",
    "nll_loss",
    "nll_loss_backward",
    "sddmm",
    "sddmm_backward",
    "shift_conv",
    "shift_conv_dgrad",
    "shift_conv_wgrad",
    "spmm",
    "spmm_backward",
    "varlen_attention",
    "varlen_attention_backward",
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of ops that checked their arguments."""
    names: list[str] = []
    init = Call.__init__
    monkeypatch.setattr(Call, "__init__", lambda call, op: (names.append(op), init(call, op))[1])
    return names


@pytest.fixture(autouse=True)
def on_interp() -> Iterator[None]:
    with tile.backend("interp"):
        yield


def arguments(case: Case, seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    dtype = "float32" if "float32" in case.dtypes else case.dtypes[0]
    return case.make(Random(DTYPES[dtype], np.random.default_rng(seed)))


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.op)
def test_a_plan_computes_the_same_on_other_arrays(case: Case, calls: list[str]) -> None:
    function = function_of(case.op)
    args, kwargs = arguments(case, 1)
    function(*args, **kwargs)
    results, checks = [], []
    for call in (function, inspect.unwrap(function)):
        args, kwargs = arguments(case, 2)
        calls.clear()
        # Some arguments are written, too.
        arrays = [value for value in args if isinstance(value, np.ndarray)]
        results.append((*several(call(*args, **kwargs)), *arrays))
        checks.append(len(calls))
    planned = hasattr(function, "plans") and case.op not in READS_HOST
    assert (checks[0] == 0) == planned
    for result, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_kernels_are_launched_where_plans_see_it() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name in ("call_records.py", "recorder.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                assert "kernel" not in ast.unparse(node.func.value), f"{path.name}:{node.lineno}"


def rows(count: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(count).standard_normal((count, 20)).astype(np.float32)


def test_another_signature_is_another_plan(calls: list[str]) -> None:
    for x in (rows(3), rows(4), rows(4).astype(np.float16), rows(8)[::2], rows(4)):
        y = tile.ops.softmax(x)
        assert (y.shape, y.dtype) == (x.shape, x.dtype)
    weight = np.ones(20, np.float32)
    results = [tile.ops.rms_norm(rows(), weight, eps) for eps in (0.0, 1.0, 1, True, -0.0)]
    assert [float(r.sum()) for r in results[1:4]] == [float(results[1].sum())] * 3
    assert not np.array_equal(results[0], results[1])
    with pytest.raises(ArgumentError, match="`eps` is nan"):
        tile.ops.rms_norm(rows(), weight, float("nan"))
    with pytest.raises(ArgumentError, match="last axis must be contiguous"):
        tile.ops.softmax(rows().T)


def test_arrays_that_overlap_are_refused_by_plans(calls: list[str]) -> None:
    memory = np.zeros(200, np.float32)

    def view(at: int) -> np.ndarray[Any, Any]:
        return memory[at : at + 60].reshape(3, 20)

    tile.ops.softmax(view(0), out=view(60))
    calls.clear()
    tile.ops.softmax(view(60), out=view(0))
    tile.ops.softmax(view(0), out=view(0))
    assert calls == []
    for start in (1, 59, 20):
        with pytest.raises(ArgumentValueError, match="`out` shares memory with `x`"):
            tile.ops.softmax(view(0), out=view(start))
    assert len(calls) == 3


def test_read_only_results_are_refused() -> None:
    out = np.empty((3, 20), np.float32)
    tile.ops.softmax(rows(), out=out)
    out.flags.writeable = False
    with pytest.raises(ArgumentValueError, match="`out` is read-only"):
        tile.ops.softmax(rows(), out=out)


def test_one_array_for_two_arguments_makes_no_plan() -> None:
    gate, up = rows(), rows() + 1
    both = tile.ops.swiglu(gate, gate)
    np.testing.assert_array_equal(tile.ops.swiglu(gate, gate.copy()), both)
    assert not np.array_equal(tile.ops.swiglu(gate, up), both)
    np.testing.assert_array_equal(tile.ops.swiglu(gate, gate), both)


def test_numbers_that_vary_are_not_part_of_the_key(calls: list[str]) -> None:
    x = rows()
    first = tile.ops.dropout(x, 0.5, 1)
    calls.clear()
    second = tile.ops.dropout(x, 0.5, 2)
    assert calls == [] and not np.array_equal(first, second)
    np.testing.assert_allclose(second, reference_of("dropout")(x, 0.5, 2), rtol=1e-6)
    with pytest.raises(ArgumentValueError, match="`seed` is -1"):
        tile.ops.dropout(x, 0.5, -1)
    state = [rows(), rows(4)[:3], *np.zeros((2, 3, 20), np.float32)]
    for step, lr in ((1, 0.1), (2, 0.01)):
        expected = reference_of("adamw")(*state, step, lr)
        calls.clear()
        tile.ops.adamw(*state, step, lr)
        for actual, wanted in zip((state[0], *state[2:]), expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-6)
    assert calls == []
    with pytest.raises(ArgumentValueError, match="`step` is 0"):
        tile.ops.adamw(*state, 0, 0.1)


def test_another_backend_is_another_plan(calls: list[str]) -> None:
    tile.ops.softmax(rows(7))
    calls.clear()
    with tile.backend("interp:steps"):
        tile.ops.softmax(rows(7))
    assert calls == ["softmax"]


def test_a_device_and_what_its_library_allocates(
    monkeypatch: pytest.MonkeyPatch, calls: list[str]
) -> None:
    """The second call on CUDA tensors is one allocation and one fast launch."""
    noting: Noting = install_noting(monkeypatch)
    with tile.backend("nvptx:sm_90a"):
        results = [tile.ops.softmax(Tensor(rows(64))) for _ in range(3)]
    assert calls == ["softmax"] and len({id(result) for result in results}) == 3
    assert len(noting.launches) + len(noting.repeats) == 3 and noting.repeats
