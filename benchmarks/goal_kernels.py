"""Kernels of `goals.py`, one source for two compilers as in `gpu_kernels.py`."""

from __future__ import annotations

import os

from compiler_peers import kernels_of

if os.environ.get("TILE_PEER") == "triton":
    import triton as compiler
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.tools.tensor_descriptor import TensorDescriptor
else:
    import tile as compiler
    import tile.language as tl
    from tile.language.extra import libdevice

    TensorDescriptor = compiler.TensorDescriptor

__all__ = ["TensorDescriptor"]

jit = compiler.jit
_shared = kernels_of(os.environ.get("TILE_PEER", "tile"))
sums_of_tile, store_tile = _shared.sums_of_tile, _shared.store_tile


@jit
def gelu(x):
    # By tanh, of which the instruction is within 2 ** -11, as results of float16 are.
    tanh = libdevice.fast_tanhf(x * (0.7978845608 + 0.0356774081 * x * x))
    half = 0.5 * x
    return half + half * tanh


@jit
def pointer_tile(
    number, a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    B_BY_COLUMNS: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
    SUMS: tl.constexpr, GELU: tl.constexpr,
):  # fmt: skip
    total, tile_row, tile_column = sums_of_tile(
        number, a_ptr, b_ptr, M, N, K, BM, BN, BK, GROUP, SUMS, B_BY_COLUMNS, PRECISION, IMPRECISE
    )
    if GELU:
        column = tile_column * BN + tl.arange(0, BN)
        total = gelu(total + tl.load(bias_ptr + column % N)[None, :])
    store_tile(c_ptr, total, tile_row, tile_column, M, N, BM, BN)


@jit
def pointers_kernel(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    B_BY_COLUMNS: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
    SUMS: tl.constexpr, GELU: tl.constexpr, PERSISTENT: tl.constexpr,
):  # fmt: skip
    if PERSISTENT:
        for number in tl.range(
            tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)
        ):
            pointer_tile(
                number, a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BM, BN, BK, GROUP, B_BY_COLUMNS,
                PRECISION, IMPRECISE, SUMS, GELU,
            )  # fmt: skip
    else:
        pointer_tile(
            tl.program_id(0), a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BM, BN, BK, GROUP,
            B_BY_COLUMNS, PRECISION, IMPRECISE, SUMS, GELU,
        )  # fmt: skip


@jit
def column_parts(x, COLUMNS: tl.constexpr):
    """Return the first columns of a tile, as tiles of the powers of two of `COLUMNS`."""
    parts = ()
    for bit in tl.static_range(x.shape[1].bit_length() - 2, -1, -1):
        if COLUMNS % (2 << bit) != 0:
            low, high = tl.split(x.reshape(x.shape[0], 2, 1 << bit).permute(0, 2, 1))
            if COLUMNS >> bit & 1:
                parts += (low,)
                x = high
            else:
                x = low
    return parts if len(parts) > 0 else (x,)


@jit
def columns_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    IMPRECISE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """B by columns, several tiles a program: the first BN of COLUMNS columns, a power of two."""
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    inner = tl.arange(0, BK)
    for number in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0)):
        first = number // (GROUP * columns) * GROUP
        height = min(rows - first, GROUP)
        tile_row = first + number % (GROUP * columns) % height
        tile_column = number % (GROUP * columns) // height
        # Non-negative dividends let the compiler prove that the remainders are contiguous.
        tl.assume(tile_row >= 0)
        tl.assume(tile_column >= 0)
        row = tile_row * BM + tl.arange(0, BM)
        column = tile_column * BN + tl.arange(0, COLUMNS)
        a_ptrs = a_ptr + (row % M)[:, None] * K + inner[None, :]
        b_ptrs = b_ptr + inner[:, None] + (column % N)[None, :] * K
        total = tl.zeros((BM, COLUMNS), dtype=tl.float32)
        for k in range(0, K, BK):
            a = tl.load(a_ptrs, mask=inner[None, :] < K - k, other=0.0)
            b = tl.load(b_ptrs, mask=inner[:, None] < K - k, other=0.0)
            total = tl.dot(a, b, total, max_num_imprecise_acc=IMPRECISE)
            a_ptrs += BK
            b_ptrs += BK
        first = tile_column * BN
        parts = column_parts(total, BN)
        for i in tl.static_range(len(parts)):
            part = first + tl.arange(0, parts[i].shape[1])
            mask = (row[:, None] < M) & (part[None, :] < N)
            c_ptrs = c_ptr + row[:, None] * N + part[None, :]
            tl.store(c_ptrs, parts[i].to(c_ptr.dtype.element_ty), mask=mask)
            first += parts[i].shape[1]


@jit
def descriptors_kernel(
    a, b, bias_ptr, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    IMPRECISE: tl.constexpr, B_BY_COLUMNS: tl.constexpr, GELU: tl.constexpr,
):  # fmt: skip
    """Several tiles a program, by descriptors."""
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for number in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0)):
        first = number // (GROUP * columns) * GROUP
        height = min(rows - first, GROUP)
        row = (first + number % (GROUP * columns) % height) * BM
        column = number % (GROUP * columns) // height * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            x = a.load([row, k])
            y = b.load([column, k]).trans() if B_BY_COLUMNS else b.load([k, column])
            total = tl.dot(x, y, total, max_num_imprecise_acc=IMPRECISE)
        if GELU:
            total = gelu(total + tl.load(bias_ptr + column + tl.arange(0, BN))[None, :])
        c.store([row, column], total.to(c.dtype))


@jit
def block_scaled_kernel(
    a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """fp8, B by columns; scales of 1 x 128 elements of A (M x K / 128) and 128 x 128 of B."""
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = program // (GROUP * tiles_n) * GROUP
    group = min(tiles_m - first, GROUP)
    tile_row = first + program % (GROUP * tiles_n) % group
    tile_column = program % (GROUP * tiles_n) // group
    tl.assume(tile_row >= 0)
    tl.assume(tile_column >= 0)
    rows = (tile_row * BM + tl.arange(0, BM)) % M
    columns = (tile_column * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] + columns[None, :] * K
    steps = tl.cdiv(K, BK)
    a_scales = a_scale_ptr + rows * steps
    b_scales = b_scale_ptr + tile_column * BN // BK
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(steps):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        scale = tl.load(a_scales + k) * tl.load(b_scales + k * tl.cdiv(N, BK))
        total += tl.dot(a, b) * scale[:, None]
        a_ptrs += BK
        b_ptrs += BK
    row = tile_row * BM + tl.arange(0, BM)
    column = tile_column * BN + tl.arange(0, BN)
    mask = (row[:, None] < M) & (column[None, :] < N)
    out = total.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + row[:, None] * N + column[None, :], out, mask=mask)


@jit
def convolution_kernel(
    x_ptr, w_ptr, y_ptr, pixels, H, W, P, Q, FILTERS, PAD_R, PAD_S,
    R: tl.constexpr, S: tl.constexpr, C: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """NHWC, filters FILTERS x R x S x C: pixels by rows, filters by columns.

    Programs of the same pixels are adjacent.
    """
    pixel = tl.program_id(1) * BM + tl.arange(0, BM)
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    image = pixel // (P * Q)
    row, at = pixel % (P * Q) // Q - PAD_R, pixel % Q - PAD_S
    inside = pixel < pixels
    x_pixel = x_ptr + ((image * H + row) * W + at) * C
    w_filter = w_ptr + column * (R * S * C)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, R * S * C, BK):
        if C % BK == 0:
            tap = first // C
            i, j, c = tap // S, tap % S, first % C + tl.arange(0, BK)
            good = inside & (row + i >= 0) & (row + i < H) & (at + j >= 0) & (at + j < W)
            x = tl.load(x_pixel[:, None] + (i * W + j) * C + c[None, :], good[:, None], 0.0)
            w = tl.load(
                w_filter[None, :] + first + tl.arange(0, BK)[:, None],
                (column < FILTERS)[None, :], 0.0,
            )  # fmt: skip
        else:
            inner = first + tl.arange(0, BK)
            i, j, c = inner // (S * C), inner // C % S, inner % C
            h, v = row[:, None] + i[None, :], at[:, None] + j[None, :]
            good = (h >= 0) & (h < H) & (v >= 0) & (v < W)
            good = good & inside[:, None] & (inner < R * S * C)[None, :]
            x = tl.load(x_pixel[:, None] + ((i * W + j) * C + c)[None, :], good, 0.0)
            w = tl.load(
                w_filter[None, :] + inner[:, None],
                (column < FILTERS)[None, :] & (inner < R * S * C)[:, None], 0.0,
            )  # fmt: skip
        total = tl.dot(x, w, total)
    out = y_ptr + pixel[:, None] * FILTERS + column[None, :]
    tl.store(out, total.to(y_ptr.dtype.element_ty), inside[:, None] & (column < FILTERS)[None, :])


@jit
def cross_entropy_kernel(x_ptr, target_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """The loss of a row, in a loop over its blocks."""
    row = tl.program_id(0)
    x_row = x_ptr + row.to(tl.int64) * columns
    column = tl.arange(0, BLOCK)
    most = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        x = tl.load(x_row + start + column, start + column < columns, -float("inf"))
        x = x.to(tl.float32)
        greater = tl.maximum(most, tl.max(x, axis=0))
        total = total * tl.exp(most - greater) + tl.sum(tl.exp(x - greater), axis=0)
        most = greater
    chosen = tl.load(x_row + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(out_ptr + row, tl.log(total) + most - chosen)


@jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    keep = tl.rand(seed, at) > p
    tl.store(out_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=at < n)


@jit
def depthwise_kernel(
    x_ptr, w_ptr, y_ptr, pixels, H, W, C, R: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr
):
    """NHWC, R x R filters of C channels, padded by R // 2: pixels by rows, channels by columns."""
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    row, at = pixel // W % H, pixel % W
    total = tl.zeros((BM, BC), dtype=tl.float32)
    for i in tl.static_range(R):
        for j in tl.static_range(R):
            h, v = row + i - R // 2, at + j - R // 2
            good = (pixel < pixels) & (h >= 0) & (h < H) & (v >= 0) & (v < W)
            moved = pixel + (i - R // 2) * W + (j - R // 2)
            x = tl.load(x_ptr + moved[:, None] * C + c[None, :], good[:, None], 0.0)
            w = tl.load(w_ptr + (i * R + j) * C + c)
            total += x.to(tl.float32) * w.to(tl.float32)[None, :]
    out = total.to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + pixel[:, None] * C + c[None, :], out, (pixel < pixels)[:, None])
