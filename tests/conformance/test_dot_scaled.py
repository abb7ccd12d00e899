"""`tl.dot_scaled` against the dot of the numbers that its operands encode, in f64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.running import Device

Array = np.ndarray[Any, Any]

M, N, K = 16, 32, 64
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
DTYPES: dict[str, Any] = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
}
POINTERS = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "bf16": "*bf16", "fp16": "*fp16"}
GROUPS = {None: 32, "e8m0": 32, "e4m3": 16}


@tile.jit
def load(ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    return tl.load(ptr + i)


@tile.jit
def multiply(
    a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, FORMATS: tl.constexpr, SHAPES: tl.constexpr,
    GROUPS: tl.constexpr, PACKED: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    a = load(a_ptr, SHAPES[0][0], SHAPES[0][1])
    b = load(b_ptr, SHAPES[1][0], SHAPES[1][1])
    sa = sb = None
    if GROUPS[0]:
        sa = load(sa_ptr, 16, GROUPS[0])
    if GROUPS[1]:
        sb = load(sb_ptr, 32, GROUPS[1])
    i = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    acc = tl.load(c_ptr + i)
    acc = tl.dot_scaled(
        a, sa, FORMATS[0], b, sb, FORMATS[1], acc, FAST, PACKED[0], PACKED[1]
    )  # fmt: skip
    tl.store(c_ptr + i, acc)


@tile.jit
def accumulate(
    a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr, count, K: tl.constexpr, SIZE: tl.constexpr,
    FORMAT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Multiply matrices of mxfp4 by others, in blocks of 64 along K; elements of both by rows."""
    i = tl.arange(0, SIZE)
    a = a_ptr + i[:, None] * (K // 2) + tl.arange(0, 32)[None, :]
    b = b_ptr + i[None, :] * (K // WIDTH) + tl.arange(0, 64 // WIDTH)[:, None]
    scale = i[:, None] * (K // 32) + tl.arange(0, 2)[None, :]
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for block in range(count):
        sa, sb = tl.load(sa_ptr + scale + 2 * block), tl.load(sb_ptr + scale + 2 * block)
        acc = tl.dot_scaled(tl.load(a), sa, "e2m1", tl.load(b), sb, FORMAT, acc)
        a += 32
        b += 64 // WIDTH
    tl.store(c_ptr + i[:, None] * SIZE + i[None, :], acc)


@tile.jit
def batched(a_ptr, sa_ptr, b_ptr, c_ptr):
    """Multiply two pairs of matrices: 16 x 64 of mxfp4 by 64 x 16 of e5m2, without scales."""
    p = tl.arange(0, 2)[:, None, None]
    row, column = tl.arange(0, 16)[None, :, None], tl.arange(0, 16)[None, None, :]
    a = tl.load(a_ptr + p * 512 + row * 32 + tl.arange(0, 32)[None, None, :])
    sa = tl.load(sa_ptr + p * 32 + row * 2 + tl.arange(0, 2)[None, None, :])
    b = tl.load(b_ptr + p * 1024 + tl.arange(0, 64)[None, :, None] * 16 + column)
    c = tl.dot_scaled(a, sa, "e2m1", b, None, "e5m2")
    tl.store(c_ptr + p * 256 + row * 16 + column, c)


@dataclass(frozen=True)
class Side:
    """An operand: its elements, the numbers that they and the scales encode, and the scales."""

    elements: Array
    numbers: Array
    scales: Array


def side(
    rng: Any, rows: int, form: str, scaled: str | None, k_pack: bool, left: bool, K: int = K
) -> Side:  # fmt: skip
    """Return a random operand; its arrays are rows x K, and K x rows for the right one."""
    if form == "e2m1":
        codes = rng.integers(0, 16, (rows, K), np.uint8)
        numbers = np.where(codes & 8, -1.0, 1.0) * E2M1[codes & 7]
        if k_pack:
            elements = codes[:, ::2] | codes[:, 1::2] << 4
        else:
            elements = codes[::2] | codes[1::2] << 4
    else:
        elements = rng.uniform(-4, 4, (rows, K)).astype(DTYPES[form])
        numbers = elements.astype(np.float64)
    group = GROUPS[scaled]
    if scaled == "e4m3":
        scales = rng.uniform(0.25, 4, (rows, K // group)).astype(DTYPES["e4m3"])
        ratios = scales.astype(np.float64)
    else:
        scales = rng.integers(120, 135, (rows, K // group), np.uint8)
        ratios = 2.0 ** (scales.astype(np.float64) - 127)
    if scaled is not None:
        numbers = numbers * np.repeat(ratios, group, axis=1)
    if not left:
        elements = np.ascontiguousarray(elements.T)
    return Side(elements, numbers, scales)


def run(
    device: Device, left: Side, right: Side, forms: tuple[str, str],
    scaled: tuple[str | None, str | None], packed: tuple[bool, bool] = (True, True),
    fast: bool = False,
) -> Array:  # fmt: skip
    """Return the kernel's result, onto ones."""
    types = {name: POINTERS[form] for name, form in zip(("a_ptr", "b_ptr"), forms, strict=True)}
    for name, scale in zip(("sa_ptr", "sb_ptr"), scaled, strict=True):
        types[name] = "*fp8e4nv" if scale == "e4m3" else "*u8"
    both = (left, right)
    constants = {
        "FORMATS": forms,
        "SHAPES": tuple(x.elements.shape for x in both),
        "GROUPS": tuple(K // GROUPS[s] if s else 0 for s in scaled),
        "PACKED": packed,
        "FAST": fast,
    }
    kernel = compiled(multiply, device, types | {"c_ptr": "*fp32"}, **constants)
    out = np.ones((M, N), np.float32)
    kernel[1,](left.elements, right.elements, left.scales, right.scales, out)
    return out


CASES: list[tuple[tuple[str, str], tuple[str | None, str | None], tuple[bool, bool]]] = [
    (("e2m1", "e2m1"), ("e8m0", "e8m0"), (True, True)),
    (("e2m1", "e2m1"), ("e4m3", "e4m3"), (True, True)),
    (("e2m1", "e2m1"), ("e8m0", "e8m0"), (False, False)),
    (("e4m3", "e5m2"), ("e8m0", "e8m0"), (True, True)),
    (("e5m2", "e4m3"), (None, None), (True, True)),
    (("e4m3", "e2m1"), (None, "e8m0"), (True, False)),
    (("bf16", "e2m1"), (None, "e8m0"), (True, True)),
    (("e2m1", "bf16"), ("e8m0", None), (True, True)),
    (("fp16", "e2m1"), (None, "e4m3"), (True, True)),
    (("e5m2", "fp16"), ("e8m0", None), (True, True)),
    (("bf16", "bf16"), (None, None), (True, True)),
]


@pytest.mark.parametrize(("forms", "scaled", "packed"), CASES)
def test_dots_of_scaled_operands(
    device: Device,
    forms: tuple[str, str],
    scaled: tuple[str | None, str | None],
    packed: tuple[bool, bool],
) -> None:
    """Numbers are exact in bf16 or f16, and what they multiply to in f32; sums are rounded at most K times."""
    rng = np.random.default_rng(len(forms[0]) + K)
    left = side(rng, M, forms[0], scaled[0], packed[0], left=True)
    right = side(rng, N, forms[1], scaled[1], packed[1], left=False)
    out = run(device, left, right, forms, scaled, packed)
    expected = 1 + left.numbers @ right.numbers.T
    bound = (K + 1) * 2.0**-23 * (1 + np.abs(left.numbers) @ np.abs(right.numbers).T)
    assert (np.abs(out - expected) <= bound).all()


def compiled(function: Any, device: Device, types: dict[str, str], **constants: Any) -> Any:
    options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    return tile.compile(function, types, constants, options, device.target)


def assert_dots(actual: Array, left: Array, right: Array) -> None:
    """The bound is that of sums over K, the last axis of both operands."""
    expected = left @ np.swapaxes(right, -1, -2)
    total = np.abs(left) @ np.abs(np.swapaxes(right, -1, -2))
    assert (np.abs(actual - expected) <= left.shape[-1] * 2.0**-23 * total).all()


@pytest.mark.parametrize("form", ["e2m1", "e4m3"])
def test_a_loop_over_blocks(device: Device, form: str) -> None:
    """The operands are large enough for all instructions, and loaded ahead."""
    rng, size, depth = np.random.default_rng(7), 64, 192
    left = side(rng, size, "e2m1", "e8m0", True, left=True, K=depth)
    right = side(rng, size, form, "e8m0", True, left=True, K=depth)
    types = {"a_ptr": "*u8:16", "sa_ptr": "*u8", "b_ptr": f"{POINTERS[form]}:16", "sb_ptr": "*u8"}
    types |= {"c_ptr": "*fp32", "count": "i32"}
    width = 2 if form == "e2m1" else 1
    kernel = compiled(accumulate, device, types, K=depth, SIZE=size, FORMAT=form, WIDTH=width)
    out = np.zeros((size, size), np.float32)
    kernel[1,](left.elements, left.scales, right.elements, right.scales, out, depth // 64)
    assert_dots(out, left.numbers, right.numbers)


def test_a_batch(device: Device) -> None:
    rng = np.random.default_rng(8)
    left = [side(rng, 16, "e2m1", "e8m0", True, left=True) for _ in range(2)]
    right = [side(rng, 16, "e5m2", None, True, left=False) for _ in range(2)]
    types = {"a_ptr": "*u8", "sa_ptr": "*u8", "b_ptr": "*fp8e5", "c_ptr": "*fp32"}
    out = np.zeros((2, 16, 16), np.float32)
    arrays = (
        np.stack([x.elements for x in left]),
        np.stack([x.scales for x in left]),
        np.stack([x.elements for x in right]),
    )
    compiled(batched, device, types)[1,](*arrays, out)
    assert_dots(out, *(np.stack([x.numbers for x in both]) for both in (left, right)))


@pytest.mark.parametrize("form", ["e2m1", "fp16"])
def test_a_scale_of_nan(device: Device, form: str) -> None:
    """A scale of 255 makes NaN of the row to which it belongs, and of no other."""
    rng = np.random.default_rng(5)
    left = side(rng, M, form, "e8m0", True, left=True)
    right = side(rng, N, "e4m3", None, True, left=False)
    left.scales[3, 1] = 0xFF
    out = run(device, left, right, (form, "e4m3"), ("e8m0", None))
    assert np.isnan(out[3]).all() and np.isfinite(np.delete(out, 3, 0)).all()


def test_fast_math_changes_no_number(device: Device) -> None:
    rng = np.random.default_rng(6)
    left = side(rng, M, "e2m1", "e8m0", True, left=True)
    right = side(rng, N, "e2m1", "e8m0", True, left=False)
    both = [
        run(device, left, right, ("e2m1", "e2m1"), ("e8m0", "e8m0"), fast=fast)
        for fast in (False, True)
    ]
    np.testing.assert_array_equal(*both)
