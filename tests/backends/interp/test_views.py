"""Arrays with strides of every kind: their elements can be accessed, and nothing else.

Compared with the straightforward evaluator, which looks every address up in a table of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from tests.fuzz.reference import Fault, evaluate
from tests.sampling import examples
from tile.backends.interp.launch import Launch
from tile.backends.interp.rules import RULES
from tile.backends.interp.translate import translate
from tile.errors import OutOfBoundsError
from tile.ir.parser import parse_module

COPY = """
kernel @copy(%x: ptr<TYPE>, %o: ptr<TYPE>, %start: i32, %step: i32, %n: i32) {
  %pid = program_id {axis = 0} : i32
  %c8 = const {value = 8} : i32
  %row = mul %pid, %c8 : i32
  %rows = splat %row {shape = (8)} : tile<8xi32>
  %r = arange {start = 0, end = 8} : tile<8xi32>
  %i = add %rows, %r : tile<8xi32>
  %limit = splat %n {shape = (8)} : tile<8xi32>
  %mask = cmp %i, %limit {predicate = lt} : tile<8xi1>
  %steps = splat %step {shape = (8)} : tile<8xi32>
  %scaled = mul %i, %steps : tile<8xi32>
  %first = splat %start {shape = (8)} : tile<8xi32>
  %at = add %scaled, %first : tile<8xi32>
  %xb = splat %x {shape = (8)} : tile<8xptr<TYPE>>
  %xp = addptr %xb, %at {stride = SIZE} : tile<8xptr<TYPE>>
  %v = load %xp, %mask : tile<8xTYPE>
  %ob = splat %o {shape = (8)} : tile<8xptr<TYPE>>
  %op = addptr %ob, %i {stride = SIZE} : tile<8xptr<TYPE>>
  store %op, %v, %mask
  store %xp, %v, %mask
  return
}
"""


def module(element: str = "i32", size: int = 4) -> Any:
    return parse_module(COPY.replace("TYPE", element).replace("SIZE", str(size)))


def interpret(program: Any, grid: int, arguments: Sequence[Any]) -> None:
    Launch(translate(program, RULES), (grid, 1, 1), arguments).run()


@st.composite
def views(draw: st.DrawFn) -> np.ndarray:
    """A view of 64 integers: any shape and strides that stay inside."""
    rank = draw(st.integers(0, 3))
    shape = [draw(st.integers(0, 4)) for _ in range(rank)]
    strides = [draw(st.integers(-4, 8)) for _ in range(rank)]
    reach = [s * (n - 1) for s, n in zip(strides, shape, strict=True) if n]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    whole = np.arange(100, 200, dtype=np.int32)
    first = draw(st.integers(-low, 99 - high))
    return as_strided(whole[first:], shape, [4 * s for s in strides])


def run_both(
    view: np.ndarray, start: int, step: int, count: int
) -> tuple[str | None, str | None, Any, Any]:
    """Run an access on both; return the outcome, and the memory around the view, of each."""
    results = []
    for run in (evaluate, interpret):
        base = view if view.base is None else view.base
        while isinstance(getattr(base, "base", None), np.ndarray):
            base = base.base
        before = base.copy() if isinstance(base, np.ndarray) else view.copy()
        out = np.zeros(24, np.int32)
        arguments = [view, out, *(np.int32(k) for k in (start, step, count))]
        grid: Any = (3, 1, 1) if run is evaluate else 3
        fault = None
        try:
            run(module(), grid, arguments)
        except (Fault, OutOfBoundsError) as error:
            fault = str(error)
        results.append((fault, out))
        if isinstance(base, np.ndarray):
            np.copyto(base, before)
    (a, x), (b, y) = results
    return a, b, x, y


@examples(100)
@given(views(), st.integers(-6, 6), st.integers(-4, 8), st.integers(0, 20))
def test_any_view(view: np.ndarray, start: int, step: int, count: int) -> None:
    wanted, got, x, y = run_both(view, start, step, count)
    assert (wanted is None) == (got is None), f"should be: {wanted}\nis: {got}"
    if wanted is None:
        np.testing.assert_array_equal(y, x)


def test_a_view_as_long_as_its_elements_that_leaves_gaps() -> None:
    """Nine elements over nine places, of which every other one is met twice or never."""
    whole = np.arange(20, dtype=np.int32)
    view = as_strided(whole, (3, 3), (8, 8))
    with pytest.raises(OutOfBoundsError, match="at element 1, which lies between"):
        interpret(module(), 1, [view, np.zeros(8, np.int32), np.int32(1), np.int32(2), np.int32(2)])


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("i1", np.bool_),
        ("f8e4m3", ml_dtypes.float8_e4m3fn),
        ("f8e5m2", ml_dtypes.float8_e5m2),
        ("bf16", ml_dtypes.bfloat16),
        ("f16", np.float16),
        ("u64", np.uint64),
    ],
)
@pytest.mark.parametrize("step", [1, 2, -1])
def test_every_dtype_has_views(element: str, dtype: Any, step: int) -> None:
    whole = np.arange(40).astype(dtype)
    view = whole[10:30:2] if step == 2 else whole[30:10:-1] if step < 0 else whole[10:30]
    out = np.zeros(8, dtype)
    kernel = module(element, out.itemsize)
    interpret(kernel, 1, [view, out, np.int32(0), np.int32(step), np.int32(8)])
    assert out.tobytes() == view[:8].tobytes()
    with pytest.raises(OutOfBoundsError):
        interpret(kernel, 1, [view, out, np.int32(-step), np.int32(step), np.int32(8)])


def test_a_single_number_without_axes() -> None:
    x, out = np.array(5, np.int32), np.zeros(8, np.int32)
    interpret(module(), 1, [x, out, np.int32(0), np.int32(0), np.int32(8)])
    assert (out == 5).all()
    with pytest.raises(OutOfBoundsError, match="at element 1, 1 past its end"):
        interpret(module(), 1, [x, out, np.int32(0), np.int32(1), np.int32(2)])


TWO_ARRAYS = """
kernel @both(%a: ptr<i32>, %b: ptr<i32>, %o: ptr<i32>) {
  %r = arange {start = 0, end = 8} : tile<8xi32>
  %one = const {value = 1} : tile<8xi32>
  %odd = and %r, %one : tile<8xi32>
  %is = cmp %odd, %one {predicate = eq} : tile<8xi1>
  %as = splat %a {shape = (8)} : tile<8xptr<i32>>
  %bs = splat %b {shape = (8)} : tile<8xptr<i32>>
  %p = select %is, %as, %bs : tile<8xptr<i32>>
  %q = addptr %p, %r {stride = 4} : tile<8xptr<i32>>
  %v = load %q : tile<8xi32>
  %os = splat %o {shape = (8)} : tile<8xptr<i32>>
  %op = addptr %os, %r {stride = 4} : tile<8xptr<i32>>
  store %op, %v
  return
}
"""


def test_one_access_to_several_arrays() -> None:
    program = parse_module(TWO_ARRAYS)
    a, b, out = (
        np.arange(8, dtype=np.int32),
        np.arange(100, 108, dtype=np.int32),
        np.zeros(8, np.int32),
    )
    interpret(program, 1, [a, b, out])
    np.testing.assert_array_equal(out, [100, 1, 102, 3, 104, 5, 106, 7])


def test_of_faults_in_several_arrays_the_first_element_is_reported() -> None:
    """`b` comes second in memory and its element first in the tile."""
    a, b = np.zeros(5, np.int32), np.zeros(4, np.int32)
    with pytest.raises(OutOfBoundsError) as caught:
        interpret(parse_module(TWO_ARRAYS), 1, [a, b, np.zeros(8, np.int32)])
    text = str(caught.value)
    assert "reads `b` at element 4, 1 past its end" in text
    assert "element [4] of the tile" in text
    assert "4 of 8 active elements" in text
