"""Fixtures of the OpenCL backend's tests, which are skipped without a runtime."""

from __future__ import annotations

import pytest

from tests import pocl
from tests.fuzz import generate
from tests.fuzz.axes import scatter_of
from tile.errors import BackendError

try:
    from tile.backends.opencl import devices

    REASON = "" if devices.all_devices() else "there is no OpenCL device"
    pocl.name_cpus()
except ModuleNotFoundError as missing:
    REASON = f"{missing.name} is not installed"
except BackendError as error:
    REASON = error.message


@pytest.fixture
def runtime() -> None:
    """Skip where no OpenCL device is there."""
    if REASON:
        pytest.skip(REASON)


@pytest.fixture
def earlier_makers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw kernels by their numbers as before there was `tl.scatter`, when they were found wrong."""
    earlier = tuple(maker for maker in generate.MAKERS if maker[1] is not scatter_of)
    monkeypatch.setattr(generate, "MAKERS", earlier)
