"""The page of a trace as a person sees it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tile
from docs.traced_program import main, transpose
from tests.pages.browser import Browser
from tile.diagnostics.pages.svg import times
from tile.diagnostics.trace import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    with tile.trace() as trace:
        main()
    return trace


@pytest.fixture
def opened(trace: Trace, page: Path, browser: Browser) -> Browser:
    browser.open(trace.html(page))
    return browser


def test_highlighted_lines_are_those_that_reach_memory(opened: Browser, trace: Trace) -> None:
    wanted = {
        str(site.loc.line): site.verb
        for use in trace.kernels
        for site in use.sites
        if site.loc is not None
    }
    rows = opened.all("section .source tr.marked")
    seen = {
        row.get_attribute("data-line"): row.find_element("css selector", ".chip").text
        for row in rows
    }
    assert {line: chip.split()[0] for line, chip in seen.items()} == wanted


def test_numbers_of_lines(opened: Browser) -> None:
    rows = [row.text for row in opened.all("#kernel-1 table.lines tbody tr")]
    assert len(rows) == 3
    assert "triangle:23" in rows[0]
    assert "reads a_ptr" in rows[0]
    assert "7,800" in rows[0]  # sectors
    assert "29%" in rows[0]  # masked off
    assert "writes o_ptr" in rows[2]


def test_arrays_are_drawn_with_what_was_done(opened: Browser) -> None:
    titles = opened.texts("#kernel-2 h3 code")
    assert titles == [
        f"x_ptr: float32, {times([200, 160])}",
        f"o_ptr: float32, {times([160, 200])}",
    ]
    assert opened.texts("#kernel-2 figure h4") == ["Reads", "Writes"]
    assert opened.all("#kernel-2 rect.read")
    assert opened.all("#kernel-2 rect.written")
    reuse = " ".join(opened.texts("#kernel-1 .reuse td:first-child"))
    assert "for the first time" in reuse
    assert "after an adjacent program" in reuse


def test_what_nobody_reads_is_not_drawn(opened: Browser) -> None:
    """The upper triangle of the square matrix is masked off: one more column in each row of cells."""
    ends = opened.script(
        "return [...document.querySelectorAll('#kernel-1-array-0-read rect.read')]"
        ".map(r => [Number(r.getAttribute('y')), Number(r.getAttribute('x')) + Number(r.getAttribute('width'))])"
    )
    last: dict[float, float] = {}
    for y, right in ends:
        last[y] = max(right, last.get(y, 0))
    rights = [right for _, right in sorted(last.items())]
    assert len(rights) == 40  # five rows of the matrix in each
    assert rights == sorted(rights)
    assert rights[0] < rights[20] < rights[-1]


@pytest.mark.parametrize("width", [320, 360, 768, 1200])
def test_nothing_overflows(trace: Trace, page: Path, browser: Browser, width: int) -> None:
    browser.open(trace.html(page), width, 740)
    for summary in browser.all("summary"):
        browser.script("arguments[0].parentNode.open = true", summary)
    assert browser.outside() == []


def test_pages_are_bounded(page: Path, browser: Browser) -> None:
    x, out = np.zeros((2000, 3000), np.int8), np.zeros((3000, 2000), np.int8)
    with tile.trace() as trace:
        transpose[(63, 94)](x, out, 2000, 3000, M=32, N=32)
    trace.html(page)
    assert page.stat().st_size < 1_500_000
    browser.open(page, 360, 740)
    assert browser.outside() == []


def test_no_launches(page: Path, browser: Browser) -> None:
    browser.open(Trace().html(page))
    assert browser.texts("h1") == ["No launches"]
