"""Each wrong program has its own error, at its place."""

from __future__ import annotations

import numpy as np
import pytest

from tile import triton_c
from tile.errors import ArgumentTypeError, CompilationError
from tile.frontend.triton_c import host

ARRAY = "__constant__ int* t = alloc_const int[4];"
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
    ("kernel void f", None, r"expected `\(`, `,`, `;`, `=`, `\[`"),
    (f"{ARRAY} int b = t;", "b = t", "a number is needed here, not an array"),
    (f"{ARRAY} int b = -t;", "t;", "a number is needed here, not an array"),
    (f"{ARRAY} bool b = !t;", "t;", "a number is needed here, not an array"),
    (f"{ARRAY} if (t) int b = 1;", "t)", "a number is needed here, not an array"),
    (f"{ARRAY} int b = t + 1;", "t + 1", r"no arithmetic on pointers; write p\[i\]"),
    ('int c = "a";', "c =", "a number is needed here, not 'a'"),
    ('int c = "a" + 1;', '"a"', "a number is needed here, not 'a'"),
    ("int b = 0 ... 4;", "0 ... 4", "the host does not compute this: tiles are for kernels"),
    ("const tunable int N = {1.5};", "1.5", "an integer is needed here, not 1.5"),
    ("int b = ~1.5;", "1.5", "an integer is needed here, not 1.5"),
    ("int b = 1.5 << 2;", "1.5 << 2", "unsupported operand"),
    ("int b = 1 << -1;", "1 << -1", "negative shift count"),
    ("int b = 1 << 100000;", "1 << 100000", "at most 4,096 bits"),
    ("int b = 1e400;", "b =", "inf does not convert to an integer"),
    ("int t = alloc_const int[4];", "t =", "`alloc_const` initializes a pointer to a scalar type"),
    ("__constant__ int* t = alloc_const int[-1];", "* t", "`alloc_const` of -1 elements: negative"),
    ("__constant__ int* t = 3;", "* t", r"3 does not convert to int\*"),
    ("int b = sqrt(3.0);", "sqrt(3.0)", "the host cannot call `sqrt`; kernels can"),
    ("int b = 3; int c = b[0];", "b[0]", "this is not an array of one axis"),
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
    ("*x = 1 << -1;", "1 << -1", "negative shift count"),
    ("*x = -x;", "-x", r"`-` is not defined on int\*"),
    ("*x = *x ? x : 1;", "*x ? x : 1", r"`\?:` chooses between int\* and int"),
    ("*x = trans(1);", "trans(1)", "trans takes a tile of two or more axes"),
    ("*x = sqrt(1, 2);", "sqrt(1, 2)", "tl.sqrt: too many positional arguments"),
    ('*x = "a";', '*x = "a"', "str does not convert to int"),
    ('*x = "a" + 1;', '"a" + 1', "this is not a number but str"),
    ("int a[4] = 0 ... 4; *x = a;", "*x = a", "several elements at one address"),
    ("int a[4] = 0 ... 4; int b[4] = a[:, :];", "a[:, :]", "takes as many `:` as it has axes"),
    ("int a[4] = 0 ... 4; int c = 3; @(a < 2) c = 4;", "c = 4", "has the variable's shape"),
    ("int a[4] = 0 ... 4; @(a < 2) g(x);", "g(x)", "is called under a predicate"),
    ("h(0 ... 4);", "h(0 ... 4)", r"parameter `p` of `h` is int, and this is int\[4\]"),
]  # fmt: skip
FUNCTIONS = "void g(int* p) { *p = 3; } int h(int p) { return p; }"


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
    text = f"kernel void f(int* x) {{ {body} }} {FUNCTIONS}"
    x = np.zeros(16, np.int32)
    kernel = triton_c.compile(text, "errors.tc").f
    with pytest.raises(CompilationError, match=message) as caught:
        kernel[(1,)](x)
    assert text[caught.value.loc.column :].startswith(at), caught.value
    assert not x.any()


def test_an_endless_loop_of_the_host_is_an_error(monkeypatch):
    monkeypatch.setattr(host, "MOST_STEPS", 1000)
    with pytest.raises(CompilationError, match="the host ran 1000 statements here") as caught:
        triton_c.compile("for (int i = 0; 1; i++) ;", "errors.tc")
    assert caught.value.loc.column == len("for (int i = 0; 1; i++) ")


def test_a_pointer_of_the_file_without_an_array_is_refused():
    with pytest.raises(ArgumentTypeError, match="`t` is a pointer at file scope and has no array"):
        triton_c.compile("__constant__ int* t; kernel void f(int* x) { *x = t[0]; }")


def test_arrays_of_the_host_wrap_what_is_stored():
    text = f"{ARRAY} for (int i = 0; i < 4; i++) t[i] = (1 << 33) - i; "
    program = triton_c.compile(text + "kernel void f(int* x) { *x = t[3]; }")
    x = np.zeros(4, np.int32)
    program.f[(1,)](x)
    assert x[0] == -3


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
