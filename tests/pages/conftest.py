"""A real browser for the tests of pages: Debian's chromium, driven by selenium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages.browser import Browser

MISSING = (
    "needs a browser: `apt-get install chromium chromium-driver` and `pip install "
    "'tile-compiler[browser]'`"
)


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser of its own for this run."""
    pytest.importorskip("selenium", reason=MISSING)
    programs = shutil.which("chromium"), shutil.which("chromedriver")
    if None in programs:
        pytest.skip(MISSING)
    browser = Browser(tmp_path_factory.mktemp("profile"), *map(str, programs))
    yield browser
    browser.quit()


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    """The browser; a test fails whose pages complained, or asked for anything next to themselves."""
    started.forget()
    yield started
    assert started.complaints() == []
    assert started.requests() == []


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return the path to which a page is written."""
    return tmp_path / "page.html"
