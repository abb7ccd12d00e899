"""TMA loads and stores: the instructions, and the tensor maps that launches encode for them."""

from __future__ import annotations

import ctypes
import json
import random
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble
from tests.backends.nvptx.test_fast_path import ADDRESS, CONTEXT, Posing
from tests.runtime.fake_torch import Tensor, aligned, install
from tests.simt.kernels import KERNELS
from tests.simt.test_warp_specialize import persistent, stored
from tile.backends.nvptx import driver
from tile.backends.nvptx.launch_metadata import (
    MAP_ALIGNMENT,
    MAP_BYTES,
    LaunchMetadata,
    LaunchValue,
    TensorMap,
)
from tile.backends.nvptx.tensor_maps import CACHE_SIZE, MapEncoder, UnmappableError

STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"


def compiled(which: str, arch: str, **options: Any) -> Any:
    return KERNELS[which].compile(f"nvptx:{arch}", **options).artifact


@pytest.mark.parametrize("which", ["matmul_blocks", "attention_blocks"])
def test_descriptor_blocks_are_copied_by_tma(which: str) -> None:
    artifact = compiled(which, "sm_90a", num_stages=3)
    ptx = artifact.stages["ptx"]
    # Two TMA boxes for each of two iterations ahead, and in the loop.
    assert ptx.count(COPY) == 6
    assert ptx.count("mbarrier.init") == ptx.count("mbarrier.inval") == 3
    assert ptx.count("mbarrier.arrive.expect_tx") == 3
    assert ptx.count("mbarrier.try_wait.parity") == 1
    stores = which == "matmul_blocks"  # of 16 bits
    assert ptx.count(STORE) == ptx.count("cp.async.bulk.wait_group.read 0") == stores
    # Each array's tensor map is prefetched before the mbarriers are initialized.
    maps = ptx.count("prefetch.tensormap")
    assert maps == len(artifact.launch_metadata["maps"]) == 2 + stores
    assert ptx.rindex("prefetch.tensormap") < ptx.index("mbarrier.init")
    assert ptx.count(f".param .align 64 .b8 {which}_param_") == 2 + stores
    assert "fence.proxy.async" in ptx
    assert "spill" not in assemble(ptx, "sm_90a").replace("0 bytes spill", "")


def test_adjacent_instructions_of_one_thread_are_elected_together() -> None:
    """An mbarrier's arrive and the loads that it waits for; in the loop a barrier parts them."""
    ptx = compiled("matmul_blocks", "sm_90a", num_stages=3).stages["ptx"]
    elected = [line for line in ptx.splitlines() if "elect.sync" in line and COPY in line]
    assert [line.count(COPY) for line in elected] == [2, 2, 2]
    assert ["expect_tx" in line for line in elected] == [True, True, False]
    assert ["@!p bra done;" in line for line in elected] == [True, True, False]
    assert elected[-1].count("@p ") == 2
    stores = [line for line in ptx.splitlines() if "elect.sync" in line and STORE in line]
    assert ["@!p bra done;" in line for line in stores] == [True]
    assert stores[0].count("cp.async.bulk") == 3  # with the commit and the wait


def test_warpgroups_store_boxes_of_their_rows() -> None:
    """The first warp of each stores 64 rows, after a named barrier of its own."""
    case = stored(persistent, 128)
    artifact = case.compile("nvptx:sm_90a", num_warps=8, num_stages=2).artifact
    ptx = artifact.stages["ptx"]
    assert ptx.count("barrier.cta.sync.aligned") == 2 and ptx.count(STORE) == 1
    maps = LaunchMetadata.of(artifact.launch_metadata).maps
    assert sorted(one.box_dim for one in maps) == [(32, 64), (64, 64), (128, 32)]
    assemble(ptx, "sm_90a")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120a"])
def test_other_architectures_copy_by_threads(arch: str) -> None:
    """TMA cannot write the layout that their dots read, but it stores their results."""
    ptx = compiled("matmul_blocks", arch).stages["ptx"]
    assert COPY not in ptx and "cp.async.cg.shared.global" in ptx
    assert ptx.count(STORE) == (arch != "sm_80")
    assemble(ptx, arch)


@tile.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, pitch, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [pitch, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [128, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [128, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


SIGNATURE = {
    "a_ptr": "*fp16:16",
    "b_ptr": "*fp16:16",
    "c_ptr": "*fp16:16",
    **dict.fromkeys(("M", "N", "K", "pitch"), "i32"),
}


@pytest.mark.parametrize(
    ("blocks", "count", "boxes"),
    [
        ((64, 64, 64), 2, ((64, 64), (64, 64))),
        ((128, 256, 64), 5, ((128, 64), (64, 64))),  # columns in strips of 128 bytes
        ((64, 64, 128), 3, ((64, 64), (128, 64))),
        ((512, 32, 16), 3, ((256, 16), (16, 32))),  # TMA boxes of 256 rows
    ],
)
def test_blocks_are_copied_in_tma_boxes(
    blocks: tuple[int, ...], count: int, boxes: tuple[tuple[int, int], ...]
) -> None:
    sizes = dict(zip(("BM", "BN", "BK"), blocks, strict=True))
    options = {"num_stages": 2, "num_warps": 8 if blocks[0] > 64 else 4}
    artifact = tile.compile(matmul, SIGNATURE, sizes, options, "nvptx:sm_90a").artifact
    ptx = artifact.stages["ptx"]
    assert isinstance(ptx, str)
    assert ptx.count(COPY) == 2 * count
    metadata = LaunchMetadata.of(artifact.launch_metadata)
    assert tuple(one.box_dim for one in metadata.maps[:2]) == boxes
    assert [one.swizzle for one in metadata.maps] == [2 * one.box_dim[1] for one in metadata.maps]
    assemble(ptx, "sm_90a")


@pytest.mark.parametrize(
    ("blocks", "boxes", "loads", "stores"),
    [
        ((128, 256, 64), [(4, 64, 64), (4, 128, 64)], 2, 1),  # of B and C
        ((64, 64, 128), [(2, 64, 64)], 2, 0),  # of A
        ((64, 64, 64), [], 0, 0),
    ],
)
def test_one_instruction_copies_all_strips(
    blocks: tuple[int, ...], boxes: list[tuple[int, ...]], loads: int, stores: int
) -> None:
    """Those for single TMA boxes are there, too, for arrays that are no multiple of a strip."""
    sizes = dict(zip(("BM", "BN", "BK"), blocks, strict=True))
    options = {"num_stages": 2, "num_warps": 8 if blocks[0] > 64 else 4}
    usual = tile.compile(matmul, SIGNATURE, sizes, options, "nvptx:sm_90a").asm["ptx"]
    options["tma"] = "strips"
    artifact = tile.compile(matmul, SIGNATURE, sizes, options, "nvptx:sm_90a").artifact
    ptx = artifact.stages["ptx"]
    assert isinstance(usual, str) and isinstance(ptx, str)
    assert ptx.count(COPY) == usual.count(COPY) and ptx.count(STORE) == usual.count(STORE)
    maps = LaunchMetadata.of(json.loads(json.dumps(artifact.launch_metadata))).maps
    assert [one.box_dim for one in maps if one.in_strips] == boxes
    assert ptx.count(COPY.replace("2d", "3d")) == loads
    assert ptx.count(STORE.replace("2d", "3d")) == stores
    assert (ptx == usual) == (not boxes)
    assemble(ptx, "sm_90a")


def test_maps_are_of_parameters_and_constants() -> None:
    sizes = {"BM": 64, "BN": 64, "BK": 32}
    artifact = tile.compile(matmul, SIGNATURE, sizes, {}, "nvptx:sm_90a").artifact
    assert artifact.parameters == ("a_ptr", "b_ptr", "c_ptr", "M", "N", "K", "pitch")
    first, second, third = LaunchMetadata.of(json.loads(json.dumps(artifact.launch_metadata))).maps
    m, n, k, pitch = (LaunchValue((at,), bits=32) for at in range(3, 7))
    assert first == TensorMap(0, (m, k), (pitch,), "f16", (64, 32), 64)
    assert second == TensorMap(1, (k, n), (LaunchValue((), 128),), "f16", (32, 64), 128)
    strides = (LaunchValue((), 128),)
    assert third == TensorMap(2, (m, n), strides, "f16", (64, 64), 128, written=True)


@tile.jit
def copy_part(x_ptr, out_ptr, rows, row, end, count, N: tl.constexpr):
    """Write the transpose of x to a part of `count` rows that ends at row `end`, by a descriptor that begins before."""
    base = out_ptr - tl.cast(rows, tl.int64) * row
    out = tl.make_tensor_descriptor(base, [1 << 30, rows, 64], [row, row, 1], [1, N, 64])
    at = tl.arange(0, N)[:, None] + tl.arange(0, 64)[None, :] * N
    out.store([end, rows - count, 0], tl.load(x_ptr + at).reshape(1, N, 64))


def test_the_array_of_a_descriptor_may_begin_before_the_argument() -> None:
    signature = {"x_ptr": "*fp16:16", "out_ptr": "*fp16:16"}
    signature |= dict.fromkeys(("rows", "row", "end", "count"), "i32")
    compiled = tile.compile(copy_part, signature, {"N": 64}, {"tma": "stores"}, "nvptx:sm_90a")
    (one,) = LaunchMetadata.of(json.loads(json.dumps(compiled.artifact.launch_metadata))).maps
    assert (one.base, one.offset) == (1, LaunchValue((2, 3), -1))


@pytest.mark.parametrize("target", ["interp", "interp:mma", "interp:wgmma"])
def test_rows_after_the_end_of_a_part_are_not_written(target: str) -> None:
    x, out = np.ones((16, 64), np.float16), np.zeros((40, 64), np.float16)
    with tile.backend(target):
        copy_part[(1,)](x, out, 40, 64, 20, 5, N=16, tma="stores")
    assert (out[15:20] == 1).all() and out.sum() == 5 * 64


# -- encoding maps


NUMBER = ctypes.c_uint64


class Maps:
    """Replaces the driver: records what maps are encoded from."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.bytes: list[Any] = []
        monkeypatch.setattr(driver, "tensor_map", self.make)
        monkeypatch.setattr(driver, "zeroed", lambda size: 0xE000)

    def make(self, *launched: Any) -> Any:
        self.made.append(launched)
        data = ctypes.create_string_buffer(bytes(NUMBER(len(self.made))), MAP_BYTES)
        self.bytes.append(data)
        return SimpleNamespace(getPtr=lambda: ctypes.addressof(data))


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> Maps:
    return Maps(monkeypatch)


DESCRIPTION = TensorMap(
    0, (LaunchValue((1,)), LaunchValue((2,))), (LaunchValue((3,)),), "f16", (64, 64), 128
)


def new_encoder() -> MapEncoder:
    return MapEncoder(DESCRIPTION, lambda: 0xE000)


def test_a_map_is_encoded_once_for_an_array(maps: Maps) -> None:
    encoder = new_encoder()
    values: Sequence[Any] = (0x1000, np.int32(100), np.int32(50), np.int64(64))
    lookup, rows = encoder.lookup([None, 100, 50, 64]), encoder.lookup([None, None, 50, 64])
    assert lookup[0x1000] is None and rows[0x1000, 100] is None
    first = encoder.encoded(values)
    assert encoder.encoded(values) is first is lookup[0x1000] is rows[0x1000, 100]
    assert rows[0x1000, 101] is None and encoder.lookup([None, 100, 50, 65])[0x1000] is None
    assert maps.made == [("f16", 0x1000, [100, 50], [128], (64, 64), 128)]
    encoder.encoded((0x2000, *values[1:]))
    assert len(maps.made) == 2


def test_the_cache_of_maps_is_bounded(maps: Maps) -> None:
    encoder = new_encoder()
    for number in range(CACHE_SIZE + 1):
        encoder.encoded((0x1000 + 16 * number, 100, 50, 64))
    lookup = encoder.lookup([None, 100, 50, 64])
    assert lookup[0x1000] is None and lookup[0x1000 + 16 * CACHE_SIZE] is not None


def test_lookups_are_bounded(maps: Maps) -> None:
    encoder = new_encoder()
    lookup = encoder.lookup([None, 100, 50, 64])
    for number in range(2 * CACHE_SIZE):
        first = encoder.encoded((0x1000 + 16 * number, 100, 50, 64))
        assert lookup[0x1000 + 16 * number] is first
    assert len(lookup) == CACHE_SIZE


def test_a_map_of_another_base_is_a_copy(maps: Maps, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver writes its address; extents and strides are those of the other map."""
    addresses: list[tuple[int, int]] = []

    def replace(copy: ADDRESS, base: ADDRESS) -> int:
        assert copy.value is not None and base.value is not None
        addresses.append((copy.value, base.value))
        return 0

    monkeypatch.setattr(driver, "direct", {"cuTensorMapReplaceAddress": replace}.get)
    encoder = new_encoder()
    first = encoder.encoded((0x1000, 100, 50, 64))
    lookup = encoder.lookup([None, 100, 50, 64])
    second = lookup[0x2000]
    assert second is not None and addresses == [(second.address, 0x2000)]
    assert second.address % MAP_ALIGNMENT == 0 and len(maps.made) == 1
    read = [ctypes.string_at(one.address, MAP_BYTES) for one in (first, second)]
    assert read[0] == read[1]
    assert encoder.encoded((0x2000, 100, 50, 64)) is lookup[0x2000] is second
    assert encoder.encoded((0x3000, 100, 50, 64)) is lookup[0x3000]
    assert len(addresses) == 2 and len(maps.made) == 1
    assert lookup[0x1008] is None
    with pytest.raises(UnmappableError, match="its address 0x1008"):
        encoder.encoded((0x1008, 100, 50, 64))
    encoder.encoded((0x2000, 101, 50, 64))
    assert len(addresses) == 2 and len(maps.made) == 2


def test_a_map_is_encoded_where_the_address_cannot_be_replaced(
    maps: Maps, monkeypatch: pytest.MonkeyPatch
) -> None:
    for functions in ({}, {"cuTensorMapReplaceAddress": lambda copy, base: 1}):
        monkeypatch.setattr(driver, "direct", functions.get)
        maps.made.clear()
        encoder = new_encoder()
        encoder.encoded((0x1000, 100, 50, 64))
        assert encoder.lookup([None, 100, 50, 64])[0x2000] is None
        encoder.encoded((0x2000, 100, 50, 64))
        assert len(maps.made) == 2


def test_maps_of_empty_arrays_are_not_copied(maps: Maps, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are of a zero, not of memory at the base."""
    monkeypatch.setattr(driver, "direct", lambda name: pytest.fail(name))
    encoder = new_encoder()
    for base in (0x1000, 0x2000):
        encoder.encoded((base, 0, 50, 64))
    assert [made[1] for made in maps.made] == [0xE000, 0xE000]


def test_an_array_before_the_argument(maps: Maps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its distance, in elements, is known at launch."""
    addresses: list[Any] = []

    def replace(copy: ADDRESS, base: ADDRESS) -> int:
        addresses.append(base.value)
        return 0

    monkeypatch.setattr(driver, "direct", {"cuTensorMapReplaceAddress": replace}.get)
    encoder = MapEncoder(DESCRIPTION._replace(offset=LaunchValue((1, 3), -1)), lambda: 0xE000)
    encoder.encoded((0x1000, 4, 50, 64))
    assert maps.made == [("f16", 0x1000 - 2 * 4 * 64, [4, 50], [128], (64, 64), 128)]
    assert encoder.lookup([None, 4, 50, 64])[0x2000] is not None
    assert addresses == [0x2000 - 2 * 4 * 64]


def test_templates(maps: Maps) -> None:
    """The map of the latest launch, for launches that differ from it in the address alone."""
    encoder = new_encoder()
    assert encoder.template([None, 100, 50, 64]) is None
    first = encoder.encoded((0x1000, 100, 50, 64))
    map_of_first = 0, ctypes.string_at(first.address, MAP_BYTES)
    assert encoder.template([None, 100, 50, 64]) == map_of_first
    others: list[list[Any]] = [[None, 101, 50, 64], [None, None, 50, 64], [0x1000, 100, 50, 64]]
    assert [encoder.template(other) for other in others] == [None] * 3
    encoder.encoded((0x1000, 0, 50, 64))  # of a zero, not of memory at the address
    assert encoder.template([None, 0, 50, 64]) is None
    encoder = MapEncoder(DESCRIPTION._replace(offset=LaunchValue((1, 3), -1)), lambda: 0xE000)
    encoder.encoded((0x1000, 4, 50, 64))
    template = encoder.template([None, 4, 50, 64])
    assert template is not None and template[0] == -2 * 4 * 64


def test_a_map_of_constants(maps: Maps) -> None:
    constants = (LaunchValue((), 100), LaunchValue((), 50))
    encoder = MapEncoder(DESCRIPTION._replace(extents=constants, strides=constants[:0]), lambda: 0)
    first = encoder.encoded((0x1000,))
    assert encoder.lookup([None])[0x1000] is first


@pytest.mark.parametrize(("rows", "columns"), [(0, 50), (100, 0), (0, 0)])
def test_an_empty_array_is_a_zero(maps: Maps, rows: int, columns: int) -> None:
    """Everything that is read of it is out of bounds, or that zero."""
    new_encoder().encoded((0, rows, columns, 3))
    assert maps.made == [("f16", 0xE000, [1, 1], [16], (64, 64), 128)]


def test_the_stride_of_an_axis_of_one_element_is_ignored(maps: Maps) -> None:
    new_encoder().encoded((0x1000, 1, 50, 3))
    assert maps.made == [("f16", 0x1000, [1, 50], [16], (64, 64), 128)]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0x1008, 100, 50, 64), "its address 0x1008 is not a multiple of 16 bytes"),
        ((0x1000, 100, 50, 60), "its stride along axis 0 is 120 bytes"),
        ((0x1000, 100, 50, -64), "its stride along axis 0 is -128 bytes"),
        ((0x1000, 100, 50, 1 << 40), "from 0 to 1099511627776"),
        ((0x1000, 100, -1, 64), "its extent along axis 1 is -1"),
    ],
)
def test_arrays_that_have_no_map(maps: Maps, values: tuple[int, ...], text: str) -> None:
    with pytest.raises(UnmappableError, match=text):
        new_encoder().encoded(values)
    assert maps.made == []


def test_arrays_whose_last_extent_is_no_multiple_of_what_tma_writes(maps: Maps) -> None:
    """TMA would overwrite what follows the last element, up to 16 bytes."""
    encoder = MapEncoder(DESCRIPTION._replace(written=True), lambda: 0xE000)
    with pytest.raises(UnmappableError, match="its extent along the last axis is 100 bytes, and"):
        encoder.encoded((0x1000, 100, 50, 64))
    assert maps.made == []
    encoder.encoded((0x1000, 100, 56, 64))
    encoder.encoded((0, 100, 0, 64))
    new_encoder().encoded((0x1000, 100, 50, 64))  # it is only read
    assert len(maps.made) == 3


def test_a_map_of_more_axes(maps: Maps) -> None:
    """Images N x H x W x C, whose strides are multiplied extents; that of an axis of one is ignored."""
    n, h, w, c = (LaunchValue((at,), 1, 32) for at in range(1, 5))
    strides = (LaunchValue((2, 3, 4), 1, 32), LaunchValue((3, 4), 1, 32), LaunchValue((4,), 1, 32))
    description = TensorMap(0, (n, h, w, c), strides, "i32", (1, 8, 8, 4), 0)
    encoder = MapEncoder(description, lambda: 0xE000)
    assert encoder.parameters == (0, 1, 2, 3, 4, 2, 3, 4, 3, 4, 4)
    encoder.encoded((0x1000, 2, 12, 20, 40))
    encoder.encoded((0x1000, 2, 1, 20, 40))
    assert maps.made == [
        ("i32", 0x1000, [2, 12, 20, 40], [12 * 20 * 160, 20 * 160, 160], (1, 8, 8, 4), 0),
        ("i32", 0x1000, [2, 1, 20, 40], [20 * 160, 16, 160], (1, 8, 8, 4), 0),
    ]
    with pytest.raises(UnmappableError, match="its stride along axis 2 is 168 bytes"):
        encoder.encoded((0x1000, 2, 12, 20, 42))


@pytest.mark.parametrize(
    ("is_blackwell", "rows", "is_cleared"),
    [(True, 100, True), (True, 2000, False), (False, 1, False)],
)
def test_a_bit_of_maps_of_small_arrays_on_blackwell(
    monkeypatch: pytest.MonkeyPatch, is_blackwell: bool, rows: int, is_cleared: bool
) -> None:
    """Arrays of 128 KiB and more have it; the rest of a map is the driver's."""
    full = (1 << 64) - 1
    data = (NUMBER * (MAP_BYTES // 8))(*[full] * (MAP_BYTES // 8))
    made = SimpleNamespace(getPtr=lambda: ctypes.addressof(data))
    monkeypatch.setattr(driver, "tensor_map", lambda *launched: made)
    encoder = MapEncoder(DESCRIPTION, lambda: 0xE000, clears_bit=is_blackwell)
    encoder.encoded((0x1000, rows, 50, 64))
    assert data[1] == (full ^ 1 << 21 if is_cleared else full)
    assert {data[0], *data[2:]} == {full}


UNBOUNDED = LaunchValue((), -(1 << 31), 32)


@pytest.mark.parametrize(
    "changes",
    [
        {"in_strips": True},
        {"window": ((0,), (0,), (1,))},
        {"extents": (LaunchValue((1,)), UNBOUNDED, LaunchValue((3,)))},
    ],
)
def test_a_map_that_the_driver_refuses(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """The launch goes without TMA, if the map is of strips, in im2col mode, or without bounds."""
    refusal = driver.cuda.CUresult.CUDA_ERROR_INVALID_VALUE
    monkeypatch.setattr(driver.cuda, "cuGetErrorString", lambda status: (0, b"invalid"))
    for name in ("cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col"):
        monkeypatch.setattr(driver.cuda, name, lambda *values: (refusal, None))
    three = tuple(LaunchValue((at,)) for at in (1, 2, 3))
    strides = (LaunchValue((4,)), LaunchValue((5,)))
    description = DESCRIPTION._replace(strides=strides, **{"extents": three, **changes})
    with pytest.raises(UnmappableError, match="encoding a"):
        MapEncoder(description, lambda: 0).encoded((0x1000, 2, 3, 64, 192, 64))


def test_a_map_in_strips(maps: Maps) -> None:
    """The last axis is divided; other extents than multiples of a strip are encoded, and not used."""
    encoder = MapEncoder(DESCRIPTION._replace(box_dim=(4, 32, 64), in_strips=True), lambda: 0xE000)
    for columns in (256, 50, 200, 0):
        encoder.encoded((0x1000, 100, columns, 256))
    assert [made[2:5] for made in maps.made] == [
        ([4, 100, 64], [128, 512], (4, 32, 64)),
        ([1, 100, 64], [128, 512], (4, 32, 64)),
        ([3, 100, 64], [128, 512], (4, 32, 64)),
        ([1, 1, 64], [128, 16], (4, 32, 64)),
    ]


def test_arguments_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Axes start with the innermost one there; elements outside of the array are zeros."""
    passed: list[Any] = []

    def encode(*values: Any) -> tuple[Any, Any]:
        passed.extend([[int(n) for n in v] if isinstance(v, list) else v for v in values])
        return driver.cuda.CUresult.CUDA_SUCCESS, "map"

    monkeypatch.setattr(driver.cuda, "cuTensorMapEncodeTiled", encode)
    assert driver.tensor_map("f64", 0x1000, [3, 4, 5], [320, 80], (1, 4, 2), 0) == "map"
    cuda = driver.cuda
    assert passed == [
        cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 3, 0x1000,
        [5, 4, 3], [80, 320], [2, 4, 1], [1, 1, 1],
        cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
        cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ]  # fmt: skip


def test_the_map_of_one_axis_has_an_array_of_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of an H200 refuses a null pointer, although no axis has a stride."""
    strides: list[int] = []

    def encode(*values: Any) -> tuple[Any, Any]:
        strides.extend(map(int, values[4]))
        return driver.cuda.CUresult.CUDA_SUCCESS, "map"

    monkeypatch.setattr(driver.cuda, "cuTensorMapEncodeTiled", encode)
    assert driver.tensor_map("f32", 0x1000, [64], [], (32,), 0) == "map"
    assert strides and not strides[0] % 16


def test_arguments_of_the_driver_for_im2col_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Corners, steps and extents start with the innermost axis; channels have no corner."""
    passed: list[Any] = []

    def encode(*values: Any) -> tuple[Any, Any]:
        passed.extend([[int(n) for n in v] if isinstance(v, list) else v for v in values])
        return driver.cuda.CUresult.CUDA_SUCCESS, SimpleNamespace(getPtr=lambda: 0xF000)

    monkeypatch.setattr(driver.cuda, "cuTensorMapEncodeIm2col", encode)
    extents = tuple(LaunchValue((at,)) for at in range(1, 5))
    strides = tuple(LaunchValue((at,)) for at in range(5, 8))
    window = ((-1, -2), (-1, 1), (2, 3))
    description = TensorMap(0, extents, strides, "f16", (128, 64), 128, False, window)
    description = TensorMap.of(json.loads(json.dumps(description)))
    encoder = MapEncoder(description, lambda: 0xE000)
    assert encoder.encoded((0x1000, 2, 12, 20, 64, 15360, 1280, 64)).address == 0xF000
    cuda = driver.cuda
    assert passed == [
        cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, 0x1000,
        [64, 20, 12, 2], [128, 2560, 30720], [-2, -1], [1, -1], 64, 128, [1, 3, 2, 1],
        cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ]  # fmt: skip
    narrow = description._replace(window=((0, 0), (-3, 0), (1, 1)))
    with pytest.raises(UnmappableError, match="axis 1, of 2 elements, there is no pixel from 0 to"):
        MapEncoder(narrow, lambda: 0).encoded((0x1000, 2, 2, 20, 64, 15360, 1280, 64))


# -- launches


class Launching(Posing):
    """Notes the map that each launch is given, by the number in it."""

    count, maps = 7, 3

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.launched: list[tuple[int, ...]] = []

    def ordinarily(self, function: int, *launched: Any) -> tuple[Any]:
        self.look(launched[8])
        return super().ordinarily(function, *launched)

    def start(self, config: int, function: int, parameters: int, extra: int | None) -> int:
        self.repeats.append(ctypes.string_at(config, 12))
        self.look(parameters)
        return self.status

    def look(self, parameters: int) -> None:
        addresses = (ADDRESS * (self.count + self.maps)).from_address(parameters)[self.count :]
        self.launched.append(
            tuple(
                [NUMBER.from_buffer_copy(ctypes.string_at(place, 8)).value for place in addresses]
            )
        )


@pytest.fixture
def launching(monkeypatch: pytest.MonkeyPatch, maps: Maps) -> Iterator[Launching]:
    monkeypatch.setenv("TILE_BACKEND", "nvptx:sm_90a")
    posing = Launching(monkeypatch)
    install(monkeypatch).streams[0] = 1
    yield posing
    matmul.cache.clear()


def half(count: int) -> Tensor:
    return Tensor(aligned(2 * count).view(np.float16)[:count])


BLOCKS = {"BM": 64, "BN": 64, "BK": 32}


def test_repeated_launches_find_their_maps(launching: Launching, maps: Maps) -> None:
    assert launching.context == CONTEXT
    a, b, c, d = (half(128 * 128) for _ in range(4))
    sizes = (100, 96, 50, 56)
    matmul[2, 2](a, b, c, *sizes, **BLOCKS)
    matmul[2, 2](a, b, d, *sizes, **BLOCKS)  # to another array, so the long way, once
    matmul[2, 2](d, b, c, *sizes, **BLOCKS)
    assert (len(launching.ordinary), len(launching.repeats)) == (3, 0)
    matmul[2, 2](d, b, c, *sizes, **BLOCKS)
    matmul[2, 2](a, b, c, *sizes, **BLOCKS)
    assert (len(launching.ordinary), len(launching.repeats)) == (3, 2)
    assert launching.launched == [(1, 2, 3), (1, 2, 4), (5, 2, 3), (5, 2, 3), (1, 2, 3)]
    assert maps.made == [
        ("f16", a.data_ptr(), [100, 50], [112], (64, 32), 64),
        ("f16", b.data_ptr(), [50, 96], [256], (32, 64), 128),
        ("f16", c.data_ptr(), [100, 96], [256], (64, 64), 128),
        ("f16", d.data_ptr(), [100, 96], [256], (64, 64), 128),
        ("f16", d.data_ptr(), [100, 50], [112], (64, 32), 64),
    ]


@tile.jit
def described(a, b, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, 2 * B, B):
        total = tl.dot(a.load([0, k]), b.load([k, 0]), total)
    tl.store(out_ptr + i[:, None] * B + i[None, :], total)


CHANGES: dict[str, list[Sequence[int]]] = {
    "shape": [(64, 64), (48, 64), [64, 80], [32, 48]],
    "strides": [(64, 1), (128, 1), [96, 1]],
}


def test_a_map_is_that_of_the_array_as_it_is(launching: Launching, maps: Maps) -> None:
    """Whatever of a descriptor changes between launches, most of which are repeats."""
    bases = [Tensor(half(128 * 128).array.reshape(128, 128)) for _ in range(4)]
    bases.append(Tensor(bases[0].array[:80]))
    out, draw = Tensor(aligned(64 * 64)), random.Random(1)
    a, b = (tile.TensorDescriptor(bases[0], (64, 64), (64, 1), [64, 64]) for _ in "ab")
    artifact = described.warmup(a, b, out, B=64).artifact
    launching.count, launching.maps = (
        len(artifact.parameters),
        len(artifact.launch_metadata["maps"]),
    )
    assert launching.maps == 2
    for _ in range(600):
        one, name = draw.choice([a, b]), draw.choice(["base", "base", *CHANGES])
        setattr(one, name, draw.choice(bases if name == "base" else CHANGES[name]))
        if draw.random() < 0.02:
            bases[2] = one.base = Tensor(half(128 * 128).array.reshape(128, 128))
        described[1,](a, b, out, B=64)
        for number, desc in zip(launching.launched[-1], (a, b), strict=True):
            wanted = (desc.base.data_ptr(), list(desc.shape), [2 * desc.strides[0]])
            assert maps.made[number - 1][1:4] == wanted
    assert len(launching.repeats) > 200 and len(launching.ordinary) > 100
    described.cache.clear()


def test_arrays_without_maps_are_copied_by_threads(launching: Launching, maps: Maps) -> None:
    a, b, c = (half(128 * 128) for _ in range(3))
    launching.maps = 0
    with pytest.warns(
        tile.PerformanceWarning, match="accesses an array without TMA, which is slower: its stride"
    ):
        matmul[2, 2](a, b, c, 100, 90, 50, -56, **BLOCKS)
    matmul[2, 2](a, b, c, 100, 90, 50, -56, **BLOCKS)
    assert len(launching.ordinary) == 2 and not maps.made


@tile.jit
def two_stores(a, c, d, flag_ptr, BM: tl.constexpr, ATOMIC: tl.constexpr):
    total = tl.zeros((BM, 64), dtype=tl.float32)
    for k in range(0, 256, 64):
        total = tl.dot(a.load([0, k]), a.load([k, 0]), total)
    c.store([0, 0], total.to(tl.float16))
    d.store([0, 0], (total + 1).to(tl.float16))
    if ATOMIC:
        tl.atomic_add(flag_ptr, 1, sem="release")


@pytest.mark.parametrize("atomic", [False, True])
def test_what_nothing_follows_is_waited_for_until_it_is_read(atomic: bool) -> None:
    """The last store of a kernel is complete when the grid is, unless an atomic operation follows."""
    signature = dict.fromkeys("acd", "tensordesc<fp16[64, 64]>") | {"flag_ptr": "*i32"}
    options = {"num_warps": 4}
    constants = {"BM": 64, "ATOMIC": atomic}
    ptx = str(tile.compile(two_stores, signature, constants, options, "nvptx:sm_90a").asm["ptx"])
    assert ptx.count(STORE) == 2
    assert ptx.count("cp.async.bulk.wait_group 0") == 1 + atomic
    assert ptx.count("cp.async.bulk.wait_group.read 0") == 1 - atomic
