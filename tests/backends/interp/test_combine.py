"""Reductions and scans with user-defined functions, run from raw and from optimized IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile
import tile.language as tl
from tile.backends.interp.launch import Launch
from tile.backends.interp.rules import RULES
from tile.backends.interp.translate import translate
from tile.config import config
from tile.frontend.python.code_generator import compile_function
from tile.ir.module import Module
from tile.ir.parser import parse_module
from tile.ir.passes import run_pipeline
from tile.ir.semantics import numpy_dtype, scalar_of
from tile.ir.types import FLOATS, INTEGERS, Pointer, Scalar
from tile.ir.verifier import verify
from tile.transforms.pass_pipeline import TILE


def execute(module: Module, grid: int, arguments: list[Any]) -> None:
    Launch(translate(module, RULES), (grid, 1, 1), arguments).run()


def run(kernel: Any, grid: int, *arrays: Any, **constants: Any) -> list[Any]:
    """Return the arrays after a run; raw IR and optimized IR must give the same bits."""
    names = [p.name for p in kernel.parameters if not p.is_constexpr]
    types = {n: Pointer(scalar_of(a.dtype)) for n, a in zip(names, arrays, strict=True)}
    module = compile_function(kernel, types, constants)
    verify(module)
    raw = [a.copy() for a in arrays]
    execute(module, grid, raw)
    run_pipeline(module, TILE)
    verify(module)
    assert not any(op.name == "call" for op in module.walk())
    for chunk in (1, 1 << 19):
        after = [a.copy() for a in arrays]
        with config.scope(chunk_bytes=chunk):
            execute(module, grid, after)
        for x, y in zip(raw, after, strict=True):
            assert x.tobytes() == y.tobytes()
    return raw


# -- functions that combine


@tile.jit
def add(a, b):
    return a + b


@tile.jit
def argmax(v1, i1, v2, i2):
    """The greater, of equal ones the first; written with returns on every path."""
    if v1 > v2:
        return v1, i1
    if v1 == v2 and i1 < i2:
        return v1, i1
    return v2, i2


@tile.jit
def welford(mean1, m1, n1, mean2, m2, n2):
    delta = mean2 - mean1
    n = n1 + n2
    share = n2 / n
    return mean1 + delta * share, m1 + m2 + delta * delta * n1 * share, n


@tile.jit
def rescaled(total, top, above):
    return total * tl.exp(top - above)


@tile.jit
def online_softmax(m1, s1, m2, s2):
    m = tl.maximum(m1, m2)
    return m, rescaled(s1, m1, m) + rescaled(s2, m2, m)


@tile.jit
def segmented(x1, f1, x2, f2):
    return tl.where(f2, x2, x1 + x2), f1 | f2


@tile.jit
def recurrence(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


# -- kernels


@tile.jit
def reduce_two(v_ptr, i_ptr, out_ptr, where_ptr, N: tl.constexpr, F: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    v, i = tl.reduce((tl.load(v_ptr + at), tl.load(i_ptr + at)), 0, F)
    tl.store(out_ptr + tl.program_id(0), v)
    tl.store(where_ptr + tl.program_id(0), i)


@tile.jit
def scan_two(a_ptr, b_ptr, c_ptr, d_ptr, N: tl.constexpr, F: tl.constexpr, REV: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    c, d = tl.associative_scan((tl.load(a_ptr + at), tl.load(b_ptr + at)), 0, F, reverse=REV)
    tl.store(c_ptr + at, c)
    tl.store(d_ptr + at, d)


@tile.jit
def both(x_ptr, scan_ptr, total_ptr, M: tl.constexpr, N: tl.constexpr, F: tl.constexpr):
    at = tl.program_id(0) * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(scan_ptr + at, x.associative_scan(1, F))
    rows = tl.program_id(0) * M + tl.arange(0, M)
    tl.store(total_ptr + rows, x.reduce(1, F))


@tile.jit
def moments(x_ptr, mean_ptr, var_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * N + tl.arange(0, N)).to(tl.float32)
    mean, m2, n = tl.reduce((x, tl.zeros_like(x), tl.full(x.shape, 1.0, tl.float32)), 0, welford)
    tl.store(mean_ptr + pid, mean)
    tl.store(var_ptr + pid, m2 / n)


@tile.jit
def softmax(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    top, total = tl.reduce((x, tl.full((M, N), 1.0, tl.float32)), 1, online_softmax, keep_dims=True)
    tl.store(out_ptr + at, tl.exp(x - top) / total)


RANDOM = np.random.default_rng(7)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float32", "float64"])
def test_argmax_with_ties(dtype: str) -> None:
    v = RANDOM.integers(0, 12, (50, 32)).astype(dtype)
    i = np.broadcast_to(np.arange(32, dtype=np.int32), v.shape).copy()
    best, where = np.zeros(50, dtype), np.zeros(50, np.int32)
    _, _, best, where = run(reduce_two, 50, v, i, best, where, N=32, F=argmax)
    np.testing.assert_array_equal(best, v.max(1))
    np.testing.assert_array_equal(where, v.argmax(1))


@pytest.mark.parametrize("n", [1, 2, 64, 1024])
def test_welford(n: int) -> None:
    x = (RANDOM.standard_normal((9, n)) * 3 + 1000).astype(np.float32)
    mean, var = np.zeros((2, 9), np.float32)
    _, mean, var = run(moments, 9, x, mean, var, N=n)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(1), rtol=3e-7)
    np.testing.assert_allclose(var, wide.var(1), rtol=2e-4, atol=1e-6)


def test_online_softmax() -> None:
    x = (RANDOM.standard_normal((6, 4, 64)) * 20).astype(np.float32)
    _, out = run(softmax, 6, x, np.zeros_like(x), M=4, N=64)
    wide = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(out, wide / wide.sum(-1, keepdims=True), rtol=3e-5, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_segmented_scan(dtype: str, reverse: bool) -> None:
    x = RANDOM.integers(-9, 9, (20, 64)).astype(dtype)
    starts = RANDOM.random((20, 64)) < 0.2
    c, d = np.zeros_like(x), np.zeros_like(starts)
    _, _, c, d = run(scan_two, 20, x, starts, c, d, N=64, F=segmented, REV=reverse)
    step = -1 if reverse else 1
    for row in range(20):
        total, seen = 0, False
        for place in range(64)[::step]:
            total = x[row, place] + (0 if starts[row, place] else total)
            seen |= starts[row, place]
            assert c[row, place] == total
            assert d[row, place] == seen


def test_linear_recurrence() -> None:
    """h[t] = a[t] * h[t - 1] + b[t], exact in integers that wrap."""
    a, b = RANDOM.integers(-(2**31), 2**31, (2, 10, 128)).astype(np.int32)
    c, h = np.zeros_like(a), np.zeros_like(b)
    _, _, c, h = run(scan_two, 10, a, b, c, h, N=128, F=recurrence, REV=False)
    with np.errstate(over="ignore"):
        state = np.zeros(10, np.int32)
        for t in range(128):
            state = a[:, t] * state + b[:, t]
            np.testing.assert_array_equal(h[:, t], state)
    np.testing.assert_array_equal(c, np.cumprod(a, 1, dtype=np.int32))


@pytest.mark.parametrize("ty", [*INTEGERS, *FLOATS], ids=str)
def test_every_type(ty: Scalar) -> None:
    x = RANDOM.integers(0, 5, (3, 4, 8)).astype(numpy_dtype(ty))
    _, scanned, total = run(both, 3, x, np.zeros_like(x), np.zeros_like(x[..., 0]), M=4, N=8, F=add)
    np.testing.assert_array_equal(scanned.astype(np.int64), x.astype(np.int64).cumsum(2))
    np.testing.assert_array_equal(total.astype(np.int64), x.astype(np.int64).sum(2))


# -- what may stand in a function that combines

LIMIT = tl.constexpr(40)


@tile.jit
def capped(a, b, by: tl.constexpr = 1):
    total = a + b * by
    if total > LIMIT:
        total = tl.full((), LIMIT, total.dtype)
    return total


@tile.jit
def sign(x):
    if x > 0:
        return 1
    elif x == 0:
        return 0
    return -1


@tile.jit
def by_sign(a, b):
    """Calls, an `if` with different amounts of work, and unrolled loops."""
    result = a
    if sign(a) == sign(b):
        for power in tl.static_range(2):
            result = result ^ (b << power)
    else:
        result = a * b
    return result


@tile.jit(noinline=True)
def weighted(a, b):
    return a * 3 + b


@tile.jit
def through(a, b):
    return weighted(b, a) - weighted(a, b)


def sequentially(function: Callable[[int, int], int], x: Any) -> Any:
    """Combine adjacent elements, then adjacent results, in the order that the interpreter has."""
    rows = x.astype(object)
    while rows.shape[-1] > 1:
        rows = np.frompyfunc(function, 2, 1)(rows[..., 0::2], rows[..., 1::2])
    return rows[..., 0].astype(x.dtype)


def python_by_sign(a: int, b: int) -> int:
    same = (a > 0) - (a < 0) == (b > 0) - (b < 0)
    value = a ^ b ^ (b << 1) if same else a * b
    return (value + 2**63) % 2**64 - 2**63


FUNCTIONS = {
    "capped": (capped, lambda a, b: min(a + b, 40)),
    "by_sign": (by_sign, python_by_sign),
    "noinline": (weighted, lambda a, b: a * 3 + b),
    "through": (through, lambda a, b: (b * 3 + a) - (a * 3 + b)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_with_calls_and_branches(name: str) -> None:
    combine, plain = FUNCTIONS[name]
    x = RANDOM.integers(-9, 9, (5, 2, 16)).astype(np.int64)
    _, _, total = run(both, 5, x, np.zeros_like(x), np.zeros_like(x[..., 0]), M=2, N=16, F=combine)
    np.testing.assert_array_equal(total, sequentially(plain, x))


@tile.jit
def inside_control(x_ptr, out_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * N + tl.arange(0, N))
    total = tl.zeros((), tl.int32)
    for i in range(pid % 3):
        if (pid + i) % 2 == 0:
            total += tl.reduce(x * i, 0, add)
        else:
            total -= tl.reduce(tl.arange(0, N), 0, add)
    tl.store(out_ptr + pid, total)


def test_programs_that_part_and_meet_around_a_reduction() -> None:
    x = RANDOM.integers(-9, 9, (40, 8)).astype(np.int32)
    _, out = run(inside_control, 40, x, np.zeros(40, np.int32), N=8)
    for pid in range(40):
        terms = (x[pid].sum() * i if (pid + i) % 2 == 0 else -28 for i in range(pid % 3))
        assert out[pid] == sum(terms)


@tile.jit
def same_for_all(out_ptr, x_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    ramp = tl.arange(0, N)
    _, d = tl.associative_scan((ramp, tl.load(x_ptr + pid * N + ramp)), 0, recurrence)
    tl.store(out_ptr + pid * N + ramp, d + tl.reduce(ramp, 0, add))


def test_values_that_all_programs_share_are_combined_with_others() -> None:
    x = RANDOM.integers(-9, 9, (6, 16)).astype(np.int32)
    out, _ = run(same_for_all, 6, np.zeros_like(x), x, N=16)
    state = np.zeros(6, np.int32)
    for t in range(16):
        state = t * state + x[:, t]
        np.testing.assert_array_equal(out[:, t], state + 120)


# -- raw IR

BRANCHES = """
kernel @k(%x: ptr<i32>, %o: ptr<i32>) {
  %r = arange {start = 0, end = 16} : tile<16xi32>
  %p = splat %x {shape = (16)} : tile<16xptr<i32>>
  %q = addptr %p, %r {stride = 4} : tile<16xptr<i32>>
  %v = load %q : tile<16xi32>
  %t = scan_region %v {axis = -1, reverse = REVERSE} : tile<16xi32> region combine(%a: i32, %b: i32) {
    %zero = const {value = 0} : i32
    %neg = cmp %b, %zero {predicate = lt} : i1
    %c = if %neg : i32 {
      %big = cmp %a, %b {predicate = gt} : i1
      %d = if %big : i32 {
        yield %zero
      } else {
        %e = sub %a, %b : i32
        yield %e
      }
      yield %d
    } else {
      yield %b
    }
    yield %c
  }
  %s = splat %o {shape = (16)} : tile<16xptr<i32>>
  %w = addptr %s, %r {stride = 4} : tile<16xptr<i32>>
  store %w, %t
  return
}
"""


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=16, max_size=16), st.booleans())
def test_nested_branches_in_raw_ir(values: list[int], reverse: bool) -> None:
    """The function is not associative; so this holds for the interpreter's order alone."""

    def combine(a: int, b: int) -> int:
        if b < 0:
            return 0 if a > b else a - b
        return b

    def scan(xs: list[int]) -> list[int]:
        if len(xs) == 1:
            return xs
        odd = scan([combine(a, b) for a, b in zip(xs[0::2], xs[1::2], strict=True)])
        even = [xs[0], *(combine(a, b) for a, b in zip(odd, xs[2::2], strict=False))]
        return [value for pair in zip(even, odd, strict=True) for value in pair]

    module = parse_module(BRANCHES.replace("REVERSE", str(reverse).lower()))
    verify(module)
    out = np.zeros(16, np.int32)
    execute(module, 1, [np.array(values, np.int32), out])
    wanted = scan(values[::-1])[::-1] if reverse else scan(values)
    assert out.tolist() == wanted
    run_pipeline(module, TILE)
    verify(module)
    again = np.zeros(16, np.int32)
    execute(module, 1, [np.array(values, np.int32), again])
    assert again.tolist() == wanted
