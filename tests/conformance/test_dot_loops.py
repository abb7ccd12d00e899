"""Dots in loops, of operands whose rows or columns lie together in memory."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.bounds import of_dots
from tests.conformance.running import Device, assert_close, assert_within
from tests.conformance.values import random_array
from tile.ir import semantics
from tile.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, I8, I32, U8, Precision, Scalar, Tile
from tile.runtime.signature import ALIASES

ITERATIONS = 4  # of the loop, each of which goes on by a depth
DEPTH = 64


def extents(device: Device) -> tuple[int, int, int]:
    """Rows, columns and depth: what instructions for whole warps take.

    A simulator, which would be at one dot for ten seconds and has no such instructions, gets a
    quarter of it, in as many rounds; a barrier more or less is all that differs for some.
    """
    return (32, 32, DEPTH // 2) if "oclgrind" in device.target else (64, 32, DEPTH)


@tile.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    DEPTH: tl.constexpr,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
    PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    COMPUTED: tl.constexpr,
):
    row, column, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, DEPTH)
    total = tl.load(c_ptr + row * N + column)
    for start in range(0, K, DEPTH):
        k = start + inner
        left = k[None, :] * M + row if A_TRANSPOSED else row * K + k[None, :]
        right = column * K + k[:, None] if B_TRANSPOSED else k[:, None] * N + column
        a = tl.load(a_ptr + left)
        if COMPUTED:
            a = a + 1
        b = tl.load(b_ptr + right)
        total = tl.dot(a, b, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
    tl.store(c_ptr + row * N + column, total)


@tile.jit
def carried(
    a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DEPTH: tl.constexpr
):
    """The right operand is that of the iteration before."""
    row, column, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, DEPTH)
    total = tl.zeros((M, N), dtype=tl.float32)
    b = tl.load(b_ptr + inner[:, None] * N + column)
    for start in range(0, K, DEPTH):
        a = tl.load(a_ptr + row * K + start + inner[None, :])
        total = tl.dot(a, b, total)
        b = tl.load(b_ptr + (start + inner[:, None]) * N + column)
    tl.store(c_ptr + row * N + column, total)


@tile.jit
def jumping(
    a_ptr, b_ptr, c_ptr, blocks_ptr, K, M: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr
):
    """The loop loads which block comes next, for the operands' addresses and a weight."""
    row, column, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, DEPTH)
    total = tl.zeros((M, N), dtype=tl.float32)
    block = tl.load(blocks_ptr)
    for start in range(0, K, DEPTH):
        k = block * DEPTH + inner
        a, b = tl.load(a_ptr + row * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + column)
        total += tl.dot(a, b) * (1 + block % 2)
        block = tl.load(blocks_ptr + start // DEPTH + 1, mask=start + DEPTH < K, other=0)
    tl.store(c_ptr + row * N + column, total)


@tile.jit
def filled(
    a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DEPTH: tl.constexpr
):
    """Threads load the left operand, by columns and with ones in masked rows, and scale the right one."""
    row, column, inner = tl.arange(0, M), tl.arange(0, N)[None, :], tl.arange(0, DEPTH)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, DEPTH):
        k = start + inner
        mask = (row < M - 3)[None, :] & (k >= 0)[:, None]
        a = tl.trans(tl.load(a_ptr + k[:, None] * M + row[None, :], mask=mask, other=1.0))
        b = tl.load(b_ptr + k[:, None] * N + column) * tl.load(b_ptr + k)[:, None]
        total = tl.dot(a, b, total, input_precision="tf32")
    tl.store(c_ptr + row[:, None] * N + column, total)


def of_small_numbers(
    kernel: Any, types: dict[str, str], device: Device, dtype: type[np.floating[Any]]
) -> tuple[Any, Any, Any]:
    """Operands of small whole numbers, whose product is exact, and what the kernel makes of them."""
    rng = np.random.default_rng(3)
    M, N, depth = extents(device)
    K = depth * ITERATIONS
    a = rng.integers(-4, 5, (M, K)).astype(dtype)
    b = rng.integers(-4, 5, (K, N)).astype(dtype)
    c = np.zeros((M, N), np.float32)
    constants = {"M": M, "N": N, "K": K, "DEPTH": depth}
    options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    tile.compile(kernel, types, constants, options, device.target)[1,](a, b, c)
    return a, b, c


def test_a_loop_carried_operand(device: Device) -> None:
    types = {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp32:16"}
    a, b, c = of_small_numbers(carried, types, device, np.float16)
    depth = len(b) // ITERATIONS
    before = np.concatenate([b[:depth], b[:-depth]]).astype(np.float32)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ before)


def test_an_operand_that_is_rounded_in_registers(device: Device) -> None:
    """A dot that stays in flight is waited for before the next one rounds its operand to tf32."""
    types = {"a_ptr": "*fp32:16", "b_ptr": "*fp32:16", "c_ptr": "*fp32:16"}
    a, b, c = of_small_numbers(filled, types, device, np.float32)
    left = a.reshape(len(b), len(a)).T.copy()
    left[-3:] = 1
    np.testing.assert_array_equal(c, left @ (b * b.ravel()[: len(b), None]))


def test_operands_at_loaded_blocks(device: Device) -> None:
    """Copies are as early as the loads of their blocks, which are for other iterations, too."""
    rng = np.random.default_rng(3)
    M, N, depth = extents(device)
    order = np.array([2, 0, 3, 1, 1], np.int32)
    K = depth * len(order)
    a = rng.integers(-4, 5, (M, K)).astype(np.float16)
    b = rng.integers(-4, 5, (K, N)).astype(np.float16)
    c = np.zeros((M, N), np.float32)
    types = {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp32:16"}
    types |= {"blocks_ptr": "*i32:16", "K": "i32:16"}
    options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    constants = {"M": M, "N": N, "DEPTH": depth}
    tile.compile(jumping, types, constants, options, device.target)[1,](a, b, c, order, K)
    pairs = [
        (a[:, part], b[part], 1 + block % 2)
        for block in order.tolist()
        for part in [slice(block * depth, (block + 1) * depth)]
    ]
    np.testing.assert_array_equal(
        c, sum(x.astype(np.float32) @ y.astype(np.float32) * weight for x, y, weight in pairs)
    )


@tile.jit
def hinted(
    a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DEPTH: tl.constexpr
):
    """Operands that are asked to stay in a cache, or to leave it early."""
    row, column, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, DEPTH)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, DEPTH):
        k = start + inner
        a = tl.load(a_ptr + row * K + k[None, :], eviction_policy="evict_last")
        b = tl.load(b_ptr + k[:, None] * N + column, eviction_policy="evict_first")
        total = tl.dot(a, b, total)
    tl.store(c_ptr + row * N + column, total)


@pytest.mark.parametrize("pointer", ["*fp32:16", "*fp32"], ids=["aligned", "any"])
def test_operands_with_eviction_policies(device: Device, pointer: str) -> None:
    types = {f"{name}_ptr": pointer for name in "abc"}
    a, b, c = of_small_numbers(hinted, types, device, np.float32)
    np.testing.assert_array_equal(c, a @ b)


# What is multiplied, into what, and how.
KINDS: tuple[tuple[Scalar, Scalar, Scalar, str, int], ...] = (
    (F16, F16, F32, "ieee", 0),
    (F16, F16, F16, "ieee", 0),
    (BF16, BF16, F32, "ieee", 0),
    (F32, F32, F32, "tf32", 0),
    (F32, F32, F32, "tf32x3", 0),
    (I8, I8, I32, "ieee", 0),
    (U8, U8, I32, "ieee", 0),
    (F8E4M3, F8E5M2, F32, "ieee", 0),
    (F8E4M3, F8E5M2, F16, "ieee", 0),
    (F8E5M2, F8E4M3, F32, "ieee", DEPTH),
    (F8E4M3, F8E4M3, F32, "ieee", 1 << 30),
    (F8E5M2, F8E5M2, F32, "ieee", DEPTH // 2),
)
NAMES = {ty: name for name, ty in ALIASES.items()}


def name(kind: Any) -> str:
    return "-".join(map(str, kind))


@pytest.mark.parametrize("computed", [False, True], ids=["loaded", "computed"])
@pytest.mark.parametrize("kind", KINDS, ids=name)
def test_dots_of_operands_in_every_order(
    device: Device, kind: tuple[Scalar, Scalar, Scalar, str, int], computed: bool
) -> None:
    """With `computed`, the left operand is not what the loop loads."""
    if computed and kind[0] in (F8E4M3, F8E5M2):
        pytest.skip("there is no arithmetic on 8-bit floats")
    M, N, depth = extents(device)
    multiply_in_every_order(device, kind, computed, M, N, depth)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0] is F32], ids=name)
def test_dots_of_several_tiles_of_a_warpgroup(
    device: Device, kind: tuple[Scalar, Scalar, Scalar, str, int]
) -> None:
    """The next iteration may write a tile read from registers once all tiles have read it."""
    M, N, depth = extents(device)
    multiply_in_every_order(device, kind, False, 2 * M, 2 * N, depth)


def multiply_in_every_order(
    device: Device,
    kind: tuple[Scalar, Scalar, Scalar, str, int],
    computed: bool,
    M: int,
    N: int,
    depth: int,
) -> None:
    """Multiply M x K by K x N elements, K = depth * ITERATIONS, stored by rows and by columns."""
    left, right, into, precision, imprecise = kind
    K = depth * ITERATIONS
    imprecise = imprecise * depth // DEPTH
    for a_transposed, b_transposed in itertools.product((False, True), repeat=2):
        rng = np.random.default_rng(7)
        shapes = ((M, K), (K, N), (M, N))
        a, b, c = (
            random_array(rng, element, rows * columns, (-4.0, 4.0), special=False)
            for element, (rows, columns) in zip((left, right, into), shapes, strict=True)
        )
        constants = {
            "M": M, "N": N, "K": K, "DEPTH": depth, "A_TRANSPOSED": a_transposed, "B_TRANSPOSED": b_transposed,
            "PRECISION": precision, "IMPRECISE": imprecise, "COMPUTED": computed,
        }  # fmt: skip
        types = {f"{x}_ptr": f"*{NAMES[ty]}:16" for x, ty in zip("abc", kind[:3], strict=True)}
        options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
        compiled = tile.compile(matmul, types, constants, options, device.target)
        actual = c.copy()
        compiled[1,](a.copy(), b.copy(), actual)
        with semantics.quiet():
            x = a + a.dtype.type(computed) if computed else a
            x = (x.reshape(K, M).T if a_transposed else x.reshape(M, K))[None]
            y = (b.reshape(N, K).T if b_transposed else b.reshape(K, N))[None]
            wanted = semantics.dot(x, y, c.reshape(1, M, N), precision).ravel()
        what = f"{name(kind)} {a_transposed=} {b_transposed=}"
        bound = of_dots(
            Tile((M, K), left),
            Tile((K, N), right),
            into,
            Precision(precision),
            imprecise=imprecise > 0,
        )
        if bound is None:
            assert_close(actual, wanted, 0, what)
        else:
            assert_within(actual, wanted, bound((x, y, c), wanted), what)
