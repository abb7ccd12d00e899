"""Options of loops that have no effect cause one warning, at the loop."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.frontend.python.expressions import warn_unread


@pytest.fixture(autouse=True)
def _as_in_a_new_process() -> None:
    warn_unread.cache_clear()


@tile.jit
def total(o_ptr, n, F: tl.constexpr, W: tl.constexpr, D: tl.constexpr):
    s = n
    for i in tl.range(0, n, flatten=F, warp_specialize=W, disallow_acc_multi_buffer=D):
        s += i
    tl.store(o_ptr, s)


@tile.jit
def left(o_ptr, n, U: tl.constexpr):
    s = 0
    for i in tl.range(0, n, num_stages=2, loop_unroll_factor=U, flatten=True):
        s += i
        if s > 10:
            break
    tl.store(o_ptr, s)


@tile.jit
def read(o_ptr, n):
    s = 0
    for i in tl.range(0, n, num_stages=2, loop_unroll_factor=2, disable_licm=True):
        s += i
    for i in tl.range(n, flatten=False, warp_specialize=False, disallow_acc_multi_buffer=False):
        if s > 1000:
            break
        s += i
    for i in range(n):
        if s > 1000:
            break
        s += i
    tl.store(o_ptr, s)


def warned(kernel: Any, *args: Any) -> list[Any]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        kernel[1,](np.zeros(1, np.int32), *args)
    return seen


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ((True, False, False), "the option flatten of tl.range has no effect"),
        ((False, False, True), "the option disallow_acc_multi_buffer of tl.range has no effect"),
        (
            (True, True, True),
            "the options disallow_acc_multi_buffer, flatten of tl.range have no effect",
        ),
    ],
)
def test_options_that_nothing_reads(given: Any, names: str) -> None:
    kernel = tile.jit(total.fn)
    (one,) = warned(kernel, 5, *given)
    assert one.category is RuntimeWarning and names in str(one.message)
    assert one.filename == __file__
    line = kernel.source.first_line + 2
    assert one.lineno == line
    assert warned(kernel, 16, *given) == []  # another compiled kernel, the same line
    assert warned(kernel, 5, False, False, False) == []


def test_options_of_a_loop_that_may_be_left() -> None:
    (one,) = warned(tile.jit(left.fn), 5, 4)
    assert (
        "the options flatten, loop_unroll_factor, num_stages of tl.range of a loop that may be "
        "left early have no effect" in str(one.message)
    )


def test_options_that_are_read_and_defaults() -> None:
    assert warned(tile.jit(read.fn), 5) == []


@tile.jit
def conditional(o_ptr, n, D: tl.constexpr):
    i = 0
    while tl.condition(i < n, disable_licm=D):
        i += 1
    tl.store(o_ptr, i)


def test_an_option_of_a_condition() -> None:
    (one,) = warned(tile.jit(conditional.fn), 5, True)
    assert "the option disable_licm of tl.condition has no effect" in str(one.message)
    assert warned(tile.jit(conditional.fn), 5, False) == []
