"""`pytest --tile-sanitize`: tests whose kernels run on the interpreter, under checks.

A fault fails its test with the error that names the line. The settings are put into the
environment, so that they hold in threads and processes that tests start too.
"""

from __future__ import annotations

import pytest

from tile.checks import choose
from tile.config import Config

_SETTINGS = (Config.variables()["backend"].name, Config.variables()["sanitize"].name)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.getgroup("tile").addoption(
        "--tile-sanitize",
        nargs="?",
        const="all",
        metavar="CHECKS",
        help="run kernels of tile on its interpreter under all checks, or under some of bounds, "
        "race, undef, overflow and assume, by commas",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Put the settings in force. A name that is no check ends the run with pytest's usage error."""
    checks = config.getoption("--tile-sanitize")
    if checks is None:
        return
    try:
        choose(checks)
    except ValueError as error:
        raise pytest.UsageError(f"--tile-sanitize={checks}: {error}") from None
    environment = pytest.MonkeyPatch()
    for name, text in zip(_SETTINGS, ("interp", checks), strict=True):
        environment.setenv(name, text)
    config.add_cleanup(environment.undo)


def pytest_report_header(config: pytest.Config) -> str | None:
    """One line on what is checked."""
    checks = config.getoption("--tile-sanitize")
    return None if checks is None else f"tile: on the interpreter, with checks {checks}"
