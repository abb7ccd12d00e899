"""Names of Triton's language modules, and functions of libraries that emit operations."""

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest

import tile
from tile.errors import CompilationError


def test_names_of_the_core(triton) -> None:
    import triton.language as tl
    from triton.language import core, random, standard

    assert core._aggregate is triton.aggregate is tile.aggregate
    assert core.aggregate_replace is tl.core.aggregate_replace is tile.aggregate_replace
    assert "_semantic" in inspect.signature(core.view).parameters
    assert core._unwrap_if_constexpr(tl.constexpr(4)) == 4 == core._unwrap_if_constexpr(4)
    assert core.get_int_dtype(32, signed=False) is tl.uint32
    assert core.str_to_ty("*fp32") == tl.pointer_type(tl.float32)
    assert core.str_to_ty("constexpr", 3) == tl.constexpr_type(3)
    assert standard._log2(tl.constexpr(64)) == 6
    assert random.N_ROUNDS_DEFAULT.value == 10
    assert core.is_builtin(core.view) and not core.is_builtin(core.get_int_dtype)


def test_functions_of_libraries_emit_operations(triton) -> None:
    import triton.language as tl
    from triton.language import core

    @core.builtin
    def if_mask(mask, value, _semantic=None):
        return None if isinstance(mask, tl.constexpr) and mask.value is None else value

    @core.builtin
    def squared_sum(x, power: tl.constexpr, _semantic=None):
        for _ in range(core._unwrap_if_constexpr(power) - 1):
            x = core.mul(x, x, _semantic=_semantic)
        return core.reduce(x, 0, plus, _semantic=_semantic)

    def marked(x, *, _builder=None):
        assert isinstance(x, tl.constexpr)
        return tl.constexpr(x.value * 2)

    marked.__triton_builtin__ = True

    @triton.jit
    def plus(a, b):
        return a + b

    @triton.jit
    def kernel(out, N: tl.constexpr):
        x = tl.load(out + tl.arange(0, N), other=if_mask(None, 3))
        tl.store(out, squared_sum(x, 2))
        tl.store(out + 1, marked(N))
        kind: tl.constexpr = tl.core._unwrap_if_constexpr(tl.core.get_int_dtype(16, True))
        tl.store(out + 2, tl.full((), 70000, tl.int32).to(kind).to(tl.int32))
        tl.store(out + 3, core.item(tl.zeros((1, 1), tl.int32) + 5))

    out = np.arange(4, dtype=np.int32)
    kernel[1,](out, 4)
    assert out.tolist() == [14, 8, 4464, 5]
    with pytest.raises(ValueError, match=r"Did you forget to add @triton\.jit"):
        squared_sum(3, 2)


def test_attribute_assignment_in_a_loop(triton) -> None:
    import triton.language as tl

    @tl.core._aggregate
    class State:
        a: tl.tensor
        b: tl.constexpr

        @triton.constexpr_function
        def __init__(self, a, b):
            self.a = a
            self.b = tl.constexpr(b)

        @staticmethod
        def create(a):
            return State(a, tl.constexpr(4))

        @triton.jit
        def modified(self, a):
            self.a = a
            return self

    @triton.jit
    def kernel(out, n):
        state = State.create(tl.arange(0, 4))
        for i in range(n):
            state.a += i + tl.arange(0, state.b)
        state = state.modified(state.a * 2)
        tl.store(out + tl.arange(0, state.b), state.a)

    out = np.zeros(4, np.int32)
    kernel[1,](out, 3)
    assert out.tolist() == [6, 14, 22, 30]


def test_a_function_that_is_not_marked_is_refused(triton) -> None:
    import triton.language as tl

    def plain(x):
        return x

    @triton.jit
    def kernel(out):
        tl.store(out, plain(3))

    with pytest.raises(CompilationError, match="`plain` is a plain Python function"):
        kernel.warmup(np.zeros(1, np.int32))


class Closure(NamedTuple):
    fn: Any
    captured: tuple


def test_functions_in_tuples_are_constants(triton) -> None:
    import triton.language as tl

    @triton.jit
    def scaled(x, by, plus):
        return x * by + plus

    @triton.jit
    def kernel(out, closure):
        tl.store(out, closure.fn(tl.load(out), *closure.captured))

    out = np.array([3], np.int32)
    compiled = kernel[1,](out, Closure(scaled, (5, 7)))
    assert out[0] == 22
    assert compiled.signature["closure"] == Closure("constexpr", ("i32", "i32"))
    kernel[1,](out, Closure(scaled, (1, 0)))
    assert out[0] == 22
