"""Sizes of elements: bits, storage, packing, signedness."""

from __future__ import annotations

import numpy as np
import pytest

from tile.errors import TypeRuleError
from tile.ir.descriptor_type import Descriptor
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.shared_type import Shared
from tile.ir.types import ALL, F16, F32, FP8, I1, NARROW_FLOATS, Kind, Pointer, Scalar, Type
from tile.simt.hopper.wgmma_layouts import operand_layout_in_shared, strips_of
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.shared_access import shared_access, wavefronts
from tile.simt.layouts.swizzle import byte_swizzled
from tile.simt.memory.expose_shared import tile_bytes

I4 = Scalar("i4", Kind.INT, 4)  # no type of the language has elements that share a byte


@pytest.mark.parametrize("ty", [*ALL, Pointer(F32)], ids=str)
def test_an_element_takes_the_bytes_of_its_dtype(ty: Scalar | Pointer) -> None:
    assert ty.itemsize == numpy_dtype(ty).itemsize == ty.bytes_of(1)
    assert ty.storage_bits == 8 * ty.itemsize
    assert ty.packing == 1
    assert ty.bits == (1 if ty is I1 else ty.storage_bits)
    assert ty.is_int_signed() == (numpy_dtype(ty).kind == "i" and not ty.is_ptr())
    assert not (ty in NARROW_FLOATS and ty in FP8)


def test_elements_of_4_bits_share_a_byte() -> None:
    assert (I4.storage_bits, I4.packing, I4.is_int_signed()) == (4, 2, True)
    assert (I4.min_value, I4.max_value) == (-8, 7)
    assert [I4.bytes_of(count) for count in (0, 1, 2, 3, 64)] == [0, 1, 1, 2, 32]
    with pytest.raises(TypeRuleError, match="2 elements of i4 share a byte"):
        _ = I4.itemsize


def test_sizes_of_tiles_of_4_bits() -> None:
    swizzled = byte_swizzled((16, 256), 4, 128)
    assert Shared((16, 256), I4, swizzled, stages=3).bytes == 3 * 16 * 256 // 2
    assert tile_bytes(swizzled, 4) == 16 * 256 // 2
    assert Descriptor((8, 64), I4).stride_multiple == 32
    with pytest.raises(TypeRuleError, match=r"has 8 bytes of i4 .* the least is 16, 32 elements"):
        Descriptor((8, 16), I4)


def test_buffers_of_the_used_part_of_a_tile() -> None:
    layout = byte_swizzled((64, 256), 16, 128)
    buffer = Shared((64, 256), F16, layout, stages=4, used=24576)
    assert (buffer.stage_bytes, buffer.bytes) == (24576, 4 * 24576)
    assert str(buffer).endswith("stages = 4, used = 24576>")
    with pytest.raises(TypeRuleError, match="a part of 32768 bytes, or 0, not 32768"):
        Shared((64, 256), F16, layout, used=32768)


def test_layouts_of_4_bits() -> None:
    """A lane's widest access is 32 elements; eight lanes of those fill a line of the banks."""
    registers = blocked((16, 256), (1, 32), (4, 8), (4, 1))
    access = shared_access(registers, byte_swizzled((16, 256), 4, 128), 4)
    assert access.vector == 32
    assert wavefronts(np.arange(32) * 32, 4, 32).item() == 4
    layout = operand_layout_in_shared((64, 256), 4, 1, 256)
    assert layout is not None
    strips = strips_of(layout, 4)
    assert strips is not None
    assert (strips.row_bytes, strips.bytes) == (128, 64 * 256 // 2)


def test_a_type_without_elements() -> None:
    with pytest.raises(TypeRuleError, match="has no element type"):
        _ = Type().element
