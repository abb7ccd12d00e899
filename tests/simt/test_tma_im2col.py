"""Convolutions by TMA loads in im2col mode, which the simulator walks pixel by pixel."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import FAULTS, lowered, without_each
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.backends.nvptx.launch_metadata import LaunchMetadata, LaunchValue
from tile.errors import MbarrierError
from tile.ir.module import Module
from tile.simt import ops
from tile.simt.pass_pipeline import lower
from tile.simt.target import MMA, WGMMA


@tile.jit
def conv2d(
    x_ptr, w_ptr, y_ptr, N, H, W, C, K, M, R: tl.constexpr, S: tl.constexpr, PAD: tl.constexpr,
    STEP: tl.constexpr, DILATION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, WS: tl.constexpr = None,
):  # fmt: skip
    """A convolution of images by filters of R x S, as a matmul of M pixels."""
    x = tl.make_im2col_descriptor(
        x_ptr, [N, H, W, C], [H * W * C, W * C, C, 1], [BM, BK], [-PAD, -PAD],
        [PAD - (R - 1) * DILATION, PAD - (S - 1) * DILATION], [1, STEP, STEP, 1],
    )  # fmt: skip
    w = tl.make_tensor_descriptor(w_ptr, [R * S * C, K], [K, 1], [BK, BN])
    y = tl.make_tensor_descriptor(y_ptr, [M, K], [K, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    blocks = tl.cdiv(C, BK)
    for k in tl.range(R * S * blocks, warp_specialize=WS):
        filter = k // blocks
        c = k % blocks * BK
        pixels = x.load([row, c], [filter // S * DILATION, filter % S * DILATION])
        total = tl.dot(pixels, w.load([filter * C + c, column]), total)
    y.store([row, column], total.to(y.dtype))


@tile.jit
def conv1d(
    x_ptr, w_ptr, y_ptr, N, W, C, K, M, S: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    x = tl.make_im2col_descriptor(x_ptr, [N, W, C], [W * C, C, 1], [BM, BK], [0], [1 - S])
    w = tl.make_tensor_descriptor(w_ptr, [S * C, K], [K, 1], [BK, BN])
    y = tl.make_tensor_descriptor(y_ptr, [M, K], [K, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(S * tl.cdiv(C, BK)):
        s, c = k % S, k // S * BK
        total = tl.dot(x.load([row, c], [s]), w.load([s * C + c, column]), total)
    y.store([row, column], total.to(y.dtype))


def convolution(
    x: np.ndarray, w: np.ndarray, r: int, s: int, pad: int, step: int, dilation: int
) -> np.ndarray:
    n, height, width, c = x.shape
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))).astype(np.float32)
    rows = (height + 2 * pad - (r - 1) * dilation - 1) // step + 1
    columns = (width + 2 * pad - (s - 1) * dilation - 1) // step + 1
    filters = w.reshape(r, s, c, -1).astype(np.float32)
    result = np.zeros((n, rows, columns, filters.shape[-1]), np.float32)
    for i, j in np.ndindex(r, s):
        pixels = padded[:, i * dilation :, j * dilation :][:, ::step, ::step]
        result += pixels[:, :rows, :columns] @ filters[i, j]
    return result.reshape(-1, filters.shape[-1])


GEOMETRIES = [
    (3, 3, 1, 1, 1),
    (3, 3, 1, 2, 1),
    (1, 1, 0, 2, 1),
    (3, 2, 2, 3, 2),
    (2, 2, 0, 1, 1),
]
SIGNATURE = dict.fromkeys(("x_ptr", "w_ptr", "y_ptr"), "*fp16:16")
SIGNATURE |= {**dict.fromkeys("NHW", "i32"), "C": "i32:8", "K": "i32:8", "M": "i32"}


def case(geometry: tuple[int, ...], c: int = 40, k: int = 24, **constants: Any) -> Kernel:
    r, s = geometry[:2]
    shape = (2, 7, 9, c)

    def arguments() -> list[Any]:
        x = numbers(*shape, dtype=np.int8).astype(np.float16) % 5
        w = numbers(r * s * c, k, dtype=np.int8, seed=1).astype(np.float16) % 3
        m = len(convolution(x, w, *geometry))
        return [x, w, np.zeros((m, k), np.float16), *map(np.int32, (*shape, k, m))]

    names = ("R", "S", "PAD", "STEP", "DILATION")
    blocks = {"BM": 64, "BN": 32, "BK": 32} | constants
    sizes = dict(zip(names, geometry, strict=True)) | blocks
    programs = tile.cdiv(int(arguments()[-1]), blocks["BM"])
    return Kernel(conv2d, SIGNATURE, sizes, (programs, 1, 1), arguments)


def count(module: Module, *names: str) -> int:
    return sum(op.name in names for op in module.walk())


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_convolutions(geometry: tuple[int, ...]) -> None:
    kernel = case(geometry)
    module = lowered(kernel, WGMMA, 4, 3)
    assert count(module, "tma_load_im2col") == count(module, "tma_load") == 3
    assert not count(module, "load", "shared_cp_async")
    arguments = kernel.arguments()
    run_threads(module, WGMMA, 4, kernel.grid, arguments)
    x, w, y, *_ = arguments
    np.testing.assert_array_equal(y.astype(np.float32), convolution(x, w, *geometry))


@pytest.mark.parametrize("stages", [2, 3])
def test_everything_is_needed(stages: int) -> None:
    """Seven iterations, of which the last uses memory that the result goes through."""
    kernel = case((1, 7, 1, 1, 1), c=24)
    module = lowered(kernel, WGMMA, 4, stages)
    for removed, broken in without_each(module):
        with pytest.raises(FAULTS[removed.defn]):
            run_threads(broken, WGMMA, 4, kernel.grid, kernel.arguments())
    broken = module.clone()
    next(op for op in broken.walk() if op.defn is ops.tma.tma_load_im2col).erase()
    with pytest.raises(MbarrierError):
        run_threads(broken, WGMMA, 4, kernel.grid, kernel.arguments())


def test_a_producer_issues_the_loads() -> None:
    kernel = case(GEOMETRIES[1], WS=True)
    module = lowered(kernel, WGMMA, 4, 3)
    assert count(module, "warp_specialize") == count(module, "tma_load_im2col") == 1
    arguments = kernel.arguments()
    run_threads(module, WGMMA, 4, kernel.grid, arguments)
    x, w, y, *_ = arguments
    np.testing.assert_array_equal(y.astype(np.float32), convolution(x, w, *GEOMETRIES[1]))


def test_one_spatial_axis() -> None:
    n, width, c, k, s = 3, 50, 48, 32, 3
    x = numbers(n, width, c, dtype=np.int8).astype(np.float16) % 5
    w = numbers(s * c, k, dtype=np.int8, seed=1).astype(np.float16) % 3
    y = np.zeros((n * (width - s + 1), k), np.float16)
    with tile.backend("interp:wgmma"):
        kernel = conv1d[(tile.cdiv(len(y), 64),)](
            x, w, y, n, width, c, k, len(y), s, BM=64, BN=32, BK=32
        )
    assert "tma_load_im2col" in kernel.asm["thread"]
    wanted = convolution(x[:, None], w, 1, s, 0, 1, 1)
    np.testing.assert_array_equal(y.astype(np.float32), wanted)


LOAD = "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(("depth", "strips"), [(64, 1), (128, 2)])
def test_ptx(depth: int, strips: int) -> None:
    """Threads compute no address of a pixel; without TMA they copy."""
    kernel = case(GEOMETRIES[1], BM=128, BN=64, BK=depth)
    older = kernel.compile("nvptx:sm_80", num_stages=2).artifact.stages["ptx"]
    assert ".im2col" not in older and "cp.async.cg" in older
    artifact = kernel.compile("nvptx:sm_90a", num_stages=2).artifact
    ptx = artifact.stages["ptx"]
    assert ptx.count(LOAD) == 2 * strips and "cp.async.cg" not in ptx
    assemble(ptx, "sm_90a")
    (images,) = [each for each in LaunchMetadata.of(artifact.launch_metadata).maps if each.window]
    assert images.window == ((-1, -1), (-1, -1), (2, 2)) and images.box_dim == (128, 64)
    assert images.extents == tuple(LaunchValue((at,), 1, 32) for at in range(3, 7))


@tile.jit
def copied(x_ptr, y_ptr, N, W, C, BM: tl.constexpr, BK: tl.constexpr):
    x = tl.make_im2col_descriptor(x_ptr, [N, W, C], [W * C, C, 1], [BM, BK], [0], [0])
    y = tl.make_tensor_descriptor(y_ptr, [N * W, C], [C, 1], [BM, BK])
    y.store([0, 0], x.load([0, 0], [0]))


def test_a_load_without_a_dot() -> None:
    """It is done by threads, without a warning: TMA could do it."""
    signature = {"x_ptr": "*fp16:16", "y_ptr": "*fp16:16", **dict.fromkeys("NWC", "i32:8")}
    sizes = {"BM": 64, "BK": 32}
    module = tile.compile(copied, signature, sizes, {}, "interp").artifact.module.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lower(module, WGMMA, num_warps=4)
    assert not count(module, "tma_load_im2col")


@pytest.mark.parametrize(
    ("geometry", "constants", "reason"),
    [
        ((1, 1, 200, 1, 1), {}, r"its lower corner is \(-200, -200\), and TMA takes -128 to 127"),
        ((2, 2, 0, 1, 129), {}, r"its upper corner is \(-129, -129\), and TMA takes -128 to 127"),
        ((1, 1, 0, 9, 1), {}, r"its element strides are \(9, 9\), and TMA takes 1 to 8"),
        ((1, 1, 0, 1, 1), {"BM": 2048}, "its block has 2048 pixels, and TMA copies up to 1024"),
    ],
)
def test_beyond_the_limits_of_tma(
    geometry: tuple[int, ...], constants: dict[str, int], reason: str
) -> None:
    """Threads copy, and a warning says why on targets that have TMA."""
    sizes = dict(zip(("R", "S", "PAD", "STEP", "DILATION"), geometry, strict=True))
    sizes |= {"BM": 64, "BN": 16, "BK": 16} | constants
    module = tile.compile(conv2d, SIGNATURE, sizes, {}, "interp").artifact.module
    warps = 4 if sizes["BM"] == 64 else 32
    copied = module.clone()
    with pytest.warns(RuntimeWarning, match=reason) as caught:
        lower(copied, WGMMA, num_warps=warps, num_stages=2)
    assert not count(copied, "tma_load_im2col")
    assert all("test_tma_im2col.py" in each.filename for each in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lower(module.clone(), MMA, num_warps=warps, num_stages=2)
