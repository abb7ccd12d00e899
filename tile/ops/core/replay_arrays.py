"""The source by which a replay gets its arrays, and compares their addresses."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tile.ops.core.call_records import CallPlan, NewArray
from tile.ops.core.generated import Names, tuple_text
from tile.ops.core.new_arrays import row_major, torch_dtype_of
from tile.ops.core.separation import Separation

MOST_COMPARED = 8  # pairs of addresses, which are sorted if there are more
RECENT = 16  # lists of addresses that are known to be right


def array_words(plan: CallPlan, parameters: Sequence[str]) -> list[str]:
    """Return the names of all arrays of a plan, by position."""
    sources = enumerate(plan.sources)
    words = [parameters[index] if at is None else f"~i{n}" for n, (index, at) in sources]
    return [*words, *(f"~n{at}" for at in range(len(plan.new)))]


def list_statements(
    plan: CallPlan, words: Sequence[str], parameters: Sequence[str]
) -> Iterator[str]:
    """Yield the statements that unpack lists of arrays."""
    items: dict[int, list[str]] = {}
    for (index, at), word in zip(plan.sources, words, strict=False):
        if at is not None:
            items.setdefault(index, []).append(word)
    return (f"{tuple_text(some)} = {parameters[index]}" for index, some in items.items())


def new_array(new: NewArray, like: Any, made: Any, word: str, names: Names) -> str:
    """Return the source of a tensor like `made`, which was made for the one at `new.like`.

    word: the name of the latter.
    """
    strides = row_major(new.shape)
    same_dtype = like.dtype == made.dtype
    if same_dtype and like.shape == made.shape and like.stride() == strides:
        return f"{names.add('like', sys.modules['torch'].empty_like)}({word})"
    arguments = [names.add("c", new.shape), names.add("c", strides)]
    if not same_dtype:
        arguments.append(f"dtype={names.add('c', torch_dtype_of(new.dtype))}")
    return f"{word}.new_empty_strided({', '.join(arguments)})"


def overlap_conditions(
    separation: Separation, address: Callable[[int], str], names: Names
) -> list[str]:
    """Return conditions that are true if an array to write overlaps another one.

    address: returns the name of the address of the array at a position.
    """
    extents = separation.extents
    pairs = [(one, other) for one in separation.outputs for other in extents if one != other]
    if len(pairs) > MOST_COMPARED:
        holds = names.add("holds", functools.lru_cache(RECENT)(separation.holds))
        return [f"not {holds}({tuple_text(map(address, extents))})"]
    conditions = []
    for one, other in pairs:
        low, high = address(one), address(other)
        below, above = names.add("c", -extents[other]), names.add("c", extents[one])
        equal = f"{high} != {low} and " if separation.may_be_one(one, other) else ""
        conditions.append(f"{equal}{below} < {high} - {low} < {above}")
    return conditions
