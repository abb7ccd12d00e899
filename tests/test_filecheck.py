"""The checker of textual tests itself: what it takes and, above all, what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.filecheck import CheckError, check, check_file

OUTPUT = "func @f\n  a = 1\n  b =  2\n  a = 3\nfunc @g\n  c = 4\n"


@pytest.mark.parametrize(
    "source",
    [
        "// CHECK: a = 1\n// CHECK: b = 2",
        "// CHECK: a = 1\n// CHECK-NEXT: b = 2\n// CHECK-NEXT: a = 3",
        "// CHECK: a\n// CHECK-SAME: = 1",
        "// CHECK: a = 1\n// CHECK-NOT: c\n// CHECK: b = 2",
        "// CHECK: b = 2\n// CHECK-NOT: d",
        "// CHECK: [[x:\\w]] = 1\n// CHECK: [[x]] = 3",
        "// CHECK: a = {{[0-9]}}",
        "// CHECK-LABEL: @f\n// CHECK: b\n// CHECK-NOT: c =\n// CHECK-LABEL: @g\n// CHECK: c",
        "// CHECK-NOT: zzz\n// CHECK-LABEL: func @f\n// CHECK-NEXT: a = 1",
        "// CHECK-LABEL: @f\n// CHECK-NEXT-DAG: a = 3\n// CHECK-NEXT-DAG: b\n// CHECK-NEXT-DAG: a = 1",
        "// CHECK-LABEL: @f\n// CHECK-NEXT-DAG: b\n// CHECK-NEXT-DAG: a = 1\n// CHECK-NEXT: a = 3",
        # The first line that matches the first directive leaves none for the second.
        "// CHECK: func\n// CHECK-NEXT-DAG: [[x:\\w]] =\n// CHECK-NEXT-DAG: a =\n// CHECK: a\n"
        "// CHECK-NOT: [[x]]",
    ],
)
def test_output_that_fits(source: str) -> None:
    check(source, OUTPUT)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("// CHECK: d", "line 1: CHECK: d"),
        ("// CHECK: b = 2\n// CHECK: a = 1", "line 2: CHECK: a = 1"),
        ("// CHECK: a = 1\n// CHECK-NEXT: a = 3", "CHECK-NEXT: a = 3"),
        ("// CHECK: a = 1\n// CHECK-NEXT: = 1", "CHECK-NEXT: = 1"),
        ("// CHECK: a = 1\n// CHECK-SAME: b", "CHECK-SAME: b"),
        ("// CHECK: a = 1\n// CHECK-NOT: b\n// CHECK: a = 3", "found in: b = 2"),
        ("// CHECK: a = 3\n// CHECK-NOT: c =", "found in: c = 4"),
        ("// CHECK-NOT: a = 1\n// CHECK: b", "found in: a = 1"),
        ("// CHECK: [[x:\\w]] = 1\n// CHECK: [[x]] = 2", "CHECK: [[x]] = 2"),
        ("// CHECK: [[x]] = 1", "[[x]] is used before it is kept"),
        ("// CHECK: a = {{[4-9]}}", "CHECK: a = {{[4-9]}}"),
        ("// CHECK: a.= 1", "CHECK: a.= 1"),
        ("// CHECK-LABEL: @f\n// CHECK: c = 4\n// CHECK-LABEL: @g", "CHECK: c = 4"),
        ("// CHECK-LABEL: @h", "CHECK-LABEL: @h"),
        ("// CHECK-LABEL: @f\n// CHECK-NEXT-DAG: b\n// CHECK-NEXT: a = 1", "CHECK-NEXT-DAG: b"),
        ("// CHECK: a = 1\n// CHECK-NEXT-DAG: a = 3\n// CHECK-NEXT-DAG: a = 3", "not among"),
        ("// CHECK: b\n// CHECK-NEXT-DAG: a = 3\n// CHECK-NEXT-DAG: d", "CHECK-NEXT-DAG: d"),
        ("// CHECK-NXT: a", "CHECK-NXT is no directive"),
        ("// CHECK a", "CHECK is no directive"),
    ],
)
def test_output_that_does_not_fit(source: str, message: str) -> None:
    with pytest.raises(CheckError) as refused:
        check(source, OUTPUT)
    assert message in str(refused.value)


FUNCTION = "func @f(%x: f32) {\n  return\n}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"// CHECK: func\n{FUNCTION}", "has no RUN line"),
        (f"// RUN: tile opt %s\n{FUNCTION}", "has no CHECK line"),
        (f"// RUN: tile opt %s\n// CHECK: kernel\n{FUNCTION}", "CHECK: kernel"),
        (f"// RUN: tile opt %s -p nothing\n// CHECK: func\n{FUNCTION}", "no pass is named"),
        (f"// RUN: tile opt %s\n// ERROR: never\n{FUNCTION}", "line 2: no error"),
        (
            "// RUN: tile opt %s\n// ERROR: unknown type\nfunc @f(%x: f33) {\n  return\n}\n",
            "line 3 has another error",
        ),
        (
            "// RUN: tile opt %s\nfunc @f(%x: f33) { // ERROR: no such type\n  return\n}\n",
            "line 2 has another error: unknown type",
        ),
        (
            f"// RUN: tile opt %s\nfunc @f(%x: f33) {{ // ERROR: unknown type\n}}\n"
            f"// -----\n{FUNCTION.replace('f32', 'f34')}",
            "line 5 has another error: unknown type",
        ),
    ],
)
def test_files_that_fail(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "case.tile"
    path.write_text(text)
    with pytest.raises(CheckError) as refused:
        check_file(path)
    assert message in str(refused.value)


def test_files_that_pass(tmp_path: Path) -> None:
    path = tmp_path / "case.tile"
    path.write_text(f"// RUN: tile opt %s -p dce\n// CHECK: func @f\n{FUNCTION}")
    check_file(path)
    path.write_text(
        f"// RUN: tile opt %s\n{FUNCTION}// -----\nfunc @f(%x: f33) {{ // ERROR: unknown type\n"
    )
    check_file(path)
