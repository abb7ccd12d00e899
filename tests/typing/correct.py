"""Uses of each feature of the language that a type checker must accept; they are never compiled.

`assert_type` states the type that a checker must infer, which completion needs. The products of a
tensor and a constexpr are tensors only to pyright: in mypy a constexpr is Any, and so is a product.
"""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import tile
import tile.language as tl

MYPY = False
LIMIT = tl.constexpr(8)
TWICE = LIMIT * 2


@tile.jit
def annotated(x: tl.tensor, n: tl.int32 = 3, ACT: tl.constexpr = None):
    y = x + n
    if ACT is not None:
        y = ACT(y)
    return y.to(tl.float32)


@tile.jit(noinline=True)
def pairs(a, i, b, j):
    return tl.where(a > b, a, b), tl.where(a > b, i, j)


@tile.jit
def add(a, b):
    return a + b


@tile.constexpr_function
def half(n):
    return n // 2


@tile.jit
def arithmetic(x_ptr, out_ptr: tl.const, n: tl.int32, scale: tl.float32, BLOCK: tl.constexpr = 64):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    if not MYPY:
        assert_type(offsets, tl.Tensor)
    inside = (offsets >= 0) & (pid < 7) | ~(offsets == 3)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    assert_type(x, tl.Tensor)
    assert_type(x + 1, tl.Tensor)
    assert_type(2.0 * x, tl.Tensor)
    assert_type(-x / 3, tl.Tensor)
    assert_type(x[:, None], tl.Tensor)
    assert_type(x[0, 1::2], tl.Tensor)
    assert_type(abs(x), tl.Tensor)
    x += x[None, :] * x[:, None] - (1 - x) // 2 % 3
    x = x << 1 ^ 7 if pid > 3 else x
    y = tl.where(inside, x, scale)
    if (pid == 0 and n > 3) or not pid:
        y = -y
    z = x.trans().T.reshape(BLOCK, 2).to(tl.float16) + x.sum(axis=0) + tl.math.exp(x)
    wide: tl.constexpr = BLOCK * 2
    more = tl.zeros((wide, LIMIT), dtype=tl.float32) + tl.full([BLOCK], 0, x.dtype)
    tl.store(out_ptr + offsets, y + z + more, mask=inside)
    tl.static_assert(BLOCK % 8 == 0 and tl.float32.primitive_bitwidth == 32)
    tl.device_print("x", x, len(x), min(pid, LIMIT), max(pid, x.numel), min(x, y))


@tile.jit
def loops(x_ptr, n, BLOCK: tl.constexpr, STAGES: tl.constexpr = 3):
    total = 0.0
    least = float("inf")
    largest = -float("inf")
    for i in range(tl.cdiv(n, BLOCK)):
        start = tl.multiple_of(i * BLOCK, BLOCK)
        x = tl.load(x_ptr + start + tl.arange(0, BLOCK))
        total += tl.sum(x)
        largest = tl.maximum(largest, tl.max(x))
        least = min(least, tl.min(x))
    for k in tl.range(0, n, BLOCK, num_stages=STAGES):
        assert_type(k, tl.Tensor)
        total = total + k.to(tl.float32)
    for j in tl.static_range(4):
        assert_type(j, int)
    for _ in range(tl.program_id(0), half(BLOCK)):
        total += 1
    done = False
    while not done:
        done = total > 3
    tl.store(x_ptr, total + largest - least)


@tile.jit
def functions(x_ptr, desc_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    values, indices = tl.max(x, axis=0, return_indices=True)
    assert_type(values, tl.Tensor)
    lowest, _ = x.min(0, True)
    assert_type(lowest, tl.Tensor)
    assert_type(tl.sum(x, axis=0), tl.Tensor)
    assert_type(tl.reduce(x, 0, add), tl.Tensor)
    assert_type(x.associative_scan(0, add), tl.Tensor)
    a, i = tl.reduce((x, x), 0, pairs)
    assert_type(a, tl.Tensor)
    assert_type(tl.cdiv(x, 3), tl.Tensor)
    assert_type(tl.abs(x), tl.Tensor)
    assert_type(x.dtype, tl.dtype)
    assert_type(x.shape, tuple[int, ...])
    product = tl.dot(x[None, :], x[:, None], acc=tl.zeros((1, 1), tl.float32))
    assert_type(product, tl.Tensor)
    before = tl.atomic_add(x_ptr, 1, mask=values > 0, sem="relaxed")
    before = tl.atomic_cas(x_ptr, before, i)
    desc = tl.make_tensor_descriptor(desc_ptr, [n, n], strides=[n, 1], block_shape=[BLOCK, 8])
    assert_type(desc.load([0, tl.program_id(0)]), tl.Tensor)
    desc.store([0, 0], indices)
    desc.atomic_add([0, 0], x)
    element = x.type.element_ty
    if element.is_floating() and x.dtype == tl.float32:
        x = x.to(tl.pointer_type(tl.float32), bitcast=True)
    if tl.constexpr(element.itemsize) == 4:
        x = annotated(x, 4, ACT=tl.exp)
    x = annotated(x, n) + annotated(x, tl.program_id(1), None)
    first, second = x.split()
    tl.store(x_ptr, tl.join(first, second), cache_modifier=".cg")


tuned = tile.autotune([tile.Config({"BLOCK": 4})], key=["n"])(loops)


def launch(x: np.ndarray[Any, Any]) -> None:
    arithmetic[(1,)](x, x, x.size, 3.0, num_warps=4)
    arithmetic[4](x, x, x.size, 3.0, BLOCK=TWICE)
    compiled = loops[lambda meta: (tile.cdiv(x.size, meta["BLOCK"]),)](x, x.size, BLOCK=4)
    assert_type(compiled, tile.CompiledKernel)
    tuned[(1,)](x, x.size)
    print(tuned.best_config.kwargs, half(3))
