from __future__ import annotations

import collections
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.language as tl
from tests import needs
from tests.runtime.kernels import (
    add,
    copy_pair,
    fill,
    gather_rows,
    maybe_add,
    scale,
    scatter_rows,
    store_scalar,
)
from tile.config import config
from tile.errors import ArgumentError, ArgumentTypeError, ArgumentValueError

SHAPES = [(5, 9), (1, 1), (16, 16)]


def three(n: int = 100, dtype=np.float32) -> list[np.ndarray]:
    x = np.arange(n).astype(dtype)
    return [x, x[::-1].copy(), np.zeros_like(x)]


# -- grids


@pytest.mark.parametrize(
    "grid",
    [4, (4,), [4], (4, 1, 1), (np.int64(4),), lambda meta: (tile.cdiv(meta["n"], meta["BLOCK"]),)],
)
def test_grids(grid) -> None:
    x, y, out = three()
    add[grid](x, y, out, 100, BLOCK=32)
    np.testing.assert_array_equal(out, x + y)


def test_a_grid_function_sees_all_arguments_and_options() -> None:
    x, y, out = three()
    seen = {}

    def grid(meta):
        seen.update(meta)
        return (1,)

    add[grid](x, y, out, n=100, BLOCK=tl.constexpr(128), num_warps=8)
    assert seen["x_ptr"] is x
    assert (seen["n"], seen["BLOCK"], seen["num_warps"], seen["num_stages"]) == (100, 128, 8, 3)


def test_a_launch_without_a_grid() -> None:
    with pytest.raises(
        ArgumentTypeError, match=r"add\(\) is a kernel and needs a grid: add\[grid\]"
    ):
        add(*three(), 100, BLOCK=32)


# -- arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8, ml_dtypes.bfloat16])
def test_dtypes(dtype) -> None:
    x, y, out = three(60, dtype)
    add[2,](x, y, out, 60, BLOCK=32)
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: a[::2, ::3],
        lambda a: a[1:, 1:].T[::-1, ::-1],
        lambda a: np.asfortranarray(a),
    ],
)
def test_strides(view) -> None:
    whole = np.arange(12 * 14, dtype=np.float32).reshape(12, 14)
    array = view(whole)
    outside = whole.copy()
    expected = array * np.float32(2)
    row, col = (stride // array.itemsize for stride in array.strides)
    scale[array.shape[0],](array, *array.shape, row, col, 2.0)
    np.testing.assert_array_equal(array, expected)
    if array.base is not None:
        assert (whole != outside).sum() == (expected != expected / 2).sum()


def test_arrays_without_axes_and_without_elements() -> None:
    out = np.zeros((), np.int32)
    store_scalar[1,](out, 7)
    assert out == 7
    empty = np.zeros(0, np.float32)
    add[1,](empty, empty, empty, 0, BLOCK=16)


@pytest.mark.parametrize("grid", [0, (0,), (3, 0), (3, 2, 0), lambda meta: (meta["BLOCK"] - 16,)])
@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("interp", {}),
        ("interp", {"launch_cooperative_grid": True}),
        ("interp", {"sanitize": "all"}),
        pytest.param("opencl", {}, marks=needs.pyopencl),
        pytest.param("opencl", {"launch_cooperative_grid": True}, marks=needs.pyopencl),
    ],
)
def test_a_grid_without_programs_launches_nothing(backend: str, grid: Any, options: Any) -> None:
    x = np.ones(16, np.float32)
    out = np.zeros(16, np.float32)
    with config.scope(backend=backend):
        for _ in range(2):
            compiled = add[grid](x, x, out, 16, BLOCK=16, **options)
        compiled[0](x, x, out, 16)
        with pytest.raises(ArgumentError, match="at least 0"):
            add[-1,](x, x, out, 16, BLOCK=16)
        with pytest.raises(ArgumentError, match="is read-only"):  # what cannot be used is refused
            add[grid](x, x, np.broadcast_to(x[:1], (16,)), 16, BLOCK=16, **options)
    assert not out.any()


def test_an_array_and_a_view_of_it() -> None:
    x = np.arange(64, dtype=np.float32)
    add[1,](x, x[16:], x[32:], 16, BLOCK=16)
    np.testing.assert_array_equal(x[32:48], np.arange(16) * 2 + 16)


# -- scalars


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (-5, np.int32),
        (2**40 + 1, np.int64),
        (2**64 - 1, np.uint64),
        (1.25, np.float32),
        (np.float64(0.1), np.float32),
        (np.float32(0.1), np.float32),
        (np.int8(-3), np.int8),
        (np.uint16(65535), np.uint16),
        (np.float16(0.1), np.float32),
        (ml_dtypes.bfloat16(0.1), np.float32),
        (np.float64(1e300), np.float32),
        (1e300, np.float32),
        (float("nan"), np.float32),
        (True, np.bool_),
        (np.bool_(True), np.bool_),
        (1, np.int32),
    ],
)
def test_scalars_arrive_as_they_were(value, dtype) -> None:
    out = np.zeros(4, dtype)
    fill[1,](out, value, BLOCK=4)
    with np.errstate(over="ignore"):
        expected = np.full(4, value, np.float64).astype(dtype) if dtype == np.float32 else value
    np.testing.assert_array_equal(out, np.broadcast_to(np.asarray(expected, dtype), 4))


def test_none_is_constant_when_compiling() -> None:
    x, y, out = three(16)
    maybe_add[1,](x, None, out, BLOCK=16)
    np.testing.assert_array_equal(out, x)
    maybe_add[1,](x, y, out, BLOCK=16)
    np.testing.assert_array_equal(out, x + y)


Pair = collections.namedtuple("Pair", "source target")


@pytest.mark.parametrize("make", [lambda *items: tuple(items), Pair])
def test_tuples(make) -> None:
    x, _, out = three(16)
    kernel = copy_pair[1,](make(x, out), 9, BLOCK=16)
    np.testing.assert_array_equal(out[:9], x[:9])
    assert not out[9:].any()
    assert kernel.written == {"pair"}


def test_pointers_to_pointers() -> None:
    rows = [np.arange(8, dtype=np.float32) * k for k in range(1, 4)]
    out = np.zeros((3, 8), np.float32)
    table = tile.pointers([rows[2], rows[0], rows[1][::1]])
    gather_rows[3,](table, out, BLOCK=8)
    np.testing.assert_array_equal(out, [rows[2], rows[0], rows[1]])
    kernel = scatter_rows[3,](table, 5.0, BLOCK=8)
    assert all((row == 5).all() for row in rows)
    assert "table_ptr" in kernel.written


# -- specialization and the cache


def new_kernel():
    """A kernel with an empty cache."""
    return tile.jit(add.fn)


def test_what_selects_another_kernel() -> None:
    kernel = new_kernel()
    x, y, out = three()
    first = kernel[4,](x, y, out, 98, BLOCK=32)
    assert kernel[2,](x, y, out, 99, BLOCK=32) is first
    assert kernel[4,](y, x, out, n=98, BLOCK=tl.constexpr(np.int64(32))) is first
    others = [
        kernel[4,](x, y, out, 96, BLOCK=32),
        kernel[4,](x, y, out, 100, BLOCK=32),
        kernel[4,](x, y, out, 88, BLOCK=32),
        kernel[1,](x, y, out, 1, BLOCK=32),
        kernel[4,](x, y, out, np.int64(98), BLOCK=32),
        kernel[4,](x[1:], y[1:], out[1:], 99, BLOCK=32),
        kernel[2,](x, y, out, 98, BLOCK=64),
        kernel[4,](x, y, out, 98, BLOCK=32, num_warps=8),
        kernel[4,](*three(dtype=np.float64), 98, BLOCK=32),
    ]
    assert len({id(k) for k in [first, *others]}) == len(kernel.cache) == 10


def test_clusters_change_nothing_here() -> None:
    """Tuned or asked for, on a grid that they fill or not."""
    x, y, out = three()
    new_kernel()[4,](x, y, out, 100, BLOCK=32, num_ctas=4)
    wanted = out.copy()
    configs = [tile.Config({"BLOCK": 32}, num_ctas=size) for size in (1, 2)]
    for kernel in (new_kernel(), tile.autotune(configs, key=["n"])(new_kernel())):
        out[:] = 0
        kernel[5,](x, y, out, 100, **({} if isinstance(kernel, tile.Autotuner) else {"BLOCK": 32}))
        np.testing.assert_array_equal(out, wanted)
    with pytest.raises(ArgumentValueError, match="num_ctas must be a power of two up to 16, not 3"):
        new_kernel()[4,](x, y, out, 100, BLOCK=32, num_ctas=3)


def test_do_not_specialize() -> None:
    def launch(**options):
        kernel = tile.jit(**options)(add.fn)
        x, y, out = three()
        for n in (1, 7, 16, 32):
            kernel[1,](x, y, out, n, BLOCK=32)
        return [k.signature["n"] for k in kernel.cache.values()]

    assert launch() == ["constexpr", "i32", "i32:16"]
    assert launch(do_not_specialize=["n"]) == ["i32"]
    assert launch(do_not_specialize=[3]) == ["i32"]
    assert launch(do_not_specialize_on_alignment=["n"]) == ["constexpr", "i32"]


@pytest.mark.parametrize("option", ["do_not_specialize", "do_not_specialize_on_alignment"])
@pytest.mark.parametrize("name", ["m", 7])
def test_an_exemption_for_no_parameter(option: str, name) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        tile.jit(**{option: [name]})(add.fn)
    assert f"{option} of add() names '{name}'" in str(caught.value)
    assert "its parameters are x_ptr, y_ptr, out_ptr, n, BLOCK" in str(caught.value)


def test_backends_have_kernels_of_their_own() -> None:
    kernel = new_kernel()
    x, y, out = three()
    first = kernel[4,](x, y, out, 100, BLOCK=32)
    with tile.backend("interp"):
        assert kernel[4,](x, y, out, 100, BLOCK=32) is first
    assert [str(key[0]) for key in kernel.cache] == ["interp"]


# -- what is given back


def test_the_compiled_kernel() -> None:
    x, y, out = three()
    kernel = new_kernel()[4,](x, y, out, 98, BLOCK=32, num_stages=2)
    assert kernel.name == "add"
    assert kernel.written == {"out_ptr"}
    assert kernel.constants == {"BLOCK": 32}
    assert kernel.signature["n"] == "i32"
    assert kernel.options.num_stages == kernel.metadata.num_stages == 2
    assert kernel.metadata.target.backend == "interp"
    assert list(kernel.asm)[:2] == ["source", "tile"]
    assert "def add(x_ptr" in kernel.asm["source"]
    assert all(isinstance(text, str) and "store" in text for text in kernel.asm.values())
    assert repr(kernel).endswith(", n: i32, BLOCK=32) for interp>")


def test_a_name_of_its_own() -> None:
    kernel = tile.jit(repr=lambda s: f"add_{s.constants['BLOCK']}_{s.signature['n']}")(add.fn)
    assert kernel[4,](*three(), 98, BLOCK=32).name == "add_32_i32"


def test_a_name_that_is_none() -> None:
    with pytest.raises(ArgumentTypeError, match=r"repr of add\(\) is a function that returns its"):
        tile.jit(repr="add_32")(add.fn)
    kernel = tile.jit(repr=lambda s: 32)(add.fn)
    with pytest.raises(ArgumentTypeError, match=r"repr of add\(\) returns the kernel's name, a te"):
        kernel[4,](*three(), 98, BLOCK=32)


@pytest.mark.parametrize("chosen", ["n", 3, b"n"])
def test_parameters_are_chosen_by_a_list(chosen: object) -> None:
    message = r"do_not_specialize of add\(\) is a list of names or positions of parameters, not "
    with pytest.raises(ArgumentTypeError, match=message):
        tile.jit(do_not_specialize=chosen)(add.fn)


def test_written_arguments_without_a_launch() -> None:
    x, y, out = three()
    assert new_kernel().written_arguments(x, y, out, 100, BLOCK=32, num_warps=2) == {"out_ptr"}
    assert not out.any()


def test_warmup_takes_what_stands_for_arrays() -> None:
    kernel = new_kernel()
    compiled = kernel.warmup(
        np.float32, tl.float32, tile.MockArray("fp32"), 100, grid=(1,), BLOCK=32
    )
    x, y, out = three()
    assert compiled.signature["x_ptr"] == "*fp32:16"
    if all(a.ctypes.data % 16 == 0 for a in (x, y, out)):
        assert kernel[4,](x, y, out, 100, BLOCK=32) is compiled
    assert kernel.warmup(x, y, out, 100, BLOCK=32).name == "add"


def test_a_launch_takes_nothing_that_stands_for_an_array() -> None:
    x, y, _ = three()
    with pytest.raises(
        ArgumentTypeError, match=r"MockArray\(fp32\) stands for an array in kernel.warmup"
    ):
        add[4,](x, y, np.float32, 100, BLOCK=32)


def test_hooks_run_before_a_launch_and_after_its_checks() -> None:
    kernel = new_kernel()
    calls = []
    kernel.add_pre_run_hook(lambda *args, **kwargs: calls.append((len(args), kwargs)))
    x, y, out = three()
    kernel.warmup(x, y, out, 100, BLOCK=32)
    with pytest.raises(ArgumentValueError):
        kernel[-1,](x, y, out, 100, BLOCK=32)
    out.flags.writeable = False
    with pytest.raises(ArgumentValueError):
        kernel[1,](x, y, out, 100, BLOCK=32)
    assert calls == []
    out.flags.writeable = True
    kernel[4,](x, y, out, 100, BLOCK=32)
    assert calls == [(4, {"BLOCK": 32})]


def test_debug_is_an_option_with_a_default() -> None:
    x, y, out = three()
    kernel = tile.jit(debug=True)(add.fn)
    assert kernel[4,](x, y, out, 100, BLOCK=32).options.debug
    assert not kernel[4,](x, y, out, 100, BLOCK=32, debug=False).options.debug


def test_it_looks_like_its_function() -> None:
    assert add.arg_names == ["x_ptr", "y_ptr", "out_ptr", "n", "BLOCK"]
    assert add.__name__ == add.fn.__name__ == "add"
    kernel = tile.jit(version=3, launch_metadata=len)(add.fn)
    assert (kernel.version, kernel.launch_metadata) == (3, len)


class Incomparable:
    """A constant that is hashable, and whose comparisons raise."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __hash__(self) -> int:
        return 1


@tile.jit
def ignores(out_ptr, value: tl.constexpr):
    tl.store(out_ptr, 1)


def test_constants_whose_comparison_raises() -> None:
    out = np.zeros(1, np.int32)
    ignores[1,](out, Incomparable())
    with pytest.raises(ArgumentTypeError, match=r"of ignores\(\) cannot be used: not comparable"):
        ignores[1,](out, Incomparable())
