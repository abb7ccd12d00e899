"""Linear algebra over F2 against counting out every vector of small spaces."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tile.simt.layouts import f2

BITS = 5
VECTORS = st.lists(st.integers(0, (1 << BITS) - 1), max_size=BITS)


def span(vectors: list[int]) -> set[int]:
    result = {0}
    for vector in vectors:
        result |= {vector ^ other for other in result}
    return result


@given(VECTORS, st.integers(0, (1 << BITS) - 1))
def test_multiply_adds_the_chosen_columns(columns: list[int], chosen: int) -> None:
    chosen &= (1 << len(columns)) - 1
    total = 0
    for index, column in enumerate(columns):
        total ^= column * (chosen >> index & 1)
    assert f2.multiply(columns, chosen) == total


@given(VECTORS)
def test_a_basis_spans_the_same_with_as_few_as_can_be(vectors: list[int]) -> None:
    basis = f2.basis(vectors)
    assert span(basis) == span(vectors)
    assert len(span(basis)) == 1 << len(basis) == 1 << f2.rank(vectors)


@given(VECTORS)
def test_a_kernel_is_all_that_goes_to_zero(columns: list[int]) -> None:
    zeros = {x for x in range(1 << len(columns)) if f2.multiply(columns, x) == 0}
    kernel = f2.kernel(columns)
    assert span(kernel) == zeros
    assert len(f2.basis(kernel)) == len(kernel)


@given(VECTORS, VECTORS)
def test_an_intersection_is_what_is_in_both(a: list[int], b: list[int]) -> None:
    shared = f2.intersection(a, b)
    assert span(shared) == span(a) & span(b)
    assert len(f2.basis(shared)) == len(shared)


@given(VECTORS, VECTORS)
def test_extending_adds_a_complement(space: list[int], within: list[int]) -> None:
    added = f2.extend(space, within)
    assert set(added) <= set(within)
    assert span(space + added) == span(space + within)
    assert span(added) & span(space) == {0}
    assert len(added) == f2.rank(space + within) - f2.rank(space)


@settings(max_examples=200)
@given(VECTORS, VECTORS, VECTORS)
def test_two_spaces_have_a_common_complement(p: list[int], q: list[int], more: list[int]) -> None:
    within = p + q + more
    vectors = f2.common_complement(p, q, within)
    assert span(vectors) <= span(within)
    assert span(vectors) & span(p) == {0}
    assert span(vectors) & span(q) == {0}
    assert f2.rank(vectors) == len(vectors) == f2.rank(within) - max(f2.rank(p), f2.rank(q))


@given(VECTORS, st.data())
def test_an_elimination_is_linear_and_keeps_its_definitions(
    vectors: list[int], data: st.DataObject
) -> None:
    images = [data.draw(st.integers(0, 255)) for _ in vectors]
    elimination = f2.Elimination()
    truth = {0: 0}
    for vector, image in zip(vectors, images, strict=True):
        difference = elimination.define(vector, image)
        if vector in truth:
            assert difference == truth[vector] ^ image
        else:
            assert difference is None
            truth |= {vector ^ other: image ^ had for other, had in truth.items()}
    for vector in range(1 << BITS):
        assert elimination.image(vector) == truth.get(vector)
