"""Loads of matrices: what arrives is what the layout says, from contiguous rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.conversion import through_shared, through_shared_by_ldmatrix
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_layout
from tile.simt.layouts.shared_access import BANKS, ldmatrix_access, shared_access, stmatrix_access
from tile.simt.layouts.swizzle import swizzled
from tile.simt.schedule.pipeline_loops.buffer_layouts import copy_layout

F16 = MmaShape(16, 8, 16, 16)
I8 = MmaShape(16, 8, 32, 8)
TF32 = MmaShape(16, 8, 8, 32)

ROWS, COLUMNS = [1, 0], [0, 1]  # which axis is contiguous in memory

OPERANDS = [
    (F16, Operand.LEFT, ROWS, False),
    (F16, Operand.LEFT, COLUMNS, True),
    (F16, Operand.RIGHT, ROWS, True),
    (F16, Operand.RIGHT, COLUMNS, False),
    (I8, Operand.LEFT, ROWS, False),
    (I8, Operand.RIGHT, COLUMNS, False),
    (TF32, Operand.LEFT, ROWS, False),
]


def placed(tile: Any, shared: LinearLayout) -> Any:
    """A tile's elements by their offsets in shared memory."""
    coordinates = shared.table()
    return tile[coordinates["dim0"], coordinates["dim1"]]


def arrives(memory: Any, access: Any, bits: int) -> Any:
    """Return the element that ldmatrix gives each (register, lane, warp), by its definition."""
    offsets = access.rows.table()["offset"]  # axes: register, lane, warp
    row, part = 128 // bits, 32 // bits
    loads, lanes, warps = offsets.shape
    got = np.empty((loads, access.matrices, part, lanes, warps), memory.dtype)
    for load, matrix, lane, warp in np.ndindex(loads, access.matrices, lanes, warps):
        first = offsets[load, 8 * matrix : 8 * matrix + 8, warp]
        assert not np.any(first % row)
        held = memory[first[:, None] + np.arange(row)]
        if access.transposed:
            held = held.T
        got[load, matrix, :, lane, warp] = held[lane // 4, part * (lane % 4) :][:part]
    return got.reshape(-1, lanes, warps)


@pytest.mark.parametrize(("shape", "operand", "order", "transposed"), OPERANDS, ids=str)
@pytest.mark.parametrize("warps", [(2, 2), (4, 1)])
def test_operands_of_dots(
    shape: MmaShape,
    operand: Operand,
    order: list[int],
    transposed: bool,
    warps: tuple[int, int],
) -> None:
    tile = np.arange(64 * 64).reshape(64, 64)
    layout = matrix_layout(tile.shape, shape, operand, warps)
    shared = swizzled(tile.shape, 128 // shape.bits, 1, 4, order)
    access = ldmatrix_access(layout, shared, shape.bits)
    assert access is not None
    assert (access.matrices, access.transposed) == (4, transposed)
    coordinates = arrives(placed(tile, shared), access, shape.bits)
    wanted = layout.table()
    assert np.array_equal(coordinates, tile[wanted["dim0"], wanted["dim1"]])


def test_small_tiles_take_fewer_matrices() -> None:
    for extents, operand, count in (([8, 8], Operand.RIGHT, 1), ([16, 8], Operand.LEFT, 2)):
        layout = matrix_layout(extents, MmaShape(16, 8, 8, 16), operand, (1, 1))
        order = ROWS if operand is Operand.LEFT else COLUMNS
        access = ldmatrix_access(layout, swizzled(extents, 8, 1, 1, order), 16)
        assert access is not None
        assert (access.matrices, access.transposed) == (count, False)


def test_values_without_fragments_or_contiguous_rows() -> None:
    left = matrix_layout([64, 64], F16, Operand.LEFT, (2, 2))
    assert ldmatrix_access(left, swizzled([64, 64], 4, 1, 4), 16) is None  # slices of 8 bytes
    rows = swizzled([64, 64], 8, 1, 8)
    assert ldmatrix_access(blocked([64, 64], [1, 8], [4, 8], [4, 1]), rows, 16) is None
    columns = swizzled([64, 64], 2, 1, 1, COLUMNS)
    wide = matrix_layout([64, 64], MmaShape(8, 8, 4, 64), Operand.LEFT, (2, 2))
    assert ldmatrix_access(wide, rows, 64) is None
    eights = matrix_layout([64, 64], I8, Operand.RIGHT, (2, 2))
    assert ldmatrix_access(eights, rows, 8) is None  # would have to be transposed
    assert ldmatrix_access(eights, columns, 8) is not None
    more_lanes = blocked([64, 64], [1, 2], [8, 8], [4, 1])
    assert ldmatrix_access(more_lanes, rows, 16) is None


@pytest.mark.parametrize(("shape", "operand", "order", "transposed"), OPERANDS, ids=str)
def test_conversions_by_matrices_have_no_conflicts(
    shape: MmaShape, operand: Operand, order: list[int], transposed: bool
) -> None:
    bits = shape.bits
    layout = matrix_layout([64, 64], shape, operand, (2, 2))
    vector = [1, 128 // bits] if order == ROWS else [128 // bits, 1]
    lanes = [4, 8] if order == ROWS else [8, 4]
    source = blocked([64, 64], vector, lanes, [2, 2], order)
    head = source.images("register")[: (128 // bits).bit_length() - 1]
    plan = through_shared_by_ldmatrix(source, layout, bits, head=head)
    assert plan is not None
    access = ldmatrix_access(layout, plan.layout, bits)
    assert access is not None
    assert access.transposed == transposed
    assert plan.store.vector == plan.load.vector == 128 // bits
    assert plan.store.conflicts(bits) == plan.load.conflicts(bits) == 0
    vectors = (order[0], 128 // bits)
    assert copy_layout(source, (layout,), bits, vectors, BANKS, has_ldmatrix=True) == plan.layout
    alone = copy_layout(source, (layout,), bits, vectors, BANKS)
    assert len(shared_access(layout, alone, bits).registers) > len(plan.load.registers)


def test_what_threads_load_in_wide_vectors_stays() -> None:
    left = matrix_layout([64, 64], F16, Operand.ACCUMULATOR, (2, 2))
    rows = blocked([64, 64], [1, 8], [4, 8], [4, 1])
    plan = through_shared(left, rows, 16, has_ldmatrix=True)
    assert plan.layout == through_shared(left, rows, 16).layout
    assert plan.load.vector == 8


def test_accumulators_are_stored_in_matrices_and_loaded_in_wide_vectors() -> None:
    held = matrix_layout([64, 128], F16, Operand.ACCUMULATOR, (4, 1))
    wanted = blocked([64, 128], [1, 8], [2, 16], [4, 1])
    plan = through_shared(held, wanted, 16, has_stmatrix=True)
    access = stmatrix_access(held, plan.layout, 16)
    assert access is not None
    assert (access.matrices, access.transposed) == (4, False)
    assert plan.load.vector == 8
    assert plan.store.conflicts(16) == plan.load.conflicts(16) == 0
    assert plan.instructions == 16
    assert through_shared(held, wanted, 16).instructions == 24
    # Lanes 0 to 7 say where the rows of the first matrix are: where their first elements are.
    positions = plan.layout.invert_and_compose(held)
    for row in range(8):
        assert access.rows.apply(lane=row) == positions.apply(lane=4 * row)


@pytest.mark.parametrize("order", [ROWS, COLUMNS])
def test_what_threads_store_in_wide_vectors_stays(order: list[int]) -> None:
    held = matrix_layout([64, 128], F16, Operand.ACCUMULATOR, (2, 2))
    vector, lanes = ([1, 8], [2, 16]) if order == ROWS else ([8, 1], [8, 4])
    wanted = blocked([64, 128], vector, lanes, [4, 1] if order == ROWS else [1, 4], order)
    plan = through_shared(held, wanted, 16, has_stmatrix=True)
    assert plan == through_shared(held, wanted, 16)
    assert plan.store.vector == plan.load.vector == 8
    assert stmatrix_access(held, plan.layout, 16) is None
