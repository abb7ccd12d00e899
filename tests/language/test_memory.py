"""Loads, stores and atomics: the operations that they become, and all errors."""

from __future__ import annotations

from typing import Any

import pytest

import tile.language as tl
from tests.language.sketch import Sketch
from tile.errors import CompilationError, TileError, TypeRuleError
from tile.ir.ops.memory import RMWKind


def last(sketch: Sketch) -> str:
    return sketch.text()[-1]


def test_a_load_through_one_pointer() -> None:
    sketch = Sketch("ptr<f32>")
    assert tl.load.emit(sketch.build, *sketch.args).type is tl.float32
    assert sketch.text() == ["%v = load %a : f32"]


def test_mask_and_other_are_broadcast_and_cast() -> None:
    sketch = Sketch("tile<4x8xptr<f16>>", "tile<4x1xi1>", "tile<8xf32>")
    p, mask, other = sketch.args
    tl.load.emit(sketch.build, p, mask, other)
    assert sketch.text() == [
        "%v = broadcast %b {shape = (4, 8)} : tile<4x8xi1>",
        "%v_1 = cast %c {to = f16} : tile<8xf16>",
        "%v_2 = expand_dims %v_1 {axis = -2} : tile<1x8xf16>",
        "%v_3 = broadcast %v_2 {shape = (4, 8)} : tile<4x8xf16>",
        "%v_4 = load %a, %v, %v_3 : tile<4x8xf16>",
    ]


def test_pointers_are_broadcast_to_a_greater_mask() -> None:
    sketch = Sketch("tile<1x8xptr<f32>>", "tile<4x1xi1>")
    result = tl.load.emit(sketch.build, *sketch.args, other=0)
    assert result.shape == (4, 8)
    assert last(sketch) == "%v_3 = load %v, %v_1, %v_2 : tile<4x8xf32>"


@pytest.mark.parametrize(
    ("element", "other", "constant"),
    [("f32", 0, "0.0"), ("f32", float("-inf"), "-inf"), ("i32", 0.0, "0"), ("i1", 0, "false")],
)
def test_a_number_as_other_is_a_constant_of_the_element_type(
    element: str, other: float, constant: str
) -> None:
    sketch = Sketch(f"tile<4xptr<{element}>>", "tile<4xi1>")
    tl.load.emit(sketch.build, *sketch.args, other)
    assert sketch.text() == [
        f"%v = const {{value = {constant}}} : tile<4x{element}>",
        f"%v_1 = load %a, %b, %v : tile<4x{element}>",
    ]


@pytest.mark.parametrize("mask", [None, True, 1])
def test_a_mask_that_is_always_true_is_none(mask: Any) -> None:
    sketch = Sketch("tile<4xptr<f32>>")
    tl.load.emit(sketch.build, *sketch.args, mask, None if mask is None else 0)
    assert sketch.text() == ["%v = load %a : tile<4xf32>"]


def test_a_mask_that_is_never_true() -> None:
    sketch = Sketch("tile<4xptr<f32>>")
    tl.load.emit(sketch.build, *sketch.args, mask=False)
    assert sketch.text()[-2:] == [
        "%v_1 = splat %v {shape = (4)} : tile<4xi1>",
        "%v_2 = load %a, %v_1 : tile<4xf32>",
    ]


def test_options_of_a_load_and_a_store() -> None:
    sketch = Sketch("ptr<f32>")
    (p,) = sketch.args
    tl.load.emit(sketch.build, p, cache_modifier=".cg", eviction_policy="evict_last", volatile=True)
    tl.store.emit(sketch.build, p, 1.0, cache_modifier=".wt", eviction_policy="evict_first")
    tl.load.emit(sketch.build, p, None, None, (), "", ".ca", "evict_normal", False)
    assert sketch.text() == [
        "%v = load %a {cache = cg, eviction = evict_last, volatile = true} : f32",
        "%v_1 = const {value = 1.0} : f32",
        "store %a, %v_1 {cache = wt, eviction = evict_first}",
        "%v_2 = load %a {cache = ca} : f32",
    ]


def test_pointers_to_pointers() -> None:
    sketch = Sketch("tile<4xptr<i64>>", "ptr<ptr<f32>>")
    addresses, p = sketch.args
    loaded = tl.load.emit(sketch.build, addresses)
    pointers = tl.cast.emit(sketch.build, loaded, tl.pointer_type(tl.float32))
    tl.load.emit(sketch.build, pointers)
    assert str(tl.load.emit(sketch.build, p).type) == "ptr<f32>"
    assert sketch.text() == [
        "%v = load %a : tile<4xi64>",
        "%v_1 = bitcast %v {to = ptr<f32>} : tile<4xptr<f32>>",
        "%v_2 = load %v_1 : tile<4xf32>",
        "%v_3 = load %b : ptr<f32>",
    ]


def test_a_store_casts_and_broadcasts_its_value_and_mask() -> None:
    sketch = Sketch("tile<4x8xptr<f16>>", "tile<8xf32>", "tile<4x1xi1>")
    tl.store.emit(sketch.build, *sketch.args)
    assert last(sketch) == "store %a, %v_2, %v_3"
    assert sketch.text()[0] == "%v = cast %b {to = f16} : tile<8xf16>"


def test_a_scalar_is_stored_everywhere() -> None:
    sketch = Sketch("tile<4xptr<i32>>", "i32")
    p, n = sketch.args
    tl.store.emit(sketch.build, p, n)
    tl.store.emit(sketch.build, p, 7)
    assert sketch.text() == [
        "%v = splat %b {shape = (4)} : tile<4xi32>",
        "store %a, %v",
        "%v_1 = const {value = 7} : tile<4xi32>",
        "store %a, %v_1",
    ]


POINTER, TILE = "ptr<f32>", "tile<4xptr<f32>>"
REFUSED: list[tuple[Any, tuple[str, ...], dict[str, Any], str]] = [
    (
        tl.load,
        ("tile<4xf32>",),
        {},
        "tl.load takes a pointer or a tile of pointers, not tile<4xf32>",
    ),
    (tl.load, (TILE,), {"other": 0.0}, "tl.load takes `other` only with a `mask`"),
    (
        tl.load,
        (POINTER, "tile<4xi1>"),
        {},
        "tl.load through one pointer of type ptr<f32> takes a scalar as its mask, not "
        "tile<4xi1>; for a "
        "tile add offsets to the pointer, as in pointer + tl.arange(0, N)",
    ),
    (
        tl.load,
        (POINTER, "i1", "tile<4xf32>"),
        {},
        "tl.load through one pointer of type ptr<f32> takes a scalar as its other, not tile<4xf32>",
    ),
    (
        tl.load,
        (TILE, "tile<4xi32>"),
        {},
        "the mask of tl.load is of tl.int1, not tile<4xi32>; compare it, as in mask != 0",
    ),
    (tl.load, (TILE, "tile<8xi1>"), {}, "shapes [4] and [8] cannot be broadcast together"),
    (
        tl.load,
        (TILE,),
        {"mask": "x"},
        "the mask of tl.load must be a tile, a scalar or a number, not 'x'",
    ),
    (
        tl.load,
        (TILE,),
        {"cache_modifier": ".wb"},
        'the cache_modifier of tl.load is one of "", ".ca", ".cg", ".cs"',
    ),
    (tl.store, (TILE, "f32"), {"cache_modifier": ".ca"}, "the cache_modifier of tl.store is"),
    (tl.load, (TILE,), {"eviction_policy": "first"}, "the eviction_policy of tl.load is one of"),
    (
        tl.load,
        (TILE,),
        {"boundary_check": (0,)},
        "tl.load through plain pointers does not know the bounds",
    ),
    (tl.store, ("f32", "f32"), {}, "tl.store takes a pointer or a tile of pointers, not f32"),
    (
        tl.store,
        (POINTER, "tile<4xf32>"),
        {},
        "tl.store through one pointer of type ptr<f32> takes a scalar as its value, not "
        "tile<4xf32>",
    ),
    (
        tl.store,
        ("tile<1x4xptr<f32>>", "tile<8x4xf32>"),
        {},
        "tl.store through pointers of shape [1, 4] takes a value of that shape, not [8, 4]",
    ),
    (
        tl.store,
        ("tile<1x4xptr<f32>>", "f32", "tile<8x4xi1>"),
        {},
        "tl.store through pointers of shape [1, 4] takes a mask of that shape, not [8, 4]",
    ),
    (
        tl.store,
        ("ptr<ptr<f32>>", "f32"),
        {},
        "tl.float32 does not convert to tl.pointer_type(tl.float32)",
    ),
    (
        tl.atomic_add,
        ("f32", "f32"),
        {},
        "tl.atomic_add takes a pointer or a tile of pointers, not f32",
    ),
    (
        tl.atomic_add,
        (POINTER, "tile<4xf32>"),
        {},
        "tl.atomic_add through one pointer of type ptr<f32> takes",
    ),
    (
        tl.atomic_xchg,
        ("tile<4xptr<i32>>", "tile<8xi32>"),
        {},
        "shapes [4] and [8] cannot be broadcast",
    ),
    (tl.atomic_add, (POINTER, "f32"), {"sem": "seq_cst"}, "the sem of tl.atomic_add is one of"),
    (
        tl.atomic_cas,
        ("ptr<i32>", "i32", "i32"),
        {"scope": "all"},
        "the scope of tl.atomic_cas is one of",
    ),
    (
        tl.atomic_max,
        ("ptr<f8e5m2>", "f8e5m2"),
        {},
        "atomic max is not defined on f8e5m2; it takes i8, i16, i32",
    ),
    (tl.atomic_and, ("ptr<f32>", "f32"), {}, "atomic and is not defined on f32"),
    (tl.atomic_add, ("ptr<i1>", "i1"), {}, "atomic add is not defined on i1"),
    (tl.atomic_cas, ("ptr<i1>", "i1", "i1"), {}, "atomic_cas is not defined on i1"),
]


@pytest.mark.parametrize(("function", "types", "options", "message"), REFUSED)
def test_what_an_access_refuses(
    function: Any, types: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    sketch = Sketch(*types)
    with pytest.raises(TileError) as caught:
        function.emit(sketch.build, *sketch.args, **options)
    assert caught.value.message.startswith(message)
    assert isinstance(caught.value, CompilationError | TypeRuleError)


@pytest.mark.parametrize("kind", [kind for kind in RMWKind if kind is not RMWKind.STORE])
def test_every_atomic_update(kind: RMWKind) -> None:
    function = getattr(tl, f"atomic_{kind}")
    sketch = Sketch("tile<4xptr<i32>>", "i8", "tile<4xi1>")
    p, val, mask = sketch.args
    result = function.emit(sketch.build, p, val, mask, "release", "sys")
    assert str(result.type) == "tile<4xi32>"
    assert sketch.text() == [
        "%v = cast %b {to = i32} : i32",
        "%v_1 = splat %v {shape = (4)} : tile<4xi32>",
        f"%v_2 = atomic_rmw %a, %v_1, %c {{kind = {kind}, order = release, scope = sys}} : "
        "tile<4xi32>",
    ]


def test_the_defaults_of_atomics() -> None:
    sketch = Sketch("ptr<u64>")
    tl.atomic_add.emit(sketch.build, *sketch.args, 1)
    tl.atomic_cas.emit(sketch.build, *sketch.args, 0, 1, sem="acquire", scope="cta")
    assert sketch.text() == [
        "%v = const {value = 1} : u64",
        "%v_1 = atomic_rmw %a, %v {kind = add} : u64",
        "%v_2 = const {value = 0} : u64",
        "%v_3 = const {value = 1} : u64",
        "%v_4 = atomic_cas %a, %v_2, %v_3 {order = acquire, scope = cta} : u64",
    ]
