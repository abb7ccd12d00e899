"""Each wrong program has its own error, at its place."""

from __future__ import annotations

import numpy as np
import pytest

from tile import triton_c
from tile.errors import ArgumentTypeError, CompilationError

# Programs, the text that the error is at, and what it says.
AT_LOADING = [
    ("kernel void f(int* a) { int x = 3 }", "}", r"`}` is not expected here; expected `,`, `;`"),
    ("kernel void f(int* a { }", "{", r"expected `\)`, `,`, `\[`"),
    ("int x = ;", ";", "expected an expression"),
    ("kernel void f(int a) { if a > 3 a = 4; }", "a > 3", r"expected `\(`"),
    ("kernel void f() { int a[3; }", ";", r"expected `,`, `\]`"),
    ("kernel void f() {", None, "the file ends here"),
    ("kernel void f() { a = $; }", "$", r"'\$' begins no token"),
    ("kernel void f(int* x) { *(x + m) = 1; }", "m)", "`m` is not declared"),
    ("kernel void f(int* xs) { *x = 1; }", "x =", "`x` is not declared; did you mean `xs`?"),
    ("kernel void f() { int a = 3; int a = 4; }", "a = 4", "`a` is declared twice in this scope"),
    ("int g(int a) { return g(a); } kernel void f() { }", "g(a)", "`g` calls itself"),
    (
        "int g(int a) { return h(a); } int h(int a) { return g(a); }",
        "h(a); } int",
        "`g` calls itself",
    ),
    ("kernel void f() { } kernel void f() { }", None, "`f` is defined twice"),
    ("const int Q = ZZ + 1;", "ZZ", "`ZZ` is not declared"),
    ("kernel void f() { const int i = 0; i = 3; }", "i = 3", "`i` is const"),
    ("const tunable int N = {1}; kernel void f() { N = 3; }", "N = 3", "`N` is a constant here"),
    (
        "kernel void f() { for (int k = 0; k < 3; k++) { int i[4] = 0 ... 4; @(i < 3) break; } }",
        "break;",
        "`break` under a predicate",
    ),
    ("kernel void f(int* x) { *x; }", "*x;", "this statement has no effect"),
    ("int g(int a) { return a; } kernel void f() { int b = g(3, 4); }", "g(3, 4)", "takes 1 arg"),
    ("int g(int a) { return; }", "return;", "`g` returns int, and this returns nothing"),
    ("kernel void f() { return 3; }", "3", "`f` is void and returns no value"),
    ("kernel void f() { unsigned float y; }", "unsigned float", "is not a type"),
    ("kernel void f() { void y; }", "y", "`y` is of type void"),
    (
        "kernel void f(int* y) { y = get_global_range(0); }",
        "get_global_range(0)",
        "needs an extent",
    ),
    ("kernel void f(int x) { int* p = &x; }", "&x", "variables have no address"),
    ("kernel void f(int x) { int y = (x = 3) + 1; }", "x = 3", "a statement of its own"),
    ("kernel void f(int x) { x(3); }", "x(3)", "this is not a function"),
    ("kernel void f(int x) { int y = 09; }", "09", "an octal number"),
    ("kernel int f(int x) { return x; }", "f(int", "a kernel returns nothing"),
    ("kernel void f(int x, int x) { }", "x) {", "two parameters are called `x`"),
    ("const int A = 3 / 0;", "3 / 0", "division by zero"),
    (
        "__constant__ int* t = alloc_const int[4]; for (int i = 0; i < 5; i++) t[i] = i;",
        "t[i]",
        "index 4",
    ),
    ("const tunable int N = {};", "}", "expected an expression"),
]
AT_COMPILATION = [
    ("int i[16] = 0 ... 16; int j = i[3];", "i[3]", "a tile cannot be sliced"),
    ("float a[16] = 0; float b[8] = 0; float c[16] = a + b;", "a + b", "cannot be broadcast"),
    ("int i[16] = 0 ... 16; if (i < 3) *x = 1;", "i < 3", "this is a tile, bool\\[16\\]"),
    ("float* p = x;", "x;", r"int\* does not convert to float\* without a cast"),
    ("int i = 0 ... 16;", "0 ... 16", "`i` is of type int, and this is int\\[16\\]"),
    ("int y = 3; int z = *y;", "*y", "`\\*` takes a pointer, and this is int"),
    ("float y = 1; int z = y % 2;", "y % 2", "`%` is not defined on float and int"),
    ("int y[16] = 0 ... *x;", "*x", "a number known when the kernel is compiled"),
    ("*x = 1 / 0;", "1 / 0", "divides by zero"),
]  # fmt: skip


def column(text: str, at: str | None) -> int | None:
    return None if at is None else text.index(at)


@pytest.mark.parametrize(("text", "at", "message"), AT_LOADING)
def test_errors_at_loading(text, at, message):
    with pytest.raises(CompilationError, match=message) as caught:
        triton_c.compile(text, "errors.tc")
    assert caught.value.loc.file == "errors.tc"
    assert caught.value.loc.line == 1
    if at is not None:
        assert text[caught.value.loc.column :].startswith(at), caught.value


@pytest.mark.parametrize(("body", "at", "message"), AT_COMPILATION)
def test_errors_at_compilation(body, at, message):
    text = f"kernel void f(int* x) {{ {body} }}"
    x = np.zeros(16, np.int32)
    kernel = triton_c.compile(text, "errors.tc").f
    with pytest.raises(CompilationError, match=message) as caught:
        kernel[(1,)](x)
    assert text[caught.value.loc.column :].startswith(at), caught.value
    assert not x.any()


def test_argument_of_another_type_is_refused():
    kernel = triton_c.compile("kernel void f(float* x) { *x = 1; }").f
    with pytest.raises(ArgumentTypeError, match="x"):
        kernel[(1,)](np.zeros(4, np.int32))


def test_a_missing_kernel_names_those_that_are_there():
    program = triton_c.compile("kernel void f(float* x) { *x = 1; }")
    with pytest.raises(AttributeError, match="no kernel `g`; its kernels: f"):
        program.g


def test_store_through_read_only_is_refused():
    kernel = triton_c.compile("kernel void f(read_only float* x) { *x = 1; }").f
    with pytest.raises(CompilationError, match="`x`"):
        kernel[(1,)](np.zeros(4, np.float32))


def test_hiding_is_warned_of():
    with pytest.warns(RuntimeWarning, match="`n` hides the `n`"):
        triton_c.compile(
            "kernel void f(int* x, int n) { for (int k = 0; k < n; k++) { int n = k; *x = n; } }"
        )
