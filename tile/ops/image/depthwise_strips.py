"""Strips of depthwise convolutions by rows: their pixels, and how many rows a program has."""

from __future__ import annotations

from typing import Any, NamedTuple

import tile
from tile.ops.core.tables import Configuration
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows
from tile.ops.linear.configurations import PROGRAMS

ELEMENTS = 64  # of a warp
LEAST, MOST, FEW = 3, 25, 9  # rows of windows; elements of windows, and of small ones
REGISTERS, WARPS = 512, 16  # that warps on a fourth of a multiprocessor share, and their number
# The time of a program is that of its steps down the image, and of so many in front of them; that
# of a launch also has so many times the steps of all programs, divided by those that run at a time.
# These and the forms: H200, float16, 2026-11-30 (docs/notes/ops.md).
FIRST, SHARE = 4, 4


class Form(NamedTuple):
    """Pixels of a strip, rows that are loaded early, registers of a thread; time of a step."""

    strip: int
    ahead: int
    registers: int
    warps: int = 1
    time: float = 1.0


# As many rows are early as the loop is unrolled by, so that no register moves while it is loaded: 3
# x 3, 32 x 56 x 56 x 256 30.3 us, with two rows 35.7. Larger windows lack registers for that.
SMALL = (Form(4, 3, 80, 2),)
LARGE = (Form(2, 2, 128), Form(4, 2, 168, time=1.4))
# float32: 32 x 56 x 56 x 128 29.1 us, with strips of 4 pixels 30.1; of 7 x 7 x 960 5.8 and 5.4.
SMALL_SINGLE, LARGE_SINGLE = (Form(2, 3, 80, 2),), (Form(2, 2, 128),)


class Strips(NamedTuple):
    """Strips of a result, `rows` rows by a program; `parts` of these are an image's height."""

    form: Form
    programs: int
    parts: int
    rows: int

    @classmethod
    def of(cls, backend: str, shape: tuple[int, ...], windows: Windows, itemsize: int) -> Strips:
        """Return the fastest strips of a result; itemsize: bytes of an element."""
        r, s = windows.count
        small, large = (SMALL, LARGE) if itemsize == 2 else (SMALL_SINGLE, LARGE_SINGLE)
        forms = small if r * s <= FEW else large
        if backend not in PROGRAMS:
            return cls._of(forms[0], shape, shape[1])
        choices = [
            cls._of(form, shape, tile.cdiv(shape[1], parts))
            for form in forms
            for parts in range(1, max(1, shape[1] // LEAST) + 1)
        ]
        return min(choices, key=lambda each: each._time(PROGRAMS[backend], r))

    @classmethod
    def _of(cls, form: Form, shape: tuple[int, ...], rows: int) -> Strips:
        batches, height, width, channels = shape
        parts = tile.cdiv(height, rows)
        blocks = tile.cdiv(tile.cdiv(width, form.strip) * channels, form.warps * ELEMENTS)
        return cls(form, batches * blocks * parts, parts, rows)

    def _time(self, multiprocessors: int, window_rows: int) -> float:
        warps = 4 * min(WARPS, REGISTERS // self.form.registers)
        resident = warps // self.form.warps * multiprocessors
        steps = self.rows + window_rows - 1
        one_by_one = tile.cdiv(self.programs, resident) * (steps + FIRST)
        return (one_by_one + SHARE * self.programs * steps / resident) * self.form.time

    def options(self, backend: str) -> Configuration:
        """Return the constexprs and options of a launch."""
        options: dict[str, Any] = {"STRIP": self.form.strip, "AHEAD": self.form.ahead}
        options |= {"BLOCK": self.form.warps * ELEMENTS, "num_warps": self.form.warps}
        return options | {"maxnreg": self.form.registers} if backend in PROGRAMS else options


def fit(x: Image, out: Image, windows: Windows) -> bool:
    """Return True if a convolution goes by strips: windows that move by a pixel, channels last.

    Elements have 16 or 32 bits: others take more registers, and are not measured.
    """
    (r, s), plain = windows.count, windows.step == windows.apart == (1, 1)
    same = x.shape[3] == out.shape[3] and x.strides[3] == out.strides[3] == 1
    few = r >= LEAST and 0 < r * s <= MOST and x.operand.dtype.itemsize in (2, 4)
    return plain and same and few and x.shape[1] > 0 < x.shape[2]
