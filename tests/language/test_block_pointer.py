"""Block pointers: the operations that accesses through them become, and all errors."""

from __future__ import annotations

from typing import Any

import pytest

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError
from tile.language.tensor_methods import tensor_attribute

MATRIX: dict[str, Any] = {
    "shape": (7, 9),
    "strides": (9, 1),
    "offsets": (0, 0),
    "block_shape": (4, 8),
    "order": (1, 0),
}


def block(sketch: Sketch, **changes: Any) -> Any:
    return tl.make_block_ptr.emit(sketch.build, sketch.args[0], **(MATRIX | changes))


def test_only_checked_axes_are_masked() -> None:
    for axes, masks in (((), 0), ((0,), 1), ([0, 1], 2), (1, 1), (None, 0)):
        sketch = Sketch("ptr<f32>")
        tl.load.emit(sketch.build, block(sketch), boundary_check=axes)
        assert sum(" cmp " in line for line in sketch.text()) == masks


def test_a_contiguous_axis_is_not_scaled() -> None:
    sketch = Sketch("ptr<f32>")
    tl.load.emit(sketch.build, block(sketch))
    assert sum(" mul " in line for line in sketch.text()) == 2  # the start and the rows
    assert sketch.text()[-1].startswith("%v") and sketch.text()[-1].endswith(": tile<4x8xf32>")


def test_a_block_of_one_element() -> None:
    sketch = Sketch("ptr<f32>")
    one = block(sketch, block_shape=(1, 1))
    assert tl.load.emit(sketch.build, one, boundary_check=(0, 1)).shape == (1, 1)


def test_attributes() -> None:
    sketch = Sketch("ptr<f16>")
    pointer = block(sketch)
    assert pointer.dtype.element_ty is tl.float16
    assert pointer.type.element_ty == tl.block_type(tl.float16, (4, 8))
    assert pointer.type.is_ptr() and not pointer.type.is_block()
    assert tensor_attribute(sketch.build, pointer, "dtype") == tl.pointer_type(tl.float16)
    store = tensor_attribute(sketch.build, pointer, "store")
    store.emit(sketch.build, 1.0, boundary_check=(0,))
    assert sketch.text()[-1].startswith("store ")
    with pytest.raises(CompilationError, match="has no attribute `advanc`; did you mean `advance`"):
        tensor_attribute(sketch.build, pointer, "advanc")


def refusal(call: Any) -> str:
    with pytest.raises(CompilationError) as caught:
        call()
    return caught.value.message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (7,)}, "the shape of tl.make_block_ptr has 1 numbers; the block has 2 axes"),
        ({"strides": 3}, "the strides of tl.make_block_ptr has no list; the block has 2 axes"),
        ({"offsets": (0, 0.5)}, "an offset of tl.make_block_ptr is an integer, not 0.5"),
        ({"order": (1, 1)}, "the order of tl.make_block_ptr is (1, 1); it is a permutation of 0"),
        ({"block_shape": (4, "x")}, "an extent in the block_shape of tl.make_block_ptr must be"),
    ],
)
def test_what_makes_no_block_pointer(changes: dict[str, Any], message: str) -> None:
    sketch = Sketch("ptr<f32>")
    assert refusal(lambda: block(sketch, **changes)).startswith(message)


def test_bases_that_are_refused() -> None:
    for ty in ("f32", "tile<4xptr<f32>>", "ptr<ptr<f32>>"):
        sketch = Sketch(ty)
        message = refusal(lambda sketch=sketch: block(sketch))
        assert message == f"the base of tl.make_block_ptr is a pointer to numbers, not {ty}"


def test_accesses_that_are_refused() -> None:
    sketch = Sketch("ptr<i32>", "tile<4x8xi1>")
    pointer, mask = block(sketch), sketch.args[1]

    def load(*args: Any, **kwargs: Any) -> str:
        return refusal(lambda: tl.load.emit(sketch.build, *args, **kwargs))

    assert load(pointer, mask).startswith("tl.load through a block pointer takes no `mask`; ")
    assert load(pointer, other=0).startswith("tl.load through a block pointer takes no `other`; ")
    assert load(pointer, boundary_check=(0, 2)) == (
        "the boundary_check of tl.load is (0, 2); it lists axes of a block pointer to "
        "tile<4x8xi32>, 0 to 1"
    )
    assert load(pointer, boundary_check=(0, 0)).startswith("the boundary_check of tl.load is")
    assert load(pointer, padding_option="nan").startswith('the padding_option of tl.load is "nan"')
    assert load(pointer, padding_option="one").startswith("the padding_option of tl.load is one of")
    store = refusal(lambda: tl.store.emit(sketch.build, pointer, 1, mask))
    assert store.startswith("tl.store through a block pointer takes no `mask`; ")
    assert refusal(lambda: tl.advance.emit(sketch.build, pointer, (1,))).startswith(
        "the offsets of tl.advance has 1 numbers; the block has 2 axes"
    )
    assert refusal(lambda: tl.advance.emit(sketch.build, mask, (1,))) == (
        "tl.advance takes a block pointer, made by tl.make_block_ptr, not tile<4x8xi1>"
    )
