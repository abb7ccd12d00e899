"""The page of faults as a person sees it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tile
import tile.language as tl
from docs.faulty_program import collect_faults
from tests.pages.browser import Browser
from tile.diagnostics.pages.svg import TIMES
from tile.diagnostics.sanitize import Report


@pytest.fixture(scope="module")
def report() -> Report:
    return collect_faults()


@pytest.fixture
def opened(report: Report, page: Path, browser: Browser) -> Browser:
    browser.open(report.html(page))
    return browser


def test_highlighted_lines_are_those_of_the_faults(opened: Browser, report: Report) -> None:
    wanted: dict[str, set[str]] = {}
    for group in report.groups:
        assert group.loc is not None
        wanted.setdefault(str(group.loc.line), set()).add(
            f"{group.check} {TIMES}{group.executions}"
        )
    rows = opened.all("section > .scroll .source tr.marked")
    seen = {}
    for row in rows:
        chips = {chip.text for chip in row.find_elements("css selector", ".chip")}
        faults = {chip for chip in chips if TIMES in chip}
        if faults:
            seen[row.get_attribute("data-line")] = faults
    assert seen == wanted
    highlighted = opened.texts("section > .scroll .source tr.marked code")
    assert any("the columns are not masked" in line for line in highlighted)


def test_chips_lead_to_their_faults(opened: Browser, report: Report) -> None:
    for chip in opened.all("section > .scroll .source a.chip"):
        key = chip.get_attribute("href").split("#")[1]
        chip.click()
        top = opened.script(
            "return document.getElementById(arguments[0]).getBoundingClientRect().top", key
        )
        assert -1 <= top < 900, chip.text
        (kind,) = opened.texts(f"#{key} h2 .chip")
        assert kind in chip.text


def test_a_chosen_fault_shows_its_tile_program_and_address(opened: Browser) -> None:
    button = opened.all("#fault-1 button.choose")[0]
    button.click()
    titles = opened.script(
        "return [...document.querySelectorAll('rect.chosen title')].map(t => t.textContent)"
    )
    assert [title.split(":")[0] for title in titles] == [
        "[0, 20]",
        "program (0, 0, 0)",
        "element 20 (row 0, column 20)",
    ]
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert opened.all("rect.chosen") == []


def test_choosing_works_by_keyboard(opened: Browser) -> None:
    button = opened.all("#fault-2 button.choose")[0]
    opened.script("arguments[0].focus()", button)
    opened.keys("\ue007")  # Enter
    assert button.get_attribute("aria-pressed") == "true"
    assert len(opened.all("#fault-2 rect.chosen")) == 3
    opened.keys("\ue004")  # Tab leaves it
    assert opened.script("return document.activeElement !== arguments[0]", button)


def test_the_two_sides_of_a_race(opened: Browser) -> None:
    sides = opened.texts("section.race .side > p:first-child")
    assert len(sides) == 4  # of the load with the store, and of the store with itself
    assert "reads count_ptr[" in sides[0]
    assert "writes count_ptr[" in sides[1]
    assert sides[0].split(" reads")[0] != sides[1].split(" writes")[0]  # two programs
    lines = opened.texts("section.race .side .source code")
    assert "tl.load(count_ptr" in lines[0]
    assert "tl.store(count_ptr" in lines[1]
    assert all(opened.all("section.race .drawing.grid rect.other"))
    programs = opened.texts("section.race .entries tbody tr:first-child td:nth-child(2)")
    first, other = sides[1].split(" writes")[0], sides[0].split(" reads")[0]
    assert programs[0] == f"{first} and {other}".replace("program ", "")


@pytest.mark.parametrize("width", [320, 360, 414, 768, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows(
    report: Report, page: Path, browser: Browser, width: int, scheme: str
) -> None:
    browser.open(report.html(page), width, 740, scheme)
    for summary in browser.all("summary"):
        browser.script("arguments[0].parentNode.open = true", summary)
    assert browser.outside() == []


def test_light_and_dark(report: Report, page: Path, browser: Browser) -> None:
    colors = []
    for scheme in ("light", "dark"):
        browser.open(report.html(page), scheme=scheme)
        colors.append(browser.script("return getComputedStyle(document.body).backgroundColor"))
    assert len(set(colors)) == 2


def test_screen_readers_get_tables(opened: Browser) -> None:
    assert len(opened.all("h1")) == 1
    levels = opened.script(
        "return [...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))"
    )
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for picture in opened.all("svg"):
        assert picture.get_attribute("role") == "img"
        assert "Wrong: " in picture.get_attribute("aria-label")
    tables = opened.all("figure table")
    assert len(tables) == len(opened.all("svg"))
    identifiers = opened.script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(identifiers) == len(set(identifiers))


@tile.jit
def everything(x_ptr, n, B: tl.constexpr):  # </code><script>alert("a line of source")</script>
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i + n, 1.0)


def test_large_ones_are_drawn_at_bounded_size(page: Path, browser: Browser) -> None:
    with tile.sanitize("bounds", collect=True) as report:
        everything[(2000,)](np.zeros(1 << 20, np.float32), (1 << 20) - 5, B=1024)
    report.html(page)
    assert page.stat().st_size < 200_000
    browser.open(page, 360, 740)
    assert browser.outside() == []
    assert len(browser.all("rect")) < 1000
    said = " ".join(browser.texts("figcaption p"))
    assert "A cell is" in said
    assert "more lie farther behind it than is drawn" in said
    assert "a line of source" in " ".join(browser.texts("code"))


def test_a_report_without_faults(page: Path, browser: Browser) -> None:
    browser.open(Report().html(page))
    assert browser.texts("h1") == ["Nothing was checked"]
