"""The backend under test, chosen by `--backend`."""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import oclgrind, pocl
from tests.conformance.differing import TABLE
from tests.conformance.running import Device
from tile.backends.base import Options


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--differing`, keep the tests that the table has for the backend under test.

    An entry of the table that matches no test is an error: a renamed test would be left out silently.
    """
    if not config.getoption("--differing"):
        return
    target = config.getoption("--backend")
    if target not in TABLE:
        raise pytest.UsageError(f"--differing: the table has {', '.join(TABLE)}, not {target}")
    names = [f"{item.path.name}::{item.name}" for item in items]
    table = [beginning for group in TABLE[target] for beginning in group.tests]
    unknown = [begin for begin in table if not any(name.startswith(begin) for name in names)]
    if unknown:
        raise pytest.UsageError(f"--differing: no test's name begins with {', '.join(unknown)}")
    chosen = [any(group.has(name) for group in TABLE[target]) for name in names]
    config.hook.pytest_deselected(items=list(itertools.compress(items, map(operator.not_, chosen))))
    items[:] = itertools.compress(items, chosen)


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """The backend under test."""
    option = request.config.getoption
    options = Options(num_warps=option("--num-warps"), num_stages=option("--num-stages"))
    if option("--backend").startswith("opencl"):
        pocl.name_cpus()
    return Device(option("--backend"), options)


@pytest.fixture(scope="session")
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """Return the file to which Oclgrind, if it is under test, writes errors; it is read at its start."""
    if "oclgrind" not in request.config.getoption("--backend"):
        return None
    path = tmp_path_factory.mktemp("oclgrind") / "log"
    os.environ.update(oclgrind.checking(path))
    return path


@pytest.fixture(autouse=True)
def nothing_is_logged(log: Path | None) -> Iterator[None]:
    """Oclgrind goes on after a race, an access out of bounds or divergence; the test fails."""
    before = _text(log)
    yield
    assert _text(log) == before


def _text(log: Path | None) -> str:
    return log.read_text("utf-8") if log is not None and log.exists() else ""
