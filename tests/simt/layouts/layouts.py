"""Random layouts, and what a layout says, worked out index by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tile.simt.layouts.dims import named
from tile.simt.layouts.linear_layout import LinearLayout

THREADS = ("register", "lane", "warp")


def held(layout: LinearLayout) -> dict[str, Any]:
    """The coordinates at every index, each the XOR of the bases of the index's set bits."""
    numbers = np.indices([layout.in_size(name) for name in layout.in_dims])
    table = {name: np.zeros(numbers.shape[1:], np.int64) for name in layout.out_dims}
    for name, number in zip(layout.in_dims, numbers, strict=True):
        for bit, basis in enumerate(layout.bases(name)):
            for out, step in zip(layout.out_dims, basis, strict=True):
                table[out] ^= np.where(number & 1 << bit, step, 0)
    return table


def elements(layout: LinearLayout) -> Any:
    """The number of the element at every index, as NumPy numbers those of an array."""
    coordinates = held(layout)
    return np.ravel_multi_index([coordinates[n] for n in layout.out_dims], layout.shape)


def dims(names: Sequence[str], most: int = 3) -> st.SearchStrategy[tuple[tuple[str, int], ...]]:
    """Some of these dimensions, in any order, each of up to `most` bits."""
    return st.lists(
        st.tuples(st.sampled_from(names), st.integers(0, most)),
        min_size=1,
        max_size=len(names),
        unique_by=lambda dim: dim[0],
    ).map(tuple)


@st.composite
def layouts(
    draw: Any,
    ins: Any = None,
    outs: Any = None,
) -> LinearLayout:
    """Any layout at all, of the given dimensions or others."""
    of = draw(dims(("register", "lane", "warp")) if ins is None else ins)
    to = draw(dims(("dim0", "dim1", "dim2")) if outs is None else outs)
    total = sum(bits for _, bits in to)
    columns = st.integers(0, (1 << total) - 1)
    return LinearLayout(
        tuple(
            (name, tuple(draw(st.lists(columns, min_size=bits, max_size=bits))))
            for name, bits in of
        ),
        to,
    )


def invertible(draw: Any, bits: int) -> list[int]:
    """The columns of a random invertible matrix: a permutation, then rows added to one another."""
    columns = [1 << bit for bit in draw(st.permutations(range(bits)))]
    if bits > 1:
        pairs = st.tuples(st.integers(0, bits - 1), st.integers(0, bits - 1))
        for source, target in draw(st.lists(pairs, max_size=2 * bits)):
            if source != target:
                columns[target] ^= columns[source]
    return columns


@st.composite
def bijections(draw: Any, ins: Any, outs: Any) -> LinearLayout:
    """A bijective layout; the last input takes the bits that the outputs have beyond the others."""
    of, to = draw(ins), draw(outs)
    total = sum(bits for _, bits in to)
    columns = invertible(draw, total)
    table = []
    for position, (name, bits) in enumerate(of):
        taken = total if position == len(of) - 1 else min(bits, total)
        table.append((name, tuple(columns[:taken])))
        columns = columns[taken:]
        total -= taken
    return LinearLayout(tuple(table), to)


@st.composite
def distributed(
    draw: Any,
    shape: Sequence[int],
    lanes: int = 5,
    warps: int = 0,
    plain: bool | None = None,
    copies: bool | None = None,
) -> LinearLayout:
    """A surjective layout of (register, lane, warp) of a tile, with or without copies.

    A plain one moves along one dimension with every bit, as those of programs do.
    """
    outs = named(shape)
    total = sum(bits for _, bits in outs)
    plain = draw(st.booleans()) if plain is None else plain
    columns = (
        [1 << bit for bit in draw(st.permutations(range(total)))]
        if plain
        else invertible(draw, total)
    )
    spare = 0
    if draw(st.booleans()) if copies is None else copies:
        spare = draw(st.integers(1, 3))
    spare = max(spare, lanes + warps - total)
    copied = st.just(0) if plain else st.integers(0, (1 << total) - 1)
    columns = draw(st.permutations(columns + [draw(copied) for _ in range(spare)]))
    of = {"lane": lanes, "warp": warps, "register": len(columns) - lanes - warps}
    table = {}
    for name, bits in of.items():
        table[name], columns = tuple(columns[:bits]), columns[bits:]
    return LinearLayout(tuple((name, table[name]) for name in THREADS), outs)
