"""Descriptors in a kernel: the operations that they become, and all errors."""

from __future__ import annotations

from typing import Any

import pytest

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError, TileError
from tile.language.base.builtin import Bound
from tile.language.base.tensor import Tensor
from tile.language.tensor_methods import tensor_attribute


def attribute(sketch: Sketch, desc: Tensor, name: str) -> Any:
    return tensor_attribute(sketch.build, desc, name)


def call(sketch: Sketch, desc: Tensor, name: str, *args: Any) -> Any:
    method = attribute(sketch, desc, name)
    assert isinstance(method, Bound)
    return method.emit(sketch.build, *args)


def made(sketch: Sketch, *args: Any, **kwargs: Any) -> Tensor:
    return tl.make_tensor_descriptor.emit(sketch.build, *args, **kwargs)


def test_a_descriptor_is_made_of_narrow_extents_and_wide_strides() -> None:
    sketch = Sketch("ptr<f16>", "i32", "i32")
    p, m, n = sketch.args
    desc = made(sketch, p, [m, n], (n, 1), [64, 32])
    assert str(desc.type) == "desc<64x32xf16>"
    assert sketch.text() == [
        "%v = cast %c {to = i64} : i64",
        "%v_1 = make_tensor_descriptor %a, %b, %c, %v {block = (64, 32)} : desc<64x32xf16>",
    ]


def test_an_extent_that_32_bits_do_not_hold_is_as_great_as_they_do() -> None:
    sketch = Sketch("ptr<f32>", "i64", "u32")
    p, wide, unsigned = sketch.args
    for extent, number in ((5, 5), (1 << 40, 2147483647), (wide, None), (unsigned, None)):
        desc = made(sketch, p, [extent], [1], [8])
        if number is not None:
            assert f"value = {number}" in " ".join(sketch.text()[-2:])
        else:
            assert "select" in sketch.text()[-2]
        (actual,) = attribute(sketch, desc, "shape")
        assert actual.type is tl.int32


def test_blocks_are_read_and_written() -> None:
    sketch = Sketch("desc<8x16xf32>", "i32", "i64", "f16")
    desc, i, wide, x = sketch.args
    assert str(call(sketch, desc, "load", [i, 3]).type) == "tile<8x16xf32>"
    assert sketch.text()[-1] == "%v_1 = descriptor_load %a, %b, %v : tile<8x16xf32>"
    call(sketch, desc, "store", (i, i), x)
    assert sketch.text()[-3:] == [
        "%v_2 = cast %d {to = f32} : f32",
        "%v_3 = splat %v_2 {shape = (8, 16)} : tile<8x16xf32>",
        "descriptor_store %a, %v_3, %b, %b",
    ]
    tl.store_tensor_descriptor.emit(sketch.build, desc, [i, wide], 0)
    assert "select" in sketch.text()[-2]
    tl.load_tensor_descriptor.emit(sketch.build, desc, [0, 1 << 40])
    assert "{value = -2147483648}" in sketch.text()[-2]
    call(sketch, desc, "atomic_max", [i, i], 2)
    assert sketch.text()[-1] == "descriptor_reduce %a, %v_13, %b, %b {kind = max}"


def test_rows_are_gathered_and_scattered() -> None:
    sketch = Sketch("desc<1x16xf32>", "tile<4xi16>", "i32")
    desc, rows, column = sketch.args
    actual = call(sketch, desc, "gather", rows, column)
    assert actual.shape == (4, 16)
    call(sketch, desc, "scatter", actual, rows, column)
    assert sketch.text()[-1] == "descriptor_scatter %a, %v_1, %v_2, %c"


def test_what_a_descriptor_tells_of_itself() -> None:
    sketch = Sketch("desc<8x16xf32, nan>")
    (desc,) = sketch.args
    assert attribute(sketch, desc, "dtype") is tl.float32
    assert attribute(sketch, desc, "block_shape") == (8, 16)
    assert str(attribute(sketch, desc, "block_type")) == "tile<8x16xf32>"
    assert [x.type for x in attribute(sketch, desc, "shape")] == [tl.int32, tl.int32]
    assert [x.type for x in attribute(sketch, desc, "strides")] == [tl.int64, tl.int64]
    with pytest.raises(CompilationError, match=r"has no attribute `lod`; did you mean `load`"):
        attribute(sketch, desc, "lod")


REFUSED = [
    (
        lambda p, n, t: (3, [n], [1], [8]),
        "the base of tl.make_tensor_descriptor is one pointer, not 3",
    ),
    (lambda p, n, t: (t, [n], [1], [8]), "is one pointer, not tile<8xptr<f32>>"),
    (
        lambda p, n, t: (p, [n], [1, 1], [8]),
        r"the strides of .* has 2 numbers, and the block_shape \[8\] has 1",
    ),
    (lambda p, n, t: (p, n, [1], [8]), r"the shape of .* has no list"),
    (lambda p, n, t: (p, [], [], []), r"1 to 5 axes"),
    (
        lambda p, n, t: (p, [-4], [1], [8]),
        "an extent in the shape of tl.make_tensor_descriptor is -4",
    ),
    (lambda p, n, t: (p, [1.5], [1], [8]), "an extent in the shape of .* is an integer, not 1.5"),
    (lambda p, n, t: (p, [n], [2], [8]), "the last stride of .* is 1, known when .* this is 2"),
    (lambda p, n, t: (p, [n], [n], [8]), "the last stride of .* and this is i32"),
    (
        lambda p, n, t: (p, [n, n], [3, 1], [8, 8]),
        "along axis 0 is 3 elements of f32, 12 bytes; it is a multiple of 4",
    ),
    (lambda p, n, t: (p, [n], [1], [n]), "must be known when the kernel is compiled"),
    (lambda p, n, t: (p, [n], [1], [6]), "powers of two, and 6 is not"),
    (lambda p, n, t: (p, [n], [1], [2]), "the least is 16, 4 elements"),
    (lambda p, n, t: (p, [n], [1], [8], "one"), 'is "zero" or "nan", not \'one\''),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_descriptors_that_are_refused(arguments: Any, message: str) -> None:
    sketch = Sketch("ptr<f32>", "i32", "tile<8xptr<f32>>")
    with pytest.raises(TileError, match=message):
        made(sketch, *arguments(*sketch.args))


def test_accesses_that_are_refused() -> None:
    sketch = Sketch("desc<8x16xf32>", "ptr<f32>", "i32", "tile<4xi64>", "tile<4x4xf32>")
    desc, p, i, rows, value = sketch.args
    with pytest.raises(
        CompilationError, match="takes 2 offsets, one for each axis of desc<8x16xf32>, not 1"
    ):
        call(sketch, desc, "load", [i])
    with pytest.raises(
        CompilationError, match=r"an offset of tl.load_tensor_descriptor is an integer, not 0.5"
    ):
        call(sketch, desc, "load", [i, 0.5])
    with pytest.raises(CompilationError, match="takes a tensor descriptor, not ptr<f32>"):
        tl.load_tensor_descriptor.emit(sketch.build, p, [i, i])
    with pytest.raises(CompilationError, match="cannot be broadcast"):
        call(sketch, desc, "store", [i, i], value)
    with pytest.raises(CompilationError, match="up to 32 bits"):
        call(sketch, desc, "gather", rows, i)
    with pytest.raises(CompilationError, match="a tile of integers with one axis"):
        call(sketch, desc, "gather", i, i)
    for refused in (
        lambda: tl.load.emit(sketch.build, desc),
        lambda: tl.exp.emit(sketch.build, desc),
    ):
        with pytest.raises(TileError, match="is a descriptor, which arithmetic does not accept"):
            refused()
