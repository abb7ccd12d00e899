"""A session in a Triton-C file: breakpoints, steps and variables are those of its lines."""

from __future__ import annotations

from pathlib import Path

from tests.debugger.sessions import session

KERNEL = """\
int twice(int x) {
    return 2 * x;
}

kernel void f(int* x, int n) {
    int i[8] = 0 ... 8;
    int sum = 0;
    for (int k = 0; k < n; k++) {
        sum += twice(k);
        @(i < k) *(x + i) = sum;
    }
}
"""

PROGRAM = """
from pathlib import Path
from tile import triton_c
x = np.zeros(8, np.int32)
triton_c.load(Path(__file__).with_name("kernel.tc")).f[(1,)](x, 4)
print(x.tolist())
"""


def test_a_session(tmp_path: Path) -> None:
    (tmp_path / "kernel.tc").write_text(KERNEL)
    seen = session(
        tmp_path, PROGRAM,
        "b kernel.tc:10, k == 2", "c", "p sum", "p k", "s", "w", "b kernel.tc:4", "c",
    )  # fmt: skip
    assert seen.answer("b kernel.tc:10, k == 2") == "Breakpoint 1 at kernel.tc:10"
    assert "> kernel.tc(10)f()\n-> @(i < k) *(x + i) = sum;" in seen.answer("c")
    assert seen.answer("p sum") == "6"
    assert seen.answer("p k") == "2"
    assert "> kernel.tc(8)f()\n-> for (int k = 0; k < n; k++) {" in seen.answer("s")
    assert "no program stops at line 4: it is blank" in seen.answer("b kernel.tc:4")
    assert "[12, 12, 12, 0, 0, 0, 0, 0]" in seen


def test_steps_enter_functions_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "kernel.tc").write_text(KERNEL)
    seen = session(tmp_path, PROGRAM, "b kernel.tc:2", "c", "p x", "ll", "up", "p k")
    assert "> kernel.tc(2)twice()\n-> return 2 * x;" in seen.answer("c")
    assert seen.answer("p x") == "0"
    assert seen.answer("ll") == "  1  \tint twice(int x) {\n  2 B->\t    return 2 * x;"
    assert seen.answer("p k") == "0"
