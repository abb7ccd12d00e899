"""The backend under test, chosen by `--backend`."""

from __future__ import annotations

import pytest

from tests.conformance.running import Device
from tile.backends.base import Options


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """The backend under test."""
    option = request.config.getoption
    options = Options(num_warps=option("--num-warps"), num_stages=option("--num-stages"))
    return Device(option("--backend"), options)
