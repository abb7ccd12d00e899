"""Tables of constants as globals and as arguments of launches."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import ArgumentTypeError
from tile.frontend.python.fingerprint import exact_digest

CODEBOOK = tl.constexpr(np.linspace(-1, 1, 16).astype(np.float32))


@tile.jit
def decoded(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, CODEBOOK[tl.load(x_ptr + i) & 15])


@tile.jit
def mapped(x_ptr, out_ptr, TABLE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, TABLE[tl.load(x_ptr + i)])


@pytest.mark.parametrize("target", ["interp", "interp:mma"])
def test_an_array_in_a_global(monkeypatch, target: str) -> None:
    monkeypatch.setenv("TILE_BACKEND", target)
    x, out = np.arange(64, dtype=np.uint8)[::-1].copy(), np.zeros(64, np.float32)
    decoded[1,](x, out, N=64)
    np.testing.assert_array_equal(out, np.linspace(-1, 1, 16).astype(np.float32)[x & 15])


def test_tables_as_arguments_are_part_of_the_key() -> None:
    x, out = np.array([2, 0, 1, 2], np.int32), np.zeros(4, np.float32)
    tables = [np.array(values, np.float32) for values in ([1, 2, 3], [1, 2, 4])]
    for table in (*tables, *tables):
        mapped[1,](x, out, TABLE=tl.constexpr(table), N=4)
        np.testing.assert_array_equal(out, table[x])
    assert len(mapped.cache) == 2
    mapped[1,](x, out, TABLE=(5, 6, 7), N=4)
    np.testing.assert_array_equal(out, [7, 5, 6, 7])


def test_an_array_is_no_constant_by_itself() -> None:
    x, out = np.zeros(4, np.int32), np.zeros(4, np.float32)
    with pytest.raises(ArgumentTypeError, match=r"tl.constexpr\(array\) as a table of constants"):
        mapped[1,](x, out, TABLE=np.zeros(4, np.float32), N=4)


def test_kernels_with_tables_have_an_exact_key() -> None:
    assert exact_digest(decoded, ()) is not None
    assert exact_digest(decoded, CODEBOOK.value) != exact_digest(decoded, CODEBOOK.value[1:])
