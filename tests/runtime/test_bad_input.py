"""Errors of launches: their class and text, and that no array changes."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.fake_cuda import CudaArray
from tests.runtime.kernels import add, copy_pair, fill, scatter_rows
from tile.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, BackendError


def refuse(error: type[Exception], launch, *words: str) -> None:
    """`launch(x, y, out)` raises `error`, whose text has all `words`, and changes no array."""
    arrays = [np.arange(64, dtype=np.float32), np.ones(64, np.float32), np.full(64, 7, np.float32)]
    before = [array.copy() for array in arrays]
    with pytest.raises(error) as caught:
        launch(*arrays)
    for word in words:
        assert word in str(caught.value)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize(
    ("grid", "error", "words"),
    [
        ((-1,), ArgumentValueError, "has -1 programs along axis 0"),
        ((1, -2), ArgumentValueError, "has -2 programs along axis 1"),
        ((1, 1, 1, 1), ArgumentValueError, "has one to three axes; (1, 1, 1, 1) has 4"),
        (lambda meta: (-1,), ArgumentValueError, "has -1 programs"),
        (lambda meta: None, ArgumentTypeError, "a grid is made of integers"),
        ((1.5,), ArgumentTypeError, "is a float"),
        ((2**31,), ArgumentValueError, "at most 2147483647"),
    ],
)
def test_grids(grid, error, words: str) -> None:
    refuse(error, lambda x, y, out: add[grid](x, y, out, 64, BLOCK=64), words)


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (lambda x, y, out: add[1,](x, y, out, BLOCK=64), "add() is missing 'n'"),
        (lambda x, y, out: add[1,](x, y, out, 64), "add() is missing 'BLOCK'"),
        (lambda x, y, out: add[1,](x, y, out, 64, BLOK=64), "'BLOK' (did you mean 'BLOCK'?)"),
        (lambda x, y, out: add[1,](x, y, out, 64, 64, 64), "takes 5 positional arguments, and 6"),
        (lambda x, y, out: add[1,](x, y, out, 64, 64, n=1), "got 'n' twice"),
        (
            lambda x, y, out: add[1,](x, y, out, 64, BLOCK=x),
            "a tl.constexpr, known when the kernel is",
        ),
        (lambda x, y, out: add[1,](x, y, out, 64, BLOCK=[64]), "a hashable constant"),
        (
            lambda x, y, out: add[1,](x, y, out.tolist(), 64, BLOCK=64),
            "argument 'out_ptr' of add()",
        ),
        (
            lambda x, y, out: add[1,](x, y, out, "64", BLOCK=64),
            "argument 'n' of add() is of type str",
        ),
        (lambda x, y, out: add[1,](x, y.astype(object), out, 64, BLOCK=64), "dtype object"),
        (lambda x, y, out: add[1,](x, y.astype(">f4"), out, 64, BLOCK=64), "other order"),
        (lambda x, y, out: add[1,](x, y, out.astype(complex), 64, BLOCK=64), "complex"),
        (lambda x, y, out: add[1,](x, y, out, 64, BLOCK=64, num_warps=[4]), "options of add()"),
        (lambda x, y, out: add(x, y, out, 64, BLOCK=64), "needs a grid"),
    ],
)
def test_arguments_of_a_wrong_kind(launch, words: str) -> None:
    refuse(ArgumentTypeError, launch, words)
    refuse(TypeError, launch)
    refuse(ArgumentError, launch)


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (lambda x, y, out: add[1,](x, y, out, 2**64, BLOCK=64), "which no integer type holds"),
        (
            lambda x, y, out: add[1,](x, y, out, 64, BLOCK=64, num_warps=3),
            "num_warps must be a power of two",
        ),
        (
            lambda x, y, out: add[1,](x, y, out, 64, BLOCK=64, num_stages=-1),
            "num_stages must be a non-negative integer",
        ),
        (
            lambda x, y, out: add[1,](x, y, out, 64, BLOCK=64, maxnreg=-1),
            "maxnreg must be a positive integer or None, not -1",
        ),
        (
            lambda x, y, out: add[1,](x, y, out, 64, BLOCK=64, max_programs=0),
            "max_programs must be a positive integer or None, not 0",
        ),
        (
            lambda x, y, out: add[1,](x, y, out, 64, BLOCK=64, maxnreg="64"),
            "maxnreg must be a positive integer or None, not '64'",
        ),
        *(
            (
                lambda x, y, out, name=name: add[1,](x, y, out, 64, BLOCK=64, **{name: "no"}),
                f"{name} must be False or True, not 'no'",
            )
            for name in ("enable_fp_fusion", "launch_cooperative_grid", "launch_pdl", "debug")
        ),
        (
            lambda x, y, out: add[1,](x, y, out, 64, BLOCK=64, default_dot_input_precision="low"),
            "default_dot_input_precision is one of ieee, tf32, tf32x3, bf16x3, bf16x6, not 'low'",
        ),
    ],
)
def test_arguments_of_a_wrong_value(launch, words: str) -> None:
    refuse(ArgumentValueError, launch, words)
    refuse(ValueError, launch)


def test_what_a_faulty_kernel_was_compiled_for() -> None:
    refuse(
        tile.errors.CompilationError,
        lambda x, y, out: add[1,](x, y.astype(np.int8), None, 1, BLOCK=64),
        "`+` has invalid operands of type None",
        "tl.store(out_ptr + offsets",
        "note: compiling add(x_ptr: *fp32:16, y_ptr: *i8:16, out_ptr=None, n=1, BLOCK=64) for",
    )


def test_a_tile_size_without_elements() -> None:
    refuse(
        tile.errors.CompilationError,
        lambda x, y, out: add[1,](x, y, out, 64, BLOCK=0),
        "arange counts up: its end, 0, is not above its start, 0",
        "tl.arange(0, BLOCK)",
    )


def read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def test_a_read_only_array() -> None:
    refuse(
        ArgumentValueError,
        lambda x, y, out: add[1,](x, y, read_only(out), 64, BLOCK=64),
        "argument 'out_ptr' of add() is read-only, and the kernel writes to it",
    )


def test_a_read_only_array_that_is_only_read() -> None:
    x = np.arange(64, dtype=np.float32)
    out = np.zeros_like(x)
    add[1,](read_only(x), np.broadcast_to(x[:1], 64), out, 1, BLOCK=64)
    assert out.tolist()[:2] == [0, 0]


def test_a_read_only_array_in_a_tuple() -> None:
    refuse(
        ArgumentValueError,
        lambda x, y, out: copy_pair[1,]((x, read_only(out)), 5, BLOCK=64),
        "argument 'pair[1]' of copy_pair() is read-only",
    )


def test_a_read_only_array_behind_a_pointer() -> None:
    refuse(
        ArgumentValueError,
        lambda x, y, out: scatter_rows[1,](tile.pointers([x, read_only(y)]), 1.0, BLOCK=64),
        "argument 'table_ptr' of scatter_rows() is read-only",
    )


def test_a_read_only_array_of_a_device() -> None:
    refuse(
        ArgumentValueError,
        lambda x, y, out: interpreted(fill, CudaArray(out, read_only=True)),
        "argument 'out_ptr' of fill() is read-only",
    )


def interpreted(kernel, array) -> None:
    with tile.backend("interp"):
        kernel[1,](array, 1.0, BLOCK=64)


def test_a_device_array_without_its_backend(monkeypatch) -> None:
    monkeypatch.delenv("TILE_BACKEND", raising=False)
    if "nvptx" in tile.backends.names():
        pytest.skip("this version has it")
    refuse(
        BackendError,
        lambda x, y, out: fill[1,](CudaArray(out), 1.0, BLOCK=64),
        "set TILE_BACKEND=interp",
    )


def test_an_unknown_backend_in_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", "intrep")
    refuse(
        BackendError,
        lambda x, y, out: add[1,](x, y, out, 64, BLOCK=64),
        "there is no backend 'intrep'; this version has",
        "interp",
    )


def test_a_program_that_fails_leaves_device_arrays_alone() -> None:
    """The copies that a faulty program wrote are not put back."""
    refuse(
        tile.errors.OutOfBoundsError,
        lambda x, y, out: interpreted_block(CudaArray(out)),
        "out_ptr",
    )


def interpreted_block(array) -> None:
    with tile.backend("interp"):
        fill[1,](array, 1.0, BLOCK=128)


@pytest.mark.parametrize("thing", [3, None, "add", object])
def test_jit_of_what_is_no_function(thing) -> None:
    if thing is None:
        assert callable(tile.jit(thing))
        return
    with pytest.raises(ArgumentTypeError):
        tile.jit(thing)


@tile.jit
def badly_named(out_ptr, grid):
    tl.store(out_ptr, grid)


def test_a_parameter_named_like_what_launches_take() -> None:
    refuse(
        ArgumentTypeError,
        lambda x, y, out: badly_named[1,](out, 3),
        "the name of its parameter 'grid' is reserved for launches (grid, warmup)",
    )


def test_a_kernel_whose_source_cannot_be_read() -> None:
    namespace = {"tl": tl}
    exec("def ghost(x_ptr):\n    tl.store(x_ptr, 1.0)\n", namespace)
    ghost = tile.jit(namespace["ghost"])
    refuse(
        tile.errors.CompilationError,
        lambda x, y, out: ghost[1,](out),
        "source of `ghost` cannot be read",
    )
