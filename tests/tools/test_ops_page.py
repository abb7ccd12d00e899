"""The page of ops shows the speed that `benchmarks/ops.py --record` has written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from docs.reference import ops

BENCHMARKS = Path(ops.__file__).parents[2] / "benchmarks"


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the records of two runs, and return their file."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    from ops_records import Records

    path = tmp_path / "ops.json"
    first = Records(path, "a GPU")
    first.add("softmax", "4x8", "GB/s", 64.0, [100.0, 50.0])
    first.add("softmax", "4x1024", "GB/s", 8192.0, [1000.0, 800.0])
    second = Records(path, "a later GPU")
    second.add("softmax", "4x1024", "GB/s", 8192.0, [1234.56, 1000.0])
    second.add("dropout", "4x8", "GB/s", 64.0, [3.0])
    return path


def test_a_run_replaces_rows_of_its_problems(records: Path) -> None:
    rows = json.loads(records.read_text("utf-8"))
    assert [(row["op"], row["label"], row["tile"], row["machine"]) for row in rows] == [
        ("dropout", "4x8", 3.0, "a later GPU"),
        ("softmax", "4x1024", 1235.0, "a later GPU"),
        ("softmax", "4x8", 100.0, "a GPU"),
    ]


def test_the_page_shows_the_greatest_problem(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "RECORDS", records)
    page = "\n".join(ops.ops_page())
    assert "| 4x1024: 1235 GB/s, 1.24 of the peer's |" in page  # 1235 / 1000 is 1.235
    assert (
        "| `dropout` | [pointwise/dropout](../tile/ops/pointwise/dropout.py) | 4x8: 3 GB/s |"
        in page
    )
    assert "| `rope` | [sequence/rope](../tile/ops/sequence/rope.py) | not recorded |" in page
    assert ", a GPU; " in page and ", a later GPU." in page


def test_a_page_without_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "RECORDS", tmp_path / "none.json")
    page = "\n".join(ops.ops_page())
    assert "No speed is recorded yet." in page and "GB/s |" not in page
