from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tile.language as tl
from tile.errors import ArgumentTypeError
from tile.frontend.python.source import DeviceFunction
from tile.runtime.binding import OPTIONS, Binder


def scale(x_ptr, n, factor=2.0, *, BLOCK: tl.constexpr = 128):
    pass


def tuned(x_ptr, BLOCK: tl.constexpr, num_warps: tl.constexpr):
    pass


def binder(fn) -> Binder:
    function = DeviceFunction(fn)
    return Binder(function.name, function.parameters)


def test_defaults_and_options() -> None:
    values, options = binder(scale).bind(("x", 5), {"num_warps": 8})
    assert values == ["x", 5, 2.0, 128]
    assert options == {"num_warps": 8}


def test_a_parameter_may_be_an_option_too() -> None:
    values, options = binder(tuned).bind(("x",), {"num_warps": 2, "BLOCK": 64, "num_stages": 1})
    assert values == ["x", 64, 2]
    assert options == {"num_warps": 2, "num_stages": 1}


NAMES = ["x_ptr", "n", "factor", "BLOCK", "m", "num_warps"]


@given(st.lists(st.integers(), max_size=5), st.dictionaries(st.sampled_from(NAMES), st.integers()))
def test_binds_as_python_does(args, kwargs) -> None:
    own = {name: value for name, value in kwargs.items() if name not in OPTIONS}
    try:
        bound = inspect.signature(scale).bind(*args, **own)
    except TypeError:
        with pytest.raises(ArgumentTypeError, match=r"^scale\(\) "):
            binder(scale).bind(tuple(args), kwargs)
        return
    bound.apply_defaults()
    values, options = binder(scale).bind(tuple(args), kwargs)
    assert values == list(bound.arguments.values())
    assert options == {name: value for name, value in kwargs.items() if name in OPTIONS}


def message(*args, **kwargs) -> str:
    with pytest.raises(ArgumentTypeError) as caught:
        binder(scale).bind(args, kwargs)
    return str(caught.value)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    text = message(x_ptr=1, N=2, BLOKC=3)
    assert text.splitlines() == [
        "scale() is missing 'n', has no parameter 'N', 'BLOKC' (did you mean 'BLOCK'?)",
        "  note: it is scale(x_ptr, n, factor=2.0, BLOCK: tl.constexpr = 128)",
        "  note: options of a launch are debug, default_dot_input_precision, enable_fp_fusion, "
        "launch_cooperative_grid, launch_pdl, max_programs, maxnreg, num_ctas, num_stages, "
        "num_warps, sanitize, thread_tile, tile_sizes, tma, warp_rows, warp_specialize",
    ]


def test_missing_names_are_listed() -> None:
    assert "scale() is missing 'x_ptr' and 'n'" in message()


def test_too_many() -> None:
    assert "takes 3 positional arguments, and 4 were given" in message(1, 2, 3.0, 4)


def test_twice() -> None:
    assert "got 'n' twice, by position and by name" in message(1, 2, n=3)


def test_a_misspelt_option() -> None:
    assert "no parameter 'num_warp' (did you mean 'num_warps'?)" in message(1, 2, num_warp=4)


def test_the_call_is_left_as_it_was() -> None:
    kwargs = {"n": 1, "num_warps": 4}
    binder(scale).bind(("x",), kwargs)
    assert kwargs == {"n": 1, "num_warps": 4}
