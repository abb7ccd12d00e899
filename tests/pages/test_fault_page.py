"""Reports as files; what their pages hold is looked at in a browser, next door."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tile
from docs.faulty_program import collect_faults
from tests.faults.table import CASES
from tile.checks import Check
from tile.diagnostics.pages.fault_page import MAX_SECTIONS, faults_page
from tile.diagnostics.sanitize import Report
from tile.errors import ArgumentValueError


@pytest.fixture(scope="module")
def report() -> Report:
    return collect_faults()


def test_saved_by_the_ending_of_the_path(report: Report, tmp_path: Path) -> None:
    for name, text in (
        ("r.html", report.to_html()),
        ("r.HTML", report.to_html()),
        ("r.json", report.to_json()),
        ("r.txt", f"{report}\n"),
    ):
        assert report.save(str(tmp_path / name)) == tmp_path / name
        assert (tmp_path / name).read_text("utf-8") == text
    assert report.html(tmp_path / "any.name").read_text("utf-8") == report.to_html()


def test_other_endings_are_refused(report: Report, tmp_path: Path) -> None:
    with pytest.raises(ArgumentValueError, match=r"one of \.html, \.json, \.txt; .*pdf' has"):
        report.save(tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_loses_nothing(report: Report, tmp_path: Path) -> None:
    before = str(report)
    for path in (tmp_path, tmp_path / "none" / "r.html"):
        with pytest.raises(ArgumentValueError, match="the report cannot be written to") as caught:
            report.html(path)
        assert "another path" in str(caught.value)
    assert str(report) == before
    assert report.html(tmp_path / "r.html").stat().st_size > 10_000


def test_a_saved_report_is_drawn_later(report: Report) -> None:
    assert faults_page(json.loads(report.to_json(indent=1))) == report.to_html()


def test_sources_that_cannot_be_read_are_left_out(report: Report) -> None:
    text = report.to_json().replace("faulty_program.py", "gone.py")
    page = faults_page(json.loads(text))
    assert "gone.py" in page
    assert 'id="source"' not in page


@pytest.mark.parametrize("check", list(Check))
def test_faults_of_every_kind(check: Check) -> None:
    """All planted bugs of a kind make a page; each has its style."""
    with tile.sanitize(collect=True) as faulty:
        for case in CASES.values():
            if case.kind == check:
                case.launch(True)
    page = faulty.to_html()
    assert page.count('<section class="fault') == len(faulty.groups)
    assert f'<section class="fault {check}"' in page
    assert f".{check} {{ --kind" in page
    assert len(page) < 200_000 * len(faulty.groups)


def test_an_empty_report_says_what_was_checked() -> None:
    page = Report().to_html()
    assert "<h1>Nothing was checked</h1>" in page and "No kernel was launched." in page
    with tile.sanitize(collect=True) as sound:
        CASES["off_by_one_grid"].launch(False)
    page = sound.to_html()
    assert "<h1>No faults</h1>" in page
    assert "Checked for bounds, race, undef, overflow, assume, deadlock: 1 launch of" in page


def test_both_programs_of_a_race_are_named(report: Report) -> None:
    race = next(group for group in report.groups if group.check is Check.RACE)
    first = race.faults[0]
    assert first.other is not None
    assert f"<td>{first.program} and {first.other.program}</td>" in report.to_html()


def test_the_end_of_an_array_is_a_line(report: Report) -> None:
    page = report.to_html()
    arrays = page.count('<figure class="drawing array"')
    assert page.count('<path class="end"') == arrays > 0
    assert page.count('<rect class="outside"') > 0


def test_very_many_addresses_are_counted(report: Report) -> None:
    saved = report.as_dict()
    saved["groups"] = saved["groups"] * 30
    page = faults_page(json.loads(json.dumps(saved)))
    assert page.count('<section class="fault') == MAX_SECTIONS
    assert f"{len(saved['groups']) - MAX_SECTIONS} more places" in page


def test_who_waits_is_drawn() -> None:
    with tile.sanitize("none", collect=True) as faulty:
        CASES["barrier_of_too_many"].launch(True)
    (group,) = faulty.groups
    (heat,) = group.extents.grids.values()
    waiting = int(group.faults[0].message.split(" of ")[0])
    assert heat.counts.sum() == waiting > 1


class Links(HTMLParser):
    """Whatever a page could fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.urls += [v or "" for name, v in attrs if name in ("src", "href", "action", "srcset")]


def test_a_page_needs_no_other_files(report: Report) -> None:
    text = report.to_html()
    links = Links()
    links.feed(text)
    assert links.urls
    assert all(link.startswith(("#", "data:")) for link in links.urls)
    assert "@import" not in text
    assert "http" not in text.replace('http-equiv="Content-Security-Policy"', "")
    assert "default-src 'none'" in text


def test_only_pages_load_the_library_of_templates() -> None:
    import subprocess

    code = "import sys, tile, tile.faults, tile.tools.cli; print('jinja2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60
    )
    assert done.stdout == "False\n"
