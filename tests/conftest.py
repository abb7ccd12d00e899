"""Fixtures of all tests; textual tests are collected like Python ones."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.filecheck import TileFile
from tile.backends.base import Options

# Tests compile what they test; those of the cache switch it on for themselves.
os.environ["TILE_CACHE"] = "0"
# The processes that tests start import this checkout, as the tests do, not an installed copy.
_path = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _path))


# How long examples take says how busy the machine is; Hypothesis' own profile for CI ignores it, too.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "nightly", settings.get_profile("busy"), derandomize=False, print_blob=True
)


def pytest_configure(config: pytest.Config) -> None:
    """Let `-m ""`, which runs `nightly` tests, too, try more examples of properties, and new ones."""
    if not config.option.markexpr:
        settings.load_profile("nightly")
    elif settings.get_current_profile_name() == "default":
        settings.load_profile("busy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, and hide them from it: they stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Hide from the garbage collector what the tests of a file leave: kernels, kept by their functions.

    It would visit the IR of all kernels that were compiled before, which took 5 % of the time.
    """
    if nextitem is not None and nextitem.path != item.path:
        gc.freeze()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect `*.tile` files as textual tests."""
    if file_path.suffix != ".tile":
        return None
    collector: pytest.Collector = TileFile.from_parent(parent, path=file_path)
    return collector


def pytest_addoption(parser: pytest.Parser) -> None:
    """The backend that the conformance suite holds against the op table, and its options."""
    parser.addoption("--backend", default="interp", help="backend under test (default: interp)")
    parser.addoption(
        "--differing",
        action="store_true",
        help="run only the conformance tests whose lowering for this backend differs from others",
    )
    parser.addoption("--kernels", type=int, default=8, help="random kernels for each device (8)")
    for name in ("num_warps", "num_stages"):
        default = getattr(Options(), name)
        option = f"--{name.replace('_', '-')}"
        parser.addoption(option, type=int, default=default, help=f"of launches ({default})")
