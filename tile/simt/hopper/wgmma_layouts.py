"""Select the wgmma instructions of a dot, and the shared-memory layouts of their operands.

Warpgroups share the rows first: then each has whole rows, and values computed from them can be the
`a` operand of another dot, in the same registers. An instruction is as wide as a warpgroup's share
of the columns.

wgmma accepts 16-bit operands in either major order; other operands must be K-major. An MN-major
operand of these is transposed by threads: each takes a block of it, and stores that K-major.

A wgmma reads a tile of an operand: of the rows m or columns n, and of k. Along one of the axes, 32,
64 or 128 bytes of elements are contiguous; such a *row* is followed by the next along the other
axis, with its vectors of 16 bytes permuted by XOR (`byte_swizzled`). Where the tile is wider than a
row, it is divided into *strips* of the width of a row, which follow each other.

    >>> layout = operand_layout_in_shared((64, 64), 16, along=1, extent=64)
    >>> strips_of(layout, 16)
    OperandStrips(along=1, row_bytes=128, bytes=8192, element_bits=16)
    >>> strips_of(layout, 16).offset_of(row=3, column=16)
    416

**Staging**, a part of `expose-shared`, stores operands in shared memory (`stage_wgmma_operands`):

    %r = wgmma %a, %b, %acc {...}         %m = local_alloc : shared<64x64xf16, #a>
                                              local_store %m, %a
                                              ..
                                              %r = wgmma %m, %n, %acc {...}

A tile is stored where it is computed, once for all wgmmas that read it in one layout: a
loop-invariant operand is stored in front of the loop. An `a` operand that has the register layout
of the instruction, and is computed in the same iteration, stays in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from tile.errors import CompilationError
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import Trait
from tile.ir.shared_type import Shared
from tile.ir.types import F32, Pointer, Precision, Scalar, Tile
from tile.simt import ops
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import LANE, REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_layout
from tile.simt.layouts.swizzle import byte_swizzled
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.ops.wgmma import WARPGROUP_WARPS
from tile.simt.target import SimtTarget

ROW_BYTES = (128, 64, 32)
# The element widths, in bits, that wgmma accepts MN-major as well as K-major.
MN_MAJOR_BITS = frozenset({16})
# Those of `a` operands that threads load to the instruction's registers from an MN-major buffer. In
# other widths, a register has several elements along k.
REGISTER_OPERAND_BITS = frozenset({32})
ROWS = 8  # the period of the swizzle


@dataclass(frozen=True)
class OperandStrips:
    """An operand with rows of `row_bytes` along the axis `along`, in strips of `bytes` bytes.

    `element_bits` are those of an element in memory.
    """

    along: int
    row_bytes: int
    bytes: int
    element_bits: int

    def offset_of(self, row: int, column: int) -> int:
        """Return the byte offset of the element (row, column) before swizzling.

        At multiples of a 16-byte vector and of 8 rows this is the start address for an
        instruction's matrix descriptor: the hardware swizzles by address bits itself.
        """
        across, inside = (row, column) if self.along == 1 else (column, row)
        strip, byte = divmod(inside * self.element_bits // 8, self.row_bytes)
        return strip * self.bytes + across * self.row_bytes + byte


def row_bytes(extent: int, element_bits: int) -> int | None:
    """Return the widest row for `extent` elements; None if they are too narrow for any."""
    return next((width for width in ROW_BYTES if width * 8 <= extent * element_bits), None)


@lru_cache(maxsize=1024)
def operand_layout_in_shared(
    shape: Sequence[int], element_bits: int, along: int, extent: int
) -> LinearLayout | None:
    """Return the layout of an operand that is contiguous along an axis in memory.

    An instruction takes at least `extent` elements along it. None if that is less than a row.
    """
    width = row_bytes(extent, element_bits)
    if width is None or shape[1 - along] < ROWS:
        return None
    return byte_swizzled(shape, element_bits, width, (along, 1 - along))


@lru_cache(maxsize=1024)
def strips_of(layout: LinearLayout, element_bits: int) -> OperandStrips | None:
    """Return a layout of rank 2 as strips; None if it is not an `operand_layout_in_shared`."""
    for along in (0, 1):
        for width in ROW_BYTES:
            extent = width * 8 // element_bits
            if layout.shape[along] < extent:
                continue
            if operand_layout_in_shared(tuple(layout.shape), element_bits, along, extent) == layout:
                return OperandStrips(along, width, layout.shape[1 - along] * width, element_bits)
    return None


WGMMA_ROWS, _COLUMNS = 64, 256  # of an instruction, at most
_WORD, _VECTOR = 32, 128  # bits per thread of one load across, and of one store along k
_BLOCK = 4  # elements across of a block, for elements of 4 bytes and more

cached_matrix_layout = lru_cache(maxsize=1024)(matrix_layout)


def wgmma_instruction(
    op: Operation,
    target: SimtTarget,
    num_warps: int,
    warp_rows: int = 0,
    operand_element: Scalar | None = None,
    *,
    transposed: bool = False,
) -> tuple[MmaShape, tuple[int, int]] | None:
    """Return the wgmma instruction for a `dot`, and how many warpgroups share its rows and columns.

    None if no instruction fits. With `warp_rows`, that many warps share the rows. With
    `operand_element`, operands are taken to be of that element. With `transposed`, the instruction
    is the one for the transpose of the dot.
    """
    a, acc = op.inputs[0].type, op.inputs[2].type
    element = a.element if operand_element is None else operand_element
    assert isinstance(element, Scalar) and isinstance(acc.element, Scalar)
    if a.rank != 2 or num_warps % WARPGROUP_WARPS:
        return None
    if not target.has_wgmma(element, acc.element) or not _is_exact(op, element, target):
        return None
    (m, n), k = acc.shape[::-1] if transposed else acc.shape, a.shape[1]
    count = num_warps // WARPGROUP_WARPS
    rows = warp_rows // WARPGROUP_WARPS or min(count, max(1, m // WGMMA_ROWS))
    if rows * WGMMA_ROWS > m or count % rows:
        return None
    columns = count // rows
    width = min(_COLUMNS, n // columns)
    fitting = (
        shape
        for shape in target.wgmma_shapes
        if shape.bits == element.bits and shape.n == width and shape.k <= k
    )
    shape = next(fitting, None)
    return None if shape is None else (shape, (rows, columns))


def _is_exact(op: Operation, element: Scalar, target: SimtTarget) -> bool:
    """Return True if wgmma rounds operands and sums no more than the `dot` allows."""
    if element is F32:
        return op["input_precision"] is Precision.TF32
    depth = op.inputs[0].type.shape[1]
    return op["max_num_imprecise_acc"] >= depth or not is_imprecise(element, target)


def is_imprecise(element: Scalar | Pointer, target: SimtTarget) -> bool:
    """Return True if wgmma accumulates products of an element with less precision than f32."""
    return any(element is rough for rough, _ in target.wgmma_accumulator_bits)


def wgmma_buffer_layout(
    dot: Operation, operand: Operand, ty: Tile | Shared, along: int
) -> LinearLayout | None:
    """Return the layout of an operand's buffer, contiguous along an axis; None if unreadable."""
    shape, bits = MmaShape(*dot["shape"]), ty.element.storage_bits
    name = operand.value[along]
    if bits not in MN_MAJOR_BITS and name != "k":
        return None
    extent = ty.shape[along] if name == "k" else getattr(shape, name)
    return operand_layout_in_shared(tuple(ty.shape), bits, along, extent)


def contiguous_axis(layout: LinearLayout) -> int:
    """Return the axis along which a thread's first registers are contiguous; the last if none."""
    first = layout.images(REGISTER)[:1]
    return 0 if first and first[0] >> layout.outs[1][1] else 1


def operand_register_layout(
    dot: Operation, operand: Operand, ty: Tile, anchor: LinearLayout, threads: tuple[int, int]
) -> LinearLayout:
    """Return the layout in which (lanes, warps) hold a wgmma operand with layout `anchor`.

    That is `anchor` itself if a buffer with the same contiguous axis can be read, or if the
    instruction takes it from registers. Else it is a layout where each thread has a block to
    transpose.
    """
    if operand is Operand.LEFT and anchor == a_operand_layout(dot, ty.shape):
        return anchor
    if wgmma_buffer_layout(dot, operand, ty, fastest_axis(anchor)) is not None:
        return anchor
    return _blocks(tuple(ty.shape), operand.value.index("k"), ty.element.storage_bits, *threads)


@lru_cache(maxsize=1024)
def _blocks(
    shape: tuple[int, int], depth_axis: int, bits: int, lanes: int, warps: int
) -> LinearLayout:
    """Return a layout with a block per thread: at least 4 bytes across, up to 16 bytes along k."""
    each = max(1, shape[0] * shape[1] // (lanes * warps))
    across = min(_WORD // bits if bits < _WORD else _BLOCK, each)
    deep = min(_VECTOR // bits, max(1, each // across))
    lanes_deep = min(lanes, max(1, shape[depth_axis] // deep))
    other = 1 - depth_axis

    def sizes(along_k: int, along_other: int) -> list[int]:
        return [along_k if axis == depth_axis else along_other for axis in (0, 1)]

    held, lane = sizes(deep, across), sizes(lanes_deep, lanes // lanes_deep)
    return blocked(shape, held, lane, sizes(1, warps), (depth_axis, other))


def fastest_axis(layout: LinearLayout) -> int:
    """Return the axis along which the next register, or the next lane, holds the next element."""
    units = {1 << layout.outs[1][1]: 0, 1: 1}
    columns = (*layout.images(REGISTER), *layout.images(LANE))
    return next((units[column] for column in columns if column in units), 1)


def stays_in_registers(dot: Operation) -> bool:
    """Return True if the `a` operand of a `wgmma` has the instruction's register layout.

    An operand that was computed in front of a loop goes to shared memory nevertheless: versions of
    ptxas before 13.1 overwrite its registers in the loop (docs/notes/compiler-bugs.md#ptxas).
    """
    value = dot.inputs[0]
    if not isinstance(value.type, Tile) or _precedes_loop(value, dot):
        return False
    return layout_of(value) == a_operand_layout(dot, value.type.shape)


def _precedes_loop(value: Value, user: Operation) -> bool:
    """Return True if a value is computed outside of a loop that contains its user."""
    around = takewhile(lambda op: op is not value.block.parent, user.ancestors())
    return any(op.has_trait(Trait.LOOP) for op in around)


def a_operand_layout(dot: Operation, extents: Sequence[int]) -> LinearLayout:
    """Return the layout in which a `wgmma` takes its `a` operand from registers."""
    shape = MmaShape(*dot["shape"])
    return cached_matrix_layout(tuple(extents), shape, Operand.LEFT, tuple(dot["warpgroups"]))


# Store a tile to a buffer of a layout where a builder is, and return the buffer.
Store = Callable[[LayoutBuilder, Value, LinearLayout], Value]


def stage_wgmma_operands(function: Function) -> None:
    """Replace the tile operands of a function's wgmmas by buffers."""
    dots = [op for op in function.walk() if op.defn is ops.wgmma.wgmma]
    operands = [(op, index) for op in dots for index in staged_operands(op)]
    stage_operands(operands, lambda build, value, layout: build.store(value, layout, value.name))


def stage_operands(operands: Iterable[tuple[Operation, int]], store: Store) -> None:
    """Replace operands of wgmmas, given by their indices, by buffers that `store` makes."""
    buffers: dict[tuple[Value, LinearLayout], Value] = {}
    for op, index in operands:
        value, layout = op.inputs[index], staged_layout(op, index)
        if (value, layout) not in buffers:
            buffers[value, layout] = store(_after(value), value, layout)
        op.set_operand(index, buffers[value, layout])


def staged_operands(op: Operation) -> list[int]:
    """Return the indices of the operands of a `wgmma` that become buffers."""
    in_registers = stays_in_registers(op)
    return [
        index
        for index in (0, 1)
        if isinstance(op.inputs[index].type, Tile) and not (index == 0 and in_registers)
    ]


def staged_layout(op: Operation, index: int) -> LinearLayout:
    """Return the layout of an operand's buffer: contiguous as in threads, if wgmma reads that."""
    value, operand = op.inputs[index], (Operand.LEFT, Operand.RIGHT)[index]
    assert isinstance(value.type, Tile)
    along = contiguous_axis(layout_of(value))
    for axis in (along, 1 - along):
        buffer_layout = wgmma_buffer_layout(op, operand, value.type, axis)
        if buffer_layout is not None:
            return buffer_layout
    raise CompilationError(f"no buffer of {value.type} is read by wgmma", loc=op.loc)


def _after(value: Value) -> LayoutBuilder:
    """Return a builder just after a value is computed."""
    if value.op is not None:
        return LayoutBuilder.after(value.op)
    return LayoutBuilder(value.block, value.block.first)
