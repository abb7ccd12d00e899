"""The backend under test, chosen by `--backend`."""

from __future__ import annotations

import pytest

from tests.conformance.running import Device


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """The backend under test."""
    return Device(request.config.getoption("--backend"))
