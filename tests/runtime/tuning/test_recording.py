"""Tables of recorded times: one that was left unfinished goes on where it stopped."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.record_tuning import (
    Arrays,
    Case,
    config_list,
    layer_norm,
    record,
    rowwise,
    softmax,
    unfinished,
    write,
)
from tile.runtime.autotuning.space import config_of


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", "interp")


def cases() -> list[Case]:
    new = Arrays(cuda=False)
    space = rowwise(20, (8, 16), (1, 2), 64)
    return [softmax(new, 5, 20, space), layer_norm(new, 5, 20, "float32", space)]


def test_kernels_of_rows_are_right_whole_and_looped() -> None:
    for case in cases():
        points = [*case.space.points()]
        assert {point["LOOPED"] for point in points} == {False, True}
        for point in points:
            case.kernel[case.grid](*case.arguments, **case.call.with_config(config_of(point)))
            np.testing.assert_allclose(*result_and_reference(case), atol=1e-5)


def result_and_reference(case: Case) -> tuple[Any, Any]:
    if len(case.arguments) == 4:
        out, x = case.arguments[:2]
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return out, powers / powers.sum(axis=1, keepdims=True)
    x, out, weight, bias = case.arguments[:4]
    deviation = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    return out, (x - x.mean(axis=1, keepdims=True)) / deviation * weight + bias


def test_an_unfinished_table_goes_on(tmp_path: Path) -> None:
    case, path = cases()[0], tmp_path / "softmax.json"
    configs = config_list(case)
    table: dict[str, Any] = {"finished": False, "codes": [], "rows": []}
    assert unfinished(path, configs) is None
    record(case, table, -math.inf, lambda: write(path, table))
    assert json.loads(path.read_text())["rows"] == [] and not table["finished"]
    record(case, table, math.inf, lambda: None)
    assert table["finished"] and len(table["rows"]) == len(configs)
    first = table["rows"][:2]
    write(path, table | {"finished": False, "rows": first})
    again = unfinished(path, configs)
    assert again is not None and again["rows"] == first
    record(case, again, math.inf, lambda: write(path, again))
    assert [row["code"] for row in again["rows"]] == [row["code"] for row in table["rows"]]
    assert again["rows"][:2] == first and unfinished(path, configs) is None
    write(path, table | {"finished": False})
    assert unfinished(path, configs[1:]) is None  # of another space
