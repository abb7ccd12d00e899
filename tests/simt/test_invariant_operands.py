"""Operands of dots in a loop that were computed in front of it: they are in shared memory.

ptxas before 13.1 overwrites registers that a wgmma of the next iteration reads, where a branch, or
the wait for a producer, stands between wgmmas (docs/notes/compiler-bugs.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import lowered
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.module import Module
from tile.ir.types import Fragment
from tile.simt.ops import wgmma
from tile.simt.target import WGMMA

COUNT = 3


@tile.jit
def chained_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, count, N: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """A dot of q and k is the operand of dots with each block of v, one of which is masked."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    q, k = tl.load(q_ptr + i * N + j), tl.load(k_ptr + i * N + j)
    scores = tl.dot(q, k, input_precision=PRECISION).to(q_ptr.dtype.element_ty)
    total = tl.zeros((N, N), dtype=tl.float32)
    for block in range(count):
        v = tl.load(v_ptr + (block * N + i) * N + j)
        part = tl.dot(scores, v, input_precision=PRECISION)
        if block == 1:
            part = tl.where(i >= j, part, 0.0)
        total = tl.dot(part.to(q_ptr.dtype.element_ty), v, total, input_precision=PRECISION)
    tl.store(out_ptr + i * N + j, total)


def chained(kind: str, dtype: Any) -> Kernel:
    def arguments() -> list[Any]:
        q, k, v = (numbers(n * 64, 64, dtype=dtype, seed=n) / 8 for n in (1, 1, COUNT))
        arrays = [x.astype(dtype).reshape(-1) for x in (q, k, v)]
        return [*arrays, np.zeros(64 * 64, np.float32), np.int32(COUNT)]

    pointers = {f"{name}_ptr": f"*{kind}" for name in "qkv"}
    signature = {**pointers, "out_ptr": "*fp32", "count": "i32"}
    constants = {"N": 64, "PRECISION": "tf32"}
    return Kernel(chained_kernel, signature, constants, (1, 1, 1), arguments)


def register_operands(module: Module) -> list[bool]:
    """For each wgmma with `a` in registers, whether a loop around it does not compute them."""
    dots = [op for op in module.walk() if op.defn is wgmma.wgmma]
    taken = [op for op in dots if isinstance(op.inputs[0].type, Fragment)]
    return [op.inputs[0].block is not op.block for op in taken]


@pytest.mark.parametrize(("kind", "dtype"), [("fp16", np.float16), ("fp32", np.float32)])
@pytest.mark.parametrize("producer", [False, True])
def test_they_are_stored(kind: str, dtype: Any, producer: bool) -> None:
    kernel = chained(kind, dtype)
    module = lowered(kernel, WGMMA, 4, 2, warp_specialize=producer)
    assert sum(op.defn is wgmma.wgmma for op in module.walk()) == 3
    assert not any(register_operands(module))
    arguments = kernel.arguments()
    run_threads(module, WGMMA, 4, kernel.grid, arguments)
    q, k, v = (array.reshape(-1, 64, 64).astype(np.float32) for array in arguments[:3])
    parts = (q @ k).astype(dtype).astype(np.float32) @ v
    parts[1] = np.tril(parts[1])
    expected = (parts.astype(dtype).astype(np.float32) @ v).sum(axis=0)
    np.testing.assert_allclose(arguments[3].reshape(64, 64), expected, rtol=2e-2, atol=2e-2)
