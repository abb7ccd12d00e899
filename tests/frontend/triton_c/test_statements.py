"""Statements of Triton-C: loops, predicates, scopes, functions; each against what C computes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tile import triton_c


def run(text: str, count: int = 16, *arguments, dtype=np.int32, **values):
    """Run `f` of a program on an array of numbers from 0 on, and return the array."""
    x = np.arange(count).astype(dtype)
    triton_c.compile(text, **values).f[(1,)](x, *arguments)
    return x


def scalar(body: str, *arguments: int, **values) -> int:
    """Return what a body of statements leaves in `r`."""
    names = "abc"[: len(arguments)]
    parameters = "".join(f", int {name}" for name in names)
    text = f"kernel void f(int* out{parameters}) {{ int r = 0; {body} *out = r; }}"
    return int(run(text, 1, *arguments, **values)[0])


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("for (int k = 0; k < a; k++) r += k;", 45),
        ("for (int k = 0; k <= a; k++) r += k;", 55),
        ("for (int k = a; k > 0; k -= 3) r = 100 * r + k;", 10070401),
        ("for (int k = a; k >= 1; --k) r += k;", 55),
        ("for (int k = 0; a > k; k = k + 4) r = 10 * r + k;", 48),
        ("for (int k = 1; k < 1000; k *= 2) r += k;", 1023),
        ("for (int k = 0; k < a; k++) { if (k == 3) continue; if (k == 7) break; r += k; }", 18),
        ("int k; for (k = 0; k < a; k += 2) { if (k == 4) continue; r += k; } r += 1000 * k;", 10016),
        ("for (int k = 0; k < a; k++) { k += 1; r += k; }", 25),
        ("int n = a; for (int k = 0; k < n; k++) { n -= 1; r += 1; }", 5),
        ("for (;;) { r++; if (r > a) break; }", 11),
        ("for (int i = 0; i < 3; i++) for (int j = i; j < 3; j++) r += 10 * i + j;", 48),
        ("while (r < a) r += 3;", 12),
        ("do r += 1; while (r < 5);", 5),
        ("do { r += 7; if (r > 20) continue; } while (r < a);", 14),
        ("if (a > 5) r = 1; else r = 2;", 1),
        ("if (a < 5) r = 1; else if (a < 11) r = 2; else r = 3;", 2),
        ("if (a) if (a < 5) r = 1; else r = 2;", 2),
        ("int b, c; b = c = a; r = b + c;", 20),
        ("r = a > 5 && a < 20 || a == 3;", 1),
        ("r = a > 5 ? 3 : 4;", 3),
        ("{ int a2 = 4; r = a2; }", 4),
        ("r = sizeof(float[4, 2]) + sizeof(int*);", 40),
        ("r = 0x1F + 010 + 'x';".replace(" + 'x'", ""), 39),
        ("for (int k = 0, j = 9; k < j; k++, j--) r = 10 * r + j;", 98765),
    ],
)  # fmt: skip
def test_scalar_statements(body, result):
    assert scalar(body, 10) == result


def test_variables_without_a_value_are_undefined():
    assert scalar("int x; if (a > 5) x = 3; else x = 4; r = x;", 10) == 3


def test_inner_scopes_hide_and_end():
    with pytest.warns(RuntimeWarning, match="hides"):
        assert scalar("int k = 5; { int k = 7; r = k; } r = 10 * r + k;") == 75


def test_predicate_of_a_store_and_of_an_assignment():
    text = """
    kernel void f(int* x, int n) {
        int i[16] = 0 ... 16;
        int v[16] = 100;
        @(i < n) v = i * i;
        @(i > 2) *(x + i) = v;
    }"""
    expected = [i if i <= 2 else (i * i if i < 5 else 100) for i in range(16)]
    assert run(text, 16, 5).tolist() == expected


def test_nested_predicates_hold_together():
    text = """
    kernel void f(int* x) {
        int i[16] = 0 ... 16;
        bool even[16] = i % 2 == 0;
        @even { @(i > 5) *(x + i) = 0; x[i] = x[i] + 50; }
    }"""
    expected = [(50 if i > 5 else i + 50) if i % 2 == 0 else i for i in range(16)]
    assert run(text).tolist() == expected


def test_predicated_loads_do_not_leave_the_array():
    text = """
    kernel void f(int* x, int n) {
        int i[16] = 0 ... 16;
        int v[16] = i < n ? *(x + i) : -1;
        int sum = 0;
        @(i < n && x[i] > 2) *(x + i) = v + 10;
    }"""
    x = np.arange(5, dtype=np.int32)  # 16 elements would be out of bounds
    triton_c.compile(text).f[(1,)](x, 5)
    assert x.tolist() == [0, 1, 2, 13, 14]


def test_functions_of_the_file():
    text = """
    const tunable int N = {16};
    float half_of(float x) { return x / 2; }
    int twice(int x) { if (x > 5) return 2 * x; return x; }
    void put(int* p, int value) { *p = value; }
    kernel void f(int* x) {
        int i[N] = 0 ... N;
        put(x, twice(7) + (int)half_of(9));
        put(x + 1, twice(4));
    }"""
    x = np.zeros(4, np.int32)
    triton_c.compile(text).f[(1,)](x, N=16)
    assert x.tolist() == [18, 4, 0, 0]


def test_without_the_keyword_uncalled_void_functions_are_kernels():
    program = triton_c.compile(
        "void g(int* x) { *x = 1; } void f(int* x) { g(x); } int h() { return 1; }"
    )
    assert [kernel.__name__ for kernel in program] == ["f"]


def test_host_statements():
    text = """
    const int LIMIT = N / 2;
    const float SCALE = 0.5f;
    __constant__ int* squares = alloc_const int[16];
    for (int i = 0; i < 16; i++) { if (i == 3) continue; if (i > LIMIT) break; squares[i] = i * i; }
    kernel void f(int* x) {
        int i[16] = 0 ... 16;
        *(x + i) = *(squares + i) + LIMIT + (int)(SCALE * 4);
    }"""
    expected = [(i * i if i != 3 and i <= 6 else 0) + 6 + 2 for i in range(16)]
    assert run(text, N=13).tolist() == expected


def test_axes_and_broadcasting_pad_on_the_left():
    text = """
    kernel void f(int* x) {
        int a[4] = 0 ... 4;
        int b[2, 4] = 10;
        int c[2, 1] = (0 ... 2)[:, newaxis] * 100;
        int sums[2, 4] = a + b + c;
        int same[2, 4] = a[newaxis, :] + b + c;
        *(x + (0 ... 2)[:, newaxis] * 4 + a) = sums == same ? sums : -1;
    }"""
    assert run(text, 8).tolist() == [10, 11, 12, 13, 110, 111, 112, 113]


def test_trans_of_one_and_of_two_arguments_and_dot_of_two_and_three():
    text = """
    kernel void f(float* x) {
        int i[16] = 0 ... 16;
        float a[16, 16] = i[:, newaxis] * 2 + i;
        float b[16, 16] = i[:, newaxis] - i;
        float c[16, 16] = 1;
        float first[16, 16] = dot(a, trans(b)) + c;
        float second[16, 16] = dot(a, trans(b, 0), c);
        *(x + i[:, newaxis] * 16 + i) = first == second ? first : -1;
    }"""
    i = np.arange(16)
    a, b = i[:, None] * 2 + i, i[:, None] - i
    assert run(text, 256, dtype=np.float32).reshape(16, 16).tolist() == (a @ b.T + 1.0).tolist()


def test_atomics_take_predicates():
    text = """
    kernel void f(int* x) {
        int i[16] = 0 ... 16;
        @(i < 4) atomic_add(x + i % 2, 100);
    }"""
    assert run(text).tolist() == [200, 201, *range(2, 16)]


def test_kernels_can_be_sent_to_another_process():
    text = (
        "const tunable int N = {16};\nkernel void f(int* x) { int i[N] = 0 ... N; *(x + i) = 3; }"
    )
    kernel = pickle.loads(pickle.dumps(triton_c.compile(text).f))
    x = np.zeros(16, np.int32)
    kernel[(1,)](x, N=16)
    assert (x == 3).all()
