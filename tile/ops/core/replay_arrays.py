"""The source by which a replay gets its arrays, and compares their addresses."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tile.ops.core.call_records import CallPlan, NewArray
from tile.ops.core.generated import Names, tuple_text
from tile.ops.core.new_arrays import row_major, strided_maker, torch_dtype_of
from tile.ops.core.separation import Separation
from tile.runtime.signature import DIVISOR

MOST_COMPARED = 8  # pairs of addresses, which are sorted if there are more
RECENT = 16  # lists of addresses that are known to be right


class AddressCheck:
    """A test that arrays are aligned and lie as they must; `latest` are addresses that pass."""

    def __init__(self, separation: Separation) -> None:
        self._separation = separation
        self.latest: tuple[int, ...] = ()
        self._right = functools.lru_cache(RECENT)(self._check)

    def of(self, addresses: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return addresses, one for each extent of the separation, or None if they are wrong.

        They are the same tuple as in the last call if they are equal.
        """
        latest = self.latest
        if addresses == latest:
            return latest
        if not self._right(addresses):
            return None
        self.latest = addresses
        return addresses

    def _check(self, addresses: tuple[int, ...]) -> bool:
        aligned = not any(address % DIVISOR for address in addresses)
        return aligned and self._separation.holds(addresses)


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
    direct = strided_maker(made.device)
    if direct is not None:
        named = [names.add("c", value) for value in (new.shape, strides, made.dtype)]
        return f"{names.add('empty', direct)}({', '.join(named)})"
    same_dtype = like.dtype == made.dtype
    if same_dtype and like.shape == made.shape and like.stride() == strides:
        return f"{names.add('like', sys.modules['torch'].empty_like)}({word})"
    arguments = [names.add("c", new.shape), names.add("c", strides)]
    if not same_dtype:
        arguments.append(f"dtype={names.add('c', torch_dtype_of(new.dtype))}")
    return f"{word}.new_empty_strided({', '.join(arguments)})"


def device_conditions(made: Sequence[Any], names: Names) -> list[str]:
    """Return a condition that is true if the current device is not that of these tensors."""
    if not made or made[0].device.type != "cuda" or strided_maker(made[0].device) is None:
        return []
    current = names.add("device", sys.modules["torch"]._C._cuda_getDevice)
    return [f"{current}() != {made[0].get_device()}"]


def is_listed(separation: Separation) -> bool:
    """Return True if the addresses of the arrays of a separation are in a tuple, to be tested."""
    return len(separation.pairs) > MOST_COMPARED


def address_word(position: int) -> str:
    """Return the name of the address of the array at a position."""
    return f"~p{position}"


def address_conditions(separation: Separation, read: Sequence[int], names: Names) -> list[str]:
    """Return conditions that are true unless arrays are aligned, and those to write lie apart.

    read: the positions of all arrays whose addresses are read.
    """
    extents, pairs = separation.extents, separation.pairs
    conditions = []
    if is_listed(separation):
        # Launches with the tuple of the one before need not write the addresses again.
        check = names.add("check", AddressCheck(separation))
        addresses = tuple_text(map(address_word, extents))
        conditions.append(f"(~addresses := {check}.of({addresses})) is None")
        read, pairs = [at for at in read if at not in extents], []
    if read:
        conditions.append(f"({' | '.join(map(address_word, read))}) % {DIVISOR}")
    for one, other in pairs:
        low, high = address_word(one), address_word(other)
        below, above = names.add("c", -extents[other]), names.add("c", extents[one])
        equal = f"{high} != {low} and " if separation.may_be_one(one, other) else ""
        conditions.append(f"{equal}{below} < {high} - {low} < {above}")
    return conditions
