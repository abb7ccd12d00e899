"""Users of a loaded tile that read it from its buffer in shared memory, instead of from registers.

A tile in shared memory can be read in any layout. So a layout conversion of the tile goes away, and
so does one after operations that are cheap in any layout. wgmma reads the buffer itself, also as a
transposed or reshaped view.

    %x = load %p : tile<.., #load>          %x = local_load %s : tile<.., #m>
    %y = trans %x : tile<.., #t>            %z = trans %x : tile<.., #dot>
    %z = convert_layout %y : tile<.., #dot>

    %x = load %p                            %v = local_trans %s {order = (1, 0)}
    %y = trans %x {order = (1, 0)}          %r = wgmma %a, %v, %acc
    %r = wgmma %a, %y, %acc
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from tile.ir.core import Block, Operation, Value
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import arith, shape
from tile.ir.ops.dot import is_multiplied
from tile.ir.shared_type import shared_of
from tile.ir.types import Tile, with_layout
from tile.simt.hopper.tma_boxes import MAX_BOX
from tile.simt.hopper.wgmma_layouts import wgmma_buffer_layout
from tile.simt.layouts.blocked import grid_of, row_major
from tile.simt.layouts.dims import OFFSET, unpack
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import Operand
from tile.simt.ops import shared, wgmma
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of, operand_layout
from tile.simt.schedule.dot_slices import sliced_load_layout
from tile.simt.target import SimtTarget

# Operations that cost the same in any layout.
CHEAP_IN_ANY_LAYOUT = frozenset(
    {shape.trans, shape.reshape, shape.expand_dims, arith.cast, arith.bitcast, arith.hint}
)
# Operations that relabel a tile, and those that relabel a buffer in the same way.
_VIEWS = {shape.trans: shared.local_trans, shape.reshape: shared.local_reshape}
_SAME = {defn: defn for defn in CHEAP_IN_ANY_LAYOUT}


@dataclass(frozen=True)
class Reader:
    """Operand number `index` of an operation that uses a tile after the operations `between`."""

    op: Operation
    index: int
    between: tuple[Operation, ...] = ()

    @property
    def tile(self) -> Tile:
        """The type of the operand."""
        ty = self.op.inputs[self.index].type
        assert isinstance(ty, Tile)
        return ty

    @property
    def is_wgmma_operand(self) -> bool:
        return self.op.has_trait(Trait.IN_FLIGHT) and is_multiplied(self.op, self.index)

    def before(self, layout: LinearLayout) -> LinearLayout:
        """Return the layout of the tile for which the operand has some layout."""
        for op in reversed(self.between):
            layout = operand_layout(op, layout)
        return layout

    @property
    def columns_axis(self) -> int | None:
        """The axis of the tile that the columns of the operand are; None if they are none."""
        extents = self.tile.dims
        tile = self.before(grid_of(OFFSET, extents, row_major(len(extents))))
        columns = tile.bases(OFFSET)[: extents[-1].bit_length() - 1]
        axes = {axis for basis in columns for axis, step in enumerate(basis) if step}
        same = [axis for axis in axes if len(axes) == 1 and tile.shape[axis] == extents[-1]]
        return next(iter(same), None)

    def use(self, value: Value, defns: Mapping[OpDef, OpDef]) -> Value:
        """Return what stands for the operand if `value` stands for the tile.

        defns: the operations on `value` that stand for those between.
        """
        if self.between:
            build = LayoutBuilder.before(self.between[-1])
            for op in self.between:
                with build.at(op.loc):
                    value = build(defns[op.defn], value, **op.attributes)
                value.name = op.result.name
        return value

    def erase_between(self) -> None:
        """Erase the operations between, unless they have other users."""
        for op in reversed(self.between):
            if not op.result.uses:
                op.erase()


def _readers(value: Value, through: Collection[OpDef], *, nested: bool = False) -> Iterator[Reader]:
    """Yield the uses of a tile in its block, after operations of some kinds.

    nested: True for those in nested blocks, too.
    """
    for user, index in list(value.uses):
        if user.block is not value.block and not nested:
            continue
        if user.defn in through:
            for later in _readers(user.result, through, nested=nested):
                yield replace(later, between=(user, *later.between))
        else:
            yield Reader(user, index)


# -- conversions


def conversions(value: Value) -> list[Reader]:
    """Return the layout conversions of a tile, in order of use."""
    return [each for each in _readers(value, _SAME) if each.op.defn is convert_layout]


def converted_layout(reader: Reader) -> LinearLayout:
    """Return the layout of a tile for a conversion of all of it."""
    return reader.before(layout_of(reader.op.result))


def read_layouts(readers: Iterable[Reader], target: SimtTarget) -> tuple[LinearLayout, ...]:
    """Return the layouts in which a tile is read for conversions: whole, or slice by slice."""
    sliced = {reader: sliced_load_layout(reader.op, target) for reader in readers}
    return tuple(
        converted_layout(reader) if layout is None else reader.before(layout)
        for reader, layout in sliced.items()
    )


# -- wgmma


def dot_operands(value: Value) -> list[Reader]:
    """Return the wgmma operands that a tile is used as, relabeled or as it is."""
    return [each for each in _readers(value, _VIEWS) if each.is_wgmma_operand]


def nested_operands(value: Value) -> list[Reader]:
    """Return the wgmma operands that a tile is used as, in its block and in nested ones.

    None of them if it has other uses.
    """
    readers = list(_readers(value, _VIEWS, nested=True))
    return readers if all(each.is_wgmma_operand for each in readers) else []


def used_extents(value: Value) -> tuple[int, ...]:
    """Return the extents of the part of a tile that wgmmas use; empty if that may be all.

    They may use fewer columns than their right operand has.
    """
    extents, readers = list(value.type.shape), nested_operands(value)
    axes = {each.columns_axis for each in readers}
    columns = max([each.op["columns"] if each.index else 0 for each in readers], default=0)
    if len(axes) != 1 or not all(each.index and each.op["columns"] for each in readers):
        return ()
    (axis,) = axes
    if axis is None or columns > MAX_BOX or set(extents[:-2]) - {1}:
        return ()
    extents[axis] = min(columns, extents[axis])
    return tuple(extents)


def register_operand_dots(value: Value) -> frozenset[Operation]:
    """Return the wgmmas that take a tile as `a` from registers, if nothing else uses it."""
    uses = [use for reader in conversions(value) for use in reader.op.result.uses]
    dots = [op for op, index in uses if op.has_trait(Trait.IN_FLIGHT) and index == 0]
    return frozenset(dots) if len(dots) == len(uses) else frozenset()


def operand_uses(readers: Iterable[Reader]) -> set[tuple[Operation, int]]:
    """Return wgmmas, each with the index of the operand that it reads."""
    return {(each.op, each.index) for each in readers}


def operand_buffer_layout(operands: Iterable[Reader], major: int) -> LinearLayout | None:
    """Return the layout of a buffer from which the first possible wgmma can read a tile.

    None if no wgmma can. major: the axis along which the buffer's elements are contiguous.
    """
    layouts = (_contiguous_along(_buffer_layouts(operand), major) for operand in operands)
    return next((layout for layout in layouts if layout is not None), None)


def readable_from(operands: Iterable[Reader], layout: LinearLayout) -> list[Reader]:
    """Return the operands that wgmmas can read from a buffer of the tile in a layout."""
    axes = range(len(layout.outs))
    readable = []
    for operand in operands:
        layouts = list(_buffer_layouts(operand))
        if any(_contiguous_along(layouts, axis) == layout for axis in axes):
            readable.append(operand)
    return readable


def _buffer_layouts(reader: Reader) -> Iterator[LinearLayout]:
    """Yield the layouts of a buffer for a wgmma operand, by the axis along which it is contiguous.

    They are layouts of the tile.
    """
    operand = (Operand.LEFT, Operand.RIGHT)[reader.index]
    for along in (0, 1):
        layout = wgmma_buffer_layout(reader.op, operand, reader.tile, along)
        if layout is not None:
            yield reader.before(layout)


def _contiguous_along(layouts: Iterable[LinearLayout], major: int) -> LinearLayout | None:
    """Return the first layout whose elements are contiguous along an axis; None without one."""
    return next((x for x in layouts if unpack(x.images(OFFSET)[0], x.outs)[major]), None)


# -- the readers of a stage


def stage_readers(stage: Value) -> Iterator[Operation]:
    """Yield the operations that read a stage of a buffer, through views of it."""
    for op in stage.users:
        if op.defn in shared.VIEWS:
            yield from stage_readers(op.result)
        else:
            yield op


def ops_in_body(body: Block, ops: Iterable[Operation]) -> list[Operation]:
    """Return the operations of a body that are some, or contain them, in order."""
    within = {op.within(body) for op in ops}
    return [op for op in body if op in within]


def last_read(body: Block, readers: Iterable[Operation]) -> Operation:
    """Return the operation of a body after which `readers` have read: a wgmma's wait for it."""
    ops = [*readers]
    dots = [op for op in ops if op.defn is wgmma.wgmma]
    waits = chain.from_iterable(dot.result.users for dot in dots)
    return ops_in_body(body, [*ops, *waits])[-1]


# -- replacement


def read_from_buffer(load: Operation, stage: Value) -> None:
    """Make the users of a load read a stage of its buffer: one local load for each layout.

    A wgmma that can read the buffer itself gets the buffer.
    """
    value, ty = load.result, shared_of(stage.type)
    assert isinstance(ty.layout, LinearLayout)
    operands = nested_operands(value) or dot_operands(value)
    for reader in readable_from(operands, ty.layout):
        reader.op.set_operand(reader.index, reader.use(stage, _VIEWS))
        reader.erase_between()
    build = LayoutBuilder.before(load)
    tiles: dict[LinearLayout, Value] = {}

    def read(layout: LinearLayout) -> Value:
        if layout not in tiles:
            tiles[layout] = build(shared.local_load, stage, result=with_layout(value.type, layout))
            tiles[layout].name = value.name
        return tiles[layout]

    for reader in conversions(value):
        tile = read(converted_layout(reader))
        reader.op.replace_by([reader.use(tile, _SAME)])
        reader.erase_between()
    if value.uses:
        value.replace_by(read(layout_of(value)))
