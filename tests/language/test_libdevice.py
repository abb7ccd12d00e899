"""Functions of libdevice in kernels: operand types, numbers, broadcasting, and errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError
from tile.ir.semantics.libdevice import functions
from tile.language import math
from tile.language.extra import libdevice
from tile.language.extra.cuda import libdevice as of_cuda


@pytest.mark.parametrize("name", functions())
def test_every_signature_is_one_call(name: str) -> None:
    """Operands of the symbol's types choose the symbol."""
    for symbol in functions()[name]:
        sketch = Sketch(*(f"tile<4x{ty}>" for ty in symbol.operands))
        result = getattr(libdevice, name).emit(sketch.build, *sketch.args)
        (line,) = sketch.text()
        assert f'{{symbol = "{symbol.name}"}} : tile<4x{symbol.result}>' in line
        assert result.dtype == symbol.result


def test_the_modules_are_one() -> None:
    assert of_cuda is libdevice is tl.extra.libdevice is tl.extra.cuda.libdevice
    assert set(libdevice.__all__) <= set(dir(libdevice))
    with pytest.raises(AttributeError, match="has no attribute 'sine'"):
        libdevice.sine


def call(name: str, types: str, *numbers: Any) -> str:
    """Return the IR of a call with arguments of these types, and numbers after them."""
    sketch = Sketch(*types.split())
    getattr(libdevice, name).emit(sketch.build, *sketch.args, *numbers)
    return sketch.text()[-1]


def test_numbers_take_the_type_that_fits() -> None:
    assert "__nv_powif" in call("pow", "f32", 2)
    assert "__nv_powf" in call("pow", "f32", 2.0)
    assert '__nv_fmod"' in call("fmod", "f64", 2.0)
    assert "__nv_fmodf" in call("fmod", "f32", 2)
    assert "__nv_expf" in call("exp", "", 1)
    assert "__nv_umulhi" in call("mulhi", "u32", 3)


def test_operands_are_broadcast_and_promoted() -> None:
    assert call("atan2", "tile<4x1xf32> tile<8xf32>").endswith(": tile<4x8xf32>")
    assert call("pow", "f32 tile<8xf64>").endswith('{symbol = "__nv_pow"} : tile<8xf64>')
    assert call("fmod", "f32 i32").endswith('{symbol = "__nv_fmodf"} : f32')


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("exp", "f16", r"libdevice.exp takes \(fp32\) or \(fp64\), not \(f16\); cast first"),
        ("exp", "tile<4xbf16>", r"not \(tile<4xbf16>\); cast first: x.to\(tl.float32\)"),
        ("clz", "u32", r"libdevice.clz takes \(int32\) or \(int64\), not \(u32\)"),
        ("pow", "f16 f16", r"libdevice.pow takes \(.*\), not \(f16, f16\)"),
        ("exp", "ptr<f32>", r"not \(ptr<f32>\)"),
        ("atan2", "f32", "missing a required argument: 'arg1'"),
        ("exp", "f32 f32", "too many positional arguments"),
    ],
)
def test_errors(name: str, types: str, message: str) -> None:
    with pytest.raises(
        CompilationError, match=message.replace("fp", r"(tl.float|fp)").replace("int", r"(tl.)?int")
    ):
        call(name, types)


def test_other_arguments_are_refused() -> None:
    sketch = Sketch("f32")
    with pytest.raises(
        CompilationError, match=r"an argument of libdevice.exp must be .*, not None"
    ):
        libdevice.exp.emit(sketch.build, None)
    with pytest.raises(CompilationError, match=r"tl\.extra\.libdevice\.exp: missing a required"):
        libdevice.exp.emit(sketch.build, y=sketch.args[0])
    assert libdevice.exp.emit(sketch.build, arg0=sketch.args[0]).dtype is tl.float32


def test_extern_elementwise() -> None:
    sketch = Sketch("tile<4xf32>", "f64")
    x, y = sketch.args
    symbols = {
        (tl.float32,): ("__nv_log1pf", tl.float32),
        (tl.float64,): ("__nv_log1p", tl.float64),
    }
    tl.extern_elementwise.emit(sketch.build, "libdevice", "", [x], symbols, is_pure=True)
    tl.extern_elementwise.emit(sketch.build, "", "", [y], symbols)
    lines = sketch.text()
    assert '"__nv_log1pf"' in lines[0] and '"__nv_log1p"' in lines[1]
    wrong = {(tl.float32,): ("__nv_log1p", tl.float32)}
    with pytest.raises(CompilationError, match=r"__nv_log1p has the signature \(f64\) -> f64, not"):
        tl.extern_elementwise.emit(sketch.build, "", "", [x], wrong)
    foreign = {(tl.float32,): ("my_function", tl.float32)}
    with pytest.raises(tile.errors.TileError, match="libdevice has no function my_function"):
        tl.extern_elementwise.emit(sketch.build, "", "", [x], foreign)


def test_elementary_functions_are_in_math() -> None:
    assert tl.math.log1p is libdevice.log1p
    assert {"atan2", "exp"} <= set(dir(tl.math))
    assert all(
        getattr(tl.math, name) is getattr(libdevice, name) for name in math.ELEMENTARY.split()
    )
    assert not set(math.ELEMENTARY.split()) & set(dir(tl))
    with pytest.raises(AttributeError, match=r"'tile\.language\.math' has no attribute 'sine'"):
        tl.math.sine


def test_dependent_launches() -> None:
    """A launch waits for the one before it, so that `gdc_wait` has nothing to do."""
    sketch = Sketch("f32")
    tl.extra.cuda.gdc_wait.emit(sketch.build)
    tl.extra.cuda.gdc_launch_dependents.emit(sketch.build)
    assert sketch.text() == ["launch_dependents"]
    with pytest.raises(CompilationError, match=r"tl\.extra\.cuda\.gdc_wait can only be called"):
        tl.extra.cuda.gdc_wait()


def test_gathers_of_clusters() -> None:
    sketch = Sketch("f32", "f32", "f16", "i32", "tile<8xf32>")
    x, y, half, number, tile_ = sketch.args
    gather = tl.extra.cuda.cluster_gather.emit
    one = gather(sketch.build, x, 4)
    pairs = gather(sketch.build, (x, y), tl.constexpr(2))
    assert len(one) == 4 and [len(each) for each in pairs] == [2, 2]
    assert [line.partition(" = ")[2].partition(" :")[0] for line in sketch.text()] == [
        "cluster_gather %a {size = 4}",
        "cluster_gather %a, %b {size = 2}",
    ]
    for wrong in (half, tile_, (x, number), ()):
        with pytest.raises(CompilationError, match="takes scalars of one type of 32 or 64 bits"):
            gather(sketch.build, wrong, 2)
    with pytest.raises(tile.errors.TileError, match="a cluster has 2, 4, 8 or 16 programs, not 3"):
        gather(sketch.build, x, 3)


def test_values_are_laundered_behind_a_scalar() -> None:
    sketch = Sketch("tile<8xf16>", "f32", "i64", "ptr<f32>", "i32")
    x, number, wide, pointer, count = sketch.args
    launder = tl.extra.cuda.launder.emit
    assert launder(sketch.build, x, number).type == x.type
    assert launder(sketch.build, wide, count).type == wide.type
    assert [line.partition(" = ")[2].split()[0] for line in sketch.text()] == [
        "bitcast",
        "splat",
        "launder",
        "launder",
    ]
    for wrong in (x, wide, pointer):
        with pytest.raises(CompilationError, match="launder waits for a scalar of 32 bits"):
            launder(sketch.build, x, wrong)
    with pytest.raises(CompilationError, match="launder takes numbers, not"):
        launder(sketch.build, pointer, number)


def test_prefetches_count_elements() -> None:
    sketch = Sketch("ptr<f32>", "i32", "tile<8xptr<f32>>")
    pointer, count, pointers = sketch.args
    tl.extra.cuda.prefetch.emit(sketch.build, pointer, 32)
    tl.extra.cuda.prefetch.emit(sketch.build, pointer, count)
    sketch.end()
    text = sketch.text()
    assert sum("value = 4} : i32" in line for line in text) == 2 == sum("mul " in x for x in text)
    assert sum(line.startswith("prefetch ") for line in text) == 2
    with pytest.raises(CompilationError, match=r"tl\.extra\.cuda\.prefetch takes a pointer"):
        tl.extra.cuda.prefetch.emit(sketch.build, count, 32)
    with pytest.raises(
        tile.errors.TileError, match="prefetch takes a pointer and an i32, not tile"
    ):
        tl.extra.cuda.prefetch.emit(sketch.build, pointers, 32)


@pytest.mark.parametrize("name", ["convert_custom_float8_sm70", "convert_custom_float8_sm80"])
def test_casts_of_float8e4b15(name: str) -> None:
    cast = getattr(tl.extra.cuda, name)
    sketch = Sketch("tile<4xf8e4m3b15>", "f32", "bf16")
    codes, number, other = sketch.args
    assert cast.emit(sketch.build, codes, tl.float16).dtype is tl.float16
    assert cast.emit(sketch.build, number, tl.float8e4b15, "rtz").dtype is tl.float8e4b15
    with pytest.raises(CompilationError, match=rf"{name} casts between tl.float8e4b15 and"):
        cast.emit(sketch.build, other, tl.float8e4b15)


def test_functions_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(libdevice.j0)) is libdevice.j0
    assert copy.deepcopy(libdevice.j0) is libdevice.j0
    assert repr(libdevice.exp) == "<tl.extra.libdevice.exp>" != repr(tl.exp)


@tile.jit
def softplus(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, i < n)
    y = libdevice.log1p(libdevice.exp(-tl.abs(x))) + tl.maximum(x, 0.0)
    tl.store(y_ptr + i, tl.where(libdevice.isnan(x) != 0, 0.0, y), i < n)


@pytest.mark.parametrize("target", ["interp", "interp:mma"])
def test_kernel(target: str) -> None:
    """A kernel of several functions, in two programs, the second of them masked."""
    x = np.linspace(-30, 30, 200, dtype=np.float32)
    x[7] = np.nan
    y = np.zeros_like(x)
    with tile.backend(target):
        softplus[(2,)](x, y, x.size, B=128)
    wanted = np.logaddexp(0, np.nan_to_num(x).astype(np.float64)).astype(np.float32)
    wanted[7] = 0
    np.testing.assert_array_max_ulp(y, wanted, 4)
