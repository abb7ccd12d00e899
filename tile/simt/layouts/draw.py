"""Draw layouts, as text and as SVG: the holder of each element of a tile.

>>> from tile.simt.layouts.blocked import blocked
>>> print(draw(blocked([4, 8], [1, 2], [4, 2], [1, 2])))
warp.lane:register
       0     1     2     3     4     5     6     7
 0 0.0:0 0.0:1 0.1:0 0.1:1 1.0:0 1.0:1 1.1:0 1.1:1
 1 0.2:0 0.2:1 0.3:0 0.3:1 1.2:0 1.2:1 1.3:0 1.3:1
 2 0.4:0 0.4:1 0.5:0 0.5:1 1.4:0 1.4:1 1.5:0 1.5:1
 3 0.6:0 0.6:1 0.7:0 0.7:1 1.6:0 1.6:1 1.7:0 1.7:1
"""

from __future__ import annotations

import colorsys
import html
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tile.simt.layouts.dims import BLOCK, LANE, OFFSET, REGISTER, WARP, require, sizes
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import BANKS

MOST_ELEMENTS = 1 << 14

# From the outermost to the innermost; the register is set off by a colon.
_OUTERMOST = (BLOCK, WARP, LANE, REGISTER)

_CELL, _MARGIN = 20, 32


def draw(layout: LinearLayout) -> str:
    """Return a table of the elements, with rows and columns for the last two axes.

    An entry is the first index that holds the element, in the format of the heading; "+3" after it
    means that three more indices do; "-" that none does. Raises `LayoutError` beyond
    `MOST_ELEMENTS` elements.
    """
    holders = _Holders.of(layout)
    lines = [holders.heading]
    for title, rows in holders.planes():
        labels = [[holders.label(element) for element in row] for row in rows]
        table = [[str(column) for column in range(len(labels[0]))], *labels]
        width = max(len(label) for row in table for label in row)
        lines += [title] if title else []
        for name, row in zip(["", *map(str, range(len(labels)))], table, strict=True):
            lines.append(f"{name:>2} " + " ".join(f"{label:>{width}}" for label in row))
    return "\n".join(lines)


def svg(layout: LinearLayout, element_bits: int = 32) -> str:
    """Return a picture of the elements, one cell each, as the text of an SVG file.

    The color of a cell is that of the lane that holds it, paler for higher warps; in shared memory,
    it is that of the bank, paler for higher lines of banks. Labels are those of `draw`. Raises
    `LayoutError` beyond `MOST_ELEMENTS` elements.
    """
    holders = _Holders.of(layout)
    longest = max(len(holders.label(element)) for element in holders.elements())
    width = max(_CELL, 7 * longest + 6)
    parts: list[str] = []
    bottom = _MARGIN
    right = 0
    for title, rows in holders.planes():
        if title:
            parts.append(_text(4, bottom - 4, title, "start"))
            bottom += _CELL
        parts += [
            _text(_MARGIN + (column + 0.5) * width, bottom - 4, str(column), "middle")
            for column in range(len(rows[0]))
        ]
        for number, row in enumerate(rows):
            parts.append(_text(_MARGIN - 4, bottom + 14, str(number), "end"))
            for column, element in enumerate(row):
                left = _MARGIN + column * width
                color = holders.color(element, element_bits)
                parts.append(
                    f'<rect x="{left}" y="{bottom}" width="{width}" height="{_CELL}"'
                    f' fill="{color}"/>'
                )
                middle = left + width / 2
                parts.append(_text(middle, bottom + 14, holders.label(element), "middle"))
            bottom += _CELL
        bottom += _CELL
        right = max(right, _MARGIN + len(rows[0]) * width + 6)
    parts.insert(0, _text(4, 12, holders.heading, "start"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {bottom}"'
            f' width="{right}" height="{bottom}">',
            f"<title>{html.escape(str(layout))}</title>",
            "<style>text { font: 11px monospace } rect { stroke: #fff }</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{html.escape(text)}</text>'


Element = tuple[int, ...]


@dataclass(frozen=True)
class _Holders:
    """The holders of each element: indices into the inputs that have more than one value."""

    layout: LinearLayout
    names: tuple[str, ...]
    of_element: dict[Element, list[tuple[int, ...]]]

    @classmethod
    def of(cls, layout: LinearLayout) -> _Holders:
        count = math.prod(layout.shape)
        require(
            len(layout.shape) > 0 and count <= MOST_ELEMENTS,
            f"a picture is of 1 to {MOST_ELEMENTS} elements, and not of {list(layout.shape)}",
        )
        names = [name for name, bits in layout.indices if bits] or list(layout.in_dims)
        names.sort(key=lambda name: _OUTERMOST.index(name) if name in _OUTERMOST else -1)
        table = layout.select_ins(*names).table()
        holders: dict[Element, list[tuple[int, ...]]] = {}
        for index in np.ndindex(*[layout.in_size(name) for name in names]):
            element = tuple(int(table[name][index]) for name in layout.out_dims)
            holders.setdefault(element, []).append(index)
        return cls(layout, tuple(names), holders)

    def elements(self) -> Iterator[Element]:
        yield from np.ndindex(*self.layout.shape)

    def planes(self) -> Iterator[tuple[str, list[list[Element]]]]:
        """Yield the elements in rows, for each coordinate of the axes before the last two."""
        *outer, rows, columns = (1, *self.layout.shape)
        for plane in np.ndindex(*outer[1:]):
            named = zip(self.layout.out_dims, plane, strict=False)
            # A tile of one axis is one row.
            inner = [
                [(*plane, row, column)[-len(self.layout.shape) :] for column in range(columns)]
                for row in range(rows)
            ]
            yield ", ".join(f"{name} = {number}" for name, number in named), inner

    @property
    def heading(self) -> str:
        return _joined(self.names, self.names)

    def label(self, element: Element) -> str:
        holders = self.of_element.get(element, [])
        if not holders:
            return "-"
        first = _joined(self.names, tuple(map(str, holders[0])))
        return first if len(holders) == 1 else f"{first}+{len(holders) - 1}"

    def color(self, element: Element, element_bits: int) -> str:
        holders = self.of_element.get(element)
        if not holders:
            return "#ddd"
        index = dict(zip(self.names, holders[0], strict=True))
        counts = sizes(self.layout.indices)
        if OFFSET in index:
            line, bank = divmod(index[OFFSET] * element_bits // BANKS.word_bits, BANKS.count)
            lines = max(1, counts[OFFSET] * element_bits // BANKS.line_bits)
            return _color(bank / BANKS.count, line / lines)
        lanes, warps = counts.get(LANE, 1), counts.get(WARP, 1)
        return _color(index.get(LANE, 0) / lanes, index.get(WARP, 0) / warps)


def _joined(names: tuple[str, ...], shown: tuple[str, ...]) -> str:
    """Join numbers or names, the register after a colon and others after a point."""
    separators = ["", *(":" if name == REGISTER else "." for name in names[1:])]
    return "".join(before + text for before, text in zip(separators, shown, strict=True))


def _color(hue: float, paleness: float) -> str:
    """Return a color on which black text is legible; both arguments are in [0, 1)."""
    channels = colorsys.hls_to_rgb(hue, 0.70 + 0.22 * paleness, 0.65)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)
