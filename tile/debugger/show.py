"""Values as text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tile.backends.interp.values import Array
from tile.debugger.pointers import DescriptorValue, Pointers
from tile.debugger.source import display_path
from tile.debugger.values import CompileTimeValue, Undefined

MASKED = "--"
OUTSIDE = "!"
ELSEWHERE = "."  # a pointer into an array other than that of its line
ELIDED = 1000  # `p` elides the middle of tiles with more elements, as NumPy does


def show(value: Any, undefined: Undefined | None = None, *, everything: bool = False) -> str:
    """Return a value as text in full: type and shape of a tile, then its elements.

    Undefined elements are shown as `--`, out-of-bounds pointers with `!`.
    """
    limit = sys.maxsize if everything else ELIDED
    if isinstance(value, Pointers):
        return "\n".join(_pointers(value, limit))
    if isinstance(value, DescriptorValue):
        base = next(_arithmetic(value.base, limit))
        return f"descriptor of {base}: shape {value.shape}, strides {value.strides}"
    if isinstance(value, np.ndarray) and value.ndim:
        lines = [f"{value.dtype}, shape {value.shape}", _elements(value, limit)]
    elif isinstance(value, np.ndarray | np.generic):
        lines = [_number(value)]
    elif isinstance(value, tuple):
        lines = [_tuple(value)]
    else:
        lines = [repr(value)]
    if undefined is not None:
        lines.append(_reason(undefined))
    return "\n".join(lines)


def brief(value: Any) -> str:
    """Return a value as one line, for lists of arguments."""
    if isinstance(value, Pointers) and not value.shape:
        return next(_arithmetic(value, ELIDED))
    if isinstance(value, Pointers):
        return f"<pointers to {value.pointee}, shape {value.shape}>"
    if isinstance(value, np.ndarray) and value.ndim:
        return f"<{value.dtype}, shape {value.shape}>"
    return show(value)


def kind(value: Any) -> str:
    """Return a description of a value's kind."""
    if isinstance(value, Pointers):
        return _shaped("pointer", value.shape, f"to {value.pointee}")
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, str | bytes):
        return _shaped("scalar", value.shape, f"of {value.dtype}")
    if isinstance(value, DescriptorValue):
        return f"descriptor of {value.base.pointee}, shape {value.shape}"
    text = value if isinstance(value, CompileTimeValue) else type(value).__name__
    return f"known while the kernel is compiled: {text}"


def _shaped(scalar: str, shape: tuple[int, ...], element: str) -> str:
    tile = {"pointer": "tile of pointers", "scalar": "tile"}[scalar]
    return f"{tile} {element}, shape {shape}" if shape else f"{scalar} {element}"


def _tuple(value: tuple[Any, ...]) -> str:
    inside = ", ".join(map(brief, value))
    return f"({inside},)" if len(value) == 1 else f"({inside})"


def _number(value: Any) -> str:
    return MASKED if np.ma.is_masked(value) else str(value[()])


def _elements(value: Array, limit: int) -> str:
    masked = np.ma.getmaskarray(value)
    if not masked.any():
        return np.array2string(np.ma.getdata(value), threshold=limit)
    # NumPy aligns numbers, but not with the text of masked elements; align the texts instead.
    data = np.ma.getdata(value)
    texts = [np.array2string(element) for element in data[~masked]]
    width = max([len(MASKED), *map(len, texts)])
    return _texts(data, lambda i: MASKED if masked[i] else np.array2string(data[i]), width, limit)


def _texts(data: Array, text: Callable[[Any], str], width: int, limit: int) -> str:
    """Return elements as texts of one width; `text` takes an index."""
    numbers = np.arange(data.size).reshape(data.shape)
    formatter: Any = {"all": lambda n: text(np.unravel_index(int(n), data.shape)).rjust(width)}
    return np.array2string(numbers, threshold=limit, formatter=formatter)


def _reason(undefined: Undefined) -> str:
    count, size = int(undefined.where.sum()), undefined.where.size
    some = f" ({count} of {size} elements)" if size > 1 else ""
    loc = undefined.loc
    location = f", at {display_path(loc.file)}:{loc.line}" if loc is not None else ""
    return f"{MASKED} is undefined{some}: {undefined.text}{location}"


def _pointers(value: Pointers, limit: int) -> Iterator[str]:
    if value.shape:
        yield f"pointers to {value.pointee}, shape {value.shape}"
    yield from _arithmetic(value, limit)
    inside = value.inside
    if inside.all():
        return
    for buffer in value.buffers:
        if buffer is None:
            yield f"{OUTSIDE} is in no array of this launch"
        elif not inside[value.within(buffer)].all():
            array = buffer.array
            yield f"{OUTSIDE} is outside `{buffer.name}`, {array.dtype}, shape {array.shape}"


def _arithmetic(value: Pointers, limit: int) -> Iterator[str]:
    """Yield `x_ptr + [0 1 2]` for each array that the pointers point into."""
    index, inside = value.index, value.inside
    for buffer in value.buffers:
        name = "(no array)" if buffer is None else buffer.name
        here = value.within(buffer)
        numbers = value.addresses if buffer is None else index
        if not value.shape:
            yield f"{name} + {int(numbers)}{'' if inside else OUTSIDE}"
            continue
        suffix = np.where(inside, "" if inside.all() else " ", OUTSIDE)
        texts = np.where(here, np.char.add(numbers.astype(str), suffix), ELSEWHERE)
        width = max(len(str(text)) for text in texts.flat)
        yield f"{name} + {_texts(texts, partial(_text, texts), width, limit)}"


def _text(texts: Array, index: Any) -> str:
    return str(texts[index])
