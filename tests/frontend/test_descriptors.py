"""Descriptors as values of a kernel: selected, loop-carried, passed to functions and returned."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import CompilationError

BACKENDS = ["interp", "interp:generic"]


@tile.jit
def shifted(desc, row, column):
    return desc.load([row + 1, column]), desc


@tile.jit(noinline=True)
def total(desc, rows):
    result = tl.zeros(desc.block_shape, desc.dtype)
    for row in range(0, rows, desc.block_shape[0]):
        result += tl.load_tensor_descriptor(desc, [row, 0])
    return result


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_take_descriptors_and_give_them_back(backend: str) -> None:
    @tile.jit
    def kernel(x, y, M, N: tl.constexpr):
        d = tl.make_tensor_descriptor(x, [M, N], [N, 1], [4, N])
        box, again = shifted(d, 2, -1)
        pair = (again, box)
        pair[0].store([0, 0], pair[1] + total(again, M))
        tl.store(y, d.shape[0] + d.strides[0].to(tl.int32) + d.strides[1].to(tl.int32))

    x, sizes = array(11, 16), np.zeros(1, np.int32)
    expected = x.copy()
    box = np.zeros((4, 16), np.float32)
    box[:, 1:] = x[3:7, :15]
    sums = sum(np.pad(x, ((0, 5), (0, 0)))[r : r + 4] for r in (0, 4, 8))
    expected[:4] = box + sums
    with tile.backend(backend):
        kernel[1,](x, sizes, 11, N=16)
    np.testing.assert_array_equal(x, expected)
    assert sizes[0] == 11 + 16 + 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_descriptors_are_chosen_and_carried(backend: str) -> None:
    @tile.jit
    def kernel(x, y, out, n, N: tl.constexpr):
        pid = tl.program_id(0)
        a = tl.make_tensor_descriptor(x, [n], [1], [N])
        b = tl.make_tensor_descriptor(y, [n - 4], [1], [N])
        d = a if pid == 0 else b
        for k in range(3):
            if k == pid:
                swap = a
                a = b
                b = swap
            d, a = a, d
            if k == 2:
                break
        if pid > 1:
            d = b
        c = tl.make_tensor_descriptor(out, [3, 2, N], [2 * N, N, 1], [1, 1, N])
        c.store([pid, 0, 0], tl.reshape(d.load([0]), (1, 1, N)))
        c.store([pid, 1, 0], tl.reshape(a.load([2]), (1, 1, N)))

    x, y, out = array(20), array(20, seed=1), np.zeros((3, 2, 16), np.float32)
    with tile.backend(backend):
        kernel[3,](x, y, out, 18, N=16)
    for pid in range(3):
        a, b = np.pad(x[:18], (0, 16)), np.pad(y[:14], (0, 16))
        d = a if pid == 0 else b
        for k in range(3):
            if k == pid:
                a, b = b, a
            d, a = a, d
        if pid > 1:
            d = b
        np.testing.assert_array_equal(out[pid], [d[:16], a[2:18]])


def refused(body: str, *words: str) -> None:
    """A kernel with this body, in which `d` and `e` are descriptors, fails to compile."""
    namespace: dict[str, object] = {}
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    source = (
        "def kernel(x, n):\n"
        "    d = tl.make_tensor_descriptor(x, [n], [1], [16])\n"
        "    e = tl.make_tensor_descriptor(x, [n], [1], [32])\n"
        f"{lines}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        import linecache

        name = "<descriptors>"
        patch.setitem(linecache.cache, name, (len(source), None, source.splitlines(True), name))
        exec(compile(source, name, "exec"), {"tl": tl}, namespace)
        with pytest.raises(CompilationError) as caught:
            tile.compile(tile.jit(namespace["kernel"]), {"x": "*fp32", "n": "i32"})
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("y = d + 1", "is a descriptor, which arithmetic does not accept"),
        ("y = d.load([n]) + d", "is a descriptor, which arithmetic does not accept"),
        ("y = tl.load(d)", "is a descriptor, which arithmetic does not accept"),
        ("y = -d", "is a descriptor, which arithmetic does not accept"),
        ("y = tl.where(n > 0, d, d)", "is a descriptor, which arithmetic does not accept"),
        ("y = d.to(tl.float32)", "has no attribute `to`"),
        ("y = d[0]", "too many indices for a value of type desc<16xf32>"),
        ("if d:\n    d = e", "takes a number as its condition, not a descriptor, desc<16xf32>"),
        ("if n > 0:\n    d = e\nd.load([n])", "desc<16xf32>"),
        ("for i in range(n):\n    d.load([i])\n    d = e", "desc<32xf32>"),
        ("d.store([n], 1, 2)", "store_tensor_descriptor"),
        ("d.gather(tl.arange(0, 4), 0)", "blocks of one row, not desc<16xf32>"),
        ("y = d.atomic_xchg([n], 1.0)", "has no attribute `atomic_xchg`"),
    ],
)
def test_what_descriptors_are_not_made_for(body: str, words: str) -> None:
    refused(body, words)
