"""The source by which a replay makes tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from tile.ops.core.generated import Names, tuple_text
from tile.ops.core.new_arrays import Shape, row_major, strided_maker


class NewTensor(NamedTuple):
    """A tensor to make like `made`, which was made for the tensor `like`.

    word: the source of the latter.
    """

    shape: Shape
    like: Any
    word: str
    made: Any

    def text(self, names: Names) -> str:
        """Return the source of the tensor."""
        like, made, strides = self.like, self.made, row_major(self.shape)
        direct = strided_maker(made.device)
        if direct is not None:
            named = [names.add("c", value) for value in (self.shape, strides, made.dtype)]
            return f"{names.add('empty', direct)}({', '.join(named)})"
        same_dtype = like.dtype == made.dtype
        if same_dtype and like.shape == made.shape and like.stride() == strides:
            return f"{names.add('like', sys.modules['torch'].empty_like)}({self.word})"
        arguments = [names.add("c", self.shape), names.add("c", strides)]
        if not same_dtype:
            arguments.append(f"dtype={names.add('c', made.dtype)}")
        return f"{self.word}.new_empty_strided({', '.join(arguments)})"


def tuple_of(tensors: Sequence[NewTensor], names: Names) -> str:
    """Return the source of a tuple of new tensors on one device."""
    direct = strided_maker(tensors[0].made.device)
    if direct is None:
        return tuple_text(one.text(names) for one in tensors)
    shapes = tuple([one.shape for one in tensors])
    dtypes = tuple([one.made.dtype for one in tensors])
    columns = (shapes, tuple(map(row_major, shapes)), dtypes)
    named = [names.add("c", column) for column in columns]
    return f"(*map({', '.join([names.add('empty', direct), *named])}),)"


def device_conditions(made: Sequence[Any], names: Names) -> list[str]:
    """Return a condition that is true if the current device is not that of these tensors."""
    if not made or made[0].device.type != "cuda" or strided_maker(made[0].device) is None:
        return []
    current = names.add("device", sys.modules["torch"]._C._cuda_getDevice)
    return [f"{current}() != {made[0].get_device()}"]
