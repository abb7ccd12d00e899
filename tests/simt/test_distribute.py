"""The threads together compute the tile's operation, in any layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluate import evaluate
from tests.simt.layouts.layouts import invertible
from tests.simt.threads import Threads, calls, held, whole
from tile.errors import CompilationError, OutOfResourcesError
from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import arith, control, dot, memory, reduce, shape
from tile.ir.semantics import numpy_dtype
from tile.ir.shared_type import Shared
from tile.ir.types import F16, F32, I1, I8, I16, I32, I64, U8, Pointer, Scalar, Tile, Type
from tile.ir.verifier import verify
from tile.location import Loc
from tile.simt import ops
from tile.simt.layouts.axes import reshape_axes
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import bit_positions, named
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import MmaShape, Operand, fma_operand_layouts, matrix_layout
from tile.simt.layouts.warp_shuffle import ShufflePlan
from tile.simt.lower.distribute import distribute
from tile.simt.lower.distribute.convert_layout import conversion_plan
from tile.simt.ops.layout_inference import LayoutBuilder, broadcast_operand_layout, layout_of
from tile.simt.pass_pipeline import lower
from tile.simt.target import CP_ASYNC, GENERIC, MMA, WGMMA, SimtTarget

LANES, WARPS = 3, 2  # bits
SMALL = replace(CP_ASYNC, name="small", warp_size=1 << LANES)

few = settings(max_examples=40, deadline=None)
shapes = st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=3).filter(
    lambda extents: np.prod(extents) <= 256
)
dtypes = st.sampled_from([I1, I8, I16, I32, I64])


@st.composite
def tile_layouts(draw: Any, extents: Sequence[int], plain: bool | None = None) -> LinearLayout:
    """A layout of a tile at the LAID_OUT level: copies have zero bases, and registers none."""
    outs = named(extents)
    total = sum(bits for _, bits in outs)
    plain = draw(st.booleans()) if plain is None else plain
    columns = (
        [1 << bit for bit in draw(st.permutations(range(total)))]
        if plain
        else invertible(draw, total)
    )
    return spread(draw, columns, outs)


def spread(draw: Any, columns: list[int], outs: Any, warps: Any = None) -> LinearLayout:
    """The columns given to lanes, warps and registers."""
    lanes = draw(st.integers(0, min(LANES, len(columns))))
    bases = {"lane": columns[:lanes] + [0] * (LANES - lanes)}
    columns = columns[lanes:]
    if warps is None:
        taken = draw(st.integers(0, min(WARPS, len(columns))))
        warps = draw(st.permutations(columns[:taken] + [0] * (WARPS - taken)))
        columns = columns[taken:]
    ins = (
        ("register", tuple(columns)),
        ("lane", tuple(draw(st.permutations(bases["lane"])))),
        ("warp", tuple(warps)),
    )
    return LinearLayout(ins, outs)


def laid(extents: Sequence[int], element: Any, layout: LinearLayout) -> Tile:
    return Tile(tuple(extents), element, layout)


def numbers(draw: Any, ty: Type) -> Any:
    """A tile of random numbers."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    assert isinstance(ty.element, Scalar)
    if ty.element.is_floating():
        return random.standard_normal(ty.shape).astype(numpy_dtype(ty.element))
    bound = 2 if ty.element is I1 else 100
    return random.integers(0, bound, ty.shape).astype(numpy_dtype(ty.element))


def module_of(build: Callable[..., Sequence[Value]], *types: Type) -> tuple[Module, Sequence[Type]]:
    """A module with one function of laid-out tiles, and its result types."""
    function = Function("f", types, [f"x{i}" for i in range(len(types))])
    b = LayoutBuilder(function.body)
    results = build(b, *function.args)
    b.op(control.return_, *results)
    function.result_types = tuple(value.type for value in results)
    module = Module([function])
    verify(module, Level.LAID_OUT)
    return module, function.result_types


def threads_of(
    module: Module,
    types: Sequence[Type],
    tiles: Sequence[Any],
    target: SimtTarget = SMALL,
    warps: int = 1 << WARPS,
    memory: Any = None,
) -> tuple[list[Any], Threads]:
    """Return the tiles that the threads compute, on which they must agree, and the threads."""
    arguments = [value.type for value in module["f"].args]
    inputs = [
        held(layout_of(value), tile) if isinstance(value.type, Tile) else tile
        for value, tile in zip(module["f"].args, tiles, strict=True)
    ]
    assert len(arguments) == len(inputs)
    distribute(module, target=target, num_warps=warps)
    verify(module, Level.THREAD)
    threads = Threads(target.warp_size, warps)
    if memory is not None:
        threads.memory = memory
    results = threads.call(module["f"], *inputs)
    actual = []
    for ty, result in zip(types, results, strict=True):
        if isinstance(ty, Tile):
            assert isinstance(ty.layout, LinearLayout)
            actual.append(whole(ty.layout, result))
        else:
            assert np.all(result == result[0])
            actual.append(result[0])
    return actual, threads


def check(
    build: Callable[..., Sequence[Value]],
    types: Sequence[Type],
    tiles: Sequence[Any],
    exact: bool = True,
    **options: Any,
) -> Threads:
    """Threads do what the operations say of whole tiles."""
    module, results = module_of(build, *types)
    wanted = evaluate(module["f"], *tiles)
    actual, threads = threads_of(module, results, tiles, **options)
    for x, y in zip(actual, wanted, strict=True):
        y = np.broadcast_to(y, np.shape(x))
        if exact:
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)
    return threads


# -- conversions


@st.composite
def conversions(draw: Any) -> tuple[LinearLayout, LinearLayout]:
    """Two layouts of which the first has in each warp what the second has there."""
    extents = draw(shapes)
    src = draw(tile_layouts(extents))
    exchanged = [c for name in ("register", "lane") for c in src.images(name) if c]
    mixed = list(draw(st.permutations(exchanged)))
    if draw(st.booleans()):
        mixed = [_sum(mixed, step) for step in invertible(draw, len(mixed))]
    warps = []
    for column in src.images("warp"):  # where all warps have an element, each may keep some
        apart = not column and bool(mixed) and draw(st.booleans())
        warps.append(mixed.pop() if apart else column)
    return src, spread(draw, mixed, src.outs, warps)


def _sum(vectors: Sequence[int], chosen: int) -> int:
    total = 0
    for bit, vector in enumerate(vectors):
        total ^= vector if chosen >> bit & 1 else 0
    return total


@settings(max_examples=150, deadline=None)
@given(conversions(), dtypes, st.data())
def test_conversions_inside_of_warps(
    layouts: tuple[LinearLayout, LinearLayout], element: Scalar, data: Any
) -> None:
    src, dst = layouts
    x = laid(src.shape, element, src)
    check(lambda b, x: [b.convert(x, dst)], [x], [numbers(data.draw, x)])


@few
@given(st.data())
def test_exchanges_inside_of_warps(data: Any) -> None:
    extents = data.draw(shapes)
    layout = data.draw(tile_layouts(extents))
    axis = data.draw(st.integers(-len(extents), -1))
    mask = data.draw(st.integers(0, extents[axis] - 1))
    x = laid(extents, I16, layout)

    def build(b: LayoutBuilder, x: Value) -> Sequence[Value]:
        return [b(ops.layout.butterfly, x, axis=axis, mask=mask)]

    try:
        check(build, [x], [numbers(data.draw, x)])
    except CompilationError as error:
        assert "`butterfly` moves elements" in error.message
        assert any(layout.images("warp"))


def test_a_sender_of_one_register_serves_lanes_in_several_steps() -> None:
    """Each warp takes what two lanes have, in one register of the eight that would hold it all."""
    src = LinearLayout.of(
        {
            "register": [[1, 0], [2, 0], [4, 0]],
            "lane": [[0, 1], [0, 0], [0, 0]],
            "warp": [[0, 0], [0, 0]],
        },
        [8, 2],
    )
    dst = LinearLayout.of(
        {
            "register": [],
            "lane": [[1, 0], [2, 0], [4, 0]],
            "warp": [[0, 1], [0, 0]],
        },
        [8, 2],
    )
    x = laid(src.shape, I32, src)
    tile = np.arange(16, dtype=np.int32).reshape(8, 2)
    threads = check(lambda b, x: [b.convert(x, dst)], [x], [tile])
    actual = conversion_plan(src, dst, 32, True)
    assert isinstance(actual, ShufflePlan) and actual.coset.out_bits("coset") > 0
    assert calls(threads, arith.select)


def test_a_conversion_between_warps_is_refused() -> None:
    src = LinearLayout.of({"register": [], "lane": [[1], [2], [4]], "warp": [[8], [16]]}, [32])
    dst = LinearLayout.of({"register": [], "lane": [[8], [2], [4]], "warp": [[1], [16]]}, [32])
    module, _ = module_of(lambda b, x: [b.convert(x, dst)], laid([32], F32, src))
    with pytest.raises(CompilationError, match="`convert_layout` moves elements between warps"):
        distribute(module, target=SMALL, num_warps=4)


# -- names of elements


@few
@given(st.data())
def test_relabeling(data: Any) -> None:
    extents = data.draw(shapes)
    layout = data.draw(tile_layouts(extents))
    x = laid(extents, I32, layout)
    order = tuple(data.draw(st.permutations(range(len(extents)))))
    axis = data.draw(st.integers(-len(extents) - 1, -1))

    def build(b: LayoutBuilder, x: Value) -> Sequence[Value]:
        pairs = b(shape.join, x, b(arith.neg, x))
        return [
            b(shape.trans, x, order=order),
            b(shape.reshape, x, shape=(int(np.prod(extents)),)),
            b(shape.expand_dims, x, axis=axis),
            pairs,
            *b.op(shape.split, pairs).results,
        ]

    check(build, [x], [numbers(data.draw, x)])


@few
@given(st.data())
def test_broadcasts(data: Any) -> None:
    extents = data.draw(shapes)
    layout = data.draw(tile_layouts(extents, plain=True))
    narrow = [data.draw(st.sampled_from([1, extent])) for extent in extents]
    x = laid(narrow, I32, broadcast_operand_layout(layout, narrow))

    def build(b: LayoutBuilder, x: Value) -> Sequence[Value]:
        return [b(shape.broadcast, x, shape=tuple(extents), layout=layout)]

    check(build, [x], [numbers(data.draw, x)])


@few
@given(st.data())
def test_tiles_from_nothing(data: Any) -> None:
    extent = data.draw(st.sampled_from([2, 8, 64]))
    start = data.draw(st.sampled_from([0, 3]))
    layout = data.draw(tile_layouts([extent]))
    pair = data.draw(tile_layouts([2]))

    def build(b: LayoutBuilder, x: Value) -> Sequence[Value]:
        two = b(shape.join, x, b(arith.neg, x), layout=pair)
        return [
            b(shape.arange, start=start, end=start + extent, layout=layout),
            b(shape.splat, x, shape=(extent,), layout=layout),
            b(arith.const, value=5, result=laid([extent], I32, layout)),
            two,
        ]

    check(build, [I32], [np.int32(7)])


def test_pairs_of_scalars() -> None:
    pair = LinearLayout.of({"register": [[1]], "lane": [[0]] * LANES, "warp": [[0]] * WARPS}, [2])

    def build(b: LayoutBuilder, x: Value) -> Sequence[Value]:
        return b.op(shape.split, b(shape.join, x, b(arith.neg, x), layout=pair)).results

    check(build, [I32], [np.int32(7)])


# -- reductions and scans


def region(*elements: Scalar, body: Callable[..., Sequence[Value]]) -> Block:
    block = Block([*elements, *elements])
    b = LayoutBuilder(block)
    b.op(control.yield_, *body(b, *block.args))
    return block


def by_region(b: LayoutBuilder, defn: Any, xs: Sequence[Value], block: Block, **more: Any) -> Any:
    """A reduction or scan, with layouts by rule."""
    return b.op(defn, *xs, regions=[block], **more).results


def _added() -> Block:
    return region(I32, body=lambda b, x, y: [b(arith.add, x, y)])


def _branching() -> Block:
    """The greater, told by an `if`."""

    def body(b: LayoutBuilder, x: Value, y: Value) -> Sequence[Value]:
        arms = []
        for value in (x, y):
            arm = Block()
            LayoutBuilder(arm).op(control.yield_, value)
            arms.append(arm)
        greater = b(arith.cmp, x, y, predicate=arith.Predicate.GT)
        return b.op(control.if_, greater, regions=arms).results

    return region(I32, body=body)


def _affine() -> Block:
    """X -> a*x + b after one another: associative, and not commutative."""

    def body(b: LayoutBuilder, *values: Value) -> Sequence[Value]:
        a0, b0, a1, b1 = values
        scale = b(arith.mul, a0, a1)
        return [scale, b(arith.add, b(arith.mul, a1, b0), b1)]

    return region(I32, I32, body=body)


def _least() -> Block:
    """The least number and the first place where it is."""

    def body(b: LayoutBuilder, *values: Value) -> Sequence[Value]:
        x, i, y, j = values
        less = b(arith.cmp, x, y, predicate=arith.Predicate.LT)
        same = b(arith.cmp, x, y, predicate=arith.Predicate.EQ)
        before = b(arith.cmp, i, j, predicate=arith.Predicate.LT)
        first = b(arith.or_, less, b(arith.and_, same, before))
        return [b(arith.select, first, x, y), b(arith.select, first, i, j)]

    return region(I32, I32, body=body)


@st.composite
def axis_layouts(draw: Any, ordered: bool) -> tuple[LinearLayout, int]:
    """A layout whose warps lie along other axes than one; and that, counted from the right."""
    extents = draw(shapes)
    axis = draw(st.integers(0, len(extents) - 1))
    outs = named(extents)
    lowest = bit_positions(outs)[f"dim{axis}"]
    bits = dict(outs)[f"dim{axis}"]
    along = [1 << lowest + bit for bit in range(bits)]
    other = draw(
        st.permutations(
            [1 << bit for bit in range(sum(b for _, b in outs)) if 1 << bit not in along]
        )
    )
    in_lanes = draw(st.integers(0, min(LANES, bits)))
    in_registers = along[: bits - in_lanes]
    lanes: list[Any] = along[bits - in_lanes :]
    more = draw(st.integers(0, min(LANES - in_lanes, len(other))))
    lane_others = list(other[:more]) + [0] * (LANES - in_lanes - more)
    other = other[more:]
    taken = draw(st.integers(0, min(WARPS, len(other))))
    warps = list(other[:taken]) + [0] * (WARPS - taken)
    registers = list(other[taken:])
    lanes = merged(draw, lanes, lane_others)
    registers = merged(draw, in_registers, registers)
    if not ordered:
        lanes, registers = draw(st.permutations(lanes)), draw(st.permutations(registers))
    ins = (("register", tuple(registers)), ("lane", tuple(lanes)), ("warp", tuple(warps)))
    return LinearLayout(ins, outs), axis - len(extents)


def merged(draw: Any, xs: list[int], ys: list[int]) -> list[int]:
    """Both lists in one, each in its order."""
    which = draw(st.permutations([0] * len(xs) + [1] * len(ys)))
    sources = (iter(xs), iter(ys))
    return [next(sources[i]) for i in which]


@settings(max_examples=80, deadline=None)
@given(axis_layouts(ordered=False), st.sampled_from([_added, _branching]), st.data())
def test_reductions(case: tuple[LinearLayout, int], body: Callable[[], Block], data: Any) -> None:
    layout, axis = case
    x = laid(layout.shape, I32, layout)

    def build(b: LayoutBuilder, x: Value) -> Sequence[Value]:
        return by_region(b, reduce.reduce_region, [x], body(), axis=axis)

    check(build, [x], [numbers(data.draw, x)])


@few
@given(axis_layouts(ordered=False), st.data())
def test_reductions_of_groups(case: tuple[LinearLayout, int], data: Any) -> None:
    layout, axis = case
    x = laid(layout.shape, I32, layout)

    def build(b: LayoutBuilder, x: Value, i: Value) -> Sequence[Value]:
        return by_region(b, reduce.reduce_region, [x, i], _least(), axis=axis)

    coordinates = np.indices(layout.shape)[axis].astype(np.int32)
    check(build, [x, x], [numbers(data.draw, x) // 20, coordinates])


@settings(max_examples=80, deadline=None)
@given(axis_layouts(ordered=True), st.booleans(), st.data())
def test_scans(case: tuple[LinearLayout, int], reverse: bool, data: Any) -> None:
    layout, axis = case
    x = laid(layout.shape, I32, layout)

    def build(b: LayoutBuilder, x: Value, y: Value) -> Sequence[Value]:
        return by_region(b, reduce.scan_region, [x, y], _affine(), axis=axis, reverse=reverse)

    check(build, [x, x], [numbers(data.draw, x), numbers(data.draw, x)])


def test_a_reduction_across_warps_is_refused() -> None:
    layout = LinearLayout.of({"register": [], "lane": [[1], [2], [4]], "warp": [[8], [16]]}, [32])
    module, _ = module_of(
        lambda b, x: by_region(b, reduce.reduce_region, [x], _added(), axis=-1),
        laid([32], I32, layout),
    )
    with pytest.raises(CompilationError, match="combines elements of different warps"):
        distribute(module, target=SMALL, num_warps=4)


def test_a_scan_out_of_order_is_refused() -> None:
    layout = LinearLayout.of(
        {"register": [[4], [2]], "lane": [[1], [0], [0]], "warp": [[0], [0]]}, [8]
    )
    module, _ = module_of(
        lambda b, x: by_region(b, reduce.scan_region, [x], _added(), axis=-1),
        laid([8], I32, layout),
    )
    with pytest.raises(CompilationError, match="count along the axis"):
        distribute(module, target=SMALL, num_warps=4)


# -- shared memory


@st.composite
def buffers(draw: Any, extents: Sequence[int], element: Scalar) -> Shared:
    """A buffer of any layout."""
    outs = named(extents)
    total = sum(bits for _, bits in outs)
    columns = draw(
        st.one_of(
            st.just([1 << bit for bit in range(total)]),
            st.builds(lambda data: data, st.permutations([1 << bit for bit in range(total)])),
        )
    )
    if draw(st.booleans()):
        columns = invertible(draw, total)
    return Shared(tuple(extents), element, LinearLayout((("offset", tuple(columns)),), outs))


@settings(max_examples=80, deadline=None)
@given(shapes, dtypes, st.data())
def test_tiles_through_shared_memory(extents: list[int], element: Scalar, data: Any) -> None:
    buffer = data.draw(buffers(extents, element))
    src, dst = data.draw(tile_layouts(extents)), data.draw(tile_layouts(extents))
    mask = tuple(data.draw(st.integers(0, extent - 1)) for extent in extents)
    x = laid(extents, element, src)

    def build(b: LayoutBuilder, x: Value) -> Sequence[Value]:
        mem = b(ops.shared.local_alloc, result=buffer)
        b.op(ops.shared.local_store, mem, x)
        b.op(memory.barrier)
        ty = laid(extents, element, dst)
        plain = b(ops.shared.local_load, mem, result=ty)
        return [plain, b(ops.shared.local_load, mem, result=ty, mask=mask)]

    module, types = module_of(build, x)
    tile = numbers(data.draw, x)
    (plain, masked), _ = threads_of(module, types, [tile])
    np.testing.assert_array_equal(plain, tile)
    for axis, bits in enumerate(mask):
        tile = np.take(tile, np.arange(extents[axis]) ^ bits, axis)
    np.testing.assert_array_equal(masked, tile)


@few
@given(shapes, st.sampled_from([I32, I64]), st.data())
def test_gathers(extents: list[int], integer: Scalar, data: Any) -> None:
    axis = data.draw(st.integers(-len(extents), -1))
    buffer = data.draw(buffers(extents, I16))
    src = data.draw(tile_layouts(extents))
    wanted = list(extents)
    wanted[axis] = data.draw(st.sampled_from([1, 4, 16]))
    dst = data.draw(tile_layouts(wanted))

    def build(b: LayoutBuilder, x: Value, i: Value) -> Sequence[Value]:
        mem = b(ops.shared.local_alloc, result=buffer)
        b.op(ops.shared.local_store, mem, x)
        b.op(memory.barrier)
        return [b(ops.shared.local_gather, mem, i, axis=axis)]

    x, i = laid(extents, I16, src), laid(wanted, integer, dst)
    module, types = module_of(build, x, i)
    tile = numbers(data.draw, x)
    # Positions outside are undefined, and must not lead outside of the buffer.
    index = numbers(data.draw, i) - 50
    inside = index % extents[axis]
    (actual,), _ = threads_of(module, types, [tile, index])
    np.testing.assert_array_equal(actual, np.take_along_axis(tile, inside.astype(int), axis))


@few
@given(st.data())
def test_counts(data: Any) -> None:
    layout, out = data.draw(tile_layouts([32])), data.draw(tile_layouts([8]))
    buffer = data.draw(buffers([8], I32))
    i, c = laid([32], I32, layout), laid([32], I1, layout)

    def build(b: LayoutBuilder, i: Value, c: Value) -> Sequence[Value]:
        mem = b(ops.shared.local_alloc, result=buffer)
        b.op(ops.shared.local_atomic_inc, mem, i, c)
        b.op(memory.barrier)
        return [b(ops.shared.local_load, mem, result=laid([8], I32, out))]

    module, types = module_of(build, i, c)
    index, mask = numbers(data.draw, i) % 8, numbers(data.draw, c)
    (actual,), _ = threads_of(module, types, [index, mask])
    np.testing.assert_array_equal(actual, np.bincount(index[mask], minlength=8))


# -- global memory


def pointers(b: LayoutBuilder, p: Value, layout: LinearLayout) -> tuple[Value, Value]:
    """The places of a tile in row-major order from a pointer on, and their numbers."""
    extents = layout.shape
    count = int(np.prod(extents))
    flat = b(shape.arange, start=0, end=count, layout=reshape_axes(layout, [count]))
    number = b(shape.reshape, flat, shape=extents)
    base = b(shape.splat, p, shape=extents, layout=layout)
    pointee = p.type.element
    assert isinstance(pointee, Pointer)
    return b(memory.addptr, base, number, stride=pointee.pointee.itemsize), number


@settings(max_examples=60, deadline=None)
@given(shapes, st.sampled_from([I8, I16, I32, I64]), st.sampled_from([1, 4, 16]), st.data())
def test_vectors(extents: list[int], element: Scalar, divisible: int, data: Any) -> None:
    """Loads and stores go in vectors as wide as layout, alignment and masks allow, and no wider."""
    layout = data.draw(tile_layouts(extents))
    bound = data.draw(st.sampled_from([0, 5, 8, 16, 500]))
    count = int(np.prod(extents))

    def build(b: LayoutBuilder, p: Value, q: Value) -> Sequence[Value]:
        ptr, number = pointers(b, p, layout)
        limit = b(arith.const, value=bound, result=number.type)
        mask = b(arith.cmp, number, limit, predicate=arith.Predicate.LT)
        other = b(arith.const, value=3, result=laid(extents, element, layout))
        x = b(memory.load, ptr, mask, other)
        b.op(memory.store, pointers(b, q, layout)[0], x)
        b.op(memory.store, ptr, x, mask)
        return [x]

    ty = Pointer(element)
    module, types = module_of(build, ty, ty)
    for argument in module["f"].arguments:
        argument.divisible = divisible * element.itemsize
    size = numpy_dtype(element).itemsize
    store = np.zeros(2 * count * size + 16 * 16, np.uint8)
    start = divisible * size
    second = start + -(-count * size // start) * start
    flat = np.random.default_rng(0).integers(0, 100, count).astype(numpy_dtype(element))
    store[start : start + count * size] = flat.view(np.uint8)
    addresses = [np.int64(start), np.int64(second)]
    (x,), _ = threads_of(module, types, addresses, memory=store)
    wanted = np.where(np.arange(count) < bound, flat, 3).astype(flat.dtype)
    np.testing.assert_array_equal(x.reshape(-1), wanted)
    np.testing.assert_array_equal(store[second : second + count * size].view(flat.dtype), wanted)


def _copy(layout: LinearLayout, divisible: int, bound: int) -> list[int]:
    """The vectors of a masked load and a store of a row of f32."""
    extent = layout.shape[0]

    def build(b: LayoutBuilder, p: Value) -> Sequence[Value]:
        ptr, number = pointers(b, p, layout)
        limit = b(arith.const, value=bound, result=number.type)
        mask = b(arith.cmp, number, limit, predicate=arith.Predicate.LT)
        x = b(memory.load, ptr, mask)
        b.op(memory.store, ptr, x)
        return []

    module, _ = module_of(build, Pointer(F32))
    module["f"].arguments[0].divisible = divisible
    distribute(module, target=SMALL, num_warps=1 << WARPS)
    assert extent > 0
    return [op["vector"] for op in module.walk() if op.defn in (memory.load, memory.store)]


ROW = LinearLayout.of(
    {"register": [[64], [1], [2], [4]], "lane": [[8], [16], [32]], "warp": [[0], [0]]}, [128]
)

ROW_OF_32 = LinearLayout.of(
    {"register": [[1], [2]], "lane": [[4], [8], [16]], "warp": [[0], [0]]}, [32]
)


@pytest.mark.parametrize(
    ("divisible", "bound", "vectors"),
    [(16, 96, [4, 4]), (16, 98, [2, 4]), (8, 96, [2, 2]), (4, 96, [1, 1]), (64, 97, [1, 4])],
)
def test_how_wide_vectors_are(divisible: int, bound: int, vectors: list[int]) -> None:
    assert _copy(ROW, divisible, bound) == vectors


def test_elements_of_adjacent_registers_in_other_lanes_make_no_vectors() -> None:
    layout = LinearLayout.of(
        {"register": [[2], [4]], "lane": [[1], [8], [16]], "warp": [[0], [0]]}, [32]
    )
    assert _copy(layout, 16, 32) == [1, 1]


def test_conversions_preserve_the_facts_about_pointers() -> None:
    src = LinearLayout.of(
        {"register": [[1], [16]], "lane": [[2], [4], [8]], "warp": [[0], [0]]}, [32]
    )

    def build(b: LayoutBuilder, p: Value) -> Sequence[Value]:
        ptr = b.convert(pointers(b, p, src)[0], ROW_OF_32)
        return [b(memory.load, ptr)]

    module, types = module_of(build, Pointer(I32))
    module["f"].arguments[0].divisible = 16
    tile = np.arange(32, dtype=np.int32)
    (actual,), threads = threads_of(module, types, [np.int64(0)], memory=tile.view(np.uint8))
    np.testing.assert_array_equal(actual, tile)
    (load,) = calls(threads, memory.load)
    assert load["vector"] == 4


@few
@given(st.sampled_from([I16, I32]), st.data())
def test_asynchronous_copies(element: Scalar, data: Any) -> None:
    extents = [8, 16]
    layout = LinearLayout.of(
        {
            "register": data.draw(st.permutations([[0, 1], [0, 2], [1, 0]])),
            "lane": [[0, 4], [0, 8], [0, 0]],
            "warp": [[2, 0], [4, 0]],
        },
        extents,
    )
    swizzle = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 4], [2, 8], [4, 0]]
    shared = LinearLayout.of({"offset": swizzle}, extents)
    bound = data.draw(st.sampled_from([64, 68, 128]))
    result = data.draw(tile_layouts(extents))

    def build(b: LayoutBuilder, p: Value) -> Sequence[Value]:
        ptr, number = pointers(b, p, layout)
        limit = b(arith.const, value=bound, result=number.type)
        mask = b(arith.cmp, number, limit, predicate=arith.Predicate.LT)
        mem = b(ops.shared.local_alloc, result=Shared(tuple(extents), element, shared))
        b.op(ops.shared.local_cp_async, mem, ptr, mask)
        b.op(memory.barrier)
        return [b(ops.shared.local_load, mem, result=laid(extents, element, result))]

    module, types = module_of(build, Pointer(element))
    module["f"].arguments[0].divisible = 16
    flat = np.random.default_rng(0).integers(0, 100, 128).astype(numpy_dtype(element))
    store = np.concatenate([np.zeros(16, np.uint8), flat.view(np.uint8)])
    (actual,), threads = threads_of(module, types, [np.int64(16)], memory=store)
    np.testing.assert_array_equal(actual.reshape(-1), np.where(np.arange(128) < bound, flat, 0))
    (copy,) = calls(threads, ops.thread.shared_cp_async)
    assert copy["vector"] == 4


@pytest.mark.parametrize("bound", [None, 9])
def test_copies_that_the_machine_does_not_make_are_stores(bound: int | None) -> None:
    layout = LinearLayout.of({"register": [], "lane": [[1], [2], [4]], "warp": [[8], [0]]}, [16])
    shared = LinearLayout.of({"offset": [[1], [2], [4], [8]]}, [16])

    def build(b: LayoutBuilder, p: Value) -> Sequence[Value]:
        mem = b(ops.shared.local_alloc, result=Shared((16,), I16, shared))
        ptr, number = pointers(b, p, layout)
        mask = None
        if bound is not None:
            limit = b(arith.const, value=bound, result=number.type)
            mask = b(arith.cmp, number, limit, predicate=arith.Predicate.LT)
        b.op(ops.shared.local_cp_async, mem, ptr, mask)
        b.op(memory.barrier)
        return [b(ops.shared.local_load, mem, result=laid([16], I16, layout))]

    module, types = module_of(build, Pointer(I16))
    flat = np.arange(16, dtype=np.int16)
    (actual,), threads = threads_of(module, types, [np.int64(0)], memory=flat.view(np.uint8))
    np.testing.assert_array_equal(actual, np.where(flat < (bound or 16), flat, 0))
    assert not calls(threads, ops.thread.shared_cp_async)


# -- dots


@few
@given(st.sampled_from([[8, 4], [16, 8], [2, 8, 8]]), st.sampled_from([1, 2, 8]), st.data())
def test_dots_of_threads(extents: list[int], k: int, data: Any) -> None:
    acc = data.draw(tile_layouts(extents, plain=True))
    left, right = fma_operand_layouts(acc, k)
    types = [
        laid([*extents[:-1], k], U8, left),
        laid([*extents[:-2], k, extents[-1]], U8, right),
        laid(extents, I32, acc),
    ]
    tiles = [numbers(data.draw, ty) for ty in types]
    check(lambda b, *xs: [b(dot.dot, *xs)], types, tiles)


@pytest.mark.parametrize("warps", [(1, 4), (2, 2), (4, 1)])
@pytest.mark.parametrize("sizes", [(32, 32, 32), (64, 16, 16), (16, 64, 64)])
def test_dots_of_warps(warps: tuple[int, int], sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    instruction = MmaShape(16, 8, 16, 16)
    extents = [(m, k), (k, n), (m, n)]
    types = [
        laid(shape_, element, matrix_layout(shape_, instruction, operand, warps))
        for shape_, element, operand in zip(extents, (F16, F16, F32), Operand, strict=True)
    ]
    random = np.random.default_rng(0)
    tiles = [random.integers(-4, 4, ty.shape).astype(numpy_dtype(ty.of)) for ty in types]

    def build(b: LayoutBuilder, *xs: Value) -> Sequence[Value]:
        return [b(ops.mma.mma_dot, *xs, shape=tuple(instruction), warps=warps)]

    check(build, types, tiles, target=MMA, warps=4)


# -- what is refused


def test_tiles_too_large_for_the_machine() -> None:
    layout = blocked([256, 512], [1, 4], [1, 32], [2, 1])
    function = Function("f", [F32], ["x"])
    b = LayoutBuilder(function.body, loc=Loc("k.py", 12))
    x = b(shape.splat, function.args[0], shape=(256, 512), layout=layout)
    x.name = "big"
    b(arith.neg, x)
    b.op(control.return_)
    with pytest.raises(OutOfResourcesError) as caught:
        distribute(Module([function]), target=GENERIC, num_warps=2)
    error = caught.value
    assert error.loc == Loc("k.py", 12)
    assert "`big` of 256x512 f32 takes 2048 registers of 32 bits in each thread" in error.message
    assert "with num_warps = 32 instead of 2 it is 128" in error.message
    assert [note.endswith("2048 registers a thread") for note in error.notes] == [True, True]


@pytest.mark.parametrize("target", [WGMMA, MMA], ids=str)
def test_accumulators_of_more_registers_than_a_thread_has(target: SimtTarget) -> None:
    """They spill, as other tiles do, up to the limit of these."""

    def module(m: int, n: int) -> Module:
        k = 16
        function = Function("f", [I1], ["x"])
        b = Builder(function.body, loc=Loc("k.py", 12))
        x, y = (b(arith.const, value=1.0, result=Tile(s, F16)) for s in ((m, k), (k, n)))
        result = b(dot.dot, x, y, b(arith.const, value=1.0, result=Tile((m, n), F32)))
        b.op(control.return_, result)
        return Module([function])

    lower(module(128, 256), target, num_warps=4)
    with pytest.raises(OutOfResourcesError) as caught:
        lower(module(1024, 256), target, num_warps=4)
    error = caught.value
    assert error.loc == Loc("k.py", 12)
    assert "takes 2048 registers of 32 bits in each thread" in error.message
    assert "255, and a tile may take up to 2040" in error.message
    assert "with the most warps, 32, that is still too much" in error.message


def test_what_threads_cannot_do_is_named() -> None:
    layout = LinearLayout.of({"register": [], "lane": [[1], [2], [4]], "warp": [[0], [0]]}, [8])
    module, _ = module_of(lambda b, x: [b(shape.flip, x, axis=-1)], laid([8], F32, layout))
    with pytest.raises(CompilationError, match="`flip` has no lowering to threads"):
        distribute(module, target=SMALL, num_warps=4)
