"""`pytest --tile-sanitize`: run the kernels of tests on the interpreter, under checks.

A fault fails its test with the error that names the line. The settings are environment variables,
so that threads and processes started by tests inherit them.

Every run of pytest in an environment with this package loads this module. It is therefore outside
the package, and imports the package only if the option is used.
"""

from __future__ import annotations

import os

import pytest

TRITON = "TILE_TRITON"
OPTION = "--tile-sanitize"
ALL = "all"
CHECKS = ("bounds", "race", "undef", "overflow", "assume", "deadlock")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the option."""
    parser.getgroup("tile").addoption(
        OPTION,
        nargs="?",
        const=ALL,
        metavar="CHECKS",
        help=f"run kernels of tile on its interpreter under all checks; {OPTION}=CHECKS: under "
        f"some of {', '.join(CHECKS)}, separated by commas",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> None:
    """Install the modules of Triton that TILE_TRITON asks for, before any test is imported.

    Write an option without checks as `--tile-sanitize=all`.

    argparse would take the next argument, often the path of a test, as the value of the option.
    pytest has parsed the arguments once already, to find the initial conftest files.
    """
    if os.environ.get(TRITON, "0") not in ("", "0"):
        from tile.compat import install_announced

        install_announced()
    end = args.index("--") if "--" in args else len(args)
    if OPTION in args[:end]:
        options = [f"{OPTION}={ALL}" if word == OPTION else word for word in args[:end]]
        args[:end] = options
        early_config.known_args_namespace.file_or_dir = parser.parse_known_args(args).file_or_dir


def pytest_configure(config: pytest.Config) -> None:
    """Activate the settings. An unknown check ends the run with pytest's usage error."""
    checks = config.getoption(OPTION)
    if checks is None:
        return
    from tile.checks import parse_checks
    from tile.config import Config
    from tile.tools.pytest_summary import CheckSummary

    try:
        parse_checks(checks)
    except ValueError as error:
        raise pytest.UsageError(f"{OPTION}={checks}: {error}") from None
    variables = Config.variables()
    environment = pytest.MonkeyPatch()
    environment.setenv(variables["backend"].name, "interp")
    environment.setenv(variables["interp_level"].name, "tile")
    environment.setenv(variables["sanitize"].name, checks)
    config.add_cleanup(environment.undo)
    summary = CheckSummary()
    config.pluginmanager.register(summary)
    config.add_cleanup(summary.stop)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return a line that names the checks."""
    checks = config.getoption(OPTION)
    return None if checks is None else f"tile: on the interpreter, with checks {checks}"
