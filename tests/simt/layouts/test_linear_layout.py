"""The laws of the algebra, against layouts worked out index by index."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import examples
from tests.simt.layouts.layouts import (
    bijections,
    dims,
    distributed,
    elements,
    held,
    invertible,
    layouts,
)
from tile.simt.layouts.dims import LayoutError, bit_positions
from tile.simt.layouts.linear_layout import LinearLayout, identity1d, zeros1d

THREADS = ("register", "lane", "warp")
AXES = ("dim0", "dim1", "dim2")
EXAMPLES = examples(15)


def chains(draw: Any, length: int) -> list[LinearLayout]:
    """Layouts of which each takes what the next one gives."""
    names = ["a", "b", "c", "d", "e"]
    between = [draw(dims((f"{name}0", f"{name}1"))) for name in names[: length + 1]]
    chain = [layouts(ins=st.just(of), outs=st.just(to)) for of, to in pairwise(between)]
    return [draw(layout) for layout in chain[::-1]]


CHAINS = st.composite(lambda draw, length: chains(draw, length))


def same(layout: LinearLayout, coordinates: dict[str, Any]) -> bool:
    own = held(layout)
    return own.keys() == coordinates.keys() and all(
        np.array_equal(own[name], coordinates[name]) for name in own
    )


# What a layout says.


@EXAMPLES
@given(layouts())
def test_a_table_has_the_sum_of_the_bases(layout: LinearLayout) -> None:
    table = layout.table()
    assert same(layout, table)
    assert [*table] == [*layout.out_dims]


@EXAMPLES
@given(layouts(), st.data())
def test_apply_to_one_index_and_to_arrays(layout: LinearLayout, data: Any) -> None:
    table = held(layout)
    index = tuple(data.draw(st.integers(0, layout.in_size(n) - 1)) for n in layout.in_dims)
    one = layout.apply(**dict(zip(layout.in_dims, index, strict=True)))
    assert one == {name: int(table[name][index]) for name in layout.out_dims}
    assert all(type(number) is int for number in one.values())
    grids = np.indices([layout.in_size(n) for n in layout.in_dims])
    every = layout.apply(**dict(zip(layout.in_dims, grids, strict=True)))
    assert same(layout, every)


def test_apply_leaves_out_and_broadcasts() -> None:
    layout = LinearLayout.of({"register": [[1]], "lane": [[2], [0]]}, [4])
    assert layout.apply(lane=1) == {"dim0": 2}
    assert layout.apply() == {"dim0": 0}
    both = layout.apply(register=np.arange(2)[:, None], lane=np.arange(4, dtype=np.uint8))["dim0"]
    assert both.tolist() == [[0, 2, 0, 2], [1, 3, 1, 3]]
    assert layout.apply(lane=np.zeros((2, 3), int))["dim0"].shape == (2, 3)


@pytest.mark.parametrize("index", [{"register": 2}, {"register": -1}, {"lane": np.array([0, 4])}])
def test_apply_refuses_what_is_no_index(index: Any) -> None:
    layout = LinearLayout.of({"register": [[1]], "lane": [[2], [0]]}, [4])
    with pytest.raises(LayoutError, match=r"(register is 0 to 1|lane is 0 to 3), which .* is not"):
        layout.apply(**index)


@EXAMPLES
@given(layouts())
def test_bases_make_the_layout_again(layout: LinearLayout) -> None:
    again = LinearLayout.of(
        {name: layout.bases(name) for name in layout.in_dims},
        {name: layout.out_size(name) for name in layout.out_dims},
    )
    assert again == layout
    assert hash(again) == hash(layout)
    assert pickle.loads(pickle.dumps(layout)) == layout


# Chains and inverses.


@EXAMPLES
@given(CHAINS(2))
def test_a_chain_goes_through_one_and_then_the_other(chain: list[LinearLayout]) -> None:
    outer, inner = chain
    assert same(outer @ inner, outer.apply(**held(inner)))


@EXAMPLES
@given(CHAINS(3))
def test_chains_are_associative(chain: list[LinearLayout]) -> None:
    a, b, c = chain
    assert (a @ b) @ c == a @ (b @ c)


@EXAMPLES
@given(layouts())
def test_identities_are_neutral_in_chains_and_products(layout: LinearLayout) -> None:
    nothing = LinearLayout((), ())
    before, after = nothing, nothing
    for name in layout.in_dims:
        before *= identity1d(layout.in_size(name), name, name)
    for name in layout.out_dims:
        after *= identity1d(layout.out_size(name), name, name)
    assert after @ layout @ before == layout
    assert nothing * layout == layout * nothing == layout


@EXAMPLES
@given(bijections(dims(THREADS), dims(AXES)))
def test_an_inverse_undoes_on_both_sides(layout: LinearLayout) -> None:
    inverse = layout.invert()
    assert (inverse @ layout).is_identity_on(*layout.in_dims)
    assert (layout @ inverse).is_identity_on(*layout.out_dims)
    assert inverse.invert() == layout
    assert layout.is_bijective()


@EXAMPLES
@given(bijections(dims(THREADS), dims(AXES)), st.data())
def test_the_inverse_of_a_chain_is_the_chain_of_inverses(inner: LinearLayout, data: Any) -> None:
    columns = invertible(data.draw, sum(bits for _, bits in inner.outs))
    at = bit_positions(inner.outs)
    ins = [(name, tuple(columns[at[name] : at[name] + bits])) for name, bits in inner.outs]
    outer = LinearLayout(tuple(ins), (("y", len(columns)),))
    assert (outer @ inner).invert() == inner.invert() @ outer.invert()


@EXAMPLES
@given(layouts())
def test_a_pseudo_inverse_is_as_near_as_can_be(layout: LinearLayout) -> None:
    inverse = layout.pseudo_invert()
    assert layout @ inverse @ layout == layout
    assert inverse @ layout @ inverse == inverse
    free = layout.free_variables()
    chosen = held(inverse)
    assert all(not np.any(chosen[name] & mask) for name, mask in free.items())
    if layout.is_surjective():
        assert (layout @ inverse).is_identity_on(*layout.out_dims)
    if layout.is_injective():
        assert (inverse @ layout).is_identity_on(*layout.in_dims)


@EXAMPLES
@given(distributed([4, 4], lanes=2, warps=1, plain=True, copies=True))
def test_the_pseudo_inverse_of_plain_layouts_has_the_fewest_bits(layout: LinearLayout) -> None:
    sizes = [layout.in_size(name) for name in layout.in_dims]
    holders: dict[int, int] = {}
    for index, element in np.ndenumerate(elements(layout)):
        bits = sum(number.bit_count() for number in index)
        holders[int(element)] = min(bits, holders.get(int(element), 99))
    inverse = layout.pseudo_invert()
    for row, column in np.ndindex(4, 4):
        index = inverse.apply(dim0=row, dim1=column)
        assert sum(n.bit_count() for n in index.values()) == holders[row * 4 + column], sizes


@EXAMPLES
@given(distributed([4, 8], lanes=2, warps=1), distributed([4, 8], lanes=2, warps=1))
def test_invert_and_compose_finds_each_element_of_the_other(
    here: LinearLayout, there: LinearLayout
) -> None:
    where = here.invert_and_compose(there)
    assert np.array_equal(elements(here)[tuple(held(where).values())], elements(there))
    assert here @ where == there


@EXAMPLES
@given(layouts())
def test_invert_and_compose_with_itself_is_the_identity(layout: LinearLayout) -> None:
    assert layout.invert_and_compose(layout).is_identity_on(*layout.in_dims)


def test_invert_and_compose_stays_at_free_variables_of_the_same_name() -> None:
    here = LinearLayout.of({"register": [[1]], "lane": [[0], [0]]}, [2])
    there = LinearLayout.of({"register": [[0], [0]], "lane": [[1], [0]]}, [2])
    assert str(here.invert_and_compose(there)) == (
        "#linear{register = [[0,0],[0,0]], lane = [[1,1],[0,2]] -> register = 2, lane = 4}"
    )


def test_invert_and_compose_names_what_is_not_held() -> None:
    part = LinearLayout.of({"register": [[1, 0]]}, [2, 2])
    with pytest.raises(LayoutError, match=r"lane basis 1 of .* is in no index of"):
        part.invert_and_compose(LinearLayout.of({"lane": [[1, 0], [0, 1]]}, [2, 2]))


# Ranks.


@EXAMPLES
@given(layouts())
def test_ranks_count_elements_and_holders(layout: LinearLayout) -> None:
    values, counts = np.unique(elements(layout), return_counts=True)
    size = int(np.prod(layout.shape))
    assert 1 << layout.rank() == len(values)
    assert layout.is_surjective() == (len(values) == size)
    assert layout.is_injective() == bool(np.all(counts == 1))
    assert layout.is_bijective() == (len(values) == size and bool(np.all(counts == 1)))


@EXAMPLES
@given(layouts())
def test_without_free_variables_each_element_is_held_once(layout: LinearLayout) -> None:
    free = layout.free_variables()
    sizes = [layout.in_size(name) for name in layout.in_dims]
    every = elements(layout)
    once = [
        int(every[index])
        for index in np.ndindex(*sizes)
        if not any(n & free[name] for n, name in zip(index, layout.in_dims, strict=True))
    ]
    assert sorted(once) == sorted({int(element) for element in every.flat})


# Products.


@EXAMPLES
@given(layouts(), layouts())
def test_a_product_has_the_inner_layout_at_each_element_of_the_outer(
    inner: LinearLayout, outer: LinearLayout
) -> None:
    product = inner * outer
    low, high, both = held(inner), held(outer), held(product)
    for index in np.ndindex(*[product.in_size(name) for name in product.in_dims]):
        split = dict(zip(product.in_dims, index, strict=True))
        for name in product.out_dims:
            bits = dict(inner.outs).get(name, 0)
            total = 0
            if name in low:
                at = [split[n] % inner.in_size(n) for n in inner.in_dims]
                total += int(low[name][tuple(at)])
            if name in high:
                above = {n: inner.in_bits(n) if n in inner.in_dims else 0 for n in outer.in_dims}
                at = [split[n] >> above[n] for n in outer.in_dims]
                total += int(high[name][tuple(at)]) << bits
            assert both[name][index] == total


@EXAMPLES
@given(layouts(), layouts(), layouts())
def test_products_are_associative(a: LinearLayout, b: LinearLayout, c: LinearLayout) -> None:
    assert (a * b) * c == a * (b * c)


@EXAMPLES
@given(layouts(), layouts())
def test_division_undoes_a_product(a: LinearLayout, b: LinearLayout) -> None:
    product = a * b
    right = product.divide_left(a)
    assert right is not None
    # The other dimensions of the product are left with size 1.
    assert right.select_ins(*b.in_dims).select_outs(*b.out_dims) == b
    assert all(not right.in_bits(n) for n in right.in_dims if n not in b.in_dims)
    assert (a * right).transpose_ins(*product.in_dims).transpose_outs(*product.out_dims) == product


@settings(max_examples=150, deadline=None)
@given(
    layouts(ins=st.just((("register", 2), ("lane", 1))), outs=st.just((("dim0", 2), ("dim1", 2)))),
    layouts(ins=st.just((("register", 1),)), outs=st.just((("dim1", 1),))),
)
def test_a_quotient_times_the_divisor_is_the_dividend(
    whole: LinearLayout, part: LinearLayout
) -> None:
    outer = whole.divide_left(part)
    if outer is not None:
        assert (part * outer).transpose_outs("dim0", "dim1") == whole
    # None only where no layout would do: all candidates are few enough to try.
    candidates = [
        LinearLayout((("register", (r,)), ("lane", (lane,))), (("dim0", 2), ("dim1", 1)))
        for r in range(8)
        for lane in range(8)
    ]
    assert (outer is None) == all(
        (part * c).transpose_outs("dim0", "dim1") != whole for c in candidates
    )


@EXAMPLES
@given(layouts(ins=dims(("register",)), outs=dims(AXES)), st.integers(0, 2))
def test_a_quotient_takes_identities_away(rest: LinearLayout, bits: int) -> None:
    whole = identity1d(1 << bits, "lane", "lane") * rest
    assert whole.quotient("lane") == rest
    assert whole.is_identity_on("lane")
    assert whole.quotient("register") is None or "register" in rest.out_dims


def test_a_quotient_is_refused_where_something_reaches_the_dimension() -> None:
    swap = LinearLayout.of({"lane": [[2], [1]]}, {"lane": 4})
    assert swap.quotient("lane") is None
    reached = LinearLayout.of({"register": [[1]], "lane": [[1]]}, {"lane": 2})
    assert reached.quotient("lane") is None
    spilled = LinearLayout.of({"register": [[0, 1]], "lane": [[1, 1]]}, {"lane": 2, "register": 2})
    assert spilled.quotient("lane") is None
    smaller = LinearLayout.of({"lane": [[1]]}, {"lane": 4})
    assert smaller.quotient("lane") is None


# Other dimensions.


@EXAMPLES
@given(layouts(), layouts(), st.data())
def test_an_output_of_a_product_is_the_product_of_outputs(
    a: LinearLayout, b: LinearLayout, data: Any
) -> None:
    product = a * b
    names = data.draw(st.lists(st.sampled_from(product.out_dims), unique=True))
    part = a.select_outs(*[n for n in names if n in a.out_dims]) * b.select_outs(
        *[n for n in names if n in b.out_dims]
    )
    assert product.select_outs(*names) == part.transpose_outs(*names)


@EXAMPLES
@given(layouts(), st.data())
def test_transposing_keeps_every_coordinate(layout: LinearLayout, data: Any) -> None:
    ins = data.draw(st.permutations(layout.in_dims))
    outs = data.draw(st.permutations(layout.out_dims))
    other = layout.transpose_ins(*ins).transpose_outs(*outs)
    axes = [layout.in_dims.index(name) for name in ins]
    assert same(other, {name: held(layout)[name].transpose(axes) for name in outs})
    assert other.transpose_ins(*layout.in_dims).transpose_outs(*layout.out_dims) == layout


@EXAMPLES
@given(layouts())
def test_selecting_inputs_leaves_the_others_at_zero(layout: LinearLayout) -> None:
    first, *others = layout.in_dims
    index = (slice(None), *[0] * len(others))
    expected = {name: table[index] for name, table in held(layout).items()}
    assert same(layout.select_ins(first), expected)


@EXAMPLES
@given(layouts(), st.data())
def test_reshaping_is_what_numpy_does(layout: LinearLayout, data: Any) -> None:
    bits = sum(count for _, count in layout.outs)
    cut = data.draw(st.integers(0, bits))
    shape = [1 << cut, 1 << bits - cut]
    assert np.array_equal(elements(layout.reshape_outs(shape)), elements(layout))
    assert layout.reshape_outs(shape).rank() == layout.rank()


@EXAMPLES
@given(layouts(outs=st.just((("dim0", 3), ("dim1", 2)))), st.integers(0, 4), st.integers(0, 4))
def test_wrapping_is_a_remainder(layout: LinearLayout, rows: int, columns: int) -> None:
    wrapped = layout.wrap_outs([1 << rows, 1 << columns])
    assert wrapped.shape == (1 << rows, 1 << columns)
    own = held(layout)
    expected = {"dim0": own["dim0"] % (1 << rows), "dim1": own["dim1"] % (1 << columns)}
    assert same(wrapped, expected)


def test_constructors_of_one_dimension() -> None:
    assert held(identity1d(8, "a", "b"))["b"].tolist() == [*range(8)]
    assert held(zeros1d(4, "a", "b", 2))["b"].tolist() == [0] * 4
    assert zeros1d(4, "a", "b", 2).shape == (2,)


# What is refused.

GOOD = LinearLayout.of({"register": [[0, 1]], "lane": [[1, 0]]}, [2, 2])


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (
            r"lane basis 1 is \[0, 4\]; along dim1 are 0 to 3",
            lambda: LinearLayout.of({"lane": [[0, 1], [0, 4]]}, [2, 4]),
        ),
        (
            r"lane basis 0 is \[-1\]; along dim0 are 0 to 3",
            lambda: LinearLayout.of({"lane": [[-1]]}, [4]),
        ),
        (
            r"lane basis 0 is \[1\]; it takes one number for each of \{'dim0': 2, 'dim1': 4\}",
            lambda: LinearLayout.of({"lane": [[1]]}, [2, 4]),
        ),
        (
            "the size of dim1 is a power of two, and 3 is not",
            lambda: LinearLayout.of({}, [2, 3]),
        ),
        ("'my lane' is not one", lambda: LinearLayout.of({"my lane": []}, [2])),
        (
            "a dimension is named twice in .'a', 'a'.",
            lambda: LinearLayout((("a", ()), ("a", ())), ()),
        ),
        (
            "lane basis 1 is 4, more than 2 bits",
            lambda: LinearLayout((("lane", (1, 4)),), (("x", 2),)),
        ),
        ("has inputs .'register', 'lane'. and not warp", lambda: GOOD.in_size("warp")),
        ("has outputs .'dim0', 'dim1'. and not dim2", lambda: GOOD.select_outs("dim2")),
        (
            r"outputs \{'dim0': 2, 'dim1': 2\} are not indices into inputs \{'register': 2, 'lane': 2\}",
            lambda: GOOD @ GOOD,
        ),
        (
            r"outputs \{'x': 4\} are not indices into inputs \{'x': 2\}",
            lambda: identity1d(2, "x", "y") @ identity1d(4, "a", "x"),
        ),
        ("holds elements more than once", lambda: zeros1d(2, "a", "b").invert()),
        ("does not hold all elements", lambda: LinearLayout.of({"a": [[2]]}, {"b": 4}).invert()),
        ("is not an order of the dimensions", lambda: GOOD.transpose_outs("dim0")),
        ("is not an order of the dimensions", lambda: GOOD.transpose_ins("lane", "lane")),
        ("is not an order of the dimensions", lambda: GOOD.wrap_outs([2])),
        (
            r"\{'dim0': 8\} does not have as many elements as \{'dim0': 2, 'dim1': 2\}",
            lambda: GOOD.reshape_outs([8]),
        ),
        ("a dimension is named twice", lambda: LinearLayout((*GOOD.ins, *GOOD.ins), GOOD.outs)),
        (
            r"outputs \{'dim0': 4, 'dim1': 2\} are not \{'dim0': 2, 'dim1': 2\}",
            lambda: GOOD.invert_and_compose(GOOD.wrap_outs([4, 2])),
        ),
        ("the size of a is a power of two, and 6 is not", lambda: identity1d(6, "a", "b")),
    ],
)
def test_what_is_refused(message: str, wrong: Any) -> None:
    with pytest.raises(LayoutError, match=message):
        wrong()
