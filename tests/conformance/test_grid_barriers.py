"""Loops with barriers: programs that wait for each other, and dots in loops and branches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.running import Device
from tile.errors import OutOfResourcesError


@tile.jit
def grid_barrier(arrived_ptr, goal, HOW: tl.constexpr):
    tl.debug_barrier()
    tl.atomic_add(arrived_ptr, 1, sem="release")
    if HOW == "cas":
        while tl.atomic_cas(arrived_ptr, 0, 0, sem="acquire") < goal:
            pass
    elif HOW == "add":
        while tl.atomic_add(arrived_ptr, 0, sem="acquire") < goal:
            pass
    elif HOW == "relaxed":
        while tl.atomic_add(arrived_ptr, 0, sem="relaxed") < goal:
            pass
        while tl.atomic_add(arrived_ptr, 0, sem="acquire") < goal:  # which ends at once
            pass
    tl.debug_barrier()


@tile.jit
def smooth(source_ptr, target_ptr, n, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    left = tl.load(source_ptr + i - 1, mask=(i > 0) & (i < n), other=0)
    right = tl.load(source_ptr + i + 1, mask=i < n - 1, other=0)
    x = left + tl.load(source_ptr + i, mask=i < n) + right
    tl.store(target_ptr + i, x, mask=i < n)


@tile.jit
def stencil(
    x_ptr,
    y_ptr,
    arrived_ptr,
    n,
    steps,
    SIZE: tl.constexpr,
    STEPS: tl.constexpr,
    LOOP: tl.constexpr,
    HOW: tl.constexpr,
):
    """Add to each element its neighbors, `steps` times."""
    programs = tl.num_programs(0)
    source, target = x_ptr, y_ptr
    if LOOP == "swap":
        for k in range(steps):
            smooth(source, target, n, SIZE)
            grid_barrier(arrived_ptr, (k + 1) * programs, HOW)
            source, target = target, source
    elif LOOP == "pair":
        for k in range(steps // 2):
            smooth(x_ptr, y_ptr, n, SIZE)
            grid_barrier(arrived_ptr, (2 * k + 1) * programs, HOW)
            smooth(y_ptr, x_ptr, n, SIZE)
            grid_barrier(arrived_ptr, (2 * k + 2) * programs, HOW)
    elif LOOP == "while":
        k = 0
        while k < steps:
            smooth(source, target, n, SIZE)
            k += 1
            grid_barrier(arrived_ptr, k * programs, HOW)
            source, target = target, source
    elif LOOP == "static":
        for k in tl.static_range(STEPS):
            smooth(source, target, n, SIZE)
            grid_barrier(arrived_ptr, (k + 1) * programs, HOW)
            source, target = target, source


@pytest.mark.parametrize("programs", [1, 2])
@pytest.mark.parametrize("how", ["cas", "add", "relaxed"])
@pytest.mark.parametrize("loop", ["swap", "pair", "while", "static"])
def test_persistent_stencil(device: Device, loop: str, how: str, programs: int) -> None:
    steps, size = 4, 64
    n = programs * size - 3
    pointers = {"x_ptr": "*u32", "y_ptr": "*u32", "arrived_ptr": "*i32"}
    kernel = compiled(
        device,
        stencil,
        {**pointers, "n": "i32", "steps": "i32"},
        {"SIZE": size, "STEPS": steps, "LOOP": loop, "HOW": how},
        launch_cooperative_grid=True,
    )
    x = np.random.default_rng(n).integers(0, 1000, n).astype(np.uint32)
    expected = x
    for _ in range(steps):
        padded = np.pad(expected, 1)
        expected = padded[:-2] + padded[1:-1] + padded[2:]
    try:
        kernel[programs,](x, np.zeros_like(x), np.zeros(1, np.int32), n, steps)
    except OutOfResourcesError as error:
        if programs == 1:
            raise
        pytest.skip(str(error))
    np.testing.assert_array_equal(x, expected)


@tile.jit
def sum_of_dots(x_ptr, w_ptr, o_ptr, n, COUNT: tl.constexpr, HOW: tl.constexpr):
    """Add up COUNT dots; those of an even `k` are taken `n` times, the others once."""
    i = tl.arange(0, 16)
    tile_at = i[:, None] * 16 + i[None, :]
    total = tl.zeros((16, 16), tl.float32)
    for k in tl.static_range(COUNT):
        x_at, w_at = x_ptr + k * 256 + tile_at, w_ptr + k * 256 + tile_at
        if HOW == "loop":
            for _ in range(n if k % 2 == 0 else 1):
                x = tl.load(x_at, mask=tile_at < 250, other=0.0)
                total = tl.dot(x, tl.load(w_at), total, input_precision="ieee")
        elif HOW == "if":
            if n > k % 2:
                x = tl.load(x_at, mask=tile_at < 250, other=0.0)
                total = tl.dot(x, tl.load(w_at), total, input_precision="ieee")
            else:
                total += 1.0
    tl.store(o_ptr + tile_at, total)


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("how", ["loop", "if"])
def test_nine_dots(device: Device, how: str, n: int) -> None:
    """PoCL took twice as long for each dot that is under a condition or in a loop."""
    types = {"x_ptr": "*fp32", "w_ptr": "*fp32", "o_ptr": "*fp32", "n": "i32"}
    kernel = compiled(device, sum_of_dots, types, {"COUNT": 9, "HOW": how})
    rng = np.random.default_rng(n)
    x, w = rng.integers(0, 4, (2, 9, 16, 16)).astype(np.float32)
    out = np.zeros((16, 16), np.float32)
    kernel[1,](x, w, out, n)
    x.reshape(9, 256)[:, 250:] = 0
    expected = np.zeros((16, 16), np.float32)
    for k in range(9):
        odd = k % 2
        if how == "loop":
            expected += (1 if odd else n) * (x[k] @ w[k])
        else:
            expected += x[k] @ w[k] if n > odd else 1.0
    np.testing.assert_array_equal(out, expected)


def compiled(
    device: Device, kernel: Any, types: dict[str, str], constants: dict[str, Any], **options: Any
) -> Any:
    options |= {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    return tile.compile(kernel, types, constants, options, device.target)
